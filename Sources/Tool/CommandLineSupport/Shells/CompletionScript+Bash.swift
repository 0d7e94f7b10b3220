extension CompletionScript {
    /// The script for bash 3.2 or later.
    var bash: String {
        #"""
        _realtime() {
            local current=${COMP_WORDS[COMP_CWORD]} path='' next='' option='' word='' index=0 pending=0 ended=''
            local commands options values kind count
            COMPREPLY=()
            # COMP_WORDS has the equals sign of --name=value as a word of its own.
            if [[ $current == '=' ]]; then current=''; fi
            for ((index = 1; index < COMP_CWORD; index++)); do
                word=${COMP_WORDS[index]}
                if [[ $word == '=' && $pending -gt 0 ]]; then continue; fi
                if [[ $pending -gt 0 ]]; then
                    pending=$((pending - 1))
                elif [[ $word == '--' ]]; then
                    ended=1
                elif [[ $word == -* && -z $ended ]]; then
                    option=$word
                    _realtime_values
                    pending=$count
                elif [[ $index -eq 1 && $word == help ]]; then
                    continue
                else
                    next="${path:+$path }$word"
                    case $next in
                    \#(self.entries.dropFirst().map { "'\($0.name)'" }.joined(separator: " | "))) path=$next ;;
                    *)
                        case $path in
                        # A word that isn't the name of a command.
                        \#(self.groups.map { "'\($0.name)'" }.joined(separator: " | "))) path='?' ;;
                        esac
                        ;;
                    esac
                fi
            done
            if [[ $pending -gt 0 ]]; then
                _realtime_values
                case $kind in
                files)
                    compopt -o filenames 2>/dev/null
                    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
                    ;;
                values) COMPREPLY=($(compgen -W "$values" -- "$current")) ;;
                esac
                return
            fi
            _realtime_words
            if [[ $current == -* && -z $ended ]]; then
                COMPREPLY=($(compgen -W "$options" -- "$current"))
            else
                COMPREPLY=($(compgen -W "$commands" -- "$current"))
            fi
        }

        # Sets what can follow the words in path.
        _realtime_words() {
            commands='' options=''
            case $path in
        \#(self.entries.map(self.bashWords).joined(separator: "\n"))
            esac
        }

        # Sets how many values the option of the command in path has, and what they are.
        _realtime_values() {
            count=0 kind='' values=''
            case "$path $option" in
        \#(self.bashValues.joined(separator: "\n"))
            esac
        }

        complete -F _realtime realtime

        """#
    }

    private func bashWords(_ entry: Entry) -> String {
        """
            '\(entry.name)')
                commands='\((entry.commands.map(\.name) + entry.values).joined(separator: " "))'
                options='\(entry.options.map { "--\($0.name)" }.joined(separator: " "))'
                ;;
        """
    }

    private var bashValues: [String] {
        self.entries.flatMap { entry in
            entry.options.filter { !$0.isFlag }.map { option in
                let (kind, values) =
                    switch option.completion {
                    case .nothing: ("none", "")
                    case .files: ("files", "")
                    case .values(let values): ("values", " values='\(values.joined(separator: " "))'")
                    }
                return "    '\(entry.name) --\(option.name)') count=\(option.valueCount) kind=\(kind)\(values) ;;"
            }
        }
    }
}
