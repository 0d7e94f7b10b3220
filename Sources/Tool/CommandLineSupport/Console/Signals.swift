import RealtimeCore
import RealtimeSystem

/// SIGINT and SIGTERM, received by a thread instead of a signal handler, and awaited by tasks.
final class Signals: Sendable {
    private struct State: Sendable {
        var first: Int32?
        var waiting: WakeUp?
    }

    private let state = Lock(State())

    /// Starts to receive SIGINT and SIGTERM. Call it before any other thread exists: new threads inherit what is blocked.
    ///
    /// A thread waits for them for the rest of the process. It ends the process on the second signal, which works even while
    /// every thread of the task executor is blocked by a slow reader of the output.
    static func catchTermination() -> Signals {
        let signals = Signals()
        var caught = Self.termination
        pthread_sigmask(SIG_BLOCK, &caught, nil)
        let context = Unmanaged.passRetained(signals).toOpaque()
        #if canImport(Darwin)
        var thread: pthread_t?
        let hasFailed = pthread_create(&thread, nil, { Signals.receiveSignals($0) }, context) != 0
        if !hasFailed, let thread { pthread_detach(thread) }
        #else
        var thread = pthread_t()
        let hasFailed = pthread_create(&thread, nil, { Signals.receiveSignals($0!) }, context) != 0
        if !hasFailed { pthread_detach(thread) }
        #endif
        // Without the thread, the signals keep their default action.
        if hasFailed { pthread_sigmask(SIG_UNBLOCK, &caught, nil) }
        return signals
    }

    /// Waits for the first signal. Only one task may wait at a time.
    ///
    /// - Returns: The number of the signal, or `nil` when the task is cancelled first.
    func waitForFirst() async -> Int32? {
        await suspend { wakeUp in
            self.state.withLock { state in
                guard state.first == nil, !Task.isCancelled else { return false }
                state.waiting = wakeUp
                return true
            }
        } onCancel: {
            self.state.withLock { $0.waiting.take() }
        }
        return self.state.withLock { $0.first }
    }

    /// Records a signal, and returns whether it is the first.
    @discardableResult
    func record(_ signal: Int32) -> Bool {
        let (waiting, isFirst) = self.state.withLock { state -> (WakeUp?, Bool) in
            let isFirst = state.first == nil
            if isFirst { state.first = signal }
            return (state.waiting.take(), isFirst)
        }
        waiting?.resume()
        return isFirst
    }

    private static var termination: sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        return signals
    }

    private static func receiveSignals(_ context: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        let signals = Unmanaged<Signals>.fromOpaque(context).takeRetainedValue()
        var caught = Self.termination
        while true {
            var signal: Int32 = 0
            if sigwait(&caught, &signal) == 0, !signals.record(signal) { _exit(ToolExitStatus.failure.rawValue) }
        }
    }
}
