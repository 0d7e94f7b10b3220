import Foundation
import NWWebSocket
import PusherServer
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

#if canImport(Network)
import Network
#endif

/// Losses and reconnects, with a server and a clock in memory.
@MainActor @Suite struct PusherSwiftConnectionTests {
    /// Allows some reconnects, and records their delays.
    private final class Gate: PusherDelegate {
        let delays = EventRecorder<Double>()
        let limit: Int

        init(limit: Int = .max) { self.limit = limit }

        func connectionWillReconnect(afterDelay delay: TimeInterval) -> Bool {
            self.delays.record(delay)
            return self.delays.all.count <= self.limit
        }
    }

    private func advance(_ memory: InMemory, _ seconds: Double) async {
        memory.clock.advance(by: .nanoseconds(Int64(seconds * 1e9)))
        await settle()
    }

    @Test func `delays are squares up to the maximum, and the attempts are counted`() async throws {
        let memory = try await InMemory()
        let (pusher, gate) = (memory.pusher(), Gate())
        pusher.delegate = gate
        memory.network.condition = .down
        pusher.connection.maxReconnectGapInSeconds = 20
        pusher.connect()
        await settle()
        for _ in 0..<6 { await self.advance(memory, (gate.delays.all.last ?? 0) + 1e-6) }
        expectEqual(gate.delays.all, [0, 1, 4, 9, 16, 20, 20])
        expect(pusher.connection.connectionState == .reconnecting && pusher.connection.reconnectAttempts == 7)
        memory.network.condition = .up
        await self.advance(memory, 20.1)
        expect(pusher.connection.connectionState == .connected && pusher.connection.reconnectAttempts == 0)
    }

    @Test func `attempts end at the maximum, and connect starts over`() async throws {
        let memory = try await InMemory()
        let (pusher, delegate) = (memory.pusher(), RecordingDelegate())
        pusher.delegate = delegate
        pusher.connection.reconnectAttemptsMax = 2
        pusher.connect()
        await settle()
        memory.network.condition = .down
        memory.network.cut()
        await settle()
        await self.advance(memory, 0.001)
        await self.advance(memory, 1.001)
        expectEqual(pusher.connection.connectionState, .disconnected)
        expect(delegate.logs.all.contains("[PUSHER DEBUG] Max reconnect attempts reached"))
        expectEqual(
            delegate.logs.all.filter { $0.hasPrefix("[PUSHER DEBUG] Attempting") },
            [
                "[PUSHER DEBUG] Attempting to reconnect after waiting 0.0 seconds (attempt 1 of 2)",
                "[PUSHER DEBUG] Attempting to reconnect after waiting 1.0 seconds (attempt 2 of 2)",
            ])
        await self.advance(memory, 1000)
        expectEqual(pusher.connection.connectionState, .disconnected)
        memory.network.condition = .up
        pusher.connect()
        await settle()
        expectEqual(pusher.connection.connectionState, .connected)
    }

    @Test func `a connection outlives a standstill of the process`() async throws {
        let memory = try await InMemory()
        let pusher = memory.pusher()
        pusher.connect()
        await settle()
        let socketID = pusher.connection.socketId
        for _ in 0..<3 {
            memory.clock.standStill(for: .seconds(3_600))
            await settle()
            expect(pusher.connection.connectionState == .connected && pusher.connection.socketId == socketID)
        }
        pusher.disconnect()
    }

    @Test func `the delegate can refuse a reconnect`() async throws {
        let memory = try await InMemory()
        let (pusher, gate) = (memory.pusher(), Gate(limit: 1))
        pusher.delegate = gate
        pusher.connect()
        await settle()
        memory.network.condition = .down
        memory.network.cut()
        await settle()
        await self.advance(memory, 0.001)
        expect(gate.delays.all == [0, 1] && pusher.connection.connectionState == .disconnected)
        await self.advance(memory, 100)
        expectEqual(pusher.connection.connectionState, .disconnected)
    }

    @Test func `after a server over capacity, the delegate hears of the delay of a second that the protocol requires`() async throws {
        let memory = try await InMemory()
        let (pusher, gate, logs) = (memory.pusher(), Gate(), RecordingDelegate())
        pusher.delegate = gate
        pusher.connect()
        await settle()
        memory.server.close(try #require(pusher.connection.socketId), CloseCode(rawValue: 4100))
        await settle()
        expect(gate.delays.all == [1] && pusher.connection.connectionState == .reconnecting)
        await self.advance(memory, 0.9)
        expectEqual(pusher.connection.connectionState, .reconnecting)
        pusher.delegate = logs
        await self.advance(memory, 0.2)
        expectEqual(pusher.connection.connectionState, .connected)
        memory.server.close(try #require(pusher.connection.socketId), CloseCode(rawValue: 4100))
        await settle()
        expectEqual(logs.logs.all.last, "[PUSHER DEBUG] Attempting to reconnect after waiting 1.0 seconds (attempt 1)")
        // A longer one stays.
        var losses = LossHistory()
        losses.close = (4199, nil)
        expect(losses.delay(attempts: 3, maximum: nil) == 9 && losses.delay(attempts: 3, maximum: 0.5) == 1)
    }

    /// Connects whenever the client is disconnected.
    private final class Connecting: PusherDelegate {
        let calls = EventRecorder<String>()
        weak var pusher: Pusher?

        func changedConnectionState(from old: ConnectionState, to new: ConnectionState) {
            self.calls.record("\(new)")
            if new == .disconnected { self.pusher?.connect() }
        }
        func connectionWillReconnect(afterDelay delay: TimeInterval) -> Bool {
            self.calls.record("asked")
            return true
        }
        func debugLog(message: String) { if message.hasPrefix("[PUSHER DEBUG] Attempting") { self.calls.record(message) } }
    }

    @Test func `a delegate that connects after a loss isn't asked about a reconnect`() async throws {
        let memory = try await InMemory()
        let (pusher, delegate) = (memory.pusher(), Connecting())
        pusher.connect()
        await settle()
        pusher.delegate = delegate
        delegate.pusher = pusher
        memory.network.cut()
        await settle()
        expectEqual(delegate.calls.all, ["disconnected", "reconnecting", "connecting", "connected"])
        expect(pusher.connection.reconnectAttempts == 0 && pusher.connection.connectionState == .connected)
    }

    /// Connects or disconnects when it is asked about a reconnect.
    private final class Acting: PusherDelegate {
        let states = EventRecorder<String>()
        let act: () -> Void

        init(_ act: @escaping () -> Void) { self.act = act }

        func changedConnectionState(from old: ConnectionState, to new: ConnectionState) { self.states.record("\(new)") }
        func connectionWillReconnect(afterDelay delay: TimeInterval) -> Bool {
            self.act()
            return true
        }
    }

    @Test func `a delegate may connect or disconnect when it is asked about a reconnect`() async throws {
        for disconnects in [false, true] {
            let memory = try await InMemory()
            let pusher = memory.pusher()
            pusher.connect()
            await settle()
            let delegate = Acting { [unowned pusher] in if disconnects { pusher.disconnect() } else { pusher.connect() } }
            pusher.delegate = delegate
            memory.network.cut()
            await settle()
            expectEqual(
                delegate.states.all, (disconnects ? ["disconnected"] : ["disconnected", "reconnecting", "connecting", "connected"]))
            expectEqual(pusher.connection.reconnectAttempts, 0)
        }
    }

    @Test func `a server that closes each connection soon is contacted less and less often`() async throws {
        let memory = try await InMemory()
        let (pusher, gate) = (memory.pusher(), Gate())
        pusher.delegate = gate
        pusher.connect()
        await settle()
        for _ in 0..<6 {
            memory.network.cut()
            await settle()
            await self.advance(memory, (gate.delays.all.last ?? 0) + 0.001)
        }
        expect(gate.delays.all == [0, 0, 0, 1, 4, 9] && pusher.connection.connectionState == .connected)
        await self.advance(memory, 31)
        memory.network.cut()
        await settle()
        expectEqual(gate.delays.all.last, 0)
    }

    @Test func `channels are subscribed again after a loss, and members aren't repeated`() async throws {
        let memory = try await InMemory()
        let (pusher, delegate) = (memory.pusher(), RecordingDelegate())
        pusher.delegate = delegate
        pusher.connection.userDataFetcher = { PusherPresenceChannelMember(userId: "anna", userInfo: ["name": "Anna"]) }
        let room = pusher.subscribeToPresenceChannel(channelName: "presence-room")
        await settle()
        let prices = pusher.subscribe("prices")
        await settle()
        let data = EventRecorder<String?>()
        prices.bind(eventName: "price") { data.record($0.data) }
        pusher.connect()
        await settle()
        expect(room.members.map(\.userId) == ["anna"] && prices.subscribed)
        memory.network.cut()
        await settle()
        expect(!prices.subscribed && pusher.connection.connectionState == .reconnecting)
        await self.advance(memory, 0.001)
        expect(room.members.map(\.userId) == ["anna"] && prices.subscribed)
        expectEqual(delegate.calls.all.filter { $0 == "subscribed prices" }.count, 2)
        memory.server.publish("price", to: "prices", data: "1")
        await settle()
        expectEqual(data.all, ["1"])
    }

    @Test func `a dead connection is noticed with pings, and its socket is closed first`() async throws {
        let memory = try await InMemory()
        let (pusher, delegate) = (memory.pusher(memory.options(activityTimeout: 20)), RecordingDelegate())
        pusher.delegate = delegate
        pusher.connection.pongResponseTimeoutInterval = 5
        pusher.connect()
        await settle()
        await self.advance(memory, 20)
        expect(
            delegate.logs.all.contains("[PUSHER DEBUG] Ping sent") && delegate.logs.all.contains("[PUSHER DEBUG] Websocket received pong"))
        memory.network.condition = .silent
        await self.advance(memory, 20)
        await self.advance(memory, 5)
        expectEqual(pusher.connection.connectionState, .reconnecting)
        memory.network.condition = .up
        await self.advance(memory, 30)
        expect(pusher.connection.connectionState == .connected && memory.server.socketIDs.count >= 1)
    }

    @Test func `a server that requires TLS is contacted with TLS`() async throws {
        let memory = try await InMemory()
        let pusher = memory.pusher()
        memory.server.faults.rejectionCode = CloseCode(rawValue: 4000)
        pusher.connect()
        await settle()
        expect(pusher.connection.socket.url.absoluteString.hasPrefix("wss://\(memory.address.host)/app/key?"))
        pusher.disconnect()
        await settle()
    }

    @Test func `a fixed delay replaces the squares`() async throws {
        let memory = try await InMemory()
        let options = memory.options()
        options.reconnectDelay = 5
        let (pusher, gate) = (memory.pusher(options), Gate())
        pusher.delegate = gate
        pusher.connect()
        await settle()
        memory.network.condition = .down
        memory.network.cut()
        await settle()
        for _ in 0..<3 { await self.advance(memory, 5.001) }
        expectEqual(gate.delays.all, [5, 5, 5, 5])
    }

    @Test(arguments: [true, false]) func `a loss without a reconnect is logged once and is one error`(reconnects: Bool) async throws {
        let memory = try await InMemory()
        let options = memory.options()
        options.autoReconnect = reconnects
        let (pusher, delegate, errors) = (memory.pusher(options), RecordingDelegate(), EventRecorder<String>())
        pusher.delegate = delegate
        // With reconnects, the maximum of attempts is the reason.
        pusher.connection.reconnectAttemptsMax = 0
        pusher.connection.bind("error") { errors.record($0.data?.message ?? "") }
        pusher.connect()
        await settle()
        memory.server.close(try #require(pusher.connection.socketId), .goingAway)
        await settle()
        expect(pusher.connection.connectionState == .disconnected && pusher.connection.phase == .disconnected)
        expect(delegate.logs.all.count { $0.contains("Websocket is disconnected") } == 1 && errors.all.count == 1)
    }

    @Test func `the close code of a loss isn't logged for a later attempt that times out`() async throws {
        let (clock, options) = (ManualClock(standstillLimit: nil), PusherClientOptions(useTLS: false))
        options.transports = InMemoryNetwork(clock: clock).transports()
        let (pusher, socket, delegate) = (Pusher(key: "key", options: options), MockSocket(), RecordingDelegate())
        socket.delegate = pusher.connection
        pusher.connection.socket = socket
        pusher.delegate = delegate
        pusher.connect()
        await settle()
        socket.answersConnect = false
        // The client changes to TLS, without a decision about a reconnect.
        socket.close(.privateCode(4000))
        expect(delegate.logs.all.count { $0.contains("Close code: 4000") } == 1 && socket.connects.all.count == 2)
        clock.advance(by: .seconds(15))
        await settle()
        expectEqual(delegate.states.last, "state disconnected → reconnecting")
        expectEqual(delegate.logs.all.count { $0.contains("Close code: 4000") }, 1)
    }

    @Test func `the reason why a connection is impossible is logged`() async throws {
        let delegate = RecordingDelegate()
        for (key, options, reason) in [
            ("a/b", PusherClientOptions(), "The key contains an invalid character."),
            ("key", PusherClientOptions(path: "x"), #"The path must start with "/" and must not end with one."#),
        ] {
            let pusher = Pusher(key: key, options: options)
            pusher.delegate = delegate
            for _ in 1...2 {
                pusher.connect()
                expectEqual(delegate.logs.take(), ["[PUSHER ERROR] Unable to connect: Invalid configuration: \(reason)"])
            }
            expect(pusher.connection.connectionState == .disconnected && pusher.connection.phase == .failed)
        }
    }

    @Test func `a client connects automatically if its options say so`() async throws {
        let memory = try await InMemory()
        let options = memory.options()
        options.connectAutomatically = true
        let pusher = memory.pusher(options)
        await settle()
        expectEqual(pusher.connection.connectionState, .connected)
    }

    @Test(arguments: [nil, 20.0, 100.0]) func `without a request of the server, the client pings after 60 seconds or its own time`(
        own: Double?
    ) async throws {
        let clock = ManualClock(standstillLimit: nil)
        let options = PusherClientOptions(activityTimeout: own)
        options.transports = InMemoryNetwork(clock: clock).transports()
        let (pusher, socket) = (Pusher(key: "key", options: options), MockSocket())
        socket.answersConnect = false
        socket.delegate = pusher.connection
        pusher.connection.socket = socket
        pusher.connect()
        socket.receive(#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"1.1\"}"}"#)
        socket.delegate?.webSocketDidConnect(connection: socket)
        expect(pusher.connection.connectionState == .connected && pusher.connection.activityTimeoutInterval == own ?? 60)
        clock.advance(by: .seconds((own ?? 60) - 1))
        await settle()
        expect(socket.sent.all.isEmpty)
        clock.advance(by: .seconds(1))
        await settle()
        expectEqual(socket.sent.all, [#"{"event":"pusher:ping","data":{}}"#])
    }

    // MARK: The page about the connection

    @Test func `the phases are those of the page: connecting, connected`() async throws {
        let memory = try await InMemory()
        let pusher = memory.pusher()
        let changes = EventRecorder<String>()
        pusher.connection.bind("state_change") { changes.record("\($0.previous!) → \($0.current!)") }
        pusher.connection.bind("connected") { changes.record("connected \($0.socketID ?? "")") }
        expectEqual(pusher.connection.phase, .initialized)
        pusher.connect()
        await settle()
        let id = try #require(pusher.connection.socketId)
        expectEqual(changes.take(), ["initialized → connecting", "connecting → connected", "connected \(id)"])
        memory.network.cut()
        await settle()
        await self.advance(memory, 0.001)
        expectEqual(
            changes.take().map { $0.hasPrefix("connected 1") ? "" : $0 }.prefix(2), ["connected → connecting", "connecting → connected"])
        pusher.disconnect()
        await settle()
        expect(changes.all.last == "connected → disconnected" && pusher.connection.phase == .disconnected)
    }

    @Test func `without a network, the phase is unavailable after 30 seconds, and attempts follow every 10 seconds`() async throws {
        let memory = try await InMemory()
        let options = memory.options()
        options.unavailableRetryInterval = 10
        let pusher = memory.pusher(options)
        let changes = EventRecorder<String>()
        let delays = EventRecorder<Int?>()
        for name in ["connecting", "connected", "unavailable"] { pusher.connection.bind(name) { changes.record($0.name) } }
        pusher.connect()
        await settle()
        pusher.connection.bind("connecting_in") { delays.record($0.delay) }
        memory.network.condition = .down
        memory.network.cut()
        await settle()
        await self.advance(memory, 29)
        expectEqual(changes.all, ["connecting", "connected", "connecting"])
        await self.advance(memory, 1)
        expect(changes.all.last == "unavailable" && pusher.connection.phase == .unavailable)
        _ = delays.take()
        for _ in 1...6 { await self.advance(memory, 10) }
        let taken = delays.take()
        expect(taken.count >= 5 && Set(taken) == [10])
        memory.network.condition = .up
        await self.advance(memory, 10)
        expectEqual(changes.all, ["connecting", "connected", "connecting", "unavailable", "connected"])
    }

    @Test func `too many connections are an error with the code 4004`() async throws {
        let memory = try await InMemory { $0.connectionLimit = 0 }
        let pusher = memory.pusher()
        let codes = EventRecorder<Int?>()
        pusher.connection.bind("error") { codes.record($0.data?.code) }
        pusher.connect()
        await settle()
        expect(codes.all.contains(4004) && pusher.connection.phase == .disconnected)
        pusher.connection.unbind("error")
        pusher.connect()
        await settle()
        expectEqual(codes.all.count(where: { $0 == 4004 }), 1)
        let id = pusher.connection.bind("error") { codes.record($0.data?.code) }
        pusher.connection.unbind(id)
        pusher.connection.bind("disconnected") { _ in codes.record(nil) }
        pusher.connection.unbindAll()
        let count = codes.all.count
        pusher.connect()
        await settle()
        expectEqual(codes.all.count, count)
    }

    @Test func `the fields of the form and the header fields of authorizations are options`() async throws {
        let memory = try await InMemory()
        let attempts = EventRecorder<PusherAuthorizationAttempt>()
        let handler = PusherAuthorizationHandler(app: memory.server.app) { attempt in
            attempts.record(attempt)
            return attempt.channel == "private-no" ? .reject(message: "no") : .accept(userID: "anna")
        }
        let address = try await memory.network.listener(host: "app", port: 80).start(handler)
        let options = memory.options(.noMethod)
        options.authorizationURL = URL(string: "http://\(address.host)/pusher/auth")
        expectEqual(options.authEndpoint, "http://app/pusher/auth")
        options.authParameters = ["CSRFToken": "some token"]
        options.authHeaders = ["X-CSRF-Token": "some_csrf_token"]
        let (pusher, delegate) = (memory.pusher(options), RecordingDelegate())
        pusher.delegate = delegate
        pusher.connect()
        await settle()
        let room = pusher.subscribeToPresenceChannel(channelName: "presence-room")
        await settle()
        try await eventually { room.subscribed }
        expectEqual(room.myId, "anna")
        expectEqual(attempts.all.first?.parameters["CSRFToken"], "some token")
        expectEqual(attempts.all.first?.request.headers["X-CSRF-Token"], "some_csrf_token")
        pusher.subscribe("private-no")
        await settle()
        try await eventually { delegate.calls.all.contains { $0.hasPrefix("failed private-no 403") } }
        // It isn't repeated until the next connection.
        await self.advance(memory, 100)
        expectEqual(attempts.all.count(where: { $0.channel == "private-no" }), 1)
    }

    // MARK: Encrypted channels

    @Test func `a new key is loaded without stopping other channels, and what can't be decrypted is reported`() async throws {
        let memory = try await InMemory()
        let handler = PusherAuthorizationHandler(app: memory.server.app)
        let address = try await memory.network.listener(host: "app", port: 80).start(handler)
        let (pusher, delegate) = (
            memory.pusher(memory.options(.endpoint(authEndpoint: "http://\(address.host)/pusher/auth"))), RecordingDelegate()
        )
        pusher.delegate = delegate
        let data = EventRecorder<String?>()
        let secrets = pusher.subscribe("private-encrypted-a")
        await settle()
        pusher.bind { data.record("\($0.eventName) \($0.data ?? "")") }
        pusher.connect()
        await settle()
        try await eventually { secrets.subscribed }
        _ = data.take()
        memory.server.publish("e", to: "private-encrypted-a", data: "1")
        try await eventually { data.all == ["e 1"] }
        let foreign = #"{\"nonce\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYX\",\"ciphertext\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}"#
        memory.server.send(
            #"{"event":"e","channel":"private-encrypted-a","data":"\#(foreign)"}"#, to: pusher.connection.socketId ?? "")
        try await eventually { delegate.calls.all.last == "undecryptable e private-encrypted-a" }
        expectEqual(delegate.logs.all.last, "[PUSHER DEBUG] Skipping event that failed to decrypt on channel private-encrypted-a")
        memory.server.publish("e", to: "private-encrypted-a", data: "2")
        try await eventually { data.all == ["e 1", "e 2"] }
        secrets.trigger(eventName: "client-x", data: "y")
        expectEqual(delegate.logs.all.last?.hasPrefix("[PUSHER ERROR] Client events are not supported on encrypted channels:"), true)
    }

    // MARK: Queues

    /// Records the queue on which a delegate is called.
    private final class QueueDelegate: PusherDelegate {
        let queues = EventRecorder<Bool>()
        let key: DispatchSpecificKey<Bool>

        init(_ key: DispatchSpecificKey<Bool>) { self.key = key }

        func changedConnectionState(from old: ConnectionState, to new: ConnectionState) {
            self.queues.record(DispatchQueue.getSpecific(key: self.key) == true)
        }
        func debugLog(message: String) { self.queues.record(DispatchQueue.getSpecific(key: self.key) == true) }
    }

    @Test func `handlers are called on the queue of the options, from wherever the library is called`() async throws {
        let memory = try await InMemory()
        let (queue, key) = (DispatchQueue(label: "callbacks"), DispatchSpecificKey<Bool>())
        queue.setSpecific(key: key, value: true)
        let options = memory.options()
        options.callbackQueue = queue
        let (pusher, delegate) = (memory.pusher(options), QueueDelegate(key))
        pusher.delegate = delegate
        pusher.connect()
        await settle()
        try await eventually { pusher.connection.connectionState == .connected }
        // On the queue, effects are complete when a call returns.
        let data = EventRecorder<String?>()
        let channel = pusher.subscribe("a")
        // Not on the main actor, because the queue is another one.
        let record: @Sendable (PusherEvent) -> Void = { data.record($0.data) }
        channel.bind(eventName: "e", eventCallback: record)
        let received = queue.sync {
            pusher.connection.webSocketDidReceiveMessage(
                connection: pusher.connection.socket, string: #"{"event":"e","channel":"a","data":"1"}"#)
            return data.all
        }
        expectEqual(received, ["1"])
        pusher.disconnect()
        await settle()
        try await eventually { pusher.connection.connectionState == .disconnected }
        expect(delegate.queues.all.count > 5 && delegate.queues.all.allSatisfy { $0 })
    }

    @Test func `settings of the connection apply to the next attempt`() async throws {
        let memory = try await InMemory()
        let pusher = memory.pusher()
        expect(pusher.connection.activityTimeoutInterval == 60 && pusher.connection.pongResponseTimeoutInterval == 30)
        pusher.connection.activityTimeoutInterval = 10
        pusher.connection.pongResponseTimeoutInterval = -1
        pusher.connect()
        await settle()
        // What the server requests, because the options have none.
        expectEqual(pusher.connection.activityTimeoutInterval, 120)
        memory.network.condition = .silent
        await self.advance(memory, 10.1)
        expect(pusher.connection.connectionState != .connected)
        pusher.disconnect()
        await settle()
    }
}
