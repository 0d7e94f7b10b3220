public import RealtimeCore

/// An event that occurred on a server, for tests and logs.
public enum PrimusServerEvent: Sendable, Hashable {
    /// The server rejected a request of a client with an HTTP status.
    case rejected(status: Int)
    /// A client connected.
    case connected(id: String)
    /// A client's connection ended.
    case disconnected(id: String, CloseReason)
    /// The server received a packet, before it is decoded. Packets on a silent connection aren't reported.
    case received(id: String, TransportMessage)
    /// The server couldn't process a packet, or ended a connection because of an error.
    case error(id: String, message: String)

    /// The limit of the events that a consumer hasn't read.
    static let byteLimit = ByteLimit<PrimusServerEvent>(8 << 20) { event in
        switch event {
        case .received(_, let message): message.bytes.count
        case .error(_, let message): message.utf8.count
        case .rejected, .connected, .disconnected: 0
        }
    }
}

/// The reason why a call of the application failed on a server.
public enum PrimusServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The client has disconnected.
    case disconnected
    /// The client has left the channel with this name, or the server has ended its membership.
    case leftChannel(String)
    /// The client didn't answer within the time limit.
    case timedOut(after: Duration)
    /// The task was cancelled.
    case cancelled
    /// The server doesn't use the plugin that the call needs.
    case pluginDisabled(String)
    /// Primus reserves the name of the event, or the plugin can't carry the value.
    case invalid(String)

    /// A message that says what to do.
    public var description: String {
        switch self {
        case .disconnected: "The client has disconnected."
        case .leftChannel(let name): "The client has left the channel \(name)."
        case .timedOut(let limit): "The client didn't answer within \(limit)."
        case .cancelled: "The task was cancelled."
        case .pluginDisabled(let name): "The server doesn't use the plugin \(name). Add it to the plugins of its configuration."
        case .invalid(let problem): problem
        }
    }
}
