import RealtimeSystem

/// Hands elements to a closure: in order, one at a time, and without a task.
///
/// The elements wait in the same kind of buffer as the elements of a sequence, with the same policies. When the first one is appended,
/// `schedule` is called with a closure that delivers until the buffer is empty. No lock is held while the application's code runs, so it
/// may append further elements, which are delivered after it has returned.
///
/// Besides what its owner appends, a queue can receive the events of a driver; see ``SessionDriver/observe(into:lifetime:convert:register:)``.
package final class CallbackQueue<Element: Sendable>: Sendable, CallbackDelivery {
    private enum Phase: Sendable {
        /// Nothing is buffered, and the next element schedules a delivery.
        case idle
        case scheduled, delivering
        case cancelled
    }

    private struct State: Sendable {
        var phase = Phase.idle
        /// The elements that were taken from the buffer, in reverse order, so that each is released as soon as it was delivered.
        var taken: [Element] = []
        var source: (id: ConsumerID, value: any EventSource)?
    }

    private let buffer: EventBuffer<Element>
    private let batchSize: Int
    private let schedule: CallbackSchedule
    private let callback: @Sendable (Element) -> Void
    private let state = Lock(State())

    /// Creates an empty queue.
    ///
    /// - Parameters:
    ///   - policy: What happens when elements arrive faster than the callback handles them. An element that the owner appends must not fill
    ///     a buffer whose policy pauses reading.
    ///   - byteLimit: When the buffer is full because of the size of the elements.
    ///   - batchSize: The maximum number of elements that a scheduled delivery hands over in a row, before it is scheduled again.
    ///   - schedule: Runs the deliveries, for example on a queue. Called without a lock.
    ///   - callback: Called with each element.
    package init(
        _ policy: BufferPolicy, byteLimit: ByteLimit<Element>? = nil, batchSize: Int = .max, schedule: @escaping CallbackSchedule,
        callback: @escaping @Sendable (Element) -> Void
    ) {
        self.buffer = EventBuffer(policy, byteLimit: byteLimit)
        self.batchSize = batchSize
        self.schedule = schedule
        self.callback = callback
    }

    // MARK: The producer's side

    var isFull: Bool { self.buffer.isFull }

    /// Appends an element, and schedules its delivery.
    package func append(_ element: Element) {
        let result = self.append { $0.append(element) }
        result.delivery?.scheduleDelivery()
    }

    /// Appends elements.
    ///
    /// - Parameter fill: Appends elements to the array. Called under a lock.
    /// - Returns: The effect, with the delivery to schedule.
    func append(_ fill: (inout [Element]) -> Void) -> AppendResult {
        var result = self.buffer.append(fill)
        let becomesScheduled = self.state.withLock { state in
            guard case .idle = state.phase, self.buffer.hasPending else { return false }
            state.phase = .scheduled
            return true
        }
        if becomesScheduled { result.delivery = self }
        return result
    }

    func finish(_ reason: EndReason) -> WakeUp? { self.buffer.finish(reason) }

    func setSource(_ id: ConsumerID, _ source: any EventSource) { self.state.withLock { $0.source = (id, source) } }

    func scheduleDelivery() {
        self.schedule { self.deliver(atMost: self.batchSize) { if case .scheduled = $0 { true } else { false } } }
    }

    // MARK: The consumer's side

    /// Delivers all waiting elements on the calling thread, which must be one on which callbacks may run. Has no effect while elements are
    /// being delivered, on this or another thread.
    package func deliverNow() {
        self.deliver(atMost: .max) {
            switch $0 {
            case .idle, .scheduled: true
            case .delivering, .cancelled: false
            }
        }
    }

    func cancel() {
        _ = self.buffer.finish(.ended)
        let (source, released) = self.state.withLock { state in
            defer { (state.phase, state.taken, state.source) = (.cancelled, [], nil) }
            return (state.source, state.taken)
        }
        source?.value.consumerRemoved(source?.id ?? ConsumerID(rawValue: 0))
        withExtendedLifetime(released) {}
    }

    /// Delivers until the buffer is empty, if the phase allows it.
    private func deliver(atMost limit: Int, if mayBegin: (Phase) -> Bool) {
        let begins = self.state.withLock { state in
            guard mayBegin(state.phase) else { return false }
            state.phase = .delivering
            return true
        }
        guard begins else { return }
        var count = 0
        while let element = self.next() {
            self.callback(element)
            count += 1
            guard count < limit else {
                let continues = self.state.withLock { state in
                    guard case .delivering = state.phase else { return false }
                    state.phase = .scheduled
                    return true
                }
                if continues { self.scheduleDelivery() }
                return
            }
        }
    }

    /// Returns the next element, or ends the delivery.
    private func next() -> Element? {
        var drained: (id: ConsumerID, value: any EventSource)?
        // Released after the lock: dropped elements, which remain in the array.
        var released: [Element] = []
        defer {
            drained.map { $0.value.drained($0.id) }
            withExtendedLifetime(released) {}
        }
        return self.state.withLock { state in
            // Before each element, because any of them may be the one at which the application cancels.
            guard case .delivering = state.phase else { return nil }
            // `count` and `removeLast()`: this code is generic and not specialized, where `isEmpty` and `popLast()` cost several times as much.
            if state.taken.count == 0 {
                var batch = EventBuffer<Element>.Batch()
                swap(&batch.elements, &state.taken)
                if self.buffer.take(into: &batch) { drained = state.source }
                if batch.start > 0 {
                    released = batch.elements
                    batch.elements.removeFirst(batch.start)
                }
                batch.elements.reverse()
                state.taken = batch.elements
            }
            guard state.taken.count > 0 else {
                // Under the lock: an element is appended before the phase is looked at.
                state.phase = .idle
                // An idle queue keeps no memory.
                state.taken = []
                return nil
            }
            return state.taken.removeLast()
        }
    }
}

/// Runs a closure where an application's callbacks run, for example on the main queue, or immediately. It is called without a lock.
package typealias CallbackSchedule = @Sendable (@escaping @Sendable () -> Void) -> Void

/// The delivery to a callback, whatever the type of its elements.
protocol CallbackDelivery: AnyObject, Sendable {
    func scheduleDelivery()
    func cancel()
}
