/// A parser for the arguments of one command.
struct ArgumentParser {
    private let spec: CommandSpec
    private var arguments: Arguments
    private var positionals: [String] = []

    /// Parses the arguments that follow a command's path.
    ///
    /// - Parameters:
    ///   - arguments: The arguments.
    ///   - spec: The declaration of the command.
    ///   - environment: Returns an environment variable.
    /// - Returns: `.help` when help is requested, whatever else is specified; `.run` otherwise.
    /// - Throws: `UsageError` when the arguments do not match the declaration.
    static func parse(
        _ arguments: some Sequence<String>, for spec: CommandSpec, environment: (String) -> String? = Console.environment
    ) throws(UsageError) -> ParsedCommand {
        var parser = ArgumentParser(spec)
        for option in spec.options {
            if let name = option.environmentVariable, let value = environment(name), !value.isEmpty {
                parser.arguments.add(value, environmentOf: option.name)
            }
        }
        return try parser.parse(Array(arguments)[...])
    }

    private init(_ spec: CommandSpec) {
        self.spec = spec
        self.arguments = Arguments(path: spec.path)
    }

    private mutating func parse(_ arguments: ArraySlice<String>) throws(UsageError) -> ParsedCommand {
        var remaining = arguments
        while let argument = remaining.popFirst() {
            if argument == "--" {
                self.positionals += remaining
                break
            }
            if argument == "--help" || argument == "-h" { return .help(self.spec.path) }
            if argument.hasPrefix("--") {
                try self.parseOption(argument.dropFirst(2), &remaining)
            } else if argument.hasPrefix("-"), argument.count > 1, !Self.isNumber(argument) {
                // Omits what follows an equals sign, which may be a secret.
                let name = argument.prefix { $0 != "=" }
                throw self.error(
                    "Unknown option '\(name)'; put '--' before arguments that start with a dash\(self.hint(name.dropFirst()))")
            } else {
                self.positionals.append(argument)
            }
        }
        let missing = try self.bindPositionals() + self.missingOptions() + self.spec.missing(self.arguments)
        if !missing.isEmpty { throw self.error("Missing argument\(missing.count == 1 ? "" : "s") \(missing.joined(separator: ", "))") }
        return .run(self.arguments)
    }

    private mutating func parseOption(_ text: Substring, _ remaining: inout ArraySlice<String>) throws(UsageError) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts[0])
        guard let option = self.spec.options.first(where: { $0.name == name }) else {
            throw self.error("Unknown option '--\(name)'\(self.hint(parts[0]))")
        }
        guard option.isRepeatable || !self.arguments.has(name) else {
            throw self.error("Option '--\(name)' is specified more than once")
        }
        if option.isFlag {
            guard parts.count == 1 else { throw self.error("Option '--\(name)' does not take a value") }
            self.arguments.add(.text(""), option: name)
            return
        }
        var values = parts.dropFirst().map(String.init)
        while values.count < option.valueCount {
            guard let next = remaining.first, !next.hasPrefix("--") else {
                let remedy = remaining.isEmpty || !values.isEmpty ? "" : "; use '--\(name)=VALUE' if the value starts with dashes"
                throw self.error("Missing value for '\(option.usage)'\(remedy)")
            }
            values.append(next)
            remaining.removeFirst()
        }
        for value in values {
            guard let parsed = option.kind.parse(value) else {
                throw self.error("Invalid value '\(value)' for '--\(name)': \(option.kind.requirement)")
            }
            self.arguments.add(parsed, option: name)
        }
    }

    /// Binds the positional arguments, and returns descriptions of those that are missing.
    private mutating func bindPositionals() throws(UsageError) -> [String] {
        var missing: [String] = []
        var remaining = self.positionals[...]
        for positional in self.spec.positionals {
            switch positional.presence {
            case .requiredWithout(let option) where self.arguments.has(option): continue
            case .required, .requiredWithout:
                if let value = remaining.popFirst() {
                    self.arguments.add(value, positional: positional.name)
                } else if case .requiredWithout(let option) = positional.presence {
                    missing.append(self.missing(positional.name, or: option))
                } else {
                    missing.append("'\(positional.name)'")
                }
            case .optional:
                if let value = remaining.popFirst() { self.arguments.add(value, positional: positional.name) }
            case .repeated(let minimum):
                if remaining.count < minimum { missing.append("'\(positional.name)'") }
                for value in remaining { self.arguments.add(value, positional: positional.name) }
                remaining = []
            }
        }
        if let argument = remaining.first { throw self.error("Unexpected argument '\(argument)'") }
        return missing
    }

    private func missingOptions() -> [String] {
        self.spec.options.filter { !self.arguments.has($0.name) }.compactMap { option in
            switch option.presence {
            case .optional: nil
            case .required: "'\(option.usage)'"
            case .requiredWithout(let other):
                self.arguments.has(other) || self.arguments.environment(option.name) != nil ? nil : self.missing(option.usage, or: other)
            }
        }
    }

    private func missing(_ usage: String, or option: String) -> String {
        "'\(usage)' (or '\(self.spec.options.first { $0.name == option }?.usage ?? option)')"
    }

    private func hint(_ name: Substring) -> String {
        Suggestion.nearest(to: String(name), in: self.spec.allOptions.map(\.name)).map { ". Did you mean '--\($0)'?" } ?? ""
    }

    private func error(_ message: String) -> UsageError { UsageError(self.spec.path, message) }

    /// Returns whether an argument with a leading dash is a negative number, and so not an option.
    private static func isNumber(_ argument: String) -> Bool {
        argument.utf8.dropFirst().first.map { (0x30...0x39).contains($0) } ?? false
    }
}
