import RealtimeSystem

/// Delivers events to a closure: in order, one at a time, and without a task.
///
/// The events wait in the same buffer as those of a sequence, with the same policies. When the first one is appended, `schedule` is called
/// with a closure that delivers until the buffer is empty. No lock is held while the application's code runs, so it may call the source,
/// and events that it causes are delivered after it has returned.
final class CallbackConsumer<Event: Sendable, Element: Sendable>: EventConsumer, CallbackDelivery {
    private enum Phase: Sendable {
        /// Nothing is buffered, and the next event schedules a delivery.
        case idle
        case scheduled, delivering
        case cancelled
    }

    private let buffer: EventBuffer<Element>
    private let convert: EventConversion<Event, Element>
    private let schedule: CallbackSchedule
    private let callback: @Sendable (Element) -> Void
    private let id: ConsumerID
    private let source: any EventSource
    private let phase = Lock(Phase.idle)

    init(
        _ policy: BufferPolicy, _ id: ConsumerID, of source: any EventSource, schedule: @escaping CallbackSchedule,
        convert: @escaping EventConversion<Event, Element>, callback: @escaping @Sendable (Element) -> Void
    ) {
        self.buffer = EventBuffer(policy)
        self.id = id
        self.source = source
        self.schedule = schedule
        self.convert = convert
        self.callback = callback
    }

    // MARK: The producer's side

    var isFull: Bool { self.buffer.isFull }
    var hasWaitingReader: Bool { false }

    func append(_ events: ArraySlice<Event>) -> AppendResult {
        var result = self.buffer.append { self.convert(events, &$0) }
        let isIdle = self.phase.withLock { phase in
            guard case .idle = phase else { return false }
            phase = .scheduled
            return true
        }
        if isIdle { result.delivery = self }
        return result
    }

    func finish(_ reason: EndReason) -> WakeUp? { self.buffer.finish(reason) }

    func scheduleDelivery() {
        self.schedule { self.deliver { if case .scheduled = $0 { true } else { false } } }
    }

    // MARK: The consumer's side

    func deliverNow() {
        self.deliver {
            switch $0 {
            case .idle, .scheduled: true
            case .delivering, .cancelled: false
            }
        }
    }

    func cancel() {
        self.phase.withLock { $0 = .cancelled }
        self.source.consumerRemoved(self.id)
    }

    /// Delivers until the buffer is empty, if the phase allows it.
    private func deliver(if mayBegin: (Phase) -> Bool) {
        let begins = self.phase.withLock { phase in
            guard mayBegin(phase) else { return false }
            phase = .delivering
            return true
        }
        guard begins else { return }
        var batch = EventBuffer<Element>.Batch()
        repeat {
            if self.buffer.take(into: &batch) { self.source.drained(self.id) }
            for element in batch.elements[batch.start...] {
                // Before each event, because any of them may be the one at which the application cancels.
                guard self.isDelivering else { return }
                self.callback(element)
            }
            batch.removeAll()
        } while !self.endDelivery()
    }

    private var isDelivering: Bool {
        self.phase.withLock { if case .delivering = $0 { true } else { false } }
    }

    /// Ends the delivery unless further events have been appended.
    private func endDelivery() -> Bool {
        self.phase.withLock { phase in
            guard case .delivering = phase else { return true }
            // Under the lock: an event is appended before the phase is looked at.
            guard !self.buffer.hasPending else { return false }
            phase = .idle
            return true
        }
    }
}

/// Runs a closure where an application's callbacks run, for example on the main queue, or immediately. It is called without a lock.
package typealias CallbackSchedule = @Sendable (@escaping @Sendable () -> Void) -> Void

/// The delivery to a callback, whatever the type of its events.
protocol CallbackDelivery: AnyObject, Sendable {
    func scheduleDelivery()
    func deliverNow()
    func cancel()
}

/// The registration of a callback. Releasing it cancels the callback.
package final class ObservationToken: Sendable {
    private let delivery: any CallbackDelivery

    init(_ delivery: any CallbackDelivery) {
        self.delivery = delivery
    }

    deinit { self.delivery.cancel() }

    /// Delivers the pending events on the calling thread, which must be one on which callbacks may run. Has no effect while events are
    /// being delivered, on this or another thread.
    package func drainNow() { self.delivery.deliverNow() }

    /// Cancels the callback. Where callbacks run one at a time, for example on the main queue, none is called after this has returned
    /// there. On another thread, one may still be running.
    package func cancel() { self.delivery.cancel() }
}
