import PrimusWire
import RealtimeCore
import TestSupport
import Testing

@testable import PrimusServer

/// The memory of a large message that many sessions over HTTP receive.
@Suite struct SharedMessageTests {
    private static let configuration = PrimusServerConfiguration()

    /// Encodes messages as a session does for its poll or stream.
    private func encode(_ rules: some ServedHTTPMessagesRules, _ transport: String, _ messages: [TransportMessage]) -> [SharedBody] {
        var rules = rules
        _ = rules.waiting(HTTPRequestHead(method: "POST", target: "/primus/1/a/\(transport)"))
        var (rest, bodies) = (messages[...], [SharedBody]())
        while !rest.isEmpty {
            var body = SharedBody()
            rest.removeFirst(rules.encode(rest, into: &body))
            bodies.append(body)
        }
        return bodies
    }

    private func text(_ body: SharedBody) -> String { String(decoding: Array(body.pieces.joined()), as: UTF8.self) }

    private func addresses(_ bodies: [SharedBody]) -> [UInt] {
        bodies.flatMap(\.pieces).filter(SharedBody.isLarge).map { piece in piece.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } }
    }

    @Test(arguments: ["xhr", "xhr_streaming", "eventsource"], ["x", "100%"])
    func `sessions of SockJS share a large frame, also with escape sequences`(transport: String, content: String) {
        let large = "a[\"" + String(repeating: content, count: SharedBody.largeSize / content.utf8.count + 1) + "\"]"
        let messages = [#"a["1"]"#, #"a["2"]"#, large, #"a["3"]"#].map { TransportMessage.text($0) }
        let encodings = SessionEncodings()
        let sessions = (1...2).map { _ in self.encode(SockJSServedRules(Self.configuration, encodings) { _ in }, transport, messages) }
        let isEvent = transport == "eventsource"
        let expected = [#"a["1","2"]"#, large, #"a["3"]"#].map {
            isEvent ? "data: \($0.split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%25"))\r\n\r\n" : "\($0)\n"
        }
        for bodies in sessions { expect(bodies.map(self.text) == expected) }
        expect(self.addresses(sessions[0]).count == 1 && self.addresses(sessions[0]) == self.addresses(sessions[1]))
    }

    @Test(arguments: [EngineIOVersion.v3, .v4], [TransportMessage.Kind.text, .binary])
    func `sessions of engine.io share a large packet, also in Base64`(version: EngineIOVersion, kind: TransportMessage.Kind) {
        let content = [UInt8(ascii: "4")] + [UInt8](repeating: UInt8(ascii: "x"), count: SharedBody.largeSize)
        let messages = [.text("41"), TransportMessage(kind, content), .text("42")]
        let encodings = SessionEncodings()
        let sessions = (1...2).map { _ in
            self.encode(EngineIOServedRules(version, cookie: nil, Self.configuration, encodings), "", messages)
        }
        let format = version == .v3 && kind == .binary ? EngineIOPayloadFormat.bytes : EngineIOPayloadFormat(version)
        let expected = String(decoding: EngineIOPayload.encode(messages[...], format).body, as: UTF8.self)
        for bodies in sessions { expect(bodies.map(self.text) == [expected]) }
        expect(self.addresses(sessions[0]).count == 1 && self.addresses(sessions[0]) == self.addresses(sessions[1]))
    }

    @Test func `sessions share several large messages, in whatever order they ask for them`() {
        let encodings = SessionEncodings()
        let messages = (0..<3).map { TransportMessage(.binary, [UInt8](repeating: $0, count: SharedBody.largeSize)) }
        let sessions = (1...2).map { _ in
            self.encode(EngineIOServedRules(.v4, cookie: nil, Self.configuration, encodings), "", messages)
        }
        expect(self.addresses(sessions[0]).count == 3 && self.addresses(sessions[0]) == self.addresses(sessions[1]))
        encodings.removeAll()
        let later = self.encode(EngineIOServedRules(.v4, cookie: nil, Self.configuration, encodings), "", messages)
        expect(later.map(self.text) == sessions[0].map(self.text))
        expect(self.addresses(later).allSatisfy { !self.addresses(sessions[0]).contains($0) })
    }

    @Test func `what doesn't fit isn't kept`() {
        let encoding = SharedEncoding()
        let (large, huge) = ([UInt8](repeating: 1, count: 10 << 20), [UInt8](repeating: 2, count: 20 << 20))
        var calls = 0
        for message in [large, large, huge, huge, large] {
            _ = encoding.encode(message) {
                calls += 1
                return $0
            }
        }
        expectEqual(calls, 3)
    }

    @Test func `another large message has its own encoded form`() {
        let encoding = SharedEncoding()
        let messages = (1...3).map { [UInt8](repeating: $0, count: SharedBody.largeSize) }
        for message in messages + messages { expect(encoding.encode(message) { $0 + [0] } == message + [0]) }
    }
}
