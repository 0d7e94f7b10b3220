/// The arguments of one command, parsed and checked against its ``CommandSpec``.
///
/// Asking for an option with a type other than the declared one is a programming error and traps.
package struct Arguments: Sendable, Equatable {
    let path: [String]
    private(set) var options: [String: [ValueKind.Value]] = [:]
    private(set) var positionals: [String: [String]] = [:]
    private var environment: [String: String] = [:]

    init(path: [String]) {
        self.path = path
    }

    mutating func add(_ value: ValueKind.Value, option: String) { self.options[option, default: []].append(value) }

    mutating func add(_ text: String, positional: String) { self.positionals[positional, default: []].append(text) }

    mutating func add(_ text: String, environmentOf option: String) { self.environment[option] = text }

    /// Returns whether an option or flag was specified.
    package func has(_ option: String) -> Bool { self.options[option] != nil }

    /// Returns the value of a text option, or `nil` if it was not specified.
    package func string(_ option: String) -> String? { self.strings(option).first }

    /// Returns all values of a repeatable text option, in order.
    package func strings(_ option: String) -> [String] {
        (self.options[option] ?? []).map { value in
            guard case .text(let text) = value else { preconditionFailure("--\(option) is not declared as text") }
            return text
        }
    }

    /// Returns the value of an integer option, or `nil` if it was not specified.
    package func integer(_ option: String) -> Int? {
        self.options[option]?.first.map { value in
            guard case .integer(let integer) = value else { preconditionFailure("--\(option) is not declared as an integer") }
            return integer
        }
    }

    /// Returns the value of a duration option, or `nil` if it was not specified.
    package func duration(_ option: String) -> Duration? {
        self.options[option]?.first.map { value in
            guard case .duration(let duration) = value else { preconditionFailure("--\(option) is not declared as a duration") }
            return duration
        }
    }

    /// Returns the value of the environment variable of an option, or `nil` if it is not set or empty.
    ///
    /// The command decides whether it replaces the option, because a variable, unlike an option, does not contradict other options.
    package func environment(_ option: String) -> String? { self.environment[option] }

    /// Returns the value of a positional argument, or `nil` if it was not specified.
    package func positional(_ name: String) -> String? { self.positionals[name]?.first }

    /// Returns all values of a repeated positional argument, in order.
    package func positionals(_ name: String) -> [String] { self.positionals[name] ?? [] }

    /// Returns the value of a text option that is declared as required. The parser has checked that it is present.
    package func required(option: String) -> String {
        guard let text = self.string(option) else { preconditionFailure("--\(option) is not declared as required") }
        return text
    }

    /// Returns the value of a positional argument that is declared as required. The parser has checked that it is present.
    package func required(positional: String) -> String {
        guard let text = self.positional(positional) else { preconditionFailure("\(positional) is not declared as required") }
        return text
    }

    /// Returns the error for arguments that contradict each other.
    package func usageError(_ message: String) -> UsageError { UsageError(self.path, message) }
}

/// An error in the command line. The process exits with status 2.
package struct UsageError: Error, Equatable {
    /// The path of the command or group whose help explains the usage.
    let path: [String]
    /// The problem, with or without a final period.
    let message: String

    init(_ path: [String], _ message: String) {
        self.path = path
        self.message = message
    }

    /// The message with a pointer to the help, in one line that is safe to print to a terminal.
    var fullMessage: String {
        let period = self.message.hasSuffix("?") || self.message.hasSuffix(".") ? "" : "."
        let command = ([toolName] + self.path).joined(separator: " ")
        return TerminalText.escaped(self.message) + "\(period) See '\(command) --help'."
    }
}
