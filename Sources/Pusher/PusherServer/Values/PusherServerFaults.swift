public import RealtimeCore

/// Faults that a server injects, to test how clients handle them.
///
/// A connection that is closed sends its delayed messages first. The close code is sent regardless of faults.
public struct PusherServerFaults: Sendable, Hashable {
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
    /// The close code with which the server rejects new connections, or `nil` to accept them.
    public var rejectionCode: CloseCode?
    /// The faults that are the same for every protocol.
    private(set) var connections = ConnectionFaults()

    /// Creates a value without faults.
    public init() {}

    init(_ connections: ConnectionFaults, rejectionCode: CloseCode?) {
        (self.connections, self.rejectionCode) = (connections, rejectionCode)
    }
}
