/// The state of a client's sign-in.
public enum PusherSignInState: Hashable, Sendable {
    /// The client hasn't been asked to sign in.
    case signedOut
    /// The client signs in as soon as it is connected and the user is authenticated. A sign-in returns to this state when the connection is
    /// lost.
    case pending
    /// The user is signed in.
    case signedIn(PusherMember)
    /// The user was rejected, or the sign-in timed out.
    ///
    /// The client retries after a reconnect and when ``PusherUser/signIn()`` is called. It also retries with growing delays if the failure
    /// may be temporary, like a failed subscription; see ``PusherSubscriptionState/failed(_:)``.
    indirect case failed(PusherError)
}

/// A change of users in a watchlist.
public enum PusherWatchlistChange: Hashable, Sendable {
    /// The users with these IDs are online: each has a connection.
    case online([String])
    /// The users with these IDs have no connection.
    case offline([String])
}
