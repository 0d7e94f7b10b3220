import PusherTesting
import Testing

@MainActor @Suite(.timeLimit(.minutes(1))) struct PriceBoardTests {
    private let pusher: InMemoryPusher
    private let client: PusherClient
    private let board: PriceBoard

    init() async throws {
        self.pusher = try await InMemoryPusher()
        self.client = self.pusher.client()
        self.board = PriceBoard(client: self.client, clock: self.pusher.clock)
    }

    private func publish(_ data: String) { self.pusher.server.publish("price", to: "private-prices", data: data) }

    @Test func `the latest price of each symbol is shown`() async throws {
        let task = Task { await board.run() }
        defer { task.cancel() }
        // The model subscribes in its task. From then on, the server has a subscriber.
        try await eventually { client.channel("private-prices")?.state == .subscribed }
        publish(#"{"symbol":"ACME","value":12.5}"#)
        publish(#"{"symbol":"INIT","value":80}"#)
        publish(#"{"symbol":"ACME","value":13}"#)
        try await eventually { board.prices == ["ACME": 13, "INIT": 80] }
    }

    @Test func `data that is not a price is ignored`() async throws {
        let task = Task { await board.run() }
        defer { task.cancel() }
        try await eventually { client.channel("private-prices")?.state == .subscribed }
        publish("soon")
        publish(#"{"symbol":"ACME","value":12.5}"#)
        try await eventually { board.prices == ["ACME": 12.5] }
    }

    @Test func `the board shows when the connection is lost and restored`() async throws {
        let task = Task { await board.run() }
        defer { task.cancel() }
        try await eventually { board.isConnected }
        pusher.network.cut()
        try await eventually { !board.isConnected }
        pusher.clock.advance(by: .seconds(1))
        try await eventually { board.isConnected }
    }

    @Test func `prices are stale a minute after the last one`() async throws {
        let task = Task { await board.run() }
        defer { task.cancel() }
        try await eventually { client.channel("private-prices")?.state == .subscribed }
        publish(#"{"symbol":"ACME","value":12.5}"#)
        try await eventually { pusher.clock.sleepingTaskCount == 1 }
        pusher.clock.advance(by: .seconds(59))
        #expect(!board.isStale)
        pusher.clock.advance(by: .seconds(1))
        try await eventually { board.isStale }
        publish(#"{"symbol":"ACME","value":13}"#)
        try await eventually { !board.isStale }
    }

    @Test func `a refusal of the application server is shown`() async throws {
        let endpoint = try await pusher.startAuthorizationEndpoint { _ in .reject(message: "Sign in first.") }
        let board = PriceBoard(client: pusher.client { $0.authorizer = .endpoint(endpoint) })
        await board.run()
        #expect(board.failure?.contains("status 403") == true)
    }

    @Test(arguments: [4001, nil]) func `the end of the connection ends the board`(_ code: UInt16?) async throws {
        let task = Task { await board.run() }
        try await eventually { client.channel("private-prices")?.state == .subscribed }
        publish(#"{"symbol":"ACME","value":12.5}"#)
        try await eventually { pusher.clock.sleepingTaskCount == 1 }
        if let code, let socketID = client.socketID {
            pusher.server.close(socketID, CloseCode(rawValue: code))
        } else {
            client.disconnect()
        }
        await task.value
        #expect(!board.isConnected)
        #expect((board.failure?.contains("Unknown app key") == true) == (code != nil))
        try await eventually { pusher.clock.sleepingTaskCount == 0 }
    }
}
