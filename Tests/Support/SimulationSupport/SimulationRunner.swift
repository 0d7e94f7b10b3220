import TestSupport

/// The results of many runs.
package struct SimulationReport: Sendable {
    package var runs = 0
    package var steps = 0
    /// The violations, each with its seed and the end of its trace.
    package var failures: [String] = []
    /// What happened in all runs, so that a test can check that the runs exercise what they check.
    package var counts: [String: Int] = [:]

    /// What happened in an average run.
    package func average(_ name: String) -> Double { Double(self.counts[name] ?? 0) / Double(max(1, self.runs)) }
}

/// Runs a simulation once for each seed, and stops after five failures.
///
/// ```swift
/// let report = try await simulate(seeds(400)) { simulation in
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
/// A failing seed is run again with a trace. Some seeds are run twice with a trace, and both traces must be the same. If
/// `REALTIME_TEST_SEED` is set, only that seed is run, and its trace is printed.
///
/// - Parameters:
///   - seeds: The seeds to run.
///   - body: Performs one run, and returns counts of what happened. It creates the network and the clients, and runs the simulation. It
///     must not depend on anything outside the run.
/// - Returns: The violations and the sums of the counts.
package func simulate(
    _ seeds: some Sequence<UInt64> & Sendable, _ body: @escaping @Sendable (Simulation) -> [String: Int]
) async throws -> SimulationReport {
    // A run does not suspend, and other tests share the few threads of the task pool.
    try await onOwnThread(isBackground: true) {
        var report = SimulationReport()
        for seed in seeds where report.failures.count < 5 {
            let simulation = Simulation(seed: seed, isTracing: chosenSeed != nil)
            let counts = run(simulation, body)
            report.runs += 1
            report.steps += simulation.steps
            report.counts.merge(counts) { $0 + $1 }
            for line in simulation.trace { print(line) }
            if let violation = simulation.violation {
                report.failures.append(explain(violation, seed, body))
            } else if seed % 100 == 0, let difference = difference(seed, body) {
                report.failures.append(difference)
            }
        }
        return report
    }
}

/// The seeds of one part of several that run at the same time.
package func seeds(_ count: Int, part: Int, of parts: Int) -> [UInt64] { seeds(count).filter { $0 % UInt64(parts) == UInt64(part) } }

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
