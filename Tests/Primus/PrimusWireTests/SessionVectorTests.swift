import PrimusWire
import RealtimeCore
import RealtimeEncoding
import TestSupport
import Testing

/// Messages of real servers with each transformer.
@Suite struct SessionVectorTests {
    /// The messages of a recorded connection.
    struct Session: Sendable, CustomTestStringConvertible {
        var server: String
        var title: String
        var received: [WebSocketMessage] = []
        var sent: [WebSocketMessage] = []
        var testDescription: String { "\(self.server), \(self.title)" }

        var framings: (client: PrimusFraming, server: PrimusFraming) {
            switch self.title.split(separator: " ").first {
            case "framed", "broken": (.sockJS(.client), .sockJS(.server))
            case "EIO3": (.engineIO(.v3, .client), .engineIO(.v3, .server))
            // The server takes other versions for 4.
            case "EIO4", "EIO5": (.engineIO(.v4, .client), .engineIO(.v4, .server))
            default: (.plain, .plain)
            }
        }
    }

    static let sessions: [Session] = {
        var sessions: [Session] = []
        var server = ""
        for line in Vectors.lines("primus/sessions-8.0.9-6.1.0.txt") {
            if line.hasPrefix("## ") {
                server = String(line.dropFirst(3))
            } else if line.hasPrefix("# ") {
                sessions.append(Session(server: server, title: String(line.dropFirst(2))))
            } else if let message = Self.message(line.dropFirst(2)), !sessions.isEmpty {
                let last = sessions.endIndex - 1
                if line.hasPrefix("S ") { sessions[last].received.append(message) } else { sessions[last].sent.append(message) }
            }
        }
        return sessions.filter { !$0.received.isEmpty }
    }()

    private static func message(_ text: Substring) -> WebSocketMessage? {
        if text.hasPrefix("text ") { return .text(String(text.dropFirst(5))) }
        if text.hasPrefix("binary ") { return Hex.decode(String(text.dropFirst(7))).map { .binary($0) } }
        return nil
    }

    @Test func `all recorded connections are read`() {
        #expect(Self.sessions.count == 14)
    }

    @Test(arguments: Self.sessions)
    func `a client understands every message of a real server`(session: Session) throws {
        let lines = session.received.flatMap { session.framings.client.lines($0) }
        #expect(!lines.contains { $0.hasPrefix("invalid") || $0.hasPrefix("fatal") }, "\(lines)")
        let packets = lines.filter { $0.hasPrefix("packet ") }.map { String($0.dropFirst(7)) }
        for packet in packets {
            let bytes = Array(packet.utf8)
            if bytes.withUnsafeBytes({ PrimusProtocolMessage($0, .text, .json) }) == nil { _ = try PrimusCoding.json.value(bytes) }
        }
        if session.framings.client.hasHandshake { #expect(lines.first?.hasPrefix("opened") == true) }
    }

    @Test(arguments: Self.sessions)
    func `a server understands every message of a client, except those that the real one rejects`(session: Session) {
        for message in session.sent {
            let lines = session.framings.server.lines(message)
            if message == .text("[broken") {
                #expect(lines == ["fatal 3000 Broken framing."])
            } else {
                #expect(!lines.contains { $0.hasPrefix("invalid") || $0.hasPrefix("fatal") }, "\(lines)")
            }
        }
    }
}
