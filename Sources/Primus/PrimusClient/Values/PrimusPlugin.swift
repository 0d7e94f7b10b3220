public import PrimusWire
public import RealtimeCore

/// A plugin of a client: a value whose hooks are called in the life of its connections.
///
/// ```swift
/// struct Stamp: PrimusPlugin {
///     let name = "stamp"
///     let hooks: PrimusPluginHooks = [.outgoing]
///     func outgoing(_ message: inout PrimusValue) async throws -> Bool {
///         message = ["stamped": true, "data": message]
///         return true
///     }
/// }
/// configuration.plugins = [.emitter, Stamp()]
/// ```
/// Hooks are called in tasks of the client, never under a lock, and only those that ``hooks`` names. The hooks for messages are transforms, after
/// those of ``PrimusConfiguration/transforms`` for outgoing messages, and before them for incoming ones.
public protocol PrimusPlugin: Sendable {
    /// The name, for errors and logs. A client has one plugin of a name.
    var name: String { get }

    /// The hooks that the client calls.
    var hooks: PrimusPluginHooks { get }

    /// The client is connected. Called after each connect, in order with ``ended()``.
    ///
    /// - Parameter isReconnect: Whether the client was connected before since it was opened.
    func opened(isReconnect: Bool) async

    /// A message of the server. May change it, and returns whether it is passed on.
    func incoming(_ message: inout PrimusValue) async throws -> Bool

    /// A message to the server. May change it, and returns whether it is passed on.
    func outgoing(_ message: inout PrimusValue) async throws -> Bool

    /// The URL of an attempt to connect. Called when ``PrimusConfiguration/requestURL`` is.
    func url(_ endpoint: Endpoint) async throws -> Endpoint

    /// The client was ended.
    func ended() async
}

/// The hooks of a plugin that a client calls.
public struct PrimusPluginHooks: OptionSet, Hashable, Sendable {
    /// The bits of the hooks.
    public let rawValue: UInt8

    /// Creates a set of hooks from its bits.
    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// ``PrimusPlugin/opened(isReconnect:)``.
    public static let opened = PrimusPluginHooks(rawValue: 1 << 0)
    /// ``PrimusPlugin/incoming(_:)``.
    public static let incoming = PrimusPluginHooks(rawValue: 1 << 1)
    /// ``PrimusPlugin/outgoing(_:)``.
    public static let outgoing = PrimusPluginHooks(rawValue: 1 << 2)
    /// ``PrimusPlugin/url(_:)``.
    public static let url = PrimusPluginHooks(rawValue: 1 << 3)
    /// ``PrimusPlugin/ended()``.
    public static let ended = PrimusPluginHooks(rawValue: 1 << 4)
    /// All hooks.
    public static let all: PrimusPluginHooks = [.opened, .incoming, .outgoing, .url, .ended]
}

extension PrimusPlugin {
    /// All hooks.
    public var hooks: PrimusPluginHooks { .all }
    /// Does nothing.
    public func opened(isReconnect: Bool) async {}
    /// Passes the message on.
    public func incoming(_ message: inout PrimusValue) async throws -> Bool { true }
    /// Passes the message on.
    public func outgoing(_ message: inout PrimusValue) async throws -> Bool { true }
    /// Keeps the URL.
    public func url(_ endpoint: Endpoint) async throws -> Endpoint { endpoint }
    /// Does nothing.
    public func ended() async {}
}
