/// The settings of stateful reconnect, with which a connection survives the loss of its socket.
///
/// Client and server number and store what they send until the other end has acknowledged it. After the loss of the WebSocket, the client
/// opens another one for the same connection, and both ends send what wasn't acknowledged. Each message arrives once and in order.
/// Calls, streams and the results of handlers continue, ``HubClient/connectionID`` stays, and ``HubClient/state`` remains
/// ``HubState/connected(connectionID:)``. Only if the connection can't be resumed, it counts as lost, for the original reason, and
/// ``HubConfiguration/retry`` applies.
///
/// Source: HubProtocol.md of ASP.NET Core, "Ack Message" and "Sequence Message".
public struct HubStatefulReconnect: Hashable, Sendable {
    /// The size of stored messages, in bytes, at which calls and streams to the server wait before they send more. The default is
    /// 100,000, as in other clients.
    ///
    /// ASP.NET Core acknowledges once a second, so this is about what a client can send to it in a second.
    public var bufferBytes: Int
    /// The number of bytes that are stored beyond ``bufferBytes`` for what doesn't wait: the results of handlers, the opening of streams from the
    /// server, and the ends and cancellations of calls. If a server acknowledges so little that more would be stored, the connection ends
    /// with an error with the code ``HubError/Code/bufferOverflow``, and ``HubConfiguration/retry`` applies. The default is 16 MiB.
    ///
    /// A resume sends all stored messages in a row, so the server's own limit for a connection must not be less.
    public var backlogLimit: Int
    /// The time since the loss of a socket within which the client tries to resume the connection. The default is 15 seconds, for which
    /// ASP.NET Core keeps a connection that has lost its socket.
    ///
    /// The first attempt begins immediately. Further ones follow after delays that grow from 100 milliseconds to 2 seconds, until one
    /// succeeds, the server rejects one with a status such as 404, or the time has passed.
    public var timeLimit: Duration

    /// Creates settings.
    ///
    /// - Parameters:
    ///   - bufferBytes: The size of stored messages, in bytes, at which senders wait.
    ///   - backlogLimit: The number of bytes that are stored beyond these for what doesn't wait.
    ///   - timeLimit: The time within which the client tries to resume the connection.
    public init(bufferBytes: Int = 100_000, backlogLimit: Int = 16 << 20, timeLimit: Duration = .seconds(15)) {
        self.bufferBytes = bufferBytes
        self.backlogLimit = backlogLimit
        self.timeLimit = timeLimit
    }
}
