import RealtimeCore

/// Faults that a server injects, to test how clients handle them.
///
/// A connection that is closed sends its delayed messages first. The close frame is sent regardless of faults.
public struct PrimusServerFaults: Sendable, Hashable {
    /// How long the server delays each message. Messages on a connection keep their order.
    public var delay: Duration {
        get { self.connections.delay }
        set { self.connections.delay = newValue }
    }
    /// The probability that a message to a client is dropped, from 0 to 1.
    public var dropRate: Double {
        get { self.connections.dropRate }
        set { self.connections.dropRate = newValue }
    }
    /// Whether the server sends nothing and ignores what it receives, while connections stay open.
    public var isSilent: Bool {
        get { self.connections.isSilent }
        set { self.connections.isSilent = newValue }
    }
    /// Whether the server sends no pings, of Primus and of engine.io, and doesn't mind unanswered ones.
    public var stopsPings = false
    /// The status with which the server rejects new clients, or `nil` to accept them.
    public var refusalStatus: Int?
    /// The status with which the server responds to requests for its specification, or `nil` to publish it.
    public var specStatus: Int?
    /// Whether the server refuses WebSockets of sessions of engine.io that began with polling, with the status 400.
    public var refusesUpgrades = false
    /// Whether the server doesn't answer the probe of a session of engine.io that wants to move to a WebSocket.
    public var ignoresProbes = false
    /// The number of requests with messages of clients over HTTP whose answers are lost next. The server takes the messages, and ends the
    /// client's HTTP connection without an answer. It decreases with each of them.
    public var lostAnswers = 0
    /// The number of requests for messages of the server that fail next with the status 500, as behind a proxy with an error. The server keeps
    /// the sessions. It decreases with each of them.
    public var failedPolls = 0
    /// The faults that are the same for every protocol.
    private(set) var connections = ConnectionFaults()

    /// Creates a value without faults.
    public init() {}
}
