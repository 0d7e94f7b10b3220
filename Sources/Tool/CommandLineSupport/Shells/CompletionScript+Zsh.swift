extension CompletionScript {
    /// The script for zsh, to be read with `source`, or from a file `_realtime` in a folder of `fpath`.
    var zsh: String {
        #"""
        _realtime() {
            local command='' next='' word=''
            local -i count=1
            local -a commands
            if [[ $words[2] == help ]] && ((CURRENT > 2)); then count=2; fi
            while ((count + 1 < CURRENT)); do
                next="${command:+$command }$words[count + 1]"
                case $next in
                \#(self.entries.dropFirst().map { "'\($0.name)'" }.joined(separator: " | "))) command=$next ;;
                *) break ;;
                esac
                count+=1
            done
            # The last word of the command takes the place of the tool's name.
            words=("${(@)words[count, -1]}")
            ((CURRENT -= count - 1))
            case $command in
        \#(self.entries.map(self.zshCase).joined(separator: "\n"))
            esac
        }

        if [[ $funcstack[1] == _realtime ]]; then
            _realtime "$@"
        else
            compdef _realtime realtime
        fi

        """#
    }

    private func zshCase(_ entry: Entry) -> String {
        let options = entry.options.map { "            \(self.zshOption($0)) \\\n" }.joined()
        let arguments = "        _arguments -S : \\\n\(options)"
        guard entry.commands.isEmpty else {
            let commands = entry.commands.map { "            \(Self.quoted("\($0.name.escaping(":")):\($0.summary)"))\n" }.joined()
            return """
                    '\(entry.name)')
                        commands=(
                \(commands)            )
                        if [[ $words[CURRENT] == -* ]]; then
                \(arguments)            && return
                        elif ((CURRENT == 2)); then
                            _describe -t commands command commands
                        fi
                        ;;
                """
        }
        let positionals = entry.positionals.map { "            \(self.zshPositional($0)) \\\n" }.joined()
        return "    '\(entry.name)')\n\(arguments)\(positionals)            && return\n        ;;"
    }

    /// Returns an option in the form of `_arguments`: `--name[help]:placeholder:action`.
    private func zshOption(_ option: OptionSpec) -> String {
        let help = option.help.escaping("\\[]:")
        let placeholders = option.placeholder?.split(separator: " ") ?? []
        let values = placeholders.map { ":\(String($0).escaping(":")):\(Self.zshAction(option.completion))" }.joined()
        // An equals sign after the name permits --name=value.
        let name = "--\(option.name)" + (option.valueCount == 1 ? "=" : "")
        return Self.quoted("\(option.isRepeatable ? "*" : "")\(name)[\(help)]\(values)")
    }

    private func zshPositional(_ positional: PositionalSpec) -> String {
        let start =
            switch positional.presence {
            case .required, .requiredWithout: ""
            case .optional: ":"
            case .repeated: "*"
            }
        return Self.quoted("\(start):\(positional.name):\(Self.zshAction(positional.completion))")
    }

    private static func zshAction(_ completion: ValueCompletion) -> String {
        switch completion {
        case .nothing: " "
        case .files: "_files"
        case .values(let values): "(\(values.joined(separator: " ")))"
        }
    }

    private static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
}
