/// What a command takes: its parsing and its help both come from this.
package struct CommandSpec: Sendable {
    /// The words that call it: `["pusher", "subscribe"]`.
    package var path: [String]
    /// What it does, in one line without a full stop, for the list of commands.
    package var summary: String
    /// What it does, for its own help.
    package var description: String
    package var positionals: [PositionalSpec] = []
    package var options: [OptionSpec] = []
    /// Whole command lines, without the tool's name.
    package var examples: [String] = []
    /// For our own test programs: runs, and no list of commands shows it.
    package var isHidden = false

    package init(
        path: [String], summary: String, description: String, positionals: [PositionalSpec] = [], options: [OptionSpec] = [],
        examples: [String] = [], isHidden: Bool = false
    ) {
        self.path = path
        self.summary = summary
        self.description = description
        self.positionals = positionals
        self.options = options
        self.examples = examples
        self.isHidden = isHidden
    }

    package var allOptions: [OptionSpec] { self.options + [.help] }
}

/// A word that only stands before other commands, such as `pusher`.
package struct GroupSpec: Sendable {
    package var path: [String]
    package var summary: String

    package init(path: [String], summary: String) {
        self.path = path
        self.summary = summary
    }
}

/// An argument known by its place.
package struct PositionalSpec: Sendable {
    package enum Presence: Sendable, Equatable {
        case required
        /// Required, but neither expected nor allowed when this option is given.
        case requiredWithout(option: String)
        case optional
        /// The rest of the arguments; the last positional only.
        case repeated(atLeast: Int)
    }

    /// As the help spells it: `CHANNEL`.
    package var name: String
    package var help: String
    package var presence = Presence.required

    package init(_ name: String, _ help: String, _ presence: Presence = .required) {
        self.name = name
        self.help = help
        self.presence = presence
    }
}

/// An argument known by its name, `--name value` or `--name=value`, or a flag without a value.
package struct OptionSpec: Sendable {
    /// Without the dashes.
    package var name: String
    /// What the help calls the value; `nil` for a flag.
    package var placeholder: String?
    package var kind: ValueKind
    package var help: String
    package var isRequired = false
    package var isRepeatable = false

    package init(
        name: String, placeholder: String? = nil, kind: ValueKind, help: String, isRequired: Bool = false, isRepeatable: Bool = false
    ) {
        self.name = name
        self.placeholder = placeholder
        self.kind = kind
        self.help = help
        self.isRequired = isRequired
        self.isRepeatable = isRepeatable
    }

    package static func flag(_ name: String, _ help: String) -> OptionSpec {
        OptionSpec(name: name, placeholder: nil, kind: .text, help: help)
    }

    package static func value(
        _ name: String, _ placeholder: String, _ help: String, as kind: ValueKind = .text, isRequired: Bool = false,
        isRepeatable: Bool = false
    ) -> OptionSpec {
        OptionSpec(name: name, placeholder: placeholder, kind: kind, help: help, isRequired: isRequired, isRepeatable: isRepeatable)
    }

    package static let help = OptionSpec.flag("help", "Print this help.")

    package var isFlag: Bool { self.placeholder == nil }

    /// `--port PORT`
    package var usage: String { "--\(self.name)" + (self.placeholder.map { " \($0)" } ?? "") }
}
