import RealtimeCore

/// The client events that were sent on the current connection within the last second, and those that wait because of the limit.
///
/// At most as many events as the limit are sent within any period of ``window``. A bucket of tokens would be simpler, but allows twice as
/// many events within the second that follows a pause, and servers that count the events of a second reject the second half.
///
/// Without events, it allocates no memory.
struct ClientEventLimiter: Sendable {
    struct Waiting: Sendable {
        var channel: ChannelID
        var message: TransportMessage
    }

    /// The length of a second, with a reserve: if the network delays some events more than later ones, they arrive closer together than they
    /// were sent.
    static let window: Int64 = 1_100_000_000

    /// When the latest events were sent. Once it has as many elements as the limit, the oldest one is replaced.
    private var sent: [Instant] = []
    private var oldest = 0
    /// The events that wait, in the order in which they are sent.
    private(set) var waiting: [Waiting] = []

    /// When the next event that waits may be sent.
    var nextDeadline: Instant? { self.waiting.isEmpty || self.sent.isEmpty ? nil : self.sent[self.oldest] + Self.window }

    /// Counts an event, unless it has to wait.
    ///
    /// - Parameter limit: The maximum number of events, which is the same for all calls until ``reset()``.
    /// - Returns: Whether to send the event now.
    mutating func admit(limit: Int, now: Instant) -> Bool {
        self.waiting.isEmpty && self.count(limit: limit, now: now)
    }

    private mutating func count(limit: Int, now: Instant) -> Bool {
        guard self.sent.count >= limit else {
            self.sent.append(now)
            return true
        }
        guard self.sent[self.oldest] + Self.window <= now else { return false }
        self.sent[self.oldest] = now
        self.oldest = (self.oldest + 1) % self.sent.count
        return true
    }

    /// Appends an event that ``admit(limit:now:)`` did not admit.
    mutating func enqueue(_ message: TransportMessage, on channel: ChannelID) {
        self.waiting.append(Waiting(channel: channel, message: message))
    }

    /// Removes and counts the waiting events that may be sent now.
    mutating func takeDue(limit: Int, now: Instant) -> [Waiting] {
        var count = 0
        while count < self.waiting.count, self.count(limit: limit, now: now) { count += 1 }
        guard count > 0 else { return [] }
        let due = Array(self.waiting.prefix(count))
        self.waiting.removeFirst(count)
        return due
    }

    /// Removes the waiting events of a channel.
    mutating func remove(_ channel: ChannelID) {
        if !self.waiting.isEmpty { self.waiting.removeAll { $0.channel == channel } }
    }

    /// Forgets the events of a connection that has ended.
    ///
    /// - Returns: The events that were waiting.
    mutating func reset() -> [Waiting] {
        defer { self = Self() }
        return self.waiting
    }
}
