import SimulationSupport
import TestSupport
import Testing

@Suite(.computes, .serialized, .requires(.simulations))
struct PrimusSimulationTests {
    /// Runs many seeds, or only the chosen one with a trace.
    @Test func `client and server of Primus recover from random faults`() async throws {
        let report = try await simulate(runs: 100) { PrimusSimulation($0).run() }
        for failure in report.failures { Issue.record("\(failure)") }
        // The runs must exercise what they check.
        guard report.runs > 40, report.failures.isEmpty else { return }
        expectEqual(
            report.missing([
                "connects": 2, "closings": 1, "written": 3, "received": 5, "arrivals": 5, "server ends": 0.1, "answers": 1,
                "faults": 2, "late events": 1, "pauses": 0.02, "polling": 0.3, "streams": 0.05, "moves": 0.1,
            ]), [])
    }

    /// The number of clients whose delay is in one of ten equal parts is binomial, with the mean 100 and the standard deviation 9.5. A distance of
    /// four and a half of these has a probability below 1 in 100,000, and this test has 60 such numbers.
    @Test(.requires(.manySeeds))
    func `a thousand clients whose server goes away come back as the delays say`() async throws {
        let report = try await simulate([1]) { StormSimulation($0, clients: 1_000).run() }
        for failure in report.failures { Issue.record("\(failure)") }
        guard report.failures.isEmpty else { return }
        for attempt in 1...6 {
            let parts = (0..<StormSimulation.parts).map { report.counts[StormSimulation.name(attempt, $0)] ?? 0 }
            expect(parts.reduce(0, +) == 1_000 && parts.allSatisfy { (57...143).contains($0) }, "attempt \(attempt): \(parts)")
        }
        // A tenth of a second is one part of the range of the first attempts, which are the densest.
        expect((report.counts["most in a tenth of a second"] ?? 0) <= 143, "\(report.counts)")
        expectEqual(report.counts["connected"], 1_000)
    }
}
