import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import SignalRHubs
import SignalRWire
import Testing

/// Losing a connection, reconnecting, stopping, and keeping a connection alive.
@Suite(.timeLimit(.minutes(10))) struct HubLifecycleTests {
    // MARK: Reconnecting

    @Test func `a delay of zero is reported as such`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.zero]) }
        hub.network.cut()
        try await eventually { hub.events.contains(.connectingIn(.zero)) }
    }

    @Test func `a loss is reported once, and the client waits before it tries`() async throws {
        let hub = try await HubFixture.connected(negotiates: true) { $0.retry = .delays([.seconds(2), .seconds(10), .seconds(30)]) }
        hub.server.script.negotiate = { _, number in number < 4 ? HTTPResponse(status: 503) : ScriptedHub.response(number) }
        hub.network.cut()
        expect(hub.isReconnecting && hub.client.connectionID == nil)
        for (delay, attempts) in [(2, 1), (10, 2), (30, 3)] {
            try await eventually { hub.events.last == .connectingIn(.seconds(delay)) }
            expectEqual(hub.server.negotiations.all.count, attempts)
            hub.clock.advance(by: .seconds(delay) - .milliseconds(1))
            expectEqual(hub.server.negotiations.all.count, attempts)
            hub.clock.advance(by: .milliseconds(1))
        }
        // Updates follow the state, on the thread that has negotiated.
        try await eventually { hub.events.last == .reconnected(connectionID: "id-4") && hub.states.count == 4 }
        expect(hub.isConnected)
        expectEqual(hub.events.filter(\.isReconnecting).count, 1)
        expectEqual(hub.events.first?.isReconnecting, true)
        expect(!hub.events.contains { $0.isClosed })
        expectEqual(hub.client.counters.reconnects, 1)
    }

    @Test func `a client whose attempts are exhausted is closed with the last error`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1), .seconds(1)]) }
        hub.network.condition = .down
        hub.network.cut()
        hub.clock.advance(by: .seconds(1))
        expect(hub.isReconnecting)
        hub.clock.advance(by: .seconds(1))
        guard case .closed(let error)? = hub.events.last else { return expect(false, "it should be closed") }
        expect(error?.code == .connectionLost && error?.transportError?.code == .unreachable)
        expectEqual(hub.client.state, .stopped(error))
        expect(hub.events.filter(\.isReconnecting).count == 1 && hub.events.filter(\.isClosed).count == 1)
        hub.clock.advance(by: .seconds(1000))
        expect(hub.server.upgrades.all.count == 1 && hub.client.driver.nextDeadline == nil)
    }

    @Test func `without a retry policy, a loss closes the client with the error`() async throws {
        let hub = try await HubFixture.connected()
        hub.network.cut()
        expectEqual(hub.events.count, 1)
        expect(hub.stopError?.code == .connectionLost && hub.stopError?.transportError?.code == .reset)
        expectEqual(hub.events, [.closed(hub.stopError)])
        hub.clock.advance(by: .seconds(1000))
        expectEqual(hub.server.upgrades.all.count, 1)
    }

    @Test func `a second loss begins with the first delay`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(3)]) }
        for count in 2...5 {
            hub.network.cut()
            expectEqual(hub.events.last, .connectingIn(.seconds(3)))
            hub.clock.advance(by: .seconds(3))
            expect(hub.isConnected && hub.server.upgrades.all.count == count)
        }
        expectEqual(hub.events.filter(\.isReconnecting).count, 4)
    }

    @Test func `the application decides with the number of retries, the time and the reason`() async throws {
        let contexts = EventRecorder<HubRetryContext>()
        let hub = try await HubFixture.connected {
            $0.retry = .custom { context in
                contexts.record(context)
                return context.retryCount < 2 ? .seconds(5 * (context.retryCount + 1)) : nil
            }
        }
        hub.network.condition = .down
        hub.network.cut()
        expect(hub.isReconnecting)
        try await eventually { hub.events.last == .connectingIn(.seconds(5)) }
        hub.clock.advance(by: .seconds(5))
        try await eventually { hub.events.last == .connectingIn(.seconds(10)) }
        hub.clock.advance(by: .seconds(10))
        // The policy's task changes the state, and then delivers the event.
        try await eventually { hub.events.last?.isClosed == true }
        expect(hub.isStopped)
        expectEqual(contexts.all.map(\.retryCount), [0, 1, 2])
        expectEqual(contexts.all.map(\.elapsed), [.zero, .seconds(5), .seconds(15)])
        expectEqual(contexts.all.map(\.reason.transportError?.code), [.reset, .unreachable, .unreachable])
        expectEqual(hub.events.last, .closed(contexts.all.last?.reason))
        expectEqual(hub.events.filter(\.isReconnecting).count, 1)
    }

    @Test(arguments: [true, false])
    func `a policy that throws or returns nil stops the client`(throwsError: Bool) async throws {
        let hub = try await HubFixture.connected {
            $0.retry = .custom { _ in
                if throwsError { throw CancellationError() }
                return nil
            }
        }
        hub.network.cut()
        // The policy's task changes the state, and then delivers the event.
        try await eventually { hub.events.first?.isClosed == true }
        expect(hub.isStopped && hub.events.count == 1)
        guard case .closed(let error?)? = hub.events.first else { return expect(false, "it should have an error") }
        expect(error.code == .connectionLost && hub.stopError == error)
        if throwsError {
            expect(error.cause is CancellationError && error.message.contains("policy for reconnects threw"))
            // A state, which is stored, has no object of the application.
            expectNil(hub.stopError?.cause)
        } else {
            expectEqual(hub.stopError?.transportError?.code, .reset)
        }
    }

    @Test func `a policy may take any time, and its decision is followed`() async throws {
        let decision = Waiter<Duration?>()
        let asked = EventRecorder<Bool>()
        let hub = try await HubFixture.connected {
            $0.retry = .custom { _ in
                asked.record(true)
                return await decision.value()
            }
        }
        hub.network.cut()
        try await eventually { asked.all.count == 1 }
        hub.clock.advance(by: .seconds(100_000))
        expect(hub.isReconnecting && hub.server.upgrades.all.count == 1 && hub.client.driver.nextDeadline == nil)
        await expectEqual(hubError { try await hub.client.invoke("save", as: Int.self) }?.code, .notConnected)
        decision.fulfill(.seconds(5))?.resume()
        try await eventually { hub.events.last == .connectingIn(.seconds(5)) }
        hub.clock.advance(by: .seconds(5))
        expect(hub.isConnected && asked.all.count == 1)
    }

    @Test func `checkConnection ends the wait for a decision, whose answer is ignored`() async throws {
        let decision = Waiter<Duration?>()
        let (asked, answered) = (EventRecorder<Bool>(), EventRecorder<Bool>())
        let hub = try await HubFixture.connected {
            $0.retry = .custom { _ in
                asked.record(true)
                let delay = await decision.value()
                answered.record(Task.isCancelled)
                return delay
            }
        }
        hub.network.cut()
        try await eventually { asked.all.count == 1 }
        hub.client.checkConnection()
        expect(hub.isConnected && hub.server.upgrades.all.count == 2)
        // The loss is reported before its end, although there was no decision.
        expectEqual(hub.events.filter { $0.isReconnecting || $0.isReconnected }.map(\.isReconnecting), [true, false])
        decision.fulfill(nil)?.resume()
        try await eventually { answered.all == [true] }
        expect(hub.isConnected)
    }

    @Test func `a backoff goes on without end, with delays below its limit`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .backoff(Backoff(base: .seconds(1), cap: .seconds(4))) }
        hub.network.condition = .down
        hub.network.cut()
        for _ in 1...50 { hub.clock.advanceToNextDeadline() }
        expect(hub.isReconnecting)
        let delays = hub.events.compactMap { if case .connectingIn(let delay) = $0 { delay } else { nil } }
        expectEqual(delays.count, 51)
        expect(delays.allSatisfy { $0 > .zero && $0 <= .seconds(4) } && Set(delays).count > 40)
        hub.network.condition = .up
        hub.clock.advanceToNextDeadline()
        expect(hub.isConnected)
    }

    @Test func `checkConnection skips the delay`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1000)]) }
        hub.network.cut()
        hub.client.checkConnection()
        expect(hub.isConnected)
        expect(hub.events.filter(\.isReconnecting).count == 1 && hub.events.last?.isReconnected == true)
    }

    @Test func `checkConnection checks an established connection`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        hub.client.checkConnection()
        expectEqual(hub.server.pings.all.last, "websocket")
        hub.clock.advance(by: .seconds(10))
        expect(hub.isConnected)
        hub.network.condition = .silent
        hub.client.checkConnection()
        hub.clock.advance(by: .seconds(10))
        expect(hub.isReconnecting)
    }

    @Test func `a change of the network path reconnects, and doesn't start a stopped client`() async throws {
        let monitor = NetworkPathMonitor()
        let hub = try await HubFixture.connected {
            $0.retry = .delays([.seconds(1000)])
            $0.transports.networkPath = monitor
        }
        hub.network.cut()
        monitor.pathChanged()
        expect(hub.isConnected)
        hub.client.stop()
        monitor.pathChanged()
        expect(hub.isStopped && hub.server.upgrades.all.count == 2)
    }

    @Test(arguments: [true, false])
    func `attempts that a check starts don't use up the retry policy`(asksApplication: Bool) async throws {
        let counts = EventRecorder<Int>()
        let hub = try await HubFixture.connected {
            $0.retry = .delays([.seconds(1), .seconds(2), .seconds(10), .seconds(30)])
            guard asksApplication else { return }
            $0.retry = .custom { context in
                counts.record(context.retryCount)
                return .seconds(1)
            }
        }
        hub.network.condition = .down
        hub.network.cut()
        for count in 1...20 {
            let events = 2 * count
            try await eventually { hub.events.count == events }
            expect(hub.isReconnecting && hub.events.last == .connectingIn(.seconds(1)))
            hub.client.checkConnection()
        }
        expect(counts.all.allSatisfy { $0 == 0 })
        hub.network.condition = .up
        hub.client.checkConnection()
        expect(hub.isConnected)
    }

    /// The policies with which a client reconnects immediately.
    enum EagerPolicy: CaseIterable {
        case delays, backoff, custom

        var policy: HubRetryPolicy {
            switch self {
            case .delays: .delays([.zero, .zero])
            case .backoff: .backoff(Backoff(base: .zero, cap: .zero))
            case .custom: .custom { _ in .zero }
            }
        }
    }

    @Test(arguments: EagerPolicy.allCases)
    func `a server that accepts and drops isn't contacted without a pause`(eager: EagerPolicy) async throws {
        let hub = try await HubFixture.connected { $0.retry = eager.policy }
        for _ in 1...3 {
            hub.network.cut()
            try await eventually { if case .connectingIn(.zero) = hub.events.last { true } else { hub.isConnected } }
            hub.clock.advance(by: .milliseconds(1))
            try await eventually { hub.isConnected }
        }
        for pause in [1, 2, 4, 8, 16, 32, 32] {
            hub.network.cut()
            try await eventually { hub.events.last == .connectingIn(.seconds(pause)) }
            hub.clock.advance(by: .seconds(pause))
            expect(hub.isConnected)
        }
        // A connection that lasts ends the pauses.
        hub.clock.advance(by: .seconds(30))
        hub.network.cut()
        try await eventually { hub.events.last == .connectingIn(.zero) }
    }

    // MARK: Stopping

    @Test func `a deliberate stop sends a close message, and is reported without an error`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .standard }
        hub.client.stop()
        expectEqual(hub.client.state, .stopped(nil))
        expectEqual(hub.events, [.closed(nil)])
        expectEqual(hub.server.received.all, [["type": 7]])
        expectEqual(hub.server.ends.all, [.peer(.normal, "")])
        hub.clock.advance(by: .seconds(1000))
        expect(hub.isStopped && hub.server.upgrades.all.count == 1 && hub.events.count == 1)
        hub.client.stop()
        expectEqual(hub.events.count, 1)
    }

    /// A state in which a client can be stopped.
    enum Moment: CaseIterable {
        case negotiating, askingForToken, upgrading, handshaking, connected, waiting, deciding, reconnecting
    }

    @Test(arguments: Moment.allCases)
    func `stop is final and prompt in every state, and start works right after it`(moment: Moment) async throws {
        let never = Waiter<Void>()
        let isBlocked = EventRecorder<Bool>()
        isBlocked.record(true)
        var script = ScriptedHub.Script()
        let isBlocking: @Sendable () -> Bool = { isBlocked.all.count == 1 }
        switch moment {
        case .negotiating: script.negotiate = { _, number in isBlocking() ? nil : ScriptedHub.response(number) }
        case .upgrading: script.upgrade = { _, _ in isBlocking() ? .later { _ in } : .accept(subprotocol: nil) }
        case .handshaking: script.handshake = { _ in isBlocking() ? nil : "{}\u{1E}" }
        case .reconnecting: script.handshake = { number in number == 2 && isBlocking() ? nil : "{}\u{1E}" }
        case .askingForToken, .connected, .waiting, .deciding: break
        }
        let asked = EventRecorder<Bool>()
        let hub = try await HubFixture(negotiates: true, script) {
            $0.retry = .delays([.seconds(1)])
            if moment == .deciding {
                $0.retry = .custom { _ in
                    asked.record(true)
                    await never.value()
                    return .zero
                }
            }
            if moment == .askingForToken {
                $0.accessToken = {
                    asked.record(true)
                    if isBlocking() { await never.value() }
                    return nil
                }
            }
        }
        let start = Task { await hubError { try await hub.client.start() } }
        var startFails = false
        switch moment {
        case .negotiating:
            try await eventually { hub.server.silent.all.count == 1 }
            startFails = true
        case .askingForToken:
            try await eventually { asked.all.count == 1 }
            startFails = true
        case .upgrading:
            try await eventually { hub.server.upgrades.all.count == 1 }
            startFails = true
        case .handshaking:
            try await eventually { hub.server.handshakes.all.count == 1 }
            startFails = true
        case .connected: try await eventually { hub.isConnected }
        case .waiting, .deciding, .reconnecting:
            try await eventually { hub.isConnected }
            hub.network.cut()
            if moment == .deciding { try await eventually { asked.all.count == 1 } }
            if moment == .reconnecting {
                hub.clock.advance(by: .seconds(1))
                try await eventually { hub.server.handshakes.all.count == 2 }
            }
        }
        hub.client.stop()
        expectEqual(hub.client.state, .stopped(nil))
        await expectEqual(start.value?.code, (startFails ? .stopped : nil))
        // The task that started the client may still deliver earlier updates, and delivers this one after them.
        if !startFails { try await eventually { hub.events.contains(where: \.isClosed) } }
        expectEqual(hub.events.filter(\.isClosed).count, (startFails ? 0 : 1))
        isBlocked.record(false)
        try await hub.client.start()
        expect(hub.isConnected)
        // What the first attempt waited for has no effect any more.
        for responder in hub.server.silent.all { responder.respond(ScriptedHub.response(99)) }
        never.fulfill(())?.resume()
        hub.clock.advance(by: .seconds(5))
        expect(hub.isConnected && !hub.events.contains { $0.isReconnected })
        hub.client.stop()
        expectEqual(hub.client.driver.read { $0.waiterCount }, 0)
        hub.clock.advance(by: .seconds(10))
        expectNil(hub.client.driver.nextDeadline)
    }

    // MARK: Close messages

    @Test func `a close message with an error ends the client, also with a retry policy`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .standard }
        hub.server.send(#"{"type":7,"error":"too many clients"}"#)
        let error = try #require(hub.stopError)
        expect(error.code == .closedByServer && error.serverMessage == "too many clients")
        expectEqual(hub.events, [.closed(error)])
        hub.clock.advance(by: .seconds(1000))
        expect(hub.server.upgrades.all.count == 1 && hub.server.connectionCount == 0)
    }

    @Test func `a close message without an error ends the client without an error`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .standard }
        hub.server.send(#"{"type":7,"allowReconnect":false}"#)
        expect(hub.events == [.closed(nil)] && hub.client.state == .stopped(nil))
    }

    @Test func `a close message that allows to reconnect is a loss`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        hub.server.send(#"{"type":7,"error":"restarting","allowReconnect":true}"#)
        guard case .reconnecting(let error)? = hub.events.first else { return expect(false, "it should reconnect") }
        expect(error.code == .closedByServer && error.serverMessage == "restarting")
        hub.clock.advance(by: .seconds(1))
        expect(hub.isConnected && hub.server.connectionCount == 1)
    }

    @Test func `nothing after a close message has an effect`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        let calls = EventRecorder<Int>()
        hub.client.on("count") { (a: Int) in calls.record(a) }
        hub.server.send(#"{"type":7,"allowReconnect":true}"#, #"{"type":1,"target":"count","arguments":[1]}"#)
        hub.clock.advance(by: .seconds(1))
        hub.server.send(#"{"type":1,"target":"count","arguments":[2]}"#)
        try await eventually { !calls.all.isEmpty }
        expectEqual(calls.all, [2])
    }

    @Test func `a WebSocket that is closed without a close message is a loss`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        hub.server.close(.normal)
        expect(hub.isReconnecting)
        hub.clock.advance(by: .seconds(1))
        expect(hub.isConnected)
    }

    // MARK: Keep-alive

    @Test func `the client sends a ping after the handshake, and after an interval in which it sent nothing`() async throws {
        let hub = try await HubFixture.connected { $0.serverTimeout = .seconds(1000) }
        expectEqual(hub.server.pings.all, [["type": 6]])
        hub.clock.advance(by: .seconds(14))
        expectEqual(hub.server.pings.all.count, 1)
        hub.clock.advance(by: .seconds(1))
        expectEqual(hub.server.pings.all, [["type": 6], ["type": 6]])
        hub.clock.advance(by: .seconds(10))
        try await hub.client.send("say", hub.payload("x"))
        hub.clock.advance(by: .seconds(14))
        expectEqual(hub.server.pings.all.count, 2)
        hub.clock.advance(by: .seconds(1))
        expectEqual(hub.server.pings.all.count, 3)
    }

    @Test func `a server that sends nothing is lost after the server timeout`() async throws {
        let hub = try await HubFixture.connected()
        hub.clock.advance(by: .seconds(29))
        expect(hub.isConnected)
        hub.clock.advance(by: .seconds(1))
        expectEqual(hub.stopError?.code, .serverTimeout)
        expectEqual(hub.events, [.closed(hub.stopError)])
    }

    @Test func `the server timeout is followed by the retry policy`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        hub.clock.advance(by: .seconds(30))
        expect(hub.isReconnecting)
        hub.clock.advance(by: .seconds(1))
        expect(hub.isConnected)
    }

    @Test(arguments: [
        #"{"type":6}"# + "\u{1E}", #"{"type":99}"# + "\u{1E}", "nonsense\u{1E}", #"{"type":3,"invocationId":"1"}"# + "\u{1E}",
        #"{"type""#,
    ])
    func `any message of the server keeps the connection alive`(message: String) async throws {
        let hub = try await HubFixture.connected()
        for _ in 1...5 {
            hub.clock.advance(by: .seconds(29))
            hub.server.send(raw: message)
        }
        expect(hub.isConnected)
        hub.clock.advance(by: .seconds(30))
        expect(hub.isStopped)
    }

    // MARK: States

    @Test func `the sequence of states begins with the current one`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        let states = hub.client.states
        hub.network.cut()
        hub.clock.advance(by: .seconds(1))
        hub.client.stop()
        let all = await states.pending()
        expectEqual(all.count, 4)
        expect(all.first == .connected(connectionID: nil) && all.last == .stopped(nil))
    }

    // MARK: Releasing

    enum StateAtRelease: CaseIterable { case connected, reconnecting, stopped }

    @Test(arguments: StateAtRelease.allCases)
    func `a client is released while it is connected, reconnecting or stopped`(state: StateAtRelease) async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = ScriptedHub()
        let address = try await network.listener().start(server)
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/chat")
        weak var client: HubClient?
        weak var driver: SessionDriver<HubSession>?
        var states: EventSequence<HubState>?
        do {
            var options = HubConfiguration(endpoint, transports: network.transports())
            options.log = .none
            options.retry = .standard
            let strong = HubClient(options)
            (client, driver, states) = (strong, strong.driver, strong.states)
            strong.on("count") { (_: Int) in }
            try await strong.start()
            try await strong.send("say", 1)
            switch state {
            case .connected: break
            case .reconnecting:
                server.script.negotiate = { _, _ in HTTPResponse(status: 503) }
                network.cut()
                try await eventually { if case .reconnecting = strong.state { true } else { false } }
            case .stopped: strong.stop()
            }
        }
        expectNil(client)
        expectEqual(server.connectionCount, 0)
        if state != .reconnecting { expectEqual(server.received.all.last, ["type": 7]) }
        expectEqual(states?.endReason, .ended)
        states = nil
        // The task of the handlers ends, and releases the driver.
        try await eventually { driver == nil }
    }
}
