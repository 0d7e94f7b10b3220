import RealtimeCoding
import PusherWire
public import RealtimeCore

/// An asynchronous sequence of the decoded data of events, in the order in which the server sent them.
///
/// You get a sequence from ``PusherChannel/events(_:as:with:buffer:)`` or ``PusherClient/events(_:as:with:buffer:)``. It is an
/// `EventSequence` of events that decodes each event when it is received: `next()` decodes in the task that calls it, so that decoding
/// takes no time on the connection's thread.
///
/// If an event can't be decoded, `next()` reports a ``PusherError`` with the code ``PusherError/Code/decodingFailed`` to
/// ``PusherClient/errors``, counts it in ``PusherClient/counters``, and continues with the next event. The message of the error contains the
/// name of the event and its channel, but never the data. Its ``PusherError/cause`` is the error of the decoder.
///
/// Otherwise, the sequence behaves as an `EventSequence`: events are buffered from the moment the sequence is returned, a second iterator
/// takes over from the first, and cancelling the waiting task ends its wait and loses no event.
public struct PusherDecodedEvents<Value: Decodable>: AsyncSequence, Sendable {
    /// The decoded data of an event.
    public typealias Element = Value
    /// The sequence doesn't throw.
    public typealias Failure = Never

    private let events: EventSequence<PusherEvent>
    private let decoding: Decoding

    init(_ events: EventSequence<PusherEvent>, _ decoder: JSONValueDecoder, _ driver: SessionDriver<PusherSession>) {
        self.events = events
        self.decoding = Decoding(decoder: decoder, driver: driver)
    }

    /// Decodes events, and reports those that can't be decoded.
    fileprivate struct Decoding: Sendable {
        let decoder: JSONValueDecoder
        let driver: SessionDriver<PusherSession>

        func value(of event: PusherEvent) -> Value? {
            do {
                return try event.decode(Value.self, with: self.decoder)
            } catch {
                let error = PusherError.decodingFailed(event, as: "\(Value.self)", error)
                self.driver.step { session, _, effects in session.decodingFailed(error, &effects) }
                return nil
            }
        }
    }

    /// The number of events that were dropped because the buffer was full. Events that couldn't be decoded aren't included.
    public var dropped: Int { self.events.dropped }

    /// The reason why the sequence finished; `nil` before its end. Buffered events may remain after it is set.
    public var endReason: EndReason? { self.events.endReason }

    /// Returns an iterator over the remaining events. It takes over from an earlier iterator that still exists.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self.events.makeAsyncIterator(), self.decoding) }

    /// Takes the buffered events out of the sequence and decodes them, without waiting for more.
    package func takeBuffered() -> [Value] { self.events.takeBuffered().compactMap { self.decoding.value(of: $0) } }

    /// Returns the first value that satisfies a predicate. Events after it remain in the sequence.
    ///
    /// - Parameter predicate: A closure that is called with each value until it returns `true`, on the caller's actor.
    /// - Returns: The value; `nil` if the sequence finished or the task was cancelled before one satisfied the predicate.
    /// - Throws: The error that `predicate` throws.
    public func first(where predicate: (Value) throws -> Bool) async rethrows -> Value? {
        // Doesn't call the standard library's method, for the same reason as in `EventSequence`.
        let iterator = self.makeAsyncIterator()
        while let value = await iterator.next() {
            if try predicate(value) { return value }
        }
        return nil
    }

    /// An iterator over the decoded values of a sequence. When it is released, events that it hasn't returned remain in the sequence.
    public final class AsyncIterator: AsyncIteratorProtocol {
        /// The iterator doesn't throw.
        public typealias Failure = Never

        private let events: EventSequence<PusherEvent>.AsyncIterator
        private let decoding: Decoding

        fileprivate init(_ events: EventSequence<PusherEvent>.AsyncIterator, _ decoding: Decoding) {
            (self.events, self.decoding) = (events, decoding)
        }

        /// Waits for the next event that can be decoded, and decodes it.
        ///
        /// - Returns: The value; `nil` if the sequence finished, the task was cancelled, or another iterator took over. After a
        ///   cancellation, the events that weren't returned remain in the sequence for its next iterator.
        public func next() async -> Value? { await self.next(isolation: #isolation) }

        /// Waits for the next event that can be decoded, and decodes it, on the caller's actor. Called by `for await` loops.
        ///
        /// - Parameter actor: The caller's actor.
        /// - Returns: The value; `nil` if the sequence finished, the task was cancelled, or another iterator took over. After a
        ///   cancellation, the events that weren't returned remain in the sequence for its next iterator.
        public nonisolated(nonsending) func next(isolation actor: (any Actor)?) async -> Value? {
            while let event = await self.events.next(isolation: actor) {
                if let value = self.decoding.value(of: event) { return value }
            }
            return nil
        }
    }
}

extension PusherError {
    static func decodingFailed(_ event: PusherEvent, as type: String, _ error: any Error) -> PusherError {
        // The server chooses the name, which may be long.
        let name = Excerpt.of(event.name, limit: 200)
        let subject = event.channel.map { "\"\(name)\" on \($0)" } ?? "\"\(name)\""
        return PusherError(
            .decodingFailed, "Cannot decode the event \(subject) as \(type): \(self.reason(error)). The event was skipped.",
            channel: event.channel, cause: error)
    }

    /// Describes an error of a decoder without the data, which the descriptions of a `DecodingError` may contain.
    private static func reason(_ error: any Error) -> String {
        switch error {
        case let error as PusherError where error.code == .noData: "it has no data"
        case let error as JSONError: error.message
        default: CodingProblem.text(error) ?? "its init(from:) threw an error of type \(Swift.type(of: error))"
        }
    }
}
