public import Foundation
public import PrimusClient
import RealtimeSystem

/// The transformer of Primus-Objc over WebSockets.
///
/// In ``PrimusConnectOptions/transformerClass``, it stands for a WebSocket of the transformer that the server names and, without a specification, of
/// `websockets`. There are no objects of the class to use.
#if canImport(ObjectiveC)
@objcMembers
#endif
public final class SocketRocketClient: NSObject, Sendable {
    /// The name of the class.
    public override var description: String { "SocketRocketClient" }
}

/// A transformer of your own, for ``PrimusConnectOptions/transformerClass``: how packets travel in the messages of a WebSocket.
public protocol TransformerProtocol: AnyObject, PrimusCustomTransformer {
    /// Creates a transformer. Called once for each client.
    init()
}

/// A parser of your own, for ``PrimusConnectOptions/parserClass``.
///
/// Both methods must call the callback before they return. They are called on any thread, and never under a lock.
#if canImport(ObjectiveC)
@objc
#endif
public protocol ParserProtocol: AnyObject, Sendable {
    /// Creates a parser. Called once for each client.
    init()

    /// Encodes a value.
    ///
    /// - Parameters:
    ///   - data: The value, as ``Primus/write(_:)`` takes it.
    ///   - callback: Takes an error, or the packet: a `String` or `Data`.
    func encode(_ data: Any, callback: (_ error: (any Error)?, _ packet: Any?) -> Void)

    /// Decodes a packet.
    ///
    /// - Parameters:
    ///   - data: The packet: a `String` or `Data`.
    ///   - callback: Takes an error, or the value.
    func decode(_ data: Any, callback: (_ error: (any Error)?, _ value: Any?) -> Void)
}

/// A plugin for ``PrimusConnectOptions/plugins``, which registers listeners and transforms.
///
/// A client creates each plugin once, before it connects for the first time, and keeps it.
#if canImport(ObjectiveC)
@objc
#endif
public protocol PluginProtocol: AnyObject {
    /// Creates a plugin.
    ///
    /// - Parameter primus: The client. Don't keep a strong reference to it.
    init(primus: Primus)
}

/// The plugin of primus-emitter-objc: ``Primus/send(_:_:)``, and events of the server under their own names.
///
/// ```swift
/// options.plugins = ["emitter": PrimusEmitterPlugin.self]
/// ```
#if canImport(ObjectiveC)
@objc(PrimusEmitter)
#endif
public final class PrimusEmitterPlugin: NSObject, Sendable {
    /// The name of the class.
    public override var description: String { "PrimusEmitterPlugin" }
}

/// Answers an event of the server that asks for an acknowledgement: the last argument of its listeners.
///
/// ```swift
/// primus.on("greet") { (name: String, acknowledge: PrimusAcknowledgement) in acknowledge("Hello, \(name)") }
/// ```
public struct PrimusAcknowledgement: Sendable {
    let event: PrimusEmitterEvent

    init(_ event: PrimusEmitterEvent) {
        self.event = event
    }

    /// Sends the acknowledgement. It is sent once: further calls have no effect.
    ///
    /// - Parameter values: What the server receives, each as ``Primus/write(_:)`` takes it.
    /// - Returns: Whether it was sent.
    @discardableResult
    public func callAsFunction(_ values: Any...) -> Bool {
        (try? self.event.acknowledge(values: values.map { try FoundationValue.value($0) })) ?? false
    }
}

/// The URL of an attempt to connect, as the listeners of `outgoing::url` receive it. What they change applies to this attempt.
public final class PrimusURLOptions: NSObject, Sendable {
    /// The host.
    public let host: String
    /// The port.
    public let port: Int
    /// Whether TLS is used.
    public let secure: Bool
    private let target: Lock<(pathname: String, query: String)>
    /// The path.
    public var pathname: String {
        get { self.target.withLock { $0.pathname } }
        set { self.target.withLock { $0.pathname = newValue } }
    }
    /// The query without a question mark; empty if there is none.
    public var query: String {
        get { self.target.withLock { $0.query } }
        set { self.target.withLock { $0.query = newValue } }
    }

    init(_ endpoint: Endpoint) {
        (self.host, self.port, self.secure) = (endpoint.host, endpoint.port, endpoint.isSecure)
        let parts = endpoint.target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        self.target = Lock((String(parts.first ?? "/"), parts.count > 1 ? String(parts[1]) : ""))
    }

    /// The scheme, the host and the port. The rest may be secret.
    public override var description: String { "PrimusURLOptions(\(self.origin))" }

    var origin: String { Endpoint(scheme: self.secure ? "https" : "http", host: self.host, port: self.port, target: "/").origin }

    func endpoint(_ endpoint: Endpoint) -> Endpoint {
        let (pathname, query) = self.target.withLock { $0 }
        return Endpoint(
            scheme: endpoint.scheme, host: endpoint.host, port: endpoint.port, target: query.isEmpty ? pathname : "\(pathname)?\(query)")
    }
}

/// A message in a transform.
///
/// The key `data` is the message. Other keys are the members of a message that is an object.
public struct PrimusTransformData: Sendable {
    /// The message, of any kind that the parser can carry.
    public var value: PrimusValue

    /// The message, or a member of it.
    ///
    /// Assigning a value that can't be sent, or a member of a message that isn't an object, has no effect.
    public subscript(key: String) -> Any? {
        get { key == "data" ? FoundationValue.object(self.value) : self.value[key].map { FoundationValue.object($0) } }
        set {
            let new = newValue.map { try? FoundationValue.value($0) } ?? nil
            if newValue != nil, new == nil { return }
            if key == "data" { return self.value = new ?? .null }
            guard var object = self.value.object else { return }
            object[key] = new
            self.value = .object(object)
        }
    }

    /// Lets a block of Objective-C change the message and its members in a dictionary. What it leaves alone stays as it is.
    ///
    /// - Returns: What the block returns.
    mutating func changeDictionary(_ block: (NSMutableDictionary) -> Bool) -> Bool {
        let original = self.value
        let dictionary = NSMutableDictionary()
        for member in original.object?.members ?? [] { dictionary[member.key] = FoundationValue.object(member.value) }
        dictionary["data"] = FoundationValue.object(original)
        guard block(dictionary) else { return false }
        func value(of key: String) -> PrimusValue? { dictionary[key].flatMap { try? FoundationValue.value($0) } }
        if let message = value(of: "data"), message != original { self.value = message }
        var keys = Set(original.object?.members.map(\.key) ?? [])
        for case (let key as String, _) in dictionary { keys.insert(key) }
        for key in keys where key != "data" && value(of: key) != original[key] { self[key] = dictionary[key] }
        return true
    }
}

/// A parser of Primus-Objc's form.
struct ParserAdapter: PrimusParser {
    let parser: any ParserProtocol
    let name: String

    init(_ type: any ParserProtocol.Type) {
        (self.parser, self.name) = (type.init(), "\(type)")
    }

    func encode(_ value: PrimusValue) throws -> TransportMessage {
        let packet = try self.result { self.parser.encode(FoundationValue.object(value), callback: $0) }
        switch packet {
        case let text as String: return .text(text)
        case let data as Data: return .binary(Array(data))
        default: throw PrimusParserError(.unsupportedValue, "the parser \(self.name) must return a String or Data")
        }
    }

    func decode(_ packet: TransportMessage) throws -> PrimusValue {
        let object: Any = packet.kind == .text ? String(decoding: packet.bytes, as: UTF8.self) : Data(packet.bytes)
        return try FoundationValue.value(try self.result { self.parser.decode(object, callback: $0) } ?? NSNull())
    }

    private func result(_ body: ((_ error: (any Error)?, _ result: Any?) -> Void) -> Void) throws -> Any? {
        var outcome: Result<Any?, any Error>?
        body { error, result in outcome = error.map { .failure($0) } ?? .success(result) }
        guard let outcome else {
            throw PrimusParserError(.unsupportedValue, "the parser \(self.name) must call its callback before its method returns")
        }
        return try outcome.get()
    }
}
