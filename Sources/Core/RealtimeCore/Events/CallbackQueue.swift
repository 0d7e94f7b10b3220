import RealtimeSystem

/// Hands elements to a closure: in order, one at a time, and without a task.
///
/// The elements wait in the same kind of buffer as the elements of a sequence, with the same policies. When the first one is appended,
/// `schedule` is called with a closure, a turn, that delivers until the buffer is empty. No lock is held while the application's code runs, so
/// it may append further elements, which are delivered after it has returned.
///
/// Besides what its owner appends, a queue can receive the events of a driver; see ``SessionDriver/observe(into:lifetime:convert:register:)``.
/// Queues of one driver keep the order of its events: elements that follow a turn of another queue have a turn of their own, and aren't taken
/// along by one that was scheduled before.
package final class CallbackQueue<Element: Sendable>: Sendable, CallbackDelivery {
    /// Elements that a turn has taken and left, the last one first.
    private struct Remaining: Sendable {
        var elements: [Element] = []
        /// The position after the last element.
        var end = 0
    }

    private let buffer: EventBuffer<Element>
    private let batchSize: Int
    private let schedule: CallbackSchedule
    /// Whether `schedule` runs what it receives in that order.
    private let keepsOrder: Bool
    private let calls: CallbackCalls<Element>
    private let state = Lock(CallbackState())
    private let remaining = Lock(Remaining())

    /// Creates an empty queue.
    ///
    /// - Parameters:
    ///   - policy: What happens when elements arrive faster than the callback handles them. An element that the owner appends must not fill
    ///     a buffer whose policy pauses reading.
    ///   - byteLimit: When the buffer is full because of the size of the elements.
    ///   - batchSize: The maximum number of elements that a scheduled delivery hands over in a row, before it is scheduled again.
    ///   - keepsOrder: Whether `schedule` runs what it receives in that order. Otherwise, the queue has no order with others.
    ///   - schedule: Runs the deliveries, for example on a queue. Called without a lock.
    ///   - calls: Calls the closure with each element.
    package init(
        _ policy: BufferPolicy, byteLimit: ByteLimit<Element>? = nil, batchSize: Int = .max, keepsOrder: Bool = true,
        schedule: @escaping CallbackSchedule, calls: CallbackCalls<Element>
    ) {
        self.buffer = EventBuffer(policy, byteLimit: byteLimit)
        self.batchSize = batchSize
        self.keepsOrder = keepsOrder
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
    package func append(_ element: Element) { self.append(joinsLast: true) { $0.append(element) }.turn?.schedule() }

    /// Appends elements.
    ///
    /// - Parameters:
    ///   - joinsLast: Whether a turn that was scheduled before may deliver them.
    ///   - fill: Appends elements to the array. Called under a lock.
    /// - Returns: The effect, with the turn to schedule.
    func append(joinsLast: Bool, _ fill: (inout [Element]) -> Void) -> AppendResult {
        self.state.withLock { state in
            var result = self.buffer.append(fill)
            guard result.hasAccepted else { return result }
            result.keepsOrder = self.keepsOrder
            if let number = state.appended(at: result.position, joinsLast: joinsLast || !self.keepsOrder) {
                result.turn = CallbackTurn(delivery: self, number: number)
            }
            return result
        }
    }

    func finish(_ reason: EndReason) -> WakeUp? { self.buffer.finish(reason) }

    func setSource(_ id: ConsumerID, _ source: any EventSource) { self.state.withLock { $0.source = (id, source) } }

    func schedule(_ turn: Int) {
        self.schedule { if self.state.withLock({ $0.begin(turn) }) { self.deliver(atMost: self.batchSize) } }
    }

    // MARK: The consumer's side

    /// Delivers all waiting elements on the calling thread, which must be one on which callbacks may run. Has no effect while elements are
    /// being delivered, on this or another thread.
    package func deliverNow() { if self.state.withLock({ $0.beginAll() }) { self.deliver(atMost: .max) } }

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

    private func takeRemaining() -> Remaining {
        self.remaining.withLock { remaining in
            var taken = Remaining()
            swap(&taken, &remaining)
            return taken
        }
    }

    /// Delivers the elements of the turns that have begun.
    private func deliver(atMost limit: Int) {
        var taken = self.takeRemaining()
        var rest = limit
        while true {
            if taken.elements.isEmpty, !self.refill(&taken) { return }
            // An end that is set after this is behind the elements that were taken.
            let end = self.state.withLock { $0.ends.first }
            let count = min(rest, end.map { max(0, $0 - (taken.end - taken.elements.count)) } ?? .max)
            var left = count
            if count > 0 { self.calls.call(&taken.elements, &left) { self.isDelivering } }
            rest -= count - left
            guard left == 0 else {
                guard self.isDelivering else { return }
                continue
            }
            // Without another reference, which would copy the elements at the next delivery.
            self.remaining.withLock { swap(&$0, &taken) }
            switch self.state.withLock({ $0.pause(isAtEnd: rest > 0) }) {
            case .continues: taken = self.takeRemaining()
            case .waits: return
            case .schedules(let turn): return self.schedule(turn)
            case .cancelled:
                // Perhaps before the elements were there.
                _ = self.takeRemaining()
                return
            }
        }
    }

    private var isDelivering: Bool {
        self.state.withLock { state in if case .delivering = state.phase { true } else { false } }
    }

    /// Takes the next elements from the buffer, or ends all turns.
    ///
    /// - Returns: Whether there are elements.
    private func refill(_ taken: inout Remaining) -> Bool {
        while true {
            var batch = EventBuffer<Element>.Batch()
            swap(&batch.elements, &taken.elements)
            let (wasFull, end) = self.buffer.take(into: &batch)
            swap(&batch.elements, &taken.elements)
            taken.end = end
            self.calls.reverse(&taken.elements, batch.start)
            if wasFull, let source = self.state.withLock({ $0.source }) { source.value.drained(source.id) }
            guard taken.elements.isEmpty else { return true }
            let ends = self.state.withLock { state in
                guard case .delivering = state.phase else { return true }
                guard !self.buffer.hasPending else { return false }
                state.endAll()
                return true
            }
            if ends { return false }
        }
    }
}

/// The state of a queue of callbacks. It isn't generic, so that the code that uses it is compiled for it.
///
/// Turns are numbered in the order in which they are scheduled. The first `current` have ended, and the last one takes along what arrives.
private struct CallbackState: Sendable {
    enum Phase: Sendable {
        case waiting, delivering, cancelled
    }

    /// The next step of a delivery that has reached the end of a turn, or its limit.
    enum Pause: Sendable {
        case continues, waits, cancelled
        case schedules(Int)
    }

    var phase = Phase.waiting
    /// The positions at which the turns from `current` end, without the last one.
    var ends = FIFO<Int>()
    private var current = 0
    private var scheduled = 0
    /// The turns below this number may be delivered. With an executor that runs several at the same time, one of them delivers them all.
    private var begun = 0
    var source: (id: ConsumerID, value: any EventSource)?

    /// Elements were appended.
    ///
    /// - Returns: The number of the turn to schedule for them; `nil` if one delivers them that is scheduled already.
    mutating func appended(at position: Int, joinsLast: Bool) -> Int? {
        if self.current < self.scheduled {
            if joinsLast { return nil }
            self.ends.append(position)
        }
        defer { self.scheduled += 1 }
        return self.scheduled
    }

    /// - Returns: Whether to deliver. Otherwise, the turn has ended, or another thread delivers its elements.
    mutating func begin(_ turn: Int) -> Bool {
        guard turn >= self.current else { return false }
        self.begun = max(self.begun, turn + 1)
        guard case .waiting = self.phase else { return false }
        self.phase = .delivering
        return true
    }

    /// - Returns: Whether to deliver all that waits.
    mutating func beginAll() -> Bool {
        guard case .waiting = self.phase, self.current < self.scheduled else { return false }
        return self.begin(self.scheduled - 1)
    }

    /// A delivery has reached the end of a turn, or its limit.
    mutating func pause(isAtEnd: Bool) -> Pause {
        guard case .delivering = self.phase else { return .cancelled }
        if isAtEnd {
            _ = self.ends.popFirst()
            self.current += 1
            if self.current < self.begun { return .continues }
        }
        self.phase = .waiting
        return isAtEnd ? .waits : .schedules(self.current)
    }

    /// Nothing waits for a turn any more.
    mutating func endAll() {
        self.phase = .waiting
        self.current = self.scheduled
        self.ends.removeAll()
    }
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
    func schedule(_ turn: Int)
    func cancel()
}

/// A delivery to schedule.
struct CallbackTurn: Sendable {
    let delivery: any CallbackDelivery
    let number: Int

    func schedule() { self.delivery.schedule(self.number) }
}
