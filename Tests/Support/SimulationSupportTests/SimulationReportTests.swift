import SimulationSupport
import TestSupport
import Testing

@Suite struct SimulationReportTests {
    private func report(_ counts: [Int]) async throws -> SimulationReport {
        // A seed that is a multiple of 100 is run twice more.
        try await simulate(counts.indices.map { UInt64($0 + 1) }) { ["count": counts[Int($0.seed) - 1]] }
    }

    @Test func `runs that never do something don't exercise it`() async throws {
        let report = try await self.report([0, 0, 0, 0])
        expect(!report.exercises("count", moreThan: 0) && !report.exercises("another", moreThan: 0.1))
        expectEqual(report.missing(["count": 0, "another": 0.1]), ["count", "another"])
    }

    @Test func `an average that misses a limit by chance isn't a failure, and one that misses it by more is`() async throws {
        // An average of 0.1, with a standard error of 0.03.
        let report = try await self.report((0..<99).map { $0 % 10 == 0 ? 1 : 0 })
        expect(report.exercises("count", moreThan: 0.09) && report.exercises("count", moreThan: 0.2))
        expect(!report.exercises("count", moreThan: 0.3))
        let constant = try await self.report([2, 2, 2, 2])
        expect(constant.exercises("count", moreThan: 1.9) && !constant.exercises("count", moreThan: 2))
    }
}
