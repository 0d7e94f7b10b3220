/// The manual page of the tool for `man`, made from the declarations of its commands.
struct Manual {
    let table: CommandTable
    let version: String

    /// The source of the page, in the language of roff with the macros `man`.
    var text: String {
        let name = Self.escaped(toolName)
        let groups = self.table.groups.map { (self.fullName($0.path), $0.summary + ".") }
        let commands = self.table.commands.filter { !$0.isHidden }
        let variables = commands.flatMap(\.options).compactMap { option in option.environmentVariable.map { ($0, option) } }
        var lines = [
            #".\" Printed by '\#(toolName) manual'."#,
            ".TH \(toolName.uppercased()) 1 \"\" \"\(name) \(Self.escaped(self.version))\" \"\"",
            // Without hyphens and stretched lines, which make names hard to recognize.
            ".nr HY 0", ".ad l",
            ".SH NAME", "\(name) \\- \(Self.escaped(self.table.summary))",
            ".SH SYNOPSIS", ".B \(name)", "\\fICOMMAND\\fR [\\fIoptions\\fR]",
            ".SH DESCRIPTION", Self.escaped(self.table.summary) + ".",
            "Options may precede and follow the arguments of a command. After \\fB\\-\\-\\fR, all words are arguments.",
        ]
        lines += groups.flatMap { [".TP", ".B \($0)", Self.escaped($1)] }
        lines += [".SH COMMANDS"] + commands.flatMap(self.lines)
        lines += [".SH OPTIONS", ".TP", ".B \\-\\-version", "Show the version."] + self.item(.help)
        lines.append(".SH ENVIRONMENT")
        for (index, (variable, option)) in variables.enumerated() where !variables[..<index].contains(where: { $0.0 == variable }) {
            lines += [".TP", ".B \(Self.escaped(variable))", "Replaces \\fB\(Self.escaped("--\(option.name)"))\\fR."]
        }
        lines += [".TP", ".B NO_COLOR", Self.escaped("If it isn't empty, the output has no colors.")]
        lines += [".SH EXIT STATUS", "0 for success, 1 for a failure, 2 for invalid arguments."]
        return lines.joined(separator: "\n") + "\n"
    }

    private func lines(_ command: CommandSpec) -> [String] {
        let usage = Help(table: self.table).usage(command)
        var lines = [
            ".SS \(self.fullName(command.path))", Self.escaped(command.description), ".PP", "Usage: \\fB\(Self.escaped(usage))\\fR",
        ]
        for positional in command.positionals {
            lines += [".TP", ".I \(Self.escaped(positional.name))", Self.escaped(positional.help)]
        }
        for option in command.options { lines += self.item(option) }
        guard !command.examples.isEmpty else { return lines }
        lines += [".PP", command.examples.count == 1 ? "Example:" : "Examples:", ".PP", ".EX"]
        return lines + command.examples.map { Self.escaped("\(toolName) \($0)", breaks: false) } + [".EE"]
    }

    private func item(_ option: OptionSpec) -> [String] {
        let value = option.placeholder.map { " \\fI\(Self.escaped($0))\\fR" } ?? ""
        return [".TP", "\\fB\(Self.escaped("--\(option.name)"))\\fR\(value)", Self.escaped(option.help)]
    }

    private func fullName(_ path: [String]) -> String { Self.escaped(([toolName] + path).joined(separator: " ")) }

    /// Returns text in which no character has a meaning for roff, and dashes and quotes stay those of ASCII, so that they can be copied.
    ///
    /// - Parameters:
    ///   - text: The text, in one line.
    ///   - breaks: Whether long words may continue on the next line.
    static func escaped(_ text: String, breaks: Bool = true) -> String {
        text.split(separator: " ", omittingEmptySubsequences: false).map { word in
            let isLong = breaks && word.count > 30
            var result = ""
            for scalar in word.unicodeScalars {
                switch scalar {
                case "\\": result += "\\e"
                case "-": result += "\\-"
                case "'": result += "\\(aq"
                case "`": result += "\\(ga"
                case "^": result += "\\(ha"
                case "~": result += "\\(ti"
                case "\"": result += "\\(dq"
                case _ where !scalar.isASCII: result += "\\[u\(Self.hexadecimal(scalar))]"
                default: result.unicodeScalars.append(scalar)
                }
                if isLong, scalar == "," || scalar == "/" { result += "\\:" }
            }
            // A period at the start of a line would begin a request.
            return result.hasPrefix(".") ? "\\&" + result : result
        }.joined(separator: " ")
    }

    private static func hexadecimal(_ scalar: Unicode.Scalar) -> String {
        let digits = String(scalar.value, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}
