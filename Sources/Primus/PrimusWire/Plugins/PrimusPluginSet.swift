/// The plugins whose packets a connection reads.
package struct PrimusPluginSet: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// primus-emitter: events with acknowledgements.
    package static let emitter = Self(rawValue: 1)
    /// primus-emit: events.
    package static let emit = Self(rawValue: 2)
    /// primus-multiplex: channels.
    package static let multiplex = Self(rawValue: 4)
    /// substream: streams with a name.
    package static let substream = Self(rawValue: 8)
    /// primus-responder: requests with a response.
    package static let responder = Self(rawValue: 16)

    package static let all: Self = [.emitter, .emit, .multiplex, .substream, .responder]

    /// The plugins in the order of their bits, with the names that Primus's documentation uses.
    package static let names: [(name: String, plugin: Self)] = [
        ("emitter", .emitter), ("emit", .emit), ("multiplex", .multiplex), ("substream", .substream), ("responder", .responder),
    ]

    /// Creates the set of one plugin, or returns `nil` if no plugin has this name.
    package init?(name: String) {
        guard let entry = Self.names.first(where: { $0.name == name }) else { return nil }
        self = entry.plugin
    }

    /// The names of the plugins.
    package var names: [String] { Self.names.filter { self.contains($0.plugin) }.map(\.name) }
}
