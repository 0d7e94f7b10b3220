import TestSupport
import Testing

@Suite struct SimulationTests {
    /// Runs many seeds, or only the chosen one with a trace.
    @Test(arguments: [0, 1] as [UInt64])
    func `client and server recover from random faults`(half: UInt64) async {
        if let seed = chosenSeed {
            guard seed % 2 == half else { return }
            var simulation = PusherSimulation(seed: seed, isTracing: true)
            do throws(Violation) { try simulation.run() } catch { Issue.record("seed \(seed): \(error)") }
            return
        }
        let seeds = UInt64(scaled(10_000))
        var sum = PusherSimulation.Totals()
        var failures: [String] = []
        for seed in stride(from: half, to: seeds, by: 2) where failures.count < 5 {
            var simulation = PusherSimulation(seed: seed)
            do throws(Violation) { try simulation.run() } catch {
                failures.append("\(error), \(replay(seed))")
            }
            sum.add(simulation.totals)
            // A run does not suspend. Other tests share the few threads of the task pool.
            await Task.yield()
        }
        for failure in failures { Issue.record("\(failure)") }
        // The runs must exercise what they check.
        let enough = Int(seeds / 2)
        #expect(sum.connects > 4 * enough && sum.events > 20 * enough && sum.late > enough && sum.waits > 4 * enough)
        #expect(sum.authorizations > 4 * enough && sum.immediate > enough / 4)
    }
}

extension PusherSimulation.Totals {
    mutating func add(_ other: Self) {
        self.attempts += other.attempts
        self.connects += other.connects
        self.events += other.events
        self.late += other.late
        self.waits += other.waits
        self.authorizations += other.authorizations
        self.immediate += other.immediate
        self.steps += other.steps
    }
}
