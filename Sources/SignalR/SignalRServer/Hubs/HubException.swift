import RealtimeCore

/// An error whose message the server sends to the client. Throw it in a method of a hub.
///
/// The messages of other errors aren't sent, because they may contain internal information; see
/// ``SignalRServerConfiguration/sendsDetailedErrors``.
public struct HubException: Error, Sendable, Hashable, CustomStringConvertible {
    /// The message for the client.
    public var message: String

    /// Creates an error.
    ///
    /// - Parameter message: The message for the client.
    public init(_ message: String) {
        self.message = message
    }

    /// The message.
    public var description: String { self.message }
}

/// The error of a call to a client's method.
public struct HubInvocationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Sendable, Hashable {
        /// The client's method failed, or the client has no such method.
        case failed
        /// No connection has the ID.
        case unknownConnection
        /// The connection ended before the result arrived.
        case disconnected
        /// The result didn't arrive in time.
        case timedOut
        /// The result can't be decoded as the expected type.
        case invalidResult
    }

    /// The kind of the error.
    public let code: Code
    /// A description of the failure. For the code ``Code/failed``, the message of the client.
    public let message: String

    init(_ code: Code, _ message: String) {
        (self.code, self.message) = (code, message)
    }

    /// The message.
    public var description: String { self.message }
}

/// The arguments of an invocation don't match the parameters of the method.
struct HubBindingError: Error, CustomStringConvertible {
    let description: String
}

/// The texts of errors for clients, the same as in ASP.NET Core.
enum HubErrorText {
    static func invocation(_ method: String, _ error: any Error, isDetailed: Bool) -> String {
        self.text("An unexpected error occurred invoking '\(method)' on the server.", error, isDetailed)
    }

    static func stream(_ error: any Error, isDetailed: Bool) -> String {
        self.text("An error occurred on the server while streaming results.", error, isDetailed)
    }

    static func connection(_ error: any Error, isDetailed: Bool) -> String {
        self.text("Connection closed with an error.", error, isDetailed)
    }

    static func unknownMethod(_ method: String) -> String { self.binding(method, "HubException: Method does not exist.") }

    static func binding(_ method: String, _ problem: String) -> String {
        Excerpt.message("Failed to invoke '\(method)' due to an error on the server. \(problem)")
    }

    static func needsStream(_ method: String) -> String {
        "The client attempted to invoke the streaming '\(method)' method with a non-streaming invocation."
    }

    static func needsInvocation(_ method: String) -> String {
        "The client attempted to invoke the non-streaming '\(method)' method with a streaming invocation."
    }

    private static func text(_ summary: String, _ error: any Error, _ isDetailed: Bool) -> String {
        if let error = error as? HubException { return "\(summary) HubException: \(error.message)" }
        return isDetailed ? "\(summary) \(type(of: error)): \(error)" : summary
    }
}
