import RealtimeCore

/// Faults that a server injects, to test how clients handle them.
///
/// A connection that is closed sends its delayed messages first. The close frame is sent regardless of faults.
public struct SignalRServerFaults: Sendable, Hashable {
    /// How long the server delays each message. Messages on a connection keep their order.
    public var delay: Duration {
        get { self.connections.delay }
        set { self.connections.delay = newValue }
    }
    /// The probability that a WebSocket message to a client is dropped, from 0 to 1.
    public var dropRate: Double {
        get { self.connections.dropRate }
        set { self.connections.dropRate = newValue }
    }
    /// Whether the server sends nothing and ignores what it receives, while connections stay open.
    public var isSilent: Bool {
        get { self.connections.isSilent }
        set { self.connections.isSilent = newValue }
    }
    /// The number of requests that the server rejects next with the status 401: negotiations, WebSockets and refreshes of the
    /// authentication. It decreases with each of them.
    public var unauthorizedRequests = 0
    /// Tokens that have expired: the server rejects requests with them with the status 401. Existing connections stay open.
    public var expiredTokens: Set<String> = []
    /// The status with which the server responds to negotiations, or `nil` to negotiate.
    public var negotiationStatus: Int?
    /// The error with which the server responds to negotiations, or `nil` to negotiate.
    public var negotiationError: String?
    /// The faults that are the same for every protocol.
    private(set) var connections = ConnectionFaults()

    /// Creates a value without faults.
    public init() {}

    /// The status with which a request is rejected. Counts the request.
    mutating func rejection(token: String?) -> Int? {
        if self.unauthorizedRequests > 0 {
            self.unauthorizedRequests -= 1
            return 401
        }
        return token.map { self.expiredTokens.contains($0) } == true ? 401 : nil
    }
}
