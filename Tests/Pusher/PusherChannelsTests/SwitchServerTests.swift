import PusherServer
import PusherTestSupport
import PusherTesting
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// Switches to another server, app or cluster.
@Suite struct SwitchServerTests {
    // MARK: The session

    @Test func `a connected client closes its connection and subscribes on the new server`() {
        var harness = SessionHarness.connected(to: "one")
        harness.confirm("one")
        harness.advance(by: .seconds(2))
        expectEqual(
            harness.switchServer { $0.host = "other" }, ["one pending", "state connecting", "close #1 1000", "open #2 ws://other/app/key"])
        harness.advance(by: .seconds(1))
        expectEqual(harness.establish(), ["state connected", "#2 pusher:subscribe one"])
        expectEqual(harness.confirm("one"), ["one subscribed", "one gap 1.0 seconds"])
        expectEqual(harness.counters.reconnects, 1)
    }

    @Test func `late events of the old server have no effect`() {
        var harness = SessionHarness.connected(to: "one")
        harness.confirm("one")
        harness.switchServer { $0.host = "other" }
        let old = ConnectionID(rawValue: 1)
        expectEqual(harness.receive(#"{"event":"price","channel":"one","data":"1"}"#, on: old), [])
        expectEqual(harness.step { $0.closed(old, .peer(CloseCode(rawValue: 4001), ""), now: $1, &$2) }, [])
        expectEqual(harness.session.state, .connecting)
        expectEqual(harness.advance(by: .seconds(5)), [])
    }

    @Test func `an old server that doesn't confirm the close is abandoned`() {
        var harness = SessionHarness.connected()
        harness.switchServer { $0.host = "second" }
        harness.establish()
        expectEqual(harness.advance(by: .seconds(5)), ["abandon #1"])
        expect(harness.switchServer { $0.host = "third" }.contains("close #2 1000"))
        harness.establish()
        // There is one at most.
        expectEqual(
            harness.switchServer { $0.host = "fourth" }, ["state connecting", "abandon #2", "close #3 1000", "open #4 ws://fourth/app/key"])
    }

    @Test func `an attempt is replaced, and a delay is ended`() {
        var harness = SessionHarness()
        harness.start()
        expectEqual(harness.switchServer { $0.host = "second" }, ["abandon #1", "open #2 ws://second/app/key"])
        harness.close(.transport(TransportError(.refused, "refused")))
        expectEqual(harness.switchServer { $0.host = "third" }, ["open #3 ws://third/app/key"])
        expect(harness.session.nextAttempt == nil && harness.session.connection.failures == 0)
    }

    @Test func `a client that isn't connecting connects when it is asked to`() {
        var harness = SessionHarness()
        expectEqual(harness.switchServer { $0.host = "second" }, [])
        expectEqual(harness.start(), ["state connecting", "open #1 ws://second/app/key"])
        harness.establish()
        harness.stop()
        expectEqual(harness.switchServer { $0.host = "third" }, [])
        expectEqual(harness.start(), ["state connecting", "open #2 ws://third/app/key"])
        harness.establish()
        harness.close(.peer(CloseCode(rawValue: 4001), ""))
        expectEqual(harness.switchServer { $0.key = "valid" }, [])
        expectEqual(harness.start(), ["state connecting", "open #3 ws://third/app/valid"])
    }

    @Test func `an authorization for the old server is cancelled and made again`() {
        var harness = SessionHarness.connected(to: "private-one")
        let lines = harness.switchServer { $0.host = "other" }
        expect(lines == ["state connecting", "cancel 1", "close #1 1000", "open #2 ws://other/app/key"] || lines.contains("cancel 1"))
        expectEqual(harness.authorize(1), [])
        expectEqual(harness.establish(), ["state connected", "authorize 2 private-one 1.2"])
        expectEqual(harness.authorize(2), ["#2 pusher:subscribe private-one key:2"])
    }

    @Test func `calls that wait continue and receive their results from the new server`() {
        var harness = SessionHarness()
        harness.subscribe("one")
        harness.start()
        expect(harness.awaitConnected(7) == [] && harness.awaitSubscribed(8, "one") == [] && harness.awaitEnd(9) == [])
        expectEqual(harness.switchServer { $0.host = "other" }, ["abandon #1", "open #2 ws://other/app/key"])
        expectEqual(harness.establish(), ["state connected", "resume 7 1.2", "#2 pusher:subscribe one"])
        expectEqual(harness.confirm("one"), ["one subscribed", "resume 8"])
        expect(harness.stop().contains("resume 9"))
    }

    @Test func `the user signs in again`() {
        var harness = SessionHarness.connected { $0.userAuthenticator = .secret("unused", user: PusherMember(id: "unused")) }
        harness.signIn()
        harness.authenticate(1, user: "anna")
        harness.confirmUser("anna")
        harness.awaitSignedIn(5)
        expectEqual(harness.switchServer { $0.host = "other" }.first, "user pending")
        expectEqual(harness.establish(), ["state connected", "authenticate 2 1.2"])
        harness.authenticate(2, user: "anna")
        expectEqual(harness.confirmUser("anna"), ["signed in as anna", "#2 pusher:subscribe #server-to-user-anna"])
    }

    @Test func `client events that wait are sent after the subscription`() {
        var harness = SessionHarness.connected(to: "private-one")
        expectEqual(harness.trigger("client-a", on: "private-one"), ["queued"])
        harness.switchServer { $0.host = "other" }
        harness.establish()
        harness.authorize(2)
        expectEqual(harness.confirm("private-one").last, "#2 client-a private-one")
    }

    // MARK: The client

    @Test func `a client moves between two apps with its channels and sequences`() async throws {
        let pusher = try await InMemoryPusher()
        let second = PusherServer(app: PusherApp(id: "2", key: "key2", secret: "secret2"), network: pusher.network)
        let address = try await second.start(on: pusher.network.listener(host: "second", port: 80))
        let client = pusher.client(userID: "anna")
        let (errors, states) = (client.errors, client.states)
        client.connect()
        let prices = try client.subscribe("prices")
        let room = try client.subscribe("presence-room")
        let (events, gaps) = (prices.events(), prices.gaps)
        pusher.server.publish("price", to: "prices", data: "1")
        try client.switchServer {
            ($0.key, $0.host, $0.port) = ("key2", address.host, address.port)
            $0.authorizer = .secret("secret2", userID: "anna")
        }
        expect(pusher.server.socketIDs.isEmpty && second.socketIDs == [client.socketID])
        expect(prices.state == .subscribed && room.state == .subscribed && room.members.map(\.id) == ["anna"])
        second.publish("price", to: "prices", data: "2")
        await expectEqual(events.pending().map(\.data), ["1", "2"])
        await expectEqual(gaps.pending().count, 1)
        await expect(errors.pending().isEmpty)
        await expectEqual(states.pending().map(\.name), ["initialized", "connecting", "connected", "connecting", "connected"])
        expectEqual(client.configuration.key, "key2")
        client.disconnect()
        expect(second.socketIDs.isEmpty)
        await second.stop()
    }

    @Test func `a cluster has its host, and its key if there is another one`() throws {
        let client = PusherClient(key: "key", host: "localhost", port: 6001, path: "/path", useTLS: false)
        try client.switchCluster("us3")
        let configuration = client.configuration
        expectEqual(configuration.endpoint(useTLS: true), PusherConfiguration(key: "key", cluster: "us3").endpoint(useTLS: true))
        expect(configuration.useTLS && configuration.port == nil && client.state == .initialized)
        try client.switchCluster("eu", key: "key2")
        expect(client.configuration.key == "key2" && client.configuration.host == "ws-eu.pusher.com")
    }

    @Test func `the delay before the next attempt is a property, and a switch ends it`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.retry = .delays([.seconds(10)]) }
        expectNil(client.reconnectDelay)
        client.connect()
        expectNil(client.reconnectDelay)
        pusher.network.cut()
        expectEqual(client.reconnectDelay, .seconds(10))
        pusher.clock.advance(by: .seconds(4))
        expectEqual(client.reconnectDelay, .seconds(6))
        try client.switchServer { _ in }
        expect(client.reconnectDelay == nil && client.state.name == "connected")
    }
}

@Suite(.usesSockets, .timeLimit(.minutes(10))) struct SwitchServerSocketTests {
    @Test func `a client switches between servers over sockets`() async throws {
        let app = PusherApp(id: "1", key: "key", secret: "secret")
        let (first, second) = (PusherServer(app: app, log: .none), PusherServer(app: app, log: .none))
        let firstAddress = try await first.start(on: SocketListener(limits: .forTests))
        let secondAddress = try await second.start(on: SocketListener(limits: .forTests))
        var configuration = PusherConfiguration(key: "key", host: firstAddress.host, port: firstAddress.port, useTLS: false)
        configuration.log = .none
        configuration.allowLongTimes()
        let client = PusherClient(configuration)
        client.connect()
        let prices = try client.subscribe("prices")
        try await prices.subscribed(within: .seconds(300))
        let events = prices.events()
        for number in 1...3 {
            let (server, address) = number == 2 ? (first, firstAddress) : (second, secondAddress)
            try client.switchServer { $0.port = address.port }
            try await prices.subscribed(within: .seconds(300))
            let socketID = try #require(client.socketID)
            expectEqual(server.socketIDs, [socketID])
            server.publish("price", to: "prices", data: "\(number)")
            let event = await events.first { _ in true }
            expectEqual(event?.data, "\(number)")
        }
        try await eventually { first.socketIDs.isEmpty }
        client.disconnect()
        await first.stop()
        await second.stop()
    }
}
