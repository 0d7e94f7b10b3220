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

/// The values that a shell suggests while one is typed.
package enum ValueCompletion: Sendable, Equatable {
    case nothing
    /// These values.
    case values([String])
    /// The files and folders.
    case files
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
    let completion: ValueCompletion

    /// Declares an argument.
    ///
    /// - Parameters:
    ///   - name: The name that help shows, such as `CHANNEL`.
    ///   - help: What it means, in sentences.
    ///   - presence: Whether it may be omitted or repeated.
    ///   - completion: What a shell suggests for it.
    package init(_ name: String, _ help: String, _ presence: Presence = .required, completion: ValueCompletion = .nothing) {
        self.name = name
        self.help = help
        self.presence = presence
        self.completion = completion
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
    /// The suggestions of a shell for the value or the values.
    let completion: ValueCompletion

    /// Declares a flag.
    ///
    /// - Parameters:
    ///   - name: The name, without dashes.
    ///   - help: What it means, in sentences.
    package static func flag(_ name: String, _ help: String) -> OptionSpec {
        OptionSpec(
            name: name, placeholder: nil, valueCount: 0, kind: .text, help: help, presence: .optional, isRepeatable: false,
            environmentVariable: nil, completion: .nothing)
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
    ///   - completion: What a shell suggests for the value.
    package static func value(
        _ name: String, _ placeholder: String, _ help: String, as kind: ValueKind = .text, presence: Presence = .optional,
        isRepeatable: Bool = false, environmentVariable: String? = nil, completion: ValueCompletion = .nothing
    ) -> OptionSpec {
        OptionSpec(
            name: name, placeholder: placeholder, valueCount: 1, kind: kind, help: help, presence: presence, isRepeatable: isRepeatable,
            environmentVariable: environmentVariable, completion: completion)
    }

    /// Declares an option with several values, such as `--tls CERTIFICATE KEY`. ``Arguments/strings(_:)`` returns them in order.
    ///
    /// - Parameters:
    ///   - name: The name, without dashes.
    ///   - placeholders: The names of the values in help.
    ///   - help: What they mean, in sentences.
    ///   - completion: What a shell suggests for each of them.
    package static func values(
        _ name: String, _ placeholders: [String], _ help: String, completion: ValueCompletion = .nothing
    ) -> OptionSpec {
        OptionSpec(
            name: name, placeholder: placeholders.joined(separator: " "), valueCount: placeholders.count, kind: .text, help: help,
            presence: .optional, isRepeatable: false, environmentVariable: nil, completion: completion)
    }

    static let help = OptionSpec.flag("help", "Show help information.")

    var isFlag: Bool { self.placeholder == nil }

    /// The option as help shows it: `--port PORT`.
    var usage: String { "--\(self.name)" + (self.placeholder.map { " \($0)" } ?? "") }
}
