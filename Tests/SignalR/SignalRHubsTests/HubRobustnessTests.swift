import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

extension HubFixture {
    /// The delays before the attempts to reconnect.
    fileprivate var delays: [Duration] {
        self.events.compactMap { if case .connectingIn(let delay) = $0 { delay } else { nil } }
    }

    /// The errors that the client recovered from.
    fileprivate var errors: [HubError] {
        self.events.compactMap { if case .error(let error) = $0 { error } else { nil } }
    }
}

/// Servers and networks that fail again and again, and settings at their limits.
@Suite(.timeLimit(.minutes(10))) struct HubRobustnessTests {
    // MARK: Delays

    @Test func `a backoff grows although each connection is established, and begins again after one that lasted`() async throws {
        let hub = try await HubFixture.connected {
            $0.retry = .backoff(Backoff(base: .seconds(1), cap: .seconds(1000)))
            $0.serverTimeout = .seconds(100_000)
        }
        for count in 1...6 {
            hub.clock.advance(by: .seconds(29))
            hub.network.cut()
            expect(hub.isReconnecting && hub.delays.count == count)
            let delay = try #require(hub.delays.last)
            expect(delay > .zero && delay <= .seconds(1 << (count - 1)))
            hub.clock.advance(by: delay)
            expect(hub.isConnected && hub.server.upgrades.all.count == count + 1)
        }
        // The upper bound of the first delay is one second. The random numbers are the same in each run.
        let last = try #require(hub.delays.last)
        expect(last > .seconds(1))
        for count in 7...9 {
            hub.clock.advance(by: .seconds(30))
            hub.network.cut()
            expectEqual(hub.delays.count, count)
            let delay = try #require(hub.delays.last)
            expect(delay > .zero && delay <= .seconds(1))
            hub.clock.advance(by: delay)
            expect(hub.isConnected)
        }
    }

    @Test func `the standard policy makes four attempts after 0, 2, 10 and 30 seconds`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .standard }
        hub.server.script.upgrade = { _, _ in .reject(HTTPResponse(status: 503)) }
        hub.network.cut()
        let delays: [Duration] = [.zero, .seconds(2), .seconds(10), .seconds(30)]
        for (index, delay) in delays.enumerated() {
            expect(hub.isReconnecting && hub.delays == Array(delays.prefix(index + 1)))
            // A delay of zero is the shortest delay.
            hub.clock.advance(by: max(.zero, delay - .nanoseconds(1)))
            expectEqual(hub.server.upgrades.all.count, index + 1)
            hub.clock.advance(by: .nanoseconds(1))
            expectEqual(hub.server.upgrades.all.count, index + 2)
        }
        let error = try #require(hub.stopError)
        expect(error.code == .connectionLost && error.status == 503)
        expect(hub.events.last == .closed(error) && hub.delays == delays)
        hub.clock.advance(by: .seconds(1000))
        expect(hub.server.upgrades.all.count == 5 && hub.client.driver.nextDeadline == nil)
    }

    // MARK: Keep-alive

    @Test func `without a keep-alive interval and a server timeout, a silent connection stays and nothing is sent`() async throws {
        let hub = try await HubFixture.connected {
            $0.keepAliveInterval = .zero
            $0.serverTimeout = .zero
        }
        expectEqual(hub.server.pings.all, [["type": 6]])
        expectNil(hub.client.driver.nextDeadline)
        hub.clock.advance(by: .seconds(3600))
        expect(hub.isConnected && hub.server.upgrades.all.count == 1)
        expectEqual(hub.server.pings.all.count, 1)
    }

    @Test func `without a server timeout, the client still sends pings`() async throws {
        let hub = try await HubFixture.connected { $0.serverTimeout = .zero }
        hub.clock.advance(by: .seconds(3600))
        expect(hub.isConnected && hub.server.upgrades.all.count == 1)
        expectEqual(hub.server.pings.all.count, 241)
    }

    @Test func `without a keep-alive interval, a silent server is still lost`() async throws {
        let hub = try await HubFixture.connected { $0.keepAliveInterval = .zero }
        hub.clock.advance(by: .seconds(29))
        expect(hub.isConnected && hub.server.pings.all.count == 1)
        hub.clock.advance(by: .seconds(1))
        expectEqual(hub.stopError?.code, .serverTimeout)
    }

    // MARK: Redirects

    static let badRedirects = [
        (#"{"url":"ftp://elsewhere/"}"#, "invalid URL"), (#"{"url":"http://"}"#, "invalid URL"), (#"{"url":"/a b"}"#, "invalid URL"),
        (#"{"url":"/moved/","accessToken":"broken\r\nX-Key: token"}"#, "invalid access token"),
    ]

    @Test(arguments: Self.badRedirects)
    func `an invalid redirect fails the attempt, and the client continues to reconnect`(body: String, text: String) async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, number in number == 2 ? ScriptedHub.json(body) : ScriptedHub.response(number) }
        let hub = try await HubFixture.connected(negotiates: true, script) { $0.retry = .backoff(Backoff()) }
        hub.network.cut()
        expectEqual(hub.delays.count, 1)
        hub.clock.advance(by: try #require(hub.delays.last))
        try await eventually { hub.delays.count == 2 || hub.isStopped || hub.isConnected }
        expect(hub.isReconnecting && hub.delays.count == 2)
        expectEqual(hub.errors.map(\.code), [.negotiationFailed])
        expectEqual(hub.errors.first?.message.contains(text), true)
        expect(hub.server.negotiations.all.count == 2 && hub.server.upgrades.all.count == 1)
        hub.clock.advance(by: try #require(hub.delays.last))
        try await eventually { hub.isConnected }
        expectEqual(hub.client.connectionID, "id-3")
        // Updates follow the state, on the thread that has negotiated.
        try await eventually { hub.events.last == .reconnected(connectionID: "id-3") }
        expect(!hub.log.all.contains { $0.contains("X-Key") })
    }

    // MARK: Names

    @Test(arguments: [1, 4])
    func `a long name of a method without handler is logged in one line and shortened`(type: Int) async throws {
        let hub = try await HubFixture.connected()
        let name = #"first\nsecond\r\n"# + String(repeating: "x", count: 1000)
        hub.server.send(#"{"type":\#(type),"invocationId":"s1","target":"\#(name)","arguments":[]}"#)
        try await expect(hub.server.received(1).first?["error"]?.string != nil)
        let lines = hub.log.all.filter { $0.contains("first") }
        expectEqual(lines.count, 1)
        let line = try #require(lines.first)
        expect(line.contains("first second xxx") && line.contains("xxx…"))
        expect(!line.contains(where: \.isNewline) && line.utf8.count < 400)
    }

    private static let long = String(repeating: "x", count: 64 << 10)

    private static let longNegotiations: [HTTPResponse] = [
        ScriptedHub.json(#"{"error":"\#(long)"}"#),
        ScriptedHub.json(#"{"connectionId":"1","availableTransports":[{"transport":"\#(long)","transferFormats":["Text"]}]}"#),
        ScriptedHub.json(#"{"url":"http://\#(long)/"}"#), ScriptedHub.json(#"{"\#(long)":"\#(long)"}"#), ScriptedHub.json(long),
        ScriptedHub.json(#"{"url":"ftp://\#(long)"}"#), HTTPResponse(HTTPResponseHead(status: 500, reason: long), body: Array(long.utf8)),
        HTTPResponse(HTTPResponseHead(status: 404, reason: long), body: Array("<title>\(long)</title>".utf8)),
        HTTPResponse(HTTPResponseHead(status: 401, reason: long), body: Array(long.utf8)),
    ]

    /// Returns whether all texts that errors and logs show are short. The server's own text may be longer.
    private static func areShort(_ error: HubError?, _ hub: HubFixture) -> Bool {
        let cause = error?.transportError?.message ?? ""
        let texts = [error?.message ?? "", "\(error as Any)", cause] + hub.log.all + hub.errors.map(\.message)
        return texts.allSatisfy { $0.utf8.count <= 1_000 } && (error?.serverMessage?.utf8.count ?? 0) < 5_000
    }

    @Test(arguments: Self.longNegotiations.indices)
    func `an error of a negotiation has a limited length, whatever the server sends`(index: Int) async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, number in number == 1 ? Self.longNegotiations[index] : ScriptedHub.response(number) }
        let hub = try await HubFixture(negotiates: true, script)
        let error = await hubError { try await hub.client.start() }
        expect(error != nil && Self.areShort(error, hub))
    }

    @Test(arguments: [#"{"error":"\#(long)"}"#, long, #"{"\#(long)":1"#])
    func `an error of the handshake has a limited length, whatever the server sends`(response: String) async throws {
        var script = ScriptedHub.Script()
        script.handshake = { _ in response + ScriptedHub.separator }
        let hub = try await HubFixture(script)
        let error = await hubError { try await hub.client.start() }
        expect(error != nil && Self.areShort(error, hub))
    }

    @Test(arguments: [
        #"{"type":7,"error":"\#(long)"}"#, #"{"type":"\#(long)"}"#, #"{"type":1,"target":"\#(long)","arguments":"\#(long)"}"#,
        #"{"type":1,"target":"\#(long)","arguments":[]}"#, #"{"type":2,"invocationId":"\#(long)","item":1}"#,
        #"{"type":3,"invocationId":"\#(long)","error":"\#(long)"}"#, #"{"type":4,"invocationId":"1","target":"\#(long)","arguments":[]}"#,
        #"{"type":5,"invocationId":"\#(long)"}"#, #"{"\#(long)":1"#, long,
    ])
    func `errors and logs of messages have a limited length, whatever the server sends`(message: String) async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send(message)
        hub.server.send(#"{"type":3,"invocationId":"1","error":"\#(Self.long)"}"#)
        let error = try #require(await hubError { try await call.value })
        expect(Self.areShort(error, hub) && Self.areShort(hub.stopError, hub))
    }

    // MARK: Standstill

    @Test func `after a standstill, a transport has its time once more before the next one is tried`() throws {
        let endpoint = Endpoint(scheme: "http", host: "memory", port: 80, target: "/chat")
        var options = HubConfiguration(endpoint, transports: InMemoryNetwork(clock: ManualClock()).transports())
        (options.connectTimeout, options.handshakeTimeout) = (.seconds(600), .seconds(10))
        var session = HubSession(options, seed: 1)
        var effects = Effects<HubSession>()
        session.start(now: Self.now, &effects)
        let negotiations = effects.commands.compactMap { if case .work(let id, .negotiate(_)) = $0 { id } else { nil } }
        let offers = HubTransport.allCases.map { #"{"transport":"\#($0)","transferFormats":["Text"]}"# }.joined(separator: ",")
        let body = #"{"negotiateVersion":1,"connectionId":"a","connectionToken":"b","availableTransports":[\#(offers)]}"#
        let response = HTTPResponse(status: 200, text: body)
        try session.workFinished(#require(negotiations.first), .negotiated(.success(response)), now: Self.now, &effects)
        effects.removeAll()

        /// Returns whether the client gives up the transport after a time, counted from the beginning.
        func falls(after seconds: Int64) -> Bool {
            session.timeout(now: Instant(nanoseconds: seconds * 1_000_000_000), &effects)
            return effects.commands.contains { if case .abandon = $0 { true } else { false } }
        }
        expect(!falls(after: 60))
        expect(!falls(after: 69))
        expect(falls(after: 70))
    }

    // MARK: Output that waits

    private static let now = Instant(nanoseconds: 0)

    /// Starts a session, and completes its handshake.
    private static func connect(_ session: inout HubSession, _ effects: inout Effects<HubSession>) throws -> ConnectionID {
        effects.removeAll()
        session.start(now: Self.now, &effects)
        let opened = effects.commands.compactMap { if case .open(let id, _) = $0 { id } else { nil } }
        let id = try #require(opened.last)
        session.opened(id, head: HTTPResponseHead(status: 101), now: Self.now, &effects)
        session.received(id, MessageBatch([TransportMessage.text("{}\u{1E}")]), now: Self.now, &effects)
        return id
    }

    @Test func `output that waits on a connection that closes doesn't delay what is sent on the next one`() throws {
        let endpoint = Endpoint(scheme: "http", host: "memory", port: 80, target: "/chat")
        var options = HubConfiguration(endpoint, transports: InMemoryNetwork(clock: ManualClock()).transports())
        options.allowedTransports = .webSockets
        options.skipsNegotiation = true
        var session = HubSession(options, seed: 1)
        var effects = Effects<HubSession>()
        let first = try Self.connect(&session, &effects)
        session.writing(first, paused: true, now: Self.now, &effects)
        let whilePaused = try session.connectionForSending(now: Self.now)
        expectNil(whilePaused)
        session.writing(first, paused: false, now: Self.now, &effects)
        let afterPause = try session.connectionForSending(now: Self.now)
        expectEqual(afterPause, first)

        session.stop(now: Self.now, &effects)
        session.writing(first, paused: true, now: Self.now, &effects)
        let second = try Self.connect(&session, &effects)
        expect(second != first)
        let connection = try session.connectionForSending(now: Self.now)
        expectEqual(connection, second)
        // Nor does a report that comes even later.
        session.writing(first, paused: true, now: Self.now, &effects)
        let last = try session.connectionForSending(now: Self.now)
        expectEqual(last, second)
    }
}
