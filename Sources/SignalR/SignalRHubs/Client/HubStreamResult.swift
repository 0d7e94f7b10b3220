import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The elements that a method of the server streams.
///
/// They are decoded in the consumer's task. The stream is consumed once: when the iterator is released, when the consumer's task is
/// cancelled, or when an element can't be decoded, the server is told to end the stream. The same happens when the stream is released
/// without an iterator. A second loop over the stream throws an error with the code ``HubError/Code/streamConsumed``.
public struct HubStreamResult<Element>: AsyncSequence, Sendable {
    /// The error of the stream.
    public typealias Failure = HubError

    let source: HubStreamResultSource
    let decode: @Sendable (HubPayload) throws -> Element

    /// Returns an iterator over the items, of which a stream has one.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

    /// An iterator over the items of a stream. Releasing it ends the stream.
    public final class AsyncIterator: AsyncIteratorProtocol {
        private let stream: HubStreamResult
        /// `nil` if the stream has another iterator, or had one.
        private let events: EventSequence<HubEvent>.AsyncIterator?
        private var hasEnded = false

        init(_ stream: HubStreamResult) {
            self.stream = stream
            self.events = stream.source.begin() ? stream.source.events.makeAsyncIterator() : nil
        }

        deinit { if self.events != nil { self.stream.source.cancel() } }

        /// Waits for the next element.
        ///
        /// - Returns: The element; `nil` at the end of the stream.
        /// - Throws: ``HubError/Code/invocationFailed`` if the server ended the stream with an error, the error of the connection if it
        ///   was lost, ``HubError/Code/decodingFailed`` if the element has another type, ``HubError/Code/cancelled`` if the task is
        ///   cancelled, and ``HubError/Code/streamConsumed`` if the stream has another iterator, or had one.
        public func next() async throws(HubError) -> Element? {
            guard !self.hasEnded else { return nil }
            guard let events else { throw self.stream.source.consumedError }
            switch await events.next() {
            case .item(let payload)?:
                do {
                    return try self.stream.decode(payload)
                } catch {
                    self.end()
                    let item = "An item of the stream \(self.stream.source.target)"
                    let message = "\(item) can't be decoded as \(Element.self): \(HubValueError.reason(error))."
                    throw HubError(.decodingFailed, message, cause: HubValueError.cause(of: error))
                }
            case .streamEnd(let error)?:
                self.hasEnded = true
                if let error { throw error }
                return nil
            case .update?, .invocation?, .frame?, nil:
                let isCancelled = Task.isCancelled
                self.end()
                if isCancelled { throw HubError(.cancelled, "The stream \(self.stream.source.target) was cancelled with its task.") }
                return nil
            }
        }

        private func end() {
            self.hasEnded = true
            self.stream.source.cancel()
        }
    }

    /// Ends the stream. The iterator, if there is one, returns the elements that have arrived.
    public func cancel() { self.source.cancel() }
}

@available(*, unavailable)
extension HubStreamResult.AsyncIterator: Sendable {}

/// The consuming end of a stream, shared by its copies.
final class HubStreamResultSource: Sendable {
    let target: String
    let events: EventSequence<HubEvent>
    private let id: UInt64
    private let driver: SessionDriver<HubSession>
    private let hasBegun = Lock(false)

    init(_ target: String, _ events: EventSequence<HubEvent>, _ id: UInt64, _ driver: SessionDriver<HubSession>) {
        self.target = target
        self.events = events
        self.id = id
        self.driver = driver
    }

    deinit { self.cancel() }

    /// - Returns: Whether the stream hasn't been consumed before.
    func begin() -> Bool {
        self.hasBegun.withLock { hasBegun in
            defer { hasBegun = true }
            return !hasBegun
        }
    }

    var consumedError: HubError {
        HubError(
            .streamConsumed,
            "The stream \(self.target) is consumed once, and another loop has begun to. Call the method again for another stream.")
    }

    /// Has no effect after the end of the stream.
    func cancel() {
        let id = self.id
        self.driver.step { $0.cancelCall(id, now: $1, &$2) }
    }
}
