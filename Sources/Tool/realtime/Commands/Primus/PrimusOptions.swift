import CommandLineSupport
import PrimusClient
import PrimusServer
import PrimusWire

/// The options that commands and servers of Primus have.
extension OptionSpec {
    /// - Parameters:
    ///   - help: What the transformer is for. The option's help continues with the values.
    ///   - standard: What applies without the option, as the end of a sentence.
    static func primusTransformer(_ help: String, standard: String) -> OptionSpec {
        .value(
            "transformer", "NAME", "\(help) websockets, faye, uws, sockjs or engine.io. \(standard)",
            completion: .values(PrimusTransformerKind.ofTool.map(\.description)))
    }

    /// - Parameters:
    ///   - help: What the parser is for. The option's help continues with the values.
    ///   - standard: What applies without the option, as the end of a sentence.
    static func primusParser(_ help: String, standard: String) -> OptionSpec {
        .value(
            "parser", "NAME", "\(help) json, ejson, msgpack or binary. \(standard)",
            completion: .values(PrimusParserKind.builtIn.map(\.description)))
    }

    static let primusTransport = OptionSpec.value(
        "transport", "NAME",
        "The kind of connection: webSockets only, polling only, which the transformers engine.io and sockjs have, or upgrade: a session of "
            + "engine.io begins with polling and moves to a WebSocket. The default is a WebSocket, and polling if it can't be opened.",
        completion: .values(PrimusTransportChoice.allCases.map(\.rawValue)))

    /// - Parameter help: What the plugins are for. The option's help begins with the values.
    static func primusPlugins(_ help: String) -> OptionSpec {
        .value(
            "plugins", "NAMES", "The plugins: emitter, emit, multiplex, substream, responder, several with commas, or all. \(help)",
            completion: .values(PrimusPluginSet.names.map(\.name) + ["all"]))
    }
}

extension PrimusTransformerKind {
    /// The transformers that the clients and the server of this package have.
    static let ofTool = Self.builtIn.filter { $0 != .browserchannel }

    /// Creates the transformer that the option `transformer` names, in any letter case; `nil` without the option.
    init?(_ arguments: Arguments) throws(UsageError) {
        guard let text = arguments.string("transformer") else { return nil }
        self.init(name: text)
        guard Self.ofTool.contains(self) else {
            throw arguments.usageError(
                "Invalid value '\(text)' for '--transformer': must be websockets, faye, uws, sockjs or engine.io")
        }
    }
}

/// The kinds of connections that the option `transport` names.
enum PrimusTransportChoice: String, CaseIterable, Sendable {
    case webSockets
    case polling
    case upgrade

    /// Creates the choice that the option `transport` names, in any letter case; `nil` without the option.
    ///
    /// - Parameter transformer: The transformer that another option names.
    init?(_ arguments: Arguments, _ transformer: PrimusTransformerKind?) throws(UsageError) {
        guard let text = arguments.string("transport") else { return nil }
        guard let choice = Self.allCases.first(where: { $0.rawValue.lowercased() == text.lowercased() }) else {
            throw arguments.usageError("Invalid value '\(text)' for '--transport': must be webSockets, polling or upgrade")
        }
        self = choice
        if let transformer, choice.problem(with: transformer) != nil {
            throw arguments.usageError(
                "The transformer \(transformer) doesn't have '--transport \(choice.rawValue)'. Omit '--transport', or use another transformer"
            )
        }
    }

    func apply(to configuration: inout PrimusConfiguration) {
        switch self {
        case .webSockets: configuration.allowedTransports = .webSockets
        case .polling: configuration.allowedTransports = .polling
        case .upgrade: configuration.startsWithPolling = true
        }
    }

    /// Returns why clients of a transformer can't do what the option says; `nil` if they can.
    func problem(with transformer: PrimusTransformerKind) -> String? {
        switch self {
        case .webSockets: nil
        case .polling where transformer == .engineIO || transformer == .sockjs: nil
        case .polling: "Its clients have WebSockets only. Omit --transport."
        case .upgrade where transformer == .engineIO: nil
        case .upgrade: "Only clients of engine.io move from polling to a WebSocket. Omit --transport."
        }
    }
}

extension PrimusParserKind {
    /// Creates the parser that the option `parser` names, in any letter case; `nil` without the option.
    init?(_ arguments: Arguments) throws(UsageError) {
        guard let text = arguments.string("parser") else { return nil }
        self.init(name: text)
        guard Self.builtIn.contains(self) else {
            throw arguments.usageError("Invalid value '\(text)' for '--parser': must be json, ejson, msgpack or binary")
        }
    }
}

extension PrimusPluginSet {
    /// Creates the set that the option `plugins` names, in any letter case; empty without the option.
    init(_ arguments: Arguments) throws(UsageError) {
        self = []
        guard let text = arguments.string("plugins") else { return }
        for name in text.split(separator: ",", omittingEmptySubsequences: false) {
            let name = name.lowercased()
            guard let plugin = name == "all" ? .all : Self(name: name) else {
                throw arguments.usageError(
                    "Invalid value '\(text)' for '--plugins': must be emitter, emit, multiplex, substream or responder, several of them with "
                        + "commas, or all")
            }
            self.formUnion(plugin)
        }
    }
}

extension Arguments {
    /// Throws if a transformer can't carry the packets of a parser.
    func check(_ transformer: PrimusTransformerKind?, _ parser: PrimusParserKind?) throws(UsageError) {
        if let transformer, let parser, let problem = transformer.rejection(of: parser) { throw self.usageError(problem) }
    }
}
