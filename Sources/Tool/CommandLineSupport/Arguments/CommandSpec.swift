/// The declaration of a command. Arguments are parsed with it and help is generated from it.
package struct CommandSpec: Sendable {
    /// The words that name the command: `["pusher", "subscribe"]`.
    package let path: [String]
    let summary: String
    let description: String
    let positionals: [PositionalSpec]
    let options: [OptionSpec]
    /// Returns the missing arguments that depend on the values of others.
    let missing: @Sendable (Arguments) -> [String]
    /// Complete command lines, without the name of the tool.
    package let examples: [String]
    let isHidden: Bool

    /// Declares a command.
    ///
    /// - Parameters:
    ///   - path: The words that name it.
    ///   - summary: What it does, in one line without a period, for the list of commands.
    ///   - description: What it does, for its own help.
    ///   - positionals: The arguments that are identified by position.
    ///   - options: The arguments that are identified by name, without `--help`.
    ///   - missing: Returns descriptions of missing arguments that are only required because of the values of others. The error names them
    ///     together with those that are always required.
    ///   - examples: Complete command lines, without the name of the tool.
    ///   - isHidden: Whether lists of commands omit it.
    package init(
        path: [String], summary: String, description: String, positionals: [PositionalSpec] = [], options: [OptionSpec] = [],
        missing: @escaping @Sendable (Arguments) -> [String] = { _ in [] }, examples: [String] = [], isHidden: Bool = false
    ) {
        self.path = path
        self.summary = summary
        self.description = description
        self.positionals = positionals
        self.options = options
        self.missing = missing
        self.examples = examples
        self.isHidden = isHidden
    }

    var allOptions: [OptionSpec] { self.options + [.help] }
}

/// The declaration of a group of commands, such as `pusher`.
package struct GroupSpec: Sendable {
    let path: [String]
    let summary: String

    /// Declares a group.
    ///
    /// - Parameters:
    ///   - path: The words that name it.
    ///   - summary: What its commands do, in one line without a period.
    package init(path: [String], summary: String) {
        self.path = path
        self.summary = summary
    }
}

/// The declaration of an argument that is identified by its position.
package struct PositionalSpec: Sendable {
    package enum Presence: Sendable, Equatable {
        case required
        /// Required, unless this option is specified; then the argument is omitted.
        case requiredWithout(option: String)
        case optional
        /// All remaining arguments. Only for the last positional.
        case repeated(atLeast: Int)
    }

    let name: String
    let help: String
    let presence: Presence

    /// Declares an argument.
    ///
    /// - Parameters:
    ///   - name: The name that help shows, such as `CHANNEL`.
    ///   - help: What it means, in sentences.
    ///   - presence: Whether it may be omitted or repeated.
    package init(_ name: String, _ help: String, _ presence: Presence = .required) {
        self.name = name
        self.help = help
        self.presence = presence
    }
}

/// The declaration of an argument that is identified by its name: a flag, an option with a value (`--name value` or `--name=value`), or one
/// with several values (`--name value value`).
package struct OptionSpec: Sendable {
    package enum Presence: Sendable, Equatable {
        case optional
        case required
        /// Required, unless another option is specified or the environment variable of this one is set.
        case requiredWithout(option: String)
    }

    /// The name without the dashes.
    let name: String
    /// The name of the value in help, or the names of its values; `nil` for a flag.
    let placeholder: String?
    /// The number of arguments after the name.
    let valueCount: Int
    let kind: ValueKind
    let help: String
    let presence: Presence
    let isRepeatable: Bool
    /// The environment variable that a command may use when the option isn't specified.
    let environmentVariable: String?

    /// Declares a flag.
    ///
    /// - Parameters:
    ///   - name: The name, without dashes.
    ///   - help: What it means, in sentences.
    package static func flag(_ name: String, _ help: String) -> OptionSpec {
        OptionSpec(
            name: name, placeholder: nil, valueCount: 0, kind: .text, help: help, presence: .optional, isRepeatable: false,
            environmentVariable: nil)
    }

    /// Declares an option with a value.
    ///
    /// - Parameters:
    ///   - name: The name, without dashes.
    ///   - placeholder: The name of the value in help, such as `PORT`.
    ///   - help: What it means, in sentences.
    ///   - kind: The type of the value.
    ///   - presence: Whether it may be omitted.
    ///   - isRepeatable: Whether it may be specified more than once.
    ///   - environmentVariable: The environment variable that replaces it; see ``Arguments/environment(_:)``.
    package static func value(
        _ name: String, _ placeholder: String, _ help: String, as kind: ValueKind = .text, presence: Presence = .optional,
        isRepeatable: Bool = false, environmentVariable: String? = nil
    ) -> OptionSpec {
        OptionSpec(
            name: name, placeholder: placeholder, valueCount: 1, kind: kind, help: help, presence: presence, isRepeatable: isRepeatable,
            environmentVariable: environmentVariable)
    }

    /// Declares an option with several values, such as `--tls CERTIFICATE KEY`. ``Arguments/strings(_:)`` returns them in order.
    ///
    /// - Parameters:
    ///   - name: The name, without dashes.
    ///   - placeholders: The names of the values in help.
    ///   - help: What they mean, in sentences.
    package static func values(_ name: String, _ placeholders: [String], _ help: String) -> OptionSpec {
        OptionSpec(
            name: name, placeholder: placeholders.joined(separator: " "), valueCount: placeholders.count, kind: .text, help: help,
            presence: .optional, isRepeatable: false, environmentVariable: nil)
    }

    static let help = OptionSpec.flag("help", "Show help information.")

    var isFlag: Bool { self.placeholder == nil }

    /// The option as help shows it: `--port PORT`.
    var usage: String { "--\(self.name)" + (self.placeholder.map { " \($0)" } ?? "") }
}
