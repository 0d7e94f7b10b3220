import RealtimeCore
import RealtimeSystem

/// SIGINT, SIGTERM and SIGHUP, received by a thread instead of a signal handler, and awaited by tasks.
final class Signals: Sendable {
    private struct State: Sendable {
        var first: Int32?
        var waiting: WakeUp?
    }

    private let state = Lock(State())

    /// The signals that end a command.
    private let caught: sigset_t

    init(_ caught: [Int32] = [SIGINT, SIGTERM]) {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in caught { sigaddset(&set, signal) }
        self.caught = set
    }

    /// Starts to receive SIGINT, SIGTERM and SIGHUP. Call it before any other thread exists: new threads inherit what is blocked.
    ///
    /// A thread waits for them for the rest of the process. It ends the process on the second signal, which works even while
    /// every thread of the task executor is blocked by a slow reader of the output. A SIGHUP that is ignored, as by `nohup`, stays ignored.
    static func catchTermination() -> Signals {
        let signals = Signals([SIGINT, SIGTERM] + (Self.isIgnored(SIGHUP) ? [] : [SIGHUP]))
        var caught = signals.caught
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

    /// Returns whether the process ignores a signal, which it inherits from the one that started it.
    ///
    /// A signal that is ignored is received nevertheless if it is blocked.
    private static func isIgnored(_ number: Int32) -> Bool {
        let previous = signal(number, SIG_IGN)
        // Functions can't be compared, and SIG_IGN isn't the address of one.
        let isIgnored = unsafeBitCast(previous, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
        if !isIgnored { _ = signal(number, previous) }
        return isIgnored
    }

    private static func receiveSignals(_ context: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        let signals = Unmanaged<Signals>.fromOpaque(context).takeRetainedValue()
        var caught = signals.caught
        while true {
            var signal: Int32 = 0
            // A terminal that is closed and its shell can each send a SIGHUP, which isn't a user who loses patience.
            if sigwait(&caught, &signal) == 0, !signals.record(signal), signal != SIGHUP { _exit(ToolExitStatus.failure.rawValue) }
        }
    }
}
