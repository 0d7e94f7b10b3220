import PusherChannels
import PusherServer
import PusherTesting
import RealtimeTesting
import TestSupport
import Testing

@Suite struct ConnectionTests {
    /// Neither for the heartbeat nor for timeouts.
    @Test func `a disconnected client and a stopped server have no timers`() async throws {
        let pusher = try await InMemoryPusher()
        let clients = [pusher.client(), pusher.client { $0.port = 1 }]
        for client in clients {
            client.connect()
            try client.subscribe("prices")
        }
        expect(pusher.clock.untilNextDeadline != nil)
        for client in clients { client.disconnect() }
        await pusher.server.stop()
        expectNil(pusher.clock.untilNextDeadline)
    }

    @Test func `the first connection goes through the documented states`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let states = client.states
        expectEqual(client.state, .initialized)
        client.connect()
        await expectEqual(states.pending().map(\.name), ["initialized", "connecting", "connected"])
        expectEqual(client.socketID, pusher.server.socketIDs.first)
    }

    @Test func `connecting twice makes one connection`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        client.connect()
        expectEqual(pusher.server.socketIDs.count, 1)
    }

    @Test func `a disconnected client stays disconnected until it connects again`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let states = client.states
        client.disconnect()
        expectEqual(client.state, .disconnected(nil))
        pusher.clock.advance(by: .seconds(3600))
        expect(pusher.server.socketIDs.isEmpty)
        client.connect()
        await expectEqual(states.pending().map(\.name), ["connected", "disconnected", "connecting", "connected"])
    }

    @Test func `the client reconnects after a delay and has a new socket ID`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let first = try #require(client.socketID)
        let (states, delays) = (client.states, client.connectingIn)
        pusher.server.drop(first)
        expectEqual(client.state, .connecting)
        await expectEqual(delays.pending().count, 1)
        pusher.clock.advance(by: .seconds(1))
        await expectEqual(states.pending().map(\.name), ["connected", "connecting", "connected"])
        expect(client.socketID != first)
        expectEqual(client.counters.reconnects, 1)
    }

    @Test func `close codes from 4200 to 4299 cause an immediate reconnect`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let first = try #require(client.socketID)
        pusher.server.close(first, CloseCode(rawValue: 4200), reason: "again, please")
        expectEqual(client.state.name, "connected")
        expect(client.socketID != first)
        expectEqual(pusher.clock.elapsed, .zero)
    }

    @Test func `close codes from 4100 to 4199 cause a reconnect after at least a second`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        pusher.server.close(try #require(client.socketID), CloseCode(rawValue: 4100))
        pusher.clock.advance(by: .milliseconds(999))
        expectEqual(client.state, .connecting)
        pusher.clock.advance(by: .seconds(1))
        expectEqual(client.state.name, "connected")
    }

    @Test(arguments: [4001, 4003, 4004, 4005, 4007, 4009, 4050, 4099] as [UInt16])
    func `close codes from 4001 to 4099 disconnect the client`(code: UInt16) async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let events = client.events()
        pusher.server.close(try #require(client.socketID), CloseCode(rawValue: code), reason: "no")
        guard case .disconnected(let error?) = client.state else {
            Issue.record("the state is \(client.state)")
            return
        }
        expect(error.code == .rejected && error.serverCode == Int(code))
        await expectNil(events.first { _ in true })
        expectEqual(events.endReason, .closed(.peer(CloseCode(rawValue: code), "no")))
        pusher.clock.advance(by: .seconds(3600))
        expect(pusher.server.socketIDs.isEmpty)
    }

    @Test func `a wrong key is rejected with a hint`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.key = "another" }
        client.connect()
        do {
            try await client.connected()
            Issue.record("it should not connect")
        } catch {
            expect(error.code == .rejected && error.serverCode == 4001)
            expect(error.message.contains("Check the key"))
        }
    }

    @Test func `the client switches to TLS if the server requires it`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        pusher.server.close(try #require(client.socketID), CloseCode(rawValue: 4000))
        // Nothing listens on the TLS port yet, so the client retries there.
        expectEqual(client.state, .connecting)
        let secured = PusherServer(app: pusher.server.app, network: pusher.network, log: .none)
        _ = try await secured.start(on: pusher.network.listener(host: pusher.address.host, port: 443))
        pusher.clock.advance(by: .seconds(5))
        expectEqual(client.state.name, "connected")
        expectEqual(secured.socketIDs.count, 1)
    }

    @Test func `without a network, the state becomes unavailable and the client keeps retrying`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.network.condition = .down
        let client = pusher.client()
        let states = client.states
        client.connect()
        pusher.clock.advance(by: .seconds(9))
        expectEqual(client.state, .connecting)
        pusher.clock.advance(by: .seconds(1))
        expectEqual(client.state, .unavailable)
        pusher.clock.advance(by: .seconds(600))
        expectEqual(client.state, .unavailable)
        pusher.network.condition = .up
        pusher.clock.advance(by: .seconds(60))
        await expectEqual(states.pending().map(\.name), ["initialized", "connecting", "unavailable", "connected"])
    }

    @Test func `losses and failed attempts are reported with their reasons`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.network.condition = .down
        let client = pusher.client()
        let errors = client.errors
        client.connect()
        pusher.network.condition = .up
        pusher.clock.advance(by: .seconds(2))
        pusher.server.drop(try #require(client.socketID))
        pusher.clock.advance(by: .seconds(2))
        // A code that causes an immediate reconnect is a loss too.
        pusher.server.close(try #require(client.socketID), CloseCode(rawValue: 4200), reason: "restart")
        let reported = await errors.pending()
        expectEqual(reported.map(\.code), [.connectionLost, .connectionLost, .connectionLost])
        expectEqual(reported.first?.message.hasPrefix("Failed to connect: "), true)
        expectEqual((reported.first?.cause as? TransportError)?.code, .unreachable)
        expect(
            reported.dropFirst().allSatisfy {
                $0.message.hasPrefix("Connection to ws://\(pusher.address.host):\(pusher.address.port) lost: ")
            })
        expectEqual(reported.last?.message.contains("4200: restart."), true)
    }

    @Test func `a server that does not establish the connection is abandoned`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.server.faults.isSilent = true
        let client = pusher.client()
        client.connect()
        pusher.clock.advance(by: .seconds(15))
        pusher.server.faults.isSilent = false
        pusher.clock.advance(by: .seconds(2))
        expectEqual(client.state.name, "connected")
    }

    @Test func `a half-open connection is detected and replaced`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let first = try #require(client.socketID)
        pusher.network.condition = .silent
        pusher.clock.advance(by: .seconds(149))
        expectEqual(client.socketID, first)
        pusher.clock.advance(by: .seconds(1))
        expectEqual(client.state, .connecting)
        pusher.network.condition = .up
        pusher.clock.advance(by: .seconds(60))
        expect(client.state.name == "connected" && client.socketID != first)
    }

    @Test func `pings keep an idle connection and measure the round trip`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.activityTimeout = .seconds(30) }
        client.connect()
        let first = client.socketID
        pusher.clock.advance(by: .seconds(3600))
        expectEqual(client.socketID, first)
        expectEqual(client.counters.lastRoundTrip, .zero)
        expect(client.counters.messagesSent >= 100)
    }

    @Test func `a ping from the server gets a pong`() async throws {
        let pusher = try await InMemoryPusher { $0.activityTimeout = .seconds(600) }
        let client = pusher.client()
        client.connect()
        let events = pusher.server.events
        let socketID = try #require(client.socketID)
        pusher.server.send(#"{"event":"pusher:ping"}"#, to: socketID)
        let frames = await events.pending()
        expectEqual(frames, [.received(socketID: socketID, frame: #"{"event":"pusher:pong","data":{}}"#)])
    }

    @Test func `an error event before a normal close is the reason for the close`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let socketID = try #require(client.socketID)
        pusher.server.send(#"{"event":"pusher:error","data":"{\"code\":4001,\"message\":\"Application does not exist\"}"}"#, to: socketID)
        expectEqual(client.state.name, "connected")
        pusher.server.close(socketID, .normal)
        guard case .disconnected(let error?) = client.state else {
            Issue.record("the state is \(client.state)")
            return
        }
        expectEqual(error.serverCode, 4001)
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
        expectEqual(client.state, .disconnected(nil))
    }

    @Test func `run throws if the server rejects the client`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.key = "another" }
        await #expect(throws: PusherError.self) { try await client.run() }
    }

    @Test func `waiting for a connection can time out, fail or be cancelled`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.network.condition = .down
        let client = pusher.client()
        client.connect()

        let timed = Task { () -> PusherError.Code? in
            do throws(PusherError) { try await client.connected(within: .seconds(5)) } catch { return error.code }
            return nil
        }
        // Moves the clock when the call waits, so that its deadline is set.
        while client.waiterCount < 1 { await Task.yield() }
        pusher.clock.advance(by: .seconds(5))
        await expectEqual(timed.value, .timedOut)

        let disconnected = Task { () -> PusherError.Code? in
            do throws(PusherError) { try await client.connected(within: .seconds(500)) } catch { return error.code }
            return nil
        }
        while client.waiterCount < 1 { await Task.yield() }
        client.disconnect()
        await expectEqual(disconnected.value, .disconnected)

        let cancelled = Task { () -> PusherError.Code? in
            do throws(PusherError) { try await client.connected(within: .seconds(500)) } catch { return error.code }
            return nil
        }
        cancelled.cancel()
        await expectEqual(cancelled.value, .cancelled)
    }

    @Test func `the error of a cancelled call names the call, and the client continues`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.network.condition = .down
        let client = pusher.client()
        client.connect()
        let channel = try client.subscribe("prices")
        let connecting = Task { try await client.connected() }
        let subscribing = Task { try await channel.subscribed() }
        while client.waiterCount < 2 { await Task.yield() }
        connecting.cancel()
        subscribing.cancel()
        let first = try await #require(throws: PusherError.self) { try await connecting.value }
        let second = try await #require(throws: PusherError.self) { try await subscribing.value }
        expect(first.code == .cancelled && first.message.hasPrefix("connected(within:) was cancelled with its task."))
        expect(second.code == .cancelled && second.message.hasPrefix("subscribed(within:) of prices was cancelled with its task."))
        expectEqual(client.waiterCount, 0)
        pusher.network.condition = .up
        pusher.clock.advance(by: .seconds(60))
        expect(client.state.name == "connected" && channel.state == .subscribed)
    }

    @Test func `an invalid configuration fails with the reason`() async throws {
        let client = PusherClient(key: "", host: "example.org")
        client.connect()
        guard case .failed(let error) = client.state else {
            Issue.record("the state is \(client.state)")
            return
        }
        expect(error.message.contains("key must not be empty"))
    }

    struct InvalidValue: Sendable, CustomTestStringConvertible {
        let name: String
        let set: @Sendable (inout PusherConfiguration) -> Void
        var testDescription: String { self.name }

        init(_ name: String, _ set: @escaping @Sendable (inout PusherConfiguration) -> Void) {
            self.name = name
            self.set = set
        }
    }

    @Test(arguments: [
        InvalidValue("activityTimeout") { $0.activityTimeout = .zero },
        InvalidValue("activityTimeout") { $0.activityTimeout = .seconds(-1) },
        InvalidValue("pongTimeout") { $0.pongTimeout = .zero }, InvalidValue("connectTimeout") { $0.connectTimeout = .zero },
        InvalidValue("subscriptionTimeout") { $0.subscriptionTimeout = .seconds(-1) },
        InvalidValue("unavailableTimeout") { $0.unavailableTimeout = .seconds(-1) },
        InvalidValue("backoff") { $0.backoff = Backoff(base: .seconds(-1), cap: .seconds(1)) },
        InvalidValue("messageLimit") { $0.messageLimit = 0 }, InvalidValue("clientEventQueueLimit") { $0.clientEventQueueLimit = -1 },
        InvalidValue("clientEventLimit") { $0.clientEventLimit = PusherClientEventLimit(perSecond: 0) },
        InvalidValue("port") { $0.port = 70_000 }, InvalidValue("port") { $0.port = 0 },
        InvalidValue("host") { $0.host = "ws://example.org" },
        InvalidValue("host") { $0.host = "anna:secret@example.org" }, InvalidValue("path") { $0.path = "app" },
    ])
    func `the error for an invalid configuration names the invalid value`(_ value: InvalidValue) async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client(configure: value.set)
        client.connect()
        let error = try await #require(throws: PusherError.self) { try await client.connected() }
        expect(error.code == .invalidConfiguration && error.message.contains(value.name), "\(error)")
        await #expect(throws: error) { try await client.run() }
        expect(pusher.server.socketIDs.isEmpty && pusher.clock.untilNextDeadline == nil)
    }

    /// Each of them never expires, alone and added to another.
    @Test func `a timeout can be the longest possible duration`() async throws {
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
            expectEqual(client.state, .connecting)
            client.disconnect()
        }
    }

    @Test func `a timeout error contains the reason`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.port = 1 }
        let idle = try await #require(throws: PusherError.self) { try await client.connected(within: .zero) }
        expect(idle.code == .timedOut && idle.message.contains("connect()") && idle.cause == nil)
        client.connect()
        let failed = try await #require(throws: PusherError.self) { try await client.connected(within: .zero) }
        let loss = try #require(failed.cause as? PusherError)
        expect(failed.code == .timedOut && failed.message.contains(loss.message))
        expect(loss.code == .connectionLost && (loss.cause as? TransportError)?.code == .refused)
        client.disconnect()
    }

    @Test func `a released client closes its connection and ends its sequences`() async throws {
        let pusher = try await InMemoryPusher()
        var client: PusherClient? = pusher.client()
        client?.connect()
        let states = try #require(client?.states)
        expectEqual(pusher.server.socketIDs.count, 1)
        client = nil
        expect(pusher.server.socketIDs.isEmpty)
        await expectEqual(states.pending().map(\.name), ["connected", "disconnected"])
        expectEqual(states.endReason, .ended)
    }

    @Test func `the client reconnects to a server that restarts`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        await pusher.server.stop()
        expectEqual(client.state, .connecting)
        _ = try await pusher.server.start(on: pusher.network.listener(host: pusher.address.host, port: pusher.address.port))
        pusher.clock.advance(by: .seconds(60))
        expectEqual(client.state.name, "connected")
    }

    @Test func `updates of all kinds arrive in the order in which they occurred`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client(userID: "anna")
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
        let lines = await updates.pending().map { update in
            switch update {
            case .event(let event): "\(event.name) \(event.data ?? "")"
            case .frame(let text), .sentFrame(let text): text
            case .attempt: "attempt"
            case .state(let state): state.name
            case .connectingIn: "retry"
            case .error(let error): "\(error.code)"
            case .subscription(let channel, let state): "\(channel) \(state)"
            case .members(let channel, .subscribed(let members)): "\(channel) has \(members.map(\.id))"
            case .members(let channel, .resubscribed(let members, _, _)): "\(channel) has \(members.map(\.id)) again"
            case .members(let channel, let change): "\(channel) \(change)"
            case .user(let state): "\(state)"
            case .watchlist(let change): "\(change)"
            case .gap(let gap): "\(gap.channel) gap"
            case .subscriptionCount(let channel, let count): "\(channel) \(count)"
            }
        }
        let arrival = ["attempt", "connected", "prices subscribed", "presence-room has [\"anna\"]", "presence-room subscribed"]
        let secondArrival = [
            "attempt", "connected", "prices subscribed", "prices gap", "presence-room has [\"anna\"] again", "presence-room subscribed",
            "presence-room gap",
        ]
        let loss = ["prices pending", "presence-room pending", "connecting", "connectionLost", "retry"]
        expectEqual(
            lines,
            ["connecting"] + arrival + ["price 1"] + loss + secondArrival
                + ["price 2", "presence-room unsubscribed", "prices pending", "disconnected"])
        expect(updates.endReason == nil && prices.state == .pending)
    }

    @Test func `updates continue after connecting again and finish when the client is released`() async throws {
        let pusher = try await InMemoryPusher()
        var client: PusherClient? = pusher.client()
        let updates = try #require(client).updates()
        for _ in 1...2 {
            client?.connect()
            client?.disconnect()
        }
        client = nil
        var attempts: [Int] = []
        for await case .attempt(let number) in updates { attempts.append(number) }
        expectEqual(attempts, [1, 2])
        expectEqual(updates.endReason, .ended)
    }

    @Test func `frames precede the updates that they cause`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let updates = client.updates(includingFrames: true)
        client.connect()
        try client.subscribe("prices")
        pusher.server.publish("price", to: "prices", data: "1")
        let socketID = try #require(client.socketID)
        pusher.server.send(#"{"event":"price","channel":"unknown","data":"2"}"#, to: socketID)
        pusher.server.send("not JSON", to: socketID)
        let lines = await updates.pending().map { update in
            switch update {
            case .frame(let text): String(text.prefix(while: { $0 != "," }))
            case .sentFrame(let text): "sends \(text)"
            case .state(let state): state.name
            case .event(let event): event.name
            case .error(let error): "\(error.code)"
            case .subscription(_, let state): "\(state)"
            case .attempt: "attempt"
            case .connectingIn, .members, .gap, .subscriptionCount, .user, .watchlist: ""
            }
        }
        expectEqual(
            lines,
            [
                "connecting", "attempt", #"{"event":"pusher:connection_established""#, "connected",
                #"sends {"event":"pusher:subscribe","data":{"channel":"prices"}}"#,
                #"{"event":"pusher_internal:subscription_succeeded""#, "subscribed", #"{"event":"price""#, "price",
                #"{"event":"price""#, "not JSON", "invalidFrame",
            ])
    }
}
