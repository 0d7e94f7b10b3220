/// The decisions that a machine has asked hooks for, each with what it is about and a time limit.
///
/// ```
///   pending ──decided──▶ (removed)
///      ├──── the time limit is exceeded ────▶ (removed, and the hook is cancelled)
///      └──── cancelled, because the client has disconnected ────▶ (removed, and the hook is cancelled)
/// ```
/// Every decision has a number. An answer that comes after the decision was removed has no subject, and is ignored.
package struct PendingDecisions<Subject: Sendable>: Sendable {
    private var hooks = PendingWork<Subject>()
    private var deadlines = Deadlines<WorkID, Void>()

    package init() {}

    package var isEmpty: Bool { self.hooks.isEmpty }

    /// When to call ``popTimedOut(now:_:)``.
    package var nextDeadline: Instant? { self.deadlines.earliest }

    /// Emits the work that runs a hook.
    ///
    /// - Parameters:
    ///   - work: The work, whose result is the decision.
    ///   - subject: What the hook decides about.
    ///   - limit: How long to wait for the decision, at least 1 ms.
    ///   - now: The current time.
    ///   - effects: The effects to which the work is added.
    /// - Returns: The number of the decision.
    package mutating func start<Machine>(
        _ work: Machine.Work, about subject: Subject, limit: Duration, now: Instant, _ effects: inout Effects<Machine>
    ) -> WorkID {
        let id = self.hooks.start(work, for: subject, &effects)
        self.deadlines.set(id, now.advanced(by: max(.milliseconds(1), limit)))
        return id
    }

    /// Removes a decision that was made.
    ///
    /// - Returns: What it is about, or `nil` if it comes too late.
    package mutating func decided(_ id: WorkID) -> Subject? {
        self.deadlines.remove(id)
        return self.hooks.take(id)
    }

    /// Cancels a hook whose decision isn't needed any more.
    package mutating func cancel<Machine>(_ id: WorkID, _ effects: inout Effects<Machine>) {
        self.deadlines.remove(id)
        self.hooks.cancel(id, &effects)
    }

    /// Cancels the next hook whose time limit is exceeded.
    ///
    /// - Returns: What it was to decide about, or `nil` if no time limit is exceeded.
    package mutating func popTimedOut<Machine>(now: Instant, _ effects: inout Effects<Machine>) -> Subject? {
        guard let due = self.deadlines.popDue(now) else { return nil }
        return self.hooks.cancel(due.key, &effects)
    }
}
