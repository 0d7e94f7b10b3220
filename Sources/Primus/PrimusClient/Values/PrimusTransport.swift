/// The kinds of connections by which a client and a server of Primus exchange messages.
public enum PrimusTransport: String, Hashable, Sendable, CaseIterable, CustomStringConvertible {
    /// A WebSocket, which carries the messages in both directions.
    case webSockets
    /// Requests that the server answers when it has messages, and further requests for the messages of the client.
    case polling
    /// A response without an end for the messages of the server, as SockJS has it, and requests for those of the client.
    case streaming

    /// The name of the kind, such as `webSockets`.
    public var description: String { self.rawValue }
}

/// A set of the kinds of connections that a client may use.
public struct PrimusTransportKinds: OptionSet, Hashable, Sendable, CustomStringConvertible {
    /// One bit for each kind.
    public let rawValue: UInt8

    /// Creates a set from its bits.
    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// A WebSocket, which carries the messages in both directions.
    public static let webSockets = PrimusTransportKinds(rawValue: 1 << 0)
    /// Requests over HTTP: the polling of engine.io, and the streaming and polling of SockJS. The other transformers have none.
    public static let polling = PrimusTransportKinds(rawValue: 1 << 1)
    /// All kinds.
    public static let all: PrimusTransportKinds = [.webSockets, .polling]

    /// The names of the kinds, such as "webSockets, polling".
    public var description: String {
        [(PrimusTransportKinds.webSockets, "webSockets"), (.polling, "polling")].filter { self.contains($0.0) }.map(\.1)
            .joined(separator: ", ")
    }
}
