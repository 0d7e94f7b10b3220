package import RealtimeJSON

/// What the server's greeting says.
package struct ConnectionEstablished: Hashable, Sendable {
    package var socketID: String
    /// In seconds.
    package var activityTimeout: Int?

    package init(_ data: JSONValue) throws(PusherFrameError) {
        guard let socketID = data["socket_id"]?.string, !socketID.isEmpty else { throw .missing("socket_id") }
        self.socketID = socketID
        self.activityTimeout = data["activity_timeout"]?.int.flatMap { $0 > 0 ? $0 : nil }
    }
}

/// What a `pusher:error` says. Servers leave either part out, and some send words alone.
package struct ServerError: Hashable, Sendable {
    package var code: Int?
    /// The server's words, for people.
    package var message: String
    /// The words as they came.
    package var words: String

    package init(_ frame: PusherFrame) {
        let data = try? frame.dataValue()
        self.code = data?["code"]?.int
        self.words = (data?["message"] ?? data?["error"] ?? data)?.string ?? (data == nil ? frame.dataText : nil) ?? ""
        self.message =
            self.words.isEmpty ? "The server reported an error without words." : Self.withoutQuotes(String(self.words.prefix(500)))
    }

    /// Some servers quote what they were sent: the signature, and the user's data that it covers. Neither belongs into
    /// an error or a log.
    package static func withoutQuotes(_ words: String) -> String {
        var bytes = Array(words.utf8)
        if let start = bytes.firstIndex(of: UInt8(ascii: "{")), let end = bytes.lastIndex(of: UInt8(ascii: "}")), start < end {
            bytes.replaceSubrange(start...end, with: "{…}".utf8)
        }
        var result: [UInt8] = []
        var rest = bytes[...]
        while let first = rest.first {
            let digits = rest.prefix { $0.isHexDigit }
            result += digits.count < 32 ? Array(digits) : Array("…".utf8)
            rest = rest.dropFirst(digits.count)
            if digits.isEmpty {
                result.append(first)
                rest = rest.dropFirst()
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}

extension UInt8 {
    fileprivate var isHexDigit: Bool {
        (0x30...0x39).contains(self) || (0x41...0x46).contains(self) || (0x61...0x66).contains(self)
    }
}
