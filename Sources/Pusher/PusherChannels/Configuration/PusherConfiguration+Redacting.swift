import RealtimeCore

extension PusherConfiguration: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("endpoint", self.endpoint(useTLS: self.useTLS)), ("authorizer", self.authorizer),
            ("userAuthenticator", self.userAuthenticator), ("headers", self.headers),
            ("activityTimeout", self.activityTimeout), ("pongTimeout", self.pongTimeout), ("connectTimeout", self.connectTimeout),
            ("unavailableTimeout", self.unavailableTimeout), ("subscriptionTimeout", self.subscriptionTimeout),
            ("backoff", self.backoff), ("retry", self.retry), ("messageLimit", self.messageLimit),
            ("clientEventQueueLimit", self.clientEventQueueLimit),
            ("clientEventLimit", self.clientEventLimit), ("eventDataLimit", self.eventDataLimit), ("transports", self.transports),
        ]
    }
}
