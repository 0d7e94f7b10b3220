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
        expect(
            report.exercises("connects", moreThan: 2) && report.exercises("closings", moreThan: 1)
                && report.exercises("faults", moreThan: 2))
        expect(
            report.exercises("results", moreThan: 2) && report.exercises("items", moreThan: 4) && report.exercises("uploaded", moreThan: 4))
        expect(
            report.exercises("notes", moreThan: 2) && report.exercises("client results", moreThan: 0.3)
                && report.exercises("late events", moreThan: 1))
        expect(report.exercises("resumes", moreThan: 0.05))
        expect(report.exercises("works", moreThan: 4) && report.exercises("pauses", moreThan: 1))
    }
}
