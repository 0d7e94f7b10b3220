internal import RealtimeSystem
internal import RealtimeCore

/// Control-C and the request to end, awaited instead of handled: no code runs inside a signal handler.
package final class Signals: Sendable {
    private struct State: Sendable {
        package var received: Int32?
        package var waiting: WakeUp?
    }

    private let state = Lock(State())

    /// Begins to catch SIGINT and SIGTERM. To be called before any other thread exists: threads inherit what is blocked.
    ///
    /// A thread of its own waits for them for the rest of the process. The second signal ends the process at once:
    /// it must work even while every thread that runs tasks waits for a reader who does not read.
    package static func catching() -> Signals {
        let signals = Signals()
        var caught = sigset_t()
        sigemptyset(&caught)
        sigaddset(&caught, SIGINT)
        sigaddset(&caught, SIGTERM)
        pthread_sigmask(SIG_BLOCK, &caught, nil)
        let context = Unmanaged.passRetained(signals).toOpaque()
        #if canImport(Darwin)
        var thread: pthread_t?
        let failed = pthread_create(&thread, nil, { Signals.wait($0) }, context) != 0
        if !failed, let thread { pthread_detach(thread) }
        #else
        var thread = pthread_t()
        let failed = pthread_create(&thread, nil, { Signals.wait($0!) }, context) != 0
        if !failed { pthread_detach(thread) }
        #endif
        // Without a thread the signals keep their usual meaning.
        if failed { pthread_sigmask(SIG_UNBLOCK, &caught, nil) }
        return signals
    }

    /// Waits for the first signal; `nil` when the task was cancelled before it came. One task at a time.
    package func first() async -> Int32? {
        await suspend { wakeUp in
            self.state.withLock { state in
                guard state.received == nil, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } withdraw: {
            self.state.withLock { $0.waiting.take() }
        }
        return self.state.withLock { $0.received }
    }

    /// Whether it was the first.
    @discardableResult
    package func receive(_ signal: Int32) -> Bool {
        let (waiting, isFirst) = self.state.withLock { state -> (WakeUp?, Bool) in
            let isFirst = state.received == nil
            if isFirst { state.received = signal }
            return (state.waiting.take(), isFirst)
        }
        waiting?.resume()
        return isFirst
    }

    private static func wait(_ context: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        let signals = Unmanaged<Signals>.fromOpaque(context).takeRetainedValue()
        var caught = sigset_t()
        sigemptyset(&caught)
        sigaddset(&caught, SIGINT)
        sigaddset(&caught, SIGTERM)
        while true {
            var signal: Int32 = 0
            if sigwait(&caught, &signal) == 0, !signals.receive(signal) { _exit(ToolStatus.failed.rawValue) }
        }
    }
}
