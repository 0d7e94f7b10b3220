import RealtimeSystem

/// What a command says: words at a terminal, one JSON object a line for programs.
package final class Console: Sendable {
    package enum Format: Sendable, Equatable {
        case words(coloured: Bool)
        /// `terminal`: somebody looks at it all the same, so it must not carry what a terminal obeys.
        case json(terminal: Bool)
    }

    package let format: Format
    private let output: Output
    private let errors: Output

    package init(_ format: Format, output: Output = .standard, errors: Output = .error) {
        self.format = format
        self.output = output
        self.errors = errors
    }

    package var isJSON: Bool { if case .json = self.format { true } else { false } }

    /// To standard output, at once. From any thread.
    package func say(_ line: Line) {
        switch self.format {
        case .words(let coloured): self.output.write(line.words(coloured: coloured))
        case .json(let terminal): self.output.write(terminal ? TerminalText.escaped(json: line.json) : line.json)
        }
    }

    /// What only a person wants to know; programs do not get it.
    package func remark(_ words: Line.Span...) {
        if !self.isJSON { self.say(Line(words, [:])) }
    }

    /// Text that is the same for everybody, such as help.
    package func print(_ text: String) { self.output.write(text) }

    /// Why the tool ends with a status other than 0: one sentence on standard error.
    package func complain(_ sentence: String) { self.errors.write("realtime: " + TerminalText.escaped(sentence) + "\n") }

    /// See ``Output/ended()``.
    package func outputEnded() async -> Output.Ending? { await self.output.ended() }

    package var outputEnding: Output.Ending? { self.output.ending }

    /// What suits whoever reads: JSON for a pipe, a file or `--json`; colours unless `NO_COLOR` or the terminal forbids them.
    package static func format(json: Bool, isTerminal: Bool, environment: (String) -> String?) -> Format {
        if json || !isTerminal { return .json(terminal: isTerminal) }
        let isPlain = !(environment("NO_COLOR") ?? "").isEmpty || ["dumb", nil].contains(environment("TERM"))
        return .words(coloured: !isPlain)
    }

    /// A variable of the process's environment.
    package static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
