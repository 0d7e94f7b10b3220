package import RealtimeCore

/// Why a command ends with exit status 1.
package struct ToolFailure: Error, Equatable {
    /// One sentence: what went wrong, where, what to do.
    package var sentence: String

    package init(_ sentence: String) {
        self.sentence = sentence
    }

    package init(_ error: TransportError) {
        self.sentence = error.message
    }
}
