import RealtimeCore
import RealtimeSystem

/// The sessions over HTTP whose clients don't ask for messages.
///
/// Those whose clients have never asked, after the request that has opened the session, are known in the order of their opening. Others, which
/// come back sooner or later, are counted once in a while.
struct UnreadSessions: Sendable {
    /// The decision about a client that would open another session.
    enum Room: Equatable, Sendable {
        case available
        /// The session of this client makes room.
        case takes(ByteString)
        case none
    }

    /// The time after which a session counts as unread, and for which a count is valid. A message to all clients answers all polls, and the next
    /// ones take a moment.
    static let time = Duration.seconds(1)

    private let limit: Int
    private var numbers: [ByteString: UInt64] = [:]
    private var lastNumber: UInt64 = 0
    /// Contains some that are removed.
    private var order = FIFO<(key: ByteString, number: UInt64)>()
    /// The number of others that were unread when they were counted, and until when it is valid.
    private var others: (count: Int, until: Instant)?

    init(limit: Int) { self.limit = limit }

    /// The number of sessions whose clients have never asked.
    var count: Int { self.numbers.count }

    /// A client has opened a session, and has no request that waits.
    mutating func add(_ key: ByteString) {
        self.lastNumber += 1
        self.numbers[key] = self.lastNumber
        self.order.append((key, self.lastNumber))
        // Moves the others only after as many were removed.
        if self.order.count > 64 + 2 * self.numbers.count {
            self.order.removeAll { [numbers] in numbers[$0.key] != $0.number }
        }
    }

    /// The client has asked, or the session has ended.
    mutating func remove(_ key: ByteString) { self.numbers[key] = nil }

    /// Decides about another session.
    ///
    /// - Parameters:
    ///   - sessionCount: The number of all sessions.
    ///   - unreadCount: Returns the number of those that have been unread for ``time``, including those that have never been read.
    mutating func room(sessionCount: Int, now: Instant, unreadCount: () -> Int) -> Room {
        guard sessionCount >= self.limit else { return .available }
        if self.count < self.limit {
            if self.others.map({ $0.until <= now }) ?? true {
                self.others = (max(0, unreadCount() - self.count), now.advanced(by: Self.time))
            }
            guard self.count + (self.others?.count ?? 0) >= self.limit else { return .available }
        }
        // The client of the oldest one is the least likely to ask. Refusing new ones would let a single client keep all others out.
        while let oldest = self.order.popFirst() {
            guard self.numbers[oldest.key] == oldest.number else { continue }
            self.numbers[oldest.key] = nil
            return .takes(oldest.key)
        }
        return .none
    }
}
