/// The start of a text, for messages and events that may contain text of any length from a peer.
///
/// It counts bytes: a single `Character` can have any length.
package enum Excerpt {
    package static func of(_ text: String, limit: Int) -> String {
        text.utf8.count <= limit ? text : self.of(bytes: text.utf8, limit: limit)
    }

    /// Returns at most `limit` bytes of a text, followed by an ellipsis if they aren't all of it. Doesn't cut through a scalar.
    package static func of(bytes: some BidirectionalCollection<UInt8>, limit: Int) -> String {
        guard var end = bytes.index(bytes.startIndex, offsetBy: limit, limitedBy: bytes.endIndex), end != bytes.endIndex else {
            return String(decoding: bytes, as: UTF8.self)
        }
        while end != bytes.startIndex, bytes[end] & 0b1100_0000 == 0b1000_0000 { end = bytes.index(before: end) }
        return String(decoding: bytes[..<end], as: UTF8.self) + "…"
    }
}
