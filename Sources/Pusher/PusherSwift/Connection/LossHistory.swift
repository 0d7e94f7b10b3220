import RealtimeCore

/// The recent losses of a connection, as a value: they determine the delay before the next attempt.
struct LossHistory: Sendable {
    /// How the socket reported the last loss.
    var close: (code: UInt16, reason: String?)?
    /// Whether a loss was reported, and neither an attempt nor the end has followed.
    var isPending = false
    /// When the current connection was established.
    private var connectedAt: Instant?
    /// The number of connections in a row that were lost soon after they were established.
    private var shortConnections = 0

    /// A connection that lasts for this long is stable.
    static let stableAfter = Duration.seconds(30)
    /// The number of short connections after which the delays grow.
    static let maximumShortConnections = 3

    /// Whether the server asked to reconnect immediately.
    var isImmediate: Bool { self.close.map { (4200...4299).contains($0.code) } ?? false }
    /// Whether the server closed the connection with a code of the Pusher protocol.
    var isPusherCode: Bool { self.close.map { (4000...4999).contains($0.code) } ?? false }

    /// The shortest delay that the protocol allows, in seconds: the server is over capacity.
    var minimumDelay: Double { self.close.map { (4100...4199).contains($0.code) } == true ? 1 : 0 }

    mutating func connected(now: Instant) { self.connectedAt = now }

    mutating func lost(now: Instant) {
        self.isPending = true
        guard let connectedAt else { return }
        self.shortConnections = connectedAt.advanced(by: Self.stableAfter) <= now ? 0 : self.shortConnections + 1
        self.connectedAt = nil
    }

    mutating func ended() { self = LossHistory() }

    /// Returns the delay before the next attempt in seconds.
    ///
    /// - Parameters:
    ///   - attempts: The number of attempts since the last connection.
    ///   - maximum: The maximum delay.
    func delay(attempts: Int, maximum: Double?) -> Double {
        let maximum = maximum ?? .infinity
        let excess = max(0, self.shortConnections - Self.maximumShortConnections)
        let count = max(self.isImmediate ? 0 : attempts, excess)
        return max(self.minimumDelay, min(Double(count) * Double(count), maximum))
    }
}
