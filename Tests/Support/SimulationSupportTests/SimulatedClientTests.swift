import RealtimeCore
import SimulationSupport
import TestSupport
import Testing

@Suite(.computes, .serialized, .requires(.simulations))
struct SimulatedClientTests {
    @Test func `a correct client violates nothing`() async throws {
        let report = try await simulate(seeds(50)) { LineSimulation($0, .none).run() }
        expectEqual(report.failures, [])
        expect(report.runs == 1 || (report.exercises("answers", moreThan: 5) && report.exercises("late events", moreThan: 1)))
    }

    @Test(arguments: [
        (LineSession.Mistake.deliversLateMessages, "a late event had an effect"),
        (.losesWaiters, "calls wait, but the machine knows 0"),
        (.neverAnswersWaiters, "calls wait, but the machine knows"),
        (.resumesWaitersTwice, "a waiter was resumed twice"),
        (.opensTwoConnections, "was opened while"),
        (.sendsBeforeOpened, "a message was sent on #1, which is not open"),
        (.sendsAfterStop, "a message was sent on #1, which is not open"),
        (.leavesDeadline, "a deadline is left after stopping"),
        (.setsDeadlineInThePast, "which has passed"),
        (.deliversAfterStop, "events were delivered after the end"),
        (.countsMessagesTwice, "the counts of received messages don't agree with the network"),
        (.abandonsWithoutReason, "was abandoned without a fault"),
        (.closesWithoutCall, "was closed without a call of the user"),
        (.isRandom, "yields different traces"),
    ])
    func `a mistake of the client is found`(mistake: LineSession.Mistake, violation: String) async throws {
        let report = try await simulate(0..<101) { LineSimulation($0, mistake).run() }
        let failure = try #require(report.failures.first)
        expect(failure.contains(violation))
    }

    @Test func `a failure contains the seed and the trace`() async throws {
        let report = try await simulate(7..<8) { LineSimulation($0, .resumesWaitersTwice).run() }
        let failure = try #require(report.failures.first)
        expect(failure.contains("REALTIME_TEST_SEED=7"))
        expect(failure.contains(" sends ? ") && failure.hasSuffix("VIOLATION: a waiter was resumed twice"))
    }

    @Test func `a call that is never answered is found at the end`() {
        let simulation = Simulation(seed: 1)
        defer { simulation.release() }
        let client = SimulatedClient(LineSession(.none, seed: 1), on: VirtualNetwork(simulation))
        // Registers no waiter.
        client.wait("forever", limit: .seconds(3600)) { _, _, _, _ in }
        client.start()
        client.stop()
        simulation.run(until: simulation.now.advanced(by: .seconds(60)))
        client.checkEnd()
        expectEqual(simulation.violation?.text, #"calls are still waiting: ["forever"]"#)
        let driver = client.driver
        driver.step { _, _, effects in effects.commands.append(.resume(WaiterID(rawValue: 1), .failure(.ended))) }
        simulation.run(until: simulation.now)
        expectEqual(client.pendingWaits, [])
    }
}

/// A client of the line protocol that makes a request every few seconds.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
private final class LineSimulation: @unchecked Sendable {
    private let simulation: Simulation
    private let network: VirtualNetwork
    private let client: SimulatedClient<LineSession>
    private var answers = 0
    private var isEnding = false

    init(_ simulation: Simulation, _ mistake: LineSession.Mistake) {
        self.simulation = simulation
        self.network = VirtualNetwork(simulation, .unreliable)
        self.network.setServer(LineServer(simulation), host: "line", port: 80)
        self.client = SimulatedClient(LineSession(mistake, seed: simulation.seed), on: self.network)
        self.client.waiterCount = { $0.waiters.count }
    }

    func run() -> [String: Int] {
        self.client.start()
        self.client.consume(.standard, .client) {
            $1.append(contentsOf: $0)
        } register: { session, id, effects in
            session.subscribe(id, &effects)
        } body: { (_: String?) in
        }
        self.request(1)
        self.simulation.run(until: Instant(nanoseconds: 0).advanced(by: .seconds(600)))
        self.isEnding = true
        self.client.stop()
        self.simulation.run(until: self.simulation.now.advanced(by: .seconds(120)))
        if self.simulation.violation == nil {
            self.client.checkEnd()
            self.network.checkCounts()
        }
        return ["answers": self.answers, "late events": self.network.totals.lateEvents]
    }

    private func request(_ number: Int) {
        guard !self.isEnding else { return }
        self.simulation.schedule(in: 1_000...20_000) { [self] in self.request(number + 1) }
        let key = "\(number)"
        // With a limit, because the driver asserts that calls without one don't outlive the connection.
        self.client.wait("request \(key)", limit: .seconds(3600)) {
            $0.request(key, $1, &$3)
        } _: { [self] in
            if case .success = $0 { self.answers += 1 }
        }
    }
}

/// The server of the line protocol. It sends an event with each answer, and one to a client that closes.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
private final class LineServer: SimulatedServer, MessageEvents, @unchecked Sendable {
    private let simulation: Simulation
    private var connections: [ConnectionID: any MessageConnection] = [:]

    init(_ simulation: Simulation) {
        self.simulation = simulation
    }

    func accept(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> UpgradeResult {
        self.connections[id] = connection
        return .accept(self)
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.send(["hello"], id)
        self.sendEvents(id)
    }

    private func sendEvents(_ id: ConnectionID) {
        guard self.connections[id] != nil else { return }
        self.send(["event", "event"], id)
        self.simulation.schedule(in: 10...10_000) { [self] in self.sendEvents(id) }
    }

    private func send(_ lines: [String], _ id: ConnectionID) {
        for line in lines { self.connections[id]?.enqueue(.text(line)) }
        self.connections[id]?.flush()
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages {
            let fields = String(decoding: message.bytes, as: UTF8.self).split(separator: " ")
            if fields.first == "?" { self.send(["= \(fields[1])"], id) }
        }
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.connections[id] = nil }
}
