import SimulationSupport
import TestSupport
import Testing

@Suite(.computes, .serialized, .requires(.simulations))
struct SignalRSimulationTests {
    /// Runs many seeds, or only the chosen one with a trace.
    @Test func `client and server of hubs recover from random faults`() async throws {
        let report = try await simulate(runs: 100) { HubSimulation($0).run() }
        for failure in report.failures { Issue.record("\(failure)") }
        // The runs must exercise what they check.
        guard report.runs > 40, report.failures.isEmpty else { return }
        expectEqual(
            report.missing([
                "connects": 2, "closings": 1, "faults": 2, "results": 2, "items": 4, "uploaded": 4, "notes": 2,
                "client results": 0.3, "late events": 1, "resumes": 0.05, "works": 4, "pauses": 1,
            ]), [])
    }
}
