import RealtimeSystem
import RealtimeCore

/// The usual run of a simulation: an unreliable network first, and then a reliable one, on which everything must recover.
///
/// ```
///  faults ──▶ settling ──▶ recovery ──▶ ending
///          │            │            │        │
///    faultsEnd        settled     recovered   the checks that everything has ended
/// ```
package struct RecoveryRun {
    /// How long the network has faults.
    package var faults: Duration
    /// How long it takes until what the faults have disturbed has ended, such as an attempt to connect or a rejection on its way.
    package var settling: Duration
    /// How long the clients and the server have to recover.
    package var recovery: Duration
    /// How long clients that were stopped have to end.
    package var ending: Duration

    package init(faults: Duration, settling: Duration, recovery: Duration, ending: Duration) {
        self.faults = faults
        self.settling = settling
        self.recovery = recovery
        self.ending = ending
    }

    /// Performs the run.
    ///
    /// - Parameters:
    ///   - network: The network. It is `.reliable` after the faults.
    ///   - clients: The clients. They are stopped and checked at the end.
    ///   - faultsEnd: Called when the network has become reliable. Can change its conditions and end other disturbances.
    ///   - settled: Called when the faults have no more effects. Starts what isn't running.
    ///   - recovered: Checks that everything has recovered. May continue the run. Not called after a violation.
    ///   - stop: Stops the clients. By default, each is stopped with its machine's input.
    package func perform(
        on network: VirtualNetwork, _ clients: [any RecoveringClient], faultsEnd: () -> Void = {}, settled: () -> Void,
        recovered: () -> Void, stop: (() -> Void)? = nil
    ) {
        let simulation = network.simulation
        simulation.run(for: self.faults)
        network.conditions = .reliable
        network.hasFaults = false
        faultsEnd()
        simulation.run(for: self.settling)
        settled()
        simulation.run(for: self.recovery)
        if simulation.violation == nil { recovered() }
        if let stop { stop() } else { for client in clients { client.stop() } }
        for client in clients { simulation.require(client.hasFinished, "stopping did not finish the session immediately") }
        simulation.run(for: self.ending)
        guard simulation.violation == nil else { return }
        for client in clients { client.checkEnd() }
        network.checkCounts()
    }
}

/// A client of any protocol; see ``SimulatedClient``.
package protocol RecoveringClient: AnyObject {
    var hasFinished: Bool { get }
    func stop()
    func checkEnd()
}

extension SimulatedClient: RecoveringClient {}

extension VirtualNetwork {
    /// Lets the process stand still several times, on a reliable network, and checks that no client connects again because of that. Nothing is
    /// checked if a client pauses reading because of its application: it answers no pings then.
    ///
    /// The process stands still for longer than any limit: one that passes in the last second isn't told apart from a timer that is late.
    ///
    /// - Parameter connects: The number of times that the clients have connected.
    package func standStill(_ connects: () -> Int) {
        for _ in 0..<4 {
            let pauses = self.totals.pauses
            self.simulation.run(for: .milliseconds(self.simulation.random(in: 0...40_000)))
            let before = connects()
            self.simulation.standStill(for: .milliseconds(self.simulation.random(in: 100_000...900_000)))
            self.simulation.run(for: .seconds(60))
            let count = connects() - before
            self.simulation.require(
                count == 0 || self.totals.pauses > pauses, "the clients connected \(count) times because the process stood still")
        }
    }
}

extension Simulation {
    /// Runs for a duration, or until the first violation.
    package func run(for duration: Duration) { self.run(until: self.now.advanced(by: duration)) }

    /// Performs an action again and again, at random times.
    ///
    /// - Parameters:
    ///   - interval: The milliseconds between two actions.
    ///   - first: The milliseconds until the first action; `nil` to perform it now.
    ///   - condition: Whether to continue, asked before each action.
    ///   - action: The action.
    package func every(
        _ interval: ClosedRange<Int64>, first: ClosedRange<Int64>? = nil, while condition: @escaping @Sendable () -> Bool = { true },
        _ action: @escaping @Sendable () -> Void
    ) {
        let perform: @Sendable () -> Void = { [self] in
            guard condition() else { return }
            self.every(interval, first: interval, while: condition, action)
            action()
        }
        if let first { self.schedule(in: first, perform) } else { perform() }
    }

    /// Starts work of a machine in a task of the simulation.
    ///
    /// - Returns: A closure that cancels the task.
    package func work(_ body: @escaping @Sendable () async -> Void) -> @Sendable () -> Void {
        let task = self.task(body)
        return { task.cancel() }
    }
}
