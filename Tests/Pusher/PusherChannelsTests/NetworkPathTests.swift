import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Checks of the connection: after a change of the network path, and by `checkConnection()`.
@Suite struct NetworkPathTests {
    /// The ways in which a client is asked to check its connection.
    enum Notice: CaseIterable, Sendable {
        case pathChange, call
    }

    private struct Fixture {
        let pusher: InMemoryPusher
        let monitor = NetworkPathMonitor()
        let client: PusherClient

        init() async throws {
            let (pusher, monitor) = (try await InMemoryPusher(), self.monitor)
            self.pusher = pusher
            self.client = pusher.client {
                $0.transports.networkPath = monitor
                $0.backoff = Backoff(base: .seconds(60), cap: .seconds(600))
            }
        }

        func notify(_ notice: Notice) {
            switch notice {
            case .pathChange: self.monitor.pathChanged()
            case .call: self.client.checkConnection()
            }
        }
    }

    @Test(arguments: Notice.allCases)
    func `a client that waits for its next attempt connects immediately`(_ notice: Notice) async throws {
        let fixture = try await Fixture()
        let (pusher, client) = (fixture.pusher, fixture.client)
        pusher.network.condition = .down
        client.connect()
        let prices = try client.subscribe("prices")
        for _ in 0..<5 { pusher.clock.advanceToNextDeadline() }
        expectEqual(client.state, .unavailable)
        pusher.network.condition = .up
        expectEqual(client.state, .unavailable)
        let before = pusher.clock.elapsed
        fixture.notify(notice)
        expect(client.state.name == "connected" && prices.state == .subscribed)
        expectEqual(pusher.clock.elapsed, before)
    }

    @Test func `a failed attempt after a change of the path starts with short delays again`() async throws {
        let fixture = try await Fixture()
        let (pusher, client) = (fixture.pusher, fixture.client)
        pusher.network.condition = .down
        client.connect()
        for _ in 0..<12 { pusher.clock.advanceToNextDeadline() }
        let delays = client.connectingIn
        fixture.monitor.pathChanged()
        let delay = try #require(await delays.pending().last)
        expect(delay <= .seconds(60))
    }

    @Test(arguments: Notice.allCases)
    func `a connected client pings the server and keeps its connection`(_ notice: Notice) async throws {
        let fixture = try await Fixture()
        let (pusher, client) = (fixture.pusher, fixture.client)
        client.connect()
        let socketID = client.socketID
        let events = pusher.server.events
        fixture.notify(notice)
        await expectEqual(events.pending().filter(\.isPing).count, 1)
        expectEqual(client.counters.lastRoundTrip, .zero)
        pusher.clock.advance(by: .seconds(60))
        expect(client.socketID == socketID && socketID != nil)
    }

    @Test(arguments: Notice.allCases)
    func `a connection whose server does not respond is lost after the pong timeout`(_ notice: Notice) async throws {
        let fixture = try await Fixture()
        let (pusher, client) = (fixture.pusher, fixture.client)
        client.connect()
        let first = client.socketID
        pusher.server.faults.isSilent = true
        fixture.notify(notice)
        pusher.clock.advance(by: .seconds(29))
        expectEqual(client.socketID, first)
        pusher.clock.advance(by: .seconds(1))
        expectEqual(client.state, .connecting)
    }

    @Test(arguments: Notice.allCases)
    func `a client that is not connecting stays as it is`(_ notice: Notice) async throws {
        let fixture = try await Fixture()
        fixture.notify(notice)
        expectEqual(fixture.client.state, .initialized)
        fixture.client.connect()
        fixture.client.disconnect()
        fixture.notify(notice)
        expect(fixture.client.state == .disconnected(nil) && fixture.pusher.server.socketIDs.isEmpty)
    }

    @Test func `many changes during one attempt do not start another`() async throws {
        let fixture = try await Fixture()
        let (pusher, client) = (fixture.pusher, fixture.client)
        pusher.network.condition = .silent
        let updates = client.updates()
        client.connect()
        for _ in 0..<5 { fixture.monitor.pathChanged() }
        await expectEqual(updates.pending().filter { if case .attempt = $0 { true } else { false } }.count, 1)
    }

    @Test func `a monitor notifies its clients in order and does not retain them`() async throws {
        let monitor = NetworkPathMonitor()
        let pusher = try await InMemoryPusher()
        let order = EventRecorder<Int>()
        var observations: [NetworkPathObservation] = []
        for number in 1...3 { observations.append(monitor.observe { order.record(number) }) }
        monitor.pathChanged()
        expectEqual(order.take(), [1, 2, 3])
        observations.remove(at: 1)
        monitor.pathChanged()
        expectEqual(order.take(), [1, 3])
        observations = []
        var client: PusherClient? = pusher.client { $0.transports.networkPath = monitor }
        client?.connect()
        expect(monitor.observerCount == 1 && pusher.server.socketIDs.count == 1)
        client = nil
        expect(monitor.observerCount == 0 && pusher.server.socketIDs.isEmpty)
    }
}

extension PusherServerEvent {
    fileprivate var isPing: Bool {
        if case .received(_, let frame) = self { frame.contains("pusher:ping") } else { false }
    }
}
