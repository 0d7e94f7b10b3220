package import RealtimeCore

/// What a close code of the Pusher protocol asks of the client, by its range.
package enum PusherCloseCode {
    /// The application accepts TLS only.
    package static let tlsOnly = CloseCode(rawValue: 4000)
    package static let noSuchApplication = CloseCode(rawValue: 4001)
    package static let overQuota = CloseCode(rawValue: 4004)
    package static let pathNotFound = CloseCode(rawValue: 4005)
    package static let unsupportedProtocol = CloseCode(rawValue: 4007)
    package static let noProtocol = CloseCode(rawValue: 4008)
    package static let unauthorized = CloseCode(rawValue: 4009)
    package static let overCapacity = CloseCode(rawValue: 4100)
    package static let reconnect = CloseCode(rawValue: 4200)
    package static let pongMissing = CloseCode(rawValue: 4201)
    package static let clientEventRejected = CloseCode(rawValue: 4301)

    package enum Reaction: Hashable, Sendable {
        /// Connect again at once, with TLS.
        case useTLS
        /// It would fail again: stay away.
        case refused
        case reconnect(ReconnectDecision)
    }

    /// - Source: the protocol's section on connection closure: 4000-4099 do not reconnect unchanged, 4100-4199 after at
    ///   least a second, 4200-4299 at once. The rest is an ordinary loss.
    package static func reaction(to code: CloseCode) -> Reaction {
        switch code.rawValue {
        case self.tlsOnly.rawValue: .useTLS
        case 4001...4099: .refused
        case 4100...4199: .reconnect(.afterBackoff(atLeast: .seconds(1)))
        case 4200...4299: .reconnect(.immediately)
        default: .reconnect(.afterBackoff())
        }
    }
}
