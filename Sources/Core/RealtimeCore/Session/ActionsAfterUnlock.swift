/// What waits until the lock is released, because it may run foreign code. Empty, and then free, for most batches.
struct ActionsAfterUnlock {
    enum Action {
        case open(any WebSocketConnection), flush(any WebSocketConnection), abandon(any WebSocketConnection)
        case close(any WebSocketConnection, CloseCode, String)
        case run(() -> Void)
    }

    /// Most batches have one or none.
    private var firstAction: Action?
    private var otherActions: [Action] = []
    private var firstWakeUp: WakeUp?
    private var otherWakeUps: [WakeUp] = []
    private var lastFlushed: ObjectIdentifier?

    mutating func add(_ action: Action) {
        if self.firstAction == nil { self.firstAction = action } else { self.otherActions.append(action) }
    }

    mutating func flush(_ connection: any WebSocketConnection) {
        guard self.lastFlushed != ObjectIdentifier(connection) else { return }
        self.lastFlushed = ObjectIdentifier(connection)
        self.add(.flush(connection))
    }

    /// Whatever was sent after this needs another flush.
    mutating func forgetFlushes() { self.lastFlushed = nil }

    mutating func wake(_ wakeUp: WakeUp?) {
        guard let wakeUp else { return }
        if self.firstWakeUp == nil { self.firstWakeUp = wakeUp } else { self.otherWakeUps.append(wakeUp) }
    }

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
