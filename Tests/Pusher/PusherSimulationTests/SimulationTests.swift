import SimulationSupport
import TestSupport
import Testing

@Suite(.computes, .serialized, .requires(.simulations))
struct PusherSimulationTests {
    /// Runs many seeds, or only the chosen one with a trace.
    @Test func `client and server recover from random faults`() async throws {
        let report = try await simulate(runs: 100) { PusherSimulation($0).run() }
        for failure in report.failures { Issue.record("\(failure)") }
        // The runs must exercise what they check.
        guard report.runs > 40, report.failures.isEmpty else { return }
        expectEqual(
            report.missing([
                "connects": 4, "events": 20, "late events": 1, "waits": 4, "authorizations": 4, "immediate": 0.25, "pauses": 0.1,
                "dropped": 0.1, "faults": 4, "gaps": 2, "resumes": 1, "recoveries": 0.5, "delta failures": 0.1,
            ]), [])
    }
}
