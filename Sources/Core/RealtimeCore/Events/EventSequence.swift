/// Who fills the buffers of sequences, and hears of what becomes of them. Called on the consumers' threads.
package protocol EventSource: AnyObject, Sendable {
    /// The listener's buffer had been full, and was emptied.
    func drained(_ listener: ConsumerID)
    /// The last copy of the listener's sequence was dropped.
    func consumerGone(_ listener: ConsumerID)
}

/// Events as they come, in order.
///
/// A listener exists from the moment the sequence is asked for, not from the first `next()`: nothing that happens
/// after that is missed. It is gone when the last copy of the sequence is dropped. Each call that returns a sequence
/// makes a listener of its own; one sequence has one consumer at a time, and a second one at the same time stops
/// the program with a message.
///
/// A sequence does not throw. It finishes when there is nothing more to come, and ``endReason`` says why. Events
/// that came before the end are still delivered. Cancelling the task that waits ends its wait at once; the events
/// it has not seen stay for the next consumer.
///
/// The consumer runs on its own actor or task, never on the connection's thread, and is woken once for everything
/// that one read from the socket brought.
public struct EventSequence<Element: Sendable>: AsyncSequence, Sendable {
    /// It does not throw.
    public typealias Failure = Never

    /// The consumer's end of a buffer.
    @usableFromInline
    package final class Listener: Sendable {
        @usableFromInline package let buffer: EventBuffer<Element>
        private let id: ConsumerID
        private let source: any EventSource

        package init(_ buffer: EventBuffer<Element>, _ id: ConsumerID, of source: any EventSource) {
            self.buffer = buffer
            self.id = id
            self.source = source
        }

        func drained() { self.source.drained(self.id) }

        deinit { self.source.consumerGone(self.id) }
    }

    @usableFromInline package let listener: Listener

    package init(_ listener: Listener) {
        self.listener = listener
    }

    /// How many events were lost because the buffer was full.
    public var dropped: Int { self.listener.buffer.dropped }

    /// Why the sequence finished; `nil` while it goes on.
    public var endReason: EndReason? { self.listener.buffer.endReason }

    /// Begins to hand out events. One iterator at a time: a second one while the first is there stops the program.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self.listener) }

    /// The first event that fits, or `nil` when the sequence finished or the task was cancelled before one came.
    /// Events after it stay in the sequence. The predicate runs where the caller runs.
    ///
    /// The predicate is not `async`, or the standard library's own method would be preferred to this one, which an actor
    /// cannot call with its own state.
    public func first(where predicate: (Element) throws -> Bool) async rethrows -> Element? {
        let iterator = self.makeAsyncIterator()
        while let element = await iterator.next() {
            if try predicate(element) { return element }
        }
        return nil
    }

    /// Hands out one event after the other. A class, so that its end can give back what it took but did not hand out.
    public final class AsyncIterator: AsyncIteratorProtocol {
        /// It does not throw.
        public typealias Failure = Never

        @usableFromInline let listener: Listener
        @usableFromInline var batch = EventBuffer<Element>.Batch()

        init(_ listener: Listener) {
            self.listener = listener
            listener.buffer.beginReading()
        }

        deinit { self.listener.buffer.endReading(leaving: self.batch) }

        /// The next event; `nil` when the sequence finished or the task was cancelled.
        @inlinable
        public func next() async -> Element? { await self.next(isolation: #isolation) }

        /// The same, as a `for await` loop calls it.
        @inlinable
        public func next(isolation actor: isolated (any Actor)?) async -> Element? {
            if self.batch.start == self.batch.elements.count, await !self.refill() { return nil }
            defer { self.batch.start += 1 }
            return self.batch.elements[self.batch.start]
        }

        @usableFromInline
        func refill() async -> Bool {
            self.batch.elements.removeAll(keepingCapacity: true)
            self.batch.start = 0
            if self.take() { return true }
            await self.listener.buffer.wait()
            return self.take()
        }

        private func take() -> Bool {
            if self.listener.buffer.take(into: &self.batch) { self.listener.drained() }
            return !self.batch.isEmpty
        }
    }
}
