internal import RealtimeCore

/// The peer of a connection. Requests with the same key can use the same connection, if they have the same TLS settings.
struct ConnectionKey: Hashable, Sendable {
    let scheme: String
    let host: String
    let port: Int
    let proxy: ProxyServer?

    init(_ endpoint: Endpoint, proxy: ProxyServer?) {
        (self.scheme, self.host, self.port) = (endpoint.scheme, endpoint.host, endpoint.port)
        self.proxy = proxy
    }
}

/// The idle connections of a transport.
///
/// ```
///   in use ── giveBack ──▶ idle ── lend ──▶ in use
///                           └── expire, remove, evicted by giveBack ──▶ closed by the caller
/// ```
struct ConnectionPoolState<Connection: Equatable & Sendable>: Sendable {
    private struct Idle: Sendable {
        let connection: Connection
        let key: ConnectionKey
        let since: Instant
    }

    private let limits: KeepAliveLimits
    private let idleTime: Int64
    private let unrepeatableIdleTime: Int64
    /// In the order in which they became idle.
    private var idle: [Idle] = []

    init(_ limits: KeepAliveLimits) {
        self.limits = limits
        self.idleTime = limits.idleTime.nanoseconds
        self.unrepeatableIdleTime = limits.unrepeatableIdleTime.nanoseconds
    }

    var count: Int { self.idle.count }

    /// The instant at which to call ``expire(now:)``.
    var nextDeadline: Instant? { self.idle.first.map { $0.since + self.idleTime } }

    /// Takes the connection that was used last: servers close those first that have been idle for longer.
    ///
    /// - Returns: `nil` if a new connection is needed.
    mutating func lend(_ key: ConnectionKey, isRepeatable: Bool, now: Instant) -> Connection? {
        guard let index = self.idle.lastIndex(where: { $0.key == key }) else { return nil }
        // The timer may be late, and another thread may have given the connection back after this one has read the time.
        let limit = isRepeatable ? self.idleTime : min(self.idleTime, self.unrepeatableIdleTime)
        guard limit > 0, now < self.idle[index].since + limit else { return nil }
        return self.idle.remove(at: index).connection
    }

    /// Keeps a connection.
    ///
    /// - Returns: The connections to close so that the limits are kept, which may include this one.
    mutating func giveBack(_ connection: Connection, _ key: ConnectionKey, now: Instant) -> [Connection] {
        guard !self.limits.isOff else { return [connection] }
        self.idle.append(Idle(connection: connection, key: key, since: now))
        var evicted: [Connection] = []
        if self.idle.count(where: { $0.key == key }) > self.limits.connectionsPerOrigin,
            let oldest = self.idle.firstIndex(where: { $0.key == key })
        {
            evicted.append(self.idle.remove(at: oldest).connection)
        }
        if self.idle.count > self.limits.connections { evicted.append(self.idle.removeFirst().connection) }
        return evicted
    }

    /// Forgets a connection that was closed.
    mutating func remove(_ connection: Connection) {
        self.idle.removeAll { $0.connection == connection }
    }

    /// - Returns: The connections to close because they were idle for too long.
    mutating func expire(now: Instant) -> [Connection] {
        let count = self.idle.prefix { $0.since + self.idleTime <= now }.count
        defer { self.idle.removeFirst(count) }
        return self.idle[..<count].map(\.connection)
    }

    /// - Returns: All connections, to be closed.
    mutating func removeAll() -> [Connection] {
        defer { self.idle = [] }
        return self.idle.map(\.connection)
    }
}
