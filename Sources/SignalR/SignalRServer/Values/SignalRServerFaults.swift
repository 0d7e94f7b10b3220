import RealtimeCore
public import SignalRWire

/// Faults that a server injects, to test how clients handle them.
///
/// A connection that is closed sends its delayed messages first. The close frame is sent regardless of faults.
public struct SignalRServerFaults: Sendable, Hashable {
    /// How long the server delays each message. Messages on a connection keep their order.
    public var delay: Duration {
        get { self.connections.delay }
        set { self.connections.delay = newValue }
    }
    /// The probability that a message to a client is dropped, from 0 to 1.
    public var dropRate: Double {
        get { self.connections.dropRate }
        set { self.connections.dropRate = newValue }
    }
    /// Whether the server sends nothing and ignores what it receives, while connections stay open.
    public var isSilent: Bool {
        get { self.connections.isSilent }
        set { self.connections.isSilent = newValue }
    }
    /// The number of requests that the server rejects next with the status 401: negotiations, WebSockets, refreshes of the authentication,
    /// and all requests of connections over Server-Sent Events and long polling. It decreases with each of them.
    public var unauthorizedRequests = 0
    /// Tokens that have expired: the server rejects requests with them with the status 401. Existing connections stay open.
    public var expiredTokens: Set<String> = []
    /// The status with which the server responds to negotiations, or `nil` to negotiate.
    public var negotiationStatus: Int?
    /// The error with which the server responds to negotiations, or `nil` to negotiate.
    public var negotiationError: String?
    /// The transports with which no client can open a connection, although negotiations offer them. Existing connections stay open.
    public var refusedTransports: HubTransportKinds = []
    /// The status with which the server responds to requests that would open a connection with one of ``refusedTransports``.
    public var refusedTransportStatus = 503
    /// The number of `POST` requests of connections over Server-Sent Events and long polling whose answers are lost next. The server takes
    /// their messages, and ends the client's HTTP connection without an answer. It decreases with each of them.
    public var lostAnswers = 0
    /// The faults that are the same for every protocol.
    private(set) var connections = ConnectionFaults()

    /// Creates a value without faults.
    public init() {}

    /// The status with which a request that would open a connection is refused.
    func refusal(of transport: HubTransport) -> Int? { self.refusedTransports.contains(transport) ? self.refusedTransportStatus : nil }

    /// Whether the answer to a request is lost. Counts the request.
    mutating func losesAnswer() -> Bool {
        guard self.lostAnswers > 0 else { return false }
        self.lostAnswers -= 1
        return true
    }

    /// The status with which a request is rejected. Counts the request.
    mutating func rejection(token: String?) -> Int? {
        if self.unauthorizedRequests > 0 {
            self.unauthorizedRequests -= 1
            return 401
        }
        return token.map { self.expiredTokens.contains($0) } == true ? 401 : nil
    }
}
