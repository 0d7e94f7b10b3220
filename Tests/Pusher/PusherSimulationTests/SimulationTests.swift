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
        expect(report.average("connects") > 4 && report.average("events") > 20 && report.average("late events") > 1)
        expect(report.average("waits") > 4 && report.average("authorizations") > 4 && report.average("immediate") > 0.25)
        expect(report.average("pauses") > 0.1 && report.average("dropped") > 0.1 && report.average("faults") > 4)
        expect(report.average("gaps") > 2 && report.average("resumes") > 1 && report.average("recoveries") > 0.5)
        expect(report.average("delta failures") > 0.1)
    }
}
