import RealtimeCore

extension PusherChannelAuthorization: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("auth", Redacted.secret), ("channelData", Redacted.optional(self.channelData)),
            ("sharedSecret", Redacted.optional(self.sharedSecret)),
        ]
    }
}

extension PusherUserAuthentication: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("auth", Redacted.secret), ("userData", Redacted.secret)] }
}

extension PusherAuthorizer: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        switch self.kind {
        case .endpoint(let endpoint), .batchEndpoint(let endpoint): endpoint.visibleFields
        case .callback, .completion, .direct: [("callback", Redacted.secret)]
        case .request: [("request", Redacted.secret)]
        case .byChannel: [("byChannel", Redacted.secret)]
        case .secret(_, let userID, let userInfo, let masterKey):
            [
                ("secret", Redacted.secret), ("userID", userID), ("userInfo", Redacted.optional(userInfo)),
                ("encryptionMasterKey", Redacted.optional(masterKey)),
            ]
        }
    }
}

extension PusherUserAuthenticator: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        switch self.kind {
        case .endpoint(let endpoint): endpoint.visibleFields
        case .callback: [("callback", Redacted.secret)]
        case .secret(_, let user, let watchlist):
            [("secret", Redacted.secret), ("user", user.id), ("watchlist", "\(watchlist.count) users")]
        }
    }
}

extension PusherAuthorizationEndpoint: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("endpoint", self.endpoint), ("headers", self.headers), ("parameters", self.parameters.mapValues { _ in Redacted.secret }),
            ("freshHeaders", Redacted.optional(self.freshHeaders)),
            ("freshParameters", Redacted.optional(self.freshParameters)), ("timeout", self.timeout),
        ]
    }
}

extension PusherPublisher: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("endpoint", self.endpoint), ("appID", self.appID), ("key", self.key), ("secret", Redacted.secret),
            ("encryptionMasterKey", Redacted.optional(self.encryptionMasterKey)),
        ]
    }
}

extension PusherConfiguration: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("endpoint", self.endpoint(useTLS: self.useTLS)), ("authorizer", self.authorizer),
            ("userAuthenticator", self.userAuthenticator), ("headers", self.headers),
            ("activityTimeout", self.activityTimeout), ("pongTimeout", self.pongTimeout), ("connectTimeout", self.connectTimeout),
            ("unavailableTimeout", self.unavailableTimeout), ("subscriptionTimeout", self.subscriptionTimeout),
            ("backoff", self.backoff), ("retry", self.retry.redactedDescription), ("messageLimit", self.messageLimit),
            ("clientEventQueueLimit", self.clientEventQueueLimit),
            ("clientEventLimit", self.clientEventLimit), ("transports", self.transports),
        ]
    }
}

extension PusherRetryPolicy {
    fileprivate var redactedDescription: String {
        switch self {
        case .none: "none"
        case .backoff: "backoff"
        case .delays(let delays): "delays \(delays)"
        case .custom: "custom"
        }
    }
}

extension PusherError: Redacting {
    /// The fields. An error that the application threw is shown as its type, because its description may contain a secret.
    package var visibleFields: [(name: String, value: Any?)] {
        let cause: Any? = (self.cause as? TransportError) ?? (self.cause as? PusherError) ?? self.cause.map { "\(type(of: $0))" }
        return [
            ("code", self.code), ("message", self.message), ("serverCode", self.serverCode), ("status", self.status), ("cause", cause),
        ]
    }
}

extension PusherClient: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("configuration", self.configuration), ("state", self.state)] }
}

extension PusherEcho: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("client", self.client), ("namespace", self.namespace)] }
}

extension PusherEchoChannel: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("channel", self.channel)] }
}

extension PusherChannel: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("name", self.name), ("state", self.state)] }
}
