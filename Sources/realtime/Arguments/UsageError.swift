/// The command line was not understood: exit status 2.
struct UsageError: Error, Equatable {
    /// The words of the command whose help explains more.
    var path: [String]
    /// What was wrong: a sentence without its full stop, since the pointer to the help follows.
    var message: String

    init(_ path: [String], _ message: String) {
        self.path = path
        self.message = message
    }

    /// For standard error, in one line.
    var sentence: String {
        "\(TerminalText.escaped(self.message)); see '\((["realtime"] + self.path).joined(separator: " ")) --help'."
    }
}
