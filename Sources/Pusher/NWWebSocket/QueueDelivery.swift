package import Dispatch
import RealtimeSystem

/// The numbers of the queues on which items are handled. Objects can't stand for them: on Linux, the main queue has many.
private let queueKey = DispatchSpecificKey<UInt64>()
/// The number of the queue that was numbered last.
private let lastQueueNumber = Lock(UInt64(0))

/// Returns the number of a queue, which is assigned once.
private func number(of queue: DispatchQueue) -> UInt64 {
    lastQueueNumber.withLock { last in
        if let number = queue.getSpecific(key: queueKey) { return number }
        last += 1
        queue.setSpecific(key: queueKey, value: last)
        return last
    }
}

/// Items that wait. One that is taken out isn't retained any longer, also while others wait.
package struct ItemQueue<Item: Sendable>: Sendable {
    /// Those before `head` have been taken out.
    private var items: [Item?] = []
    private var head = 0

    package init() {}

    package var isEmpty: Bool { self.head == self.items.count }

    /// The number of items for which there is memory in use.
    package var storedCount: Int { self.items.count }

    package mutating func append(_ item: Item) { self.items.append(item) }

    package mutating func popFirst() -> Item? {
        guard self.head < self.items.count else { return nil }
        let item = self.items[self.head].take()
        self.head += 1
        if self.head == self.items.count {
            (self.items, self.head) = ([], 0)
        } else if self.head > 64, 2 * self.head > self.items.count {
            self.items.removeFirst(self.head)
            self.head = 0
        }
        return item
    }
}

/// Handles items on a serial queue, in order and one at a time, without a task.
///
/// Items are either enqueued or collected from another source, such as the core's delivery of updates, right before the next item is handled.
/// A call that is made on the queue can handle all waiting items before it returns. No lock is held while an item is handled.
package final class QueueDelivery<Item: Sendable>: Sendable {
    private enum Phase: Sendable { case idle, scheduled, draining }

    private struct State: Sendable {
        var items = ItemQueue<Item>()
        var phase = Phase.idle
        /// Whether something was enqueued or became collectable since the last collection.
        var mayHaveMore = false
    }

    /// The maximum number of items that are handled in a row, so that other work of the queue gets its turn.
    private static var batchSize: Int { 256 }

    private let queue: DispatchQueue
    private let queueNumber: UInt64
    private let collect: @Sendable () -> Void
    private let handle: @Sendable (Item) -> Void
    private let state = Lock(State())
    /// Held while items move from their source, so that those that are enqueued later follow them.
    private let order = Lock(())

    /// - Parameters:
    ///   - queue: A serial queue.
    ///   - collect: Calls ``append(_:)`` with the items of another source. Called under a lock, so it must not call anything else.
    ///   - handle: Handles an item. Called on the queue, without a lock.
    package init(
        _ queue: DispatchQueue, collect: @escaping @Sendable () -> Void = {}, handle: @escaping @Sendable (Item) -> Void
    ) {
        self.queue = queue
        self.collect = collect
        self.handle = handle
        self.queueNumber = number(of: queue)
    }

    /// Whether the calling code runs on the queue.
    package var isOnQueue: Bool { DispatchQueue.getSpecific(key: queueKey) == self.queueNumber }

    /// Adds an item after those that the other source has now.
    package func enqueue(_ item: Item) {
        self.order.withLock { _ in
            self.collect()
            self.append(item)
        }
        self.schedule()
    }

    /// Adds an item that `collect` has received.
    package func append(_ item: Item) { self.state.withLock { $0.items.append(item) } }

    /// Handles the waiting items soon.
    package func schedule() {
        let isIdle = self.state.withLock { state in
            state.mayHaveMore = true
            guard state.phase == .idle else { return false }
            state.phase = .scheduled
            return true
        }
        if isIdle { self.drainLater() }
    }

    /// Handles the waiting items now if the calling code runs on the queue, unless an item is being handled.
    package func drainIfOnQueue() { if self.isOnQueue { self.drain(atMost: .max) } }

    private func drainLater() { self.queue.async { self.drain(atMost: Self.batchSize) } }

    private func drain(atMost limit: Int) {
        let begins = self.state.withLock { state in
            guard state.phase != .draining else { return false }
            state.phase = .draining
            return true
        }
        guard begins else { return }
        var count = 0
        while let item = self.next() {
            self.handle(item)
            count += 1
            guard count < limit else {
                self.state.withLock { $0.phase = .scheduled }
                return self.drainLater()
            }
        }
    }

    private func next() -> Item? {
        while true {
            if let item = self.state.withLock({ $0.items.popFirst() }) { return item }
            self.state.withLock { $0.mayHaveMore = false }
            self.order.withLock { _ in self.collect() }
            let isDone = self.state.withLock { state in
                guard state.items.isEmpty, !state.mayHaveMore else { return false }
                state.phase = .idle
                return true
            }
            if isDone { return nil }
        }
    }
}
