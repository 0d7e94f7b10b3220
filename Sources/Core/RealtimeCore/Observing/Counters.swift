/// Traffic and event counts of a connection. They cover all connection attempts and, except for ``lastRoundTrip``, only increase.
public struct Counters: Sendable, Hashable, PrintedParts {
    /// The number of messages received, including pings and pongs.
    public var messagesReceived = 0
    /// The number of payload bytes received, without framing and encryption.
    public var bytesReceived = 0
    /// The number of messages sent.
    public var messagesSent = 0
    /// The number of payload bytes sent, without framing and encryption.
    public var bytesSent = 0
    /// The number of connections established after the first one.
    public var reconnects = 0
    /// The number of times that a connection was continued on another socket, without a loss.
    public var resumes = 0
    /// The number of events dropped because a consumer's buffer was full.
    public var eventsDropped = 0
    /// The number of events that sequences of decoded values skipped because they couldn't be decoded.
    public var decodingFailures = 0
    /// The number of received messages that were ignored because they were invalid or had no recipient.
    public var messagesIgnored = 0
    /// The time between the last ping and the server's response; `nil` before the first response.
    public var lastRoundTrip: Duration?

    /// Creates counters that are all zero.
    public init() {}
}
