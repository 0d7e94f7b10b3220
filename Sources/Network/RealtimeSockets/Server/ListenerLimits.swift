/// What a ``SocketListener`` bears from its clients, anybody's included.
///
/// A client that goes over one of these harms itself alone: it gets the status that is named here, or is cut off.
public struct ListenerLimits: Sendable, Hashable {
    /// How many connections there may be at a time, 65,536 unless set. The next ones wait in the system's queue until
    /// one has ended.
    public var connections = 65_536
    /// The most bytes of a request's head, 64 KiB unless set; a line in it may have a quarter of that. More is answered
    /// with 431, and with 414 when it is the address that is too long.
    public var headBytes = 64 << 10
    /// The most bytes of a request's body, 1 MiB unless set. More is answered with 413.
    public var bodyBytes = 1 << 20
    /// The most bytes of a WebSocket message, 16 MiB unless set. More ends the WebSocket with 1009.
    public var messageBytes = 16 << 20
    /// How long a client may take from the connection, or from the first byte of a later request, to the end of the
    /// head: 10 seconds unless set, and with TLS its handshake is part of it. Later is answered with 408.
    public var headTime = Duration.seconds(10)
    /// How long a client may take for a body, 30 seconds unless set. Later is answered with 408.
    public var bodyTime = Duration.seconds(30)
    /// How long a connection is kept after an answer while no request comes, 60 seconds unless set.
    ///
    /// A client that ends its side of the connection while it waits for an answer counts as gone. It is still sent an
    /// answer that comes within this time, 5 seconds at the most.
    public var idleTime = Duration.seconds(60)
    /// How many bytes of a streamed answer may wait for a client that reads nothing, 1 MiB unless set; with more than
    /// that it has ``stallTime``.
    public var unsentBytes = 1 << 20
    /// How long a client may read nothing while more than ``unsentBytes``, or the rest of a whole answer, wait for it:
    /// 30 seconds unless set. Then it is cut off. One that reads slowly is not.
    public var stallTime = Duration.seconds(30)
    /// How many bytes of messages may wait for the client of a WebSocket, 64 MiB unless set. A client that reads too little
    /// for too long, so that there would be more, is cut off. A single message may be as long as it likes.
    public var backlogBytes = 64 << 20
    /// How long ``SocketListener/stop()`` waits for answers and for WebSockets' last words, 5 seconds unless set. Then
    /// they are cut off.
    public var stopTime = Duration.seconds(5)

    /// The defaults; change what you need.
    public init() {}

    var ofHead: HTTPLimits {
        HTTPLimits(lineBytes: max(1, self.headBytes / 4), headBytes: self.headBytes, fields: HTTPLimits.server.fields)
    }
}
