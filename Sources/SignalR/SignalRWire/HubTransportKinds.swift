/// A set of the transports by which a client and a server exchange hub messages.
public struct HubTransportKinds: OptionSet, Hashable, Sendable, CustomStringConvertible {
    /// One bit for each kind.
    public let rawValue: UInt8

    /// Creates a set from its bits.
    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// A WebSocket, which carries the messages in both directions.
    public static let webSockets = HubTransportKinds(rawValue: 1 << 0)
    /// A stream of Server-Sent Events for the messages of the server, and requests for those of the client. It carries text only.
    public static let serverSentEvents = HubTransportKinds(rawValue: 1 << 1)
    /// Requests that the server answers when it has messages, and further requests for the messages of the client.
    public static let longPolling = HubTransportKinds(rawValue: 1 << 2)
    /// All kinds.
    public static let all: HubTransportKinds = [.webSockets, .serverSentEvents, .longPolling]

    /// Creates a set of one transport.
    package init(_ transport: HubTransport) {
        switch transport {
        case .webSockets: self = .webSockets
        case .serverSentEvents: self = .serverSentEvents
        case .longPolling: self = .longPolling
        }
    }

    /// Returns whether the set contains a transport.
    package func contains(_ transport: HubTransport) -> Bool { self.contains(HubTransportKinds(transport)) }

    /// The names of the kinds in the protocol, such as "WebSockets, LongPolling".
    public var description: String {
        HubTransport.allCases.filter { self.contains($0) }.map(\.rawValue).joined(separator: ", ")
    }
}
