import Observation
import PusherTesting
import RealtimeTesting
import Testing

// The view model of the article TestingWithTheEmbeddedServer, and its test.

@available(macOS 14, iOS 17, tvOS 17, watchOS 10, *)
// snippet:testing-model
@MainActor @Observable final class PriceList {
    private(set) var prices: [String: Double] = [:]
    private let client: PusherClient

    init(client: PusherClient) {
        self.client = client
    }

    /// Shows prices until the task is cancelled, for example by the `task` modifier of a view.
    func run() async throws {
        let prices = try self.client.subscribe("prices").events("price", as: Price.self)
        self.client.connect()
        for await price in prices { self.prices[price.symbol] = price.value }
    }
}
// end

@available(macOS 14, iOS 17, tvOS 17, watchOS 10, *)
// snippet:testing-model-test
@MainActor @Test func `the list shows the latest price, also after a loss of the connection`() async throws {
    let pusher = try await InMemoryPusher()
    let client = pusher.client()
    let list = PriceList(client: client)
    let task = Task { try await list.run() }
    defer { task.cancel() }
    try await eventually { client.channel("prices")?.state == .subscribed }

    pusher.server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
    try await eventually { list.prices == ["ACME": 12.5] }

    pusher.network.cut()
    #expect(client.state == .connecting)
    pusher.clock.advance(by: .seconds(1))
    #expect(client.channel("prices")?.state == .subscribed)

    pusher.server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":13}"#)
    try await eventually { list.prices == ["ACME": 13] }
}
// end

/// The class that the snippets of the reference use.
@MainActor private final class Refresher {
    private(set) var prices: [Int] = []
    var isRefreshed: Bool { !self.prices.isEmpty }

    func refresh() { Task { self.prices = [12, 13] } }

    func refresh(after delay: Duration, _ clock: any Clock<Duration>) async throws {
        try await clock.sleep(for: delay)
        self.prices = [12, 13]
    }
}

@MainActor @Suite(.timeLimit(.minutes(10))) struct WaitingSnippets {
    @Test func `a test waits for a model`() async throws {
        let model = Refresher()
        // snippet:eventually
        model.refresh()
        try await eventually { model.prices.count == 2 }
        // end
    }

    @Test func `a test waits for a task that sleeps`() async throws {
        let (model, clock) = (Refresher(), ManualClock())
        let task = Task { try await model.refresh(after: .seconds(60), clock) }
        // snippet:clock-sleep
        try await eventually { clock.sleepingTaskCount == 1 }
        clock.advance(by: .seconds(60))
        try await eventually { model.isRefreshed }
        // end
        try await task.value
    }
}

func inMemoryPusherReference() async throws {
    // snippet:in-memory-pusher
    let pusher = try await InMemoryPusher()
    let client = pusher.client(userID: "anna")
    client.connect()
    let prices = try client.subscribe("prices")
    pusher.server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
    // end
    _ = prices
}

func authorizationEndpointReference(_ pusher: InMemoryPusher) async throws {
    // snippet:start-authorization-endpoint
    let endpoint = try await pusher.startAuthorizationEndpoint { attempt in
        attempt.channel == "private-staff" ? .reject(message: "Only for staff.") : .accept(userID: "anna")
    }
    let client = pusher.client { $0.authorizer = .endpoint(endpoint) }
    // end
    _ = client
}
