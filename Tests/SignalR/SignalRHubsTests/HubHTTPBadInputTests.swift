import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// A hub over HTTP that answers as a test says, valid or not.
private final class HTTPScript: AcceptingHandler {
    enum Request: Sendable, Equatable { case negotiation, get, post, delete }

    let requests = EventRecorder<Request>()
    /// The requests that wait for an answer, oldest first.
    let waiting = EventRecorder<any HTTPResponder>()
    /// The requests that wait for messages and that the client has given up.
    let abandoned = EventRecorder<Int>()
    private let offer: [HubTransport]
    private let answer: @Sendable (_ request: Request, _ number: Int, _ body: String, any HTTPResponder) -> Bool
    private let upgradeDecision: UpgradeDecision

    /// - Parameter answer: Answers a request with its number among those of its kind, from 1, and returns whether it has.
    init(
        _ offer: [HubTransport], upgrade: UpgradeDecision = .reject(HTTPResponse(status: 404)),
        _ answer: @escaping @Sendable (_ request: Request, _ number: Int, _ body: String, any HTTPResponder) -> Bool
    ) {
        (self.offer, self.answer, self.upgradeDecision) = (offer, answer, upgrade)
    }

    func count(_ request: Request) -> Int { self.requests.all.count { $0 == request } }

    func received(_ head: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        let request: Request =
            switch head.method {
            case "POST" where head.path.hasSuffix("/negotiate"): .negotiation
            case "POST": .post
            case "DELETE": .delete
            default: .get
            }
        self.requests.record(request)
        if request == .get { responder.onDisconnect { [abandoned] in abandoned.record(1) } }
        if self.answer(request, self.count(request), String(decoding: body, as: UTF8.self), responder) { return }
        switch request {
        case .negotiation:
            let offers = self.offer.map { #"{"transport":"\#($0.rawValue)","transferFormats":["Text","Binary"]}"# }.joined(separator: ",")
            responder.respond(
                HTTPResponse(
                    status: 200,
                    text: #"{"connectionToken":"token-1","connectionId":"id-1","negotiateVersion":1,"availableTransports":[\#(offers)]}"#))
        case .get: self.waiting.record(responder)
        case .post: responder.respond(HTTPResponse(status: 200))
        case .delete: responder.respond(HTTPResponse(status: 202))
        }
    }

    func decision(about request: HTTPRequestHead) -> UpgradeDecision { self.upgradeDecision }
    /// A WebSocket that is accepted stays open, and nothing is sent on it.
    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        SilentEvents()
    }

    private final class SilentEvents: MessageEvents {
        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
        func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    }
}

/// Answers of servers and proxies to a client over Server-Sent Events and long polling.
@Suite(.timeLimit(.minutes(10))) struct HubHTTPBadInputTests {
    private static let separator = "\u{1E}"
    private static let text: HTTPHeaders = ["Content-Type": "text/event-stream"]

    private struct Fixture {
        let clock = ManualClock(standstillLimit: .seconds(60))
        let script: HTTPScript
        let client: HubClient
        /// The delays before the attempts to reconnect.
        let delays = EventRecorder<Duration>()
        private let token: CallbackObservation

        init(_ script: HTTPScript, _ transports: HubTransportKinds, _ configure: (inout HubConfiguration) -> Void = { _ in }) async throws {
            let network = InMemoryNetwork(clock: self.clock)
            self.script = script
            let address = try await network.listener().start(script)
            let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/chat")
            var options = HubConfiguration(endpoint, transports: network.transports())
            options.allowedTransports = transports
            options.log = .none
            configure(&options)
            self.client = HubClient(options)
            self.token = self.client.onUpdate(on: HubCallbackExecutor { $0() }) { [delays] in
                if case .connectingIn(let delay) = $0 { delays.record(delay) }
            }
        }

        var stopError: HubError? { if case .stopped(let error) = self.client.state { error } else { nil } }

        /// Sends bytes to the client, in the answer to the poll that waits or as an event, and waits until they have arrived.
        func send(_ bytes: [UInt8]) async throws {
            let count = self.script.waiting.all.count
            guard self.client.transport == .longPolling else {
                return self.script.waiting.all.last?.write(Array("data: ".utf8) + bytes + Array("\n\n".utf8)) ?? ()
            }
            self.script.waiting.all.last?.respond(HTTPResponse(HTTPResponseHead(status: 200), body: bytes))
            // The next poll may be sent on another thread.
            try await eventually { self.script.waiting.all.count > count || !self.client.isConnected }
        }

        func send(_ text: String) async throws { try await self.send(Array(text.utf8)) }

        /// Answers the poll that waits.
        func answer(_ status: Int, _ text: String = "") {
            self.script.waiting.all.last?.respond(HTTPResponse(status: status, text: text))
        }
    }

    private typealias Answer = @Sendable (HTTPScript.Request, Int, String, any HTTPResponder) -> Bool

    /// A client of a hub that opens each connection and completes its handshake: the first poll is answered without a message, the next one
    /// with the handshake, and later ones wait. A stream begins with the handshake, and waits.
    ///
    /// - Parameter start: If there is one, handshakes are answered only after something was recorded.
    private static func fixture(
        _ transport: HubTransport, answersHandshakesAfter start: EventRecorder<Bool>? = nil,
        _ configure: (inout HubConfiguration) -> Void = { _ in }, _ answer: @escaping Answer = { _, _, _, _ in false }
    ) async throws -> Fixture {
        let first = EventRecorder<Int>()
        let script = HTTPScript([transport]) { request, number, body, responder in
            if request == .negotiation { first.record(0) }
            if answer(request, number, body, responder) { return true }
            guard request == .get else { return false }
            first.record(1)
            let answersHandshake = start?.all.isEmpty != true
            let number = first.all.reversed().prefix { $0 == 1 }.count
            if transport == .serverSentEvents {
                responder.begin(HTTPResponseHead(status: 200, headers: Self.text))
                if answersHandshake { responder.write(Array("data: {}\(Self.separator)\n\n".utf8)) }
            } else if number == 1 || number == 2 && answersHandshake {
                responder.respond(HTTPResponse(status: 200, text: number == 2 ? "{}" + Self.separator : ""))
                return true
            }
            return false
        }
        return try await Fixture(script, HubTransportKinds(transport), configure)
    }

    /// A fixture whose client is connected, and waits for messages.
    private static func connected(
        _ transport: HubTransport = .longPolling, _ configure: (inout HubConfiguration) -> Void = { _ in },
        _ answer: @escaping Answer = { _, _, _, _ in false }
    ) async throws -> Fixture {
        let fixture = try await Self.fixture(transport, configure, answer)
        try await fixture.client.start()
        try await eventually { !fixture.script.waiting.all.isEmpty }
        return fixture
    }

    private static func isCall(_ request: HTTPScript.Request, _ body: String) -> Bool {
        request == .post && body.contains(#""target":"Method""#)
    }

    private static let overHTTP: [HubTransport] = [.serverSentEvents, .longPolling]

    // MARK: Long polling

    @Test(arguments: [404, 500, 302, 409, 400])
    func `a poll that is answered with another status ends the connection with it`(status: Int) async throws {
        let test = try await Self.connected()
        let call = Task { try await test.client.invoke("Method") }
        try await eventually { test.script.count(.post) == 2 }
        test.answer(status, "No Connection with that ID")
        let error = await #expect(throws: HubError.self) { try await call.value }
        expect(error?.code == .connectionLost && error?.status == status)
        expect(error?.message.contains("\(status)") == true && error?.message.contains("LongPolling") == true)
        expectEqual(error?.message.contains("token-1"), false)
        expectEqual(test.stopError?.code, .connectionLost)
    }

    @Test func `a poll that is answered with 204 is the end, and isn't followed by another`() async throws {
        let test = try await Self.connected()
        test.answer(204)
        try await eventually { test.stopError?.code == .connectionLost }
        expectEqual(test.stopError?.transportError?.code, .closed)
        let text = "over LongPolling lost: The server answered with the status 204: it has ended the connection."
        expectEqual(test.stopError?.message.hasSuffix(text), true, "\(test.stopError?.message ?? "")")
        expectEqual(test.script.count(.get), 3)
    }

    @Test func `a stream that the server ends is lost with this reason, and not with a code of WebSockets`() async throws {
        let test = try await Self.connected(.serverSentEvents)
        test.script.waiting.all.last?.end()
        try await eventually { test.stopError?.code == .connectionLost }
        expectEqual(test.stopError?.transportError?.code, .closed)
        let message = test.stopError?.message ?? ""
        expect(message.hasSuffix("over ServerSentEvents lost: The server ended the response."), "\(message)")
    }

    @Test(arguments: overHTTP)
    func `a first response without messages is the reason why the attempt fails`(transport: HubTransport) async throws {
        let script = HTTPScript([transport]) { request, _, _, responder in
            guard request == .get else { return false }
            let isStream = transport == .serverSentEvents
            responder.respond(HTTPResponse(HTTPResponseHead(status: isStream ? 200 : 204, headers: isStream ? Self.text : [:]), body: []))
            return true
        }
        let test = try await Fixture(script, HubTransportKinds(transport))
        let error = await #expect(throws: HubError.self) { try await test.client.start() }
        expect(error?.transportError?.code == .closed && error?.message.contains("code 1000") == false, "\(error?.message ?? "")")
        expectEqual(error?.message.contains(transport.rawValue), true)
    }

    @Test(arguments: overHTTP, [404, 405, 500])
    func `messages that are rejected end the connection, and aren't sent again`(transport: HubTransport, status: Int) async throws {
        let calls = EventRecorder<Int>()
        let test = try await Self.connected(transport) { _ in
        } _: { request, number, body, responder in
            guard Self.isCall(request, body) else { return false }
            calls.record(number)
            responder.respond(HTTPResponse(status: status))
            return true
        }
        let error = await #expect(throws: HubError.self) { try await test.client.invoke("Method") }
        expect(error?.code == .connectionLost && error?.status == status)
        expect(test.stopError?.status == status && calls.all.count == 1)
    }

    @Test(arguments: overHTTP)
    func `an answer to messages of which a byte arrives each second has a time limit`(transport: HubTransport) async throws {
        let answers = EventRecorder<any HTTPResponder>()
        let test = try await Self.connected(transport) {
            // Long enough for the stream, which is silent meanwhile.
            $0.serverTimeout = .seconds(1_000)
            $0.connectTimeout = .seconds(20)
        } _: { request, _, body, responder in
            guard Self.isCall(request, body) else { return false }
            responder.begin(HTTPResponseHead(status: 200))
            answers.record(responder)
            return true
        }
        let call = Task { try await test.client.invoke("Method") }
        try await eventually { !answers.all.isEmpty }
        var seconds = 0
        while test.stopError == nil, seconds < 200 {
            answers.all[0].write([UInt8(ascii: "o")])
            test.clock.advance(by: .seconds(1))
            seconds += 1
        }
        let error = await #expect(throws: HubError.self) { try await call.value }
        expectEqual(error?.transportError?.code, .timedOut)
        expect(error?.message.contains("its answer to messages wasn't complete after 30.0 seconds") == true, "\(error?.message ?? "")")
        expect(seconds == 30 && error?.message.contains("token-1") == false)
    }

    @Test func `the answer to a poll has to make progress, and may then take as long as it needs`() async throws {
        let test = try await Self.connected { $0.pollTimeout = .seconds(100) }
        let calls = EventRecorder<Int>()
        test.client.on("Receive") { (text: String) in calls.record(text.utf8.count) }
        let poll = try #require(test.script.waiting.all.last)
        poll.begin(HTTPResponseHead(status: 200))
        poll.write(Array(#"{"type":1,"target":"Receive","arguments":[""#.utf8))
        for _ in 0..<500 {
            poll.write([UInt8](repeating: UInt8(ascii: "a"), count: 1_100))
            test.clock.advance(by: .seconds(1))
        }
        poll.write(Array("\"]}\(Self.separator)".utf8))
        try await eventually { calls.all == [550_000] }
        poll.write(Array(#"{"type":1,"target":"Receive","arguments":[""#.utf8))
        var seconds = 0
        while test.stopError == nil, seconds < 1_000 {
            poll.write([UInt8(ascii: "a")])
            test.clock.advance(by: .seconds(1))
            seconds += 1
        }
        let error = test.stopError
        expectEqual(error?.transportError?.code, .timedOut)
        expect(error?.message.contains("its answer arrives at less than 1 KiB per second") == true, "\(error?.message ?? "")")
    }

    @Test func `a large message that arrives isn't silence of the server, and a byte now and then is`() async throws {
        let test = try await Self.connected(.serverSentEvents) { ($0.serverTimeout, $0.keepAliveInterval) = (.seconds(30), .zero) }
        let calls = EventRecorder<Int>()
        test.client.on("Receive") { (text: String) in calls.record(text.utf8.count) }
        let stream = try #require(test.script.waiting.all.last)
        stream.write(Array(#"data: {"type":1,"target":"Receive","arguments":[""#.utf8))
        for _ in 0..<100 {
            stream.write([UInt8](repeating: UInt8(ascii: "a"), count: 30_000))
            test.clock.advance(by: .seconds(1))
        }
        stream.write(Array("\"]}\(Self.separator)\n\n".utf8))
        try await eventually { calls.all == [3_000_000] }
        expect(test.client.isConnected)
        for _ in 0..<30 {
            stream.write([UInt8(ascii: "d")])
            test.clock.advance(by: .seconds(1))
        }
        try await eventually { test.stopError?.code == .serverTimeout }
    }

    @Test(arguments: ["maintenance", "<html>", "[1]"]) func `an event that isn't a message is a loss`(text: String) async throws {
        let test = try await Self.connected(.serverSentEvents) { $0.retry = .none }
        let calls = EventRecorder<Int>()
        test.client.on("Receive") { (number: Int) in calls.record(number) }
        let call = #"{"type":1,"target":"Receive","arguments":[1]}"# + Self.separator
        test.script.waiting.all.last?.write(Array("data: \(call)\n\ndata: \(call)\(text)\n\n".utf8))
        try await eventually { test.stopError != nil && calls.all == [1, 1] }
        expectEqual(test.stopError?.message.contains("with \"\(text)\","), true, "\(test.stopError?.message ?? "")")
    }

    @Test(arguments: ["\u{1E}", "x\u{1E}", "{}\u{1E}"]) func `what isn't a message is silence of the server`(text: String) async throws {
        let test = try await Self.connected(.serverSentEvents) { ($0.serverTimeout, $0.keepAliveInterval) = (.seconds(30), .zero) }
        let stream = try #require(test.script.waiting.all.last)
        for _ in 0..<30 {
            stream.write(Array("data: \(text)\n\n".utf8))
            test.clock.advance(by: .seconds(1))
        }
        try await eventually { test.stopError?.code == .serverTimeout }
    }

    /// A client whose polls are answered immediately, after those that open the connection.
    private static func answeringPolls(with body: [UInt8], _ format: HubFormat) async throws -> Fixture {
        try await Self.fixture(.longPolling) {
            if format == .messagePack { $0.hubProtocol = .messagePack }
        } _: { request, number, _, responder in
            guard request == .get, number > 2 else { return false }
            responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: body))
            return true
        }
    }

    private static let withoutMessage: [(HubFormat, [UInt8])] =
        [
            "", "\u{1E}\u{1E}", "{}\u{1E}", "x\u{1E}", "{\"type\":1}\u{1E}", "{\"error\":\"x\"}\u{1E}", "{\"type\":6}\u{1E}",
            "{\"type\":6}\u{1E}{\"type\":99}\u{1E}", "{\"type\":77}\u{1E}",
        ].map {
            (.json, Array($0.utf8))
        }
        + [
            (.json, [UInt8](repeating: 0x20, count: 300)),
            (.json, Array(String(repeating: "{\"type\":6}\u{1E}", count: 100).utf8)),
            (.messagePack, []), (.messagePack, [0, 0]), (.messagePack, [2, 0x91, 1]), (.messagePack, [2, 0x91, 6]),
            (.messagePack, [2, 0x91, 6, 2, 0x91, 99]),
            (.messagePack, [UInt8](repeating: 0, count: 300)), (.messagePack, (1...100).flatMap { _ in [2, 0x91, 6] as [UInt8] }),
        ]

    @Test(arguments: Self.withoutMessage)
    func `polls that are answered immediately without a message are sent with pauses`(format: HubFormat, body: [UInt8]) async throws {
        let test = try await Self.answeringPolls(with: body, format)
        try await test.client.start()
        let before = test.script.count(.get)
        var seconds = 0
        try await eventually("the client has polled ten times") {
            if test.script.count(.get) - before >= 10 { return true }
            test.clock.advance(by: .seconds(1))
            seconds += 1
            return false
        }
        expect(test.client.isConnected)
        expect(seconds >= 15, "ten polls in \(seconds) seconds")
    }

    /// Parts of a long message, as far as a client can tell.
    @Test(
        arguments: [
            (.json, Array(#"{"arguments":""#.utf8) + [UInt8](repeating: 0x78, count: 300)),
            (.messagePack, [0xff, 0xff, 0xff, 0x07, 0x95] + [UInt8](repeating: 1, count: 300)),
        ] as [(HubFormat, [UInt8])])
    func `polls that are answered with parts of a message that never ends are sent with pauses`(
        format: HubFormat, body: [UInt8]
    ) async throws {
        let test = try await Self.answeringPolls(with: body, format)
        try await test.client.start()
        let before = test.script.count(.get)
        for _ in 1...50 { test.clock.advance(by: .milliseconds(100)) }
        expect(test.client.isConnected)
        let count = test.script.count(.get) - before
        expect(count <= 10, "\(count) polls in 5 seconds")
    }

    @Test(arguments: HubFormat.allCases)
    func `messages before something else in an answer are delivered`(format: HubFormat) async throws {
        var configuration = HubConfiguration(Endpoint(scheme: "http", host: "memory", port: 1))
        configuration.format = format
        let arguments = try HubClient(configuration).coder.arguments(1)
        var body: [UInt8] = []
        HubMessageWriter.append(.invocation(HubInvocation(id: nil, target: "Note", arguments: arguments)), format, to: &body)
        let test = try await Self.answeringPolls(with: body + Array("<html>maintenance</html>".utf8), format)
        let received = EventRecorder<Int>()
        test.client.on("Note") { (number: Int) in received.record(number) }
        try await test.client.start()
        try await eventually { test.stopError != nil && received.all == [1] }
        expectEqual(test.stopError?.message.contains("with \"<html>maintenance</html>\","), true, "\(test.stopError?.message ?? "")")
    }

    private static let pages = [
        "<html>maintenance</html>", "maintenance", #"{"error":"maintenance"}"#, "\n<!doctype html>",
        "{" + String(repeating: "x", count: 300), #"{"error":"\#(String(repeating: "maintenance ", count: 500))"}"#,
        "{\"type\":6}\u{1E}<html>maintenance</html>",
    ]

    @Test(arguments: HubFormat.allCases, Self.pages)
    func `polls that are answered with something else end the connection`(format: HubFormat, page: String) async throws {
        let test = try await Self.answeringPolls(with: Array(page.utf8), format)
        try await test.client.start()
        try await eventually {
            test.clock.advance(by: .milliseconds(100))
            return test.stopError != nil
        }
        let error = test.stopError
        expect(error?.transportError?.code == .protocolViolation && error?.message.contains("proxy") == true, "\(error?.message ?? "")")
        // The first two have opened the connection.
        expect(test.script.count(.get) <= 4)
    }

    @Test(arguments: overHTTP, ["<html>Sign in</html>", #"{"error":"maintenance"}"#])
    func `a page in answer to a call is a loss`(transport: HubTransport, page: String) async throws {
        let test = try await Self.connected(transport) { _ in
        } _: { request, number, body, responder in
            guard Self.isCall(request, body) else { return false }
            responder.respond(HTTPResponse(status: 200, text: page))
            return true
        }
        let error = await #expect(throws: HubError.self) { try await test.client.invoke("Method") }
        expect(error?.code == .connectionLost && error?.message.contains("rejected messages") == true, "\(error?.message ?? "")")
    }

    @Test(arguments: overHTTP)
    func `a message that is answered by a page isn't reported as sent`(transport: HubTransport) async throws {
        let test = try await Self.connected(transport) { _ in
        } _: { request, _, body, responder in
            guard Self.isCall(request, body) else { return false }
            responder.respond(HTTPResponse(status: 200, text: "<html>Sign in</html>"))
            return true
        }
        let error = await #expect(throws: HubError.self) { try await test.client.send("Method") }
        expect(error?.code == .connectionLost && error?.message.contains("rejected messages") == true, "\(error?.message ?? "")")
    }

    @Test(arguments: overHTTP, [HubError.Code.cancelled, .stopped, .connectionLost])
    func `a message that waits for the answer of the server ends`(transport: HubTransport, end: HubError.Code) async throws {
        let posts = EventRecorder<any HTTPResponder>()
        let test = try await Self.connected(transport) { _ in
        } _: { request, _, body, responder in
            guard Self.isCall(request, body) else { return false }
            posts.record(responder)
            return true
        }
        // With a stream to the server, and without one.
        let upload = HubUpload(AsyncStream<Int> { $0.finish() })
        let task = Task<Void, any Error> {
            if end == .connectionLost { try await test.client.send("Method", upload) } else { try await test.client.send("Method") }
        }
        try await eventually { test.client.driver.read { $0.waiterCount == 1 } }
        switch end {
        case .cancelled: task.cancel()
        case .stopped:
            test.client.stop()
            // A connection that closes waits for the answer, and not longer than this.
            test.clock.advance(by: .seconds(5))
        default: posts.all.first?.respond(HTTPResponse(status: 503))
        }
        let error = await #expect(throws: HubError.self) { try await task.value }
        expectEqual(error?.code, end)
        expectEqual(test.client.driver.read { $0.waiterCount }, 0)
        test.client.stop()
    }

    /// ASP.NET Core ends a connection whose client has sent a ping, and then no others, as over long polling.
    @Test(arguments: overHTTP) func `a check sends a ping over a stream, and an empty body over long polling`(
        transport: HubTransport
    ) async throws {
        let bodies = EventRecorder<String>()
        let test = try await Self.connected(transport) { _ in
        } _: { request, _, body, _ in
            if request == .post { bodies.record(body) }
            return false
        }
        let before = bodies.all.count
        test.client.checkConnection()
        try await eventually { bodies.all.count > before }
        expectEqual(bodies.all.last, transport == .longPolling ? "" : "{\"type\":6}\(Self.separator)")
        for _ in 0..<12 { test.clock.advance(by: .seconds(1)) }
        expect(test.client.isConnected)
        test.client.stop()
    }

    @Test(arguments: HubFormat.allCases)
    func `messages may be cut anywhere between polls`(format: HubFormat) async throws {
        let test = try await Self.connected(.longPolling, { $0.format = format })
        let received = EventRecorder<String>()
        test.client.on("Note") { (text: String) in received.record(text) }
        var bytes: [UInt8] = []
        let arguments = try test.client.coder.arguments("héllo")
        HubMessageWriter.append(.invocation(HubInvocation(id: nil, target: "Note", arguments: arguments)), format, to: &bytes)
        for cut in 1..<bytes.count {
            for part in [bytes[..<cut], bytes[cut...]] { try await test.send(Array(part)) }
        }
        try await eventually { received.all.count == bytes.count - 1 }
        expectEqual(Set(received.all), ["héllo"])
    }

    @Test func `stopping sends DELETE, and doesn't wait for its answer`() async throws {
        let test = try await Self.connected(.longPolling) { _ in
        } _: { request, _, _, _ in
            request == .delete
        }
        test.client.stop()
        expectEqual(test.client.state, .stopped(nil))
        expectEqual(test.script.count(.delete), 1)
    }

    // MARK: Both

    @Test(arguments: overHTTP)
    func `one request with messages is sent at a time, and the next one has all that wait, in order`(transport: HubTransport) async throws {
        let bodies = EventRecorder<String>()
        let posts = EventRecorder<any HTTPResponder>()
        let test = try await Self.connected(transport) { _ in
        } _: { request, _, body, responder in
            guard Self.isCall(request, body) else { return false }
            bodies.record(body)
            posts.record(responder)
            return true
        }
        let call = { (number: Int) in #"{"type":1,"target":"Method","arguments":[\#(number)]}"# + Self.separator }
        var tasks: [Task<Void, any Error>] = []
        let sent = EventRecorder<Int>()
        func send(_ number: Int, waiting count: Int) async throws {
            tasks.append(
                Task {
                    try await test.client.send("Method", number)
                    sent.record(number)
                })
            try await eventually { test.client.driver.read { $0.waiterCount == count } }
        }
        try await send(1, waiting: 1)
        for number in 2...5 { try await send(number, waiting: number) }
        expect(bodies.all == [call(1)] && sent.all.isEmpty)
        posts.all[0].respond(HTTPResponse(status: 200))
        try await eventually { posts.all.count == 2 && sent.all == [1] }
        expectEqual(bodies.all, [call(1), (2...5).map(call).joined()])
        try await send(6, waiting: 5)
        posts.all[1].respond(HTTPResponse(status: 200))
        try await eventually { posts.all.count == 3 && sent.all.count == 5 }
        expectEqual(bodies.all.dropFirst(2), [call(6)])
        posts.all[2].respond(HTTPResponse(status: 200))
        for task in tasks { try await task.value }
        expect(test.client.isConnected)
    }

    /// A request for which a server has only the status 500.
    enum Failing: CaseIterable { case negotiation, opening }

    @Test(arguments: overHTTP, Failing.allCases)
    func `a server that answers 500 is asked as often as the retry policy says`(transport: HubTransport, failing: Failing) async throws {
        let hasFailed = EventRecorder<Bool>()
        let test = try await Self.connected(transport) {
            $0.retry = .standard
        } _: { request, _, _, responder in
            guard !hasFailed.all.isEmpty, request == (failing == .negotiation ? .negotiation : .get) else { return false }
            responder.respond(HTTPResponse(status: 500))
            return true
        }
        let opened = test.script.count(.get)
        hasFailed.record(true)
        if transport == .longPolling { test.answer(500) } else { test.script.waiting.all.last?.end() }
        for (index, delay) in [0, 2, 10, 30].enumerated() {
            try await eventually { test.delays.all.count == index + 1 }
            test.clock.advance(by: .seconds(delay) + .milliseconds(1))
        }
        try await eventually { test.stopError != nil }
        expect(test.stopError?.status == 500 && test.delays.all == [0, 2, 10, 30].map { .seconds($0) })
        expectEqual(test.script.count(.negotiation), 5)
        expectEqual(test.script.count(.get), opened + (failing == .negotiation ? 0 : 4))
        expectEqual(test.script.count(.delete), 0)
    }

    @Test func `a server that opens connections and answers the next poll with 500 is asked ever more slowly`() async throws {
        let test = try await Self.connected(.longPolling) { $0.retry = .delays([.zero]) }
        let pauses: [Duration] = [.zero, .zero, .zero] + [1, 2, 4, 8, 16, 32, 32].map { .seconds($0) }
        for count in 1...pauses.count {
            test.answer(500)
            try await eventually { test.delays.all.count == count }
            test.clock.advance(by: pauses[count - 1] + .milliseconds(1))
            try await eventually { test.client.isConnected && test.script.waiting.all.count == count + 1 }
        }
        expect(test.delays.all == pauses && test.script.count(.negotiation) == pauses.count + 1)
    }

    @Test(arguments: overHTTP, HubFormat.allCases)
    func `a message that exceeds the limit ends the connection`(transport: HubTransport, format: HubFormat) async throws {
        guard transport == .longPolling || format == .json else { return }
        let test = try await Self.connected(transport) {
            $0.format = format
            $0.messageLimit = 1_000
            $0.retry = .delays([.seconds(1)])
        }
        let received = EventRecorder<Int>()
        test.client.on("Note") { (number: Int) in received.record(number) }
        var bytes: [UInt8] = []
        for number in 0..<40 {
            let arguments = try test.client.coder.arguments(number)
            HubMessageWriter.append(.invocation(HubInvocation(id: nil, target: "Note", arguments: arguments)), format, to: &bytes)
        }
        // The limit is that of a message, not of what arrives at a time.
        try await test.send(bytes)
        try await eventually { received.all == Array(0..<40) }
        let call = Task { try await test.client.invoke("Method") }
        try await eventually { test.client.driver.read { $0.callCount == 1 } }
        try await test.send(format == .messagePack ? [0xE9, 0x07] : Array(#"{"x"#.utf8))
        for _ in 0..<3 { try await test.send([UInt8](repeating: 0x78, count: 500)) }
        let error = await hubError { try await call.value }
        expectEqual(error?.code, .invalidMessage, "\(error.map { "\($0)" } ?? "")")
        test.clock.advance(by: .seconds(1))
        try await eventually { test.client.isConnected }
        expectEqual(test.script.count(.negotiation), 2)
    }

    @Test(arguments: overHTTP)
    func `an endless event or an endless message is limited while it arrives`(transport: HubTransport) async throws {
        let test = try await Self.connected(transport) { $0.messageLimit = 1_000 }
        if transport == .serverSentEvents {
            test.script.waiting.all.last?.write(Array("data: ".utf8))
        } else {
            test.script.waiting.all.last?.begin(HTTPResponseHead(status: 200))
        }
        for _ in 0..<60 { test.script.waiting.all.last?.write([UInt8](repeating: 0x78, count: 100_000)) }
        try await eventually { test.stopError != nil && test.script.abandoned.all.count == 1 }
    }

    @Test(arguments: overHTTP)
    func `a handshake without an answer times out`(transport: HubTransport) async throws {
        let test = try await Self.fixture(transport, answersHandshakesAfter: EventRecorder())
        let start = Task { await hubError { try await test.client.start() } }
        try await eventually { test.script.count(.post) == 1 && !test.script.waiting.all.isEmpty }
        test.clock.advance(by: .seconds(14))
        expectEqual(test.client.state, .connecting)
        test.clock.advance(by: .seconds(1))
        await expectEqual(start.value?.code, .handshakeFailed)
        try await eventually { test.script.abandoned.all.count == 1 && test.client.driver.nextDeadline == nil }
    }

    /// A state in which a client over HTTP can be stopped.
    enum Moment: CaseIterable { case opening, handshaking, connected, sending, waiting }

    @Test(arguments: overHTTP, Moment.allCases)
    func `stop is final and prompt in every state, and start works right after it`(transport: HubTransport, moment: Moment) async throws {
        let (unblocked, held) = (EventRecorder<Bool>(), EventRecorder<any HTTPResponder>())
        let test = try await Self.fixture(transport, answersHandshakesAfter: moment == .handshaking ? unblocked : nil) {
            $0.retry = .delays([.seconds(1)])
        } _: { request, _, body, responder in
            let isHeld = moment == .opening && request == .get || moment == .sending && Self.isCall(request, body)
            guard isHeld, unblocked.all.isEmpty else { return false }
            held.record(responder)
            return true
        }
        let start = Task { await hubError { try await test.client.start() } }
        let hasStarted = moment != .opening && moment != .handshaking
        switch moment {
        case .opening: try await eventually { test.script.count(.get) == 1 }
        case .handshaking: try await eventually { test.script.count(.post) == 1 }
        case .connected, .sending, .waiting: try await eventually { test.client.isConnected }
        }
        let call = Task { if moment == .sending { try await test.client.invoke("Method") } }
        if moment == .sending { try await eventually { test.client.driver.read { $0.callCount == 1 } } }
        if moment == .waiting {
            try await eventually { !test.script.waiting.all.isEmpty }
            if transport == .longPolling { test.answer(500) } else { test.script.waiting.all.last?.end() }
            try await eventually { if case .reconnecting = test.client.state { true } else { false } }
        }
        test.client.stop()
        expectEqual(test.client.state, .stopped(nil))
        await expectEqual(start.value?.code, (hasStarted ? nil : .stopped))
        if moment == .sending { await expectEqual(hubError { try await call.value }?.code, .stopped) }
        unblocked.record(true)
        try await test.client.start()
        expect(test.client.isConnected && test.script.count(.negotiation) == 2)
        // The close message of the first connection is given up in the time limit of closing.
        test.clock.advance(by: .seconds(5))
        expect(test.client.isConnected)
        test.client.stop()
        try await eventually {
            test.clock.advance(by: .seconds(5))
            return test.client.driver.nextDeadline == nil && test.clock.untilNextDeadline == nil
        }
    }

    @Test func `stopping closes the stream of events, without DELETE`() async throws {
        let test = try await Self.connected(.serverSentEvents)
        test.client.stop()
        try await eventually { test.script.abandoned.all.count == 1 }
        expectEqual(test.script.count(.delete), 0)
    }

    // MARK: Server-Sent Events

    @Test(arguments: ["text/html", "application/json", ""])
    func `a stream of another type is an error that names it`(type: String) async throws {
        let script = HTTPScript([.serverSentEvents]) { request, _, _, responder in
            guard request == .get else { return false }
            responder.respond(HTTPResponse(status: 200, headers: ["Content-Type": type], text: "<html>"))
            return true
        }
        let test = try await Fixture(script, .serverSentEvents)
        let error = await #expect(throws: HubError.self) { try await test.client.start() }
        expectEqual(error?.message.contains("content type \"\(type)\""), true, "\(error?.message ?? "")")
    }

    @Test func `an event stream may be cut anywhere`() async throws {
        let message = #"{"type":1,"target":"Note","arguments":["héllo\nworld"]}"# + Self.separator
        let stream = Array("data: {}\(Self.separator)\r\n\r\n:comment\nevent: x\ndata: \(message)\r\n\r\ndata: \(message)\n\n".utf8)
        for cut in 1..<stream.count {
            let script = HTTPScript([.serverSentEvents]) { request, _, _, responder in
                guard request == .get else { return false }
                responder.begin(HTTPResponseHead(status: 200, headers: Self.text))
                responder.write(Array(stream[..<cut]))
                responder.write(Array(stream[cut...]))
                return true
            }
            let test = try await Fixture(script, .serverSentEvents)
            let received = EventRecorder<String>()
            test.client.on("Note") { (text: String) in received.record(text) }
            try await test.client.start()
            try await eventually { received.all == ["héllo\nworld", "héllo\nworld"] }
            test.client.stop()
        }
    }

    @Test func `an invalid message doesn't affect its neighbors`() async throws {
        let test = try await Self.connected()
        let received = EventRecorder<Int>()
        test.client.on("Note") { (number: Int) in received.record(number) }
        let errors = test.client.errors
        let note = { (number: Int) in #"{"type":1,"target":"Note","arguments":[\#(number)]}"# + Self.separator }
        try await test.send(note(1) + #"{"type":1,"target":7}"# + Self.separator + note(2))
        try await eventually { received.all == [1, 2] }
        await expectEqual(errors.first { _ in true }?.code, .invalidMessage)
        expect(test.client.isConnected)
    }

    @Test func `an event may contain many messages that are small`() async throws {
        let test = try await Self.connected(.serverSentEvents) { $0.messageLimit = 1_000 }
        let received = EventRecorder<Int>()
        test.client.on("Note") { (number: Int) in received.record(number) }
        try await test.send((0..<1_000).map { #"{"type":1,"target":"Note","arguments":[\#($0)]}"# + Self.separator }.joined())
        try await eventually { received.all.count == 1_000 }
        expect(received.all == Array(0..<1_000) && test.client.isConnected)
    }

    @Test func `a provider of tokens that never returns after a refusal ends the connection`() async throws {
        let asked = EventRecorder<Bool>()
        let (answers, answer) = AsyncStream<Void>.makeStream()
        defer { answer.finish() }
        let test = try await Self.connected {
            $0.accessToken = {
                asked.record(true)
                if asked.all.count > 1 { for await _ in answers { break } }
                return "token"
            }
        } _: { request, number, _, responder in
            guard request == .get, number == 4 else { return false }
            responder.respond(HTTPResponse(status: 401))
            return true
        }
        let call = Task { try await test.client.invoke("Method") }
        test.answer(200)
        try await eventually { asked.all.count == 2 }
        try await eventually {
            test.clock.advance(by: .seconds(1))
            return test.stopError != nil
        }
        expectEqual(test.stopError?.code, .tokenFailed)
        await #expect(throws: HubError.self) { try await call.value }
    }

    // MARK: Fallback

    @Test(arguments: [false, true])
    func `an attempt that fails later also says what the transports before have said`(isHandshake: Bool) async throws {
        let script = HTTPScript([.webSockets, .longPolling]) { request, number, _, responder in
            switch (request, number) {
            case (.negotiation, 2) where !isHandshake: responder.respond(HTTPResponse(status: 503, text: "busy"))
            case (.get, _): responder.respond(HTTPResponse(status: 200, text: number == 2 ? #"{"error":"no"}"# + Self.separator : ""))
            default: return false
            }
            return true
        }
        let test = try await Fixture(script, .all)
        let error = await #expect(throws: HubError.self) { try await test.client.start() }
        expectEqual(error?.code, (isHandshake ? .handshakeFailed : .negotiationFailed))
        let parts = error?.message.split(separator: "Before, WebSockets: ") ?? []
        expect(parts.count == 2 && parts.last?.contains("404") == true, "\(error?.message ?? "")")
    }

    @Test func `a handshake that is rejected isn't followed by another transport`() async throws {
        let script = HTTPScript([.longPolling, .serverSentEvents]) { request, number, _, responder in
            guard request == .get else { return false }
            responder.respond(HTTPResponse(status: 200, text: number == 2 ? #"{"error":"no"}"# + Self.separator : ""))
            return true
        }
        let test = try await Fixture(script, .all)
        let error = await #expect(throws: HubError.self) { try await test.client.start() }
        expect(error?.code == .handshakeFailed && error?.serverMessage == "no")
        expectEqual(script.count(.negotiation), 1)
    }

    @Test func `a transport that is neither opened nor refused is given up for the next one`() async throws {
        let silent = UpgradeDecision.later { _ in }
        let script = HTTPScript([.webSockets, .serverSentEvents, .longPolling], upgrade: silent) { request, number, _, responder in
            // The first request is that of the stream, whose head a proxy holds back.
            guard request == .get, number == 2 || number == 3 else { return false }
            responder.respond(HTTPResponse(status: 200, text: number == 3 ? "{}" + Self.separator : ""))
            return true
        }
        // The clock runs ahead of the tasks that negotiate.
        let test = try await Fixture(script, .all) { $0.connectTimeout = .seconds(1_000_000) }
        let start = Task { try await test.client.start() }
        try await eventually { script.count(.negotiation) == 1 }
        for count in 2...3 {
            try await eventually {
                test.clock.advance(by: .seconds(1))
                return script.count(.negotiation) == count
            }
        }
        try await expectEqual(start.value, "id-1")
        expectEqual(test.client.transport, .longPolling)
    }

    @Test func `a transport that opens and passes nothing on is given up for the next one, also when the client reconnects`() async throws {
        let seen = EventRecorder<HTTPScript.Request>()
        let offer = [HubTransport.webSockets, .serverSentEvents, .longPolling]
        let script = HTTPScript(offer, upgrade: .accept(subprotocol: nil)) { request, _, _, responder in
            if request == .negotiation || request == .get { seen.record(request) }
            guard request == .get else { return false }
            let negotiations = seen.all.count { $0 == .negotiation }
            let polls = seen.all.reversed().prefix { $0 == .get }.count
            if negotiations % 3 == 2 {
                responder.begin(HTTPResponseHead(status: 200, headers: Self.text))
            } else if polls <= 2 {
                responder.respond(HTTPResponse(status: 200, text: polls == 2 ? "{}" + Self.separator : ""))
                return true
            }
            return false
        }
        let test = try await Fixture(script, .all) { ($0.retry, $0.connectTimeout) = (.delays([.zero]), .seconds(1_000_000)) }
        let start = Task { try await test.client.start() }
        for (negotiations, isLast) in [(1, false), (2, false), (3, true), (4, false), (5, false), (6, true)] {
            try await eventually {
                test.clock.advance(by: .seconds(1))
                return script.count(.negotiation) == negotiations
            }
            guard isLast else { continue }
            try await eventually { test.client.isConnected }
            expectEqual(test.client.transport, .longPolling)
            test.answer(404)
        }
        try await expectEqual(start.value, "id-1")
    }
}
