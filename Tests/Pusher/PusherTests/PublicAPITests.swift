import PusherChannels
import TestSupport
import Testing

// One import, as users write it: the test is mainly that this file compiles without `package` declarations.

private struct Price: Codable, Equatable, Sendable {
    var value: Double
}

/// A client that does not connect.
private func makeClient() -> PusherClient {
    var configuration = PusherConfiguration(key: "key", host: "localhost", port: 1, useTLS: false)
    configuration.log = LogSink(minimumLevel: .error) { _, _, _ in }
    configuration.activityTimeout = .seconds(60)
    configuration.backoff = Backoff(base: .milliseconds(100), cap: .seconds(1))
    configuration.headers["X-App"] = "1"
    configuration.authorizer = .callback { request in PusherChannelAuthorization(auth: "\(request.socketID):\(request.channel)") }
    return PusherClient(configuration)
}

@MainActor
private final class PriceBoard {
    private let client: PusherClient
    private(set) var prices: [Price] = []
    private(set) var lines: [String] = []
    private var lowest = 0.0

    init(_ client: PusherClient) {
        self.client = client
    }

    func watch() async throws(PusherError) {
        let channel = try self.client.subscribe("prices")
        for await event in channel.events("price", buffer: .dropNewest(10)) {
            if let price = try? event.decode(Price.self) { self.prices.append(price) }
        }
        for await state in channel.states { self.lines.append("\(state)") }
        let high = await channel.events().first { event in
            self.lines.append(event.name)
            return event.data != nil && self.lowest < 1
        }
        if let high { self.lines.append(high.name) }
    }

    func watchState() async {
        for await state in self.client.states {
            self.lines.append(state.name)
            switch state {
            case .connected(let socketID): self.lines.append(socketID)
            case .failed(let error), .disconnected(let error?): self.lines.append(error.message)
            case .initialized, .connecting, .unavailable, .disconnected(nil): break
            }
        }
    }
}

private actor Chat {
    private let client: PusherClient
    private(set) var present: [String] = []
    private(set) var failures: [PusherError.Code] = []

    init(_ client: PusherClient) {
        self.client = client
    }

    func join() async throws(PusherError) -> Int? {
        let room = try self.client.subscribe("presence-room")
        try room.trigger("client-typing", ["on": true])
        for await change in room.memberChanges {
            switch change {
            case .subscribed(let members): self.present = members.map(\.id)
            case .joined(let member): self.present.append(member.id)
            case .left(let member): self.present.removeAll { $0 == member.id }
            }
        }
        let first = await self.client.errors.first { error in
            self.failures.append(error.code)
            return error.serverCode == 4301
        }
        return first?.serverCode
    }

    func run() async -> PusherError.Code? {
        do throws(PusherError) {
            try await self.client.run()
            return nil
        } catch {
            return error.code
        }
    }
}

private func consumeEvents(_ client: PusherClient) async throws {
    let prices = try client.subscribe("prices")
    #expect(prices.kind == .public && !prices.kind.needsAuthorization && prices.state == .pending)
    let events = prices.events()
    client.unsubscribe("prices")
    for await event in events { Issue.record("unexpected \(event)") }
    #expect(events.endReason == .ended && events.dropped == 0)
    #expect(await events.first { $0.name == "price" } == nil)
    let counters: Counters = client.counters
    #expect(counters == Counters())
}

@Suite(.usesSockets) struct PublicAPITests {
    @Test @MainActor func `a class on the main actor consumes events`() async throws {
        let client = makeClient()
        let board = PriceBoard(client)
        let watching = Task { try await board.watch() }
        while client.channel("prices") == nil { await Task.yield() }
        // Ends the sequence that the task waits for.
        client.unsubscribe("prices")
        try await watching.value
        #expect(board.prices.isEmpty)
    }

    @Test @MainActor func `a class on the main actor consumes states`() async throws {
        let client = makeClient()
        let board = PriceBoard(client)
        let watching = Task { await board.watchState() }
        watching.cancel()
        await watching.value
        #expect(client.state == .initialized && client.socketID == nil && board.lines.isEmpty)
    }

    @Test func `an actor consumes events`() async throws {
        let client = makeClient()
        let chat = Chat(client)
        let joining = Task { try await chat.join() }
        while client.channel("presence-room") == nil { await Task.yield() }
        client.unsubscribe("presence-room")
        joining.cancel()
        _ = await joining.result
        #expect(await chat.present.isEmpty)
        #expect(await chat.failures.isEmpty)
    }

    @Test func `an actor runs a client until its task is cancelled`() async {
        let chat = Chat(makeClient())
        let running = Task { await chat.run() }
        running.cancel()
        #expect(await running.value == nil)
    }

    @Test func `a nonisolated function consumes events`() async throws { try await consumeEvents(makeClient()) }

    @Test func `errors are typed`() async {
        let client = makeClient()
        do throws(PusherError) {
            try client.subscribe("not allowed")
        } catch {
            #expect(error.code == .invalidChannelName && error.serverCode == nil && error.status == nil && "\(error)" == error.message)
        }
        do throws(PusherError) {
            _ = try await client.connected(within: .zero)
        } catch {
            #expect(error.code == .timedOut)
        }
        do throws(TransportError) {
            _ = try PusherConfiguration(key: "key", url: "nonsense")
        } catch {
            #expect(error.code == .invalidURL)
        }
        #expect((try? PusherConfiguration(key: "key", url: "ws://127.0.0.1:6001/app/key"))?.path == "")
        #expect((try? PusherConfiguration(key: "key", url: "wss://h/behind/app/key/"))?.useTLS == true)
    }
}
