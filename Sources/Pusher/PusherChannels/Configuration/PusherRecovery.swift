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
