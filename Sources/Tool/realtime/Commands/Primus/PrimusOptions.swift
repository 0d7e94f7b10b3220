import CommandLineSupport
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
