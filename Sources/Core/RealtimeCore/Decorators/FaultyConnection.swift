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

/// Injects faults into the connections of a server's driver. It knows no protocol, so that any server can use it.
///
/// The driver decorates its connections when the first fault is set; see ``SessionDriver/intercept(_:_:)``.
package final class FaultInjector: ConnectionInterceptor {
    private struct State: Sendable {
        var faults = ConnectionFaults()
        var generator: SplitMix64
        var connections: [ConnectionID: FaultyConnection] = [:]
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
                return Array(state.connections.values)
            }
            for connection in connections { connection.set(newValue) }
        }
    }

    /// Makes a connection silent, in addition to the faults of all connections, or ends its silence.
    package func silence(_ id: ConnectionID, _ isSilent: Bool) {
        self.state.withLock { $0.connections[id] }?.silence(isSilent)
    }

    // MARK: ConnectionInterceptor

    package func intercept(_ connection: any MessageConnection, id: ConnectionID) -> any MessageConnection {
        self.state.withLock { state in
            let seed = state.generator.next()
            let faulty = FaultyConnection(connection, time: self.time, faults: state.faults, seed: seed)
            state.connections[id] = faulty
            return faulty
        }
    }

    package func ignoresMessages(of id: ConnectionID) -> Bool { self.state.withLock { $0.connections[id] }?.isSilent ?? false }

    package func ended(_ id: ConnectionID) { self.state.withLock { $0.connections.take(id) }?.discardDelayed() }
}

/// A connection with injected faults, around another connection. It passes everything on that its faults don't affect.
package final class FaultyConnection: ConnectionDecorator, TimerClient {
    private struct State: Sendable {
        var faults: ConnectionFaults
        var isSilenced = false
        var generator: SplitMix64
        /// Messages that are still delayed, in the order in which they are due, and when the last one of them is.
        var delayed = FIFO<(due: Instant, message: TransportMessage)>()
        var lastDue = Instant(nanoseconds: .min)
        var timer = CoalescedTimer()

        var isSilent: Bool { self.isSilenced || self.faults.isSilent }
    }

    /// The connection without faults.
    package let connection: any MessageConnection
    private let time: any TimeSource
    private let state: Lock<State>

    fileprivate init(_ connection: any MessageConnection, time: any TimeSource, faults: ConnectionFaults, seed: UInt64) {
        self.connection = connection
        self.time = time
        self.state = Lock(State(faults: faults, generator: SplitMix64(seed: seed)))
    }

    // MARK: Faults

    /// Whether the connection sends nothing and ignores what it receives, because it or all connections are silent.
    package var isSilent: Bool { self.state.withLock { $0.isSilent } }

    fileprivate func silence(_ isSilent: Bool) { self.state.withLock { $0.isSilenced = isSilent } }

    fileprivate func set(_ faults: ConnectionFaults) { self.state.withLock { $0.faults = faults } }

    // MARK: MessageConnection

    package func enqueue(_ message: TransportMessage) {
        self.state.withLock { state in
            if state.isSilent { return }
            let faults = state.faults
            if faults.dropRate > 0, Double.random(in: 0..<1, using: &state.generator) < faults.dropRate { return }
            // Under the lock, so that messages keep their order.
            guard faults.delay > .zero || !state.delayed.isEmpty else { return self.connection.enqueue(message) }
            let due = max(state.lastDue, self.time.now.advanced(by: max(.zero, faults.delay)))
            state.lastDue = due
            state.delayed.append((due, message))
            self.schedule(&state)
        }
    }

    /// Sends all delayed messages, and closes the connection regardless of faults.
    package func close(_ code: CloseCode, reason: String) {
        self.state.withLock { self.sendDelayed(until: .max, &$0) }
        self.connection.close(code, reason: reason)
    }

    package func abandon() {
        self.discardDelayed()
        self.connection.abandon()
    }

    // MARK: Delayed messages

    /// The connection has ended.
    fileprivate func discardDelayed() {
        self.state.withLock { state in
            state.delayed.removeAll()
            if state.timer.cancel() { self.time.schedule(self, at: nil) }
        }
    }

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
        while let next = state.delayed.first, next.due <= instant {
            self.connection.enqueue(next.message)
            _ = state.delayed.popFirst()
        }
    }

    private func schedule(_ state: inout State) {
        guard let next = state.delayed.first, let instant = state.timer.setDeadline(next.due) else { return }
        self.time.schedule(self, at: instant)
    }
}
