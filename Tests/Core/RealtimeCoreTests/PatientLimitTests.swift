import RealtimeCore
import TestSupport
import Testing

@Suite struct PatientLimitTests {
    private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    @Test func `a limit that passes while the process runs is final`() {
        for milliseconds in [10_000, 10_999] as [Int64] {
            var limit = PatientLimit(.seconds(10), now: self.at(0))
            expect(!limit.hasPassed(now: self.at(9_999)))
            expect(limit.hasPassed(now: self.at(milliseconds)))
        }
    }

    @Test func `a limit that passed during a standstill begins anew once`() {
        var limit = PatientLimit(.seconds(10), now: self.at(0))
        expect(!limit.hasPassed(now: self.at(11_000)))
        expectEqual(limit.deadline, self.at(21_000))
        expect(!limit.hasPassed(now: self.at(20_999)))
        expect(limit.hasPassed(now: self.at(60_000)))
    }
}
