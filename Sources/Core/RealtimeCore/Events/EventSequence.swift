/// An asynchronous sequence of events, in the order in which they occurred.
///
/// Events are buffered from the moment the sequence is returned, not from the first call of `next()`, so no event is missed in between.
/// Buffering ends when the last copy of the sequence is released. Every call that returns a sequence returns an independent one, with its
/// own buffer. A sequence has one iterator at a time: a second one takes over from the first, whose `next()` then returns `nil`, after the
/// events that it had taken from the buffer before. A stored sequence can therefore be iterated again, for example after the task of a loop
/// was cancelled, and a view that is shown again can start a new loop while the old one is still ending. For two consumers, use two
/// sequences.
///
/// The sequence doesn't throw. It finishes after the last event, and ``endReason`` contains the reason. Events that were buffered before
/// the end are still delivered. A task that is cancelled receives `nil` from then on, immediately if it waits, and also if events are buffered:
/// these remain in the sequence for its next iterator, and ``endReason`` is `nil` unless the sequence has finished.
///
/// The consumer runs in its own task or actor, never on the connection's thread. It is resumed once for all events that one read from the
/// network yielded.
public struct EventSequence<Element: Sendable>: AsyncSequence, Sendable {
    /// The sequence doesn't throw.
    public typealias Failure = Never

    /// The consuming end of a buffer, shared by all copies of a sequence.
    @usableFromInline
    package final class Consumer: Sendable {
        @usableFromInline package let buffer: EventBuffer<Element>
        private let id: ConsumerID
        private let source: any EventSource
        /// Whether the source is told when a task waits.
        private let awaitsPeer: Bool

        package init(_ buffer: EventBuffer<Element>, _ id: ConsumerID, of source: any EventSource, awaitsPeer: Bool = false) {
            self.buffer = buffer
            self.id = id
            self.source = source
            self.awaitsPeer = awaitsPeer
        }

        func wait(reader: UInt32) async {
            await self.buffer.wait(reader: reader) {
                if self.awaitsPeer { self.source.readerWaits(self.id) }
            }
        }

        func drained() { self.source.drained(self.id) }

        func beginReading() -> UInt32 {
            let (reader, tookOver) = self.buffer.beginReading()
            if tookOver { self.source.iteratorReplaced(self.id) }
            return reader
        }

        deinit { self.source.consumerRemoved(self.id) }
    }

    @usableFromInline package let consumer: Consumer

    package init(_ consumer: Consumer) {
        self.consumer = consumer
    }

    /// The number of events that were dropped because the buffer was full.
    public var dropped: Int { self.consumer.buffer.dropped }

    /// The reason why the sequence finished; `nil` before its end. Buffered events may remain after it is set.
    public var endReason: EndReason? { self.consumer.buffer.endReason }

    /// Returns an iterator over the remaining events. It takes over from an earlier iterator that still exists.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self.consumer) }

    /// Takes the buffered events out of the sequence, without waiting for more. Like another iterator, it takes over from one that exists.
    package func takeBuffered() -> [Element] { self.makeAsyncIterator().takeBuffered() }

    /// Returns the first event that satisfies a predicate. Events after it remain in the sequence.
    ///
    /// - Parameter predicate: A closure that is called with each event until it returns `true`, on the caller's actor.
    /// - Returns: The event; `nil` if the sequence finished or the task was cancelled before one satisfied the predicate.
    /// - Throws: The error that `predicate` throws.
    public func first(where predicate: (Element) throws -> Bool) async rethrows -> Element? {
        // The predicate isn't `async`: otherwise the compiler prefers the standard library's method, which can't be called from an actor
        // with a predicate that uses the actor's state.
        let iterator = self.makeAsyncIterator()
        while let element = await iterator.next() {
            if try predicate(element) { return element }
        }
        return nil
    }

    /// An iterator over the events of a sequence. When it is released, events that it hasn't returned remain in the sequence.
    public final class AsyncIterator: AsyncIteratorProtocol {
        /// The iterator doesn't throw.
        public typealias Failure = Never

        @usableFromInline let consumer: Consumer
        @usableFromInline var batch = EventBuffer<Element>.Batch()

        private let reader: UInt32

        init(_ consumer: Consumer) {
            self.consumer = consumer
            self.reader = consumer.beginReading()
        }

        deinit { self.consumer.buffer.endReading(self.reader, returning: self.batch) }

        /// Waits for the next event.
        ///
        /// - Returns: The event; `nil` if the sequence finished, the task was cancelled, or another iterator took over. After a
        ///   cancellation, the events that weren't returned remain in the sequence for its next iterator.
        @inlinable
        @inline(__always)
        public func next() async -> Element? { await self.next(isolation: #isolation) }

        /// Waits for the next event, on the caller's actor. Called by `for await` loops.
        ///
        /// - Parameter actor: The caller's actor.
        /// - Returns: The event; `nil` if the sequence finished, the task was cancelled, or another iterator took over. After a
        ///   cancellation, the events that weren't returned remain in the sequence for its next iterator.
        @inlinable
        @inline(__always)
        public nonisolated(nonsending) func next(isolation actor: (any Actor)?) async -> Element? {
            // Always inlined, because calling an asynchronous function switches the task, which costs more than the rest of this one.
            // For the same reason, the actor is the implicit one of the caller: an `isolated` parameter switches the task twice.
            if self.batch.start == self.batch.elements.count || Task.isCancelled, await !self.refill() { return nil }
            defer { self.batch.start += 1 }
            return self.batch.elements[self.batch.start]
        }

        @usableFromInline
        func refill() async -> Bool {
            // Whatever waits: a loop that is cancelled would otherwise go on for as long as events arrive.
            if Task.isCancelled { return false }
            self.batch.removeAll()
            if self.take() { return true }
            await self.consumer.wait(reader: self.reader)
            // An event may have come before the task, which was cancelled meanwhile, ran.
            return !Task.isCancelled && self.take()
        }

        fileprivate func takeBuffered() -> [Element] {
            var elements: [Element] = []
            // Taking events can resume the connection's reading, and bring more.
            while !self.batch.isEmpty || self.take() {
                elements += self.batch.elements[self.batch.start...]
                self.batch.removeAll()
            }
            return elements
        }

        private func take() -> Bool {
            if self.consumer.buffer.take(into: &self.batch, reader: self.reader) { self.consumer.drained() }
            return !self.batch.isEmpty
        }
    }
}

extension EventSequence: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("dropped", self.dropped), ("endReason", self.endReason)] }
}

extension EventSequence.AsyncIterator: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}
