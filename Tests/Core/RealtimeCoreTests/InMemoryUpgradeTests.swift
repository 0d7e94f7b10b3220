import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// A server that decides with a closure.
private final class DecidingHandler: AcceptingHandler {
    let decide: @Sendable (HTTPRequestHead) -> UpgradeDecision
    let (accepted, abandoned) = (EventRecorder<String>(), EventRecorder<String>())
    let received = EventRecorder<String>()

    init(_ decide: @escaping @Sendable (HTTPRequestHead) -> UpgradeDecision) {
        self.decide = decide
    }

    func decision(about request: HTTPRequestHead) -> UpgradeDecision { self.decide(request) }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.received.record(request.target)
        responder.respond(HTTPResponse(status: 200, text: "\(request.target)"))
    }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        self.accepted.record(request.target)
        return ClientEvents()
    }

    func abandoned(_ request: HTTPRequestHead) { self.abandoned.record(request.target) }
}

/// A server with the required method only.
private final class RequestHandler: ListenerHandler {
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(HTTPResponse(status: 204))
    }
}

private final class ClientEvents: MessageEvents {
    let heads = EventRecorder<HTTPResponseHead>()
    let reasons = EventRecorder<CloseReason>()

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.heads.record(head) }
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.reasons.record(reason) }

    /// The error of the only end.
    func takeError() throws -> TransportError {
        guard case .transport(let error)? = self.reasons.take().first else { throw TransportError(.unsupported, "no error") }
        return error
    }
}

private final class UpgradeFixture: Sendable {
    let clock = ManualClock()
    let network: InMemoryNetwork
    let listener: InMemoryListener
    let handler: DecidingHandler
    let events = ClientEvents()
    let responders = EventRecorder<UpgradeResponder>()
    let cancellations = EventRecorder<Bool>()

    init(_ decide: (@Sendable (HTTPRequestHead) -> UpgradeDecision)? = nil) async throws {
        self.network = InMemoryNetwork(clock: self.clock)
        self.listener = self.network.listener(port: 80)
        let (responders, cancellations) = (self.responders, self.cancellations)
        self.handler = DecidingHandler(
            decide ?? { _ in
                .later { responder in
                    responder.onCancel { cancellations.record(true) }
                    responders.record(responder)
                }
            })
        _ = try await self.listener.start(self.handler)
    }

    deinit { self.network.cut() }

    var responder: UpgradeResponder? { self.responders.all.last }

    func open(_ subprotocols: [String] = []) throws -> any MessageConnection {
        let request = WebSocketRequest(try Endpoint("ws://memory/chat"), subprotocols: subprotocols)
        let connection = self.network.webSocket.makeConnection(request, id: ConnectionID(rawValue: 1), events: self.events)
        connection.open()
        return connection
    }
}

/// The acceptor of a decision that comes too late.
private struct LateAcceptor: UpgradeAcceptor {
    let abandonments = EventRecorder<Void>()

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        Issue.record("the decision came too late")
        return ClientEvents()
    }

    func abandoned() { self.abandonments.record(()) }
}

@Suite struct InMemoryUpgradeTests {
    /// An acceptor with a name, whose connection has no use.
    private struct Named: UpgradeAcceptor {
        let name: String
        let log: EventRecorder<String>

        func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
            self.log.record("\(self.name) connected")
            return ClientEvents()
        }

        func abandoned() { self.log.record("\(self.name) abandoned") }
    }

    @Test(arguments: [false, true]) func `acceptors can be replaced one after the other`(decidesLater: Bool) async throws {
        let log = EventRecorder<String>()
        @Sendable func name(_ text: String) -> @Sendable (any UpgradeAcceptor) -> any UpgradeAcceptor {
            { Named(name: text + (($0 as? Named)?.name ?? ""), log: log) }
        }
        let fixture = try await UpgradeFixture { _ in
            let decision: UpgradeDecision =
                decidesLater ? .later { $0.accept(to: Named(name: "a", log: log)) } : .accept(to: Named(name: "a", log: log))
            return decision.replacingAcceptor(name("b")).replacingAcceptor(name("c"))
        }
        // The handler's own replacement is the last one.
        let connection = try fixture.open()
        expectEqual(fixture.handler.accepted.all, ["/chat"])
        connection.abandon()
        // Without it.
        let decision = fixture.handler.decide(HTTPRequestHead(method: "GET", target: "/chat"))
        let answers = EventRecorder<UpgradeResponder.Answer>()
        if case .later(let ask) = decision { ask(UpgradeResponder { answers.record($0) }) }
        if case .accept(_, _, let acceptor) = decision { answers.record(.accept(subprotocol: nil, headers: [:], to: acceptor)) }
        guard case .accept(_, _, let acceptor)? = answers.all.first else { return expect(false) }
        acceptor.abandoned()
        expectEqual(log.all, ["cba abandoned"])
    }

    @Test func `an upgrade that is accepted later opens the connection with the header fields`() async throws {
        let fixture = try await UpgradeFixture()
        let connection = try fixture.open(["a"])
        expect(fixture.events.heads.all.isEmpty && fixture.handler.accepted.all.isEmpty)
        fixture.responder?.accept(subprotocol: "a", headers: ["X": "1"])
        let expected = HTTPResponseHead(status: 101, headers: ["Sec-WebSocket-Protocol": "a", "X": "1"])
        expect(fixture.events.heads.take() == [expected] && fixture.handler.accepted.take() == ["/chat"])
        // The time limit is over.
        fixture.clock.advance(by: .seconds(100))
        expect(fixture.events.reasons.all.isEmpty && fixture.cancellations.all.isEmpty)
        connection.abandon()
    }

    @Test func `a rejection carries the response to the client`() async throws {
        let response = HTTPResponse(HTTPResponseHead(status: 403, headers: ["X": "1"]), body: [1, 2, 3])
        for decidesLater in [false, true] {
            let fixture = try await UpgradeFixture { _ in decidesLater ? .later { $0.reject(response) } : .reject(response) }
            _ = try fixture.open()
            let error = try fixture.events.takeError()
            expect(error.code == .upgradeRejected && error.status == 403 && error.response == response)
        }
    }

    @Test func `a handler for requests only rejects upgrades with 404`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        _ = try await network.listener(port: 80).start(RequestHandler())
        try await expectEqual(network.http.send(HTTPRequest("GET", Endpoint("http://memory/"))).head.status, 204)
        let events = ClientEvents()
        let request = WebSocketRequest(try Endpoint("ws://memory/"))
        network.webSocket.makeConnection(request, id: ConnectionID(rawValue: 1), events: events).open()
        let error = try events.takeError()
        expect(error.code == .upgradeRejected && error.status == 404)
        expectEqual(error.response?.body, Array("There is no WebSocket at this address.\n".utf8))
    }

    @Test func `an upgrade without a decision is rejected with 503 after ten seconds`() async throws {
        let fixture = try await UpgradeFixture()
        _ = try fixture.open()
        fixture.clock.advance(by: .seconds(9))
        expect(fixture.events.reasons.all.isEmpty)
        fixture.clock.advance(by: .seconds(1))
        try expectEqual(fixture.events.takeError().status, 503)
        expectEqual(fixture.cancellations.take().count, 1)
        fixture.responder?.accept()
        expect(fixture.handler.accepted.all.isEmpty)
    }

    @Test func `a client that goes away cancels the decision`() async throws {
        let fixture = try await UpgradeFixture()
        try fixture.open().abandon()
        expectEqual(fixture.cancellations.take().count, 1)
        try fixture.open().close(.normal, reason: "")
        expect(fixture.cancellations.take().count == 1 && fixture.events.reasons.take() == [.requested])
        _ = try fixture.open()
        fixture.network.cut()
        expectEqual(fixture.cancellations.take().count, 1)
        try expectEqual(fixture.events.takeError().code, .reset)
        let late = LateAcceptor()
        for responder in fixture.responders.all { responder.accept(to: late) }
        expect(fixture.handler.accepted.all.isEmpty && late.abandonments.all.count == 3)
    }

    @Test func `a listener that stops rejects undecided upgrades`() async throws {
        let fixture = try await UpgradeFixture()
        _ = try fixture.open()
        await fixture.listener.stop()
        try expectEqual(fixture.events.takeError().status, 503)
        expectEqual(fixture.cancellations.take().count, 1)
        let late = LateAcceptor()
        fixture.responder?.accept(to: late)
        expectEqual(late.abandonments.all.count, 1)
    }

    @Test func `only the first decision counts, and the acceptor of another one is told`() async throws {
        let fixture = try await UpgradeFixture()
        let connection = try fixture.open()
        let late = LateAcceptor()
        fixture.responder?.accept()
        fixture.responder?.accept(to: late)
        expect(fixture.handler.accepted.all == ["/chat"] && fixture.handler.abandoned.all.isEmpty && late.abandonments.all.count == 1)
        connection.abandon()
    }

    @Test func `an invalid answer is rejected with 500`() async throws {
        for (subprotocol, headers) in [("b", [:]), (nil, ["Upgrade": "x"]), (nil, ["X": "a\r\nb"])] as [(String?, HTTPHeaders)] {
            let fixture = try await UpgradeFixture { _ in .accept(subprotocol: subprotocol, headers: headers) }
            _ = try fixture.open(["a"])
            try expectEqual(fixture.events.takeError().status, 500)
            expect(fixture.handler.accepted.all.isEmpty && fixture.handler.abandoned.all == ["/chat"])
        }
    }

    @Test func `an action registered after the cancellation is called immediately and after the decision never`() {
        let (responder, decided) = (UpgradeResponder { _ in }, UpgradeResponder { _ in })
        expect(responder.cancel() && !responder.cancel())
        let calls = EventRecorder<Int>()
        responder.onCancel { calls.record(1) }
        decided.onCancel { calls.record(2) }
        decided.accept()
        decided.onCancel { calls.record(3) }
        expect(!decided.cancel() && calls.take() == [1])
    }

    @Test func `a responder that is kept retains nothing after the decision`() {
        final class Token: Sendable {}
        var token: Token? = Token()
        weak let released = token
        let responder = UpgradeResponder { [token] _ in _ = token }
        responder.onCancel { [token] in _ = token }
        token = nil
        expect(released != nil)
        responder.accept()
        expectNil(released)
    }
}

@Suite struct ListenerRouterTests {
    private struct Routed {
        let network = InMemoryNetwork(clock: ManualClock())
        let chat = DecidingHandler { _ in .accept(subprotocol: nil) }
        let room = DecidingHandler { _ in .reject(HTTPResponse(status: 409)) }
        let health = DecidingHandler { _ in .accept(subprotocol: nil) }

        init() async throws {
            let router = ListenerRouter([
                .matching(self.health) { $0.method == "GET" && $0.path == "/chat/health" }, .path("/chat/room", self.room),
                .path("/chat/", self.chat),
            ])
            _ = try await self.network.listener(port: 80).start(router)
        }

        func status(_ method: String = "GET", _ target: String) async throws -> Int {
            let endpoint = Endpoint(scheme: "http", host: "memory", port: 80, target: target)
            return try await self.network.http.send(HTTPRequest(method, endpoint)).head.status
        }
    }

    @Test func `the first route that matches receives a request`() async throws {
        let routed = try await Routed()
        for target in ["/chat", "/chat/", "/chat?a=b", "/chat/rooms", "/chat/room/1", "/chat/room?x", "/chat/health"] {
            try await expectEqual(routed.status("GET", target), 200)
        }
        try await expectEqual(routed.status("POST", "/chat/health"), 200)
        expectEqual(routed.chat.received.take(), ["/chat", "/chat/", "/chat?a=b", "/chat/rooms", "/chat/health"])
        expectEqual(routed.room.received.take(), ["/chat/room/1", "/chat/room?x"])
        expectEqual(routed.health.received.take(), ["/chat/health"])
    }

    @Test(arguments: ["/", "/chats", "/cha", "/Chat", "/other?/chat", "*"])
    func `a request that no route matches receives status 404`(target: String) async throws {
        try await expectEqual(Routed().status("OPTIONS", target), 404)
    }

    @Test func `an exact path matches neither longer nor shorter ones`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let handler = DecidingHandler { _ in .accept(subprotocol: nil) }
        _ = try await network.listener(port: 80).start(ListenerRouter([.exactPath("/chat", handler)]))
        for (target, status) in [("/chat", 200), ("/chat?a/b", 200), ("/chat/", 404), ("/chat/x", 404), ("/cha", 404), ("/Chat", 404)] {
            let endpoint = Endpoint(scheme: "http", host: "memory", port: 80, target: target)
            try await expectEqual(network.http.send(HTTPRequest("GET", endpoint)).head.status, status)
        }
    }

    @Test func `a slash as the path matches every request`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let handler = DecidingHandler { _ in .accept(subprotocol: nil) }
        _ = try await network.listener(port: 80).start(ListenerRouter([.path("/", handler)]))
        try await expectEqual(network.http.send(HTTPRequest("GET", Endpoint("http://memory/a/b"))).head.status, 200)
    }

    @Test func `an upgrade and its connection belong to the first route that matches`() async throws {
        let routed = try await Routed()
        let events = ClientEvents()
        for target in ["/chat/1", "/chat/room", "/other"] {
            let request = WebSocketRequest(Endpoint(scheme: "ws", host: "memory", port: 80, target: target))
            routed.network.webSocket.makeConnection(request, id: ConnectionID(rawValue: 1), events: events).open()
        }
        expect(routed.chat.accepted.take() == ["/chat/1"] && routed.room.accepted.all.isEmpty)
        let statuses = events.reasons.take().map { reason -> Int? in if case .transport(let error) = reason { error.status } else { nil } }
        expectEqual(statuses, [409, 404])
        routed.network.cut()
    }

    @Test func `a route is chosen once for an upgrade and its connection`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let isFirst = Lock(true)
        let handler = DecidingHandler { _ in .accept(subprotocol: nil) }
        let route = ListenerRouter.Route.matching(handler) { _ in
            isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst
            }
        }
        _ = try await network.listener(port: 80).start(ListenerRouter([route]))
        let events = ClientEvents()
        let request = WebSocketRequest(try Endpoint("ws://memory"))
        network.webSocket.makeConnection(request, id: ConnectionID(rawValue: 1), events: events).open()
        expect(events.heads.all.count == 1 && handler.accepted.all == ["/"])
        network.cut()
    }
}
