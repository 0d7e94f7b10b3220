/// A transport by which a client and a server exchange hub messages. The raw values are the names in the negotiation.
public enum HubTransport: String, Hashable, Sendable, CaseIterable, CustomStringConvertible {
    /// A WebSocket, which carries the messages in both directions.
    case webSockets = "WebSockets"
    /// A stream of Server-Sent Events for the messages of the server, and requests for those of the client.
    case serverSentEvents = "ServerSentEvents"
    /// Requests that the server answers when it has messages, and further requests for the messages of the client.
    case longPolling = "LongPolling"

    /// The name in the negotiation, such as `WebSockets`.
    public var description: String { self.rawValue }
}
