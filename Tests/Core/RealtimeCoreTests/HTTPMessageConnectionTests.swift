import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Lines over HTTP, as a stream or by polling.
private struct LineRules: HTTPMessageConnectionRules {
    let base: Endpoint
    let isStream: Bool
    var pausedPolling: HTTPPausedPolling?
    var rest: [UInt8] = []
    var bodyLimit: Int? { self.isStream ? nil : 64 << 10 }

    mutating func receivingRequest() -> HTTPRequest {
        self.rest = []
        return HTTPRequest("GET", self.base.appending(path: "receive"), idleTimeout: .seconds(100))
    }

    func received(_ head: HTTPResponseHead) -> HTTPVerdict {
        switch head.status {
        case 200: .proceed
        case 204: .end(.peer(.normal, "over"))
        case 418: .reject
        default: .end(.transport(TransportError(.requestRejected, "status \(head.status)", status: head.status)))
        }
    }

    mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError) {
        for byte in bytes {
            if byte != UInt8(ascii: "\n") {
                self.rest.append(byte)
            } else {
                guard self.rest != Array("bad".utf8) else { throw TransportError(.protocolViolation, "a bad line") }
                batch.append(.text, self.rest)
                self.rest = []
            }
        }
    }

    func bodyEnded(into batch: inout MessageBatch) -> HTTPVerdict {
        if self.isStream { return .end(.peer(.noStatus, "")) }
        return self.rest == Array("later".utf8) ? .pause(.seconds(3)) : .proceed
    }

    /// At most 10 bytes in a request, but at least one message.
    func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int) {
        var (body, count) = ([UInt8](), 0)
        for message in messages {
            if count > 0, body.count + message.bytes.count > 10 { break }
            body += message.bytes
            count += 1
        }
        return (HTTPRequest("POST", self.base.appending(path: "send"), body: body), count)
    }

    func sent(_ response: HTTPResponse) -> HTTPVerdict { response.body == Array("bye".utf8) ? .end(.peer(.normal, "bye")) : .proceed }

    func closing(_ code: CloseCode, reason: String) -> HTTPClosing {
        if reason == "moved" { return .finishReceiving() }
        if reason == "moves slowly" { return .finishReceiving(limit: .seconds(40)) }
        var endpoint = self.base.appending(path: "receive")
        endpoint.addQuery("code", "\(code.rawValue)")
        return .request(HTTPRequest("DELETE", endpoint))
    }
}

/// A connection over HTTP on an in-memory network, and a server whose answers a test gives.
@Suite struct HTTPMessageConnectionTests {
    private final class Server: ListenerHandler {
        /// The requests, as `METHOD body`.
        let requests = EventRecorder<String>()
        let heads = EventRecorder<HTTPRequestHead>()
        let receiving = EventRecorder<any HTTPResponder>()
        let sending = EventRecorder<any HTTPResponder>()
        let closing = EventRecorder<any HTTPResponder>()
        let disconnects = EventRecorder<Bool>()
        /// Answers a request immediately.
        let answer = Lock<(@Sendable (HTTPRequestHead) -> HTTPResponse?)?>(nil)

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            self.requests.record(body.isEmpty ? request.method : "\(request.method) \(String(decoding: body, as: UTF8.self))")
            self.heads.record(request)
            responder.onDisconnect { self.disconnects.record(true) }
            if let response = self.answer.withLock({ $0 })?(request) { return responder.respond(response) }
            switch request.method {
            case "GET": self.receiving.record(responder)
            case "POST": self.sending.record(responder)
            default: self.closing.record(responder)
            }
        }

        func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 400)) }
    }

    private final class Events: HTTPMessageEvents {
        let all = EventRecorder<String>()
        let errors = EventRecorder<TransportError>()
        /// The numbers of messages that the server has taken.
        let answers = EventRecorder<Int>()
        let react = Lock<(@Sendable (String) -> Void)?>(nil)
        let onOpen = Lock<(@Sendable () -> Void)?>(nil)

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {
            self.all.record("opened \(head.status)")
            self.onOpen.withLock { $0 }?()
        }

        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            let texts = batch.messages.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: " ")
            self.all.record("received " + texts)
            self.react.withLock { $0 }?(texts)
        }

        func writing(_ id: ConnectionID, paused: Bool) { self.all.record(paused ? "writing paused" : "writing resumed") }

        func answered(_ id: ConnectionID, _ count: Int) { self.answers.record(count) }

        func unsent(_ id: ConnectionID, _ messages: [TransportMessage]) {
            self.all.record("unsent " + messages.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: " "))
        }

        func closed(_ id: ConnectionID, _ reason: CloseReason) {
            switch reason {
            case .peer(let code, let text): self.all.record("closed by peer \(code.rawValue) \(text)")
            case .requested: self.all.record("closed requested")
            case .transport(let error):
                self.errors.record(error)
                self.all.record("closed \(error.code) \(error.status.map { "\($0)" } ?? "")")
            default: self.all.record("closed \(reason)")
            }
        }
    }

    private final class Fixture: Sendable {
        let clock = ManualClock()
        let network: InMemoryNetwork
        let server = Server()
        let listener: InMemoryListener
        let events = Events()
        let connection: any MessageConnection
        let cookies = RedirectingHTTP.Cookies()
        let base: Endpoint

        init(
            isStream: Bool, sendsHeadersAfterRedirect: Bool = false, pausedPolling: HTTPPausedPolling? = nil,
            headers: HTTPMessageConnection.Environment.Headers? = nil
        ) async throws {
            self.network = InMemoryNetwork(clock: self.clock)
            self.listener = self.network.listener()
            let address = try await self.listener.start(self.server)
            var base = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/")
            base.addQuery("token", "secret")
            self.base = base
            var environment = HTTPMessageConnection.Environment(self.network.transports(), cookies: self.cookies, headers: headers)
            environment.sendsHeadersAfterRedirect = sendsHeadersAfterRedirect
            self.connection = HTTPMessageConnection(
                LineRules(base: base, isStream: isStream, pausedPolling: pausedPolling), in: environment, id: ConnectionID(rawValue: 1),
                events: self.events)
        }

        /// A connection that is open.
        static func open(
            isStream: Bool, pausedPolling: HTTPPausedPolling? = nil, headers: HTTPMessageConnection.Environment.Headers? = nil
        ) async throws -> Fixture {
            let fixture = try await Fixture(isStream: isStream, pausedPolling: pausedPolling, headers: headers)
            fixture.connection.open()
            fixture.receiver.begin(HTTPResponseHead(status: 200))
            if !isStream { fixture.receiver.end() }
            return fixture
        }

        /// The responder of the last request of the receiving loop.
        var receiver: any HTTPResponder { self.server.receiving.all.last! }

        func send(_ texts: String...) {
            for text in texts { self.connection.enqueue(.text(text)) }
            self.connection.flush()
        }

        deinit {
            self.connection.abandon()
            self.network.cut()
        }
    }

    private static func lines(_ lines: String...) -> [UInt8] { Array(lines.map { $0 + "\n" }.joined().utf8) }

    // MARK: Receiving

    @Test func `a stream opens the connection with its head, and its messages arrive in order`() async throws {
        let fixture = try await Fixture(isStream: true)
        fixture.connection.open()
        fixture.connection.open()
        expect(fixture.server.requests.all == ["GET"] && fixture.events.all.all.isEmpty)
        fixture.receiver.begin(HTTPResponseHead(status: 200))
        fixture.receiver.write(Self.lines("a", "b"))
        fixture.receiver.write(Array("c".utf8))
        fixture.receiver.write(Self.lines("", "d"))
        expectEqual(fixture.events.all.all, ["opened 200", "received a b", "received c d"])
        fixture.receiver.end()
        expectEqual(fixture.events.all.all.suffix(1), ["closed by peer 1005 "])
    }

    @Test func `a poll opens the connection, and each response is followed by the next request`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        expect(fixture.events.all.all == ["opened 200"] && fixture.server.requests.all == ["GET", "GET"])
        fixture.receiver.respond(HTTPResponse(status: 200, text: "a\nb\n"))
        fixture.receiver.respond(HTTPResponse(status: 200, text: "c\n"))
        expectEqual(fixture.events.all.all, ["opened 200", "received a b", "received c"])
        expectEqual(fixture.server.requests.all.count, 4)
        fixture.receiver.respond(HTTPResponse(status: 204))
        expectEqual(fixture.events.all.all.suffix(1), ["closed by peer 1000 over"])
        expectEqual(fixture.server.requests.all.count, 4)
    }

    @Test func `a poll that is to be followed later leaves a pause, which a connection that moves doesn't wait for`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        fixture.receiver.respond(HTTPResponse(status: 200, text: "a\nlater"))
        fixture.clock.advance(by: .milliseconds(2999))
        expect(fixture.events.all.all == ["opened 200", "received a"] && fixture.server.requests.all == ["GET", "GET"])
        fixture.clock.advance(by: .milliseconds(1))
        expectEqual(fixture.server.requests.all, ["GET", "GET", "GET"])
        fixture.receiver.respond(HTTPResponse(status: 200, text: "later"))
        fixture.connection.close(.normal, reason: "moved")
        expect(fixture.events.all.all.last == "closed requested" && fixture.clock.untilNextDeadline == nil)
        expectEqual(fixture.server.requests.all, ["GET", "GET", "GET"])
    }

    @Test func `a task that waits for the connection continues when the next request was sent`() async throws {
        let fixture = try await Fixture(isStream: false)
        let (server, task) = (fixture.server, WaitingTask())
        fixture.events.onOpen.withLock { $0 = { task.resume() } }
        server.answer.withLock { $0 = { [heads = server.heads] _ in heads.all.count == 1 ? HTTPResponse(status: 200) : nil } }
        async let requests = task.wait { server.requests.all }
        try await eventually { task.isWaiting }
        try await onOwnThread { fixture.connection.open() }
        await expectEqual(requests, ["GET", "GET"])
    }

    @Test func `no poll is sent while reading is paused`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        fixture.connection.pauseReading()
        fixture.receiver.respond(HTTPResponse(status: 200, text: "a\n"))
        expect(fixture.events.all.all == ["opened 200"] && fixture.server.requests.all.count == 2)
        fixture.connection.resumeReading()
        fixture.connection.flush()
        expect(fixture.events.all.all == ["opened 200", "received a"] && fixture.server.requests.all.count == 3)
        // The next one waits, if reading is paused when the response arrives.
        fixture.receiver.begin(HTTPResponseHead(status: 200))
        fixture.connection.pauseReading()
        fixture.connection.resumeReading()
        fixture.connection.flush()
        fixture.receiver.end()
        expectEqual(fixture.server.requests.all.count, 4)
    }

    @Test func `a server that would forget the client is asked during a pause, up to a limit`() async throws {
        let fixture = try await Fixture.open(isStream: false, pausedPolling: HTTPPausedPolling(interval: .seconds(5), byteLimit: 5))
        fixture.connection.pauseReading()
        fixture.receiver.respond(HTTPResponse(status: 200, text: "a\n"))
        fixture.clock.advance(by: .milliseconds(4_999))
        expect(fixture.events.all.all == ["opened 200"] && fixture.server.requests.all.count == 2)
        fixture.clock.advance(by: .milliseconds(1))
        expect(fixture.events.all.all == ["opened 200", "received a"] && fixture.server.requests.all.count == 3)
        // The request waits for an answer: there is nothing to do.
        fixture.connection.pauseReading()
        fixture.clock.advance(by: .seconds(4))
        for (index, text) in ["b", "c"].enumerated() {
            fixture.receiver.respond(HTTPResponse(status: 200, text: text + "\n"))
            fixture.clock.advance(by: .seconds(5))
            expect(fixture.events.all.all.suffix(1) == ["received \(text)"] && fixture.server.requests.all.count == 4 + index)
        }
        fixture.receiver.respond(HTTPResponse(status: 200, text: "d\n"))
        fixture.clock.advance(by: .seconds(100))
        expect(fixture.events.all.all.suffix(1) == ["received c"] && fixture.server.requests.all.count == 5)
        fixture.connection.resumeReading()
        fixture.connection.flush()
        expect(fixture.events.all.all.suffix(1) == ["received d"] && fixture.server.requests.all.count == 6)
        fixture.receiver.respond(HTTPResponse(status: 200, text: "e\n"))
        expect(fixture.events.all.all.suffix(1) == ["received e"] && fixture.server.requests.all.count == 7)
    }

    @Test func `a pause needs no time before a connection is opened, and after its end`() {
        let endpoint = Endpoint(scheme: "http", host: "example.com", port: 80, target: "/")
        let polling = HTTPPausedPolling(interval: .seconds(5), byteLimit: 5)
        var machine = HTTPMessageConnectionMachine(LineRules(base: endpoint, isStream: false, pausedPolling: polling))
        let start = Instant(nanoseconds: 0)
        machine.pauseReading(now: start)
        expectNil(machine.nextDeadline)
        _ = machine.open(now: start)
        expectEqual(machine.nextDeadline, start.advanced(by: .seconds(5)))
        _ = machine.abandon()
        expectNil(machine.nextDeadline)
    }

    @Test func `during a pause, the answer to a request that waited for it is read once per interval`() async throws {
        let fixture = try await Fixture.open(isStream: false, pausedPolling: HTTPPausedPolling(interval: .seconds(5), byteLimit: 100))
        fixture.connection.pauseReading()
        fixture.clock.advance(by: .seconds(60))
        fixture.receiver.respond(HTTPResponse(status: 200, text: "a\n"))
        expect(fixture.events.all.all == ["opened 200", "received a"] && fixture.server.requests.all.count == 3)
        fixture.receiver.respond(HTTPResponse(status: 200, text: "b\n"))
        expect(fixture.events.all.all.count == 2 && fixture.server.requests.all.count == 3)
        fixture.clock.advance(by: .seconds(5))
        expect(fixture.events.all.all.suffix(1) == ["received b"] && fixture.server.requests.all.count == 4)
    }

    @Test func `a stream isn't read while reading is paused, which the server notices`() async throws {
        let fixture = try await Fixture.open(isStream: true)
        let changes = EventRecorder<Bool>()
        fixture.receiver.onWriting { changes.record($0) }
        fixture.connection.pauseReading()
        fixture.receiver.write([UInt8](repeating: 0x61, count: 300 << 10) + Self.lines(""))
        fixture.clock.advance(by: .seconds(1000))
        expect(fixture.events.all.all == ["opened 200"] && changes.all == [true])
        fixture.connection.resumeReading()
        fixture.connection.flush()
        expect(fixture.events.all.all.count == 2 && changes.all == [true, false])
    }

    @Test func `a stream is read in shares while reading is paused, up to the limit`() async throws {
        let polling = HTTPPausedPolling(interval: .seconds(2), byteLimit: 100, share: 40)
        let fixture = try await Fixture.open(isStream: true, pausedPolling: polling)
        fixture.connection.pauseReading()
        for number in 10..<100 { fixture.receiver.write(Self.lines("line \(number)")) }
        func received() -> Int { fixture.events.all.all.count - 1 }
        expectEqual(received(), 0)
        // Lines of 8 bytes.
        for interval in 1...3 {
            fixture.clock.advance(by: .milliseconds(1_999))
            expectEqual(received(), 5 * (interval - 1))
            fixture.clock.advance(by: .milliseconds(1))
            expectEqual(received(), 5 * interval)
        }
        fixture.clock.advance(by: .seconds(1_000))
        expectEqual(received(), 15)
        fixture.connection.resumeReading()
        fixture.connection.flush()
        expectEqual(received(), 90)
    }

    @Test func `a connection that was paused before it opened can be resumed`() async throws {
        let fixture = try await Fixture(isStream: true)
        fixture.connection.pauseReading()
        fixture.connection.open()
        fixture.receiver.begin(HTTPResponseHead(status: 200))
        fixture.receiver.write(Self.lines("a"))
        expect(fixture.events.all.all.isEmpty)
        fixture.connection.resumeReading()
        fixture.connection.flush()
        expectEqual(fixture.events.all.all, ["opened 200", "received a"])
    }

    @Test func `a pause that follows the end of another one immediately isn't lost`() async throws {
        let fixture = try await Fixture.open(isStream: true)
        fixture.events.react.withLock { react in
            react = { [weak fixture] text in
                guard text == "a", let connection = fixture?.connection else { return }
                // The exchange is resumed only when the events were processed.
                connection.pauseReading()
                connection.resumeReading()
                connection.flush()
                connection.pauseReading()
            }
        }
        fixture.receiver.write(Self.lines("a"))
        fixture.receiver.write(Self.lines("b"))
        expectEqual(fixture.events.all.all, ["opened 200", "received a"])
        fixture.connection.resumeReading()
        fixture.connection.flush()
        expectEqual(fixture.events.all.all, ["opened 200", "received a", "received b"])
    }

    @Test func `a transport may not repeat a request for messages, since a server sends each message once`() {
        let endpoint = Endpoint(scheme: "http", host: "example.com", port: 80, target: "/")
        var machine = HTTPMessageConnectionMachine(LineRules(base: endpoint, isStream: false))
        guard case .start(_, let request, _) = machine.open(now: Instant(nanoseconds: 0)).first else {
            Issue.record("there is no request")
            return
        }
        expect(request.method == "GET" && !request.isRepeatable)
    }

    @Test func `answers that have a message each are asked for without a pause`() async throws {
        let fixture = try await Fixture(isStream: false)
        let count = Lock(0)
        fixture.server.answer.withLock { answer in
            answer = { _ in
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                return number <= 1000 ? HTTPResponse(status: 200, text: "\(number)\n") : nil
            }
        }
        fixture.connection.open()
        expectEqual(fixture.events.all.all.dropFirst(), (1...1000).map { "received \($0)" }[...])
        expectEqual(fixture.server.receiving.all.count, 1)
    }

    // MARK: Time limits

    private static let endpoint = Endpoint(scheme: "http", host: "example.com", port: 80, target: "/")

    /// The error with which commands close a connection.
    private static func error(_ commands: [HTTPMessageConnectionMachine.Command]) -> TransportError? {
        for case .closed(.transport(let error)) in commands { return error }
        return nil
    }

    @Test func `the head of an answer has a time limit from when its request was sent`() {
        var machine = HTTPMessageConnectionMachine(LineRules(base: Self.endpoint, isStream: false))
        let start = Instant(nanoseconds: 0)
        _ = machine.open(now: start)
        // Until its header fields are known, the request isn't sent.
        expectNil(machine.nextDeadline)
        let sent = start.advanced(by: .seconds(7))
        expect(machine.prepared(ExchangeID(rawValue: 1), generation: 0, now: sent))
        // The time limit for the answer, and some time for the connection.
        let deadline = sent.advanced(by: .seconds(110))
        expectEqual(machine.nextDeadline, deadline)
        expect(machine.timeout(now: sent.advanced(by: .seconds(109))).isEmpty)
        let error = Self.error(machine.timeout(now: deadline))
        expect(error?.code == .timedOut && error?.message.contains("the head of its answer wasn't complete after 110.0 seconds") == true)
        expect(machine.hasEnded && machine.nextDeadline == nil)
    }

    @Test func `the limit of an answer that passed while the process stood still begins anew`() {
        var machine = HTTPMessageConnectionMachine(LineRules(base: Self.endpoint, isStream: false))
        let start = Instant(nanoseconds: 0)
        _ = machine.open(now: start)
        expect(machine.prepared(ExchangeID(rawValue: 1), generation: 0, now: start))
        let continued = start.advanced(by: .seconds(500))
        expect(machine.timeout(now: continued).isEmpty)
        let deadline = continued.advanced(by: .seconds(110))
        expectEqual(machine.nextDeadline, deadline)
        expectEqual(Self.error(machine.timeout(now: deadline))?.code, .timedOut)
    }

    @Test func `the answer to messages has a time limit, with a second more for each KiB of them`() {
        var machine = HTTPMessageConnectionMachine(LineRules(base: Self.endpoint, isStream: true))
        let start = Instant(nanoseconds: 0)
        _ = machine.open(now: start)
        _ = machine.received(HTTPResponseHead(status: 200), of: ExchangeID(rawValue: 1), now: start)
        machine.enqueue(.text(String(repeating: "a", count: 5 << 10)))
        _ = machine.flush(now: start)
        let id = ExchangeID(rawValue: 2)
        expect(machine.prepared(id, generation: 0, now: start))
        let deadline = start.advanced(by: .seconds(75))
        expectEqual(machine.nextDeadline, deadline)
        // Neither the head nor a part of the body gives it more time.
        _ = machine.received(HTTPResponseHead(status: 200), of: id, now: start.advanced(by: .seconds(60)))
        Array("o".utf8).withUnsafeBytes { _ = machine.received($0, of: id, in: MessageBatch(), now: start.advanced(by: .seconds(74))) }
        expectEqual(machine.nextDeadline, deadline)
        let error = Self.error(machine.timeout(now: deadline))
        expect(error?.code == .timedOut && error?.message.contains("wasn't complete after 75.0 seconds") == true, "\(error as Any)")
    }

    @Test func `an answer may arrive slowly, but not stop, and what rejects messages is the error`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        fixture.receiver.begin(HTTPResponseHead(status: 200))
        // 100 seconds, and one for each KiB.
        for _ in 0..<128 {
            fixture.receiver.write([UInt8](repeating: 0x61, count: 500))
            fixture.clock.advance(by: .seconds(1))
        }
        for _ in 128..<161 {
            fixture.receiver.write([0x61])
            fixture.clock.advance(by: .seconds(1))
        }
        expectEqual(fixture.events.all.all, ["opened 200"])
        fixture.receiver.write([0x61])
        fixture.clock.advance(by: .seconds(1))
        expectEqual(fixture.events.all.all, ["opened 200", "closed timedOut "])
        // Its owner limits the silence of a stream.
        let stream = try await Fixture.open(isStream: true)
        for _ in 0..<1_000 {
            stream.receiver.write([0x61])
            stream.clock.advance(by: .seconds(1))
        }
        expectEqual(stream.events.all.all, ["opened 200"])
        let rejected = try await Fixture.open(isStream: false)
        rejected.send("a")
        rejected.server.sending.all[0].begin(HTTPResponseHead(status: 503))
        for _ in 0..<69 {
            rejected.server.sending.all[0].write([0x61])
            rejected.clock.advance(by: .seconds(1))
        }
        expectEqual(rejected.events.all.all, ["opened 200"])
        rejected.clock.advance(by: .seconds(1))
        expectEqual(rejected.events.all.all, ["opened 200", "closed requestRejected 503"])
    }

    @Test func `while reading is paused, an answer has all the time it needs`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        fixture.receiver.begin(HTTPResponseHead(status: 200))
        fixture.connection.pauseReading()
        fixture.clock.advance(by: .seconds(100_000))
        expectEqual(fixture.events.all.all, ["opened 200"])
        fixture.connection.resumeReading()
        fixture.connection.flush()
        for _ in 0..<99 {
            fixture.receiver.write([0x61])
            fixture.clock.advance(by: .seconds(1))
        }
        expectEqual(fixture.events.all.all, ["opened 200"])
        fixture.receiver.write([0x61])
        fixture.clock.advance(by: .seconds(1))
        expectEqual(fixture.events.all.all.last, "closed timedOut ")
    }

    @Test func `the body of a response is limited, if the rules keep it`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        fixture.receiver.begin(HTTPResponseHead(status: 200))
        fixture.receiver.write(Self.lines("a"))
        for _ in 0..<10 { fixture.receiver.write([UInt8](repeating: 0x61, count: 10_000)) }
        expectEqual(fixture.events.all.all, ["opened 200", "received a", "closed tooLarge "])
        expectEqual(fixture.server.disconnects.all, [true])
        let message = fixture.events.errors.all.first?.message ?? ""
        expect(message.contains("/receive answered with more than 65536 bytes") && !message.contains("secret"))
        // A stream may be as long as it likes.
        let stream = try await Fixture.open(isStream: true)
        for _ in 0..<10 { stream.receiver.write([UInt8](repeating: 0x61, count: 10_000)) }
        stream.receiver.write(Self.lines(""))
        expectEqual(stream.events.all.all.count, 2)
    }

    @Test func `a server that answers polls immediately without messages is asked ever more slowly`() async throws {
        let fixture = try await Fixture(isStream: false)
        fixture.server.answer.withLock { $0 = { _ in HTTPResponse(status: 200, text: "") } }
        fixture.connection.open()
        expectEqual(fixture.server.requests.all.count, 2)
        for (delay, count) in [(100, 3), (200, 4), (400, 5), (800, 6), (1600, 7), (3200, 8), (5000, 9), (5000, 10)] {
            fixture.clock.advance(by: .milliseconds(delay - 1))
            expectEqual(fixture.server.requests.all.count, count - 1)
            fixture.clock.advance(by: .milliseconds(1))
            expectEqual(fixture.server.requests.all.count, count)
        }
        // A message ends the pauses.
        fixture.server.answer.withLock { $0 = nil }
        fixture.clock.advance(by: .seconds(5))
        fixture.receiver.respond(HTTPResponse(status: 200, text: "a\n"))
        expectEqual(fixture.server.requests.all.count, 12)
    }

    @Test(arguments: [false, true])
    func `an error ends the connection once, and the messages before it arrive`(isStream: Bool) async throws {
        let fixture = try await Fixture.open(isStream: isStream)
        fixture.receiver.begin(HTTPResponseHead(status: 200))
        fixture.receiver.write(Self.lines("a", "bad", "b"))
        expectEqual(fixture.events.all.all, ["opened 200", "received a", "closed protocolViolation "])
        expectEqual(fixture.server.disconnects.all, [true])
        fixture.network.cut()
        expectEqual(fixture.events.all.all.count, 3)
    }

    @Test(arguments: [false, true])
    func `a lost request ends the connection`(isStream: Bool) async throws {
        let fixture = try await Fixture.open(isStream: isStream)
        fixture.network.cut()
        expectEqual(fixture.events.all.all, ["opened 200", "closed reset "])
    }

    @Test func `a rejected first request ends the connection without opening it`() async throws {
        let fixture = try await Fixture(isStream: true)
        fixture.connection.open()
        fixture.receiver.respond(HTTPResponse(status: 404))
        expectEqual(fixture.events.all.all, ["closed requestRejected 404"])
    }

    // MARK: Sending

    @Test func `one request at a time sends all that waits, up to the limit of the rules`() async throws {
        let fixture = try await Fixture(isStream: true)
        fixture.send("early ")
        fixture.connection.open()
        expect(fixture.server.sending.all.isEmpty)
        fixture.receiver.begin(HTTPResponseHead(status: 200))
        expectEqual(fixture.server.requests.all, ["GET", "POST early "])
        fixture.send("a", "b")
        fixture.send("cccccccc", "dd")
        fixture.send("a long message", "e")
        expectEqual(fixture.server.requests.all.count, 2)
        for expected in ["POST abcccccccc", "POST dd", "POST a long message", "POST e"] {
            fixture.server.sending.all.last?.respond(HTTPResponse(status: 200))
            expectEqual(fixture.server.requests.all.last, expected)
        }
        fixture.server.sending.all.last?.respond(HTTPResponse(status: 200, text: "bye"))
        expectEqual(fixture.events.all.all, ["opened 200", "closed by peer 1000 bye"])
    }

    /// Writes the first message of a burst, and then others while its request is in progress.
    private static func burst(of count: Int, every interval: Duration) async throws -> Fixture {
        let fixture = try await Fixture.open(isStream: true)
        fixture.send("0")
        for number in 1...count {
            fixture.clock.advance(by: interval)
            fixture.send("\(number)")
        }
        return fixture
    }

    @Test func `a request waits for the rest of a burst, and takes all of it`() async throws {
        let fixture = try await Self.burst(of: 8, every: .microseconds(1))
        fixture.server.sending.all.last?.respond(HTTPResponse(status: 200))
        expectEqual(fixture.server.requests.all, ["GET", "POST 0"])
        fixture.clock.advance(by: .microseconds(99))
        fixture.send("9")
        expectEqual(fixture.server.requests.all, ["GET", "POST 0"])
        fixture.clock.advance(by: .microseconds(1))
        expectEqual(fixture.server.requests.all, ["GET", "POST 0", "POST 123456789"])
        // What follows a burst isn't one.
        fixture.send("a")
        fixture.server.sending.all.last?.respond(HTTPResponse(status: 200))
        expectEqual(fixture.server.requests.all.last, "POST a")
    }

    @Test(arguments: [(7, Duration.microseconds(1)), (8, .microseconds(100)), (8, .zero)])
    func `messages that are few, slow or written at one instant are sent with the next request immediately`(
        count: Int, interval: Duration
    ) async throws {
        let fixture = try await Self.burst(of: count, every: interval)
        fixture.server.sending.all.last?.respond(HTTPResponse(status: 200))
        expectEqual(fixture.server.requests.all, ["GET", "POST 0", "POST \((1...count).map(String.init).joined())"])
    }

    @Test func `a burst that is over when the answer arrives is sent immediately`() async throws {
        let fixture = try await Self.burst(of: 8, every: .microseconds(1))
        fixture.clock.advance(by: .microseconds(100))
        fixture.server.sending.all.last?.respond(HTTPResponse(status: 200))
        expectEqual(fixture.server.requests.all, ["GET", "POST 0", "POST 12345678"])
    }

    @Test func `a connection that is closed doesn't wait for the rest of a burst, and an abandoned one sends none`() async throws {
        let closed = try await Self.burst(of: 8, every: .microseconds(1))
        closed.server.sending.all.last?.respond(HTTPResponse(status: 200))
        closed.connection.close(.normal, reason: "")
        expectEqual(closed.server.requests.all, ["GET", "POST 0", "POST 12345678"])
        closed.server.sending.all.last?.respond(HTTPResponse(status: 200))
        expectEqual(closed.server.requests.all.last, "DELETE")

        let abandoned = try await Self.burst(of: 8, every: .microseconds(1))
        abandoned.server.sending.all.last?.respond(HTTPResponse(status: 200))
        abandoned.connection.abandon()
        abandoned.clock.advance(by: .seconds(1))
        expectEqual(abandoned.server.requests.all, ["GET", "POST 0"])
    }

    @Test func `a rejected or lost message ends the connection`() async throws {
        let rejected = try await Fixture.open(isStream: true)
        rejected.send("a")
        rejected.server.sending.all[0].respond(HTTPResponse(status: 500))
        expectEqual(rejected.events.all.all, ["opened 200", "closed requestRejected 500"])
        let lost = try await Fixture.open(isStream: true)
        lost.send("a")
        lost.clock.advance(by: .seconds(60))
        expectEqual(lost.events.all.all, ["opened 200", "closed timedOut "])
    }

    @Test(arguments: [(200, "closed tooLarge "), (500, "closed requestRejected 500")])
    func `an answer to a message that is too large ends the connection`(status: Int, end: String) async throws {
        let fixture = try await Fixture.open(isStream: true)
        fixture.send("a")
        fixture.server.sending.all[0].begin(HTTPResponseHead(status: status))
        for _ in 0..<8 { fixture.server.sending.all[0].write([UInt8](repeating: 0x61, count: 10_000)) }
        expectEqual(fixture.events.all.all, ["opened 200", end])
        let error = fixture.events.errors.all.first
        expect(error?.message.contains("/send") == true && error?.message.contains("secret") == false)
        expectEqual(error?.response?.body.count, (status == 500 ? 64 << 10 : nil))
        expectEqual(fixture.server.disconnects.all.count, 2)
    }

    @Test func `a request that is answered before it was sent completely is answered`() async throws {
        let fixture = try await Fixture.open(isStream: true)
        fixture.server.answer.withLock { answer in
            answer = { $0.method == "POST" ? HTTPResponse(status: 200) : nil }
        }
        fixture.send("a")
        fixture.send("b")
        expect(fixture.server.requests.all == ["GET", "POST a", "POST b"] && fixture.events.all.all == ["opened 200"])
    }

    @Test func `writing pauses while a server takes too long, and the output is limited`() async throws {
        let fixture = try await Fixture.open(isStream: true)
        let part = String(repeating: "x", count: 200 << 10)
        fixture.send(part)
        expectEqual(fixture.events.all.all, ["opened 200"])
        fixture.send(part)
        expectEqual(fixture.events.all.all, ["opened 200", "writing paused"])
        fixture.server.sending.all[0].respond(HTTPResponse(status: 200))
        expectEqual(fixture.events.all.all.count, 2)
        fixture.server.sending.all[1].respond(HTTPResponse(status: 200))
        expectEqual(fixture.events.all.all, ["opened 200", "writing paused", "writing resumed"])
        fixture.connection.enqueue(TransportMessage(.binary, [UInt8](repeating: 0, count: OutputGauge.clientLimit + 1)))
        fixture.send("one too many")
        expectEqual(fixture.events.all.all.last, "closed tooLarge ")
    }

    // MARK: Closing

    @Test func `closing sends what waits, tells the server, and ends when it has answered`() async throws {
        let fixture = try await Fixture.open(isStream: true)
        fixture.send("a")
        fixture.connection.enqueue(.text("b"))
        fixture.connection.close(.normal, reason: "")
        fixture.send("ignored")
        expectEqual(fixture.server.requests.all, ["GET", "POST a"])
        fixture.server.sending.all[0].respond(HTTPResponse(status: 200))
        // Messages still arrive.
        fixture.receiver.write(Self.lines("late"))
        expectEqual(fixture.server.requests.all, ["GET", "POST a", "POST b"])
        fixture.server.sending.all[1].respond(HTTPResponse(status: 200))
        expect(fixture.server.requests.all.last == "DELETE" && fixture.server.disconnects.all.isEmpty)
        expectEqual(fixture.server.heads.all.last?.query, "token=secret&code=1000")
        // The stream ends after the answer, since a server may take its end for a lost connection.
        fixture.receiver.write(Self.lines("too late"))
        fixture.server.closing.all[0].respond(HTTPResponse(status: 202))
        expectEqual(fixture.server.disconnects.all, [true])
        fixture.connection.close(.normal, reason: "")
        expectEqual(fixture.events.all.all, ["opened 200", "received late", "closed requested"])
    }

    @Test func `no poll follows the request that tells the server about the end`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        fixture.connection.close(.normal, reason: "")
        fixture.receiver.respond(HTTPResponse(status: 200, text: "late\n"))
        expect(fixture.server.requests.all == ["GET", "GET", "DELETE"] && fixture.events.all.all == ["opened 200"])
        fixture.server.closing.all[0].respond(HTTPResponse(status: 202))
        expect(fixture.events.all.all == ["opened 200", "closed requested"] && fixture.clock.untilNextDeadline == nil)
    }

    @Test func `a response that rejects the connection is part of its error, with its body`() async throws {
        let fixture = try await Fixture(isStream: true)
        fixture.connection.open()
        fixture.receiver.begin(HTTPResponseHead(status: 418))
        fixture.receiver.write(Array("a tea".utf8))
        expect(fixture.events.all.all.isEmpty)
        fixture.receiver.write(Array("pot".utf8))
        fixture.receiver.end()
        expectEqual(fixture.events.all.all, ["closed upgradeRejected 418"])
        expectEqual(fixture.events.errors.all.first?.response?.body, Array("a teapot".utf8))
        // A body without an end is read up to a limit.
        let endless = try await Fixture(isStream: true)
        endless.connection.open()
        endless.receiver.begin(HTTPResponseHead(status: 418))
        for _ in 0..<8 { endless.receiver.write([UInt8](repeating: 0x61, count: 10_000)) }
        expect(endless.events.all.all == ["closed upgradeRejected 418"] && endless.server.disconnects.all == [true])
    }

    @Test func `each answer tells how many messages the server has taken, also while the connection closes`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        fixture.send("a")
        fixture.send("b", "c")
        expect(fixture.events.answers.all.isEmpty)
        fixture.server.sending.all[0].respond(HTTPResponse(status: 200))
        expectEqual(fixture.events.answers.all, [1])
        fixture.send("d")
        fixture.connection.close(.normal, reason: "")
        fixture.server.sending.all[1].respond(HTTPResponse(status: 204))
        expectEqual(fixture.events.answers.all, [1, 2])
        fixture.server.sending.all[2].respond(HTTPResponse(status: 200))
        expectEqual(fixture.events.answers.all, [1, 2, 1])
        let rejecting = try await Fixture.open(isStream: true)
        rejecting.send("a")
        rejecting.server.sending.all[0].respond(HTTPResponse(status: 404))
        expect(rejecting.events.answers.all.isEmpty)
    }

    @Test(arguments: [200, 404, nil] as [Int?], [false, true])
    func `the answer to messages follows the end by the server, for a second at most`(status: Int?, closes: Bool) async throws {
        let fixture = try await Fixture.open(isStream: true)
        fixture.send("a")
        fixture.connection.enqueue(.text("b"))
        if closes { fixture.connection.close(.normal, reason: "") }
        fixture.receiver.end()
        // Isn't sent any more.
        fixture.send("c")
        expectEqual(fixture.events.all.all, ["opened 200"])
        if let status {
            fixture.server.sending.all[0].respond(HTTPResponse(status: status))
        } else {
            fixture.clock.advance(by: .milliseconds(999))
            expectEqual(fixture.events.all.all, ["opened 200"])
            fixture.clock.advance(by: .milliseconds(1))
        }
        expectEqual(fixture.events.all.all, ["opened 200", "closed by peer 1005 "])
        expectEqual(fixture.events.answers.all, status == 200 ? [1] : [])
        expect(fixture.server.requests.all == ["GET", "POST a"] && fixture.clock.untilNextDeadline == nil)
    }

    @Test func `closing doesn't wait longer than five seconds`() async throws {
        let fixture = try await Fixture.open(isStream: true)
        fixture.connection.close(.normal, reason: "")
        fixture.clock.advance(by: .milliseconds(4999))
        expectEqual(fixture.events.all.all, ["opened 200"])
        fixture.clock.advance(by: .milliseconds(1))
        expectEqual(fixture.events.all.all, ["opened 200", "closed requested"])
        expectNil(fixture.clock.untilNextDeadline)
    }

    @Test func `a connection that moves to another one receives the response that it waits for, and tells the server nothing`() async throws
    {
        let fixture = try await Fixture.open(isStream: false)
        fixture.send("a")
        fixture.connection.enqueue(.text("b"))
        fixture.connection.enqueue(.text("c"))
        fixture.connection.close(.normal, reason: "moved")
        // What follows the request that is under way is sent on the other connection.
        expectEqual(fixture.events.all.all, ["opened 200", "unsent b c"])
        // The response and the request may end in either order.
        fixture.receiver.respond(HTTPResponse(status: 200, text: "last\n"))
        expectEqual(fixture.events.all.all, ["opened 200", "unsent b c", "received last"])
        fixture.server.sending.all[0].respond(HTTPResponse(status: 200))
        expectEqual(fixture.events.all.all, ["opened 200", "unsent b c", "received last", "closed requested"])
        expectEqual(fixture.server.requests.all, ["GET", "GET", "POST a"])
        expect(fixture.server.disconnects.all.isEmpty && fixture.clock.untilNextDeadline == nil)

        let other = try await Fixture.open(isStream: false)
        other.send("a")
        other.connection.close(.normal, reason: "moved")
        other.server.sending.all[0].respond(HTTPResponse(status: 200))
        expectEqual(other.events.all.all, ["opened 200"])
        other.receiver.respond(HTTPResponse(status: 200, text: "last\n"))
        expectEqual(other.events.all.all, ["opened 200", "received last", "closed requested"])
        expect(other.server.requests.all == ["GET", "GET", "POST a"] && other.clock.untilNextDeadline == nil)
    }

    @Test func `a connection that moves to another one is read to its end, though its owner pauses reading`() async throws {
        let paused = try await Fixture.open(isStream: false)
        paused.connection.pauseReading()
        paused.connection.close(.normal, reason: "moved")
        paused.receiver.respond(HTTPResponse(status: 200, text: "last\n"))
        expectEqual(paused.events.all.all, ["opened 200", "received last", "closed requested"])

        let waiting = try await Fixture.open(isStream: false)
        waiting.connection.pauseReading()
        waiting.receiver.respond(HTTPResponse(status: 200, text: "last\n"))
        waiting.clock.advance(by: .seconds(60))
        expectEqual(waiting.events.all.all, ["opened 200"])
        waiting.connection.close(.normal, reason: "moved")
        expectEqual(waiting.events.all.all, ["opened 200", "received last", "closed requested"])

        let late = try await Fixture.open(isStream: false)
        late.connection.close(.normal, reason: "moved")
        late.connection.pauseReading()
        late.receiver.respond(HTTPResponse(status: 200, text: "last\n"))
        expectEqual(late.events.all.all, ["opened 200", "received last", "closed requested"])
    }

    @Test func `a connection that moves to another one waits five seconds for the response`() async throws {
        let silent = try await Fixture.open(isStream: false)
        silent.connection.close(.normal, reason: "moved")
        silent.clock.advance(by: .milliseconds(4999))
        expectEqual(silent.events.all.all, ["opened 200"])
        silent.clock.advance(by: .milliseconds(1))
        expect(silent.events.all.all == ["opened 200", "closed timedOut "] && silent.server.disconnects.all == [true])
        // Unless the rules know of another limit.
        let slow = try await Fixture.open(isStream: false)
        slow.connection.close(.normal, reason: "moves slowly")
        slow.clock.advance(by: .milliseconds(39_999))
        expectEqual(slow.events.all.all, ["opened 200"])
        slow.receiver.begin(HTTPResponseHead(status: 200))
        slow.receiver.write(Self.lines("b"))
        slow.clock.advance(by: .seconds(40))
        slow.receiver.end()
        expectEqual(slow.events.all.all, ["opened 200", "received b", "closed requested"])
    }

    @Test func `a connection that moves waits longer while it sends, and while the response arrives`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        fixture.send("a")
        fixture.connection.close(.normal, reason: "moved")
        fixture.clock.advance(by: .seconds(6))
        fixture.server.sending.all[0].respond(HTTPResponse(status: 200))
        fixture.receiver.begin(HTTPResponseHead(status: 200))
        for _ in 0..<5 {
            fixture.receiver.write(Self.lines("b"))
            fixture.clock.advance(by: .seconds(3))
        }
        fixture.receiver.end()
        expectEqual(fixture.events.all.all, ["opened 200"] + Array(repeating: "received b", count: 5) + ["closed requested"])

        let other = try await Fixture.open(isStream: false)
        other.connection.close(.normal, reason: "moved")
        other.receiver.begin(HTTPResponseHead(status: 200))
        other.receiver.write(Self.lines("b"))
        other.clock.advance(by: .seconds(10))
        expectEqual(other.events.all.all, ["opened 200", "received b", "closed timedOut "])
    }

    @Test func `a connection that moves while no request waits ends when everything was sent`() async throws {
        let fixture = try await Fixture.open(isStream: false)
        fixture.connection.pauseReading()
        fixture.receiver.respond(HTTPResponse(status: 200))
        fixture.connection.resumeReading()
        fixture.connection.flush()
        fixture.connection.pauseReading()
        fixture.receiver.respond(HTTPResponse(status: 200))
        fixture.connection.close(.normal, reason: "moved")
        fixture.clock.advance(by: .seconds(60))
        fixture.connection.resumeReading()
        fixture.connection.flush()
        expect(fixture.events.all.all == ["opened 200", "closed requested"] && fixture.clock.untilNextDeadline == nil)
    }

    @Test func `a connection that isn't open closes immediately`() async throws {
        let fixture = try await Fixture(isStream: true)
        fixture.connection.open()
        fixture.connection.close(.normal, reason: "")
        expect(fixture.events.all.all == ["closed requested"] && fixture.server.disconnects.all == [true])
    }

    @Test func `a connection that was abandoned has no events`() async throws {
        let fixture = try await Fixture.open(isStream: true)
        fixture.send("a")
        fixture.connection.abandon()
        fixture.receiver.write(Self.lines("late"))
        fixture.server.sending.all[0].respond(HTTPResponse(status: 500))
        fixture.connection.flush()
        expect(fixture.events.all.all == ["opened 200"] && fixture.server.disconnects.all.count == 2)
        expectNil(fixture.clock.untilNextDeadline)
    }

    // MARK: Header fields and cookies

    @Test func `a status of 401 asks once for fresh header fields, and repeats the request once`() async throws {
        let asked = EventRecorder<Int?>()
        let fixture = try await Fixture.open(isStream: true) { refused, completion in
            asked.record(refused)
            completion(.success((["Authorization": "Bearer \(asked.all.count)"], asked.all.count)))
        }
        fixture.send("a")
        fixture.server.sending.all[0].respond(HTTPResponse(status: 401))
        expect(fixture.server.requests.all == ["GET", "POST a", "POST a"] && asked.all == [nil, nil, 2])
        expectEqual(fixture.server.heads.all.map { $0.headers["Authorization"] }, ["Bearer 1", "Bearer 2", "Bearer 3"])
        fixture.send("b")
        fixture.server.sending.all[1].respond(HTTPResponse(status: 200))
        fixture.server.sending.all[2].respond(HTTPResponse(status: 401))
        fixture.server.sending.all[3].respond(HTTPResponse(status: 401))
        expectEqual(fixture.server.requests.all.suffix(2), ["POST b", "POST b"])
        expectEqual(fixture.events.all.all, ["opened 200", "closed requestRejected 401"])
    }

    @Test func `two requests that are refused name the generation of their own header fields`() async throws {
        let asked = EventRecorder<Int?>()
        let fixture = try await Fixture.open(isStream: false) { refused, completion in
            asked.record(refused)
            completion(.success(([:], asked.all.count { $0 != nil })))
        }
        fixture.send("a")
        fixture.server.sending.all[0].respond(HTTPResponse(status: 401))
        fixture.receiver.respond(HTTPResponse(status: 401))
        // The second one was sent with the fields that the first one has replaced.
        expect(fixture.server.requests.all == ["GET", "GET", "POST a", "POST a", "GET"] && asked.all == [nil, nil, nil, 0, 0])
        fixture.server.sending.all[1].respond(HTTPResponse(status: 200))
        fixture.send("b")
        fixture.server.sending.all[2].respond(HTTPResponse(status: 401))
        expectEqual(asked.all.suffix(2), [nil, 2])
    }

    @Test func `a request for messages that is refused twice, or whose fresh header fields fail, ends the connection`() async throws {
        let twice = try await Fixture.open(isStream: false) { _, completion in completion(.success(([:], 0))) }
        twice.receiver.respond(HTTPResponse(status: 401))
        expect(twice.server.requests.all.count == 3 && twice.events.all.all == ["opened 200"])
        twice.receiver.respond(HTTPResponse(status: 401))
        expectEqual(twice.events.all.all, ["opened 200", "closed requestRejected 401"])
        let failing = try await Fixture.open(isStream: false) { refused, completion in
            completion(refused == nil ? .success(([:], 0)) : .failure(TransportError(.cancelled, "no token")))
        }
        failing.receiver.respond(HTTPResponse(status: 401))
        expectEqual(failing.events.all.all, ["opened 200", "closed cancelled "])
    }

    @Test func `the request that tells the server about the end is repeated once, and nothing else after it`() async throws {
        let fixture = try await Fixture.open(isStream: false) { _, completion in completion(.success(([:], 0))) }
        fixture.connection.close(.normal, reason: "")
        fixture.receiver.respond(HTTPResponse(status: 401))
        expectEqual(fixture.server.requests.all, ["GET", "GET", "DELETE"])
        fixture.server.closing.all[0].respond(HTTPResponse(status: 401))
        expect(fixture.server.requests.all == ["GET", "GET", "DELETE", "DELETE"] && fixture.events.all.all == ["opened 200"])
        fixture.server.closing.all[1].respond(HTTPResponse(status: 401))
        expect(fixture.events.all.all == ["opened 200", "closed requested"] && fixture.clock.untilNextDeadline == nil)
    }

    @Test func `header fields that never come don't keep a connection open`() async throws {
        let fixture = try await Fixture(isStream: true) { _, _ in }
        fixture.connection.open()
        fixture.connection.close(.normal, reason: "")
        expect(fixture.events.all.all == ["closed requested"] && fixture.clock.untilNextDeadline == nil)
        let asked = Lock(0)
        let open = try await Fixture.open(isStream: true) { _, completion in
            let isFirst = asked.withLock { asked in
                asked += 1
                return asked == 1
            }
            if isFirst { completion(.success(([:], 0))) }
        }
        open.send("a")
        open.connection.close(.normal, reason: "")
        open.clock.advance(by: .seconds(5))
        expect(open.events.all.all == ["opened 200", "closed requested"] && open.clock.untilNextDeadline == nil)
    }

    @Test func `header fields that come late or fail end no other connection`() async throws {
        let pending = Lock<[@Sendable (Result<HTTPMessageConnection.Environment.Fields, TransportError>) -> Void]>([])
        let fixture = try await Fixture(isStream: true) { _, completion in pending.withLock { $0.append(completion) } }
        fixture.connection.open()
        expect(fixture.server.requests.all.isEmpty)
        pending.withLock { $0 }[0](.failure(TransportError(.cancelled, "no token")))
        expectEqual(fixture.events.all.all, ["closed cancelled "])
        let abandoned = try await Fixture(isStream: true) { _, completion in pending.withLock { $0.append(completion) } }
        abandoned.connection.open()
        abandoned.connection.abandon()
        pending.withLock { $0 }[1](.success(([:], 0)))
        expect(abandoned.server.requests.all.isEmpty && abandoned.events.all.all.isEmpty)
    }

    // MARK: Redirects

    private static func redirect(_ status: Int, to location: String) -> HTTPResponse {
        HTTPResponse(HTTPResponseHead(status: status, headers: ["Location": location]))
    }

    @Test(arguments: [(307, "GET"), (308, "GET"), (301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
    func `a request goes where the server redirects it, with its body and its header fields`(status: Int, method: String) async throws {
        let fixture = try await Fixture.open(isStream: false) { _, completion in
            completion(.success((["Authorization": "Bearer secret", "X-Key": "key"], 0)))
        }
        fixture.server.answer.withLock { answer in
            answer = { head in
                head.method == method && !head.target.contains("moved") ? Self.redirect(status, to: "/moved?token=other") : nil
            }
        }
        if method == "GET" { fixture.receiver.respond(HTTPResponse(status: 200, text: "a\n")) } else { fixture.send("b") }
        expectEqual(fixture.server.requests.all.suffix(2), method == "GET" ? ["GET", "GET"] : ["POST b", "POST b"])
        let moved = try #require(fixture.server.heads.all.last)
        expect(moved.target == "/moved?token=other" && moved.headers["Authorization"] == "Bearer secret" && moved.headers["X-Key"] == "key")
        if method == "GET" {
            fixture.receiver.respond(HTTPResponse(status: 200, text: "c\n"))
            expectEqual(fixture.events.all.all, ["opened 200", "received a", "received c"])
        } else {
            fixture.server.sending.all[0].respond(HTTPResponse(status: 200))
            expectEqual(fixture.events.all.all, ["opened 200"])
            // Each request begins at the URL of the connection.
            fixture.send("d")
            expectEqual(fixture.server.requests.all.suffix(2), ["POST d", "POST d"])
        }
    }

    @Test(arguments: [false, true])
    func `a redirect to another origin takes no credentials along, which aren't asked for again`(sendsFields: Bool) async throws {
        let asked = EventRecorder<Int?>()
        let fixture = try await Fixture(isStream: true, sendsHeadersAfterRedirect: sendsFields) { refused, completion in
            asked.record(refused)
            completion(.success((["Authorization": "Bearer secret", "X-Key": "key", "User-Agent": "test"], 0)))
        }
        let other = Server()
        let address = try await fixture.network.listener().start(other)
        let url = "http://\(address.host):\(address.port)/elsewhere"
        fixture.server.answer.withLock { $0 = { _ in Self.redirect(307, to: url) } }
        fixture.connection.open()
        let head = try #require(other.heads.all.first)
        expect(head.headers["Authorization"] == nil && head.headers["User-Agent"] == "test")
        expectEqual(head.headers["X-Key"], sendsFields ? "key" : nil)
        other.receiving.all[0].begin(HTTPResponseHead(status: 200))
        expectEqual(fixture.events.all.all, ["opened 200"])
        fixture.send("a")
        expectEqual(other.requests.all, ["GET", "POST a"])
        other.sending.all[0].respond(HTTPResponse(status: 401))
        expect(asked.all == [nil, nil, nil, nil], "\(asked.all)")
        let error = try #require(fixture.events.errors.all.first)
        expect(error.status == 401 && error.isOfOtherOrigin, "\(error)")
        expect(error.message.contains("\(url), to which \(fixture.base.origin)/send redirected the request, rejected messages"), "\(error)")
        expect(error.message.contains("takes no credentials to another origin") && !error.message.contains("secret"), "\(error)")
    }

    @Test(arguments: [
        (301, "/moved", "for which a POST request becomes a GET request. Use that URL, or redirect with the status 307 or 308"),
        (303, "/moved", "for which a POST request becomes a GET request"),
        (307, "/send", "was redirected more than 20 times"), (307, "ftp://elsewhere/", "to an invalid URL"),
    ])
    func `messages that can't go where the server redirects them end the connection`(
        status: Int, location: String, text: String
    ) async throws {
        let fixture = try await Fixture.open(isStream: true)
        fixture.server.answer.withLock { $0 = { _ in Self.redirect(status, to: location) } }
        fixture.send("a")
        expectEqual(fixture.events.all.all.count, 2)
        let error = try #require(fixture.events.errors.all.first)
        expect(error.message.contains(text) && !error.message.contains("secret"), "\(error)")
        if location == "/moved" {
            expect(
                error.message.contains("\(fixture.base.origin)/send") && error.message.contains("\(fixture.base.origin)/moved"), "\(error)")
        }
        expectEqual(fixture.server.requests.all.count { $0 == "POST a" }, location == "/send" ? 21 : 1)
    }

    @Test func `cookies go both ways`() async throws {
        let fixture = try await Fixture(isStream: true)
        fixture.connection.open()
        fixture.receiver.begin(HTTPResponseHead(status: 200, headers: ["Set-Cookie": "affinity=1; Path=/"]))
        fixture.send("a")
        expectEqual(fixture.server.heads.all.map { $0.headers["Cookie"] }, [nil, "affinity=1"])
    }

    // MARK: Order

    @Test(arguments: seeds(50))
    func `messages arrive once and in order, however they are cut and paused`(seed: UInt64) async throws {
        var generator = SplitMix64(seed: seed)
        let isStream = Bool.random(using: &generator)
        let fixture = try await Fixture.open(isStream: isStream)
        // The requests that were answered: the first poll.
        var (polls, posts) = (isStream ? 0 : 1, 0)
        var (written, sent) = (0, 0)
        var pending: [UInt8] = []
        func answerPoll() {
            if isStream {
                let count = Int.random(in: 0...pending.count, using: &generator)
                fixture.receiver.write(Array(pending.prefix(count)))
                pending.removeFirst(count)
            } else if fixture.server.receiving.all.count > polls {
                polls = fixture.server.receiving.all.count
                fixture.receiver.respond(HTTPResponse(HTTPResponseHead(status: 200), body: pending))
                pending = []
            }
        }
        func answerPost() -> Bool {
            guard fixture.server.sending.all.count > posts else { return false }
            fixture.server.sending.all[posts].respond(HTTPResponse(status: 200))
            posts += 1
            return true
        }
        for _ in 0..<200 {
            switch Int.random(in: 0..<8, using: &generator) {
            case 0: fixture.connection.pauseReading()
            case 1:
                fixture.connection.resumeReading()
                fixture.connection.flush()
            case 2:
                fixture.send("\(sent),")
                sent += 1
            case 3: _ = answerPost()
            case 4: fixture.clock.advance(by: .milliseconds(Int.random(in: 0..<50, using: &generator)))
            case 5: answerPoll()
            default:
                pending += Self.lines("\(written)")
                written += 1
            }
        }
        fixture.connection.resumeReading()
        fixture.connection.flush()
        fixture.clock.advance(by: .seconds(5))
        for _ in 0..<1000 where !pending.isEmpty { answerPoll() }
        while answerPost() {}
        let received = fixture.events.all.all.dropFirst().flatMap { $0.split(separator: " ").dropFirst() }.map { String($0) }
        expectEqual(received, (0..<written).map { "\($0)" })
        let texts = fixture.server.requests.all.filter { $0.hasPrefix("POST ") }.map { $0.dropFirst(5) }.joined()
        expectEqual(texts.split(separator: ",").map { String($0) }, (0..<sent).map { "\($0)" })
    }
}
