import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// Settings that change while the client lives.
/// The check of the names of channels.
@Suite struct ChannelNameSettingTests {
    @Test func `the check of channel names can be turned off`() throws {
        var configuration = PusherConfiguration(key: "key", host: "host")
        let client = PusherClient(configuration)
        let (other, long) = ("App.Models/User:1", String(repeating: "a", count: 201))
        for name in [other, long, ""] { #expect(throws: PusherError.self) { try client.subscribe(name) } }
        configuration.validatesChannelNames = false
        let lenient = PusherClient(configuration)
        try expect(lenient.subscribe(other).name == other && lenient.subscribe(long, filter: nil).name == long)
        #expect(throws: PusherError.self) { try lenient.subscribe("") }
        expectEqual(lenient.channelNames, [other, long])
    }
}

@Suite struct SettingsTests {
    // MARK: The session

    @Test func `a connection keeps its settings, and the next attempt has the new ones`() {
        var harness = SessionHarness.connected(to: "one")
        expectEqual(
            harness.update {
                $0.host = "other"
                $0.key = "key2"
                $0.retry = .delays([.seconds(5)])
            }, [])
        expect(harness.session.configuration.host == "host" && harness.session.latestSettings.configuration.host == "other")
        expectEqual(
            harness.close(.transport(TransportError(.reset, "reset"))),
            ["state connecting", "error connectionLost", "retry after a second or more"])
        expect(harness.session.configuration.host == "other" && harness.session.nextAttempt == harness.now.advanced(by: .seconds(5)))
        expectEqual(harness.advance(by: .seconds(5)), ["open #2 ws://other/app/key2"])
    }

    @Test func `an immediate reconnect has the new settings and their time limit`() {
        var harness = SessionHarness.connected()
        harness.update {
            $0.host = "other"
            $0.connectTimeout = .seconds(3)
        }
        expectEqual(harness.close(.peer(CloseCode(rawValue: 4200), "")).last, "open #2 ws://other/app/key")
        expectEqual(harness.session.connection.nextDeadline, harness.now.advanced(by: .seconds(3)))
    }

    @Test func `settings apply immediately if there is neither a connection nor an attempt`() {
        var harness = SessionHarness()
        harness.update {
            $0.host = "first"
            $0.connectTimeout = .seconds(3)
        }
        expectEqual(harness.start().last, "open #1 ws://first/app/key")
        expectEqual(harness.session.connection.nextDeadline, harness.now.advanced(by: .seconds(3)))
        // The attempt that is in progress keeps them.
        harness.update { $0.host = "second" }
        expectEqual(harness.session.configuration.host, "first")
        harness.close(.transport(TransportError(.refused, "refused")))
        let next = harness.session.nextAttempt
        harness.update { $0.host = "third" }
        expect(harness.session.configuration.host == "third" && harness.session.nextAttempt == next)
        expectEqual(harness.advance(by: .seconds(1)), ["open #2 ws://third/app/key"])
        harness.stop()
        harness.update { $0.host = "fourth" }
        expectEqual(harness.session.configuration.host, "fourth")
    }

    @Test func `a client that is disconnected has the new settings afterwards`() {
        var harness = SessionHarness.connected()
        harness.update { $0.host = "other" }
        harness.stop()
        expectEqual(harness.session.configuration.host, "other")
        expectEqual(harness.start().last, "open #2 ws://other/app/key")
    }

    @Test func `subscriptions and users are authorized with the settings of their connection`() {
        var harness = SessionHarness.connected(to: "private-one")
        harness.update { $0.authorizer = nil }
        expectEqual(harness.subscribe("private-two"), ["authorize 2 private-two 1.2"])
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expectEqual(harness.establish().filter { $0.hasPrefix("error") }, ["error authorizationMissing", "error authorizationMissing"])
    }

    @Test func `the server's requirement of TLS stays until the server changes`() {
        var harness = SessionHarness.connected()
        expectEqual(harness.close(.peer(CloseCode(rawValue: 4000), "")).last, "open #2 wss://host/app/key")
        harness.update { $0.pongTimeout = .seconds(5) }
        expectEqual(harness.close(.peer(CloseCode(rawValue: 4200), "")).last, "open #3 wss://host/app/key")
        // The version of the protocol changes with the recovery of events, but not the server.
        for recovery in [.sockudo, nil] as [PusherRecovery?] {
            expectEqual(harness.switchServer { $0.recovery = recovery }.last?.contains(" wss://host/app/key"), true)
            expect(harness.session.request.endpoint.target.hasSuffix(recovery == nil ? "protocol=7" : "protocol=2"))
        }
        harness.update { $0.host = "other" }
        expectEqual(harness.close(.peer(CloseCode(rawValue: 4200), "")).last?.hasSuffix(" ws://other/app/key"), true)
    }

    @Test func `the error of a loss names the server that was lost`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let errors = client.errors
        try client.update { $0.host = "elsewhere" }
        pusher.network.cut()
        let error = try #require(await errors.pending().first)
        expect(error.message.contains(pusher.address.host) && !error.message.contains("elsewhere"))
    }

    // MARK: The client

    @Test func `an invalid value throws, and the client keeps its settings`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let error = #expect(throws: PusherError.self) { try client.update { $0.host = "" } }
        expect(error?.code == .invalidConfiguration && error?.message == "Invalid configuration: The host must not be empty.")
        #expect(throws: PusherError.self) { try client.switchServer { $0.key = "a/b" } }
        #expect(throws: PusherError.self) { try client.switchCluster("a b") }
        #expect(throws: PusherError.self) { try client.update { $0.retry = .delays([.seconds(1), .seconds(-1)]) } }
        expect(client.configuration.host == pusher.address.host && client.state.name == "connected")
        expectEqual(pusher.server.socketIDs.count, 1)
    }

    @Test func `a client keeps its transports and its log`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let changes: [@Sendable (inout PusherConfiguration) -> Void] = [
            { $0.log = .none }, { $0.transports = $0.transports }, { $0 = PusherConfiguration(key: "key", cluster: "eu") },
        ]
        for change in changes {
            let error = #expect(throws: PusherError.self) { try client.update(change) }
            expect(error?.code == .invalidConfiguration && error?.message.hasPrefix("A client keeps its log and its transports.") == true)
        }
        try client.update { $0.activityTimeout = .seconds(7) }
        expectEqual(client.configuration.activityTimeout, .seconds(7))
    }

    @Test func `a change that another one overtakes is made again`() async throws {
        let client = PusherClient(key: "key", host: "host")
        var isFirst = true
        try client.update { configuration in
            if isFirst {
                isFirst = false
                try? client.update { $0.pongTimeout = .seconds(1) }
            }
            configuration.activityTimeout = .seconds(2)
        }
        expect(client.configuration.pongTimeout == .seconds(1) && client.configuration.activityTimeout == .seconds(2))
    }

    @Test func `concurrent changes of different settings are all kept`() async throws {
        let client = PusherClient(key: "key", host: "host")
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<20 { group.addTask { try? client.update { $0.headers["X-\(number)"] = "1" } } }
        }
        expectEqual(client.configuration.headers.fields.count, 20)
    }

    /// Calls a closure when it is released.
    private final class Owned: Sendable {
        private let released: @Sendable () -> Void

        init(_ released: @escaping @Sendable () -> Void) { self.released = released }

        deinit { self.released() }

        /// An authorizer that owns a new object.
        static func authorizer(_ released: @escaping @Sendable () -> Void) -> PusherAuthorizer {
            let owned = Owned(released)
            return .callback { _ in withExtendedLifetime(owned) { PusherChannelAuthorization(auth: "key:1") } }
        }
    }

    @Test func `an object that replaced settings owned may call the client when it is released`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.retry = .delays([.seconds(1)]) }
        let states = EventRecorder<String>()
        func replaceAuthorizer() throws(PusherError) {
            try client.update {
                $0.authorizer = Owned.authorizer { [weak client] in if let client { states.record(client.state.name) } }
            }
        }
        try replaceAuthorizer()
        try replaceAuthorizer()
        client.connect()
        // The settings of the connection, those that wait for the next one, and those that replace these.
        try replaceAuthorizer()
        try replaceAuthorizer()
        pusher.network.cut()
        pusher.clock.advance(by: .seconds(1))
        try client.switchServer { $0.authorizer = nil }
        expect(states.all.count == 4 && client.state.name == "connected")
    }

    @Test func `a new authorizer is asked after the next reconnect`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = .secret("wrong") }
        client.connect()
        let orders = try client.subscribe("private-orders")
        try await eventually { if case .failed = orders.state { true } else { false } }
        try client.update { $0.authorizer = .secret("secret") }
        try client.switchServer { _ in }
        expect(client.state.name == "connected" && orders.state == .subscribed)
    }

    @Test func `new header fields are sent and aren't logged`() async throws {
        let lines = EventRecorder<String>()
        let requests = EventRecorder<String?>()
        var hooks = PusherServerHooks()
        hooks.authorizeConnection = { attempt in
            requests.record(attempt.request.headers["Authorization"])
            return .accept
        }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let client = pusher.client {
            $0.headers["Authorization"] = "Bearer first-token"
            $0.log = LogSink(minimumLevel: .trace) { _, _, message in lines.record(message) }
        }
        client.connect()
        try await client.connected()
        try client.switchServer { $0.headers["Authorization"] = "Bearer second-token" }
        try await client.connected()
        expectEqual(requests.all, ["Bearer first-token", "Bearer second-token"])
        pusher.server.publish("note", to: "notes", data: "1")
        let socketID = try #require(client.socketID)
        pusher.server.send(#"{"event":"note","data":"second-token"}"#, to: socketID)
        try await eventually { lines.all.contains { $0.contains(#"{"event":"note","data":"<redacted>"}"#) } }
        expect(!lines.all.contains { $0.contains("-token") })
    }

    @Test func `the limit of client events can be added and removed`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.clientEventLimit = nil }
        client.connect()
        let room = try client.subscribe("private-room")
        for _ in 0..<3 { try room.trigger("client-a", 1) }
        try client.update { $0.clientEventLimit = PusherClientEventLimit(perSecond: 1, excess: .fail) }
        for _ in 0..<3 { try room.trigger("client-a", 1) }
        try client.switchServer { _ in }
        try room.trigger("client-a", 1)
        #expect(throws: PusherError.self) { try room.trigger("client-a", 1) }
        try client.switchServer { $0.clientEventLimit = nil }
        for _ in 0..<3 { try room.trigger("client-a", 1) }
    }
}
