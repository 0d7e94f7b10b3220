public import RealtimeCore
import RealtimeCoding
import RealtimeSystem

/// The user of a client's connection.
///
/// A user who is signed in receives events that your server sends to the user instead of a channel, and is told when the users of a
/// watchlist come online and go offline. Your server can also end all connections of a user.
///
/// ```swift
/// client.user.signIn()
/// for await event in client.user.events("notification") {
///     print(event)
/// }
/// ```
/// The client needs a ``PusherConfiguration/userAuthenticator``. Once you have asked for it, it signs in again after every reconnect.
///
/// You get the user from ``PusherClient/user``. All values for the same client are interchangeable. You can call every method from any
/// thread, actor, or task.
public struct PusherUser: Sendable {
    private let client: PusherClient

    init(_ client: PusherClient) {
        self.client = client
    }

    /// Signs in, as soon as the client is connected, and again after every reconnect.
    ///
    /// This method returns immediately; use ``signedIn(within:)`` to wait. Calling it again has no effect, except that a failed sign-in is
    /// retried. A connection can't change its user, and the protocol has no way to sign out: disconnect instead, and use another client for
    /// another user.
    public func signIn() { self.client.stepSession { $0.signIn(now: $1, &$2) } }

    /// The current state of the sign-in.
    public var state: PusherSignInState { self.client.readSession { $0.user.publicState } }

    /// A sequence of the current ``state``, followed by every state that it changes to.
    ///
    /// No change is missing or repeated between the current state and the first change. The sequence continues across reconnects and finishes
    /// when the client is released. Cancelling the task of a loop ends the loop, and doesn't affect the client.
    public var states: EventSequence<PusherSignInState> {
        self.client.sequence(of: .userStates, .standard, .client, startingWith: { $0.user.publicState }) {
            if case .user(let state) = $0 { state } else { nil }
        }
    }

    /// Waits until the user is signed in.
    ///
    /// This method neither connects nor signs in: call ``PusherClient/connect()`` and ``signIn()`` first. If the task is cancelled, the call
    /// throws immediately; the client isn't affected.
    ///
    /// - Parameter limit: The maximum time to wait. The default is 30 seconds.
    /// - Returns: The user.
    /// - Throws: A ``PusherError`` with the code
    ///   - ``PusherError/Code/timedOut`` if the time limit expires,
    ///   - ``PusherError/Code/cancelled`` if the task is cancelled,
    ///   - ``PusherError/Code/disconnected``, ``PusherError/Code/rejected``, ``PusherError/Code/failed`` or
    ///     ``PusherError/Code/invalidConfiguration`` if the client stops connecting.
    ///
    ///   If the sign-in fails, its error is thrown.
    @discardableResult
    public func signedIn(within limit: Duration = .seconds(30)) async throws(PusherError) -> PusherMember {
        try await self.client.awaitSignedIn(within: limit)
    }

    /// Returns the events that servers send to the user, from now on.
    ///
    /// The sequence continues across reconnects. It finishes when the client is disconnected, or when the connection ends in a way that the
    /// client doesn't recover from. It can be created before the user is signed in.
    ///
    /// - Parameters:
    ///   - name: The name of the events, or `nil` for all events.
    ///   - buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own, in the order in which the server sent the events.
    public func events(_ name: String? = nil, buffer: BufferPolicy = .standard) -> EventSequence<PusherEvent> {
        self.client.eventSequence(.userEvents(name: name), buffer)
    }

    /// Returns the decoded data of the events with a name that servers send to the user, from now on.
    ///
    /// Events that can't be decoded are skipped and reported, as in ``PusherChannel/events(_:as:with:buffer:)``. The sequence
    /// continues and finishes as with ``events(_:buffer:)``.
    ///
    /// - Parameters:
    ///   - name: The name of the events.
    ///   - type: The type to decode.
    ///   - decoder: A decoder with the settings to use.
    ///   - buffer: The policy for events that the consumer hasn't received yet.
    /// - Returns: A sequence with a buffer of its own.
    public func events<Value: Decodable>(
        _ name: String, as type: Value.Type, with decoder: JSONValueDecoder = JSONValueDecoder(), buffer: BufferPolicy = .standard
    ) -> PusherDecodedEvents<Value> {
        self.client.decodedEvents(.userEvents(name: name), decoder, buffer)
    }

    /// A sequence of the changes of the users in the user's watchlist, from now on.
    ///
    /// After each sign-in, the server reports the users who are online and those who are offline. The sequence continues and finishes like
    /// that of ``events(_:buffer:)``.
    public var watchlistChanges: EventSequence<PusherWatchlistChange> {
        self.client.sequence(of: .watchlist, .standard, .connection) { if case .watchlist(let change) = $0 { change } else { nil } }
    }
}
