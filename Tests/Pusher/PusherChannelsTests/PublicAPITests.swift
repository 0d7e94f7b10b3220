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

/// A type whose conformance is isolated, like that of each type in a module with the default isolation `MainActor`.
@MainActor
private final class BoardPrice: @MainActor Decodable {
    let value: Double

    private enum CodingKeys: String, CodingKey { case value }

    init(from decoder: any Decoder) throws {
        self.value = try decoder.container(keyedBy: CodingKeys.self).decode(Double.self, forKey: .value)
    }
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
        for await price in channel.events("price", as: BoardPrice.self) { self.lines.append("\(price.value)") }
        for await change in channel.stateChanges { self.lines.append("\(change.old) \(change.new)") }
        for await members in channel.memberLists { self.lines.append("\(members.count)") }
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
            case .subscribed(let members), .resubscribed(let members, _, _): self.present = members.map(\.id)
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
    expect(prices.kind == .public && !prices.kind.needsAuthorization && prices.state == .pending)
    let events = prices.events()
    client.unsubscribe("prices")
    for await event in events { Issue.record("unexpected \(event)") }
    expect(events.endReason == .ended && events.dropped == 0)
    await expectNil(events.first { $0.name == "price" })
    let counters: Counters = client.counters
    expectEqual(counters, Counters())
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
        expect(board.prices.isEmpty)
    }

    @Test @MainActor func `a class on the main actor consumes states`() async throws {
        let client = makeClient()
        let board = PriceBoard(client)
        let watching = Task { await board.watchState() }
        while board.lines.isEmpty { await Task.yield() }
        watching.cancel()
        await watching.value
        expect(client.state == .initialized && client.socketID == nil && board.lines == ["initialized"])
    }

    @Test func `an actor consumes events`() async throws {
        let client = makeClient()
        let chat = Chat(client)
        let joining = Task { try await chat.join() }
        while client.channel("presence-room") == nil { await Task.yield() }
        client.unsubscribe("presence-room")
        joining.cancel()
        _ = await joining.result
        await expect(chat.present.isEmpty)
        await expect(chat.failures.isEmpty)
    }

    @Test func `an actor runs a client until its task is cancelled`() async {
        let chat = Chat(makeClient())
        let running = Task { await chat.run() }
        running.cancel()
        await expectNil(running.value)
    }

    @Test func `values for previews and tests can be created`() {
        let event = PusherEvent(name: "price", channel: "prices", data: #"{"value":1}"#)
        expect((try? event.decode(Price.self)) == Price(value: 1) && event.userID == nil)
        expectNil(PusherEvent(name: "closed").data)
        let anna = PusherMember(id: "1", info: ["name": "Anna"])
        let members = PusherMembers([anna, PusherMember(id: "2"), anna], myID: "1")
        expect(members.map(\.id) == ["1", "2"] && members.me == anna && PusherMembers().isEmpty)
        let changes: [PusherMemberChange] = [.subscribed(members), .joined(anna), .left(anna)]
        expectEqual(changes.count, 3)
        let error = PusherError(.subscriptionRejected, "No.", serverCode: 4009, status: 403, cause: CancellationError())
        expect(error.message == "No." && error.cause is CancellationError)
        let state = PusherConnectionState.failed(error)
        expectEqual(PusherStateChange(old: .connecting, new: state), PusherStateChange(old: .connecting, new: state))
        expect(PusherSubscriptionState.failed(error) != .pending)
        expectEqual(PusherAuthorizationRequest(channel: "private-one", socketID: "1.2").channel, "private-one")
    }

    @Test func `a nonisolated function consumes events`() async throws { try await consumeEvents(makeClient()) }

    @Test func `errors are typed`() async {
        let client = makeClient()
        do throws(PusherError) {
            try client.subscribe("not allowed")
        } catch {
            expect(error.code == .invalidChannelName && error.serverCode == nil && error.status == nil && "\(error)" == error.message)
        }
        do throws(PusherError) {
            _ = try await client.connected(within: .zero)
        } catch {
            expectEqual(error.code, .timedOut)
        }
        do throws(TransportError) {
            _ = try PusherConfiguration(key: "key", url: "nonsense")
        } catch {
            expectEqual(error.code, .invalidURL)
        }
        expectEqual((try? PusherConfiguration(key: "key", url: "ws://127.0.0.1:6001/app/key"))?.path, "")
        expectEqual((try? PusherConfiguration(key: "key", url: "wss://h/behind/app/key/"))?.useTLS, true)
    }
}
