import RealtimeCore
import TestSupport
import Testing

@Suite struct PendingWorkTests {
    private enum Purpose: Hashable { case negotiate(Int), ask }

    private var effects = Effects<ToySession>()
    private var work = PendingWork<Purpose>()

    @Test mutating func `each work has a number of its own and returns its purpose once`() {
        let first = self.work.start("a", for: .negotiate(1), &self.effects)
        let second = self.work.start("b", for: .ask, &self.effects)
        expect(first < second && self.work.ids == [first, second])
        expectEqual(self.commands, ["work 1 a", "work 2 b"])
        expect(self.work.take(first) == .negotiate(1) && self.work.take(first) == nil)
        expect(self.work.count == 1 && self.work[second] == .ask)
        // A number isn't used again, so that a late result isn't mistaken for another.
        _ = self.work.take(second)
        expect(self.work.isEmpty && self.work.reserve(for: .ask) > second)
    }

    @Test mutating func `cancelled work has no purpose any more`() {
        let id = self.work.start("a", for: .ask, &self.effects)
        expect(self.work.cancel(id, &self.effects) == .ask && self.work.take(id) == nil)
        expectNil(self.work.cancel(id, &self.effects))
        expectEqual(self.commands, ["work 1 a", "cancel 1"])
    }

    @Test mutating func `work is cancelled by its purpose, oldest first`() {
        for number in 1...3 {
            self.work.start("n", for: .negotiate(number), &self.effects)
            self.work.start("q", for: .ask, &self.effects)
        }
        self.effects.removeAll()
        self.work.cancelAll(where: { $0 == .ask }, &self.effects)
        expectEqual(self.commands, ["cancel 2", "cancel 4", "cancel 6"])
        expect(!self.work.contains { $0 == .ask } && self.work.contains { $0 == .negotiate(3) })
        self.effects.removeAll()
        self.work.cancelAll(&self.effects)
        expect(self.commands == ["cancel 1", "cancel 3", "cancel 5"] && self.work.isEmpty)
    }

    private var commands: [String] {
        self.effects.commands.map { command in
            switch command {
            case .work(let id, let work): "work \(id.rawValue) \(work)"
            case .cancel(let id): "cancel \(id.rawValue)"
            default: "other"
            }
        }
    }
}

@Suite struct WaitingCallsTests {
    @Test func `calls are resumed in the order in which they began to wait`() {
        var calls = WaitingCalls()
        var effects = Effects<ToySession>()
        for number: UInt64 in [5, 9, 7] { calls.insert(WaiterID(rawValue: number)) }
        expect(calls.contains(WaiterID(rawValue: 9)) && calls.count == 3)
        expect(calls.remove(WaiterID(rawValue: 9)) && !calls.remove(WaiterID(rawValue: 9)))
        calls.resumeAll(.success("a"), &effects)
        let resumed = effects.commands.map { command -> UInt64 in
            if case .resume(let waiter, .success("a")) = command { return waiter.rawValue }
            return 0
        }
        expect(resumed == [5, 7] && calls.isEmpty && calls.takeAll().isEmpty)
    }
}
