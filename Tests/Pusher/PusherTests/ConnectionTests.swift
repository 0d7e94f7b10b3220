import PusherChannels
import PusherServer
import RealtimeTesting
import TestSupport
import Testing

@Suite struct ConnectionTests {
    /// Not of the heartbeat, nor of a wait that nobody waits any more.
    @Test func `a client and a server that are over are not to be woken`() async throws {
        let pusher = try await InMemoryPusher()
        let clients = [pusher.client(), pusher.client { $0.port = 1 }]
        for client in clients {
            client.connect()
            try client.subscribe("prices")
        }
        #expect(pusher.clock.untilNextDeadline != nil)
        for client in clients { client.disconnect() }
        await pusher.server.stop()
        #expect(pusher.clock.untilNextDeadline == nil)
    }

    @Test func `the first connection goes through the documented states`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let states = client.states
        #expect(client.state == .initialized)
        client.connect()
        #expect(await states.pending().map(\.name) == ["connecting", "connected"])
        #expect(client.socketID == pusher.server.socketIDs.first)
    }

    @Test func `connecting twice makes one connection`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        client.connect()
        #expect(pusher.server.socketIDs.count == 1)
    }

    @Test func `disconnecting is final and connecting again works`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let states = client.states
        client.disconnect()
        #expect(client.state == .disconnected(nil))
        pusher.clock.advance(by: .seconds(3600))
        #expect(pusher.server.socketIDs.isEmpty)
        client.connect()
        #expect(await states.pending().map(\.name) == ["disconnected", "connecting", "connected"])
    }

    @Test func `a loss is mended after a wait and the socket ID is a new one`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let first = try #require(client.socketID)
        let (states, waits) = (client.states, client.connectingIn)
        pusher.server.drop(first)
        #expect(client.state == .connecting)
        #expect(await waits.pending().count == 1)
        pusher.clock.advance(by: .seconds(1))
        #expect(await states.pending().map(\.name) == ["connecting", "connected"])
        #expect(client.socketID != first)
        #expect(client.counters.reconnects == 1)
    }

    @Test func `close codes from 4200 are followed by a reconnect at once`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let first = try #require(client.socketID)
        pusher.server.close(first, CloseCode(rawValue: 4200), reason: "again, please")
        #expect(client.state.name == "connected")
        #expect(client.socketID != first)
        #expect(pusher.clock.elapsed == .zero)
    }

    @Test func `close codes from 4100 are followed by a wait of at least a second`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        pusher.server.close(try #require(client.socketID), CloseCode(rawValue: 4100))
        pusher.clock.advance(by: .milliseconds(999))
        #expect(client.state == .connecting)
        pusher.clock.advance(by: .seconds(1))
        #expect(client.state.name == "connected")
    }

    @Test(arguments: [4001, 4003, 4004, 4005, 4007, 4009, 4050, 4099] as [UInt16])
    func `close codes from 4001 keep the client away`(code: UInt16) async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let events = client.events()
        pusher.server.close(try #require(client.socketID), CloseCode(rawValue: code), reason: "no")
        guard case .disconnected(let error?) = client.state else {
            Issue.record("the state is \(client.state)")
            return
        }
        #expect(error.code == .refused && error.serverCode == Int(code))
        #expect(await events.first { _ in true } == nil)
        #expect(events.endReason == .closed(.peer(CloseCode(rawValue: code), "no")))
        pusher.clock.advance(by: .seconds(3600))
        #expect(pusher.server.socketIDs.isEmpty)
    }

    @Test func `a wrong key is refused with a hint`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client(key: "another")
        client.connect()
        do {
            try await client.connected()
            Issue.record("it should not connect")
        } catch {
            #expect(error.code == .refused && error.serverCode == 4001)
            #expect(error.message.contains("check the key"))
        }
    }

    @Test func `a server that wants TLS is given TLS`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        pusher.server.close(try #require(client.socketID), CloseCode(rawValue: 4000))
        // Nothing listens on the TLS port of this network, so it goes on trying there.
        #expect(client.state == .connecting)
        let secured = PusherServer(app: pusher.server.app, network: pusher.network, log: .none)
        _ = try await secured.start(on: pusher.network.listener(host: pusher.address.host, port: 443))
        pusher.clock.advance(by: .seconds(5))
        #expect(client.state.name == "connected")
        #expect(secured.socketIDs.count == 1)
    }

    @Test func `without a network the state becomes unavailable and the client goes on trying`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.network.condition = .down
        let client = pusher.client()
        let states = client.states
        client.connect()
        pusher.clock.advance(by: .seconds(9))
        #expect(client.state == .connecting)
        pusher.clock.advance(by: .seconds(1))
        #expect(client.state == .unavailable)
        pusher.clock.advance(by: .seconds(600))
        #expect(client.state == .unavailable)
        pusher.network.condition = .up
        pusher.clock.advance(by: .seconds(60))
        #expect(await states.pending().map(\.name) == ["connecting", "unavailable", "connected"])
    }

    @Test func `why there is no connection is told`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.network.condition = .down
        let client = pusher.client()
        let errors = client.errors
        client.connect()
        pusher.network.condition = .up
        pusher.clock.advance(by: .seconds(2))
        pusher.server.drop(try #require(client.socketID))
        pusher.clock.advance(by: .seconds(2))
        // A code that asks for another attempt at once is a loss too.
        pusher.server.close(try #require(client.socketID), CloseCode(rawValue: 4200), reason: "restart")
        let told = await errors.pending()
        #expect(told.map(\.code) == [.connectionLost, .connectionLost, .connectionLost])
        #expect(told.first?.message.contains("could not be made: No route to") == true)
        #expect(told.dropFirst().allSatisfy { $0.message.contains("was lost") })
        #expect(told.last?.message.contains("4200: restart.") == true)
    }

    @Test func `a server that never greets is given up`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.server.faults.isSilent = true
        let client = pusher.client()
        client.connect()
        pusher.clock.advance(by: .seconds(15))
        pusher.server.faults.isSilent = false
        pusher.clock.advance(by: .seconds(2))
        #expect(client.state.name == "connected")
    }

    @Test func `a half open connection is found out and replaced`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let first = try #require(client.socketID)
        pusher.network.condition = .silent
        pusher.clock.advance(by: .seconds(149))
        #expect(client.socketID == first)
        pusher.clock.advance(by: .seconds(1))
        #expect(client.state == .connecting)
        pusher.network.condition = .up
        pusher.clock.advance(by: .seconds(60))
        #expect(client.state.name == "connected" && client.socketID != first)
    }

    @Test func `an idle connection is kept by pings and the round trip is measured`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.activityTimeout = .seconds(30) }
        client.connect()
        let first = client.socketID
        pusher.clock.advance(by: .seconds(3600))
        #expect(client.socketID == first)
        #expect(client.counters.lastRoundTrip == .zero)
        #expect(client.counters.messagesSent >= 100)
    }

    @Test func `the servers ping is answered`() async throws {
        let pusher = try await InMemoryPusher { $0.activityTimeout = .seconds(600) }
        let client = pusher.client()
        client.connect()
        let events = pusher.server.events
        let socketID = try #require(client.socketID)
        pusher.server.send(#"{"event":"pusher:ping"}"#, to: socketID)
        let frames = await events.pending()
        #expect(frames == [.received(socketID: socketID, frame: #"{"event":"pusher:pong","data":{}}"#)])
    }

    @Test func `an error event before a plain close says what the close means`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let socketID = try #require(client.socketID)
        pusher.server.send(#"{"event":"pusher:error","data":"{\"code\":4001,\"message\":\"Application does not exist\"}"}"#, to: socketID)
        #expect(client.state.name == "connected")
        pusher.server.close(socketID, .normal)
        guard case .disconnected(let error?) = client.state else {
            Issue.record("the state is \(client.state)")
            return
        }
        #expect(error.serverCode == 4001)
    }

    @Test func `run returns after disconnect and when its task is cancelled`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let running = Task { try await client.run() }
        try await client.connected()
        client.disconnect()
        try await running.value

        let cancelled = Task { try await client.run() }
        try await client.connected()
        cancelled.cancel()
        try await cancelled.value
        #expect(client.state == .disconnected(nil))
    }

    @Test func `run throws when the client is refused`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client(key: "another")
        await #expect(throws: PusherError.self) { try await client.run() }
    }

    @Test func `who waits for a connection is answered in every case`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.network.condition = .down
        let client = pusher.client()
        client.connect()

        let timed = Task { () -> PusherError.Code? in
            do throws(PusherError) { try await client.connected(within: .seconds(5)) } catch { return error.code }
            return nil
        }
        // The clock's next deadlines are the client's; the waiter's is among them once it waits.
        while client.waiterCount < 1 { await Task.yield() }
        pusher.clock.advance(by: .seconds(5))
        #expect(await timed.value == .timedOut)

        let disconnected = Task { () -> PusherError.Code? in
            do throws(PusherError) { try await client.connected(within: .seconds(500)) } catch { return error.code }
            return nil
        }
        while client.waiterCount < 1 { await Task.yield() }
        client.disconnect()
        #expect(await disconnected.value == .disconnected)

        let cancelled = Task { () -> PusherError.Code? in
            do throws(PusherError) { try await client.connected(within: .seconds(500)) } catch { return error.code }
            return nil
        }
        cancelled.cancel()
        #expect(await cancelled.value == .cancelled)
    }

    @Test func `a configuration that cannot work fails with the reason`() async throws {
        let client = PusherClient(key: "", host: "example.org")
        client.connect()
        guard case .failed(let error) = client.state else {
            Issue.record("the state is \(client.state)")
            return
        }
        #expect(error.message.contains("key is empty"))
    }

    struct Mistake: Sendable, CustomTestStringConvertible {
        let word: String
        let make: @Sendable (inout PusherConfiguration) -> Void
        var testDescription: String { self.word }

        init(_ word: String, _ make: @escaping @Sendable (inout PusherConfiguration) -> Void) {
            self.word = word
            self.make = make
        }
    }

    @Test(arguments: [
        Mistake("activityTimeout") { $0.activityTimeout = .zero }, Mistake("activityTimeout") { $0.activityTimeout = .seconds(-1) },
        Mistake("pongTimeout") { $0.pongTimeout = .zero }, Mistake("connectTimeout") { $0.connectTimeout = .zero },
        Mistake("subscriptionTimeout") { $0.subscriptionTimeout = .seconds(-1) },
        Mistake("unavailableTimeout") { $0.unavailableTimeout = .seconds(-1) },
        Mistake("backoff") { $0.backoff = Backoff(base: .seconds(-1), cap: .seconds(1)) },
        Mistake("messageLimit") { $0.messageLimit = 0 }, Mistake("clientEventQueueLimit") { $0.clientEventQueueLimit = -1 },
        Mistake("port") { $0.port = 70_000 }, Mistake("port") { $0.port = 0 }, Mistake("host") { $0.host = "ws://example.org" },
        Mistake("host") { $0.host = "anna:secret@example.org" }, Mistake("path") { $0.path = "app" },
    ])
    func `a configuration that no client can have is refused by name`(_ mistake: Mistake) async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client(mistake.make)
        client.connect()
        let error = try await #require(throws: PusherError.self) { try await client.connected() }
        #expect(error.code == .invalidConfiguration && error.message.contains(mistake.word), "\(error)")
        await #expect(throws: error) { try await client.run() }
        #expect(pusher.server.socketIDs.isEmpty && pusher.clock.untilNextDeadline == nil)
    }

    /// Each of them means never, alone and added to another.
    @Test func `time limits may be as long as can be said`() async throws {
        let pusher = try await InMemoryPusher()
        for limit in [Duration.seconds(Int64.max), .seconds(Int64.max) * 18] {
            let client = pusher.client {
                $0.activityTimeout = limit
                $0.pongTimeout = limit
                $0.connectTimeout = limit
                $0.subscriptionTimeout = limit
                $0.unavailableTimeout = limit
                $0.backoff = Backoff(base: limit, cap: limit)
            }
            client.connect()
            let channel = try client.subscribe("private-one")
            try await channel.subscribed(within: limit)
            pusher.server.drop(try #require(client.socketID))
            #expect(client.state == .connecting)
            client.disconnect()
        }
    }

    @Test func `who waits in vain is told why`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.port = 1 }
        let idle = try await #require(throws: PusherError.self) { try await client.connected(within: .zero) }
        #expect(idle.code == .timedOut && idle.message.contains("connect()") && idle.cause == nil)
        client.connect()
        let failed = try await #require(throws: PusherError.self) { try await client.connected(within: .zero) }
        #expect(failed.code == .timedOut && failed.message.contains("Connection refused"))
        let loss = try #require(failed.cause as? PusherError)
        #expect(loss.code == .connectionLost && (loss.cause as? TransportError)?.code == .refused)
        client.disconnect()
    }

    @Test func `a client that is dropped closes its connection and ends its sequences`() async throws {
        let pusher = try await InMemoryPusher()
        var client: PusherClient? = pusher.client()
        client?.connect()
        let states = try #require(client?.states)
        #expect(pusher.server.socketIDs.count == 1)
        client = nil
        #expect(pusher.server.socketIDs.isEmpty)
        #expect(await states.pending().map(\.name) == ["disconnected"])
        #expect(states.endReason == .ended)
    }

    @Test func `a server that stops is come back to`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        await pusher.server.stop()
        #expect(client.state == .connecting)
        _ = try await pusher.server.start(on: pusher.network.listener(host: pusher.address.host, port: pusher.address.port))
        pusher.clock.advance(by: .seconds(60))
        #expect(client.state.name == "connected")
    }

    @Test func `one sequence has everything in the order in which it happened`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client(user: "anna")
        let updates = client.updates()
        let prices = try client.subscribe("prices")
        let room = try client.subscribe("presence-room")
        client.connect()
        pusher.server.publish("price", to: "prices", data: "1")
        pusher.network.cut()
        pusher.clock.advance(by: .seconds(1))
        pusher.server.publish("price", to: "prices", data: "2")
        room.unsubscribe()
        client.disconnect()
        let words = await updates.pending().map { happening in
            switch happening {
            case .event(let event): "\(event.name) \(event.data ?? "")"
            case .state(let state): state.name
            case .connectingIn: "waiting"
            case .error(let error): "\(error.code)"
            case .subscription(let channel, let state): "\(channel) \(state)"
            case .members(let channel, .subscribed(let members)): "\(channel) has \(members.map(\.id))"
            case .members(let channel, let change): "\(channel) \(change)"
            }
        }
        let arrival = ["connected", "prices subscribed", "presence-room has [\"anna\"]", "presence-room subscribed"]
        let loss = ["prices pending", "presence-room pending", "connecting", "connectionLost", "waiting"]
        #expect(
            words == ["connecting"] + arrival + ["price 1"] + loss + arrival
                + ["price 2", "presence-room unsubscribed", "prices pending", "disconnected"])
        #expect(updates.endReason == .closed(.requested) && prices.state == .pending)
    }
}
