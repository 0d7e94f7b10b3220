import RealtimeSystem

/// Notices that the application's code doesn't begin to run for seconds, usually because the application blocks its main actor.
///
/// A watch follows one wait at a time, and reports one. A timer is scheduled only while something waits; it covers the waits that follow,
/// so that a short wait costs little.
package final class CallbackWatch: TimerClient {
    /// How the watch knows that the application's code is held up.
    package enum Sign: Sendable {
        /// It hasn't begun.
        case notBegun
        /// It hasn't returned, and the main actor runs nothing either. For code that may take its time, and whose actor isn't known.
        case mainActorBlocked
    }

    private struct State: Sendable {
        var lastNumber: UInt64 = 0
        var wait: (number: UInt64, name: String)?
        /// Whether the main actor was asked to answer.
        var isAsking = false
        var hasReported = false
        var timer = CoalescedTimer()
    }

    // In nanoseconds: a wait begins with each call of a handler, and calculating with durations takes most of its time.
    /// The time until a wait is reported.
    private static var limit: Int64 { 5_000_000_000 }
    /// The part of it that the main actor has to answer.
    private static var answerLimit: Int64 { 1_000_000_000 }

    private let time: any TimeSource
    private let sign: Sign
    private let report: @Sendable (String) -> Void
    private let state = Lock(State())

    /// Creates a watch.
    ///
    /// - Parameters:
    ///   - time: The source of the time.
    ///   - sign: How the watch knows that the application's code is held up.
    ///   - report: Receives the message for the developer, at most once.
    package init(_ time: any TimeSource, _ sign: Sign, report: @escaping @Sendable (String) -> Void) {
        self.time = time
        self.sign = sign
        self.report = report
    }

    package var onlyObserves: Bool { true }

    /// Whether a wait is followed.
    package var isFollowing: Bool { self.state.withLock { $0.wait != nil } }

    /// Begins a wait, unless another one is followed.
    ///
    /// - Parameter name: What waits, such as `The callback of news`; for ``Sign/mainActorBlocked``, the name of the handler.
    /// - Returns: The number of the wait, for ``end(_:)``.
    package func begin(_ name: String) -> UInt64? {
        let now = self.time.now
        return self.state.withLock { state in
            guard state.wait == nil, !state.hasReported else { return nil }
            state.lastNumber += 1
            state.wait = (state.lastNumber, name)
            state.isAsking = false
            self.setDeadline(now + (self.sign == .notBegun ? Self.limit : Self.limit - Self.answerLimit), &state)
            return state.lastNumber
        }
    }

    /// Ends a wait.
    package func end(_ number: UInt64?) {
        guard let number else { return }
        // The name is released after the lock.
        _ = self.state.withLock { state -> String? in
            guard let wait = state.wait, wait.number == number else { return nil }
            state.wait = nil
            self.setDeadline(nil, &state)
            return wait.name
        }
    }

    /// Returns an executor's function whose closures are followed until they begin.
    ///
    /// - Parameters:
    ///   - schedule: The function.
    ///   - name: What waits.
    package func following(_ schedule: @escaping CallbackSchedule, _ name: String) -> CallbackSchedule {
        { run in
            let number = self.begin(name)
            schedule {
                self.end(number)
                run()
            }
        }
    }

    private func setDeadline(_ instant: Instant?, _ state: inout State) {
        if let instant = state.timer.setDeadline(instant) { self.time.schedule(self, at: instant) }
    }

    package func timerFired() {
        let now = self.time.now
        var (message, asked): (String?, UInt64?) = (nil, nil)
        self.state.withLock { state in
            switch state.timer.fired(now: now) {
            case .idle: break
            case .early(let instant): self.time.schedule(self, at: instant)
            case .due:
                guard let wait = state.wait else { return }
                if self.sign == .mainActorBlocked, !state.isAsking {
                    state.isAsking = true
                    asked = wait.number
                    self.setDeadline(now + Self.answerLimit, &state)
                } else {
                    state.hasReported = true
                    state.wait = nil
                    message = self.message(wait.name)
                }
            }
        }
        if let message { self.report(message) }
        // An unstructured task, because nothing waits for it. If the main actor runs it, the main actor isn't blocked.
        if let asked { Task { @MainActor in self.end(asked) } }
    }

    private func message(_ name: String) -> String {
        switch self.sign {
        case .notBegun:
            "\(name) has waited 5 s for its actor or queue, which is blocked. Don't block the main actor, for example with readLine(): "
                + "block a thread of your own."
        case .mainActorBlocked:
            "The handler of \(name) hasn't returned for 5 s, and the main actor is blocked. Don't block the main actor, for example with "
                + "readLine(): handlers that were written there wait for it. Block a thread of your own."
        }
    }
}
