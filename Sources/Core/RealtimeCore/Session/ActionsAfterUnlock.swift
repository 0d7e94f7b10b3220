/// Actions that call code outside the driver, collected under its lock and run after the lock is released. It also keeps values that may
/// contain objects of the application until then, because their deinitializers may call the driver.
///
/// Most steps have at most one of each, which are stored without an allocation.
struct ActionsAfterUnlock {
    enum Action {
        case open(any MessageConnection), flush(any MessageConnection), abandon(any MessageConnection)
        case close(any MessageConnection, CloseCode, String)
        case run(() -> Void)
    }

    private var firstAction: Action?
    private var otherActions: [Action] = []
    private var firstWakeUp: WakeUp?
    private var otherWakeUps: [WakeUp] = []
    private var firstTurn: CallbackTurn?
    private var otherTurns: [CallbackTurn] = []
    private var firstReleased: (any Sendable)?
    private var otherReleased: [any Sendable] = []
    private var lastFlushed: ObjectIdentifier?

    mutating func add(_ action: Action) {
        if self.firstAction == nil { self.firstAction = action } else { self.otherActions.append(action) }
    }

    /// Adds a flush, unless the connection was the last one for which a flush was added.
    mutating func flush(_ connection: any MessageConnection) {
        guard self.lastFlushed != ObjectIdentifier(connection) else { return }
        self.lastFlushed = ObjectIdentifier(connection)
        self.add(.flush(connection))
    }

    /// Makes the next call to ``flush(_:)`` add another flush.
    mutating func forgetFlushes() { self.lastFlushed = nil }

    mutating func resume(_ wakeUp: WakeUp?) {
        guard let wakeUp else { return }
        if self.firstWakeUp == nil { self.firstWakeUp = wakeUp } else { self.otherWakeUps.append(wakeUp) }
    }

    /// Schedules a delivery to a callback. It comes after all actions, because the callback may run immediately and call the driver.
    mutating func schedule(_ turn: CallbackTurn) {
        if self.firstTurn == nil { self.firstTurn = turn } else { self.otherTurns.append(turn) }
    }

    var schedulesCallbacks: Bool { self.firstTurn != nil }

    /// Releases a value after the lock, because it may contain objects of the application.
    mutating func release(_ value: any Sendable) {
        if self.firstReleased == nil { self.firstReleased = value } else { self.otherReleased.append(value) }
    }

    /// Runs the actions in order, then resumes the tasks, and then schedules the callbacks.
    func run() {
        if let action = self.firstAction { Self.run(action) }
        for action in self.otherActions { Self.run(action) }
        if let wakeUp = self.firstWakeUp { DelayedWakeUps.resume(wakeUp) }
        for wakeUp in self.otherWakeUps { DelayedWakeUps.resume(wakeUp) }
        if let turn = self.firstTurn { turn.schedule() }
        for turn in self.otherTurns { turn.schedule() }
    }

    private static func run(_ action: Action) {
        switch action {
        case .open(let connection): connection.open()
        case .flush(let connection): connection.flush()
        case .close(let connection, let code, let reason): connection.close(code, reason: reason)
        case .abandon(let connection): connection.abandon()
        case .run(let action): action()
        }
    }
}
