import TestSupport
import Testing

@Suite struct SimulationTests {
    /// A seed that was chosen is run with a trace.
    @Test(arguments: [0, 1] as [UInt64])
    func `client and server come right after every storm`(half: UInt64) async {
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
            // The task pool has as many threads as there are cores, and other tests want them too.
            await Task.yield()
        }
        for failure in failures { Issue.record("\(failure)") }
        // A simulation in which nothing happens proves nothing.
        let enough = Int(seeds / 2)
        #expect(sum.connects > 4 * enough && sum.events > 20 * enough && sum.stale > enough && sum.questions > 4 * enough)
        #expect(sum.authorizations > 4 * enough && sum.immediate > enough / 4)
    }
}

extension PusherSimulation.Totals {
    mutating func add(_ other: Self) {
        self.opens += other.opens
        self.connects += other.connects
        self.events += other.events
        self.stale += other.stale
        self.questions += other.questions
        self.authorizations += other.authorizations
        self.immediate += other.immediate
        self.steps += other.steps
    }
}
