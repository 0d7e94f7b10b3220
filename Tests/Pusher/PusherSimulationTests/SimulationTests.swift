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
        expect(
            report.exercises("connects", moreThan: 4) && report.exercises("events", moreThan: 20)
                && report.exercises("late events", moreThan: 1))
        expect(
            report.exercises("waits", moreThan: 4) && report.exercises("authorizations", moreThan: 4)
                && report.exercises("immediate", moreThan: 0.25))
        expect(
            report.exercises("pauses", moreThan: 0.1) && report.exercises("dropped", moreThan: 0.1)
                && report.exercises("faults", moreThan: 4))
        expect(
            report.exercises("gaps", moreThan: 2) && report.exercises("resumes", moreThan: 1)
                && report.exercises("recoveries", moreThan: 0.5))
        expect(report.exercises("delta failures", moreThan: 0.1))
    }
}
