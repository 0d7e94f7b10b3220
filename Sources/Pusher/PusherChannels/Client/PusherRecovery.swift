/// How a client recovers the events that it missed while its connection was interrupted.
///
/// Set it as ``PusherConfiguration/recovery``. The server has to support it, which the Pusher service doesn't:
///
/// ```swift
/// var configuration = PusherConfiguration(key: "app-key", host: "127.0.0.1", port: 6001, useTLS: false)
/// configuration.recovery = .sockudo
/// ```
public enum PusherRecovery: Sendable, Hashable {
    /// The recovery of sockudo, with version 2 of the protocol.
    ///
    /// The server numbers the events of a channel, and keeps the last ones for a while. After a reconnect, the client requests those that
    /// it missed, and delivers them before newer ones: each event once, and in the order of their numbers. Then no ``PusherGap`` is
    /// reported. If the server no longer has the events, the gap is reported with the reason; see ``PusherGap/recoveryFailure``.
    ///
    /// Events of encrypted channels and client events are recovered as well. Events for a user aren't. With version 2, a client that sends
    /// a client event receives it too.
    case sockudo
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
