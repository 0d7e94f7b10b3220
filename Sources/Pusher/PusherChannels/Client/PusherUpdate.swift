package import RealtimeCore

/// Anything that happens to a client: what the sequences of the client and of its channels give one kind of each.
package enum PusherUpdate: Sendable {
    case event(PusherEvent)
    case state(PusherConnectionState)
    case connectingIn(Duration)
    case error(PusherError)
    case subscription(channel: String, PusherSubscriptionState)
    case members(channel: String, PusherMemberChange)
}

extension PusherClient {
    /// Everything that happens from now on, in the order in which it happened, until the connection has ended for good.
    ///
    /// Two sequences know nothing of each other's order. Whoever tells a person or a program what happens needs it.
    package func updates(buffer: BufferPolicy = .standard) -> EventSequence<PusherUpdate> {
        self.listen(.everything, buffer, .connection) { $0 }
    }
}
