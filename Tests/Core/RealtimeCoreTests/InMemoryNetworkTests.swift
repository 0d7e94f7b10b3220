import RealtimeSystem
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Records the events of a WebSocket connection.
private final class RecordedEvents: MessageEvents {
    enum Event: Hashable, Sendable {
        case opened(subprotocol: String?)
        case message(TransportMessage.Kind, String)
        case writing(paused: Bool)
        case closed(CloseReason)
    }

    let recorded = EventRecorder<Event>()
    let batches = EventRecorder<Int>()

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.recorded.record(.opened(subprotocol: head.headers["Sec-WebSocket-Protocol"]))
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        self.batches.record(batch.entries.count)
        for message in batch.messages { self.recorded.record(.message(message.kind, String(decoding: message.bytes, as: UTF8.self))) }
    }

    func writing(_ id: ConnectionID, paused: Bool) { self.recorded.record(.writing(paused: paused)) }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.recorded.record(.closed(reason)) }
}

/// A server that makes the same decision about every upgrade, and records its connections and requests.
private final class RecordingHandler: AcceptingHandler {
    let events = RecordedEvents()
    let connections = EventRecorder<any MessageConnection>()
    let ids = EventRecorder<ConnectionID>()
    let requests = EventRecorder<HTTPRequestHead>()
    let responders = EventRecorder<any HTTPResponder>()
    private let decision: UpgradeDecision
    private let messageLimit: Int?

    init(_ decision: UpgradeDecision = .accept(subprotocol: nil), messageLimit: Int? = nil) {
        (self.decision, self.messageLimit) = (decision, messageLimit)
    }

    func messageLimit(for request: HTTPRequestHead) -> Int? { self.messageLimit }

    func decision(about request: HTTPRequestHead) -> UpgradeDecision {
        self.requests.record(request)
        return self.decision
    }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        self.connections.record(connection)
        self.ids.record(id)
        return self.events
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.requests.record(request)
        self.responders.record(responder)
    }
}

/// A server that abandons the client's connection while it decides about the upgrade, as another thread might.
private final class AbandoningHandler: AcceptingHandler {
    let events = RecordedEvents()
    let abandoned = Lock<(any MessageConnection)?>(nil)

    func decision(about request: HTTPRequestHead) -> UpgradeDecision {
        self.abandoned.withLock { $0 }?.abandon()
        return .accept(subprotocol: nil)
    }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents { self.events }
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {}
}

/// A network with one started server.
private final class Fixture: Sendable {
    let clock = ManualClock()
    let network: InMemoryNetwork
    let handler: RecordingHandler
    let listener: InMemoryListener
    let address: ListenerAddress
    let events = RecordedEvents()

    init(_ decision: UpgradeDecision = .accept(subprotocol: nil), messageLimit: Int? = nil) async throws {
        self.network = InMemoryNetwork(clock: self.clock)
        self.handler = RecordingHandler(decision, messageLimit: messageLimit)
        self.listener = self.network.listener()
        self.address = try await self.listener.start(self.handler)
    }

    /// Open connections and the recorded ones retain the network.
    deinit {
        self.network.cut()
        _ = self.handler.connections.take()
        _ = self.handler.responders.take()
    }

    var endpoint: Endpoint { Endpoint(scheme: "ws", host: self.address.host, port: self.address.port, target: "/chat?a=b") }

    func connection(_ subprotocols: [String] = [], messageLimit: Int = 1 << 20) -> any MessageConnection {
        let request = WebSocketRequest(
            self.endpoint, headers: ["X-Test": "1"], subprotocols: subprotocols, messageLimit: messageLimit)
        return self.network.webSocket.makeConnection(request, id: ConnectionID(rawValue: 1), events: self.events)
    }

    func open() -> any MessageConnection {
        let connection = self.connection()
        connection.open()
        _ = self.events.recorded.take()
        _ = self.handler.events.recorded.take()
        return connection
    }
}

@Suite struct InMemoryNetworkTests {
    @Test func `a connection is open on both sides when open returns`() async throws {
        let fixture = try await Fixture(.accept(subprotocol: "two"))
        let connection = fixture.connection(["one", "two"])
        expect(fixture.handler.requests.all.isEmpty)
        connection.open()
        expectEqual(fixture.events.recorded.all, [.opened(subprotocol: "two")])
        expectEqual(fixture.handler.events.recorded.all, [.opened(subprotocol: nil)])
        let request = try #require(fixture.handler.requests.all.first)
        expect(request.path == "/chat" && request.query == "a=b")
        expect(request.headers["x-test"] == "1" && request.headers["Sec-WebSocket-Protocol"] == "one, two")
    }

    @Test func `a connection that is abandoned while it is being accepted is not opened`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let handler = AbandoningHandler()
        let address = try await network.listener().start(handler)
        weak var released: RecordedEvents?
        do {
            let events = RecordedEvents()
            released = events
            let request = WebSocketRequest(Endpoint(scheme: "ws", host: address.host, port: address.port))
            let connection = network.webSocket.makeConnection(request, id: ConnectionID(rawValue: 1), events: events)
            handler.abandoned.withLock { $0 = connection }
            connection.open()
            handler.abandoned.withLock { $0 = nil }
            expect(events.recorded.all.isEmpty)
        }
        expect(handler.events.recorded.all.isEmpty && released == nil)
    }

    @Test func `stopping a listener that failed to start keeps the listener at its address`() async throws {
        let fixture = try await Fixture()
        let second = fixture.network.listener(host: fixture.address.host, port: fixture.address.port)
        await #expect(throws: TransportError.self) { try await second.start(RecordingHandler()) }
        await second.stop()
        fixture.connection().open()
        expectEqual(fixture.events.recorded.all, [.opened(subprotocol: nil)])
    }

    @Test func `messages arrive in one batch per flush and in order`() async throws {
        let fixture = try await Fixture()
        let connection = fixture.open()
        for text in ["a", "b", "c"] { connection.enqueue(.text(text)) }
        expectEqual(fixture.handler.events.recorded.all, [])
        connection.flush()
        expectEqual(fixture.handler.events.recorded.all, [.message(.text, "a"), .message(.text, "b"), .message(.text, "c")])
        expectEqual(fixture.handler.events.batches.all, [3])
        fixture.handler.connections.all[0].enqueue(.binary([65]))
        fixture.handler.connections.all[0].flush()
        expectEqual(fixture.events.recorded.all, [.message(.binary, "A")])
    }

    @Test func `messages enqueued before the connection is open are sent when it opens`() async throws {
        let fixture = try await Fixture()
        let connection = fixture.connection()
        connection.enqueue(.text("early"))
        connection.flush()
        connection.open()
        expectEqual(fixture.handler.events.recorded.all, [.opened(subprotocol: nil), .message(.text, "early")])
    }

    @Test func `the connection responds to pings`() async throws {
        let fixture = try await Fixture()
        let connection = fixture.open()
        connection.enqueue(TransportMessage(.ping, Array("beat".utf8)))
        connection.flush()
        expectEqual(fixture.handler.events.recorded.all, [.message(.ping, "beat")])
        expectEqual(fixture.events.recorded.all, [.message(.pong, "beat")])
    }

    @Test func `messages that arrive while reading is paused are delivered later`() async throws {
        let fixture = try await Fixture()
        let connection = fixture.open()
        connection.pauseReading()
        let end = fixture.handler.connections.all[0]
        for text in ["a", "b"] {
            end.enqueue(.text(text))
            end.flush()
        }
        expectEqual(fixture.events.recorded.all, [])
        connection.resumeReading()
        connection.flush()
        expectEqual(fixture.events.recorded.all, [.message(.text, "a"), .message(.text, "b")])
        connection.pauseReading()
        end.enqueue(.text("last"))
        end.close(.goingAway, reason: "bye")
        expectEqual(fixture.events.recorded.all.suffix(2), [.message(.text, "last"), .closed(.peer(.goingAway, "bye"))])
    }

    @Test(arguments: [false, true], [false, true])
    func `a message above the limit of its receiver ends the connection, after those before it`(
        isPaused: Bool, isFromServer: Bool
    ) async throws {
        let fixture = try await Fixture(messageLimit: isFromServer ? 1 : 5)
        let client = fixture.connection(messageLimit: isFromServer ? 5 : 1)
        client.open()
        let server = fixture.handler.connections.all[0]
        let (sender, receiver) = isFromServer ? (server, client) : (client, server)
        let (sent, received) = isFromServer ? (fixture.handler.events, fixture.events) : (fixture.events, fixture.handler.events)
        for events in [sent, received] { _ = events.recorded.take() }
        if isPaused { receiver.pauseReading() }
        for text in ["1", "12345", "123456", "2"] { sender.enqueue(.text(text)) }
        sender.flush()
        if isPaused {
            expect(sent.recorded.all.isEmpty && received.recorded.all.isEmpty)
            receiver.resumeReading()
            receiver.flush()
        }
        let error = TransportError.oversizedMessage(limit: 5)
        expectEqual(received.recorded.all, [.message(.text, "1"), .message(.text, "12345"), .closed(.transport(error))])
        // At the other end, the message is its own.
        expectEqual(sent.recorded.all, [.closed(.peer(.tooLarge, "The message exceeds the receiver's limit of 5 bytes."))])
    }

    @Test func `the answer to a message precedes the end because of the next one`() async throws {
        let fixture = try await Fixture(messageLimit: 5)
        let client = fixture.open()
        client.enqueue(TransportMessage(.ping, Array("a long ping".utf8)))
        client.enqueue(.text("123456"))
        client.flush()
        let reason = TransportError.reasonForOversizedMessage(limit: 5)
        expectEqual(fixture.events.recorded.all, [.message(.pong, "a long ping"), .closed(.peer(.tooLarge, reason))])
    }

    @Test func `writing pauses while too much waits for a peer that has paused reading`() async throws {
        let fixture = try await Fixture()
        fixture.network.messageBacklogBytes = 10
        let connection = fixture.open()
        let end = fixture.handler.connections.all[0]
        connection.pauseReading()
        for text in ["1234567890", "1"] {
            end.enqueue(.text(text))
            expect(fixture.handler.events.recorded.all.isEmpty)
            end.flush()
        }
        expectEqual(fixture.handler.events.recorded.all, [.writing(paused: true)])
        connection.resumeReading()
        connection.flush()
        expectEqual(fixture.events.recorded.all, [.message(.text, "1234567890"), .message(.text, "1")])
        expectEqual(fixture.handler.events.recorded.all, [.writing(paused: true), .writing(paused: false)])
        // As long as the peer reads, any number of messages can be sent together.
        for _ in 0..<10 { end.enqueue(.text("1")) }
        end.enqueue(.text("1234567890"))
        end.flush()
        expectEqual(fixture.handler.events.recorded.all.count, 2)
        // Also more than the limit, as when another thread is still delivering.
        for _ in 0..<20 { end.enqueue(.text("1234567890")) }
        end.flush()
        expect(fixture.events.recorded.all.count == 33 && fixture.handler.events.recorded.all.count == 2)
    }

    @Test func `a connection ends when more than the limit waits for a peer that has paused reading`() async throws {
        let fixture = try await Fixture()
        fixture.network.messageBacklogBytes = 10
        let connection = fixture.open()
        let end = fixture.handler.connections.all[0]
        connection.pauseReading()
        // A single message may exceed the limit.
        end.enqueue(.text("more than 10 bytes"))
        end.flush()
        expectEqual(fixture.handler.events.recorded.all, [.writing(paused: true)])
        end.enqueue(.text("!"))
        expectEqual(fixture.handler.events.recorded.all.count, 1)
        end.flush()
        guard case .closed(.transport(let error)) = fixture.handler.events.recorded.all.last,
            case .closed(.transport(let peerError)) = fixture.events.recorded.all.last
        else {
            Issue.record("both ends should be closed")
            return
        }
        expect(error.code == .tooLarge && peerError.code == .reset)
        expectEqual(fixture.events.recorded.all.first, .message(.text, "more than 10 bytes"))
    }

    @Test func `messages that a silent network loses don't wait`() async throws {
        let fixture = try await Fixture()
        fixture.network.messageBacklogBytes = 10
        let connection = fixture.open()
        fixture.network.condition = .silent
        for _ in 0..<10 {
            connection.enqueue(.text("lost"))
            connection.flush()
        }
        expect(fixture.events.recorded.all.isEmpty)
    }

    @Test func `closing is reported once on both sides`() async throws {
        let fixture = try await Fixture()
        let connection = fixture.open()
        connection.enqueue(.text("last"))
        connection.close(.normal, reason: "done")
        connection.close(.normal, reason: "done")
        connection.enqueue(.text("too late"))
        connection.flush()
        expectEqual(fixture.events.recorded.all, [.closed(.requested)])
        expectEqual(fixture.handler.events.recorded.all, [.message(.text, "last"), .closed(.peer(.normal, "done"))])
    }

    @Test func `abandoning is reported to the peer only`() async throws {
        let fixture = try await Fixture()
        fixture.open().abandon()
        expectEqual(fixture.events.recorded.all, [])
        guard case .closed(.transport(let error)) = fixture.handler.events.recorded.all.last else {
            return expect(false, "it should be lost")
        }
        expectEqual(error.code, .reset)
    }

    @Test func `opening after a close or an abandon has no effect`() async throws {
        let fixture = try await Fixture()
        let (closed, abandoned) = (fixture.connection(), fixture.connection())
        closed.close(.normal, reason: "")
        abandoned.abandon()
        closed.open()
        abandoned.open()
        expect(fixture.handler.requests.all.isEmpty)
        expectEqual(fixture.events.recorded.all, [.closed(.requested)])
    }

    @Test func `connecting fails without a listener and on a network that is down`() async throws {
        let fixture = try await Fixture()
        func errorCode(_ endpoint: Endpoint) -> TransportError.Code? {
            fixture.network.webSocket.makeConnection(WebSocketRequest(endpoint), id: ConnectionID(rawValue: 9), events: fixture.events)
                .open()
            guard case .closed(.transport(let error))? = fixture.events.recorded.take().last else { return nil }
            return error.code
        }
        expectEqual(errorCode(Endpoint(scheme: "ws", host: "nowhere", port: 1)), .refused)
        fixture.network.condition = .down
        expectEqual(errorCode(fixture.endpoint), .unreachable)
        fixture.network.condition = .silent
        expectNil(errorCode(fixture.endpoint))
        fixture.network.condition = .up
        await fixture.listener.stop()
        expectEqual(errorCode(fixture.endpoint), .refused)
    }

    @Test func `the error for a rejected upgrade contains its status`() async throws {
        let fixture = try await Fixture(.reject(HTTPResponse(status: 403)))
        fixture.connection().open()
        guard case .closed(.transport(let error))? = fixture.events.recorded.all.last else {
            return expect(false, "the upgrade should be rejected")
        }
        expect(error.code == .upgradeRejected && error.status == 403)
    }

    @Test func `a silent network drops messages without an error`() async throws {
        let fixture = try await Fixture()
        let connection = fixture.open()
        fixture.network.condition = .silent
        connection.enqueue(.text("lost"))
        connection.flush()
        connection.close(.normal, reason: "")
        expectEqual(fixture.handler.events.recorded.all, [])
        expectEqual(fixture.events.recorded.all, [.closed(.requested)])
    }

    @Test func `cutting the network ends every connection on both sides`() async throws {
        let fixture = try await Fixture()
        _ = fixture.open()
        _ = fixture.open()
        fixture.network.cut()
        let losses = { (events: RecordedEvents) in
            events.recorded.all.count { if case .closed(.transport(let error)) = $0 { error.code == .reset } else { false } }
        }
        expect(losses(fixture.events) == 2 && losses(fixture.handler.events) == 2)
    }

    @Test func `cutting the network ends connections in the order they were opened`() async throws {
        let fixture = try await Fixture()
        let ended = EventRecorder<UInt64>()
        final class Client: MessageEvents {
            let ended: EventRecorder<UInt64>
            init(_ ended: EventRecorder<UInt64>) { self.ended = ended }
            func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
            func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
            func closed(_ id: ConnectionID, _ reason: CloseReason) { self.ended.record(id.rawValue) }
        }
        // In an order that differs from that of the identifiers.
        let ids: [UInt64] = [7, 3, 9, 1, 8, 2]
        for id in ids {
            let request = WebSocketRequest(fixture.endpoint)
            fixture.network.webSocket.makeConnection(request, id: ConnectionID(rawValue: id), events: Client(ended)).open()
        }
        fixture.network.cut()
        expectEqual(ended.all, ids)
    }

    @Test func `stopping a listener closes its connections and frees its address`() async throws {
        let fixture = try await Fixture()
        _ = fixture.open()
        await #expect(throws: TransportError.self) {
            _ = try await fixture.network.listener(host: fixture.address.host, port: fixture.address.port).start(fixture.handler)
        }
        await fixture.listener.stop()
        expectEqual(fixture.events.recorded.all, [.closed(.peer(.goingAway, "The server is shutting down."))])
        _ = try await fixture.network.listener(host: fixture.address.host, port: fixture.address.port).start(fixture.handler)
    }

    @Test func `accepted connections have different identifiers`() async throws {
        let fixture = try await Fixture()
        for _ in 0..<3 { _ = fixture.open() }
        expectEqual(Set(fixture.handler.ids.all).count, 3)
    }

    @Test func `a server that is not stopped is deallocated with its network`() async throws {
        weak var handler: RecordingHandler?
        weak var network: InMemoryNetwork?
        do {
            let fixture = try await Fixture()
            (handler, network) = (fixture.handler, fixture.network)
            expect(handler != nil && network != nil)
        }
        expect(handler == nil && network == nil)
    }

    @Test func `starting a listener whose network was released throws an error`() async throws {
        var network: InMemoryNetwork? = InMemoryNetwork(clock: ManualClock())
        let listener = try #require(network?.listener())
        let handler = RecordingHandler()
        _ = try await listener.start(handler)
        await listener.stop()
        network = nil
        let error = await #expect(throws: TransportError.self) { try await listener.start(handler) }
        expectEqual(error?.code, .closed)
    }

    // MARK: HTTP

    /// Sends a request, and returns when the server has received it.
    private func request(_ fixture: Fixture) async -> Task<Result<HTTPResponse, TransportError>, Never> {
        let before = fixture.handler.responders.all.count
        let task = Task { () -> Result<HTTPResponse, TransportError> in
            do throws(TransportError) {
                let endpoint = Endpoint(scheme: "http", host: fixture.address.host, port: fixture.address.port, target: "/x?y=z")
                return .success(
                    try await fixture.network.http.send(HTTPRequest("POST", endpoint, body: [1], idleTimeout: .seconds(5)), bodyLimit: 6))
            } catch {
                return .failure(error)
            }
        }
        while fixture.handler.responders.all.count == before { await Task.yield() }
        return task
    }

    @Test func `a response is sent as a whole or in chunks`() async throws {
        let fixture = try await Fixture()
        let whole = await self.request(fixture)
        fixture.handler.responders.all[0].respond(HTTPResponse(status: 201, text: "one"))
        fixture.handler.responders.all[0].respond(HTTPResponse(status: 500, text: "two"))
        let response = try await whole.value.get()
        expect(response.head.status == 201 && response.body == Array("one".utf8))

        let chunked = await self.request(fixture)
        let responder = fixture.handler.responders.all[1]
        responder.write([9])
        responder.begin(HTTPResponseHead(status: 200))
        for chunk in ["ab", "", "cd"] { responder.write(Array(chunk.utf8)) }
        responder.end()
        responder.write([9])
        try await expectEqual(chunked.value.get().body, Array("abcd".utf8))
    }

    @Test func `a response that exceeds the limit throws an error`() async throws {
        let fixture = try await Fixture()
        let task = await self.request(fixture)
        fixture.handler.responders.all[0].respond(HTTPResponse(status: 200, text: "seven b"))
        guard case .failure(let error) = await task.value else { return expect(false, "it is too large") }
        expectEqual(error.code, .tooLarge)
    }

    @Test func `a request times out and the server is notified of the disconnect`() async throws {
        let fixture = try await Fixture()
        let task = await self.request(fixture)
        let disconnects = EventRecorder<Bool>()
        fixture.handler.responders.all[0].onDisconnect { disconnects.record(true) }
        while fixture.clock.untilNextDeadline == nil { await Task.yield() }
        fixture.clock.advance(by: .seconds(5))
        guard case .failure(let error) = await task.value else { return expect(false, "it should time out") }
        expect(error.code == .timedOut && disconnects.all == [true])
        fixture.handler.responders.all[0].onDisconnect { disconnects.record(false) }
        expectEqual(disconnects.all, [true, false])
    }

    @Test func `cancelling a request ends it immediately`() async throws {
        let fixture = try await Fixture()
        let task = await self.request(fixture)
        let disconnects = EventRecorder<Bool>()
        fixture.handler.responders.all[0].onDisconnect { disconnects.record(true) }
        task.cancel()
        guard case .failure(let error) = await task.value else { return expect(false, "it was cancelled") }
        expect(error.code == .cancelled && disconnects.all == [true])
    }

    // MARK: Order

    @Test func `messages sent from an event handler are delivered once and in order`() async throws {
        final class Echo: AcceptingHandler, MessageEvents {
            let connections = EventRecorder<any MessageConnection>()

            func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }
            func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {}
            func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
                self.connections.record(connection)
                return self
            }
            func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
            func closed(_ id: ConnectionID, _ reason: CloseReason) {}
            func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
                for message in batch.messages {
                    self.connections.all[0].enqueue(message)
                    self.connections.all[0].flush()
                }
            }
        }
        let network = InMemoryNetwork(clock: ManualClock())
        let listener = network.listener()
        let address = try await listener.start(Echo())
        let events = RecordedEvents()
        let endpoint = Endpoint(scheme: "ws", host: address.host, port: address.port)
        let connection = network.webSocket.makeConnection(WebSocketRequest(endpoint), id: ConnectionID(rawValue: 1), events: events)
        connection.open()
        // Two threads send: each message is echoed once, and the messages of one thread keep their order.
        await withTaskGroup(of: Void.self) { group in
            for name in ["a", "b"] {
                group.addTask {
                    for number in 0..<200 {
                        connection.enqueue(.text("\(name) \(number)"))
                        connection.flush()
                    }
                }
            }
        }
        connection.flush()
        let texts = events.recorded.all.compactMap { if case .message(.text, let text) = $0 { text } else { nil } }
        for name in ["a", "b"] { expectEqual(texts.filter { $0.hasPrefix(name) }, (0..<200).map { "\(name) \($0)" }) }
        await listener.stop()
    }

    @Test func `a network is idle when the events of all threads are processed`() async {
        let network = InMemoryNetwork(clock: ManualClock())
        let request = WebSocketRequest(Endpoint(scheme: "ws", host: "unused", port: 1))
        let unprocessed = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    (0..<scaled(5_000)).count(where: { _ in
                        let events = RecordedEvents()
                        // The thread of the other task may process it.
                        network.webSocket.makeConnection(request, id: ConnectionID(rawValue: 1), events: events).open()
                        network.waitUntilIdle()
                        return events.recorded.all.isEmpty
                    })
                }
            }
            return await group.reduce(0, +)
        }
        expectEqual(unprocessed, 0)
    }

    @Test func `the clock waits for events that another thread processes`() async throws {
        /// A server that takes a while to handle a request, and then sets a timer.
        final class Slow: AcceptingHandler, TimerClient {
            let clock: ManualClock
            let (began, fired) = (EventRecorder<Bool>(), EventRecorder<Duration>())

            init(_ clock: ManualClock) { self.clock = clock }

            func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }
            func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
                RecordedEvents()
            }
            func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
                self.began.record(true)
                usleep(20_000)
                self.clock.time.schedule(self, at: self.clock.time.now.advanced(by: .seconds(1)))
                responder.respond(HTTPResponse(status: 200))
            }
            func timerFired() { self.fired.record(self.clock.elapsed) }
        }
        let clock = ManualClock()
        let network = InMemoryNetwork(clock: clock)
        let server = Slow(clock)
        let address = try await network.listener().start(server)
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
        let request = Task { try await network.http.send(HTTPRequest("GET", endpoint)) }
        try await eventually { !server.began.all.isEmpty }
        clock.advance(by: .seconds(1))
        expectEqual(server.fired.all, [.seconds(1)])
        try await expectEqual(request.value.head.status, 200)
    }
}
