public import RealtimeCore

/// Closures that decide what a server accepts.
public struct SignalRServerHooks: Sendable {
    /// Decides whether a client may negotiate or connect, and who it is.
    ///
    /// The server calls the closure for each negotiation, for each WebSocket, for each request of a connection over Server-Sent Events or long
    /// polling, and for each refresh of the authentication, in a task of its own. A request for the connection of another user is rejected
    /// with the status 403, although ASP.NET Core accepts it: the connection token may be stolen. Messages keep the order in which their
    /// requests arrived, whatever the order of the decisions.
    ///
    /// The task is cancelled when the client disconnects, or after ``SignalRServerConfiguration/authenticationTimeout``. If the closure is
    /// `nil`, every client is accepted without a user.
    public var authenticate: (@Sendable (SignalRAuthenticationRequest) async -> SignalRAuthenticationDecision)?
    /// Decides whether a client may refresh the authentication of its connection. If the result is `false`, the server responds with the
    /// status 403, and the connection remains as it is.
    ///
    /// The server calls the closure after ``authenticate`` has accepted the new token for the same user, in the same task. A refresh for
    /// another user is rejected without it. If the closure is `nil`, every such refresh is accepted.
    public var approveRefresh: (@Sendable (SignalRAuthenticationRefresh) async -> Bool)?

    /// Creates hooks that accept every client.
    public init() {}
}

/// A client's request to negotiate, to connect, or to refresh its authentication.
public struct SignalRAuthenticationRequest: Sendable {
    /// The path of the hub.
    public let hub: String
    /// The token of the header field `Authorization: Bearer`, or of the query field `access_token`; `nil` if the request contains neither.
    public let token: String?
    /// Whether the client negotiates. Otherwise, it opens a connection, sends or polls over one, or refreshes its authentication.
    public let isNegotiation: Bool
    /// Whether the client refreshes the authentication of a connection.
    public let isRefresh: Bool
    /// The request, with its path, query and header fields.
    public let request: HTTPRequestHead

    /// Creates a request, for a test of a hook.
    ///
    /// - Parameters:
    ///   - hub: The path of the hub.
    ///   - token: The token, or `nil` for a request without one.
    ///   - isNegotiation: Whether the client negotiates.
    ///   - isRefresh: Whether the client refreshes the authentication of a connection.
    ///   - request: The request.
    public init(hub: String, token: String?, isNegotiation: Bool, isRefresh: Bool = false, request: HTTPRequestHead) {
        self.hub = hub
        self.token = token
        self.isNegotiation = isNegotiation
        self.isRefresh = isRefresh
        self.request = request
    }
}

/// A client's request to refresh the authentication of its connection, with a token that was accepted.
public struct SignalRAuthenticationRefresh: Sendable {
    /// The ID of the connection.
    public let connectionID: String
    /// The ID of the user, which remains the same.
    public let userID: String?
    /// The request with the new token.
    public let authentication: SignalRAuthenticationRequest

    /// Creates a request, for a test of a hook.
    ///
    /// - Parameters:
    ///   - connectionID: The ID of the connection.
    ///   - userID: The ID of the user.
    ///   - authentication: The request with the new token.
    public init(connectionID: String, userID: String?, authentication: SignalRAuthenticationRequest) {
        self.connectionID = connectionID
        self.userID = userID
        self.authentication = authentication
    }
}

/// The decision about a client.
public enum SignalRAuthenticationDecision: Sendable, Hashable {
    /// The client may proceed.
    ///
    /// - Parameters:
    ///   - userID: The ID of the user, for ``HubClients/user(_:)``; `nil` for a client without a user.
    ///   - lifetime: The time after which the token expires, which is reported to clients that can refresh their authentication; `nil` if it
    ///     doesn't expire. The server doesn't close connections whose tokens have expired.
    case accept(userID: String?, lifetime: Duration? = nil)
    /// The client may not proceed, and receives a response with the status: 401 if the token is missing or invalid, 403 if it isn't
    /// permitted.
    case reject(status: Int)
}
