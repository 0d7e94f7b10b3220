/// Why a caller waits no longer.
@usableFromInline
package enum WaitLimit: Hashable, Sendable, CustomStringConvertible {
    /// The caller's time limit was exceeded.
    case time(Duration)
    /// The limit can't be exceeded: the clock of a test did not advance for this duration of real time.
    case standstill(Duration)

    /// The beginning of an error message.
    @usableFromInline package var description: String {
        switch self {
        case .time(let limit): "Timed out after \(limit)"
        case .standstill(let duration): "Waited \(duration) of real time while the test clock did not advance"
        }
    }

    /// Returns what the developer can do: another time limit doesn't help if the clock doesn't advance.
    ///
    /// - Parameter advice: The advice for a limit that was too short.
    package func advice(_ advice: String) -> String {
        switch self {
        case .time: advice
        case .standstill: "Advance the clock if something is to happen later."
        }
    }

    /// Returns the message for a call that has waited for a connection.
    ///
    /// - Parameters:
    ///   - server: The server.
    ///   - call: What the call waits for, at the end of a clause that begins with a space.
    ///   - failure: Why there is no connection; `nil` if nothing has failed yet. More time doesn't help against a failure that is known.
    package func withoutConnection(to server: String, for call: String = "", after failure: String?) -> String {
        let start = "\(self)\(call) without a connection to \(server); the client is still"
        guard let failure else { return "\(start) trying. \(self.advice("Use a longer limit, or check the server."))" }
        let advice = self.advice("")
        return "\(start) retrying. \(Excerpt.sentence(failure))\(advice.isEmpty ? "" : " \(advice)")"
    }
}
