import RealtimeSystem

/// A policy for events that arrive faster than a consumer receives them from its sequence.
public enum BufferPolicy: Sendable, Hashable {
    /// Buffers up to a number of events, and drops the oldest one when another arrives. A slow consumer never stalls the connection.
    case dropOldest(Int)
    /// Buffers up to a number of events, and drops events that arrive while the buffer is full.
    case dropNewest(Int)
    /// Drops no events. While a consumer has this number of events in its buffer, the connection stops reading, which also delays all
    /// other consumers of the connection. The heartbeat is suspended during this time, so that the server doesn't count as dead.
    case pauseReading(Int)

    /// Buffers up to 1,024 events and drops the oldest.
    public static let standard = BufferPolicy.dropOldest(1024)
}

/// The reason why a sequence of events finished.
public enum EndReason: Sendable, Hashable, CustomStringConvertible {
    /// The application ended it: it unsubscribed from the channel or released the client.
    case ended
    /// The connection ended and won't be re-established.
    case closed(CloseReason)

    /// A description of the reason, for log and error messages.
    public var description: String {
        switch self {
        case .ended: "ended by the application, which unsubscribed or released the client"
        case .closed(let reason): reason.description
        }
    }
}

/// The effect of appending events to a buffer.
package struct AppendResult {
    /// The waiting consumer, to be resumed after releasing all locks.
    package var wakeUp: WakeUp?
    package var becameFull = false
    package var isFull = false
    /// Whether the buffer has become much larger than its policy allows, because the connection must not stop reading.
    package var isOverflowing = false
    /// The number of dropped events.
    package var dropped = 0
    /// Dropped events, to be released after releasing all locks.
    var released: (any Sendable)?
    /// The position of the first appended element among all elements that the buffer has ever accepted.
    var position = 0
    /// Whether the buffer accepted elements.
    var hasAccepted = false
    /// The turn of a callback to schedule after releasing all locks.
    var turn: CallbackTurn?
    /// Whether the elements belong to a callback whose turns have an order with those of others.
    var keepsOrder = false
}

/// The maximum size of the events in a buffer, in bytes. A single event is kept, however large it is.
@usableFromInline
package final class ByteLimit<Element: Sendable>: Sendable {
    @usableFromInline let bytes: Int
    /// Returns the size of several events. A closure over all of them, so that the loop is compiled where their type is known.
    @usableFromInline let size: @Sendable (ArraySlice<Element>) -> Int

    /// - Parameters:
    ///   - bytes: The limit.
    ///   - size: Returns the approximate size of an event. Called under a lock.
    @inlinable
    package init(_ bytes: Int, size: @escaping @Sendable (Element) -> Int) {
        self.bytes = bytes
        self.size = { elements in
            var total = 0
            for element in elements { total += size(element) }
            return total
        }
    }
}

/// The events that a consumer hasn't taken yet.
///
/// The producer appends whole batches, and the consumer swaps its emptied array for the filled one: one lock per batch on either side, and
/// no allocation in the steady state.
@usableFromInline
package final class EventBuffer<Element: Sendable>: Sendable {
    @usableFromInline
    package struct Batch: Sendable {
        @usableFromInline package var elements: [Element] = []
        /// The index of the first element that wasn't consumed or dropped.
        @usableFromInline package var start = 0

        package var isEmpty: Bool { self.start == self.elements.count }

        package mutating func removeAll() {
            self.elements.removeAll(keepingCapacity: true)
            self.start = 0
        }
    }

    private struct State: Sendable {
        var pending = Batch()
        /// The size of the pending events, if it is limited.
        var bytes = 0
        var dropped = 0
        /// The position after the last element that was accepted.
        var end = 0
        @Boxed var ended: EndReason?
        var waiting: WakeUp?
        var isFull = false
        /// The iterator that reads the buffer, or 0. Iterators are numbered from 1.
        var reader: UInt32 = 0
        var lastReader: UInt32 = 0
        /// The last iterator that took events.
        var lastTaker: UInt32 = 0
    }

    private let policy: BufferPolicy
    private let byteLimit: ByteLimit<Element>?
    private let state = Lock(State())

    package init(_ policy: BufferPolicy, byteLimit: ByteLimit<Element>? = nil) {
        self.policy = policy
        self.byteLimit = byteLimit
    }

    package var dropped: Int { self.state.withLock { $0.dropped } }
    package var isFull: Bool { self.state.withLock { $0.isFull } }
    package var endReason: EndReason? { self.state.withLock { $0.ended } }
    var hasPending: Bool { self.state.withLock { !$0.pending.isEmpty } }
    /// Whether a task waits for the next event.
    package var hasWaitingReader: Bool { self.state.withLock { $0.waiting != nil } }

    /// Appends events and applies the buffer policy. Has no effect after the end.
    ///
    /// - Parameter fill: Appends elements to the array, and must not change it otherwise. Called under a lock.
    package func append(_ fill: (inout [Element]) -> Void) -> AppendResult {
        self.state.withLock { state in
            guard state.ended == nil else { return AppendResult() }
            var result = AppendResult()
            let oldCount = state.pending.elements.count
            fill(&state.pending.elements)
            state.bytes += self.size(of: state.pending.elements[oldCount...])
            let count = state.pending.elements.count - state.pending.start
            result.position = state.end
            state.end += state.pending.elements.count - oldCount
            switch self.policy {
            case .dropNewest(let limit):
                result.dropped = self.dropCount(state.pending.elements[state.pending.start...].reversed(), limit, &state.bytes)
                state.pending.elements.removeLast(result.dropped)
                state.end -= result.dropped
            case .dropOldest(let limit):
                result.dropped = self.dropCount(state.pending.elements[state.pending.start...], limit, &state.bytes)
                state.pending.start += result.dropped
                // Moving the remaining elements only once per that many drops keeps dropping cheap.
                if state.pending.start > count - result.dropped {
                    result.released = state.pending.elements
                    state.pending.elements = Array(state.pending.elements[state.pending.start...])
                    state.pending.start = 0
                }
            case .pauseReading(let limit):
                result.isFull = count >= max(1, limit) || self.isTooLarge(state.bytes)
                result.becameFull = result.isFull && !state.isFull
                state.isFull = result.isFull
                result.isOverflowing = result.isFull && self.isOverflowing(count, state.bytes, limit)
            }
            state.dropped += result.dropped
            result.hasAccepted = state.end > result.position
            if count > 0 { swap(&result.wakeUp, &state.waiting) }
            return result
        }
    }

    private func size(of elements: ArraySlice<Element>) -> Int {
        self.byteLimit.map { $0.size(elements) } ?? 0
    }

    private func isTooLarge(_ bytes: Int) -> Bool { self.byteLimit.map { bytes > $0.bytes } ?? false }

    /// The size that no buffer exceeds for long, in elements and in bytes. It is far above what one read from the network yields.
    private static var overflow: (count: Int, bytes: Int) { (1 << 18, 1 << 24) }

    private func isOverflowing(_ count: Int, _ bytes: Int, _ limit: Int) -> Bool {
        func manyTimes(_ limit: Int, atLeast minimum: Int) -> Int { limit > .max / 16 ? .max : max(16 * limit, minimum) }
        guard count > 1 else { return false }
        if count > manyTimes(limit, atLeast: Self.overflow.count) { return true }
        return self.byteLimit.map { bytes > manyTimes($0.bytes, atLeast: Self.overflow.bytes) } ?? false
    }

    /// Returns the number of elements to drop, from the first, and subtracts their size.
    private func dropCount(_ elements: some Collection<Element>, _ limit: Int, _ bytes: inout Int) -> Int {
        var dropped = max(0, elements.count - max(1, limit))
        guard let byteLimit else { return dropped }
        bytes -= byteLimit.size(Array(elements.prefix(dropped))[...])
        for element in elements.dropFirst(dropped).dropLast() {
            guard bytes > byteLimit.bytes else { break }
            bytes -= byteLimit.size([element])
            dropped += 1
        }
        return dropped
    }

    /// Ends the buffer. The first reason is kept.
    ///
    /// - Returns: The waiting consumer, if any. Resume it after releasing all locks.
    package func finish(_ reason: EndReason) -> WakeUp? {
        self.state.withLock { state in
            if state.ended == nil { state.ended = reason }
            return state.waiting.take()
        }
    }

    /// Swaps the pending events for the consumer's emptied batch.
    ///
    /// - Returns: Whether the buffer was full, and the position after the last event.
    func take(into batch: inout Batch) -> (wasFull: Bool, end: Int) {
        self.state.withLock { state in
            swap(&batch, &state.pending)
            state.bytes = 0
            defer { state.isFull = false }
            return (state.isFull, state.end)
        }
    }

    // MARK: Iterators

    /// Takes the pending events for an iterator. If another one took over, there are none.
    func take(into batch: inout Batch, reader: UInt32) -> Bool {
        self.state.withLock { state in
            guard state.reader == reader else { return false }
            swap(&batch, &state.pending)
            state.bytes = 0
            state.lastTaker = reader
            defer { state.isFull = false }
            return state.isFull
        }
    }

    /// Waits until events are pending, the buffer has ended, another iterator took over, or the task is cancelled.
    ///
    /// - Parameter onWait: Called without the lock when the wait has begun.
    func wait(reader: UInt32, onWait: () -> Void) async {
        await suspend { wakeUp in
            let waits = self.state.withLock { state in
                guard state.pending.isEmpty, state.ended == nil, state.reader == reader, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
            if waits { onWait() }
            return waits
        } onCancel: {
            // If another iterator took over, it may be the one that waits.
            self.state.withLock { $0.reader == reader ? $0.waiting.take() : nil }
        }
    }

    /// Registers an iterator. It takes over from one that still exists, and ends its wait.
    ///
    /// - Returns: The number of the iterator, and whether it took over.
    func beginReading() -> (reader: UInt32, tookOver: Bool) {
        let (reader, tookOver, wakeUp) = self.state.withLock { state -> (UInt32, Bool, WakeUp?) in
            state.lastReader += 1
            defer { state.reader = state.lastReader }
            return (state.lastReader, state.reader != 0, state.waiting.take())
        }
        wakeUp?.resume()
        return (reader, tookOver)
    }

    /// Removes an iterator. The events that it took but didn't return are put back in front of the pending ones, unless another iterator
    /// took over and has taken later ones: they would be out of order, and are dropped.
    func endReading(_ reader: UInt32, returning unused: Batch) {
        let (wakeUp, _) = self.state.withLock { state -> (WakeUp?, released: Batch?) in
            if state.reader == reader { state.reader = 0 }
            guard !unused.isEmpty else { return (nil, nil) }
            guard state.lastTaker <= reader else {
                state.dropped += unused.elements.count - unused.start
                return (nil, nil)
            }
            let pending = state.pending
            state.pending = unused
            state.pending.elements.append(contentsOf: pending.elements[pending.start...])
            state.bytes += self.size(of: unused.elements[unused.start...])
            return (state.waiting.take(), pending)
        }
        wakeUp?.resume()
    }
}
