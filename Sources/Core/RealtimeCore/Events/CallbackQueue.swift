import RealtimeSystem

/// Hands elements to a closure: in order, one at a time, and without a task.
///
/// The elements wait in the same kind of buffer as the elements of a sequence, with the same policies. When the first one is appended,
/// `schedule` is called with a closure that delivers until the buffer is empty. No lock is held while the application's code runs, so it
/// may append further elements, which are delivered after it has returned.
///
/// Besides what its owner appends, a queue can receive the events of a driver; see ``SessionDriver/observe(into:lifetime:convert:register:)``.
package final class CallbackQueue<Element: Sendable>: Sendable, CallbackDelivery {
    private let buffer: EventBuffer<Element>
    private let batchSize: Int
    private let schedule: CallbackSchedule
    private let calls: CallbackCalls<Element>
    private let state = Lock(CallbackState())
    /// The elements that a delivery has left when it reached its limit, the last one first.
    private let remaining = Lock<[Element]>([])

    /// Creates an empty queue.
    ///
    /// - Parameters:
    ///   - policy: What happens when elements arrive faster than the callback handles them. An element that the owner appends must not fill
    ///     a buffer whose policy pauses reading.
    ///   - byteLimit: When the buffer is full because of the size of the elements.
    ///   - batchSize: The maximum number of elements that a scheduled delivery hands over in a row, before it is scheduled again.
    ///   - schedule: Runs the deliveries, for example on a queue. Called without a lock.
    ///   - calls: Calls the closure with each element.
    package init(
        _ policy: BufferPolicy, byteLimit: ByteLimit<Element>? = nil, batchSize: Int = .max, schedule: @escaping CallbackSchedule,
        calls: CallbackCalls<Element>
    ) {
        self.buffer = EventBuffer(policy, byteLimit: byteLimit)
        self.batchSize = batchSize
        self.schedule = schedule
        self.calls = calls
    }

    /// Creates an empty queue that calls a closure with each element.
    package convenience init(
        _ policy: BufferPolicy, byteLimit: ByteLimit<Element>? = nil, batchSize: Int = .max, schedule: @escaping CallbackSchedule,
        callback: @escaping @Sendable (Element) -> Void
    ) {
        self.init(policy, byteLimit: byteLimit, batchSize: batchSize, schedule: schedule, calls: CallbackCalls(callback))
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
        let source = self.state.withLock { state in
            state.phase = .cancelled
            return state.source.take()
        }
        source?.value.consumerRemoved(source?.id ?? ConsumerID(rawValue: 0))
        // Released after the lock.
        _ = self.takeRemaining()
    }

    private func takeRemaining() -> [Element] {
        self.remaining.withLock { remaining in
            var elements: [Element] = []
            swap(&elements, &remaining)
            return elements
        }
    }

    /// Delivers until the buffer is empty, if the phase allows it.
    private func deliver(atMost limit: Int, if mayBegin: (CallbackState.Phase) -> Bool) {
        let begins = self.state.withLock { state in
            guard mayBegin(state.phase) else { return false }
            state.phase = .delivering
            return true
        }
        guard begins else { return }
        var elements = self.takeRemaining()
        var rest = limit
        while true {
            if elements.isEmpty, !self.refill(&elements) { return }
            self.calls.call(&elements, &rest) { self.isDelivering }
            guard rest == 0 else {
                guard self.isDelivering else { return }
                continue
            }
            // Without another reference, which would copy the elements at the next delivery.
            self.remaining.withLock { swap(&$0, &elements) }
            let continues = self.state.withLock { state in
                guard case .delivering = state.phase else { return false }
                state.phase = .scheduled
                return true
            }
            if continues { return self.scheduleDelivery() }
            // Cancelled, perhaps before the elements were there.
            _ = self.takeRemaining()
            return
        }
    }

    private var isDelivering: Bool {
        self.state.withLock { state in if case .delivering = state.phase { true } else { false } }
    }

    /// Takes the next elements from the buffer, or ends the delivery.
    ///
    /// - Returns: Whether there are elements.
    private func refill(_ elements: inout [Element]) -> Bool {
        while true {
            var batch = EventBuffer<Element>.Batch()
            swap(&batch.elements, &elements)
            let wasFull = self.buffer.take(into: &batch)
            swap(&batch.elements, &elements)
            self.calls.reverse(&elements, batch.start)
            if wasFull, let source = self.state.withLock({ $0.source }) { source.value.drained(source.id) }
            guard elements.isEmpty else { return true }
            let ends = self.state.withLock { state in
                guard case .delivering = state.phase else { return true }
                // Under the lock: an element is appended before the phase is looked at.
                guard !self.buffer.hasPending else { return false }
                state.phase = .idle
                return true
            }
            if ends { return false }
        }
    }
}

/// The state of a queue of callbacks. It isn't generic, so that the code that uses it is compiled for it.
private struct CallbackState: Sendable {
    enum Phase: Sendable {
        /// Nothing is buffered, and the next element schedules a delivery.
        case idle
        case scheduled, delivering
        case cancelled
    }

    var phase = Phase.idle
    var source: (id: ConsumerID, value: any EventSource)?
}

/// Calls a closure with the elements of an array.
///
/// It is inlinable so that it is compiled where the type of the elements is known: unspecialized, an element costs several times as much.
@usableFromInline
package struct CallbackCalls<Element: Sendable>: Sendable {
    /// Removes a number of elements from the beginning, and reverses the others.
    @usableFromInline let reverse: @Sendable (_ elements: inout [Element], _ removed: Int) -> Void
    /// Calls the closure with the last element, which is removed, and so on: until none is left, the limit is reached, or `continues`
    /// returns `false`. Each element is released as soon as the closure has returned, and counts against the limit.
    @usableFromInline let call: @Sendable (_ elements: inout [Element], _ limit: inout Int, _ continues: () -> Bool) -> Void

    /// - Parameter callback: Called with each element.
    @inlinable
    package init(_ callback: @escaping @Sendable (Element) -> Void) {
        self.reverse = { elements, removed in
            if removed > 0 { elements.removeFirst(removed) }
            elements.reverse()
        }
        self.call = { elements, limit, continues in
            // Before each element, because any of them may be the one at which the application cancels.
            while limit > 0, !elements.isEmpty, continues() {
                limit -= 1
                callback(elements.removeLast())
            }
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
