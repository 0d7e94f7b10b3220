import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import RelayProtocol
import TestSupport
import Testing

/// A handler beside the relay server on the same listener.
private final class GreetingHandler: ListenerHandler {
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(HTTPResponse(status: 200, text: "greetings"))
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 404)) }
}

/// A handler that never answers.
private final class SilentHandler: ListenerHandler {
    let responders = EventRecorder<any HTTPResponder>()

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { self.responders.record(responder) }
    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 404)) }
}

/// A relay server beside another handler on one listener in memory, and a client whose events are recorded.
private struct RelayFixture {
    let clock = ManualClock()
    let network: InMemoryNetwork
    let server: RelayServer
    let client: RelayClient
    let address: ListenerAddress
    let events = EventRecorder<RelaySession.Event>()
    let failures = EventRecorder<Int>()
    let token: CallbackObservation

    init(
        offering kinds: [RelaySession.Kind] = [.socket, .polling], acceptsSockets: Bool = true, handler: (any ListenerHandler)? = nil,
        retry: @escaping RelayClient.RetryPolicy = { _ in .afterBackoff() }
    ) async throws {
        self.network = InMemoryNetwork(time: self.clock.time)
        self.server = RelayServer(offering: kinds, acceptsSockets: acceptsSockets, time: self.clock.time)
        let router = ListenerRouter([.path("/relay", handler ?? self.server), .path("/greeting", GreetingHandler())])
        let address = try await self.network.listener().start(router)
        self.address = address
        self.client = RelayClient(
            Endpoint(scheme: "http", host: address.host, port: address.port), over: self.network.transports(),
            retry: { [failures] count in
                failures.record(count)
                return await retry(count)
            })
        self.token = self.client.observe { [events] in events.record($0) }
        self.client.driver.start()
    }

    /// Waits until the client has an event.
    func wait(for event: RelaySession.Event) async {
        while !self.events.all.contains(event) { await Task.yield() }
    }

    func stop() {
        self.client.driver.shutDown()
        self.network.cut()
    }
}

@Suite(.timeLimit(.minutes(10))) struct RelayProtocolTests {
    private let first = ConnectionID(rawValue: 1)

    @Test(arguments: [RelaySession.Kind.socket, .polling])
    func `a session negotiates before it connects`(kind: RelaySession.Kind) async throws {
        let relay = try await RelayFixture(offering: [kind])
        await relay.wait(for: .connected(kind))
        expectEqual(relay.events.all, [.attempt(self.first), .connected(kind)])
        relay.server.broadcast("+ one")
        relay.server.broadcast("+ two")
        await relay.wait(for: .message("two"))
        expectEqual(relay.events.all.suffix(2), [.message("one"), .message("two")])
        relay.stop()
    }

    @Test func `a session falls back to another kind of connection within one attempt`() async throws {
        let relay = try await RelayFixture(acceptsSockets: false)
        await relay.wait(for: .connected(.polling))
        expectEqual(relay.events.all, [.attempt(self.first), .connected(.polling)])
        expectEqual(relay.client.driver.read { $0.connection.failures }, 0)
        expect(relay.failures.all.isEmpty)
        relay.stop()
    }

    @Test func `a rejected upgrade is reported with its response`() async throws {
        let relay = try await RelayFixture(offering: [.socket], acceptsSockets: false, retry: { _ in .never })
        await relay.wait(for: .ended)
        guard case .lost(.transport(let error))? = relay.events.all.first(where: { if case .lost = $0 { true } else { false } }) else {
            return expect(false, "the attempt should fail")
        }
        expectEqual(error.response?.head.status, 403)
        expectEqual(error.response.map { String(decoding: $0.body, as: UTF8.self) }, "sockets are disabled")
        relay.stop()
    }

    @Test func `a protocol that gives up after a timeout makes no further attempt`() async throws {
        let relay = try await RelayFixture(offering: [.socket])
        await relay.wait(for: .connected(.socket))
        relay.clock.advance(by: .seconds(90))
        expectEqual(relay.events.all.suffix(2), [.lost(.heartbeatTimeout), .ended])
        relay.clock.advance(by: .seconds(1000))
        expect(relay.events.all.last == .ended && relay.client.driver.nextDeadline == nil)
        expect(relay.failures.all.isEmpty)
        relay.stop()
    }

    @Test func `the time limit of an attempt includes the negotiation`() async throws {
        let silent = SilentHandler()
        let relay = try await RelayFixture(handler: silent)
        while silent.responders.all.isEmpty { await Task.yield() }
        relay.clock.advance(by: .seconds(15))
        expectEqual(relay.events.all, [.attempt(self.first), .lost(.openTimeout), .ended])
        expectEqual(relay.client.driver.read { $0.works.count }, 0)
        // A late response has no effect.
        silent.responders.all[0].respond(HTTPResponse(status: 200, text: "t1 polling"))
        expectNil(relay.client.driver.read { $0.connection.current })
        relay.stop()
    }

    @Test func `the application decides whether and when to reconnect`() async throws {
        let relay = try await RelayFixture(
            handler: GreetingHandler(), retry: { $0 < 2 ? .after(.seconds(5 * ($0 + 1))) : .never })
        await relay.wait(for: .waiting(.seconds(5)))
        relay.clock.advance(by: .seconds(5))
        await relay.wait(for: .waiting(.seconds(10)))
        relay.clock.advance(by: .seconds(9))
        expectEqual(relay.events.all.contains(.attempt(ConnectionID(rawValue: 3))), false)
        relay.clock.advance(by: .seconds(1))
        await relay.wait(for: .ended)
        expectEqual(relay.failures.all, [0, 1, 2])
        relay.stop()
    }

    @Test func `a decision of the application that takes too long is replaced by a backoff`() async throws {
        let never = Waiter<ReconnectDecision>()
        let relay = try await RelayFixture(handler: GreetingHandler(), retry: { _ in await never.value() })
        while relay.failures.all.isEmpty { await Task.yield() }
        relay.clock.advance(by: .seconds(30))
        guard case .waiting? = relay.events.all.last else { return expect(false, "it should wait for the next attempt") }
        never.fulfill(.never)?.resume()
        relay.stop()
    }

    @Test(arguments: [RelaySession.Kind.socket, .polling])
    func `work that reports several times uploads all items`(kind: RelaySession.Kind) async throws {
        let relay = try await RelayFixture(offering: [kind])
        await relay.wait(for: .connected(kind))
        async let second = relay.client.upload(["x", "y"])
        try await expectEqual(relay.client.upload((1...100).map { "\($0)" }), 100)
        try await expectEqual(second, 2)
        expectEqual(relay.client.driver.read { $0.works.count }, 0)
        relay.stop()
    }

    @Test func `an upload fails when the connection is lost`() async throws {
        let relay = try await RelayFixture(offering: [.socket], retry: { _ in .never })
        await relay.wait(for: .connected(.socket))
        relay.server.stopAnswering()
        let task = Task { () -> RelaySession.Failure? in
            do throws(RelaySession.Failure) {
                _ = try await relay.client.upload(["x"])
                return nil
            } catch {
                return error
            }
        }
        while relay.client.driver.read({ $0.waiterCount }) == 0 { await Task.yield() }
        relay.network.cut()
        guard case .ended? = await task.value else { return expect(false, "the upload should fail") }
        relay.stop()
    }

    @Test func `a session moves to a second connection without a loss`() async throws {
        let relay = try await RelayFixture(offering: [.polling])
        await relay.wait(for: .connected(.polling))
        relay.server.broadcast("upgrade")
        await relay.wait(for: .moved)
        while relay.server.connectionCount > 1 { await Task.yield() }
        relay.server.broadcast("+ after")
        await relay.wait(for: .message("after"))
        expectEqual(relay.events.all, [.attempt(self.first), .connected(.polling), .moved, .message("after")])
        #expect(relay.client.driver.read { $0.connection.connected } == ConnectionID(rawValue: 2))
        relay.stop()
    }

    @Test func `a session stays on its connection when the second one cannot be established`() async throws {
        let relay = try await RelayFixture(offering: [.polling], acceptsSockets: false)
        await relay.wait(for: .connected(.polling))
        relay.server.broadcast("upgrade")
        relay.server.broadcast("+ after")
        await relay.wait(for: .message("after"))
        #expect(relay.client.driver.read { $0.connection.connected } == self.first)
        expect(!relay.events.all.contains(.moved))
        relay.stop()
    }

    @Test func `another handler answers on the same listener`() async throws {
        let relay = try await RelayFixture()
        await relay.wait(for: .connected(.socket))
        for (path, status) in [("/greeting", 200), ("/unknown", 404)] {
            let url = Endpoint(scheme: "http", host: relay.address.host, port: relay.address.port, target: path)
            try await expectEqual(relay.network.http.send(HTTPRequest("GET", url)).head.status, status)
        }
        relay.stop()
    }
}
