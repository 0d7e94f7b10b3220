import RealtimeSystem
import RealtimeCore
import RealtimeTesting
import Testing

/// Notes what happens on a WebSocket.
private final class Notes: WebSocketEvents {
    enum Note: Hashable, Sendable {
        case opened(subprotocol: String?)
        case message(WebSocketMessage.Kind, String)
        case closed(CloseReason)
    }

    let all = EventRecorder<Note>()
    let batches = EventRecorder<Int>()

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.all.record(.opened(subprotocol: head.headers["Sec-WebSocket-Protocol"]))
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        self.batches.record(batch.entries.count)
        for message in batch.messages { self.all.record(.message(message.kind, String(decoding: message.bytes, as: UTF8.self))) }
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.all.record(.closed(reason)) }
}

/// A server that accepts what it is told to, and keeps its ends.
private final class House: ListenerHandler {
    let notes = Notes()
    let ends = EventRecorder<any WebSocketConnection>()
    let ids = EventRecorder<ConnectionID>()
    let requests = EventRecorder<HTTPRequestHead>()
    let responders = EventRecorder<any HTTPResponder>()
    private let decision: UpgradeDecision

    init(_ decision: UpgradeDecision = .accept(subprotocol: nil)) {
        self.decision = decision
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        self.requests.record(request)
        return self.decision
    }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        self.ends.record(connection)
        self.ids.record(id)
        return self.notes
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.requests.record(request)
        self.responders.record(responder)
    }
}

/// A server during whose decision the client goes, as another thread's `abandon` might.
private final class DroppingHouse: ListenerHandler {
    let notes = Notes()
    let dropped = Lock<(any WebSocketConnection)?>(nil)

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        self.dropped.withLock { $0 }?.abandon()
        return .accept(subprotocol: nil)
    }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents { self.notes }
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {}
}

private final class Street: Sendable {
    let clock = ManualClock()
    let network: InMemoryNetwork
    let house: House
    let listener: InMemoryListener
    let address: ListenerAddress
    let notes = Notes()

    init(_ decision: UpgradeDecision = .accept(subprotocol: nil)) async throws {
        self.network = InMemoryNetwork(clock: self.clock)
        self.house = House(decision)
        self.listener = self.network.listener()
        self.address = try await self.listener.start(self.house)
    }

    /// What is open, and what the house keeps, would keep the network.
    deinit {
        self.network.cut()
        _ = self.house.ends.take()
        _ = self.house.responders.take()
    }

    var endpoint: Endpoint { Endpoint(scheme: "ws", host: self.address.host, port: self.address.port, target: "/chat?a=b") }

    func connection(_ subprotocols: [String] = []) -> any WebSocketConnection {
        let request = WebSocketRequest(self.endpoint, headers: ["X-Test": "1"], subprotocols: subprotocols)
        return self.network.webSocket.makeConnection(request, id: ConnectionID(rawValue: 1), events: self.notes)
    }

    func open() -> any WebSocketConnection {
        let connection = self.connection()
        connection.open()
        _ = self.notes.all.take()
        _ = self.house.notes.all.take()
        return connection
    }
}

@Suite struct InMemoryNetworkTests {
    @Test func `a connection is open on both sides when open returns`() async throws {
        let street = try await Street(.accept(subprotocol: "two"))
        let connection = street.connection(["one", "two"])
        #expect(street.house.requests.all.isEmpty)
        connection.open()
        #expect(street.notes.all.all == [.opened(subprotocol: "two")])
        #expect(street.house.notes.all.all == [.opened(subprotocol: nil)])
        let request = try #require(street.house.requests.all.first)
        #expect(request.path == "/chat" && request.query == "a=b")
        #expect(request.headers["x-test"] == "1" && request.headers["Sec-WebSocket-Protocol"] == "one, two")
    }

    @Test func `a connection that is dropped while it is being accepted is not joined`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let house = DroppingHouse()
        let address = try await network.listener().start(house)
        weak var events: Notes?
        do {
            let notes = Notes()
            events = notes
            let request = WebSocketRequest(Endpoint(scheme: "ws", host: address.host, port: address.port))
            let connection = network.webSocket.makeConnection(request, id: ConnectionID(rawValue: 1), events: notes)
            house.dropped.withLock { $0 = connection }
            connection.open()
            house.dropped.withLock { $0 = nil }
            #expect(notes.all.all.isEmpty)
        }
        #expect(house.notes.all.all.isEmpty && events == nil)
    }

    @Test func `a listener that never started takes nobodys address away`() async throws {
        let street = try await Street()
        let second = street.network.listener(host: street.address.host, port: street.address.port)
        await #expect(throws: TransportError.self) { try await second.start(House()) }
        await second.stop()
        street.connection().open()
        #expect(street.notes.all.all == [.opened(subprotocol: nil)])
    }

    @Test func `messages arrive in one batch per flush and in order`() async throws {
        let street = try await Street()
        let connection = street.open()
        for text in ["a", "b", "c"] { connection.enqueue(.text(text)) }
        #expect(street.house.notes.all.all == [])
        connection.flush()
        #expect(street.house.notes.all.all == [.message(.text, "a"), .message(.text, "b"), .message(.text, "c")])
        #expect(street.house.notes.batches.all == [3])
        street.house.ends.all[0].enqueue(.binary([65]))
        street.house.ends.all[0].flush()
        #expect(street.notes.all.all == [.message(.binary, "A")])
    }

    @Test func `what is enqueued before it is open goes out once it is`() async throws {
        let street = try await Street()
        let connection = street.connection()
        connection.enqueue(.text("early"))
        connection.flush()
        connection.open()
        #expect(street.house.notes.all.all == [.opened(subprotocol: nil), .message(.text, "early")])
    }

    @Test func `pings are answered by the connection itself`() async throws {
        let street = try await Street()
        let connection = street.open()
        connection.enqueue(WebSocketMessage(.ping, Array("beat".utf8)))
        connection.flush()
        #expect(street.house.notes.all.all == [.message(.ping, "beat")])
        #expect(street.notes.all.all == [.message(.pong, "beat")])
    }

    @Test func `what arrives while reading is paused comes afterwards`() async throws {
        let street = try await Street()
        let connection = street.open()
        connection.pauseReading()
        let end = street.house.ends.all[0]
        for text in ["a", "b"] {
            end.enqueue(.text(text))
            end.flush()
        }
        #expect(street.notes.all.all == [])
        connection.resumeReading()
        connection.flush()
        #expect(street.notes.all.all == [.message(.text, "a"), .message(.text, "b")])
        connection.pauseReading()
        end.enqueue(.text("last"))
        end.close(.goingAway, reason: "bye")
        #expect(street.notes.all.all.suffix(2) == [.message(.text, "last"), .closed(.peer(.goingAway, "bye"))])
    }

    @Test func `closing tells both sides once`() async throws {
        let street = try await Street()
        let connection = street.open()
        connection.enqueue(.text("last"))
        connection.close(.normal, reason: "done")
        connection.close(.normal, reason: "done")
        connection.enqueue(.text("too late"))
        connection.flush()
        #expect(street.notes.all.all == [.closed(.requested)])
        #expect(street.house.notes.all.all == [.message(.text, "last"), .closed(.peer(.normal, "done"))])
    }

    @Test func `abandoning is silent here and a loss there`() async throws {
        let street = try await Street()
        street.open().abandon()
        #expect(street.notes.all.all == [])
        guard case .closed(.transport(let error)) = street.house.notes.all.all.last else {
            return #expect(Bool(false), "it should be lost")
        }
        #expect(error.code == .reset)
    }

    @Test func `open after close or abandon does nothing`() async throws {
        let street = try await Street()
        let (closed, abandoned) = (street.connection(), street.connection())
        closed.close(.normal, reason: "")
        abandoned.abandon()
        closed.open()
        abandoned.open()
        #expect(street.house.requests.all.isEmpty)
        #expect(street.notes.all.all == [.closed(.requested)])
    }

    @Test func `nobody there is refused and a down network unreachable`() async throws {
        let street = try await Street()
        func outcome(_ endpoint: Endpoint) -> TransportError.Code? {
            street.network.webSocket.makeConnection(WebSocketRequest(endpoint), id: ConnectionID(rawValue: 9), events: street.notes).open()
            guard case .closed(.transport(let error))? = street.notes.all.take().last else { return nil }
            return error.code
        }
        #expect(outcome(Endpoint(scheme: "ws", host: "nowhere", port: 1)) == .refused)
        street.network.condition = .down
        #expect(outcome(street.endpoint) == .unreachable)
        street.network.condition = .silent
        #expect(outcome(street.endpoint) == nil)
        street.network.condition = .up
        await street.listener.stop()
        #expect(outcome(street.endpoint) == .refused)
    }

    @Test func `a refused upgrade carries its status`() async throws {
        let street = try await Street(.refuse(HTTPResponse(status: 403)))
        street.connection().open()
        guard case .closed(.transport(let error))? = street.notes.all.all.last else { return #expect(Bool(false), "it should be refused") }
        #expect(error.code == .upgradeRefused && error.status == 403)
    }

    @Test func `a silent network swallows everything and tells nobody`() async throws {
        let street = try await Street()
        let connection = street.open()
        street.network.condition = .silent
        connection.enqueue(.text("lost"))
        connection.flush()
        connection.close(.normal, reason: "")
        #expect(street.house.notes.all.all == [])
        #expect(street.notes.all.all == [.closed(.requested)])
    }

    @Test func `a cut ends every connection on both sides`() async throws {
        let street = try await Street()
        _ = street.open()
        _ = street.open()
        street.network.cut()
        let losses = { (notes: Notes) in
            notes.all.all.count { if case .closed(.transport(let error)) = $0 { error.code == .reset } else { false } }
        }
        #expect(losses(street.notes) == 2 && losses(street.house.notes) == 2)
    }

    @Test func `stopping a listener closes its connections and frees its address`() async throws {
        let street = try await Street()
        _ = street.open()
        await #expect(throws: TransportError.self) {
            _ = try await street.network.listener(host: street.address.host, port: street.address.port).start(street.house)
        }
        await street.listener.stop()
        #expect(street.notes.all.all == [.closed(.peer(.goingAway, "The server stops."))])
        _ = try await street.network.listener(host: street.address.host, port: street.address.port).start(street.house)
    }

    @Test func `connections of one server have numbers of their own`() async throws {
        let street = try await Street()
        for _ in 0..<3 { _ = street.open() }
        #expect(Set(street.house.ids.all).count == 3)
    }

    @Test func `a server that nobody stopped goes with its network`() async throws {
        weak var house: House?
        weak var network: InMemoryNetwork?
        do {
            let street = try await Street()
            (house, network) = (street.house, street.network)
            #expect(house != nil && network != nil)
        }
        #expect(house == nil && network == nil)
    }

    @Test func `a listener whose network is gone says so`() async throws {
        var network: InMemoryNetwork? = InMemoryNetwork(clock: ManualClock())
        let listener = try #require(network?.listener())
        let house = House()
        _ = try await listener.start(house)
        await listener.stop()
        network = nil
        let error = await #expect(throws: TransportError.self) { try await listener.start(house) }
        #expect(error?.code == .closed)
    }

    // MARK: HTTP

    /// The request is under way: the server has it.
    private func request(_ street: Street) async -> Task<Result<HTTPResponse, TransportError>, Never> {
        let before = street.house.responders.all.count
        let task = Task { () -> Result<HTTPResponse, TransportError> in
            do throws(TransportError) {
                let endpoint = Endpoint(scheme: "http", host: street.address.host, port: street.address.port, target: "/x?y=z")
                return .success(
                    try await street.network.http.send(HTTPRequest("POST", endpoint, body: [1], idleTimeout: .seconds(5)), bodyLimit: 6))
            } catch {
                return .failure(error)
            }
        }
        while street.house.responders.all.count == before { await Task.yield() }
        return task
    }

    @Test func `a request is answered whole or in pieces`() async throws {
        let street = try await Street()
        let whole = await self.request(street)
        street.house.responders.all[0].respond(HTTPResponse(status: 201, text: "one"))
        street.house.responders.all[0].respond(HTTPResponse(status: 500, text: "two"))
        let answer = try await whole.value.get()
        #expect(answer.head.status == 201 && answer.body == Array("one".utf8))

        let pieces = await self.request(street)
        let responder = street.house.responders.all[1]
        responder.write([9])
        responder.begin(HTTPResponseHead(status: 200))
        for piece in ["ab", "", "cd"] { responder.write(Array(piece.utf8)) }
        responder.end()
        responder.write([9])
        #expect(try await pieces.value.get().body == Array("abcd".utf8))
    }

    @Test func `an answer beyond the limit is an error`() async throws {
        let street = try await Street()
        let task = await self.request(street)
        street.house.responders.all[0].respond(HTTPResponse(status: 200, text: "seven b"))
        guard case .failure(let error) = await task.value else { return #expect(Bool(false), "it is too large") }
        #expect(error.code == .tooLarge)
    }

    @Test func `a server that is silent times out and hears that the client has gone`() async throws {
        let street = try await Street()
        let task = await self.request(street)
        let gone = EventRecorder<Bool>()
        street.house.responders.all[0].onDisconnect { gone.record(true) }
        while street.clock.untilNextDeadline == nil { await Task.yield() }
        street.clock.advance(by: .seconds(5))
        guard case .failure(let error) = await task.value else { return #expect(Bool(false), "nobody answered") }
        #expect(error.code == .timedOut && gone.all == [true])
        street.house.responders.all[0].onDisconnect { gone.record(false) }
        #expect(gone.all == [true, false])
    }

    @Test func `cancelling a request ends it at once`() async throws {
        let street = try await Street()
        let task = await self.request(street)
        let gone = EventRecorder<Bool>()
        street.house.responders.all[0].onDisconnect { gone.record(true) }
        task.cancel()
        guard case .failure(let error) = await task.value else { return #expect(Bool(false), "it was cancelled") }
        #expect(error.code == .cancelled && gone.all == [true])
    }

    // MARK: Order

    @Test func `what is set off from within happens afterwards and once`() async throws {
        final class Echo: ListenerHandler, WebSocketEvents {
            let ends = EventRecorder<any WebSocketConnection>()

            func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }
            func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {}
            func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
                self.ends.record(connection)
                return self
            }
            func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
            func closed(_ id: ConnectionID, _ reason: CloseReason) {}
            func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
                for message in batch.messages {
                    self.ends.all[0].enqueue(message)
                    self.ends.all[0].flush()
                }
            }
        }
        let network = InMemoryNetwork(clock: ManualClock())
        let listener = network.listener()
        let address = try await listener.start(Echo())
        let notes = Notes()
        let endpoint = Endpoint(scheme: "ws", host: address.host, port: address.port)
        let connection = network.webSocket.makeConnection(WebSocketRequest(endpoint), id: ConnectionID(rawValue: 1), events: notes)
        connection.open()
        // Two threads at it: each message comes back once, and those of one thread in their order.
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
        let texts = notes.all.all.compactMap { if case .message(.text, let text) = $0 { text } else { nil } }
        for name in ["a", "b"] { #expect(texts.filter { $0.hasPrefix(name) } == (0..<200).map { "\(name) \($0)" }) }
        await listener.stop()
    }
}
