public import RealtimeCore
public import RealtimeCoding

/// A client's request to authenticate its user.
public struct PusherUserAuthenticationAttempt: Sendable {
    /// The socket ID of the client's connection.
    public let socketID: String
    /// The other fields of the form, by their names.
    public let parameters: [String: String]
    /// The request, with its path, query and header fields, such as `Authorization` and `Cookie`.
    public let request: HTTPRequestHead

    /// Creates an attempt, for a test of a closure that decides about it.
    ///
    /// - Parameters:
    ///   - socketID: The socket ID of the client's connection.
    ///   - parameters: The other fields of the form.
    ///   - request: The request.
    public init(
        socketID: String, parameters: [String: String] = [:],
        request: HTTPRequestHead = HTTPRequestHead(method: "POST", target: "/pusher/user-auth")
    ) {
        self.socketID = socketID
        self.parameters = parameters
        self.request = request
    }

    init(_ form: PusherAuthorizationForm) {
        self.init(socketID: form.socketID, parameters: form.parameters, request: form.request)
    }
}

/// The decision about a client's request to authenticate its user.
public enum PusherUserAuthenticationDecision: Sendable, Hashable {
    /// Authenticates the user.
    ///
    /// The ID consists of letters, digits and `_ - = @ , . ;`. The watchlist contains the IDs of users about whom the client is notified
    /// when they come online and go offline.
    case accept(userID: String, userInfo: JSONValue? = nil, watchlist: [String] = [])
    /// Refuses the authentication: the client receives a response with status 403 and the message.
    case reject(message: String = "The user is not authenticated.")
}

extension PusherUserAuthenticationAttempt: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("socketID", self.socketID), ("parameters", self.parameters.mapValues { _ in Redacted.secret }), ("request", self.request),
        ]
    }
}
