/// The transports that failed to open within one attempt to connect, with what each of them said.
package struct FailedTransports<Transport: Hashable & Sendable>: Sendable {
    private var failures: [(transport: Transport, message: String)] = []

    package init() {}

    package var isEmpty: Bool { self.failures.isEmpty }
    package var last: (transport: Transport, message: String)? { self.failures.last }

    package func contains(_ transport: Transport) -> Bool { self.failures.contains { $0.transport == transport } }

    /// Adds a transport.
    ///
    /// - Parameter message: The message of its error; what ``added(to:)`` has added to it is removed.
    package mutating func add(_ transport: Transport, _ message: String) {
        var message = message
        if !self.isEmpty, message.hasSuffix(" \(self.text)") { message.removeLast(self.text.count + 1) }
        self.failures.append((transport, message))
    }

    /// Returns the message of the error that ends the attempt, with what the transports said before.
    package func added(to message: String) -> String { self.isEmpty ? message : "\(message) \(self.text)" }

    private var text: String {
        self.failures.map { "Before, \($0.transport): \(Excerpt.of($0.message, limit: 300))" }.joined(separator: " ")
    }
}
