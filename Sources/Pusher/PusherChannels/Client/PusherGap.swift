/// A notice that events of a channel may have been missed, because its subscription was interrupted.
///
/// The service doesn't store events, so that a client can't request those that it missed; with ``PusherConfiguration/recovery``, it
/// requests them from a server that does, and only reports those that it can't get. When an interrupted subscription is restored, the client reports a gap, so that your app can load what
/// it shows again from your server:
///
/// ```swift
/// for await gap in channel.gaps {
///     await reload(changedWithin: gap.duration + .seconds(10))
/// }
/// ```
/// The margin is for events that were on their way when the connection was lost.
public struct PusherGap: Sendable, Hashable {
    /// The name of the channel.
    public let channel: String
    /// How long the subscription was interrupted: the time from the last sign of life on the lost connection, or from its orderly end, until
    /// the server confirmed the new subscription. Events of this time may be missing.
    public let duration: Duration
    /// Why the client couldn't recover the events, or `nil` if it doesn't try; see ``PusherConfiguration/recovery``.
    public let recoveryFailure: PusherRecoveryFailure?

    /// Creates a notice, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - channel: The name of the channel.
    ///   - duration: How long the subscription was interrupted.
    ///   - recoveryFailure: Why the client couldn't recover the events.
    public init(channel: String, duration: Duration, recoveryFailure: PusherRecoveryFailure? = nil) {
        self.channel = channel
        self.duration = duration
        self.recoveryFailure = recoveryFailure
    }
}
