import RealtimeSystem

/// A monitor that tells clients when a usable network path becomes available or changes.
///
/// A client that is waiting for its next attempt to connect then connects immediately. A connected client checks its connection with a
/// ping, because it may be dead, and keeps it if the server responds. A disconnected client does nothing.
///
/// On Apple platforms, ``Transports/standard`` contains a monitor of the system's network path. On other platforms, and in tests, create a
/// monitor and report the changes:
///
/// ```swift
/// let monitor = NetworkPathMonitor()
/// configuration.transports.networkPath = monitor
/// monitor.pathChanged()
/// ```
/// Any number of clients may share a monitor. It doesn't retain them.
public final class NetworkPathMonitor: Sendable {
    private struct State: Sendable {
        var lastNumber: UInt64 = 0
        var handlers: [UInt64: @Sendable () -> Void] = [:]
    }

    private let state = Lock(State())

    /// Creates a monitor that reports nothing on its own.
    public init() {}

    /// Reports that a usable network path has become available, or that the path has changed, for example from Wi-Fi to cellular.
    ///
    /// You can call this method from any thread. The clients react on the calling thread, in the order in which they were created, before
    /// the method returns. To several changes within a second, a client reacts once more at its end: a network that comes and goes doesn't cause
    /// an attempt to connect each time. Don't call the method when a path is lost: the clients notice that by themselves.
    public func pathChanged() {
        let handlers = self.state.withLock { state in state.handlers.sorted { $0.key < $1.key }.map(\.value) }
        for handler in handlers { handler() }
    }

    /// Calls a closure whenever the path has changed, on the thread that reports it and without a lock.
    ///
    /// - Returns: The observation. Releasing it ends the calls, except for one that is in progress.
    package func observe(_ handler: @escaping @Sendable () -> Void) -> NetworkPathObservation {
        let number = self.state.withLock { state in
            state.lastNumber += 1
            state.handlers[state.lastNumber] = handler
            return state.lastNumber
        }
        return NetworkPathObservation { [weak self] in self?.remove(number) }
    }

    /// Calls a closure as ``observe(_:)`` does, but at most once a second. The last change is never left out.
    package func observe(pacedBy time: any TimeSource, _ handler: @escaping @Sendable () -> Void) -> NetworkPathObservation {
        let pace = NetworkPathPace(time, handler)
        return self.observe { pace.changed() }
    }

    private func remove(_ number: UInt64) {
        // The handler is released after the lock, because it may contain the last reference to an object.
        _ = self.state.withLock { $0.handlers.removeValue(forKey: number) }
    }

    /// The number of observations, for tests.
    package var observerCount: Int { self.state.withLock { $0.handlers.count } }
}

/// Passes on the changes of a path, with an interval between them.
private final class NetworkPathPace: TimerClient {
    private static let interval = Duration.seconds(1)

    private let time: any TimeSource
    private let handler: @Sendable () -> Void
    private struct State: Sendable {
        var last: Instant?
        var isWaiting = false
    }
    private let state = Lock(State())

    init(_ time: any TimeSource, _ handler: @escaping @Sendable () -> Void) {
        (self.time, self.handler) = (time, handler)
    }

    func changed() {
        let now = self.time.now
        let isDue = self.state.withLock { state in
            if state.isWaiting { return false }
            if let next = state.last?.advanced(by: Self.interval), now < next {
                state.isWaiting = true
                self.time.schedule(self, at: next)
                return false
            }
            state.last = now
            return true
        }
        if isDue { self.handler() }
    }

    func timerFired() {
        let now = self.time.now
        self.state.withLock { ($0.last, $0.isWaiting) = (now, false) }
        self.handler()
    }
}

/// The observation of a ``NetworkPathMonitor``. It ends when it is released.
package final class NetworkPathObservation: Sendable {
    private let end: @Sendable () -> Void

    fileprivate init(_ end: @escaping @Sendable () -> Void) {
        self.end = end
    }

    deinit { self.end() }
}

extension NetworkPathMonitor: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}
