import RealtimeCore
import TestSupport
import Testing

@Suite struct RetrySeriesTests {
    private static let first = ConnectionID(rawValue: 1)
    private static let work = WorkID(rawValue: 7)

    private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0).advanced(by: .seconds(seconds)) }

    @Test func `a rule without attempts ends them and the protocol's rule follows the protocol`() {
        var series = RetrySeries()
        expectEqual(series.decide(.never, now: self.at(0)), .never)
        expectEqual(series.decide(.protocolDecision, instead: .immediately, now: self.at(0)), .immediately)
        expectEqual(series.decide(.protocolDecision, now: self.at(0)), .afterBackoff())
    }

    @Test func `the delays of a list are used in order, and end the attempts`() {
        var series = RetrySeries()
        let rule = RetryRule.delays([.zero, .seconds(2)])
        expectEqual(series.decide(rule, now: self.at(0)), .after(.zero))
        expectEqual(series.decide(rule, now: self.at(1)), .after(.seconds(2)))
        expectEqual(series.decide(rule, now: self.at(4)), .never)
    }

    @Test func `attempts under another rule use no delays of a list that is set later`() {
        var series = RetrySeries()
        for second in 0..<5 { _ = series.decide(.protocolDecision, now: self.at(second)) }
        let rule = RetryRule.delays([.seconds(2)])
        expectEqual(series.decide(rule, now: self.at(5)), .after(.seconds(2)))
        expectEqual(series.decide(rule, now: self.at(7)), .never)
        expectEqual(series.retryCount, 6)
    }

    @Test func `the time after a loss doesn't make a short connection stable`() {
        var series = RetrySeries(stableAfter: .seconds(30))
        for second in 0..<3 { _ = series.decide(.ask, now: self.at(second)) }
        series.connected(now: self.at(10))
        // The protocol reconnects without asking for a decision.
        series.lost(now: self.at(30))
        _ = series.decide(.ask, now: self.at(45))
        expectEqual(series.retryCount, 3)
        series.connected(now: self.at(50))
        series.lost(now: self.at(80))
        _ = series.decide(.ask, now: self.at(81))
        expectEqual(series.retryCount, 0)
    }

    @Test func `the protocol's minimum is the shortest delay of a list and of an answer`() throws {
        var series = RetrySeries()
        let decision = ReconnectDecision.afterBackoff(atLeast: .seconds(1))
        expectEqual(series.decide(.delays([.zero, .seconds(2)]), instead: decision, now: self.at(0)), .after(.seconds(1)))
        expectEqual(series.decide(.delays([.zero, .seconds(2)]), instead: decision, now: self.at(0)), .after(.seconds(2)))
        expectEqual(series.decide(.ask, instead: decision, now: self.at(0)), .ask)
        series.asked(Self.work, about: Self.first)
        let answer = series.answered(Self.work, .milliseconds(1))
        #expect(try #require(answer) == (Self.first, .after(.seconds(1))))
    }

    @Test func `a question has the number of attempts and the time since the loss`() {
        var series = RetrySeries()
        for count in 0..<3 {
            expectEqual(series.decide(.ask, now: self.at(10 + 5 * count)), .ask)
            expect(series.retryCount == count && series.elapsed(now: self.at(10 + 5 * count)) == .seconds(5 * count))
        }
    }

    @Test func `an answer counts once, and not after the question was withdrawn`() throws {
        var series = RetrySeries()
        _ = series.decide(.ask, now: self.at(0))
        series.asked(Self.work, about: Self.first)
        expectNil(series.answered(WorkID(rawValue: 8), .zero))
        let answer = series.answered(Self.work, nil)
        #expect(try #require(answer) == (Self.first, .never))
        expectNil(series.answered(Self.work, .zero))
        series.asked(Self.work, about: Self.first)
        expect(series.withdrawQuestion() == Self.work && series.withdrawQuestion() == nil)
        expectNil(series.answered(Self.work, .zero))
    }

    @Test(arguments: [(29, 1), (30, 0)])
    func `the loss of a stable connection begins a new series`(lasted: Int, count: Int) {
        var series = RetrySeries()
        _ = series.decide(.ask, now: self.at(0))
        series.connected(now: self.at(1))
        _ = series.decide(.ask, now: self.at(1 + lasted))
        expectEqual(series.retryCount, count)
        // A failed attempt in between doesn't end the series.
        _ = series.decide(.ask, now: self.at(1000))
        expectEqual(series.retryCount, count + 1)
    }

    @Test func `each connection ends a series for which any connection counts`() {
        var series = RetrySeries(endsWith: .anyConnection)
        expectEqual(series.decide(.delays([.zero]), now: self.at(0)), .after(.zero))
        series.connected(now: self.at(0))
        expectEqual(series.decide(.delays([.zero]), now: self.at(0)), .after(.zero))
        expectEqual(series.decide(.delays([.zero]), now: self.at(0)), .never)
    }

    @Test func `short connections in a row delay the attempts after the fourth one, under any rule`() throws {
        var series = RetrySeries(endsWith: .anyConnection)
        func lose(after seconds: Int = 0, _ rule: RetryRule) -> ReconnectDecision {
            series.connected(now: self.at(0))
            return series.decide(rule, now: self.at(seconds))
        }
        for _ in 1...3 { expectEqual(lose(.delays([.zero])), .after(.zero)) }
        expectEqual(lose(.delays([.zero])), .after(.seconds(1)))
        // The attempt fails.
        expectEqual(series.decide(.delays([.zero, .milliseconds(1)]), now: self.at(0)), .after(.seconds(1)))
        expectEqual(lose(.protocolDecision), .afterBackoff(atLeast: .seconds(2)))
        expectEqual(lose(.ask), .ask)
        series.asked(Self.work, about: Self.first)
        let answer = series.answered(Self.work, .zero)
        #expect(try #require(answer) == (Self.first, .after(.seconds(4))))
        series.forgetAttempts()
        for pause in [8, 16, 32, 32] { expectEqual(lose(.delays([.zero])), .after(.seconds(pause))) }
        expectEqual(lose(.delays([.seconds(40)])), .after(.seconds(40)))
        expectEqual(lose(after: 30, .delays([.zero])), .after(.zero))
        expectEqual(lose(.delays([.zero])), .after(.zero))
    }
}
