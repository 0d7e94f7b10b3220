public import RealtimeCore

/// A parser of the application, for a server with the same one.
///
/// The parsers of Primus itself are cases of ``PrimusParserKind``. A parser is used by several threads at the same time.
///
/// ```swift
/// struct Lines: PrimusParser {
///     let name = "lines"
///     func encode(_ value: PrimusValue) throws -> TransportMessage { .text(value.string ?? "") }
///     func decode(_ packet: TransportMessage) throws -> PrimusValue { .string(String(decoding: packet.bytes, as: UTF8.self)) }
/// }
/// ```
public protocol PrimusParser: Sendable {
    /// The name, for errors. Two parsers with the same name are taken for the same one.
    var name: String { get }

    /// Encodes a value as a packet, which is text or binary. Also encodes the strings of Primus's own messages, such as
    /// `primus::pong::1700000000000`.
    ///
    /// - Parameter value: The value.
    /// - Throws: An error if the parser can't carry the value.
    func encode(_ value: PrimusValue) throws -> TransportMessage

    /// Decodes a packet.
    ///
    /// - Parameter packet: A text or binary message. Text is valid UTF-8.
    /// - Throws: An error if the packet isn't valid. It is reported, and the packet skipped.
    func decode(_ packet: TransportMessage) throws -> PrimusValue
}

/// The parsers that a server can name.
public enum PrimusParserKind: Hashable, Sendable, CustomStringConvertible {
    /// JSON, the default of Primus.
    case json
    /// EJSON: JSON that also carries dates, bytes, expressions, infinite numbers and registered types.
    case ejson
    /// MessagePack, in the dialect of msgpack-lite.
    case msgpack
    /// BinaryPack, an older format that resembles MessagePack.
    case binary
    /// A parser that Primus doesn't contain.
    case custom(String)

    /// The parsers that Primus contains.
    public static let builtIn: [PrimusParserKind] = [.json, .ejson, .msgpack, .binary]

    /// Creates the parser with a name of the server's specification, in any case.
    public init(name: String) {
        self = Self.builtIn.first { $0.description == name.lowercased() } ?? .custom(name)
    }

    /// The name, as in the server's specification.
    public var description: String {
        switch self {
        case .json: "json"
        case .ejson: "ejson"
        case .msgpack: "msgpack"
        case .binary: "binary"
        case .custom(let name): name
        }
    }
}
