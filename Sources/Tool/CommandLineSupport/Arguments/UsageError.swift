/// The command line was not understood: exit status 2.
package struct UsageError: Error, Equatable {
    /// The words of the command whose help explains more.
    package var path: [String]
    /// What was wrong: a sentence without its full stop, since the pointer to the help follows.
    package var message: String

    package init(_ path: [String], _ message: String) {
        self.path = path
        self.message = message
    }

    /// For standard error, in one line.
    package var sentence: String {
        let help = "'\((["realtime"] + self.path).joined(separator: " ")) --help'"
        return TerminalText.escaped(self.message) + (self.message.hasSuffix("?") ? " See \(help)." : "; see \(help).")
    }
}
