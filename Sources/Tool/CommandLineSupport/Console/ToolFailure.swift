package import RealtimeCore

/// A failure that ends a command.
package struct ToolFailure: Error, Equatable {
    /// The failure with the values involved, and what to do about it.
    package let message: String
    /// The protocol's error code, if any.
    package let code: Int?

    /// Creates a failure with a message.
    package init(_ message: String, code: Int? = nil) {
        self.message = message
        self.code = code
    }

    /// Creates a failure with the message of a transport error.
    package init(_ error: TransportError) {
        self.init(error.message)
    }
}

/// The exit status of the process.
enum ToolExitStatus: Int32, Sendable {
    case success = 0
    case failure = 1
    case usageError = 2
}
