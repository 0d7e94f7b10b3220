import RealtimeSystem

/// What happens to events that nobody has looked at yet.
public enum BufferPolicy: Sendable, Hashable {
    /// Keeps at most so many and drops the oldest: a forgotten listener never stops a connection.
    case dropOldest(Int)
    /// Keeps at most so many and drops what comes after.
    case dropNewest(Int)
    /// Drops nothing: the connection stops reading while a listener has this many before it, and so holds up every
    /// other listener of the same connection too. Silence is not held against the server meanwhile.
    case pauseReading(Int)

    /// The oldest go when there are more than 1,024.
    public static let standard = BufferPolicy.dropOldest(1024)
}

/// Why a sequence of events finished.
public enum EndReason: Sendable, Hashable, CustomStringConvertible {
    /// What it listened to was given up on purpose: the channel was unsubscribed, the client let go.
    case ended
    /// The connection has ended for good.
    case closed(CloseReason)

    /// The reason in words, for logs and messages.
    public var description: String {
        switch self {
        case .ended: "ended as asked"
        case .closed(let reason): reason.description
        }
    }
}

package struct AppendResult {
    package var wakeUp: WakeUp?
    package var becameFull = false
    package var isFull = false
    package var dropped = 0
}

/// What one listener has not looked at yet. Producers append whole batches, the consumer takes the whole array
/// and leaves its emptied one: one lock per batch at either end, no allocation in the steady state.
@usableFromInline
package final class EventBuffer<Element: Sendable>: Sendable {
    @usableFromInline
    package struct Batch: Sendable {
        @usableFromInline package var elements: [Element] = []
        @usableFromInline package var start = 0

        package var isEmpty: Bool { self.start == self.elements.count }
    }

    private struct State: Sendable {
        var pending = Batch()
        var dropped = 0
        @Boxed var ended: EndReason?
        var waiting: WakeUp?
        var isFull = false
        var isBeingRead = false
    }

    private let policy: BufferPolicy
    private let state = Lock(State())

    package init(_ policy: BufferPolicy) {
        self.policy = policy
    }

    package var dropped: Int { self.state.withLock { $0.dropped } }
    package var isFull: Bool { self.state.withLock { $0.isFull } }
    package var endReason: EndReason? { self.state.withLock { $0.ended } }

    /// - Parameter fill: appends to the array, and does nothing else to it.
    package func append(_ fill: (inout [Element]) -> Void) -> AppendResult {
        self.state.withLock { state in
            guard state.ended == nil else { return AppendResult() }
            var result = AppendResult()
            fill(&state.pending.elements)
            let waiting = state.pending.elements.count - state.pending.start
            switch self.policy {
            case .dropNewest(let limit):
                result.dropped = max(0, waiting - max(1, limit))
                state.pending.elements.removeLast(result.dropped)
            case .dropOldest(let limit):
                result.dropped = max(0, waiting - max(1, limit))
                state.pending.start += result.dropped
                // Moving the rest once per `limit` drops keeps a drop cheap.
                if state.pending.start > limit {
                    state.pending.elements.removeFirst(state.pending.start)
                    state.pending.start = 0
                }
            case .pauseReading(let limit):
                result.isFull = waiting >= max(1, limit)
                result.becameFull = result.isFull && !state.isFull
                state.isFull = result.isFull
            }
            state.dropped += result.dropped
            if waiting > 0 { swap(&result.wakeUp, &state.waiting) }
            return result
        }
    }

    package func finish(_ reason: EndReason) -> WakeUp? {
        self.state.withLock { state in
            if state.ended == nil { state.ended = reason }
            return state.waiting.take()
        }
    }

    /// Swaps what is pending for the consumer's emptied batch; true if that ends a pause in reading.
    func take(into batch: inout Batch) -> Bool {
        self.state.withLock { state in
            swap(&batch, &state.pending)
            defer { state.isFull = false }
            return state.isFull
        }
    }

    /// Returns when something came, when it is over, and when the task is cancelled.
    func wait() async {
        await suspend { wakeUp in
            self.state.withLock { state in
                guard state.pending.isEmpty, state.ended == nil, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } withdraw: {
            self.state.withLock { $0.waiting.take() }
        }
    }

    func beginReading() {
        let isTaken = self.state.withLock { state in
            defer { state.isBeingRead = true }
            return state.isBeingRead
        }
        precondition(!isTaken, "an event sequence has one consumer at a time; ask for a second sequence")
    }

    func endReading(leaving rest: Batch) {
        self.state.withLock { state in
            state.isBeingRead = false
            guard !rest.isEmpty else { return }
            let pending = state.pending
            state.pending = rest
            state.pending.elements.append(contentsOf: pending.elements[pending.start...])
        }
    }
}
