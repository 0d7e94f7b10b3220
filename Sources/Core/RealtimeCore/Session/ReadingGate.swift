/// Decides which connections of a driver are read.
///
/// - While the buffer of a consumer is full, the connections that deliver events aren't read. Other connections are: the handshake of a new
///   one delivers no events.
/// - While someone waits for messages of the peer, connections are read all the same: the awaited message may be behind those that fill the
///   buffer, and the consumer may be the one that waits.
/// - Unless a consumer has fallen far behind: then its connection isn't read until it has caught up, or until a time limit, after which the
///   machine gives the consumer up.
/// - A machine can pause a connection on its own. It is read again when neither the machine nor a consumer prevents it.
///
/// Methods return the connections to resume, in the order of their numbers.
struct ReadingGate: Sendable {
    /// The time that a consumer that has fallen far behind stops a connection while someone waits for the peer.
    static var overflowLimit: Duration { .seconds(30) }

    /// A set instead of a count: a consumer may be removed after it has emptied its buffer, but before it has reported that.
    private var fullConsumers: Set<ConsumerID> = []
    /// The consumers that have fallen far behind, and the connections whose events they don't take.
    private var overflows = Deadlines<ConsumerID, ConnectionID?>()
    private var pausedForConsumers: Set<ConnectionID> = []
    private var pausedByMachine: Set<ConnectionID> = []
    /// The number of callers whose result depends on messages of the peer.
    private var waiterCount = 0

    /// When to call ``popOverdue(now:)``.
    var nextDeadline: Instant? { self.overflows.earliest }

    /// Whether no connection is paused because of a consumer.
    var isOpen: Bool { self.pausedForConsumers.isEmpty }

    func isPaused(_ id: ConnectionID) -> Bool { self.pausedForConsumers.contains(id) || self.pausedByMachine.contains(id) }

    /// Whether someone waits for messages of the peer: a caller, or the task of a consumer.
    func awaitsPeer(_ isReaderWaiting: () -> Bool) -> Bool { self.waiterCount > 0 || isReaderWaiting() }

    // MARK: Callers and tasks that wait for the peer

    mutating func waiterBegan() -> [ConnectionID] {
        self.waiterCount += 1
        return self.readerWaits()
    }

    mutating func waiterEnded() { self.waiterCount -= 1 }

    /// The task of a consumer began to wait for the peer.
    mutating func readerWaits() -> [ConnectionID] { self.overflows.isEmpty ? self.resumeAll() : [] }

    // MARK: Consumers

    mutating func becameFull(_ consumer: ConsumerID) { self.fullConsumers.insert(consumer) }

    /// Decides about a connection whose events were delivered.
    ///
    /// - Parameters:
    ///   - id: The connection; `nil` for events without one.
    ///   - isFull: Whether the buffer of any consumer of the events is full.
    ///   - overflowing: The consumers of the events that have fallen far behind.
    ///   - isReaderWaiting: Whether the task of a consumer waits for the peer.
    /// - Returns: Whether to pause the connection.
    mutating func delivered(
        on id: ConnectionID?, isFull: Bool, overflowing: [ConsumerID], now: Instant, isReaderWaiting: () -> Bool
    ) -> Bool {
        guard isFull || !overflowing.isEmpty else { return false }
        let awaitsPeer = self.awaitsPeer(isReaderWaiting)
        if awaitsPeer {
            for consumer in overflowing where !self.overflows.contains(consumer) {
                self.overflows.set(consumer, now.advanced(by: Self.overflowLimit), id)
            }
        }
        guard isFull, let id, !awaitsPeer || !self.overflows.isEmpty, !self.pausedForConsumers.contains(id) else { return false }
        self.pausedForConsumers.insert(id)
        return !self.pausedByMachine.contains(id)
    }

    /// The buffer of a consumer isn't full any more, or the consumer was removed.
    mutating func isNotFull(_ consumer: ConsumerID, isReaderWaiting: () -> Bool) -> [ConnectionID] {
        self.overflows.remove(consumer)
        guard self.fullConsumers.remove(consumer) != nil else { return [] }
        guard self.fullConsumers.isEmpty || (self.overflows.isEmpty && self.awaitsPeer(isReaderWaiting)) else { return [] }
        return self.resumeAll()
    }

    /// Removes a consumer that has been far behind for too long.
    mutating func popOverdue(now: Instant) -> ConsumerID? { self.overflows.popDue(now)?.key }

    // MARK: Connections

    /// The machine pauses or resumes the reading of a connection.
    ///
    /// - Returns: Whether that makes a difference.
    mutating func setPaused(_ isPaused: Bool, _ id: ConnectionID) -> Bool {
        let wasPaused = self.isPaused(id)
        if isPaused { self.pausedByMachine.insert(id) } else { self.pausedByMachine.remove(id) }
        return self.isPaused(id) != wasPaused
    }

    /// A connection has ended or is abandoned. Consumers that have fallen behind on it don't fail because of it any more.
    mutating func removed(_ id: ConnectionID, isReaderWaiting: () -> Bool) -> [ConnectionID] {
        self.pausedForConsumers.remove(id)
        self.pausedByMachine.remove(id)
        guard !self.overflows.isEmpty else { return [] }
        self.overflows.removeAll { $0 == id }
        // Other connections aren't read because of these consumers either, and nothing else would resume them.
        return self.overflows.isEmpty && self.awaitsPeer(isReaderWaiting) ? self.resumeAll() : []
    }

    private mutating func resumeAll() -> [ConnectionID] {
        guard !self.pausedForConsumers.isEmpty else { return [] }
        defer { self.pausedForConsumers = [] }
        return self.pausedForConsumers.sorted().filter { !self.pausedByMachine.contains($0) }
    }
}
