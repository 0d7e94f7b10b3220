/// A notice that events of a channel may have been missed, because its subscription was interrupted.
///
/// The service doesn't store events, so that a client can't request those that it missed; with ``PusherConfiguration/recovery``, it
/// requests them from a server that does, and only reports those that it can't get. When an interrupted subscription is restored, the client
/// reports a gap, so that your app can load what it shows again from your server:
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
    /// The time from the last sign of life on the lost connection, or from its orderly end, until this notice. Events of this time may be
    /// missing. The notice comes when the server has confirmed the new subscription, or, with ``PusherConfiguration/recovery``, when the missed
    /// events can't be recovered.
    public let duration: Duration
    /// Why the client couldn't recover the events, or `nil` if it doesn't try; see ``PusherConfiguration/recovery``.
    public let recoveryFailure: PusherRecoveryFailure?

    /// Creates a notice, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - channel: The name of the channel.
    ///   - duration: The time from the interruption until the notice.
    ///   - recoveryFailure: Why the client couldn't recover the events.
    public init(channel: String, duration: Duration, recoveryFailure: PusherRecoveryFailure? = nil) {
        self.channel = channel
        self.duration = duration
        self.recoveryFailure = recoveryFailure
    }
}

/// The reason why a client couldn't recover the events that it missed.
public enum PusherRecoveryFailure: Sendable, Hashable {
    /// The server doesn't support recovery, or it is turned off: it doesn't number the events of the channel, or rejects requests for them.
    case notSupported
    /// The server has begun to count the events again, for example after a restart.
    case streamReset
    /// The server no longer has the events.
    case positionExpired
    /// The server cannot access the stored events at the moment.
    case persistenceUnavailable
    /// The server cannot tell whether its events are complete.
    case continuityUnverifiable
    /// The server didn't respond within ``PusherConfiguration/subscriptionTimeout``.
    case timedOut
    /// Too many new events arrived while the client waited for the missed ones: more than 1,000, or more than 1 MiB.
    case tooManyEvents
    /// The server gave another reason.
    case other(String)

    init(code: String) {
        self =
            switch code {
            case "stream_reset": .streamReset
            case "position_expired": .positionExpired
            case "persistence_unavailable": .persistenceUnavailable
            case "continuity_unverifiable": .continuityUnverifiable
            default: .other(code)
            }
    }
}

extension PusherRecoveryFailure: CustomStringConvertible {
    /// A sentence about the reason, without a period.
    public var description: String {
        switch self {
        case .notSupported: "the server doesn't support the recovery of the channel's events"
        case .streamReset: "the server has begun to count the events again"
        case .positionExpired: "the server no longer has the events"
        case .persistenceUnavailable: "the server cannot access the stored events"
        case .continuityUnverifiable: "the server cannot tell whether its events are complete"
        case .timedOut: "the server didn't respond in time"
        case .tooManyEvents: "too many new events arrived meanwhile"
        case .other(let reason): reason
        }
    }
}
