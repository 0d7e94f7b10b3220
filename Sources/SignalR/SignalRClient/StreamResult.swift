import RealtimeSystem
import SignalRHubs

/// A stream that a method of the hub returns.
public protocol StreamResult<Element>: Sendable {
    /// The type of the elements.
    associatedtype Element
    /// The elements. They can be iterated once.
    ///
    /// Releasing the iterator, for example by leaving the loop, ends the stream at the server.
    var stream: AsyncThrowingStream<Element, any Error> { get }
    /// Ends the stream at the server. The iteration throws ``SignalRError/streamCancelled``.
    func cancel() async
}

/// A stream of a ``HubConnection``.
struct HubConnectionStream<Element>: StreamResult {
    private let result: HubStreamResult<Element>
    private let isCancelled = SharedFlag()
    private let serverTimeout: Duration

    init(_ result: HubStreamResult<Element>, serverTimeout: Duration) {
        self.result = result
        self.serverTimeout = serverTimeout
    }

    var stream: AsyncThrowingStream<Element, any Error> {
        let (isCancelled, serverTimeout) = (self.isCancelled, self.serverTimeout)
        // The one task that iterates the stream calls the closure, and awaits each call. The documentation allows one iteration.
        nonisolated(unsafe) let iterator = self.result.makeAsyncIterator()
        return AsyncThrowingStream {
            if isCancelled.isSet { throw SignalRError.streamCancelled }
            do {
                let element = try await iterator.next()
                if element == nil, isCancelled.isSet { throw SignalRError.streamCancelled }
                return element
            } catch let error as HubError {
                throw SignalRError.converted(error, serverTimeout: serverTimeout)
            }
        }
    }

    func cancel() async {
        self.isCancelled.set()
        self.result.cancel()
    }
}

/// A flag that is set once.
private final class SharedFlag: Sendable {
    private let value = Lock(false)

    var isSet: Bool { self.value.withLock { $0 } }
    func set() { self.value.withLock { $0 = true } }
}
