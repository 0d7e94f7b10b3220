import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeEncoding
import TestSupport
import Testing

@Suite struct PollingRuleTests {
    private static let address = PrimusAddress(Endpoint(scheme: "http", host: "host", port: 80))
    private static let handshake = #"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":60000}"#

    private static func rules(_ version: EngineIOVersion, mayMove: Bool = false) -> EngineIOPollingRules {
        EngineIOPollingRules(Self.address, [:], version, messageLimit: 1 << 20, timeout: .seconds(1), startedAt: 0, mayMove: mayMove)
    }

    /// Passes the rules the answer to a poll.
    private static func answer(
        _ rules: inout EngineIOPollingRules, _ contentType: String, _ body: [UInt8]
    ) throws(TransportError) -> [TransportMessage] {
        _ = rules.received(HTTPResponseHead(status: 200, headers: ["Content-Type": contentType]))
        var batch = MessageBatch()
        try body.withUnsafeBufferPointer { bytes throws(TransportError) in
            try rules.decode(UnsafeRawBufferPointer(bytes), into: &batch)
        }
        _ = try rules.bodyEnded(into: &batch)
        return batch.messages
    }

    /// A body as a server of engine.io 1 sends it.
    private static func bytes(_ texts: String...) -> [UInt8] {
        texts.flatMap { text in [0] + "\(text.utf8.count)".utf8.map { $0 - 0x30 } + [0xFF] + Array(text.utf8) }
    }

    @Test func `a server of engine io 1 is asked for bytes, and gets bytes`() throws {
        var rules = Self.rules(.v3)
        expectEqual(rules.receivingRequest().endpoint.target, "/primus/?EIO=3&transport=polling&t=0")
        let octets = "application/octet-stream"
        try expectEqual(Self.answer(&rules, octets, Self.bytes(Self.handshake)), [.text(Self.handshake)])
        expectEqual(rules.receivingRequest().endpoint.target, "/primus/?EIO=3&transport=polling&sid=abc&t=1")
        let body = Self.bytes("4é😀", "42") + [1, 2, 255, 4, 9]
        try expectEqual(Self.answer(&rules, octets, body), [.text("4é😀"), .text("42"), .binary([4, 9])])
        let (request, count) = rules.sendingRequest([TransportMessage.text("4é😀"), .binary([4, 200])])
        expect(count == 2 && request.headers["Content-Type"] == octets)
        expectEqual(Hex.encode(request.body), "0007ff34c3a9f09f9880" + "0102ff04c8")
        guard case .request(let close) = rules.closing(.normal, reason: "") else { return expect(false, "the server is told") }
        expect(close.body == Self.bytes("1") && close.headers["Content-Type"] == octets)
    }

    @Test func `the URL of the first request differs from that of another connection`() {
        let times: [Int64] = [64 * 64 * 10, 64 * 64 * 10 + 5]
        let targets = times.map { startedAt in
            var rules = EngineIOPollingRules(
                Self.address, [:], .v4, messageLimit: 1 << 20, timeout: .seconds(1), startedAt: startedAt)
            return rules.receivingRequest().endpoint.target
        }
        expectEqual(targets, ["/primus/?EIO=4&transport=polling&t=A00", "/primus/?EIO=4&transport=polling&t=A05"])
    }

    @Test(arguments: ["a&b=c#d", "a b", "a\r\nX: y", "é/?", "%2F", "../..", String(repeating: "s", count: 10_000)])
    func `the ID of a session can't change the URLs of its requests`(sid: String) throws {
        var rules = Self.rules(.v4)
        _ = rules.receivingRequest()
        let handshake = EngineIOHandshake(sid: sid).packet.transportMessage(.v4)
        try expectEqual(Self.answer(&rules, "text/plain", handshake.bytes), [handshake])
        guard case .request(let close) = rules.closing(.normal, reason: "") else { return expect(false, "the server is told") }
        for request in [rules.receivingRequest(), rules.sendingRequest([.text("41")]).0, close] {
            let fields = try #require(PercentEncoding.fields(request.endpoint.query ?? ""))
            expectEqual(fields.filter { $0.name != "t" }.map(\.value), ["4", "polling", sid])
            expect(request.endpoint.path == "/primus/" && request.endpoint.target.utf8.allSatisfy { 0x21...0x7E ~= $0 })
        }
    }

    @Test(arguments: [EngineIOVersion.v3, .v4])
    func `an answer with packets that mean nothing is empty`(version: EngineIOVersion) throws {
        var rules = Self.rules(version)
        func answer(_ packets: String...) throws -> [TransportMessage] {
            let body = EngineIOPayload.encode(packets.map { .text($0) }[...], EngineIOPayloadFormat(version)).body
            return try Self.answer(&rules, "", body)
        }
        try expectEqual(answer(Self.handshake), [.text(Self.handshake)])
        try expect(answer("6").isEmpty && answer("6", "6").isEmpty)
        try expectEqual(answer("6", "4a", "6", "2", "46"), [.text("4a"), .text("2"), .text("46")])
    }

    @Test(arguments: [EngineIOVersion.v3, .v4])
    func `a poll that the server has ended for a move is followed after the answer to the probe, once`(version: EngineIOVersion) throws {
        func pauses(_ rules: inout EngineIOPollingRules, _ packets: String...) throws -> Bool {
            let body = EngineIOPayload.encode(packets.map { .text($0) }[...], EngineIOPayloadFormat(version)).body
            var batch = MessageBatch()
            try body.withUnsafeBufferPointer { bytes throws(TransportError) in
                try rules.decode(UnsafeRawBufferPointer(bytes), into: &batch)
            }
            if case .pause(let duration) = try rules.bodyEnded(into: &batch) { return duration > .zero }
            return false
        }
        for mayMove in [true, false] {
            var rules = Self.rules(version, mayMove: mayMove)
            try expect(!pauses(&rules, Self.handshake) && !pauses(&rules, "4a"))
            try expectEqual(pauses(&rules, "4a", "6"), mayMove)
            try expect(!pauses(&rules, "6"))
        }
    }

    @Test func `the last poll before a move may last until the server's next ping, if it sends pings`() throws {
        func limit(_ version: EngineIOVersion) throws -> Duration? {
            var rules = Self.rules(version, mayMove: true)
            _ = try Self.answer(&rules, "", EngineIOPayload.encode([.text(Self.handshake)], EngineIOPayloadFormat(version)).body)
            if case .finishReceiving(let limit) = rules.closing(.normal, reason: EngineIOPollingRules.upgraded) { return limit }
            return nil
        }
        try expect(limit(.v4) == .seconds(85) && limit(.v3) == .seconds(5))
    }

    @Test func `a later server of version 3 gets text, and answers with bytes only if a packet is binary`() throws {
        var rules = Self.rules(.v3)
        let text = "text/plain; charset=UTF-8"
        try expectEqual(Self.answer(&rules, text, Array("\(Self.handshake.utf8.count):\(Self.handshake)".utf8)), [.text(Self.handshake)])
        let binary = Self.bytes("4é") + [1, 2, 255, 4, 9]
        try expectEqual(Self.answer(&rules, "application/octet-stream", binary), [.text("4é"), .binary([4, 9])])
        try expectEqual(Self.answer(&rules, text, Array("2:4é6:b4yA==".utf8)), [.text("4é"), .binary([4, 200])])
        let (request, count) = rules.sendingRequest([TransportMessage.text("4é"), .binary([4, 200])])
        expect(count == 2 && request.headers["Content-Type"] == "text/plain;charset=UTF-8")
        expectEqual(String(decoding: request.body, as: UTF8.self), "2:4é6:b4yA==")
    }

    @Test(arguments: ["application/octet-stream; charset=utf-8", "Application/Octet-Stream", "text/plain", ""])
    func `a body is read by its first byte, whatever content type a proxy gives it`(contentType: String) throws {
        var rules = Self.rules(.v3)
        // A message may follow the handshake in the same body.
        let packets = try Self.answer(&rules, contentType, Self.bytes(Self.handshake, "4é"))
        expectEqual(packets, [.text(Self.handshake), .text("4é")])
        let (request, _) = rules.sendingRequest([TransportMessage.text("4é")])
        expectEqual(request.body, Self.bytes("4é"))
        try expectEqual(Self.answer(&rules, contentType, Array("2:4é".utf8)), [.text("4é")])
    }

    @Test(arguments: EngineIOPayloadFormat.allCases)
    func `the ID of a session is removed from each form of its handshake, and nothing from messages`(format: EngineIOPayloadFormat) {
        for (packets, isHidden) in [([Self.handshake], true), ([Self.handshake, "4é"], true), ([#"4{"sid":"abc"}"#], false)] {
            let text = String(decoding: EngineIOPayload.encode(packets.map { .text($0) }[...], format).body, as: UTF8.self)
            let redacted = PrimusFrameText.redactSID(text)
            expect(redacted.contains(#""abc""#) != isHidden && (redacted == text) != isHidden, "\(redacted)")
        }
    }

    @Test func `bytes that answer a client of version 4 are an answer of version 3`() {
        var rules = Self.rules(.v4)
        let error = #expect(throws: TransportError.self) {
            try Self.answer(&rules, "application/octet-stream", Self.bytes(Self.handshake))
        }
        expect(error?.code == .protocolViolation && error?.message.contains("version 3 of engine.io") == true)
    }
}
