/// A command line that was parsed.
enum ParsedCommand: Equatable {
    /// Print the help of the command or group with this path.
    case help([String])
    /// Print the version.
    case version
    /// Run the command with these arguments.
    case run(Arguments)
}

/// The declarations of all commands and groups.
struct CommandTable: Sendable {
    let summary: String
    let groups: [GroupSpec]
    let commands: [CommandSpec]

    /// Parses a command line, without the name of the tool.
    ///
    /// - Parameters:
    ///   - arguments: The arguments of the process.
    ///   - environment: Returns an environment variable.
    /// - Throws: `UsageError` when no command is named, or when the arguments do not match its declaration.
    func parse(
        _ arguments: [String], environment: (String) -> String? = Console.environment
    ) throws(UsageError) -> ParsedCommand {
        if arguments.isEmpty { return .help([]) }
        var path: [String] = []
        var remaining = arguments[...]
        // `help pusher publish` is the same as `pusher publish --help`.
        let isHelp = remaining.first == "help"
        if isHelp { remaining.removeFirst() }
        while true {
            if let command = self.commands.first(where: { $0.path == path }) {
                return isHelp ? .help(path) : try ArgumentParser.parse(remaining, for: command, environment: environment)
            }
            let names = self.entries(under: path).map(\.name)
            guard let argument = remaining.popFirst() else {
                if isHelp { return .help(path) }
                throw UsageError(path, "Missing command after '\(path.joined(separator: " "))': expected \(Self.alternatives(names))")
            }
            switch argument {
            case "--help", "-h": return .help(path)
            case "--version" where path.isEmpty, "version" where path.isEmpty && !isHelp: return .version
            default: break
            }
            guard self.exists(path + [argument]) else {
                if argument.hasPrefix("-") { throw UsageError(path, "Unexpected option '\(argument)' before the command") }
                let hint = Suggestion.nearest(to: argument, in: names).map { ". Did you mean '\($0)'?" } ?? ""
                throw UsageError(path, "Unknown command '\((path + [argument]).joined(separator: " "))'\(hint)")
            }
            path.append(argument)
        }
    }

    /// Returns the groups and the commands directly under a path, in the table's order, without hidden commands.
    func entries(under path: [String]) -> [(name: String, summary: String)] {
        let all = self.groups.map { ($0.path, $0.summary) } + self.commands.filter { !$0.isHidden }.map { ($0.path, $0.summary) }
        return all.filter { $0.0.count == path.count + 1 && $0.0.dropLast() == path[...] }.map { (name: $0.0[path.count], summary: $0.1) }
    }

    private func exists(_ path: [String]) -> Bool {
        self.groups.contains { $0.path == path } || self.commands.contains { $0.path == path }
    }

    private static func alternatives(_ names: [String]) -> String {
        names.count < 2 ? names.joined() : names.dropLast().joined(separator: ", ") + " or " + names[names.count - 1]
    }
}
