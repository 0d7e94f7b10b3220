import SignalRHubs
import SignalRServer

// Other tests use the processor: a message may take longer than the default limits, and the client would connect once more.

extension HubConfiguration {
    mutating func allowLongTimes() {
        self.connectTimeout = .seconds(600)
        self.handshakeTimeout = .seconds(600)
        self.serverTimeout = .seconds(600)
    }
}

extension SignalRServerConfiguration {
    mutating func allowLongTimes() {
        self.connectTimeout = .seconds(600)
        self.handshakeTimeout = .seconds(600)
        self.authenticationTimeout = .seconds(600)
        self.clientTimeout = .seconds(600)
        // Less than `eventually` waits: with long polling, the server may learn of an end only in this way, since a client that stops tells it
        // for at most five seconds.
        self.disconnectTimeout = .seconds(120)
        self.clientResultTimeout = .seconds(600)
    }
}
