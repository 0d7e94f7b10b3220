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
        var coding: PrimusCoding
        var received: [TransportMessage] = []
        var sent: [TransportMessage] = []
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

    /// Connections with each transformer, with each transformer and parser, and with each plugin.
    static let sessions = Self.sessions(of: "primus/sessions-8.0.9-6.1.0.txt")
    static let parserSessions = Self.sessions(of: "primus/parser-sessions-8.0.9-6.1.0.txt")
    static let pluginSessions = Self.sessions(of: "primus/plugins-8.0.9.txt")
    static let all = Self.sessions + Self.parserSessions + Self.pluginSessions

    private static func sessions(of file: String) -> [Session] {
        var sessions: [Session] = []
        var server = ""
        for line in Vectors.lines(file) {
            if line.hasPrefix("## ") {
                server = String(line.dropFirst(3))
            } else if line.hasPrefix("# ") {
                let parser = PrimusParserKind(name: server.split(separator: " ").dropFirst(2).first.map(String.init) ?? "")
                sessions.append(Session(server: server, title: String(line.dropFirst(2)), coding: PrimusCoding(parser) ?? .json))
            } else if let message = Self.message(line.dropFirst(2)), !sessions.isEmpty {
                let last = sessions.endIndex - 1
                if line.hasPrefix("S ") { sessions[last].received.append(message) } else { sessions[last].sent.append(message) }
            }
        }
        return sessions.filter { !$0.received.isEmpty }
    }

    private static func message(_ text: Substring) -> TransportMessage? {
        if text.hasPrefix("text ") { return .text(String(text.dropFirst(5))) }
        if text.hasPrefix("binary ") { return Hex.decode(String(text.dropFirst(7))).map { .binary($0) } }
        return nil
    }

    @Test func `all recorded connections are read`() {
        expect(Self.sessions.count == 14 && Self.parserSessions.count == 20 && Self.pluginSessions.count == 10)
        expectEqual(Set(Self.parserSessions.map(\.coding)), [.ejson, .messagePack, .binary])
    }

    /// The packets of messages, without those of Primus itself.
    private static func packets(
        _ messages: [TransportMessage], _ framing: PrimusFraming, _ coding: PrimusCoding
    ) -> [TransportMessage] {
        var packets: [TransportMessage] = []
        for message in messages {
            message.bytes.withUnsafeBytes { bytes in
                framing.read(message.kind, bytes) { event in
                    guard case .packet(let kind, let bytes) = event, PrimusProtocolMessage(bytes, kind, coding) == nil else { return }
                    packets.append(TransportMessage(kind, Array(bytes)))
                }
            }
        }
        return packets
    }

    @Test(arguments: Self.all)
    func `a client understands every message of a real server`(session: Session) throws {
        let lines = session.received.flatMap { session.framings.client.lines($0) }
        expect(!lines.contains { $0.hasPrefix("invalid") || $0.hasPrefix("fatal") }, "\(lines)")
        for packet in Self.packets(session.received, session.framings.client, session.coding) { _ = try session.coding.value(of: packet) }
        if session.framings.client.hasHandshake { expectEqual(lines.first?.hasPrefix("opened"), true) }
    }

    @Test(arguments: Self.parserSessions)
    func `a value of every type of a real server is read`(session: Session) throws {
        let values = try Self.packets(session.received, session.framings.client, session.coding).map { try session.coding.value(of: $0) }
        // The server sends back what it receives.
        let sent = try Self.packets(session.sent, session.framings.server, session.coding).map { try session.coding.value(of: $0) }
        expectEqual(values.filter { $0["map"] == nil }, sent.filter { $0["cmd"] == nil })
        let value = try #require(values.first { $0["map"] != nil })
        var expected: [String: PrimusValue] = [
            "null": .null, "true": true, "int": 42, "negative": -7, "float": 1.5, "text": "h\u{E9}llo \u{2028} \u{1F600}",
            "list": [1, [2]], "map": ["a": ["b": 1]], "bytes": .bytes([1, 2, 3]),
        ]
        if session.coding != .binary { expected["big"] = 4_294_967_296 }
        if session.coding != .binary { expected["date"] = .date(PrimusDate(milliseconds: 1e12)) }
        if session.coding == .ejson {
            (expected["infinity"], expected["regexp"]) = (.double(.infinity), .expression(pattern: "a+b", flags: "gi"))
            expected["escaped"] = ["$date": 5]
        }
        for (key, expected) in expected { expectEqual(value[key], expected, "\(key)") }
        if session.coding != .binary { expectEqual(value["nan"]?.double?.isNaN, true) }
    }

    @Test(arguments: Self.pluginSessions)
    func `the packets of a real plugin are read, and written as they are`(session: Session) throws {
        let plugins = PrimusPluginSet.all
        for messages in [session.received, session.sent] {
            for packet in Self.packets(messages, .plain, session.coding) {
                let value = try session.coding.value(of: packet)
                // What the server does beside the plugin.
                if value["cmd"] != nil || value["acked"] != nil { continue }
                guard case .packet(let read) = PrimusPluginReader(plugins, session.coding).read(packet) else {
                    expect(false, "\(value) isn't a packet")
                    continue
                }
                let written = try PrimusPluginWriter(session.coding).message(read)
                try expect(written.kind == packet.kind && session.coding.value(of: written) == value)
            }
        }
    }

    @Test(arguments: Self.all)
    func `a server understands every message of a client, except those that the real one rejects`(session: Session) {
        for message in session.sent {
            let lines = session.framings.server.lines(message)
            if message == .text("[broken") {
                expectEqual(lines, ["fatal 3000 Broken framing."])
            } else {
                expect(!lines.contains { $0.hasPrefix("invalid") || $0.hasPrefix("fatal") }, "\(lines)")
            }
        }
    }
}
