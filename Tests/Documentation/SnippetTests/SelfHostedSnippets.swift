import PusherTesting
import Testing

// The snippets of the article SelfHostedServers.

func selfHostedSnippets(_ session: UserSession) throws {
    // snippet:self-hosted-configuration
    var configuration = PusherConfiguration(key: "app-key", host: "realtime.example.org", port: 6001, path: "/ws", useTLS: true)
    // end
    // snippet:self-hosted-proxy
    configuration.activityTimeout = .seconds(30)
    // end
    // snippet:self-hosted-origin
    configuration.headers["Origin"] = "https://example.org"
    // end
    // snippet:self-hosted-laravel
    configuration.authorizer = try .endpoint("https://example.org/broadcasting/auth") {
        ["Authorization": "Bearer \(try await session.token())", "Accept": "application/json"]
    }
    // end
    // snippet:self-hosted-publisher
    let publisher = PusherPublisher(
        appID: "1", key: "app-key", secret: "app-secret", endpoint: try Endpoint("https://realtime.example.org:6001"))
    // end
    _ = publisher
}

func echoSnippet(_ configuration: PusherConfiguration, _ session: UserSession) async throws {
    // snippet:self-hosted-echo
    let echo = try PusherEcho(configuration, application: "https://example.org") {
        ["Authorization": "Bearer \(try await session.token())"]
    }
    echo.client.connect()
    let order = try echo.private("orders.1")
    for await update in order.listen("OrderShipped", as: Shipment.self) {
        print(update.carrier)
    }
    // end
}

func filterSnippets(_ configuration: inout PusherConfiguration, _ publisher: PusherPublisher, _ order: Order) async throws {
    // snippet:self-hosted-tags
    try await publisher.trigger("shipped", on: "orders", data: order, tags: ["region": "eu", "total": "250"])
    // end
    // snippet:self-hosted-filter
    configuration.allowsFilters = true
    let client = PusherClient(configuration)
    let orders = try client.subscribe("orders", filter: .all([.equals("region", "eu"), .isAtLeast("total", 100)]))
    // end
    // snippet:self-hosted-deltas
    configuration.deltaCompression = .fossil
    // end
    _ = orders
}

@Suite struct SelfHostedSnippets {
    // snippet:self-hosted-filter-test
    @Test func `only orders from Europe arrive`() async throws {
        let pusher = try await InMemoryPusher {
            $0.allowsFilters = true
            $0.allowsDeltaCompression = true
        }
        let client = pusher.client {
            $0.allowsFilters = true
            $0.deltaCompression = .fossil
        }
        client.connect()
        let events = try client.subscribe("orders", filter: .equals("region", "eu")).events()
        pusher.server.publish("shipped", to: "orders", data: "1", tags: ["region": "us"])
        pusher.server.publish("shipped", to: "orders", data: "2", tags: ["region": "eu"])
        #expect(await events.pending().map(\.data) == ["2"])
    }
    // end

    // snippet:self-hosted-test
    @Test(arguments: [PusherServerProfile.pusher, .soketi, .reverb, .slanger, .sockudo])
    func `messages arrive from every server`(profile: PusherServerProfile) async throws {
        let pusher = try await InMemoryPusher { $0.profile = profile }
        let client = pusher.client(userID: "42")
        client.connect()
        let events = try client.subscribe("presence-room").events()
        pusher.server.publish("message", to: "presence-room", data: "hello")
        #expect(await events.pending().map(\.name) == ["message"])
    }
    // end
}
