/// Actions that call code outside the driver, collected under its lock and run after the lock is released. Most steps have at most one
/// action and one task to resume, which are stored without an allocation.
struct ActionsAfterUnlock {
    enum Action {
        case open(any WebSocketConnection), flush(any WebSocketConnection), abandon(any WebSocketConnection)
        case close(any WebSocketConnection, CloseCode, String)
        case run(() -> Void)
    }

    private var firstAction: Action?
    private var otherActions: [Action] = []
    private var firstWakeUp: WakeUp?
    private var otherWakeUps: [WakeUp] = []
    private var lastFlushed: ObjectIdentifier?

    mutating func add(_ action: Action) {
        if self.firstAction == nil { self.firstAction = action } else { self.otherActions.append(action) }
    }

    /// Adds a flush, unless the connection was the last one for which a flush was added.
    mutating func flush(_ connection: any WebSocketConnection) {
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

    /// Runs the actions in order, then resumes the tasks.
    func run() {
        if let action = self.firstAction { Self.run(action) }
        for action in self.otherActions { Self.run(action) }
        self.firstWakeUp?.resume()
        for wakeUp in self.otherWakeUps { wakeUp.resume() }
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
