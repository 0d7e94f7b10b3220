/// The web pages of other hosts that a server on a loopback address refuses.
package struct RefusedOrigins: Sendable {
    /// The number of origins whose refusals are logged as warnings.
    private static let maximum = 16

    private var logged: Set<String> = []

    package init() {}

    /// Notes a refusal. A page tries again and again.
    ///
    /// - Returns: The level at which it is logged: a warning for the first one of an origin.
    package mutating func level(for origin: String) -> LogSink.Level {
        self.logged.count < Self.maximum && self.logged.insert(origin).inserted ? .warning : .debug
    }

    /// Returns the body of the response, which is also logged.
    ///
    /// - Parameter advice: A sentence that says what to do.
    package static func text(for origin: String, advice: String) -> String {
        "The web pages of the origin \"\(Excerpt.of(origin, limit: 200))\" may not use this server, which is reachable only locally. \(advice)"
    }
}
