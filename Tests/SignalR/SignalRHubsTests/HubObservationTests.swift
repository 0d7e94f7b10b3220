import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import SignalRHubs

/// The state of a client that an application observes, and the settings that it changes.
@Suite(.timeLimit(.minutes(10))) struct HubObservationTests {
    private struct Refused: Error {}

    /// An object of the application that calls the client when it is released.
    private final class Owner: Sendable {
        let client = Lock<HubClient?>(nil)
        let released: EventRecorder<HubState>

        init(_ released: EventRecorder<HubState>) { self.released = released }

        deinit { if let client = self.client.withLock({ $0 }) { self.released.record(client.state) } }
    }

    @Test func `states begin with the current one, and changes with the next one`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        let (states, changes) = (hub.client.states, hub.client.stateChanges)
        hub.network.cut()
        let reached = await states.pending()
        expect(reached.first == .connected(connectionID: nil) && reached.count == 2)
        await expectEqual(changes.pending(), [HubStateChange(old: reached[0], new: reached[1])])
        hub.client.stop()
        await expectEqual(changes.pending(), [HubStateChange(old: reached[1], new: .stopped(nil))])
    }

    @Test func `each failure is an error once`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1), .seconds(2)]) }
        let (errors, delays) = (hub.client.errors, hub.client.connectingIn)
        hub.network.condition = .down
        hub.network.cut()
        await expectEqual(errors.pending().map(\.message).count, 1)
        hub.clock.advance(by: .seconds(1))
        try await eventually { hub.client.reconnectDelay == .seconds(2) }
        await expectEqual(errors.pending().map(\.code), [.connectionLost])
        hub.clock.advance(by: .seconds(2))
        try await eventually { hub.isStopped }
        // The state and the update `closed` report the same failure.
        await expectEqual(errors.pending(), [hub.stopError])
        await expectEqual(delays.pending(), [.seconds(1), .seconds(2)])
        expectNil(hub.client.reconnectDelay)
    }

    @Test func `a stop isn't an error`() async throws {
        let hub = try await HubFixture.connected()
        let errors = hub.client.errors
        hub.client.stop()
        await expect(errors.pending().isEmpty)
    }

    @Test func `an error has the cause that the application threw, but no state keeps it`() async throws {
        let hub = try await HubFixture(negotiates: true) { $0.accessToken = { throw Refused() } }
        let errors = hub.client.errors
        let error = await hubError { try await hub.client.start() }
        expect(error?.code == .tokenFailed && error?.cause is Refused)
        expectEqual(error?.message.contains("\(Refused.self)"), true)
        let reported = try #require(await errors.pending().first)
        expect(reported == error && reported.cause is Refused)
        expect(hub.stopError == error && hub.stopError?.cause == nil)
    }

    @Test func `the error of a handler and of a result have their causes`() async throws {
        let hub = try await HubFixture.connected()
        let errors = hub.client.errors
        hub.client.on("Fail") { throw Refused() }
        hub.client.on("Count") { (number: Int) in }
        hub.server.send(#"{"type":1,"target":"Fail","arguments":[]}"#)
        hub.server.send(#"{"type":1,"target":"Count","arguments":["one"]}"#)
        try await eventually { hub.updates.all.count { if case .error = $0 { true } else { false } } == 2 }
        let reported = await errors.pending()
        expectEqual(reported.map(\.code), [.handlerFailed, .decodingFailed])
        expect(reported.first?.cause is Refused && reported.last?.cause is DecodingError)
    }

    @Test func `messages in both directions are traced without secrets`() async throws {
        let hub = try await HubFixture { $0.headers = ["X-Token": "secret-token"] }
        let frames = hub.client.frames()
        try await hub.client.start()
        try await hub.client.send("Say", "hello")
        hub.server.send(#"{"type":1,"target":"Echo","arguments":["secret-token"]}"#)
        hub.client.stop()
        let traced = await frames.pending()
        expectEqual(traced.first, HubFrameTrace(.sent, #"{"protocol":"json","version":1}"#))
        expect(traced.contains(HubFrameTrace(.received, "{}")))
        expect(traced.contains { $0.direction == .sent && $0.text.contains("\"hello\"") })
        expect(traced.contains(HubFrameTrace(.received, #"{"type":1,"target":"Echo","arguments":["…"]}"#)))
        // The close message is the last one.
        expect(traced.last?.direction == .sent && traced.last?.text.contains("\"type\":7") == true)
    }

    @Test func `a traced client waits for a server that reads slowly`() async throws {
        let hub = try await HubFixture()
        let frames = hub.client.frames(buffer: .dropOldest(100))
        try await hub.client.start()
        for number in 1...20 { try await hub.client.send("Say", number) }
        let sent = await frames.pending().filter { $0.direction == .sent && $0.text.contains("Say") }
        expectEqual(sent.count, 20)
    }

    @Test func `changed settings apply from the next attempt`() async throws {
        let tokens = EventRecorder<String>()
        let hub = try await HubFixture.connected(negotiates: true) {
            $0.retry = .delays([.seconds(1)])
            $0.accessToken = {
                tokens.record("first")
                return "first"
            }
        }
        try hub.client.update {
            $0.retry = .delays([.seconds(5)])
            $0.accessToken = {
                tokens.record("second")
                return "second"
            }
        }
        expect(tokens.all == ["first"] && hub.isConnected)
        hub.network.cut()
        try await eventually { hub.client.reconnectDelay == .seconds(5) }
        hub.clock.advance(by: .seconds(5))
        try await eventually { hub.isConnected }
        expectEqual(tokens.all, ["first", "second"])
    }

    @Test func `settings of a stopped client apply to its start`() async throws {
        let hub = try await HubFixture()
        let endpoint = hub.client.configuration.endpoint
        try hub.client.update { $0.endpoint.host = "nowhere" }
        let error = await hubError { try await hub.client.start() }
        expectEqual(error?.code, .connectionLost)
        try hub.client.update { $0.endpoint = endpoint }
        try await hub.client.start()
        expect(hub.isConnected)
    }

    @Test func `what a client keeps for life can't be changed`() async throws {
        let hub = try await HubFixture()
        let changes: [(inout HubConfiguration) -> Void] = [
            { $0.hubProtocol = .messagePack }, { $0.ignoresCaseOfMethods = true }, { $0.handlerBuffer.count = 1 },
            { $0.transports.networkPath = nil }, { $0.log = .none },
        ]
        for change in changes {
            let error = #expect(throws: HubError.self) { try hub.client.update(change) }
            expect(error?.code == .invalidConfiguration && error?.message.contains("keeps") == true)
        }
    }

    /// A change that makes the value of a setting invalid.
    struct InvalidValue: Sendable {
        var name: String
        var change: @Sendable (inout HubConfiguration) -> Void
    }

    private static let invalidValues: [InvalidValue] = [
        InvalidValue(name: "host") { $0.endpoint.host = "" },
        InvalidValue(name: "handshakeTimeout") { $0.handshakeTimeout = .zero },
        InvalidValue(name: "connectTimeout") { $0.connectTimeout = .seconds(-1) },
        InvalidValue(name: "callTimeLimit") { $0.callTimeLimit = .zero },
        InvalidValue(name: "keepAliveInterval") { $0.keepAliveInterval = .seconds(-1) },
        InvalidValue(name: "serverTimeout") { $0.serverTimeout = .seconds(-1) },
        InvalidValue(name: "refreshBeforeExpiration") { $0.refreshBeforeExpiration = .seconds(-1) },
        InvalidValue(name: "delays") { $0.retry = .delays([.zero, .seconds(-1)]) },
        InvalidValue(name: "backoff") { $0.retry = .backoff(Backoff(base: .seconds(-1))) },
        InvalidValue(name: "messageLimit") { $0.messageLimit = 0 },
        InvalidValue(name: "handlerBuffer") { $0.handlerBuffer.count = 0 },
        InvalidValue(name: "streamBuffer") { $0.streamBuffer.bytes = 0 },
    ]

    @Test(arguments: Self.invalidValues)
    func `an invalid value is named by the error of the start`(_ invalid: InvalidValue) async throws {
        let hub = try await HubFixture(ScriptedHub.Script(), invalid.change)
        let error = await hubError { try await hub.client.start() }
        expect(error?.code == .invalidConfiguration && error?.message.hasPrefix("Invalid configuration: ") == true)
        expectEqual(error?.message.contains(invalid.name), true)
        expect(hub.stopError == error && hub.server.handshakes.all.isEmpty)
    }

    @Test func `objects that the settings own are released without a lock`() async throws {
        let hub = try await HubFixture()
        let released = EventRecorder<HubState>()
        for _ in 0..<3 {
            let owner = Owner(released)
            owner.client.withLock { $0 = hub.client }
            try hub.client.update { $0.accessToken = { withExtendedLifetime(owner) { "token" } } }
        }
        try hub.client.update { $0.accessToken = nil }
        try hub.client.update { $0.callTimeLimit = .seconds(1) }
        expectEqual(released.all, [.stopped(nil), .stopped(nil), .stopped(nil)])
    }

    @Test func `a call waits for a connection without starting the client`() async throws {
        let hub = try await HubFixture()
        let task = Task { [client = hub.client] in try await client.connected() }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 1 }
        expect(hub.isStopped)
        try await hub.client.start()
        try await expectNil(task.value)

        let failed = Task { [client = hub.client] in try await client.run() }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 1 }
        hub.network.cut()
        let error = await hubError { try await failed.value }
        expect(error == hub.stopError && error?.code == .connectionLost)
        // The client has stopped, and the error says why.
        await expectEqual(hubError { try await hub.client.connected() }, error)
    }

    @Test func `a call that waits too long for a connection says why the last attempt failed`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1), .seconds(100)]) }
        hub.network.cut()
        hub.network.condition = .down
        hub.clock.advance(by: .seconds(1))
        try await eventually { hub.client.reconnectDelay == .seconds(100) }
        let error = await hubError { try await hub.client.connected(within: .zero) }
        expectEqual(error?.code, .timedOut)
        expectEqual(((error?.cause as? HubError)?.cause as? TransportError)?.code, .unreachable)
    }
}
