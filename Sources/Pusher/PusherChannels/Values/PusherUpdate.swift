/// An update of a client or one of its channels.
///
/// ``PusherClient/updates(includingFrames:buffer:)`` delivers updates of all kinds in one order. The other sequences of a client and its
/// channels each contain the updates of one kind.
public enum PusherUpdate: Sendable {
    // The other cases are indirect, so that an array of events is not as large as one of errors.

    /// An event arrived.
    case event(PusherEvent)
    /// The client received this frame, a JSON text. It precedes the updates that the frame causes.
    ///
    /// Frames are only delivered by ``PusherClient/updates(includingFrames:buffer:)`` if you ask for them. They include frames of the
    /// service, frames of channels that the client isn't subscribed to, and invalid ones.
    ///
    /// - Warning: The text is what the server sent, unchanged. It may contain personal data of users, and signatures that the server repeats.
    ///   For texts that can be stored, use ``PusherClient/frames(buffer:)``.
    indirect case frame(String)
    /// The client sends this frame, if you ask for frames. Signatures, tokens and the user data that signatures cover are replaced by
    /// `<redacted>`, and a long text is shortened.
    indirect case sentFrame(String)
    /// An attempt to connect starts. The first attempt of a client has the number 1.
    indirect case attempt(Int)
    /// The connection state changed to this state.
    indirect case state(PusherConnectionState)
    /// The connection was lost or could not be established. The client retries after this delay.
    indirect case connectingIn(Duration)
    /// An error occurred.
    indirect case error(PusherError)
    /// The subscription of a channel changed to this state.
    indirect case subscription(channel: String, PusherSubscriptionState)
    /// The sign-in of the user changed to this state.
    indirect case user(PusherSignInState)
    /// Users in the user's watchlist came online or went offline.
    indirect case watchlist(PusherWatchlistChange)
    /// The members of a presence channel changed.
    indirect case members(channel: String, PusherMemberChange)
    /// A subscription was restored after an interruption, and events may be missing.
    indirect case gap(PusherGap)
    /// The server reported how many connections are subscribed to a channel.
    indirect case subscriptionCount(channel: String, Int)
}
