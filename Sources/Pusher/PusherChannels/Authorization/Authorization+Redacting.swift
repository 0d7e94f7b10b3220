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
