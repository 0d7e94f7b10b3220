import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@Suite struct WaiterTests {
    @Test func `a value that is set already is returned immediately`() async {
        let waiter = Waiter<Int>()
        expectNil(waiter.fulfill(1))
        await expectEqual(waiter.value(), 1)
        await expectEqual(waiter.value(), 1)
    }

    @Test func `a waiting task receives the first value`() async {
        let waiter = Waiter<Int>()
        async let value = waiter.value()
        var wakeUp = waiter.fulfill(1)
        // Whether the task waits already or not, it receives the first value.
        if wakeUp == nil { wakeUp = waiter.fulfill(2) }
        wakeUp?.resume()
        await expectEqual(value, 1)
    }

    @Test func `cancellation calls the closure and the value ends the wait`() async {
        let waiter = Waiter<Bool>()
        let task = Task { await waiter.value { waiter.fulfill(false)?.resume() } }
        task.cancel()
        await expectEqual(task.value, false)
    }

    @Test func `without a closure a cancelled task continues to wait`() async {
        let waiter = Waiter<Bool>()
        let task = Task { await waiter.value() }
        task.cancel()
        await Task.yield()
        waiter.fulfill(true)?.resume()
        await expect(task.value)
    }

    @Test func `concurrent tasks each receive their value`() async {
        let pairs = (0..<200).map { ($0, Waiter<Int>()) }
        await withTaskGroup(of: Bool.self) { group in
            for (number, waiter) in pairs {
                group.addTask { await waiter.value() == number }
                group.addTask {
                    waiter.fulfill(number)?.resume()
                    return true
                }
            }
            for await isEqual in group { expect(isEqual) }
        }
    }
}

@Suite struct WaitingTasksTests {
    /// A counter on which several tasks wait.
    private final class Counter: Sendable {
        private let state = Lock((count: 0, waiting: WaitingTasks()))

        var hasWaiting: Bool { self.state.withLock { !$0.waiting.isEmpty } }

        func increment() {
            let waiting = self.state.withLock { state in
                state.count += 1
                return state.waiting.takeAll()
            }
            for wakeUp in waiting { wakeUp.resume() }
        }

        /// Returns false if the task was cancelled first.
        func wait(for count: Int) async -> Bool {
            let id = WaitingTasks.ID()
            while true {
                if self.state.withLock({ $0.count >= count }) { return true }
                if Task.isCancelled { return false }
                await suspend { wakeUp in
                    self.state.withLock { state in
                        guard state.count < count, !Task.isCancelled else { return false }
                        state.waiting.add(id, wakeUp)
                        return true
                    }
                } onCancel: {
                    self.state.withLock { $0.waiting.take(id) }
                }
            }
        }
    }

    @Test func `each task waits for its own condition`() async {
        let counter = Counter()
        await withTaskGroup(of: Bool.self) { group in
            for count in 1...20 { group.addTask { await counter.wait(for: count) } }
            group.addTask {
                for _ in 1...20 {
                    counter.increment()
                    await Task.yield()
                }
                return true
            }
            for await isReached in group { expect(isReached) }
        }
        expect(!counter.hasWaiting)
    }

    @Test func `cancelling one task leaves the others waiting`() async {
        let counter = Counter()
        let (cancelled, waiting) = (Task { await counter.wait(for: 1) }, Task { await counter.wait(for: 1) })
        cancelled.cancel()
        await expectEqual(cancelled.value, false)
        counter.increment()
        await expect(waiting.value)
        expect(!counter.hasWaiting)
    }
}
