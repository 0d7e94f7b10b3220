package import RealtimeCore

/// The close codes of the Pusher protocol.
package enum PusherCloseCode {
    /// The application accepts TLS only.
    package static let tlsOnly = CloseCode(rawValue: 4000)
    package static let noSuchApplication = CloseCode(rawValue: 4001)
    package static let applicationDisabled = CloseCode(rawValue: 4003)
    package static let overQuota = CloseCode(rawValue: 4004)
    package static let pathNotFound = CloseCode(rawValue: 4005)
    package static let unsupportedProtocol = CloseCode(rawValue: 4007)
    package static let noProtocol = CloseCode(rawValue: 4008)
    package static let unauthorized = CloseCode(rawValue: 4009)
    package static let overCapacity = CloseCode(rawValue: 4100)
    package static let reconnect = CloseCode(rawValue: 4200)
    package static let pongMissing = CloseCode(rawValue: 4201)
    package static let clientEventRejected = CloseCode(rawValue: 4301)
    package static let watchlistLimit = CloseCode(rawValue: 4302)

    /// The action that a close code requires of the client.
    package enum Reaction: Hashable, Sendable {
        /// Reconnect immediately with TLS.
        case useTLS
        /// Do not reconnect: an unchanged attempt would fail again.
        case fail
        case reconnect(ReconnectDecision)
    }

    /// Returns the action that a close code requires.
    ///
    /// - Source: the protocol's section on connection closure. 4000-4099: do not reconnect unchanged. 4100-4199: reconnect after at
    ///   least one second. 4200-4299: reconnect immediately. Any other code is an ordinary connection loss.
    package static func reaction(to code: CloseCode) -> Reaction {
        switch code.rawValue {
        case self.tlsOnly.rawValue: .useTLS
        case 4001...4099: .fail
        case 4100...4199: .reconnect(.afterBackoff(atLeast: .seconds(1)))
        case 4200...4299: .reconnect(.immediately)
        default: .reconnect(.afterBackoff())
        }
    }
}
