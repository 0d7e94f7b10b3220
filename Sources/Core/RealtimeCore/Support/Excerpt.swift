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

    /// The maximum size of the message of an error, in bytes, and therefore in characters.
    package static let messageLimit = 1_000
    /// The bytes at the end of a message that remain: they often say what to do.
    private static let messageEnd = 250

    /// Returns the message of an error, which may contain texts of a peer. The middle of a message above ``messageLimit`` is left out.
    package static func message(_ text: String) -> String {
        guard text.utf8.count > Self.messageLimit else { return text }
        let ellipsis = 3
        let start = self.of(bytes: text.utf8, limit: Self.messageLimit - Self.messageEnd - ellipsis)
        let end = text.utf8.suffix(Self.messageEnd).drop { $0 & 0b1100_0000 == 0b1000_0000 }
        return start + String(decoding: end, as: UTF8.self)
    }

    /// Returns a text with a period, unless it ends with one or with another mark that ends a sentence.
    package static func sentence(_ text: String) -> String {
        guard let last = text.unicodeScalars.last, ".!?…".unicodeScalars.contains(last) else { return "\(text)." }
        return text
    }
}
