import PusherChannels

// The snippets of the article Encryption.

func encryptedClientSnippet() async throws {
    // snippet:encryption-client
    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    configuration.authorizer = try .endpoint("https://example.org/pusher/auth")
    let client = PusherClient(configuration)
    client.connect()
    let orders = try client.subscribe("private-encrypted-orders")
    for await order in orders.events("created", as: Order.self) {
        print(order.id)
    }
    // end
}

func encryptedPublisherSnippet(masterKey: String, socketID: String) async throws -> [UInt8] {
    // snippet:encryption-publisher
    let publisher = PusherPublisher(
        appID: "1", key: "app-key", secret: "app-secret", cluster: "eu", encryptionMasterKey: masterKey)
    try await publisher.publish("created", to: "private-encrypted-orders", data: Order(id: 7, state: "new"))
    // end
    // snippet:encryption-authorize
    let authorization = try publisher.authorize(socketID: socketID, channel: "private-encrypted-orders")
    let body = try JSONValueEncoder().encode(authorization)
    // end
    return body
}

func decryptionFailureSnippet(_ client: PusherClient, reload: () async -> Void) async {
    // snippet:encryption-failures
    for await error in client.errors where error.code == .decryptionFailed {
        guard let failure = error.cause as? PusherDecryptionFailure else { continue }
        print("\(failure.event.name) on \(failure.event.channel ?? ""): \(failure.reason)")
        await reload()
    }
    // end
}

func encryptionSecretSnippet(_ configuration: inout PusherConfiguration, masterKey: String) {
    // snippet:encryption-secret
    configuration.authorizer = .secret("app-secret", encryptionMasterKey: masterKey)
    // end
}
