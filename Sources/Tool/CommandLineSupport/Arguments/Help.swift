/// The help of a command, a group or the tool itself, as text.
package struct Help {
    package let table: CommandTable
    package var width = 80

    package init(table: CommandTable, width: Int = 80) {
        self.table = table
        self.width = width
    }

    package func text(for path: [String]) -> String {
        if let command = self.table.commands.first(where: { $0.path == path }) { return self.text(command) }
        let summary = self.table.groups.first { $0.path == path }?.summary ?? self.table.summary
        let called = self.called(path)
        var blocks = [summary + ".", "Usage: \(called) COMMAND [options]"]
        blocks.append(self.section("Commands", self.table.entries(under: path).map { ($0.name, $0.summary + ".") }))
        let version = path.isEmpty ? [("--version", "Print the version.")] : []
        blocks.append(self.section("Options", version + [(OptionSpec.help.usage, OptionSpec.help.help)]))
        blocks.append("'\(called) COMMAND --help' says more about a command.")
        return blocks.joined(separator: "\n\n") + "\n"
    }

    private func text(_ command: CommandSpec) -> String {
        var blocks = [self.wrapped(command.description, indent: 0).joined(separator: "\n")]
        blocks.append(self.wrapped("Usage: " + self.usage(command), indent: 0, hanging: 8).joined(separator: "\n"))
        if !command.positionals.isEmpty { blocks.append(self.section("Arguments", command.positionals.map { ($0.name, $0.help) })) }
        blocks.append(self.section("Options", command.allOptions.map { ($0.usage, $0.help) }))
        if !command.examples.isEmpty {
            let title = command.examples.count == 1 ? "Example" : "Examples"
            blocks.append("\(title):\n" + command.examples.map { "  realtime \($0)" }.joined(separator: "\n"))
        }
        return blocks.joined(separator: "\n\n") + "\n"
    }

    private func usage(_ command: CommandSpec) -> String {
        var words = [self.called(command.path)]
        for positional in command.positionals {
            switch positional.presence {
            case .required: words.append(positional.name)
            case .requiredWithout(let option):
                words.append("(\(positional.name) | \(command.options.first { $0.name == option }?.usage ?? ""))")
            case .optional: words.append("[\(positional.name)]")
            case .repeated(let minimum): words.append(minimum > 0 ? "\(positional.name)..." : "[\(positional.name)...]")
            }
        }
        words += command.options.filter(\.isRequired).map(\.usage)
        return words.joined(separator: " ") + " [options]"
    }

    private func called(_ path: [String]) -> String { (["realtime"] + path).joined(separator: " ") }

    private func section(_ title: String, _ rows: [(String, String)]) -> String {
        let column = min(24, (rows.map { $0.0.count }.max() ?? 0) + 4)
        var lines = ["\(title):"]
        for (name, help) in rows {
            let label = "  " + name
            let text = self.wrapped(help, indent: column)
            if label.count + 2 > column {
                lines.append(label)
                lines += text
            } else {
                lines.append(label + text[0].dropFirst(label.count))
                lines += text.dropFirst()
            }
        }
        return lines.joined(separator: "\n")
    }

    private func wrapped(_ text: String, indent: Int, hanging: Int = 0) -> [String] {
        var lines: [String] = []
        var line = String(repeating: " ", count: indent)
        var isEmpty = true
        for word in text.split(separator: " ") {
            if !isEmpty, line.count + 1 + word.count > self.width {
                lines.append(line)
                line = String(repeating: " ", count: indent + hanging)
                isEmpty = true
            }
            line += (isEmpty ? "" : " ") + word
            isEmpty = false
        }
        return lines + [line]
    }
}
