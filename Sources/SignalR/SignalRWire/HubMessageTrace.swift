import RealtimeCoding
package import RealtimeCore

/// Describes the messages of a connection in a trace, with the data of the application. They contain no tokens.
package enum HubMessageTrace {
    /// Returns the text of a WebSocket message. Messages in MessagePack are shown as JSON.
    @Sendable package static func text(_ kind: TransportMessage.Kind, _ payload: ArraySlice<UInt8>) -> String {
        let text =
            switch kind {
            case .text: self.json(payload)
            case .binary: self.messagePack(Array(payload)) ?? self.handshake(payload) ?? "\(payload.count) bytes"
            case .ping, .pong: "\(kind) of \(payload.count) bytes"
            }
        return TracedFrame.excerpt(of: text, byteCount: payload.count)
    }

    private static func json(_ payload: ArraySlice<UInt8>) -> String {
        payload.split(separator: HubHandshake.separator).map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
    }

    /// The handshake is JSON in both formats.
    private static func handshake(_ payload: ArraySlice<UInt8>) -> String? {
        payload.last == HubHandshake.separator ? self.json(payload) : nil
    }

    private static func messagePack(_ bytes: [UInt8]) -> String? {
        var texts: [String] = []
        var start = 0
        while start < bytes.count {
            var prefix = HubLengthPrefix()
            while !prefix.isComplete {
                guard start < bytes.count, (try? prefix.append(bytes[start])) != nil else { return nil }
                start += 1
            }
            guard prefix.value <= bytes.count - start,
                let value = try? MessagePackValue(parsing: Array(bytes[start..<start + prefix.value]))
            else { return nil }
            texts.append(JSONValue(showing: value).description)
            start += prefix.value
        }
        return texts.joined(separator: " ")
    }
}
