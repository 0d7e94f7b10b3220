import RealtimeCore
import RealtimeSystem
import SimulationSupport
import TestSupport
import Testing

@Suite(.requires(.simulations))
struct RecoveryRunTests {
    @Test func `the phases of a run follow each other and a client is stopped and checked`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let network = VirtualNetwork(simulation, .unreliable)
        let client = SimulatedClient(LineSession(.none, seed: 1), on: network)
        client.start()
        var phases: [String] = []
        func note(_ phase: String) {
            phases.append("\(phase) at \(simulation.now.nanoseconds / 1_000_000_000), faults: \(network.hasFaults)")
        }
        RecoveryRun(faults: .seconds(10), settling: .seconds(20), recovery: .seconds(30), ending: .seconds(40)).perform(
            on: network, [client], faultsEnd: { note("end of faults") }, settled: { note("settled") }, recovered: { note("recovered") })
        expectEqual(
            phases,
            [
                "end of faults at 10, faults: false", "settled at 30, faults: false", "recovered at 60, faults: false",
            ])
        expect(simulation.violation == nil && client.hasFinished && simulation.now == Instant(nanoseconds: 100_000_000_000))
        expect(network.conditions.resets == 0 && client.totals.counts["attempts"]! > 0 && network.counts["connections"] == 0)
    }

    @Test func `a client that doesn't end is found`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let network = VirtualNetwork(simulation)
        let client = SimulatedClient(LineSession(.leavesDeadline, seed: 1), on: network)
        client.start()
        var hasRecovered = false
        let run = RecoveryRun(faults: .seconds(1), settling: .seconds(1), recovery: .seconds(1), ending: .seconds(1))
        run.perform(on: network, [client], settled: {}, recovered: { hasRecovered = true })
        expect(hasRecovered && simulation.violation?.text == "a deadline is left after stopping")
    }

    @Test func `after a violation the recovery is not checked`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        simulation.schedule(in: 500...500) { simulation.fail("first") }
        let run = RecoveryRun(faults: .seconds(1), settling: .seconds(1), recovery: .seconds(1), ending: .seconds(1))
        run.perform(on: VirtualNetwork(simulation), [], settled: {}, recovered: { Issue.record("the recovery was checked") })
        expectEqual(simulation.violation?.text, "first")
    }

    @Test func `an action is repeated until its condition is false`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let times = Lock<[Int64]>([])
        simulation.every(1_000...1_000, first: 500...500, while: { simulation.now < Instant(nanoseconds: 3_000_000_000) }) {
            times.withLock { $0.append(simulation.now.nanoseconds / 1_000_000) }
        }
        let count = Lock(0)
        simulation.every(10_000...10_000) { count.withLock { $0 += 1 } }
        expectEqual(count.withLock { $0 }, 1)
        simulation.run(for: .seconds(15))
        expect(times.withLock { $0 } == [500, 1500, 2500] && count.withLock { $0 } == 2)
    }

    // MARK: Servers

    /// A handler that accepts, rejects, or decides later, as the path says.
    private final class Handler: AcceptingHandler, MessageEvents {
        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            responder.respond(HTTPResponse(status: 200, text: String(request.path)))
        }

        func decision(about request: HTTPRequestHead) -> UpgradeDecision {
            switch request.path {
            case "/rejected": .reject(HTTPResponse(status: 403))
            case "/later": .later { $0.accept(subprotocol: "b") }
            case "/rejected-later": .later { $0.reject(HTTPResponse(status: 401)) }
            case "/never": .later { _ in }
            default: .accept(subprotocol: "a")
            }
        }

        func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents { self }
        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
        func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    }

    /// `@unchecked Sendable`: used only on the thread of the simulation.
    private final class Client: MessageEvents, @unchecked Sendable {
        private(set) var log: [String] = []

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {
            self.log.append("opened \(head.headers["Sec-WebSocket-Protocol"] ?? "")")
        }
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { self.log += batch.messages.map { "\($0.kind) \($0.bytes)" } }
        func closed(_ id: ConnectionID, _ reason: CloseReason) {
            if case .transport(let error) = reason { self.log.append("\(error.status ?? 0)") }
        }
    }

    @Test(arguments: [
        ("/", ["opened a", "pong [1]"]), ("/later", ["opened b", "pong [1]"]), ("/rejected", ["403"]), ("/rejected-later", ["401"]),
    ])
    func `a handler of listeners is a server, which answers pings`(path: String, log: [String]) {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let network = VirtualNetwork(simulation)
        network.setServer(SimulatedListener(simulation, Handler()), host: "a", port: 80)
        let client = Client()
        let request = WebSocketRequest(Endpoint(scheme: "ws", host: "a", port: 80, target: path))
        let connection = network.connect(request, id: ConnectionID(rawValue: 1), events: client)
        connection.open()
        simulation.run(for: .seconds(10))
        if client.log.first?.hasPrefix("opened") == true {
            connection.enqueue(TransportMessage(.ping, [1]))
            connection.flush()
        }
        simulation.run(for: .seconds(10))
        expect(client.log == log && simulation.violation == nil)
    }

    @Test func `a server that doesn't decide about an upgrade is a violation`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let network = VirtualNetwork(simulation)
        network.setServer(SimulatedListener(simulation, Handler()), host: "a", port: 80)
        let request = WebSocketRequest(Endpoint(scheme: "ws", host: "a", port: 80, target: "/never"))
        network.connect(request, id: ConnectionID(rawValue: 1), events: Client()).open()
        simulation.run(for: .seconds(10))
        expectEqual(simulation.violation?.text, "the server did not decide about the upgrade to /never immediately")
    }
}
