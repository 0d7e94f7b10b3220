/// An error with which a callback refuses an authorization for good.
///
/// Throw it from a closure of a ``PusherAuthorizer`` or a ``PusherUserAuthenticator`` if another attempt would fail as well, for example
/// because the user isn't a member of the team. The subscription or the sign-in then fails and isn't retried with growing delays, unlike
/// after any other error that the closure throws:
///
/// ```swift
/// configuration.authorizer = .callback { request in
///     guard await session.mayJoin(request.channel) else { throw PusherAuthorizationRefusal("Only members may join.") }
///     return try await session.authorize(request)
/// }
/// ```
/// The ``PusherError`` of the subscription has the code ``PusherError/Code/authorizationFailed``, and the refusal is its
/// ``PusherError/cause``.
public struct PusherAuthorizationRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, which appears in the message of the error and in logs. It must not contain secrets.
    public var reason: String

    /// Creates a refusal.
    ///
    /// - Parameter reason: The reason, as a sentence without secrets.
    public init(_ reason: String = "The subscription is not authorized.") {
        self.reason = reason
    }

    /// The reason.
    public var description: String { self.reason }
}
