import PusherChannels

// The snippets of the article Authorization.

func endpointSnippets(_ session: UserSession) throws {
    // snippet:authorization-endpoint
    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    configuration.authorizer = try .endpoint("https://example.org/pusher/auth")
    // end
    // snippet:authorization-fields
    let endpoint = PusherAuthorizationEndpoint(
        try Endpoint("https://example.org/pusher/auth"), headers: ["X-App-Version": "1.2"], parameters: ["device": "phone"],
        timeout: .seconds(5))
    configuration.authorizer = .endpoint(endpoint)
    // end
    // snippet:authorization-by-channel
    let orders = try PusherAuthorizer.endpoint("https://orders.example.org/pusher/auth")
    let people = try PusherAuthorizer.endpoint("https://people.example.org/pusher/auth")
    configuration.authorizer = .byChannel { channel in
        channel.hasPrefix("presence-") ? people : orders
    }
    // end
    // snippet:authorization-secret
    configuration.authorizer = .secret("app-secret", userID: "anna", userInfo: ["name": "Anna"])
    // end
}

func failureSnippets(_ client: PusherClient, _ orders: PusherChannel) async throws {
    // snippet:authorization-failure
    do {
        try await orders.subscribed()
    } catch {
        switch error.code {
        case .authorizationMissing: print("The configuration has no authorizer.")
        case .authorizationFailed: print("Not authorized (status \(error.status ?? 0)): \(error.message)")
        case .subscriptionRejected: print("The signature is wrong: \(error.message)")
        default: print(error.message)
        }
    }
    // end
    // snippet:authorization-retry
    try client.subscribe("private-orders")
    // end
}
