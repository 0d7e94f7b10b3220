import PrimusClient
import RealtimeCore
import RealtimeSystem
import SimulationSupport
import TestSupport
import Testing

@Suite(.computes, .serialized, .enabled(if: areSimulationsSupported, "simulations need a newer version of macOS"))
struct PrimusSimulationTests {
    /// Runs many seeds, or only the chosen one with a trace.
    @Test func `client and server of Primus recover from random faults`() async throws {
        let report = try await simulate(runs: 100) { PrimusSimulation($0).run() }
        for failure in report.failures { Issue.record("\(failure)") }
        // The runs must exercise what they check.
        guard report.runs > 40, report.failures.isEmpty else { return }
        #expect(report.average("connects") > 2 && report.average("closings") > 1 && report.average("written") > 3)
        #expect(report.average("received") > 5 && report.average("arrivals") > 5 && report.average("server ends") > 0.1)
        #expect(report.average("answers") > 1 && report.average("faults") > 2 && report.average("late events") > 1)
    }

    @Test func `the clients of a restarted server spread as the delays say`() {
        var generator = SplitMix64(seed: 1)
        let backoff = PrimusBackoff(minimum: .seconds(1), maximum: .seconds(30))
        var buckets = [Int](repeating: 0, count: 10)
        for _ in 0..<1_000 {
            let delay = backoff.delay(attempt: 1, using: &generator)
            buckets[min(9, Int((delay.nanoseconds - 1_000_000_000) / 100_000_000))] += 1
        }
        // The expected number is 100 in each tenth of a second.
        #expect(buckets.allSatisfy { (60...140).contains($0) }, "\(buckets)")
    }
}
