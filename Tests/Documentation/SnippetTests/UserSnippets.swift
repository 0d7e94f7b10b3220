import PusherChannels
import PusherTesting
import Testing

// The snippets of the article UserFeatures, and those about users in documentation comments.

func signInSnippet() async throws {
    // snippet:user-sign-in
    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    configuration.userAuthenticator = try .endpoint("https://example.org/pusher/user-auth")
    let client = PusherClient(configuration)
    client.connect()
    client.user.signIn()
    let user = try await client.user.signedIn()
    print("Signed in as \(user.id)")
    // end
}

func authenticationSnippet(_ publisher: PusherPublisher, socketID: String) throws -> [UInt8] {
    // snippet:user-authenticate
    let user = PusherMember(id: "anna", info: ["name": "Anna"])
    let authentication = try publisher.authenticateUser(socketID: socketID, user: user, watchlist: ["bert"])
    let body = try JSONValueEncoder().encode(authentication)
    // end
    return body
}

func userReference(_ client: PusherClient) async {
    // snippet:user
    client.user.signIn()
    for await event in client.user.events("notification") {
        print(event)
    }
    // end
}

func userPublisherSnippet(_ publisher: PusherPublisher) async throws {
    // snippet:user-publish
    try await publisher.sendToUser("anna", "notification", data: ["text": "Your order has been shipped."])
    // end
    // snippet:user-terminate
    try await publisher.terminateConnections(ofUser: "anna")
    // end
}

func watchlistSnippet(_ client: PusherClient) async {
    // snippet:user-watchlist
    var online: Set<String> = []
    for await change in client.user.watchlistChanges {
        switch change {
        case .online(let users): online.formUnion(users)
        case .offline(let users): online.subtract(users)
        }
        print(online)
    }
    // end
}

@Suite struct UserSnippets {
    // snippet:user-test
    @Test func `a user receives notifications`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client {
            $0.userAuthenticator = .secret(pusher.server.app.secret, user: PusherMember(id: "anna"))
        }
        client.connect()
        let events = client.user.events("notification")
        client.user.signIn()
        try await client.user.signedIn()
        pusher.server.publish("notification", toUser: "anna", data: "hello")
        #expect(await events.pending().map(\.data) == ["hello"])
    }
    // end
}
