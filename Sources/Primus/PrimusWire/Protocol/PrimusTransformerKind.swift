/// The transformers that a server can name: the way in which packets travel.
public enum PrimusTransformerKind: Hashable, Sendable, CustomStringConvertible {
    /// A WebSocket, with one packet in each message. The default of Primus.
    case websockets
    /// A WebSocket, by the server library `faye-websocket`. On the wire, it equals ``websockets``.
    case faye
    /// A WebSocket, by the server library `uws`. On the wire, it equals ``websockets``.
    case uws
    /// SockJS.
    case sockjs
    /// engine.io.
    case engineIO
    /// BrowserChannel, which has no implementation for Swift.
    case browserchannel
    /// A transformer that Primus doesn't contain.
    case custom(String)

    /// The transformers that Primus contains.
    public static let builtIn: [PrimusTransformerKind] = [.websockets, .faye, .uws, .sockjs, .engineIO, .browserchannel]

    /// Creates the transformer with a name of the server's specification, in any case.
    public init(name: String) {
        self = Self.builtIn.first { $0.description == name.lowercased() } ?? .custom(name)
    }

    /// The name, as in the server's specification.
    public var description: String {
        switch self {
        case .websockets: "websockets"
        case .faye: "faye"
        case .uws: "uws"
        case .sockjs: "sockjs"
        case .engineIO: "engine.io"
        case .browserchannel: "browserchannel"
        case .custom(let name): name
        }
    }

    /// Whether each packet is a message of a WebSocket, without framing.
    package var isPlain: Bool {
        switch self {
        case .websockets, .faye, .uws: true
        case .sockjs, .engineIO, .browserchannel, .custom: false
        }
    }

    /// Whether a session can use requests over HTTP in place of a WebSocket.
    package var hasPolling: Bool { self == .sockjs || self == .engineIO }

    /// The reason why this transformer can't carry the packets of a parser; `nil` if it can.
    ///
    /// - Parameter parser: The parser.
    package func rejection(of parser: PrimusParserKind) -> String? {
        switch (self, parser) {
        case (.sockjs, .msgpack), (.sockjs, .binary), (.browserchannel, .msgpack), (.browserchannel, .binary):
            "The transformer \(self) carries text only, and the parser \(parser) writes binary packets, which the server of Primus turns into"
                + " unreadable text. Use the parser json or ejson, or another transformer."
        default: nil
        }
    }
}
