/// What a command takes: its parsing and its help both come from this.
struct CommandSpec: Sendable {
    /// The words that call it: `["pusher", "subscribe"]`.
    var path: [String]
    /// What it does, in one line without a full stop, for the list of commands.
    var summary: String
    /// What it does, for its own help.
    var description: String
    var positionals: [PositionalSpec] = []
    var options: [OptionSpec] = []
    /// Whole command lines, without the tool's name.
    var examples: [String] = []
    /// For our own test programs: runs, and no list of commands shows it.
    var isHidden = false

    var allOptions: [OptionSpec] { self.options + [.help] }
}

/// A word that only stands before other commands, such as `pusher`.
struct GroupSpec: Sendable {
    var path: [String]
    var summary: String
}

/// An argument known by its place.
struct PositionalSpec: Sendable {
    enum Presence: Sendable, Equatable {
        case required
        /// Required, but neither expected nor allowed when this option is given.
        case requiredWithout(option: String)
        case optional
        /// The rest of the arguments; the last positional only.
        case repeated(atLeast: Int)
    }

    /// As the help spells it: `CHANNEL`.
    var name: String
    var help: String
    var presence = Presence.required

    init(_ name: String, _ help: String, _ presence: Presence = .required) {
        self.name = name
        self.help = help
        self.presence = presence
    }
}

/// An argument known by its name, `--name value` or `--name=value`, or a flag without a value.
struct OptionSpec: Sendable {
    /// Without the dashes.
    var name: String
    /// What the help calls the value; `nil` for a flag.
    var placeholder: String?
    var kind: ValueKind
    var help: String
    var isRequired = false
    var isRepeatable = false

    static func flag(_ name: String, _ help: String) -> OptionSpec {
        OptionSpec(name: name, placeholder: nil, kind: .text, help: help)
    }

    static func value(
        _ name: String, _ placeholder: String, _ help: String, as kind: ValueKind = .text, isRequired: Bool = false,
        isRepeatable: Bool = false
    ) -> OptionSpec {
        OptionSpec(name: name, placeholder: placeholder, kind: kind, help: help, isRequired: isRequired, isRepeatable: isRepeatable)
    }

    static let help = OptionSpec.flag("help", "Print this help.")

    var isFlag: Bool { self.placeholder == nil }

    /// `--port PORT`
    var usage: String { "--\(self.name)" + (self.placeholder.map { " \($0)" } ?? "") }
}
