internal import RealtimeCore
internal import RealtimeSystem

/// The weak reference to a pool that its connections and exchanges share: to create one for each takes longer than to use it.
final class ConnectionPoolReference: Sendable {
    // `nonisolated(unsafe)`: it is never set again, and any thread may load a weak reference.
    nonisolated(unsafe) private(set) weak var pool: ConnectionPool?

    init(_ pool: ConnectionPool) {
        self.pool = pool
    }
}

/// The idle connections of a transport. The transport owns it; connections and exchanges refer to it weakly.
final class ConnectionPool: TimerClient {
    private struct State: Sendable {
        var idle: ConnectionPoolState<HTTPClientConnection>
        var timer = CoalescedTimer()
    }

    private let loop: EventLoop
    private let state: Lock<State>

    init(_ limits: KeepAliveLimits, _ loop: EventLoop) {
        self.loop = loop
        self.state = Lock(State(idle: ConnectionPoolState(limits)))
    }

    deinit {
        let (idle, hasTimer) = self.state.withLock { ($0.idle.removeAll(), $0.timer.cancel()) }
        if hasTimer { self.loop.schedule(self, at: nil) }
        for connection in idle { connection.close() }
    }

    /// The number of idle connections, for tests.
    var count: Int { self.state.withLock { $0.idle.count } }

    /// Takes an idle connection. The caller checks on the loop's thread whether it can still be used.
    func lend(_ key: ConnectionKey, isRepeatable: Bool) -> HTTPClientConnection? {
        let now = self.loop.now
        return self.state.withLock { $0.idle.lend(key, isRepeatable: isRepeatable, now: now) }
    }

    func giveBack(_ connection: HTTPClientConnection) {
        let now = self.loop.now
        let evicted = self.state.withLock { state -> [HTTPClientConnection] in
            defer { self.setTimer(&state) }
            return state.idle.giveBack(connection, connection.key, now: now)
        }
        for connection in evicted { connection.close() }
    }

    /// Forgets a connection that was closed.
    func remove(_ connection: HTTPClientConnection) {
        self.state.withLock { $0.idle.remove(connection) }
    }

    func timerFired() {
        let now = self.loop.now
        let expired = self.state.withLock { state -> [HTTPClientConnection] in
            _ = state.timer.cancel()
            defer { self.setTimer(&state) }
            return state.idle.expire(now: now)
        }
        for connection in expired { connection.close() }
    }

    /// The timer isn't moved when a connection is lent or closed: it fires early then.
    private func setTimer(_ state: inout State) {
        if let instant = state.timer.setDeadline(state.idle.nextDeadline) { self.loop.schedule(self, at: instant) }
    }
}
