/// Whether a server waits for the answer of a client to its ping.
package enum PongWait: Sendable {
    case none
    case awaited
    /// The answer to an earlier ping may wait to be read, because the process stood still. This happens once, so that a busy process still finds a
    /// lost client.
    case awaitedAnew

    /// The client is to answer another ping.
    ///
    /// - Parameter stoodStill: Whether the time for the answer to the previous one passed during a standstill.
    /// - Returns: `false` if the client hasn't answered the previous one, and is lost.
    package mutating func expect(stoodStill: Bool) -> Bool {
        switch self {
        case .none: self = .awaited
        case .awaited where stoodStill: self = .awaitedAnew
        case .awaited, .awaitedAnew: return false
        }
        return true
    }
}
