extension CompletionScript {
    /// The script for fish 3 or later.
    var fish: String {
        #"""
        # Whether the words before the cursor name this command or group.
        function __realtime_at
            set -l command
            for word in (commandline -opc)[2..]
                if test -z "$command" -a "$word" = help
                    continue
                end
                switch "$command$word"
                    case \#(self.entries.dropFirst().map { "'\($0.name)'" }.joined(separator: " "))
                        set command "$command$word "
                    case '*'
                        # A word that isn't the name of a command.
                        contains -- "$command" \#(self.groups.map { "'\(self.fishPath($0))'" }.joined(separator: " ")); and set command '?'
                        break
                end
            end
            test "$command" = "$argv[1]"
        end

        # Whether the word before the previous one is this option, of which the second value follows.
        function __realtime_second
            set -l words (commandline -opc)
            test (count $words) -gt 2; and test "$words[-2]" = "$argv[1]"
        end

        complete -c realtime -e
        complete -c realtime -f
        \#(self.entries.flatMap(self.fishLines).joined(separator: "\n"))

        """#
    }

    /// Returns the words of a path, with a space after each.
    private func fishPath(_ entry: Entry) -> String { entry.path.map { $0 + " " }.joined() }

    private func fishLines(_ entry: Entry) -> [String] {
        let start = "complete -c realtime -n \"__realtime_at '\(self.fishPath(entry))'\""
        let commands = entry.commands.map { "\(start) -a \($0.name) -d \(Self.quoted($0.summary))" }
        let values = entry.values.isEmpty ? [] : ["\(start) -a \(Self.quoted(entry.values.joined(separator: " ")))"]
        let options = entry.options.flatMap { option in
            let action =
                switch option.completion {
                case .nothing: option.isFlag ? "" : " -x"
                case .files: " -r -F"
                case .values(let values): " -x -a \(Self.quoted(values.joined(separator: " ")))"
                }
            let line = "\(start) -l \(option.name)\(action) -d \(Self.quoted(Self.firstSentence(of: option.help)))"
            guard option.valueCount > 1, option.completion == .files else { return [line] }
            return [line, "complete -c realtime -n \"__realtime_second --\(option.name)\" -F"]
        }
        return commands + values + options
    }

    /// Returns the first sentence without its period, because fish shows one line.
    private static func firstSentence(of text: String) -> String {
        var words: [Substring] = []
        for word in text.split(separator: " ") {
            words.append(word.last == "." ? word.dropLast() : word)
            if word.last == "." { break }
        }
        return words.joined(separator: " ")
    }

    private static func quoted(_ text: String) -> String { "'" + text.escaping("\\'") + "'" }
}
