import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// A server over HTTP whose answers a test chooses. A request for messages waits when there is no answer left.
private final class ScriptedPolling: ListenerHandler {
    private struct State: Sendable {
        var answers: [String]
        var waiting: (any HTTPResponder)?
        var polls = 0
        var stream: (any HTTPResponder)?
    }

    private let state: Lock<State>
    /// Bodies with messages of the client.
    let posts = EventRecorder<String>()
    private let spec: String
    private let isStreaming: Bool
    /// The answers to messages that were begun.
    let begunAnswers = EventRecorder<any HTTPResponder>()
    private let postAnswer: String?

    /// - Parameters:
    ///   - version: The version of engine.io; `nil` for SockJS.
    ///   - postAnswer: The answer to requests with messages; `nil` for one that begins.
    init(_ answers: [String], version: Int?, isStreaming: Bool = false, postAnswer: String? = "ok") {
        self.state = Lock(State(answers: answers))
        (self.isStreaming, self.postAnswer) = (isStreaming, postAnswer)
        let (primus, transformer) = (version == 3 ? "6.1.0" : "8.0.9", version == nil ? "sockjs" : "engine.io")
        self.spec = #"{"version":"\#(primus)","pathname":"/primus","parser":"json","transformer":"\#(transformer)"}"#
    }

    /// Answers the request that waits, or the next one; or adds to the stream.
    func answer(_ answers: String...) {
        let stream = self.state.withLock { $0.stream }
        if let stream { return answers.forEach { stream.write(Array($0.utf8)) } }
        for answer in answers {
            let waiting = self.state.withLock { state -> (any HTTPResponder)? in
                guard let waiting = state.waiting.take() else {
                    state.answers.append(answer)
                    return nil
                }
                return waiting
            }
            waiting?.respond(HTTPResponse(status: 200, text: answer))
        }
    }

    /// Whether a request waits for messages.
    var isWaiting: Bool { self.state.withLock { $0.waiting != nil } }
    /// The number of requests for messages.
    var polls: Int { self.state.withLock { $0.polls } }

    /// Adds bytes to the stream.
    func write(_ bytes: [UInt8]) { self.state.withLock { $0.stream }?.write(bytes) }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 404)) }
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        if request.path.hasSuffix("/info") { return responder.respond(HTTPResponse(status: 200, text: #"{"websocket":false}"#)) }
        if request.path.hasSuffix("/spec") { return responder.respond(HTTPResponse(status: 200, text: self.spec)) }
        if !body.isEmpty {
            self.posts.record(String(decoding: body, as: UTF8.self))
            if let postAnswer { return responder.respond(HTTPResponse(status: 200, text: postAnswer)) }
            responder.begin(HTTPResponseHead(status: 200))
            return self.begunAnswers.record(responder)
        }
        if self.isStreaming {
            let answers = self.state.withLock { state in
                state.stream = responder
                return state.answers
            }
            responder.begin(HTTPResponseHead(status: 200))
            return answers.forEach { responder.write(Array($0.utf8)) }
        }
        let answer = self.state.withLock { state -> String? in
            state.polls += 1
            if state.answers.isEmpty {
                state.waiting = responder
                return nil
            }
            return state.answers.removeFirst()
        }
        if let answer { responder.respond(HTTPResponse(status: 200, text: answer)) }
    }
}

/// Clients over HTTP whose server sends what isn't valid.
@Suite(.timeLimit(.minutes(10))) struct PollingBadInputTests {
    /// A client, and a server whose answers a test chooses.
    private struct Fixture {
        let clock = ManualClock(standstillLimit: .seconds(60))
        let network: InMemoryNetwork
        let server: ScriptedPolling
        let client: PrimusConnection

        init(_ server: ScriptedPolling, _ kind: PrimusConnectionKind) async throws {
            self.network = InMemoryNetwork(clock: self.clock)
            self.server = server
            let address = try await self.network.listener().start(server)
            var configuration = PrimusConfiguration(
                Endpoint(scheme: "http", host: address.host, port: address.port), transports: self.network.transports())
            (configuration.log, configuration.strategies, configuration.messageLimit) = (.none, [], 4096)
            (configuration.connectionKinds, configuration.allowedTransports) = ([kind], .polling)
            self.client = PrimusConnection(configuration)
        }

        var hasEnded: Bool { if case .closed(.some) = self.client.state { true } else { false } }

        /// Answers a request, and waits until the client sends another one or has ended.
        func answer(_ answer: String) async throws {
            try await eventually { self.server.isWaiting }
            self.server.answer(answer)
            try await eventually { self.server.isWaiting || self.hasEnded }
        }

        /// Waits until the client has ended with an error, and returns it.
        func end() async throws -> PrimusError {
            try await eventually { self.hasEnded }
            guard case .closed(let error?) = self.client.state else { throw PrimusFailure() }
            return error
        }
    }

    private struct PrimusFailure: Error {}

    private static func handshake(_ version: Int) -> String {
        self.body([#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#], version)
    }

    /// Packets of engine.io in the body of an answer.
    private static func body(_ packets: some Sequence<String>, _ version: Int) -> String {
        version == 4 ? packets.joined(separator: "\u{1E}") : packets.map { "\($0.utf16.count):\($0)" }.joined()
    }

    private func engine(_ version: Int, _ answers: String...) async throws -> Fixture {
        try await Fixture(ScriptedPolling([Self.handshake(version)] + answers, version: version), .polling)
    }

    /// Expects that the answer to the poll that follows the opening one ends the connection.
    private func expectLoss(after answer: String, _ fixture: Fixture) async throws {
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        fixture.server.answer(answer)
        let error = try await fixture.end()
        expect(error.code == .connectionLost && error.transportError?.code == .protocolViolation, "\(error)")
        expectEqual(fixture.server.polls, 2)
    }

    // MARK: engine.io

    @Test(arguments: [
        (4, ""), (4, "{"), (4, "0"), (4, "0{"), (4, "0[]"), (4, "4\"x\""), (4, "1"), (4, "<html>"), (4, "b%%%"), (4, "\u{1E}\u{1E}"),
        (4, "0{\"sid\":" + String(repeating: "[", count: 4_000)), (4, "0null"), (4, "\u{1F}\u{8B}\u{8}"), (4, "0{\"sid\":\"\"}"),
        (4, "0{\"sid\":\"a\",\"pingInterval\":-1}"), (4, "0{\"sid\":\"a\",\"pingTimeout\":\"x\"}"),
        (3, "0:"),
        (3, "2:0{"), (3, "9:0{}"), (3, ":"), (3, "-1:0"), (3, "99999999999:0"), (3, "3:4\"😀\""), (3, "1:1"), (3, "x"),
    ])
    func `an answer without a handshake ends the attempt with an error`(version: Int, answer: String) async throws {
        let fixture = try await Fixture(ScriptedPolling([answer], version: version), .polling)
        fixture.client.open()
        // An answer that could be followed by a handshake leaves the client waiting until its time limit.
        try await eventually {
            if fixture.server.polls > 0 { fixture.clock.advance(by: .seconds(1)) }
            return fixture.hasEnded
        }
        let error = try await fixture.end()
        expect([.connectionLost, .timedOut, .handshakeFailed].contains(error.code), "\(error)")
    }

    @Test(arguments: [
        "5:4\"x\"", ":4", "x:4", "-1:4", "99999999999:4", "3:4\"😀\"", "5", "5:", "2:412:42x",
    ])
    func `a body of version 3 with a wrong length is a loss, after the packets before it`(body: String) async throws {
        let fixture = try await self.engine(3, "4:4\"a\"")
        let messages = fixture.client.messages.makeAsyncIterator()
        fixture.client.open()
        try await expectEqual(messages.next()?.value, .string("a"))
        fixture.server.answer("4:4\"b\"" + body)
        let error = try await fixture.end()
        expect(error.code == .connectionLost && error.transportError?.code == .protocolViolation, "\(error)")
        expect(error.message.contains("isn't valid") && fixture.client.counters.messagesReceived >= 2, "\(error)")
    }

    @Test(arguments: [3, 4]) func `a packet above the limit is a loss`(version: Int) async throws {
        let fixture = try await self.engine(version)
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        let packet = "4\"" + String(repeating: "x", count: 5000) + "\""
        fixture.server.answer(Self.body([packet], version))
        let error = try await fixture.end()
        expect(error.code == .connectionLost && error.message.contains("4096 bytes"), "\(error)")
    }

    @Test(arguments: [
        (4, "abc"), (4, "b%%%"), (4, "9"), (4, ""), (4, "7{}"), (3, "abc"), (3, "b4%%%"), (3, "b"), (3, "b9AQID"), (3, "9"), (3, "7{}"),
    ])
    func `an invalid packet is reported, and the packets around it are delivered`(version: Int, packet: String) async throws {
        let fixture = try await self.engine(version)
        let messages = fixture.client.messages.makeAsyncIterator()
        let updates = fixture.client.updates(buffer: .dropOldest(100))
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        fixture.server.answer(Self.body(["41", packet, "42"], version), Self.body(["43"], version))
        for number in 1...3 { try await expectEqual(messages.next()?.value.int, number) }
        let errors = await updates.pending().compactMap { update -> PrimusError? in
            if case .error(let error) = update { error } else { nil }
        }
        expectEqual(errors.map(\.code), [.invalidMessage], "\(errors)")
        expect(fixture.client.isConnected)
        fixture.client.end()
    }

    @Test(arguments: [(4, "9"), (4, "b!"), (4, "2"), (4, "3"), (4, "6"), (3, "9"), (3, "3")])
    func `thousands of packets that aren't messages in one answer don't hold up the message behind them`(
        version: Int, packet: String
    ) async throws {
        let fixture = try await self.engine(version)
        let messages = fixture.client.messages.makeAsyncIterator()
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        fixture.server.answer(Self.body(Array(repeating: packet, count: 3_000) + ["41"], version))
        try await expectEqual(messages.next()?.value.int, 1)
        fixture.server.answer(Self.body(["42"], version))
        try await expectEqual(messages.next()?.value.int, 2)
        expect(fixture.client.isConnected)
        fixture.client.end()
    }

    @Test(arguments: [3, 4]) func `a body that is cut off anywhere has an effect on no packet before the cut`(version: Int) async throws {
        let packets = ["4\"a\"", "4\"ß😀\"", "4[1]", "4\"b\""]
        let body = Array(Self.body(packets, version).utf8)
        for end in 1..<body.count {
            // A cut within a character is U+FFFD here, which is what a decoder makes of it.
            let fixture = try await self.engine(version)
            let messages = fixture.client.messages(buffer: .dropOldest(100))
            fixture.client.open()
            try await fixture.client.opened(within: .seconds(600))
            try await fixture.answer(String(decoding: body[..<end], as: UTF8.self))
            let received = await messages.pending().map { String(decoding: $0.raw.bytes, as: UTF8.self) }
            let expected = packets.map { String($0.dropFirst()) }
            // The packet at the cut may be one that is invalid.
            let complete = zip(received, expected).prefix { $0 == $1 }.count
            let ends = packets.indices.map { Self.body(packets[...$0], version).utf8.count }
            expect(complete >= ends.count { $0 <= end } && received.count - complete <= 1, "\(end): \(received)")
            fixture.client.end()
        }
    }

    @Test(arguments: [3, 4]) func `packets that are joined in bodies anywhere arrive once and in order`(version: Int) async throws {
        let packets = ["4\"a\"", "4\"ß😀\"", "4[1]", "42", "4\"b\""]
        // Each bit tells whether a body ends behind a packet.
        for ends in 0..<1 << (packets.count - 1) {
            var bodies: [[String]] = [[]]
            for (index, packet) in packets.enumerated() {
                bodies[bodies.count - 1].append(packet)
                if ends >> index & 1 == 1 { bodies.append([]) }
            }
            let fixture = try await self.engine(version)
            let messages = fixture.client.messages.makeAsyncIterator()
            fixture.client.open()
            try await fixture.client.opened(within: .seconds(600))
            for body in bodies { fixture.server.answer(Self.body(body, version)) }
            fixture.server.answer(Self.body(["4\"last\""], version))
            for packet in packets + ["4\"last\""] {
                let message = await messages.next()
                expectEqual(message.map { String(decoding: $0.raw.bytes, as: UTF8.self) }, String(packet.dropFirst()), "\(bodies)")
            }
            fixture.client.end()
        }
    }

    @Test(arguments: ["6", "2", "3", "2\u{1E}0{}"])
    func `a server that answers immediately with packets that mean nothing is asked ever more slowly`(packet: String) async throws {
        let many = Array(repeating: packet, count: packet == "6" ? 1000 : 1).joined(separator: "\u{1E}")
        let server = ScriptedPolling([Self.handshake(4)] + Array(repeating: packet, count: 8) + [many], version: 4)
        let fixture = try await Fixture(server, .polling)
        let messages = fixture.client.messages.makeAsyncIterator()
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        try await eventually { server.polls == 3 }
        // 0.1, 0.2, 0.4, 0.8, 1.6 and 3.2 seconds, and then 5.
        for _ in 0..<64 { fixture.clock.advance(by: .milliseconds(100)) }
        expectEqual(server.polls, 9)
        for _ in 0..<100 { fixture.clock.advance(by: .milliseconds(100)) }
        expect(server.polls == 11 && server.isWaiting)
        server.answer("41")
        try await expectEqual(messages.next()?.value.int, 1)
        // A message ends the pauses.
        expect(server.polls == 12 && server.isWaiting)
        fixture.client.end()
    }

    @Test(arguments: [
        (4, "<html>maintenance</html>"), (4, "9"), (4, "b!"), (4, "\u{1E}\u{1E}"), (4, "0{}"), (4, "5"), (4, " "), (4, #"{"error":1}"#),
        (3, "2:xx"), (3, "3:0{}"), (3, "1:91:5"),
    ])
    func `an answer in which no packet can be read is a loss, and isn't asked for again`(version: Int, answer: String) async throws {
        try await self.expectLoss(after: answer, self.engine(version))
    }

    @Test(arguments: [4, nil] as [Int?], ["<html>Sign in</html>", #"{"error":"maintenance"}"#, "\n <!doctype html>"])
    func `a page in answer to messages is a loss`(version: Int?, page: String) async throws {
        let server = ScriptedPolling([version.map { Self.handshake($0) } ?? "o\n"], version: version, postAnswer: page)
        let fixture = try await Fixture(server, .polling)
        fixture.client.open()
        _ = try? await fixture.client.opened(within: .seconds(600))
        // The message isn't reported as sent.
        let failure = await #expect(throws: PrimusError.self) { try await fixture.client.write("lost") }
        let error = try await fixture.end()
        expect(error.code == .connectionLost && error.message.contains("rejected messages"), "\(error)")
        expectEqual(failure?.message, error.message)
    }

    /// A client that is open, whose server begins the answers to messages and doesn't end them.
    private func unanswered(_ version: Int?) async throws -> Fixture {
        let server = ScriptedPolling([version.map { Self.handshake($0) } ?? "o\n"], version: version, postAnswer: nil)
        let fixture = try await Fixture(server, .polling)
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        return fixture
    }

    @Test(arguments: [4, 3, nil] as [Int?])
    func `a message over HTTP is written when the server has answered its request`(version: Int?) async throws {
        let fixture = try await self.unanswered(version)
        let (client, server) = (fixture.client, fixture.server)
        let written = EventRecorder<Int>()
        var tasks: [Task<Void, any Error>] = []
        // The first message is on the way, and the others are in the next request.
        for number in 1...3 {
            tasks.append(
                Task {
                    try await client.write(number)
                    written.record(number)
                })
            try await eventually { client.driver.read { $0.waiterCount == number } }
        }
        // Doesn't wait.
        expect(client.enqueue(4) && written.all.isEmpty && server.posts.all.count == 1)
        server.begunAnswers.all[0].end()
        try await eventually { written.all == [1] && server.begunAnswers.all.count == 2 }
        expectEqual(client.driver.read { $0.waiterCount }, 2)
        server.begunAnswers.all[1].end()
        for task in tasks { try await task.value }
        expectEqual(written.all.sorted(), [1, 2, 3])
        client.end()
    }

    @Test(arguments: [PrimusError.Code.cancelled, .ended, .connectionLost])
    func `a write ends that waits for the answer of the server`(end: PrimusError.Code) async throws {
        let fixture = try await self.unanswered(4)
        let task = Task { try await fixture.client.write("x") }
        try await eventually { fixture.client.driver.read { $0.waiterCount == 1 } }
        switch end {
        case .cancelled: task.cancel()
        case .ended:
            fixture.client.end()
            // A connection that closes waits for the answer, and not longer than this.
            fixture.clock.advance(by: .seconds(5))
        default: fixture.network.cut()
        }
        let error = await #expect(throws: PrimusError.self) { try await task.value }
        expectEqual(error?.code, end)
        expectEqual(fixture.client.driver.read { $0.waiterCount }, 0)
        fixture.client.end()
    }

    @Test(arguments: [4, 3, nil] as [Int?])
    func `an answer to messages of which a byte arrives each second has a time limit`(version: Int?) async throws {
        let server = ScriptedPolling([version.map { Self.handshake($0) } ?? "o\n"], version: version, postAnswer: nil)
        let fixture = try await Fixture(server, .polling)
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        fixture.client.enqueue("x")
        try await eventually { !server.begunAnswers.all.isEmpty }
        var seconds = 0
        while !fixture.hasEnded, seconds < 200 {
            server.begunAnswers.all[0].write(Array("o".utf8))
            fixture.clock.advance(by: .seconds(1))
            seconds += 1
        }
        let error = try await fixture.end()
        expect(error.transportError?.code == .timedOut && error.message.contains("its answer to messages wasn't complete"), "\(error)")
        expect(seconds < 45, "after \(seconds) seconds")
    }

    @Test func `packets after the one that ends the session aren't delivered`() async throws {
        let fixture = try await self.engine(4)
        let messages = fixture.client.messages
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        fixture.server.answer("41\u{1E}1\u{1E}42")
        let error = try await fixture.end()
        expectEqual(error.code, .connectionLost, "\(error)")
        await expectEqual(messages.pending().map { try? $0.value }, [1])
    }

    // MARK: What the client sends

    @Test func `a client that is ended sends the packet of the end after its messages`() async throws {
        let fixture = try await self.engine(4)
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        _ = fixture.server.posts.take()
        for number in 1...3 { fixture.client.enqueue(number) }
        fixture.client.end()
        try await eventually { fixture.server.posts.all.last?.hasSuffix("1") == true }
        let packets = fixture.server.posts.all.flatMap { $0.split(separator: "\u{1E}").map(String.init) }
        expectEqual(packets.filter { !$0.contains("primus::") }, ["41", "42", "43", "1"])
    }

    @Test func `bodies have as many packets as the server accepts`() async throws {
        let packet = #"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":100}"#
        let fixture = try await Fixture(ScriptedPolling([packet], version: 4), .polling)
        for number in 10..<60 { fixture.client.enqueue("number \(number)") }
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        let expected = (10..<60).map { "4\"number \($0)\"" }
        func packets() -> [String] {
            fixture.server.posts.all.flatMap { $0.split(separator: "\u{1E}").map(String.init) }.filter { $0.hasPrefix("4\"number") }
        }
        try await eventually { packets().count == expected.count }
        expectEqual(packets(), expected)
        let sizes = fixture.server.posts.all.map(\.utf8.count)
        expect(sizes.allSatisfy { $0 <= 100 } && sizes.contains { $0 > 80 }, "\(sizes)")
        // One that is larger is an error of the message alone.
        let error = await #expect(throws: PrimusError.self) { try await fixture.client.write(String(repeating: "x", count: 100)) }
        expect(error?.code == .messageTooLarge && fixture.client.isConnected)
        // Bytes are sent in Base64.
        let bytes = await #expect(throws: PrimusError.self) {
            try await fixture.client.write(PrimusValue.bytes([UInt8](repeating: 1, count: 76)))
        }
        expect(bytes?.code == .messageTooLarge && bytes?.message.contains("105 bytes") == true && fixture.client.isConnected)
        try await fixture.client.write(PrimusValue.bytes([UInt8](repeating: 1, count: 72)))
        try await eventually { fixture.server.posts.all.last?.utf8.count == 97 }
        fixture.client.end()
    }

    // MARK: SockJS

    private func sockJS(_ kind: PrimusConnectionKind) async throws -> Fixture {
        let isStreaming = kind == .streaming
        let first = isStreaming ? String(repeating: "h", count: 2048) + "\no\n" : "o\n"
        return try await Fixture(ScriptedPolling([first], version: nil, isStreaming: isStreaming), kind)
    }

    @Test(
        arguments: [PrimusConnectionKind.streaming, .polling],
        ["a[1]", "a[\"1\",2]", "a[null]", "a{}", "a[\"1", "m1", "x", "a", "c[", "c[1]", "[\"1\"]"])
    func `an invalid frame is reported, and the frames around it are delivered`(kind: PrimusConnectionKind, frame: String) async throws {
        let fixture = try await self.sockJS(kind)
        let messages = fixture.client.messages.makeAsyncIterator()
        let updates = fixture.client.updates(buffer: .dropOldest(100))
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        fixture.server.answer("a[\"1\"]\n\(frame)\na[\"2\",\"3\"]\n")
        for number in 1...3 {
            let value = try await messages.next()?.value
            expectEqual(value?.int, number, "\(String(describing: value)) \(fixture.client.state)")
        }
        let errors = await updates.pending().compactMap { update -> PrimusError? in
            if case .error(let error) = update { error } else { nil }
        }
        expectEqual(errors.map(\.code), [.invalidMessage], "\(errors)")
        fixture.client.end()
    }

    @Test(arguments: [
        "x\n", "a[\n", "a\n", "a[1]\n", "a[null]\n", "a[x]\n", "c\n", "c[1]\n", "m1\n", "\n", "<html>maintenance</html>",
        "<html>\n</html>\n", "{}",
    ])
    func `an answer in which no frame can be read is a loss, and isn't asked for again`(answer: String) async throws {
        try await self.expectLoss(after: answer, self.sockJS(.polling))
    }

    @Test(arguments: ["h\n", "a[]\n", "", "a[\"1\",2]\n", "a[\"\\q\"]\n", "m\"\\q\"\n"])
    func `a server of SockJS that answers immediately with nothing is asked ever more slowly`(frame: String) async throws {
        let fixture = try await Fixture(ScriptedPolling(["o\n"] + Array(repeating: frame, count: 100), version: nil), .polling)
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        try await eventually { fixture.server.polls >= 3 }
        for _ in 0..<50 { fixture.clock.advance(by: .milliseconds(100)) }
        expect(fixture.server.polls <= 10 && fixture.client.isConnected, "\(fixture.server.polls)")
        fixture.client.end()
    }

    @Test func `frames of a stream that arrive in pieces of any size are the same`() async throws {
        let stream = "a[\"\\\"ß😀\\\"\"]\nh\na[\"1\",\"2\"]\n\na[\"3\"]\n"
        for size in 1...stream.utf8.count {
            let server = ScriptedPolling([String(repeating: "h", count: 2048) + "\no\n"], version: nil, isStreaming: true)
            let fixture = try await Fixture(server, .streaming)
            let messages = fixture.client.messages.makeAsyncIterator()
            fixture.client.open()
            try await fixture.client.opened(within: .seconds(600))
            var rest = Array(stream.utf8)[...]
            while !rest.isEmpty {
                server.write(Array(rest.prefix(size)))
                rest = rest.dropFirst(size)
            }
            try await expectEqual(messages.next()?.value, .string("ß😀"))
            for number in 1...3 { try await expectEqual(messages.next()?.value.int, number) }
            fixture.client.end()
        }
    }

    @Test(arguments: [4, nil] as [Int?])
    func `a packet or a frame without an end is limited while it arrives`(version: Int?) async throws {
        let opening = version == nil ? String(repeating: "h", count: 2048) + "\no\n" : Self.handshake(4) + "\u{1E}"
        let server = ScriptedPolling([opening], version: version, isStreaming: true)
        let fixture = try await Fixture(server, version == nil ? .streaming : .polling)
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        server.write(Array((version == nil ? "a[\"" : "4\"").utf8))
        for _ in 0..<10 where !fixture.hasEnded { server.write([UInt8](repeating: 0x78, count: 1000)) }
        let error = try await fixture.end()
        expect(error.code == .connectionLost || error.code == .messageTooLarge, "\(error)")
    }

    @Test(arguments: [PrimusConnectionKind.streaming, .polling])
    func `a frame above the limit is a loss`(kind: PrimusConnectionKind) async throws {
        let fixture = try await self.sockJS(kind)
        fixture.client.open()
        try await fixture.client.opened(within: .seconds(600))
        fixture.server.answer("a[\"" + String(repeating: "1", count: 5000) + "\"]\n")
        let error = try await fixture.end()
        expect(error.code == .connectionLost || error.code == .messageTooLarge, "\(error)")
    }
}
