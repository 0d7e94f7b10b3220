package import PrimusWire

/// A plugin that the client contains: one of those that servers of Primus use most.
///
/// ```swift
/// configuration.plugins = [.emitter, .multiplex]
/// ```
/// The server needs the same plugin. The client reads the packets of its plugins, which therefore don't appear among the messages.
public struct PrimusStandardPlugin: PrimusPlugin, Hashable {
    package let plugin: PrimusPluginSet

    /// The name, such as `emitter`.
    public var name: String { self.plugin.names.joined() }

    /// No hooks: the client itself calls these plugins.
    public var hooks: PrimusPluginHooks { [] }
}

extension PrimusPlugin where Self == PrimusStandardPlugin {
    /// primus-emitter: events with acknowledgements, in both directions; see ``PrimusConnection/emitter``.
    public static var emitter: PrimusStandardPlugin { PrimusStandardPlugin(plugin: .emitter) }
    /// primus-emit: events without acknowledgements; see ``PrimusConnection/emits``.
    public static var emit: PrimusStandardPlugin { PrimusStandardPlugin(plugin: .emit) }
    /// primus-multiplex: channels of one connection; see ``PrimusConnection/channel(_:)``.
    public static var multiplex: PrimusStandardPlugin { PrimusStandardPlugin(plugin: .multiplex) }
    /// substream: streams of one connection that both sides know by their name; see ``PrimusConnection/substream(_:)``.
    public static var substream: PrimusStandardPlugin { PrimusStandardPlugin(plugin: .substream) }
    /// primus-responder: requests with a response, in both directions; see ``PrimusConnection/request(_:as:within:)-(Request,_,_)``.
    public static var responder: PrimusStandardPlugin { PrimusStandardPlugin(plugin: .responder) }
}

extension PrimusPluginSet {
    /// The plugins that the client contains, among those of a configuration.
    init(_ plugins: [any PrimusPlugin]) {
        self = plugins.reduce(into: []) { set, plugin in
            if let plugin = plugin as? PrimusStandardPlugin { set.formUnion(plugin.plugin) }
        }
    }
}
