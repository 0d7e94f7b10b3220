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
        expect(report.average("connects") > 2 && report.average("closings") > 1 && report.average("faults") > 2)
        expect(report.average("results") > 2 && report.average("items") > 4 && report.average("uploaded") > 4)
        expect(report.average("notes") > 2 && report.average("client results") > 0.3 && report.average("late events") > 1)
        expect(report.average("resumes") > 0.05)
        expect(report.average("works") > 4 && report.average("pauses") > 1)
    }
}
