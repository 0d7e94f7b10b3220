import RealtimeSystem
import SignalRHubs

/// A stream that a method of the hub returns.
public protocol StreamResult<Element>: Sendable {
    /// The type of the elements.
    associatedtype Element
    /// The elements. They can be iterated once, by one task: each access returns the same stream.
    ///
    /// Releasing the iterator, for example by leaving the loop, ends the stream at the server. So does releasing the result, if nothing
    /// iterates the stream. Iterating it again afterwards throws ``SignalRError/invalidOperation(_:)``.
    var stream: AsyncThrowingStream<Element, any Error> { get }
    /// Ends the stream at the server. The iteration throws ``SignalRError/streamCancelled``.
    func cancel() async
}

/// A stream of a ``HubConnection``.
struct HubConnectionStream<Element>: StreamResult {
    private let iteration: StreamIteration<Element>

    init(_ result: HubStreamResult<Element>, serverTimeout: Duration) {
        self.iteration = StreamIteration(result, serverTimeout: serverTimeout)
    }

    var stream: AsyncThrowingStream<Element, any Error> {
        let access = StreamAccess(self.iteration)
        return AsyncThrowingStream { try await access.next() }
    }

    func cancel() async { self.iteration.cancel() }
}

/// The one iteration of a stream, which all accesses share.
//
// `@unchecked Sendable`: all properties are constant. Only the iterator isn't Sendable, and the one task that iterates the stream uses it,
// as the documentation requires.
private final class StreamIteration<Element>: @unchecked Sendable {
    private let result: HubStreamResult<Element>
    private let iterator: HubStreamResult<Element>.AsyncIterator
    private let isCancelled = SharedFlag()
    private let isLeft = SharedFlag()
    private let serverTimeout: Duration

    init(_ result: HubStreamResult<Element>, serverTimeout: Duration) {
        self.result = result
        self.iterator = result.makeAsyncIterator()
        self.serverTimeout = serverTimeout
    }

    func next() async throws -> Element? {
        if self.isCancelled.isSet { throw SignalRError.streamCancelled }
        do {
            // A second iterator only throws the error that says so.
            if self.isLeft.isSet { return try await self.result.makeAsyncIterator().next() }
            let element = try await self.iterator.next()
            if element == nil, self.isCancelled.isSet { throw SignalRError.streamCancelled }
            return element
        } catch let error as HubError {
            throw SignalRError.converted(error, serverTimeout: self.serverTimeout)
        }
    }

    func cancel() {
        self.isCancelled.set()
        self.result.cancel()
    }

    /// Ends the stream at the server, because the loop over it was left.
    func leave() {
        self.isLeft.set()
        self.result.cancel()
    }
}

/// A stream that was read from a result. Only one that was iterated ends the stream when it is released.
private final class StreamAccess<Element>: Sendable {
    private let iteration: StreamIteration<Element>
    private let hasBegun = SharedFlag()

    init(_ iteration: StreamIteration<Element>) {
        self.iteration = iteration
    }

    deinit { if self.hasBegun.isSet { self.iteration.leave() } }

    func next() async throws -> Element? {
        self.hasBegun.set()
        return try await self.iteration.next()
    }
}

/// A flag that is set once.
private final class SharedFlag: Sendable {
    private let value = Lock(false)

    var isSet: Bool { self.value.withLock { $0 } }
    func set() { self.value.withLock { $0 = true } }
}
