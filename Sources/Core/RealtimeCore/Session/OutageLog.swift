/// Logs why a client has no connection, once per outage: an application that sets no log learns the reason, and a server that is down for long
/// doesn't fill the log.
package struct OutageLog: Sendable {
    /// Whether a failed attempt was logged as a warning since the last connection.
    private var hasWarned = false

    package init() {}

    /// Begins the next outage with the next failed attempt: a connection was established, or the client has ended.
    package mutating func reset() { self.hasWarned = false }

    /// Logs that an attempt to connect has failed, and that others follow.
    package mutating func attemptFailed<Machine>(_ message: String, _ effects: inout Effects<Machine>) {
        if self.hasWarned { return effects.log(.info, message) }
        self.hasWarned = true
        effects.log(.warning, "\(message) The client keeps trying.")
    }
}
