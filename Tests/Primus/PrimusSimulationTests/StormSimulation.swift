import PrimusClient
import PrimusServer
import RealtimeCore
import SimulationSupport

/// Many clients of a server that goes away and comes back, in virtual time.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class StormSimulation: @unchecked Sendable {
    static let backoff = PrimusBackoff(minimum: .seconds(1), maximum: .seconds(30))
    /// The number of parts into which the range of a delay is divided.
    static let parts = 10

    private let simulation: Simulation
    private let network: VirtualNetwork
    private let server: PrimusServer
    private var clients: [SimulatedClient<PrimusSession>] = []
    private var counts: [String: Int] = [:]
    /// The times of all attempts, in milliseconds since the server went away.
    private var attempts: [Int64] = []
    private var cutAt = Instant(nanoseconds: 0)

    init(_ simulation: Simulation, clients count: Int) {
        self.simulation = simulation
        self.network = VirtualNetwork(simulation)
        self.server = PrimusServer(PrimusServerConfiguration(), time: simulation, epoch: 0, log: .none, seed: 1)
        self.setReachable(true)
        var options = PrimusConfiguration(
            Endpoint(scheme: "http", host: "simulated", port: 80),
            transports: Transports(webSocket: self.network.webSocket, http: self.network.http, time: simulation, seed: { 1 }))
        (options.detection, options.transformer, options.parser) = (.off, .websockets, .json)
        options.retry = .backoff(Self.backoff)
        for _ in 0..<count { self.clients.append(self.makeClient(options)) }
        // Those of each client, after each step of any, would take most of the time.
        simulation.invariants = []
    }

    private func setReachable(_ isReachable: Bool) {
        let listener = isReachable ? SimulatedListener(self.simulation, self.server.listenerHandler) : nil
        self.network.setServer(listener, host: "simulated", port: 80)
    }

    private func makeClient(_ options: PrimusConfiguration) -> SimulatedClient<PrimusSession> {
        var rules = ClientRules()
        rules.closesOnlyForCaller = false
        let client = SimulatedClient(
            PrimusSession(options, epoch: InMemoryNetwork.epoch, seed: self.simulation.random.next()), on: self.network, rules: rules,
            webSocket: { $0.webSocket! })
        let waiting = Waiting()
        client.onDelivery = { [unowned self] event, _ in
            if case .update(.reconnectScheduled(let retry)) = event { waiting.retry = (retry.attempt, self.simulation.now) }
        }
        client.onCommand = { [unowned self] command in
            if case .open = command, let (attempt, since) = waiting.retry { self.count(attempt, since.duration(to: self.simulation.now)) }
        }
        client.consume(.dropOldest(1), .client) { (_: ArraySlice<PrimusEvent>, _: inout [PrimusEvent]) in
        } register: { session, consumer, effects in
            session.observeUpdates(consumer, &effects)
        } body: { _ in
        }
        return client
    }

    /// `@unchecked Sendable`: used only on the thread of the simulation.
    private final class Waiting: @unchecked Sendable {
        /// The attempt for which a client waits, and since when.
        var retry: (attempt: Int, since: Instant)?
    }

    /// Counts an attempt by the part of its range in which its delay is.
    private func count(_ attempt: Int, _ delay: Duration) {
        self.attempts.append(self.cutAt.duration(to: self.simulation.now).nanoseconds / 1_000_000)
        let (floor, ceiling) = (Self.backoff.minimum.nanoseconds, Self.maximum(attempt).nanoseconds)
        let isWithin = (floor...ceiling).contains(delay.nanoseconds)
        self.simulation.require(isWithin, "the delay before the attempt \(attempt) is \(delay)")
        let part = min(Self.parts - 1, Int((delay.nanoseconds - floor) * Int64(Self.parts) / (ceiling - floor)))
        self.counts[Self.name(attempt, part), default: 0] += 1
    }

    /// The upper bound of the delay before an attempt.
    private static func maximum(_ attempt: Int) -> Duration { min(.seconds(1 << attempt), Self.backoff.maximum) }

    static func name(_ attempt: Int, _ part: Int) -> String { "attempt \(attempt), part \(part)" }

    /// Performs the run.
    ///
    /// - Returns: The numbers of attempts in each part of their range, the largest number in any tenth of a second, and the number of clients
    ///   that are connected at the end.
    func run() -> [String: Int] {
        for client in self.clients { client.step("open") { $0.open(now: $1, &$2) } }
        self.simulation.run(for: .seconds(30))
        self.simulation.require(self.server.sparks.count == self.clients.count, "only \(self.server.sparks.count) clients are connected")
        self.cutAt = self.simulation.now
        self.setReachable(false)
        self.network.cut()
        self.simulation.run(for: .seconds(120))
        self.setReachable(true)
        self.simulation.run(for: .seconds(60))
        var windows: [Int64: Int] = [:]
        for time in self.attempts { windows[time / 100, default: 0] += 1 }
        self.counts["most in a tenth of a second"] = windows.values.max() ?? 0
        self.counts["connected"] = self.server.sparks.count
        for client in self.clients { client.stop() }
        self.simulation.run(for: .seconds(60))
        self.simulation.require(self.server.sparks.isEmpty, "\(self.server.sparks.count) clients remain")
        return self.counts
    }
}
