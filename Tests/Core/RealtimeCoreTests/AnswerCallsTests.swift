import RealtimeCore
import TestSupport
import Testing

@Suite struct AnswerCallsTests {
    private enum Failure: Error, Equatable { case first, second, none }

    private func waiter(_ number: UInt64) -> WaiterID { WaiterID(rawValue: number) }
    private func connection(_ number: UInt64) -> ConnectionID { ConnectionID(rawValue: number) }

    @Test func `a call fails with the end of the session that has used its connection`() {
        var calls = AnswerCalls<Failure>()
        calls.insert(self.waiter(1), on: self.connection(1))
        calls.sessionEnded(.first)
        // The connection still closes while the next one is open, and fails as well.
        calls.insert(self.waiter(2), on: self.connection(2))
        calls.sessionEnded(.second)
        calls.insert(self.waiter(3), on: self.connection(3))
        expectEqual(calls.takeFailure(self.waiter(1), else: .none), .first)
        expectEqual(calls.takeFailure(self.waiter(2), else: .none), .second)
        expectEqual(calls.takeFailure(self.waiter(3), else: .none), Failure.none)
        expectNil(calls.takeFailure(self.waiter(3), else: .none))
        expectEqual(calls.count, 0)
    }

    @Test func `the calls of one connection are taken in their order, and the others stay`() {
        var calls = AnswerCalls<Failure>()
        for number in [3, 1, 2] as [UInt64] { calls.insert(self.waiter(number), on: self.connection(1)) }
        calls.insert(self.waiter(4), on: self.connection(2))
        expect(calls.remove(self.waiter(2)) && !calls.remove(self.waiter(2)))
        expectEqual(calls.takeAll(on: self.connection(1)), [self.waiter(1), self.waiter(3)])
        expect(calls.takeAll(on: self.connection(1)).isEmpty && calls.count == 1)
    }
}
