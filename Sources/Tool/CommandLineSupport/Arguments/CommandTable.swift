/// Every command and group there is, and which of them a command line calls.
package struct CommandTable: Sendable {
    package enum Outcome: Equatable {
        /// Print the help of the command or group with this path.
        case help([String])
        case version
        case run(Arguments)
    }

    package var summary: String
    package var groups: [GroupSpec]
    package var commands: [CommandSpec]

    package init(summary: String, groups: [GroupSpec], commands: [CommandSpec]) {
        self.summary = summary
        self.groups = groups
        self.commands = commands
    }

    package func parse(_ words: [String]) throws(UsageError) -> Outcome {
        var path: [String] = []
        var rest = words[...]
        if rest.isEmpty { return .help([]) }
        while true {
            if let command = self.commands.first(where: { $0.path == path }) {
                switch try ArgumentParser.parse(rest, for: command) {
                case .help: return .help(path)
                case .run(let arguments): return .run(arguments)
                }
            }
            let next = self.entries(under: path)
            guard let word = rest.popFirst() else {
                throw UsageError(path, "A command is missing after \(path.joined(separator: " ")): \(Self.list(next.map(\.name)))")
            }
            switch word {
            case "--help", "-h": return .help(path)
            case "--version" where path.isEmpty: return .version
            default: break
            }
            guard self.exists(path + [word]) else {
                if word.hasPrefix("-") { throw UsageError(path, "There is no option \(word) before the command") }
                let hint = Suggestion.nearest(to: word, in: next.map(\.name)).map { "; did you mean '\($0)'?" } ?? ""
                throw UsageError(path, "There is no command '\((path + [word]).joined(separator: " "))'\(hint)")
            }
            path.append(word)
        }
    }

    /// What can follow these words, in the table's order.
    package func entries(under path: [String]) -> [(name: String, summary: String)] {
        let all = self.groups.map { ($0.path, $0.summary) } + self.commands.filter { !$0.isHidden }.map { ($0.path, $0.summary) }
        return all.filter { $0.0.count == path.count + 1 && $0.0.dropLast() == path[...] }.map { (name: $0.0[path.count], summary: $0.1) }
    }

    private func exists(_ path: [String]) -> Bool {
        self.groups.contains { $0.path == path } || self.commands.contains { $0.path == path }
    }

    private static func list(_ names: [String]) -> String {
        names.count < 2 ? names.joined() : names.dropLast().joined(separator: ", ") + " or " + names[names.count - 1]
    }
}
