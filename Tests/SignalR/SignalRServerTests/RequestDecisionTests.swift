import RealtimeCoding
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// Requests of connections over HTTP whose clients disconnect around the moment at which a hook decides about them.
@Suite(.timeLimit(.minutes(10))) struct RequestDecisionTests {
    /// Records the answer, and passes every action for the moment at which the client disconnects to a closure. An action
    /// retains its responder, so an action that is kept is released by calling it once: `take()`.
    private final class Responder: HTTPResponder {
        typealias Action = @Sendable () -> Void

        let statuses = EventRecorder<Int>()
        private let onRegistration: @Sendable (@escaping Action) -> Void

        init(onRegistration: @escaping @Sendable (@escaping Action) -> Void) { self.onRegistration = onRegistration }

        func respond(_ response: HTTPResponse) { self.statuses.record(response.head.status) }
        func begin(_ head: HTTPResponseHead) { self.statuses.record(head.status) }
        func write(_ bytes: [UInt8]) {}
        func end() {}
        func onDisconnect(_ action: @escaping Action) { self.onRegistration(action) }
    }

    private let asked = EventRecorder<String>()

    private func makeServer() async throws -> HubUnderTest {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { [asked] request in
            asked.record(request.request.method)
            return .accept(userID: nil)
        }
        // Shorter than the other time limits.
        return try await HubUnderTest(hooks: hooks) { $0.authenticationTimeout = .seconds(1) }
    }

    private func pass(_ method: String, _ client: RawHTTPHubClient, _ responder: Responder, to test: HubUnderTest) {
        let accept: HTTPHeaders = client.transport == .serverSentEvents && method == "GET" ? ["Accept": "text/event-stream"] : [:]
        let request = HTTPRequestHead(method: method, target: client.target, headers: accept)
        test.server.handler.received(request, body: [], responder: responder)
    }

    /// A hook that decides on another thread, before the request is watched, would leave the connection without the end of its request.
    @Test(arguments: HTTPTransportTests.transports, ["GET", "POST"])
    func `the end of a request is watched before the hook is asked`(transport: HubTransport, method: String) async throws {
        let test = try await self.makeServer()
        let client = try await test.open(transport)
        // The first poll is answered, and another one waits.
        let requests = transport == .longPolling ? 2 : 1
        try await eventually("the client waits for messages") {
            self.asked.all.filter { $0 == "GET" }.count == requests && !Self.decides(test)
        }
        let decides = EventRecorder<Bool>()
        self.pass(method, client, Responder { _ in decides.record(Self.decides(test)) }, to: test)
        expectEqual(decides.all.first, false)
    }

    /// Whether the time limit of a decision is running.
    private static func decides(_ test: HubUnderTest) -> Bool { test.clock.untilNextDeadline.map { $0 <= .seconds(1) } ?? false }

    @Test(arguments: HTTPTransportTests.transports)
    func `the hook isn't asked about a request whose client has disconnected`(transport: HubTransport) async throws {
        let test = try await self.makeServer()
        test.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        let client = try await test.connect(transport)
        let count = self.asked.all.filter { $0 == "POST" }.count
        self.pass("POST", client, Responder { $0() }, to: test)
        // Its place among the requests is free.
        try await expectEqual(client.invoke("Add", "1,2")["result"], 3)
        expectEqual(self.asked.all.filter { $0 == "POST" }.count, count + 1)
    }

    @Test func `a poll whose client disconnects after the decision isn't answered, and its end reaches the connection`() async throws {
        let test = try await self.makeServer()
        let client = try await test.connect(.longPolling)
        client.stopWaiting()
        let actions = EventRecorder<Responder.Action>()
        let poll = Responder { actions.record($0) }
        self.pass("GET", client, poll, to: test)
        try await eventually("the connection watches the poll") { actions.all.count == 2 }
        // As if the client had disconnected between the decision and the connection's registration, which calls its action immediately then.
        for action in actions.take() { action() }
        expectEqual(poll.statuses.all, [])
        try await test.hub.clients.all.send("A")
        client.wait()
        try await expectEqual(client.next()["target"], "A")
    }

    @Test func `the end of a stream is the end of its connection, as soon as the hook has decided`() async throws {
        let test = try await self.makeServer()
        let token = try await test.negotiate()["connectionToken"]?.string ?? ""
        let actions = EventRecorder<Responder.Action>()
        let stream = Responder { actions.record($0) }
        let request = HTTPRequestHead(method: "GET", target: "/hub?id=\(token)", headers: ["Accept": "text/event-stream"])
        test.server.handler.received(request, body: [], responder: stream)
        try await eventually("the connection watches the stream") { actions.all.count == 2 }
        for action in actions.take() { action() }
        try await eventually("the connection ends") { test.server.driver.read { $0.connections.isEmpty } }
        expectEqual(stream.statuses.all, [200])
    }
}
