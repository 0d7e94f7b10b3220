import RealtimeSystem

/// Faults of a connection, for tests of how the peer handles them.
package struct ConnectionFaults: Sendable, Hashable {
    /// How long each sent message is delayed. Messages keep their order.
    package var delay: Duration = .zero
    /// The probability that a sent message is dropped, from 0 to 1.
    package var dropRate: Double = 0
    /// Whether nothing is sent and received messages are ignored, while the connection stays open.
    package var isSilent = false

    package init() {}
}

/// Injects faults into the connections that it decorates. It knows no protocol, so that any server can use it.
package final class FaultInjector: Sendable {
    private struct Reference: Sendable {
        weak var connection: FaultyConnection?
    }

    private struct State: Sendable {
        var faults = ConnectionFaults()
        var generator: SplitMix64
        var connections: [ConnectionID: Reference] = [:]
    }

    private let time: any TimeSource
    private let state: Lock<State>

    /// Creates an injector without faults.
    ///
    /// - Parameters:
    ///   - time: The clock of the delays.
    ///   - seed: The seed of the random numbers that decide which messages are dropped.
    package init(time: any TimeSource, seed: UInt64) {
        self.time = time
        self.state = Lock(State(generator: SplitMix64(seed: seed)))
    }

    /// The faults of all connections, including later ones.
    package var faults: ConnectionFaults {
        get { self.state.withLock { $0.faults } }
        set {
            let connections = self.state.withLock { state in
                state.faults = newValue
                return state.connections.values.compactMap(\.connection)
            }
            for connection in connections { connection.set(newValue) }
        }
    }

    /// Decorates a connection that a listener accepted.
    ///
    /// - Parameters:
    ///   - connection: The connection.
    ///   - id: The ID of the connection.
    ///   - events: The object that receives the events of the connection.
    /// - Returns: The connection with faults, which `events` uses instead, and which receives the events of `connection`.
    package func decorate(_ connection: any WebSocketConnection, id: ConnectionID, events: any WebSocketEvents) -> FaultyConnection {
        self.state.withLock { state in
            let seed = state.generator.next()
            let faulty = FaultyConnection(
                connection, id, events: events, injector: self, time: self.time, faults: state.faults, seed: seed)
            state.connections[id] = Reference(connection: faulty)
            return faulty
        }
    }

    /// Returns the connection with this ID; `nil` if it has ended.
    package func connection(_ id: ConnectionID) -> FaultyConnection? { self.state.withLock { $0.connections[id]?.connection } }

    fileprivate func remove(_ id: ConnectionID) {
        _ = self.state.withLock { $0.connections.removeValue(forKey: id) }
    }
}

/// A connection with injected faults, around another connection. It passes everything on that its faults don't affect.
///
/// Create it with ``FaultInjector/decorate(_:id:events:)``, and pass it to the listener as the receiver of the connection's events.
package final class FaultyConnection: WebSocketConnection, WebSocketEvents, TimerClient {
    private struct State: Sendable {
        /// Released when the connection has ended, because the receiver retains the connection.
        var events: (any WebSocketEvents)?
        var faults: ConnectionFaults
        var isSilenced = false
        var generator: SplitMix64
        /// Messages that are still delayed, in the order in which they are due. Those before `first` have been sent.
        var delayed: [(due: Instant, message: WebSocketMessage)] = []
        var first = 0
        var timer = CoalescedTimer()

        var isSilent: Bool { self.isSilenced || self.faults.isSilent }
        var next: (due: Instant, message: WebSocketMessage)? { self.first < self.delayed.count ? self.delayed[self.first] : nil }

        mutating func removeNext() {
            self.first += 1
            // Moving the remaining messages only when half have been sent keeps sending cheap.
            guard 2 * self.first >= self.delayed.count else { return }
            self.delayed.removeFirst(self.first)
            self.first = 0
        }
    }

    private let connection: any WebSocketConnection
    private let id: ConnectionID
    private let injector: FaultInjector
    private let time: any TimeSource
    private let state: Lock<State>

    fileprivate init(
        _ connection: any WebSocketConnection, _ id: ConnectionID, events: any WebSocketEvents, injector: FaultInjector,
        time: any TimeSource, faults: ConnectionFaults, seed: UInt64
    ) {
        self.connection = connection
        self.id = id
        self.injector = injector
        self.time = time
        self.state = Lock(State(events: events, faults: faults, generator: SplitMix64(seed: seed)))
    }

    // MARK: Faults

    /// Whether the connection sends nothing and ignores what it receives, because of its own silence or that of all connections.
    package var isSilent: Bool { self.state.withLock { $0.isSilent } }

    /// Makes this connection silent, in addition to the faults of all connections, or ends its silence.
    package func silence(_ isSilent: Bool) { self.state.withLock { $0.isSilenced = isSilent } }

    /// Sends a message regardless of faults. It overtakes delayed messages.
    package func sendUnaffected(_ message: WebSocketMessage) {
        self.connection.enqueue(message)
        self.connection.flush()
    }

    fileprivate func set(_ faults: ConnectionFaults) { self.state.withLock { $0.faults = faults } }

    // MARK: WebSocketConnection

    package func open() { self.connection.open() }

    package func enqueue(_ message: WebSocketMessage) {
        self.state.withLock { state in
            if state.isSilent { return }
            let faults = state.faults
            if faults.dropRate > 0, Double.random(in: 0..<1, using: &state.generator) < faults.dropRate { return }
            // Under the lock, so that messages keep their order.
            guard faults.delay > .zero || state.next != nil else { return self.connection.enqueue(message) }
            var due = self.time.now.advanced(by: max(.zero, faults.delay))
            if let last = state.delayed.last { due = max(due, last.due) }
            state.delayed.append((due, message))
            self.schedule(&state)
        }
    }

    package func flush() { self.connection.flush() }

    package func pauseReading() { self.connection.pauseReading() }

    package func resumeReading() { self.connection.resumeReading() }

    /// Sends all delayed messages, and closes the connection regardless of faults.
    package func close(_ code: CloseCode, reason: String) {
        self.state.withLock { self.sendDelayed(until: .max, &$0) }
        self.connection.close(code, reason: reason)
    }

    package func abandon() {
        _ = self.end()
        self.connection.abandon()
    }

    // MARK: WebSocketEvents

    package func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.state.withLock { $0.events }?.opened(id, head: head)
    }

    package func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        self.state.withLock { $0.isSilent ? nil : $0.events }?.received(id, batch)
    }

    package func writing(_ id: ConnectionID, paused: Bool) { self.state.withLock { $0.events }?.writing(id, paused: paused) }

    package func closed(_ id: ConnectionID, _ reason: CloseReason) { self.end()?.closed(id, reason) }

    /// Discards delayed messages.
    ///
    /// - Returns: The receiver of the events, unless the connection ended before.
    private func end() -> (any WebSocketEvents)? {
        self.injector.remove(self.id)
        return self.state.withLock { state in
            (state.delayed, state.first) = ([], 0)
            if state.timer.cancel() { self.time.schedule(self, at: nil) }
            return state.events.take()
        }
    }

    // MARK: Delayed messages

    package func timerFired() {
        let isSending = self.state.withLock { state in
            let now = self.time.now
            switch state.timer.fired(now: now) {
            case .idle: return false
            case .early(let instant):
                self.time.schedule(self, at: instant)
                return false
            case .due:
                self.sendDelayed(until: now, &state)
                self.schedule(&state)
                return true
            }
        }
        if isSending { self.connection.flush() }
    }

    private func sendDelayed(until instant: Instant, _ state: inout State) {
        while let next = state.next, next.due <= instant {
            self.connection.enqueue(next.message)
            state.removeNext()
        }
    }

    private func schedule(_ state: inout State) {
        guard let next = state.next, let instant = state.timer.setDeadline(next.due) else { return }
        self.time.schedule(self, at: instant)
    }
}
