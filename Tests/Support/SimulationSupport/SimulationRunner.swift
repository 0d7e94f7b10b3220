import TestSupport

/// The results of many runs.
package struct SimulationReport: Sendable {
    package var runs = 0
    package var steps = 0
    /// The violations, each with its seed and the end of its trace.
    package var failures: [String] = []
    /// The seeds of the violations.
    package var failedSeeds: [UInt64] = []
    /// The sums of the counts of all runs, and of their squares.
    package private(set) var counts: [String: Int] = [:]
    private var squares: [String: Double] = [:]

    fileprivate mutating func add(_ counts: [String: Int]) {
        self.runs += 1
        for (name, count) in counts {
            self.counts[name, default: 0] += count
            self.squares[name, default: 0] += Double(count) * Double(count)
        }
    }

    /// Returns the counts that aren't above their limits in an average run; see ``exercises(_:moreThan:)``.
    package func missing(_ limits: KeyValuePairs<String, Double>) -> [String] {
        limits.filter { !self.exercises($0.key, moreThan: $0.value) }.map(\.key)
    }

    /// Returns whether the runs exercise what they check: whether a count is above a limit in an average run.
    ///
    /// The seeds differ each time. An average that misses the limit by less than five standard errors may do so by chance.
    package func exercises(_ name: String, moreThan limit: Double) -> Bool {
        let runs = Double(max(1, self.runs))
        let average = Double(self.counts[name] ?? 0) / runs
        let variance = max(0, (self.squares[name] ?? 0) / runs - average * average)
        return average + 5 * (variance / runs).squareRoot() > limit
    }
}

/// Runs a simulation with consecutive seeds, and stops after five failures.
///
/// ```swift
/// let report = try await simulate(runs: 100) { simulation in
///     let network = VirtualNetwork(simulation, .unreliable)
///     network.setServer(server, host: "example", port: 80)
///     let client = SimulatedClient(session, on: network)
///     client.start()
///     client.wait("request") { session, waiter, now, effects in session.request("a", waiter, &effects) }
///     simulation.schedule(in: 0...60_000) { network.cut() }
///     simulation.run(until: Instant(nanoseconds: 0).advanced(by: .seconds(600)))
///     client.stop()
///     simulation.run(until: simulation.now.advanced(by: .seconds(60)))
///     client.checkEnd()
///     return ["connections": network.totals.opened]
/// }
/// ```
/// A failing seed is run again with a trace. Some seeds are run twice with a trace, and both traces must be the same.
///
/// These environment variables change which seeds are run:
///
/// - `REALTIME_TEST_SEED`: Only this seed is run, and its trace is printed.
/// - `REALTIME_SIMULATION_BASE`: The first seed, instead of 0.
/// - `REALTIME_SIMULATION_SECONDS`: Further seeds are run until this time has passed.
/// - `REALTIME_SIMULATION_KEPT`: A file with a seed on each line, which are run first. Seeds that fail are added.
///
/// - Parameters:
///   - runs: The number of seeds to run, which `REALTIME_TEST_SCALE` changes.
///   - body: Performs one run, and returns counts of what happened. It creates the network and the clients, and runs the simulation. It
///     must not depend on anything outside the run.
/// - Returns: The violations and the sums of the counts.
package func simulate(runs: Int, _ body: @escaping @Sendable (Simulation) -> [String: Int]) async throws -> SimulationReport {
    let seeds = SimulationSeeds(runs: runs)
    let report = try await simulate(seeds, body)
    try SimulationSeeds.keep(report.failedSeeds)
    // `dev/check simulation` adds the numbers up.
    if seeds.end != nil { print("Simulation: \(report.runs) runs from seed \(seeds.following)") }
    return report
}

/// Runs a simulation once for each of some seeds, and stops after five failures. Simulations of protocols use ``simulate(runs:_:)`` instead.
package func simulate(
    _ seeds: some Sequence<UInt64> & Sendable, _ body: @escaping @Sendable (Simulation) -> [String: Int]
) async throws -> SimulationReport {
    // A run does not suspend, and other tests share the few threads of the task pool.
    try await onOwnThread {
        var report = SimulationReport()
        for seed in seeds {
            if report.failures.count == 5 { break }
            let simulation = Simulation(seed: seed, isTracing: chosenSeed != nil)
            let counts = run(simulation, body)
            report.add(counts)
            report.steps += simulation.steps
            for line in simulation.trace { print(line) }
            var failure: String?
            if let violation = simulation.violation {
                failure = explain(violation, seed, body)
            } else if seed % 100 == 0 {
                failure = difference(seed, body)
            }
            if let failure {
                report.failures.append(failure)
                report.failedSeeds.append(seed)
            }
        }
        return report
    }
}

private func run(_ simulation: Simulation, _ body: (Simulation) -> [String: Int]) -> [String: Int] {
    // Also after a violation.
    defer { simulation.release() }
    return body(simulation)
}

private func explain(_ violation: Violation, _ seed: UInt64, _ body: (Simulation) -> [String: Int]) -> String {
    let replayed = Simulation(seed: seed, isTracing: true)
    _ = run(replayed, body)
    var text = "\(violation); \(replay(seed))"
    if replayed.violation?.description != violation.description { text += "\nThe second run of this seed differs from the first." }
    return "\(text)\n\(replayed.trace.suffix(60).joined(separator: "\n"))"
}

/// Runs a seed twice, and returns where the traces differ.
private func difference(_ seed: UInt64, _ body: (Simulation) -> [String: Int]) -> String? {
    let traces = (0..<2).map { _ in
        let simulation = Simulation(seed: seed, isTracing: true)
        _ = run(simulation, body)
        return simulation.trace
    }
    guard traces[0] != traces[1] else { return nil }
    let index = zip(traces[0], traces[1]).prefix { $0 == $1 }.count
    let lines = traces.map { $0.dropFirst(index).first ?? "the end" }
    return "seed \(seed) yields different traces from line \(index + 1) on:\n\(lines.joined(separator: "\n"))"
}
