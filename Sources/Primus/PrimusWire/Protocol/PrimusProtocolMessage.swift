package import RealtimeCore
import RealtimeSystem

/// A message of Primus itself: a string that begins with `primus::`, encoded by the connection's parser.
///
/// Source: `protocol` in `primus.js` of Primus 8.
package enum PrimusProtocolMessage: Hashable, Sendable {
    /// The server ends the connection on purpose, and the client doesn't reconnect.
    case serverClose
    /// The client asks for the ID of its spark.
    case idRequest
    /// The ID of the spark.
    case id(String)
    /// A heartbeat: of the server since Primus 7, of the client before. The other side answers with the same text, usually digits.
    case ping(String)
    case pong(String)
    /// Another message. It is ignored: a later version may define it.
    case unknown(String)

    static let prefix = "primus::"

    /// Creates the message of a decoded string; `nil` for a string of the application.
    package init?(text: String) {
        guard text.utf8.starts(with: Self.prefix.utf8) else { return nil }
        func value(after prefix: String) -> String? {
            guard text.utf8.starts(with: prefix.utf8) else { return nil }
            return String(text.utf8.dropFirst(prefix.utf8.count))
        }
        if let text = value(after: "primus::ping::") {
            self = .ping(text)
        } else if let text = value(after: "primus::pong::") {
            self = .pong(text)
        } else if let text = value(after: "primus::id::") {
            self = text.isEmpty ? .idRequest : .id(text)
        } else if text.utf8.elementsEqual("primus::server::close".utf8) {
            self = .serverClose
        } else {
            self = .unknown(text)
        }
    }

    /// The string of the message.
    package var text: String {
        switch self {
        case .serverClose: "primus::server::close"
        case .idRequest: "primus::id::"
        case .id(let id): "primus::id::\(id)"
        case .ping(let text): "primus::ping::\(text)"
        case .pong(let text): "primus::pong::\(text)"
        case .unknown(let text): text
        }
    }

    /// Recognizes the message in a packet; `nil` for a packet of the application, which isn't decoded.
    ///
    /// - Parameters:
    ///   - bytes: The packet. Valid UTF-8 if it is text.
    ///   - kind: The kind of the message.
    ///   - coding: The encoding of packets.
    package init?(_ bytes: UnsafeRawBufferPointer, _ kind: TransportMessage.Kind, _ coding: PrimusCoding) {
        switch coding {
        case .json, .ejson: guard kind == .text, Self.beginsJSON(bytes) else { return nil }
        case .messagePack: guard kind == .binary, Self.begins(bytes, 0xA0...0xBF, 0xD9...0xDB) else { return nil }
        case .binary: guard kind == .binary, Self.begins(bytes, 0xB0...0xBF, 0xD8...0xD9) else { return nil }
        case .custom: break
        }
        let packet = TransportMessage(kind, Array(bytes))
        guard let text = try? coding.value(of: packet).string else { return nil }
        self.init(text: text)
    }

    /// Whether a text in JSON begins with a string of Primus. None of them needs an escape sequence at its start.
    private static func beginsJSON(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var start = 0
        while start < bytes.count, bytes[start] == 0x20 || 0x09...0x0D ~= bytes[start] { start += 1 }
        guard start < bytes.count, bytes[start] == UInt8(ascii: "\"") else { return false }
        return Self.hasPrefix(bytes, at: start + 1)
    }

    private static func hasPrefix(_ bytes: UnsafeRawBufferPointer, at start: Int) -> Bool {
        bytes.count >= start + Self.prefix.utf8.count && bytes[start...].starts(with: Self.prefix.utf8)
    }

    /// Whether a string, with its length in the first byte or in the bytes after it, begins with the prefix.
    private static func begins(
        _ bytes: UnsafeRawBufferPointer, _ short: ClosedRange<UInt8>, _ long: ClosedRange<UInt8>
    ) -> Bool {
        guard let first = bytes.first else { return false }
        if short ~= first { return Self.hasPrefix(bytes, at: 1) }
        guard long ~= first else { return false }
        // The length takes one, two or four bytes, in either format; no character of the prefix is a length in them.
        return (2...5).contains { Self.hasPrefix(bytes, at: $0) }
    }

    /// Returns the message as a packet.
    ///
    /// - Throws: The error of the application's parser.
    package func message(_ coding: PrimusCoding) throws -> TransportMessage { try coding.message(.string(self.text)) }
}
