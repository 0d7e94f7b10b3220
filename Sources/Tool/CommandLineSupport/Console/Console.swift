import RealtimeCoding
import RealtimeSystem

/// The output of a command: text at a terminal, one JSON object per line otherwise.
///
/// Lines from several threads do not interleave. Printing blocks while the reader is slow, and has no effect after a write has failed.
package final class Console: Sendable {
    enum Format: Sendable, Equatable {
        case text(isColored: Bool)
        /// At a terminal, control characters and other unsafe characters are escaped.
        case json(isTerminal: Bool)
    }

    private let format: Format
    private let output: Output
    private let errors: Output
    private let clock: Clock?

    /// The clock of the timestamps: returns the milliseconds since 1970.
    package typealias Clock = @Sendable () -> Int64

    /// Creates a console.
    ///
    /// - Parameters:
    ///   - format: The format of lines.
    ///   - output: Standard output.
    ///   - errors: Standard error.
    ///   - clock: The clock of the timestamps; `nil` if lines have none.
    init(_ format: Format, output: Output = .standard, errors: Output = .error, clock: Clock? = nil) {
        self.format = format
        self.output = output
        self.errors = errors
        self.clock = clock
    }

    var isJSON: Bool { if case .json = self.format { true } else { false } }

    /// Whether standard error leads to the same terminal, file or pipe as standard output.
    var mixesErrors: Bool { self.output.leadsToSamePlace(as: self.errors) }

    /// Writes a line to standard output, in the console's format.
    package func print(_ line: Line) {
        let line = self.stamped(line)
        switch self.format {
        case .text(let isColored): self.output.write(line.text(isColored: isColored))
        case .json(let isTerminal): self.output.write(isTerminal ? TerminalText.escaped(json: line.json) : line.json)
        }
    }

    /// Returns the line with the current time, unless it has one or lines have no timestamps. A line that is printed later keeps its time.
    func stamped(_ line: Line) -> Line {
        guard let clock, line.time == nil else { return line }
        var line = line
        line.time = Self.timestamp(clock())
        return line
    }

    /// Returns a time in ISO 8601, in UTC and with milliseconds.
    static func timestamp(_ milliseconds: Int64) -> String {
        let (seconds, fraction) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        let digits = String(1000 + fraction).dropFirst()
        return "\(MessagePackTimestamp(seconds: seconds, nanoseconds: 0).iso8601?.dropLast() ?? "").\(digits)Z"
    }

    /// Writes a line for human readers to standard output. Does nothing when the format is JSON.
    package func printNote(_ spans: Line.Span...) {
        if !self.isJSON { self.print(Line(spans, [:])) }
    }

    /// Writes text to standard output as it is, whatever the format.
    package func write(_ text: String) { self.output.write(text) }

    /// Writes a message to standard error, after the name of the tool.
    func printError(_ message: String) { self.errors.write("\(toolName): " + TerminalText.escaped(message) + "\n") }

    /// Waits until writing to standard output fails. See ``Output/waitForFailure()``.
    func waitForOutputFailure() async -> Output.Failure? { await self.output.waitForFailure() }

    var outputFailure: Output.Failure? { self.output.failure }

    /// Returns the format for the current output.
    ///
    /// - Parameters:
    ///   - json: Whether `--json` is specified.
    ///   - isTerminal: Whether standard output is a terminal. If it is not, the format is JSON.
    ///   - environment: Returns an environment variable. `NO_COLOR`, or `TERM` missing or `dumb`, disables colors.
    static func format(json: Bool, isTerminal: Bool, environment: (String) -> String?) -> Format {
        if json || !isTerminal { return .json(isTerminal: isTerminal) }
        let isPlain = !(environment("NO_COLOR") ?? "").isEmpty || ["dumb", nil].contains(environment("TERM"))
        return .text(isColored: !isPlain)
    }

    /// Returns an environment variable of the process, or `nil` if it is not set.
    package static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    /// The working directory of the process, or `nil` if it is unknown.
    package static var workingDirectory: String? {
        guard let path = getcwd(nil, 0) else { return nil }
        defer { free(path) }
        return String(cString: path)
    }
}
