/// The idle connections that a ``SocketHTTPTransport`` keeps open for later requests.
///
/// A connection is kept only if the server allows it and its response has been read to the end. A connection that the server closes, or
/// on which it sends anything between two responses, is closed immediately.
public struct KeepAliveLimits: Sendable, Hashable {
    /// Limits under which no connection is kept: each request has its own connection, and asks the server to close it.
    public static let off: KeepAliveLimits = {
        var limits = KeepAliveLimits()
        limits.connections = 0
        return limits
    }()

    /// The maximum number of idle connections. The default is 64; 0 turns keep-alive off.
    ///
    /// To keep another one, the transport closes the connection that has been idle for the longest time. Connections with a request in
    /// progress don't count, and their number isn't limited.
    public var connections = 64
    /// The maximum number of idle connections to the same scheme, host and port through the same proxy. The default is 32; 0 turns keep-alive
    /// off.
    ///
    /// It should be at least the number of requests that run at the same time: their connections may become idle at the same time, before
    /// the next requests are sent.
    public var connectionsPerOrigin = 32
    /// The time for which an idle connection is kept. The default is 30 seconds.
    ///
    /// It should be shorter than the time for which the servers keep theirs.
    public var idleTime = Duration.seconds(30)
    /// The time for which a connection may have been idle when a request is sent on it that can't be repeated. The default is 2 seconds.
    ///
    /// A server may close an idle connection at the moment when a request is sent. The transport then sends the request again if
    /// `HTTPRequest.isRepeatable` is `true`. Any other request would fail, so it is sent only on a new connection or on one that was in use a
    /// short time ago. If the time is zero, each such request has a new connection.
    public var unrepeatableIdleTime = Duration.seconds(2)

    /// Creates limits with the default values.
    public init() {}

    var isOff: Bool { self.connections <= 0 || self.connectionsPerOrigin <= 0 || self.idleTime <= .zero }
}
