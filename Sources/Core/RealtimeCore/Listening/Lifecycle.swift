/// The state of an object that is started and stopped asynchronously: a listener, or a server on one.
///
/// ```
///   idle ──start──▶ starting ──started──▶ running ──stop──▶ stopping ──ended──▶ idle
///                      │   └──stop, then started──────────────▲
///                      └──ended (the start has failed)──▶ idle
/// ```
/// A value without effects. Its owner keeps it under a lock, and resumes the waiters outside that lock.
package struct Lifecycle<Running: Sendable>: Sendable {
    private enum Stage: Sendable {
        case idle
        case starting
        case running(Running)
        case stopping
    }

    /// The next step of a call that stops the object.
    package enum StopStep: Sendable {
        case none
        /// Another call starts or stops the object. Wait until it has ended.
        case wait
        /// Stop the object, then call ``ended()``.
        case stop(Running)
    }

    private var stage = Stage.idle
    /// The calls that stop the object and wait until it has ended.
    private var waiters: [Waiter<Void>] = []

    package init() {}

    /// The object that runs, unless it is being stopped.
    package var running: Running? {
        if case .running(let running) = self.stage { running } else { nil }
    }

    /// - Returns: `false` if the object has been started already.
    package mutating func start() -> Bool {
        guard case .idle = self.stage else { return false }
        self.stage = .starting
        return true
    }

    /// The object has been started.
    ///
    /// - Returns: `false` if it was stopped meanwhile. Then stop it, and call ``ended()``.
    package mutating func started(_ running: Running) -> Bool {
        guard self.waiters.isEmpty else {
            self.stage = .stopping
            return false
        }
        self.stage = .running(running)
        return true
    }

    /// Stops the object.
    ///
    /// - Parameter waiter: Fulfilled when the object has ended, if the step is ``StopStep/wait``.
    package mutating func stop(_ waiter: Waiter<Void>) -> StopStep {
        switch self.stage {
        case .idle: return .none
        case .starting, .stopping:
            self.waiters.append(waiter)
            return .wait
        case .running(let running):
            self.stage = .stopping
            return .stop(running)
        }
    }

    /// The object has ended, or could not be started.
    ///
    /// - Returns: The waiters to fulfill.
    package mutating func ended() -> [Waiter<Void>] {
        self.stage = .idle
        defer { self.waiters = [] }
        return self.waiters
    }
}
