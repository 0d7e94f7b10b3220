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
        self.clientResultTimeout = .seconds(600)
    }
}
