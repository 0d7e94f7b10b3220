import RealtimeCore
import SimulationSupport
import TestSupport
import Testing

@Suite(.computes, .serialized, .requires(.simulations))
struct ToySimulationTests {
    @Test func `two clients of the toy protocol recover from random faults`() async throws {
        let report = try await simulate(runs: 100) { ToySimulation($0).run() }
        for failure in report.failures { Issue.record("\(failure)") }
        // The runs must exercise what they check.
        guard report.runs > 40, report.failures.isEmpty else { return }
        expectEqual(
            report.missing([
                "connections": 10, "events": 50, "late events": 1, "answers": 10, "failures": 1, "works": 1, "pauses": 0.1, "dropped": 0.1,
                "faults": 4,
            ]), [])
    }
}

/// Two clients of the toy protocol and a server on one network.
///
/// After 10 minutes of faults, the network is reliable. Both clients must then receive events, and each request must be answered.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
private final class ToySimulation: @unchecked Sendable {
    private static let topics = ["news", "sports"]

    private let simulation: Simulation
    private let network: VirtualNetwork
    private let server: ToyServer
    private let clients: [SimulatedClient<ToySession>]
    /// The topics that each client consumes, with the last event of each.
    private var lastEvents: [[String: Int]] = [[:], [:]]
    private var consumed: [Set<String>] = [[], []]
    private var consumers: [[ConsumerID: String]] = [[:], [:]]
    private var lastKey = 0
    private var answers = 0, failures = 0

    init(_ simulation: Simulation) {
        self.simulation = simulation
        let network = VirtualNetwork(simulation, .unreliable)
        network.conditions.closeCodes = [.goingAway, .policyViolation, .internalError]
        network.conditions.window = 256
        self.network = network
        self.server = ToyServer(network)
        network.setServer(self.server, host: "toy", port: 80)
        self.clients = (0..<2).map { _ in
            SimulatedClient(ToySession(), on: network) { work, id, driver in
                simulation.work {
                    await simulation.sleep(in: 1...5_000)
                    driver.workFinished(id, Task.isCancelled ? "cancelled" : work)
                }
            }
        }
        for (index, client) in self.clients.enumerated() {
            client.waiterCount = { $0.requests.count }
            client.onCommand = { [unowned self] in self.check($0, of: index) }
        }
    }

    func run() -> [String: Int] {
        let hasFaults = { @Sendable [network = self.network] in network.hasFaults }
        for index in self.clients.indices {
            self.simulation.every(0...20_000, while: hasFaults) { [self] in self.callRandomMethod(of: index) }
        }
        self.simulation.every(100...20_000) { [self] in self.publish() }
        // A rejection that was on the way when the faults ended arrives before the clients start.
        RecoveryRun(faults: .seconds(600), settling: .seconds(70), recovery: .seconds(230), ending: .seconds(115)).perform(
            on: self.network, self.clients,
            faultsEnd: {
                self.network.conditions.window = 256
                self.server.publishedBeforeRecovery = self.server.published
                // Otherwise, a slow consumer could pause reading for so long that the server drops the connection.
                self.simulation.endSleeps()
            },
            settled: {
                for index in self.clients.indices {
                    self.clients[index].start()
                    self.consume("news", index)
                }
            },
            recovered: { self.checkRecovery() })
        let totals = self.clients.map(\.totals).reduce(ClientTotals(), +)
        return self.network.counts.merging(totals.counts) { $1 }
            .merging(["answers": self.answers, "failures": self.failures]) { $1 }
    }

    private func checkRecovery() {
        let answersBefore = self.answers
        for index in self.clients.indices { self.request(index) }
        self.simulation.run(for: .seconds(5))
        self.simulation.require(self.answers == answersBefore + 2, "a request of a connected client was not answered")
        for (index, client) in self.clients.enumerated() {
            self.simulation.require(client.read { $0.isConnected }, "client \(index) is not connected after the recovery")
            self.simulation.require(
                self.lastEvents[index]["news", default: 0] > self.server.publishedBeforeRecovery, "client \(index) receives no events")
        }
    }

    private func check(_ command: Effects<ToySession>.Command, of index: Int) {
        switch command {
        case .endConsumers(let ids, _):
            for id in ids { self.consumers[index][id].map { _ = self.consumed[index].remove($0) } }
        case .finish(let reason):
            self.consumed[index] = []
            guard reason != .requested else { return }
            self.simulation.schedule(in: 0...30_000) { [self] in self.clients[index].start() }
        default: break
        }
    }

    private func publish() {
        self.simulation.step(.arrival, "server: publish") { self.server.publish(to: self.simulation.choose(Self.topics)) }
    }

    private func callRandomMethod(of index: Int) {
        let client = self.clients[index]
        switch self.simulation.random(in: 0...9) {
        case 0: client.stop()
        case 1, 2, 3: client.start()
        case 4, 5, 6: self.request(index)
        case 7: if let wait = client.pendingWaits.first { client.cancelWait(wait) }
        default: self.consume(self.simulation.choose(Self.topics), index)
        }
    }

    private func request(_ index: Int) {
        self.lastKey += 1
        let key = "\(self.lastKey)"
        let isLimited = self.network.hasFaults && self.simulation.chance(50)
        let limit: Duration? = isLimited ? .milliseconds(self.simulation.random(in: 0...5_000)) : nil
        self.clients[index].wait("request \(key)", limit: limit) {
            $0.request(key, $1, &$3)
        } _: { [self] result in
            switch result {
            case .success(let answer):
                self.answers += 1
                self.simulation.require(answer == "answer to \(key)", "the request \(key) received '\(answer)'")
            case .failure: self.failures += 1
            }
        }
    }

    private func consume(_ topic: String, _ index: Int) {
        guard self.consumed[index].insert(topic).inserted else { return }
        let policy: BufferPolicy = self.simulation.choose([.standard, .dropOldest(2), .dropNewest(1), .pauseReading(2)])
        let last = self.lastEvents[index][topic, default: 0]
        self.clients[index].consume(policy, pause: self.simulation.chance(30) ? 0...20_000 : nil) { events, output in
            output.append(contentsOf: events)
        } register: { session, id, effects in
            self.consumers[index][id] = topic
            session.subscribe(id, to: topic, &effects)
        } body: { [self, tracker = Tracker(last)] event in
            guard let event, let number = Int(event) else { return }
            self.simulation.require(number > tracker.last, "a consumer of \(topic) received \(number) after \(tracker.last)")
            tracker.last = number
            self.lastEvents[index][topic] = max(number, self.lastEvents[index][topic, default: 0])
        }
    }

    /// `@unchecked Sendable`: used only on the thread of the simulation.
    private final class Tracker: @unchecked Sendable {
        var last: Int

        init(_ last: Int) {
            self.last = last
        }
    }
}

/// The server of the toy protocol.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
private final class ToyServer: SimulatedServer, MessageEvents, @unchecked Sendable {
    private let network: VirtualNetwork
    private var simulation: Simulation { self.network.simulation }
    private var connections: [ConnectionID: any MessageConnection] = [:]
    private(set) var published = 0
    var publishedBeforeRecovery = 0
    /// Whether the server answers every request, and only then.
    private var isReliable: Bool { !self.network.hasFaults }

    init(_ network: VirtualNetwork) {
        self.network = network
    }

    func accept(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> UpgradeResult {
        if !self.isReliable, self.simulation.chance(5) { return .reject(HTTPResponse(status: 503)) }
        self.connections[id] = connection
        return .accept(self)
    }

    func publish(to topic: String) {
        for id in self.connections.keys.sorted() {
            self.published += 1
            self.send("@ \(topic) \(self.published)", to: id)
            if self.simulation.chance(50) { self.send("@ \(topic) \(self.published + 1)", to: id) }
            self.published += 1
        }
    }

    private func send(_ line: String, to id: ConnectionID) {
        self.connections[id]?.enqueue(.text(line))
        self.connections[id]?.flush()
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.send("hello", to: id) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages {
            let fields = String(decoding: message.bytes, as: UTF8.self).split(separator: " ")
            switch fields.first {
            case "?":
                let answer = "= \(fields[1]) answer to \(fields[1])"
                guard !self.isReliable else { return self.send(answer, to: id) }
                if self.simulation.chance(10) { continue }
                self.simulation.schedule(in: 0...10_000) { [self] in self.send(answer, to: id) }
                if self.simulation.chance(20) { self.send("do \(fields[1])", to: id) }
                if self.simulation.chance(10) { self.send("undo", to: id) }
                if self.simulation.chance(2) { self.send("end sports", to: id) }
            case ".": self.send("alive", to: id)
            default: break
            }
        }
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.connections[id] = nil }

    /// Drops a client that doesn't read, or whose connection is half-open.
    func writing(_ id: ConnectionID, paused: Bool) {
        if paused { self.connections.removeValue(forKey: id)?.abandon() }
    }
}
