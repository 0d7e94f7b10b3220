public import RealtimeCore
import RealtimeSystem
import PusherWire

/// A method of authenticating the user of a client.
///
/// An authentication is only valid for one connection, so a client requests a new one after every reconnect. If the connection is lost, the
/// task that runs the authentication is cancelled and its result is ignored.
public struct PusherUserAuthenticator: Sendable {
    enum Kind: Sendable {
        case endpoint(PusherAuthorizationEndpoint)
        case callback(@Sendable (_ socketID: String) async throws -> PusherUserAuthentication)
        case secret(String, PusherMember, watchlist: [String])
    }

    let kind: Kind

    /// Returns an authenticator that sends a request to the application server.
    ///
    /// The request is a `POST` of a form with the field `socket_id`, as all Pusher clients send it. The response must be a JSON object with
    /// the members `auth` and `user_data`.
    ///
    /// - Parameter endpoint: The endpoint and the contents of the request.
    /// - Returns: An authenticator.
    public static func endpoint(_ endpoint: PusherAuthorizationEndpoint) -> PusherUserAuthenticator {
        PusherUserAuthenticator(kind: .endpoint(endpoint))
    }

    /// Returns an authenticator that sends a request to a URL of the application server.
    ///
    /// - Parameters:
    ///   - url: The URL, such as `https://example.org/pusher/user-auth`.
    ///   - headers: Additional header fields, such as `Authorization`.
    /// - Returns: An authenticator.
    /// - Throws: A `TransportError` with the code `invalidURL` if the URL is invalid.
    public static func endpoint(_ url: String, headers: HTTPHeaders = [:]) throws(TransportError) -> PusherUserAuthenticator {
        .endpoint(PusherAuthorizationEndpoint(try Endpoint(url), headers: headers))
    }

    /// Returns an authenticator that calls a closure.
    ///
    /// - Parameter authenticate: A closure that returns the authentication for a connection, whose socket ID it is given. It runs in its own
    ///   task, on no particular actor. An error that it throws fails the sign-in with the code ``PusherError/Code/authorizationFailed`` and
    ///   becomes the ``PusherError/cause`` of that error. The client then retries with growing delays, unless the error is a
    ///   ``PusherAuthorizationRefusal``.
    /// - Returns: An authenticator.
    public static func callback(
        _ authenticate: @escaping @Sendable (_ socketID: String) async throws -> PusherUserAuthentication
    ) -> PusherUserAuthenticator {
        PusherUserAuthenticator(kind: .callback(authenticate))
    }

    /// Returns an authenticator that signs the user in the client, for development and tests.
    ///
    /// - Warning: Anyone who knows the secret can read and publish all events of the app. Never ship the secret with a client.
    ///
    /// - Parameters:
    ///   - secret: The secret of the app.
    ///   - user: The user.
    ///   - watchlist: The IDs of users whose presence the client is told about.
    /// - Returns: An authenticator.
    public static func secret(_ secret: String, user: PusherMember, watchlist: [String] = []) -> PusherUserAuthenticator {
        PusherUserAuthenticator(kind: .secret(secret, user, watchlist: watchlist))
    }
}

/// The signed authentication of a user, as the application server returns it.
///
/// It is encoded as, and decoded from, the JSON object that application servers send to clients. To create one in a backend, use
/// ``PusherPublisher/authenticateUser(socketID:user:watchlist:)``.
public struct PusherUserAuthentication: Sendable, Hashable, Codable {
    /// The key of the app and the signature, in the form `key:signature`.
    public var auth: String
    /// The user as JSON text, exactly as it was signed.
    public var userData: String

    /// Creates an authentication from the members of the application server's response.
    ///
    /// - Parameters:
    ///   - auth: The key of the app and the signature, in the form `key:signature`.
    ///   - userData: The user as JSON text, exactly as it was signed.
    public init(auth: String, userData: String) {
        self.auth = auth
        self.userData = userData
    }

    /// Signs a user the way an application server does.
    init(signing user: PusherMember, watchlist: [String], socketID: String, key: String, secret: String) throws(PusherError) {
        if let error = UserID.validationError(user.id) { throw PusherError(.invalidUser, error) }
        let signed = UserSignature.authenticate(
            socketID: socketID, user: PresenceUser(id: user.id, info: user.info), watchlist: watchlist, key: key, secret: secret)
        self.init(auth: signed.auth, userData: signed.userData)
    }

    /// The names that all clients and servers of the protocol use.
    private enum CodingKeys: String, CodingKey {
        case auth
        case userData = "user_data"
    }
}
