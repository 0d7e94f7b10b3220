internal import RealtimeCore

/// Why a command ends with exit status 1.
struct ToolFailure: Error, Equatable {
    /// One sentence: what went wrong, where, what to do.
    var sentence: String

    init(_ sentence: String) {
        self.sentence = sentence
    }

    init(_ error: TransportError) {
        self.sentence = error.message
    }
}
