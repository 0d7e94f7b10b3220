/// What happened on a connection so far, as one value. The numbers only grow, over all attempts.
public struct Counters: Sendable, Hashable {
    /// WebSocket messages that came in, pings and pongs among them.
    public var messagesReceived = 0
    /// Their bytes, without frames and encryption.
    public var bytesReceived = 0
    /// WebSocket messages that went out.
    public var messagesSent = 0
    /// Their bytes, without frames and encryption.
    public var bytesSent = 0
    /// Connections made after the first.
    public var reconnects = 0
    /// Events that listeners with a full buffer lost.
    public var eventsDropped = 0
    /// Messages that came in and could not be used: not what the protocol allows, or for nobody.
    public var messagesIgnored = 0
    /// How long the server's answer to the last ping took.
    public var lastRoundTrip: Duration?

    /// All zero.
    public init() {}
}
