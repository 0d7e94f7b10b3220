import PusherChannels
import RealtimeCoding

// The snippets of the article GettingStarted, in its order. They are compiled but not run, because they need a service. The tests of
// the client cover what they do, in TestingInMemory.swift and elsewhere.

struct Order: Codable {
    let id: Int
    let state: String
}

func connectingSnippets() throws {
    // snippet:start-cluster
    let client = PusherClient(key: "app-key", cluster: "eu")
    client.connect()
    // end
}

func hostSnippets() throws {
    // snippet:start-host
    let client = PusherClient(key: "app-key", host: "127.0.0.1", port: 6001, useTLS: false)
    // end
    client.connect()
}

func subscribingSnippets(_ client: PusherClient) async throws {
    // snippet:start-subscribe
    let prices = try client.subscribe("prices")
    let updates = prices.events("price")
    for await event in updates {
        print(event.name, event.data ?? "")
    }
    // end
    // snippet:start-decode
    for await price in prices.events("price", as: Price.self) {
        print(price.symbol, price.value)
    }
    // end
    // snippet:start-decode-event
    for await event in prices.events() where event.name != "heartbeat" {
        do {
            let price = try event.decode(Price.self)
            print(event.name, price.symbol, price.value)
        } catch {
            print("Not a price:", error)
        }
    }
    // end
    // snippet:start-subscribed
    do {
        try await prices.subscribed(within: .seconds(10))
    } catch {
        switch error.code {
        case .timedOut: print("Still trying: \(client.state.name)")
        default: print(error.message)
        }
    }
    // end
}

func stateSnippets(_ client: PusherClient) async {
    // snippet:start-states
    for await state in client.states {
        switch state {
        case .connected(let socketID): print("connected as \(socketID)")
        case .unavailable: print("not connected for a while; still retrying")
        case .failed(let error), .disconnected(let error?): print("ended: \(error.message)")
        case .initialized, .connecting, .disconnected(nil): print(state.name)
        }
    }
    // end
    // snippet:start-state-changes
    for await change in client.stateChanges {
        if case .connected = change.old { print("connection lost") }
        if case .connected = change.new { print("connected") }
    }
    // end
    // snippet:start-errors
    for await error in client.errors {
        print(error.code, error.message)
    }
    // end
}

func privateSnippets() async throws {
    let token = "token"
    // snippet:start-endpoint
    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    configuration.authorizer = try .endpoint("https://example.org/pusher/auth", headers: ["Authorization": "Bearer \(token)"])
    let client = PusherClient(configuration)
    client.connect()
    let orders = try client.subscribe("private-orders")
    // end
    try orders.trigger("client-seen", ["id": 7])
}

func callbackSnippets(_ sign: @escaping @Sendable (String, String) async throws -> String) {
    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    // snippet:start-callback
    configuration.authorizer = .callback { request in
        PusherChannelAuthorization(auth: try await sign(request.socketID, request.channel))
    }
    // end
    _ = configuration
}

func presenceSnippets(_ client: PusherClient) async throws {
    // snippet:start-members
    let room = try client.subscribe("presence-room")
    for await members in room.memberLists {
        print("members:", members.map(\.id))
    }
    // end
    // snippet:start-presence
    for await change in room.memberChanges {
        switch change {
        case .subscribed(let members): print("members:", members.map(\.id))
        case .resubscribed(_, let joined, let left): print("meanwhile, \(joined.count) joined and \(left.count) left")
        case .joined(let member): print("\(member.id) joined")
        case .left(let member): print("\(member.id) left")
        }
    }
    // end
    // snippet:start-trigger
    try room.trigger("client-typing", ["on": true])
    // end
}

func publishingSnippets() async throws {
    // snippet:start-publish
    let publisher = PusherPublisher(appID: "1", key: "app-key", secret: "app-secret", cluster: "eu")
    try await publisher.publish("order", to: "private-orders", data: Order(id: 7, state: "paid"))
    // end
    // snippet:start-publish-json
    try await publisher.publish("price", to: ["prices", "news"], data: #"{"symbol":"ACME","value":12.5}"#)
    try await publisher.publish("price", to: "prices", data: ["symbol": "ACME", "value": 12.5] as JSONValue)
    // end
}

func signingSnippets(_ publisher: PusherPublisher, socketID: String, channel: String) throws -> String {
    // snippet:start-authorize
    let user = PusherMember(id: "7", info: ["name": "Anna"])
    let authorization = try publisher.authorize(socketID: socketID, channel: channel, user: user)
    let response = try JSONValueEncoder().encodeToString(authorization)
    // end
    return response
}

func lifetimeSnippets(_ client: PusherClient, _ prices: PusherChannel) async throws {
    // snippet:start-run
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await client.run() }
        group.addTask {
            for await event in prices.events("price") { print(event.data ?? "") }
        }
        try await group.next()
        group.cancelAll()
    }
    // end
}
