/// How a client receives events as deltas from earlier ones.
///
/// Set it as ``PusherConfiguration/deltaCompression``. The server has to support it, which the Pusher service doesn't:
///
/// ```swift
/// var configuration = PusherConfiguration(key: "app-key", host: "127.0.0.1", port: 6001, useTLS: false)
/// configuration.deltaCompression = .fossil
/// ```
public enum PusherDeltaCompression: Sendable, Hashable {
    /// The compression of sockudo with the algorithm Fossil, as in its default settings, and version 2 of the protocol.
    ///
    /// The server sends the first events of a name completely, and then, for some time, only how each differs from the one before. Your app
    /// receives complete events. Events of encrypted channels and client events aren't compressed.
    ///
    /// If a delta can't be applied, the client drops the event, reports an error with the code ``PusherError/Code/deltaFailed``, and asks
    /// the server to send complete events again. With ``PusherConfiguration/recovery``, it then requests the dropped event, and delivers it in
    /// its place; otherwise, it reports a ``PusherGap``. Other events aren't affected.
    ///
    /// If the server uses another algorithm, such as xdelta3, the client reports an error with the same code and reconnects without
    /// compression.
    case fossil
}
