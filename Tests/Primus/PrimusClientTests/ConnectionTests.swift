import PrimusClient
import PrimusServer
import PrimusTesting
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// The typed API against a server in memory.
@Suite(.timeLimit(.minutes(10))) struct ConnectionTests {
    struct Reading: Codable, Hashable, Sendable {
        var id: Int
        var text: String
    }

    @Test func `values arrive as the server's parser writes them`() async throws {
        let fixture = try await PrimusFixture()
        let primus = try await fixture.open()
        expect(primus.state == .open && primus.isConnected && primus.dialect?.version == "8.0.9")
        try await primus.write(Reading(id: 7, text: "a \"quoted\" line\nand a \\"))
        try await primus.write(0 as PrimusValue)
        try await primus.write("top")
        try await primus.write(["key": .array([1, nil, true])] as PrimusValue)
        expectEqual(
            fixture.server.texts, [#"{"id":7,"text":"a \"quoted\" line\nand a \\"}"#, "0", #""top""#, #"{"key":[1,null,true]}"#])
    }

    @Test func `messages arrive in order, and one that can't be decoded affects no other`() async throws {
        let fixture = try await PrimusFixture()
        let primus = try await fixture.open()
        let (readings, messages, errors) = (primus.messages(as: Reading.self), primus.messages, primus.errors)
        fixture.server.send(#"{"id":1,"text":"one"}"#, "{broken", #"{"id":2,"text":"two"}"#)
        let iterator = readings.makeAsyncIterator()
        await expectEqual(iterator.next(), Reading(id: 1, text: "one"))
        await expectEqual(iterator.next(), Reading(id: 2, text: "two"))
        await expectEqual(errors.pending().map(\.code), [.decodingFailed])
        let pending = await messages.pending()
        try expectEqual(pending.map { try $0.raw == .text(#"{"id":2,"text":"two"}"#) ? $0.decode(as: Reading.self).id : 0 }, [0, 0, 2])
        expectEqual(primus.counters.decodingFailures, 1)
    }

    @Test func `an unknown message of Primus is in the log, and its neighbors arrive`() async throws {
        let lines = EventRecorder<String>()
        let fixture = try await PrimusFixture {
            $0.log = LogSink(minimumLevel: .debug) { level, _, message in lines.record("\(level) \(message)") }
        }
        let primus = try await fixture.open()
        let messages = primus.messages
        fixture.server.send("1", #""primus::new::2""#, "3")
        await expectEqual(messages.pending().map { try? $0.value }, [1, 3])
        try await eventually { lines.all.contains { $0.hasPrefix("debug ") && $0.contains("primus::new::2") } }
    }

    @Test func `messages that are moved to another client aren't refused by its limit`() async throws {
        let fixture = try await PrimusFixture { $0.queue = .dropOldest(3) }
        let (first, second) = (PrimusConnection(fixture.configuration), PrimusConnection(fixture.configuration))
        for number in 0..<3 { expect(first.enqueue(number) && second.enqueue(number + 10)) }
        first.moveMessages(to: second)
        expect(first.queuedCount == 0 && second.queuedCount == 6)
        second.open()
        try await second.opened()
        // The task of the detection may still send them.
        try await eventually { fixture.server.texts == ["10", "11", "12", "0", "1", "2"] }
    }

    @Test func `callbacks receive messages in order`() async throws {
        let fixture = try await PrimusFixture()
        let primus = try await fixture.open()
        let recorder = EventRecorder<PrimusValue?>()
        let observation = primus.onMessage(on: .tasks) { recorder.record(try? $0.value) }
        fixture.server.send("1", "2", "3")
        try await eventually { recorder.all == [1, 2, 3] }
        withExtendedLifetime(observation) {}
    }

    @Test func `writes before the connection arrive in order, once`() async throws {
        let fixture = try await PrimusFixture()
        let primus = PrimusConnection(fixture.configuration)
        for number in 0..<11 { expect(primus.enqueue(number)) }
        expectEqual(primus.queuedCount, 11)
        primus.open()
        try await primus.opened()
        fixture.network.waitUntilIdle()
        expectEqual(fixture.server.texts, (0..<11).map { "\($0)" })
        expectEqual(primus.queuedCount, 0)
    }

    @Test func `a value that can't be encoded fails alone`() async throws {
        let fixture = try await PrimusFixture()
        let primus = try await fixture.open()
        let errors = primus.errors
        let error = await #expect(throws: PrimusError.self) { try await primus.write(Double.nan) }
        expectEqual(error?.code, .encodingFailed)
        expectEqual(
            error?.message,
            "The value can't be encoded, and wasn't sent: the number is infinite or not a number, which can't be represented.")
        let nested = await #expect(throws: PrimusError.self) { try await primus.write(["celsius": [1.5, .nan]]) }
        expectEqual(nested?.message.contains("the number at .celsius[1] is infinite or not a number"), true, "\(nested as Any)")
        expect(!primus.enqueue(Double.infinity))
        await expectEqual(errors.pending().map(\.code), [.encodingFailed])
        try await primus.write(1)
        expectEqual(fixture.server.texts, ["1"])
    }

    // MARK: Without a connection

    private static func warnings(_ lines: EventRecorder<String>) -> LogSink {
        LogSink(minimumLevel: LogSink.standard.minimumLevel) { level, _, text in lines.record("\(level): \(text)") }
    }

    @Test func `an outage and the end of the client are in the log, once each`() async throws {
        let lines = EventRecorder<String>()
        let fixture = try await PrimusFixture {
            $0.log = Self.warnings(lines)
            $0.retry = .delays(Array(repeating: .seconds(1), count: 3))
        }
        let primus = try await fixture.open()
        let updates = primus.updates()
        fixture.server.script.upgrade = { _ in .reject(HTTPResponse(status: 503)) }
        fixture.server.close()
        // A loss that a client recovers from isn't worth a warning.
        expect(lines.all.isEmpty)
        for _ in 1...2 {
            fixture.clock.advance(by: .seconds(1))
            _ = await updates.first { if case .attemptFailed = $0 { true } else { false } }
        }
        let error = await #expect(throws: PrimusError.self) { try await primus.opened(within: .zero) }
        expect(error?.code == .timedOut && (error?.cause as? PrimusError)?.status == 503)
        expectEqual(error?.message.contains("the client is still retrying. Failed to connect"), true, "\(error as Any)")
        expectEqual(error?.message.hasSuffix("503. Check the server, and proxies before it."), true, "\(error as Any)")
        fixture.clock.advance(by: .seconds(1))
        _ = await updates.first { if case .ended = $0 { true } else { false } }
        try await eventually { lines.all.count == 2 }
        expect(lines.all[0].hasPrefix("warning: Failed to connect") && lines.all[0].hasSuffix(" The client keeps trying."), "\(lines.all)")
        expect(lines.all[1].hasPrefix("error: The client is closed. Failed to connect") && lines.all[1].contains("503"), "\(lines.all)")
        // Also for a call that comes later.
        let later = await #expect(throws: PrimusError.self) { try await primus.write(1) }
        expect(later?.code == .notOpen && later?.message.contains("503") == true, "\(later as Any)")
    }

    @Test func `an end by the server is in the log`() async throws {
        let lines = EventRecorder<String>()
        let fixture = try await PrimusFixture { $0.log = Self.warnings(lines) }
        let primus = try await fixture.open()
        fixture.server.send(#""primus::server::close""#)
        fixture.server.close()
        try await eventually { primus.state == .closed(nil) && !lines.all.isEmpty }
        expectEqual(
            lines.all, ["warning: The client is closed. The server ended the connection, and doesn't want the client to reconnect."])
    }

    @Test(arguments: [nil, PrimusTransformerKind.websockets])
    func `a client that guesses what the server speaks says so, once`(transformer: PrimusTransformerKind?) async throws {
        let lines = EventRecorder<String>()
        var script = ScriptedPrimus.Script()
        script.response = { _ in HTTPResponse(status: 404) }
        let fixture = try await PrimusFixture(script) {
            $0.log = Self.warnings(lines)
            $0.transformer = transformer
        }
        let primus = PrimusConnection(fixture.configuration)
        let errors = primus.errors
        primus.open()
        try await primus.opened(within: .seconds(10))
        fixture.network.cut()
        primus.reconnectNow()
        try await primus.opened(within: .seconds(10))
        let problem = try #require(await errors.first { _ in true })
        guard transformer == nil else { return expect(problem.code == .connectionLost && lines.all.isEmpty, "\(lines.all)") }
        expectEqual(problem.code, .detectionFailed)
        for text in [
            "/primus/spec: the server answered with the status 404",
            "The client assumes websockets and json. Check that the URL is that of",
        ] {
            expect(problem.message.contains(text), "\(problem)")
        }
        expectEqual(lines.all, ["warning: \(problem.message)"])
    }

    @Test func `a loop ends with the release of its client, which is in the log`() async throws {
        let lines = EventRecorder<String>()
        let fixture = try await PrimusFixture { $0.log = Self.warnings(lines) }
        var primus: PrimusConnection? = try await fixture.open()
        let messages = try #require(primus?.messages)
        primus = nil
        for await _ in messages {}
        expectEqual(messages.endReason, .ended)
        expect(lines.all.count == 1 && lines.all[0].hasPrefix("warning: The client was released"), "\(lines.all)")
    }

    @Test func `the last message precedes the end`() async throws {
        let fixture = try await PrimusFixture()
        let primus = try await fixture.open()
        try await primus.end("bye")
        expectEqual(fixture.server.texts, [#""bye""#])
        expect(primus.state == .closed(nil) && fixture.server.connectionCount == 0)
        let error = await #expect(throws: PrimusError.self) { try await primus.write(1) }
        expectEqual(error?.code, .notOpen)
    }

    @Test func `a write that waits ends with its task, its connection or its client`() async throws {
        let fixture = try await PrimusFixture()
        let primus = PrimusConnection(fixture.configuration)
        fixture.network.condition = .down
        primus.open()
        let cancelled = Task { try await primus.write(1) }
        try await eventually { primus.queuedCount == 1 }
        cancelled.cancel()
        await expectEqual(#expect(throws: PrimusError.self) { try await cancelled.value }?.code, .cancelled)
        expectEqual(primus.queuedCount, 0)
        let ended = Task { try await primus.write(2) }
        try await eventually { primus.queuedCount == 1 }
        primus.end()
        await expectEqual(#expect(throws: PrimusError.self) { try await ended.value }?.code, .ended)
    }

    @Test func `the user's headers go to the specification and the connection, and cookies come back`() async throws {
        var script = ScriptedPrimus.Script()
        script.response = { _ in
            var response = HTTPResponse(status: 200, text: ScriptedPrimus.spec())
            response.head.headers.add("Set-Cookie", "node=server-seven; Path=/")
            return response
        }
        let fixture = try await PrimusFixture(script) {
            $0.headers["X-Key"] = "secret-header-value"
            $0.credentials = { PrimusCredentials(headers: ["Authorization": "Bearer secret-token"], query: [("ticket", "secret-ticket")]) }
        }
        let primus = try await fixture.open()
        for head in fixture.server.requests.all + fixture.server.upgrades.all {
            expect(head.headers["X-Key"] == "secret-header-value" && head.headers["Authorization"] == "Bearer secret-token")
            expect(head.target.hasSuffix("?ticket=secret-ticket"))
        }
        expectEqual(fixture.server.upgrades.all.first?.headers["Cookie"], "node=server-seven")
        let frames = primus.frames()
        fixture.server.send(#""secret-token and secret-ticket, secret-header-value, server-seven""#)
        await expectEqual(frames.pending().map(\.text), [#""… and …, …, …""#])
        let text = "\(primus) \(primus.configuration)"
        expect(!text.contains("secret-"))
    }

    @Test func `a user name and a password become a header field`() throws {
        let configuration = try PrimusConfiguration(url: "http://usr:p%40ss@[::1]:9090/primus?a=1")
        expectEqual(configuration.headers["Authorization"], "Basic dXNyOnBAc3M=")
        expect(configuration.endpoint.host == "::1" && configuration.endpoint.target == "/primus?a=1")
        #expect(throws: TransportError.self) { try PrimusConfiguration(url: "http://%zz@host/") }
        try expectNil(PrimusConfiguration(url: "https://host").headers["Authorization"])
    }

    @Test func `a refusal is an error with status, headers and text`() async throws {
        var script = ScriptedPrimus.Script()
        script.upgrade = { _ in
            var response = HTTPResponse(status: 401, text: #"{"error":"Authentication required"}"#)
            response.head.headers["WWW-Authenticate"] = #"Basic realm="x""#
            return .reject(response)
        }
        let fixture = try await PrimusFixture(script)
        let primus = PrimusConnection(fixture.configuration)
        let error = await #expect(throws: PrimusError.self) { try await primus.run() }
        expect(error?.code == .unauthorized && error?.status == 401 && error?.serverMessage == "Authentication required")
        expectEqual(error?.headers?["WWW-Authenticate"], #"Basic realm="x""#)
        expectEqual(fixture.server.upgrades.all.count, 1)
    }

    @Test func `each failed attempt is an error with its own reason`() async throws {
        let fixture = try await PrimusFixture()
        let primus = try await fixture.open()
        let (errors, updates) = (primus.errors, primus.updates())
        let status = Lock(503)
        var script = fixture.server.script
        script.upgrade = { _ in
            let next = status.withLock { status in
                defer { status -= 1 }
                return status
            }
            return next > 500 ? .reject(HTTPResponse(status: next, text: #"{"error":"reason \#(next)"}"#)) : .accept(subprotocol: nil)
        }
        fixture.server.script = script
        fixture.network.cut()
        try await eventually {
            fixture.clock.advance(by: .seconds(1))
            return primus.isConnected
        }
        let all = await errors.pending()
        expect(all.map(\.status) == [nil, 503, 502, 501] && all.allSatisfy { $0.code == .connectionLost })
        expectEqual(all.dropFirst().map(\.serverMessage), ["reason 503", "reason 502", "reason 501"])
        let failed = await updates.pending().compactMap { if case .attemptFailed(let error) = $0 { error.status } else { nil } }
        expectEqual(failed, [503, 502, 501])
    }

    @Test func `cookies of the information of sockjs go to its sessions`() async throws {
        var script = ScriptedPrimus.Script()
        script.response = { _ in HTTPResponse(status: 200, headers: ["Set-Cookie": "node=seven; Path=/"], text: #"{"websocket":true}"#) }
        script.upgrade = { head in
            head.path.hasSuffix("/primus/websocket") ? .reject(HTTPResponse(status: 404, text: "")) : .accept(subprotocol: nil)
        }
        script.greeting = [.text("o")]
        let fixture = try await PrimusFixture(script) { ($0.detection, $0.transformer) = (.off, .sockjs) }
        _ = try await fixture.open()
        expectEqual(fixture.server.requests.all.map(\.path), ["/primus/info"])
        expectEqual(fixture.server.upgrades.all.map { $0.headers["Cookie"] }, [nil, "node=seven"])
    }

    @Test(arguments: [(200, "can't be read"), (404, "404"), (503, "503")])
    func `an answer of another URL than the one that was asked names both`(status: Int, text: String) async throws {
        var script = ScriptedPrimus.Script()
        script.response = { request in
            request.path == "/login"
                ? HTTPResponse(status: status, text: "<html>") : HTTPResponse(status: 302, headers: ["Location": "/login"])
        }
        script.upgrade = { _ in .reject(HTTPResponse(status: 404)) }
        for transformer in [PrimusTransformerKind?.none, .sockjs] {
            let fixture = try await PrimusFixture(script) {
                $0.detection = transformer == nil ? .required : .off
                $0.transformer = transformer
                $0.retry = .none
            }
            let primus = PrimusConnection(fixture.configuration)
            let error = await #expect(throws: PrimusError.self) { try await primus.run() }
            let asked = transformer == nil ? "/primus/spec" : "/primus/info"
            let message = String(describing: error)
            expect(message.contains(asked) && message.contains("/login") && message.contains(text), "\(message)")
        }
    }

    @Test func `a queue is cleared of the messages that no caller waits for`() async throws {
        let fixture = try await PrimusFixture()
        let primus = PrimusConnection(fixture.configuration)
        fixture.network.condition = .down
        primus.open()
        for number in 0..<3 { expect(primus.enqueue(number)) }
        let call = Task { try await primus.write("waits") }
        try await eventually { primus.queuedCount == 4 }
        expect(primus.enqueue(3))
        expect(primus.clearQueue() == 4 && primus.queuedCount == 1)
        // So do the messages of calls that wait for an answer.
        var queue = PrimusWriteQueue()
        for caller in [nil, WaiterID(rawValue: 7)] { _ = queue.add(.init(content: .value(1), pluginCaller: caller), .standard) }
        expect(queue.removeWithoutWaiters() == 1 && queue.popFirst()?.pluginCaller == WaiterID(rawValue: 7))
        expectEqual(primus.clearQueue(), 0)
        // A check has no effect on an attempt that hasn't failed yet.
        try await eventually { primus.reconnectDelay != nil }
        fixture.network.condition = .up
        primus.checkConnection()
        try await call.value
        try await primus.write("last")
        try await eventually { fixture.server.texts == [#""waits""#, #""last""#] }
    }

    @Test(arguments: [false, true])
    func `bytes are text over sockjs, with and without framing`(isFramed: Bool) async throws {
        var script = ScriptedPrimus.Script()
        script.response = { _ in HTTPResponse(status: 200, text: #"{"websocket":true}"#) }
        if isFramed {
            script.upgrade = { head in
                head.path.hasSuffix("/primus/websocket") ? .reject(HTTPResponse(status: 404, text: "")) : .accept(subprotocol: nil)
            }
            script.greeting = [.text("o")]
        }
        let fixture = try await PrimusFixture(script) { ($0.detection, $0.transformer) = (.off, .sockjs) }
        let primus = try await fixture.open()
        try await primus.write(PrimusValue.bytes([1, 255]))
        let text = #"{"type":"Buffer","data":[1,255]}"#
        try await eventually { !fixture.server.texts.isEmpty }
        expectEqual(fixture.server.texts, [isFramed ? #"["{\"type\":\"Buffer\",\"data\":[1,255]}"]"# : text])
    }

    @Test func `a cookie of a session over polling is kept once, and replaced`() async throws {
        let count = Lock(0)
        var script = ScriptedPrimus.Script()
        script.response = { head in
            if head.path.hasSuffix("/spec") { return HTTPResponse(status: 200, text: ScriptedPrimus.spec("engine.io")) }
            guard head.target.contains("sid=") else {
                let packet = #"0{"sid":"s","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#
                return HTTPResponse(status: 200, headers: ["Set-Cookie": "io=0"], text: packet)
            }
            let number = count.withLock {
                $0 += 1
                return $0
            }
            return number < 3 ? HTTPResponse(status: 200, headers: ["Set-Cookie": "io=\(number)"], text: "4\(number)") : nil
        }
        let fixture = try await PrimusFixture(script) { $0.allowedTransports = .polling }
        let primus = try await fixture.open()
        try await eventually { fixture.server.requests.all.count == 5 }
        expectEqual(fixture.server.requests.all.map { $0.headers["Cookie"] }, [nil, nil, "io=0", "io=1", "io=2"])
        primus.end()
    }

    @Test func `a WebSocket to which a session moves has the cookies of polling`() async throws {
        var script = ScriptedPrimus.Script()
        script.response = { head in
            if head.path.hasSuffix("/spec") { return HTTPResponse(status: 200, text: ScriptedPrimus.spec("engine.io")) }
            guard !head.target.contains("sid=") else { return nil }
            let packet = #"0{"sid":"s","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":20000}"#
            return HTTPResponse(status: 200, headers: ["Set-Cookie": "node=7"], text: packet)
        }
        let fixture = try await PrimusFixture(script) { $0.startsWithPolling = true }
        let primus = try await fixture.open()
        try await eventually { !fixture.server.upgrades.all.isEmpty }
        expectEqual(fixture.server.upgrades.all.map { $0.headers["Cookie"] }, ["node=7"])
        expect(fixture.server.upgrades.all.allSatisfy { $0.target.contains("transport=websocket") && $0.target.contains("sid=s") })
        primus.end()
    }

    @Test func `the log of the level trace has the requests of SockJS, without the ID of the session`() async throws {
        let lines = EventRecorder<String>()
        var configuration = PrimusServerConfiguration()
        configuration.transformer = .sockjs
        let primus = try await InMemoryPrimus(configuration: configuration)
        let client = primus.client {
            $0.allowedTransports = .polling
            $0.log = LogSink(minimumLevel: .trace) { _, _, text in lines.record(text) }
        }
        client.open()
        try await client.opened()
        client.enqueue(["text": "hello"])
        try await eventually { lines.all.contains { $0.contains("/xhr_send: received") } }
        client.end()
        try await eventually { primus.server.sparks.isEmpty }
        let paths = lines.all.filter { $0.contains("/xhr") }
        expect(paths.count > 2 && paths.allSatisfy { $0.contains(/\/primus\/\d{3}\/<redacted>\/xhr/) }, "\(lines.all)")
    }

    @Test(arguments: ["websockets", "engine.io"])
    func `the log of the level trace has what travels, without secrets`(transformer: String) async throws {
        let lines = EventRecorder<String>()
        var script = ScriptedPrimus.Script()
        script.response = { head in
            if head.path.hasSuffix("/spec") { return HTTPResponse(status: 200, text: ScriptedPrimus.spec(transformer)) }
            if head.target.contains("sid=") { return head.method == "POST" ? HTTPResponse(status: 200, text: "ok") : nil }
            let packet = #"0{"sid":"secret-session","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#
            return HTTPResponse(status: 200, headers: ["Set-Cookie": "key=secret-cookie"], text: packet)
        }
        let fixture = try await PrimusFixture(script) {
            $0.allowedTransports = transformer == "engine.io" ? .polling : .all
            $0.headers = ["Authorization": "Bearer secret-token", "X-Key": "secret-key"]
            $0.credentials = { PrimusCredentials(headers: ["X-Token": "secret-field"], query: [("token", "secret-query")]) }
            $0.log = LogSink(minimumLevel: .trace) { _, _, text in lines.record(text) }
        }
        let primus = try await fixture.open()
        primus.enqueue(["text": "hello"])
        try await eventually { lines.all.contains { $0.contains(#"{"text":"hello"}"#) && $0.contains("sent") } }
        primus.end()
        try await eventually { lines.all.contains { $0.hasSuffix("ended") } }
        expect(lines.all.contains { $0.hasSuffix(" open") } && !lines.all.contains { $0.contains("secret") }, "\(lines.all)")
    }

    @Test func `a hook changes the URL of each attempt`() async throws {
        let number = Lock(0)
        let fixture = try await PrimusFixture {
            $0.requestURL = { endpoint in
                var endpoint = endpoint
                endpoint.addQuery("attempt", "\(number.withLock { $0 += 1; return $0 })")
                return endpoint
            }
        }
        let primus = try await fixture.open()
        fixture.network.cut()
        primus.reconnectNow()
        try await primus.opened()
        expectEqual(fixture.server.upgrades.all.map(\.target), ["/primus?attempt=1", "/primus?attempt=2"])
        expectEqual(primus.counters.reconnects, 1)
    }

    @Test func `the ID of the spark is asked for and kept`() async throws {
        var script = ScriptedPrimus.Script()
        script.answer = { $0 == .text(#""primus::id::""#) ? [.text(#""primus::id::spark-1""#)] : [] }
        let fixture = try await PrimusFixture(script)
        let primus = try await fixture.open()
        try await expectEqual(primus.id(), "spark-1")
        try await expect(primus.id() == "spark-1" && primus.sparkID == "spark-1")
        expect(fixture.server.texts.count == 1 && primus.latency != nil)
        fixture.network.cut()
        expectNil(primus.sparkID)
        await expectEqual(#expect(throws: PrimusError.self) { try await primus.id() }?.code, .notOpen)
    }

    @Test func `the server's end is the end, with one terminal update`() async throws {
        let fixture = try await PrimusFixture()
        let primus = try await fixture.open()
        let updates = primus.updates()
        let run = Task { try await primus.run() }
        try await eventually { primus.driver.read { $0.waiterCount } == 1 }
        fixture.server.send(#""primus::server::close""#)
        fixture.server.close()
        try await run.value
        let ended = await updates.pending()
        expectEqual(
            ended.last, .ended(PrimusError(.closedByServer, "The server ended the connection, and doesn't want the client to reconnect.")))
        expectEqual(ended.filter { if case .ended = $0 { true } else { false } }.count, 1)
        expectEqual(primus.state, .closed(nil))
    }

    @Test func `a client can be ended anywhere, and opened again`() async throws {
        let fixture = try await PrimusFixture()
        let primus = PrimusConnection(fixture.configuration)
        for _ in 0..<3 {
            primus.open()
            primus.end()
            primus.end()
            expectEqual(primus.state, .closed(nil))
        }
        primus.open()
        try await primus.opened()
        primus.end()
        primus.open()
        try await primus.opened()
        expectEqual(fixture.server.connectionCount, 1)
    }

    @Test func `ending inside of a callback is safe`() async throws {
        let fixture = try await PrimusFixture()
        let primus = PrimusConnection(fixture.configuration)
        let observation = primus.onUpdate(on: .tasks) { [weak primus] in if $0 == .state(.open) { primus?.end() } }
        primus.open()
        try await eventually { fixture.server.accepted == 1 && primus.state == .closed(nil) }
        withExtendedLifetime(observation) {}
    }

    @Test func `a slow consumer pauses reading, and loses nothing`() async throws {
        let fixture = try await PrimusFixture { $0.messageBuffer.count = 10 }
        let primus = try await fixture.open()
        let messages = primus.messages
        for number in 0..<1000 { fixture.server.send("\(number)") }
        let iterator = messages.makeAsyncIterator()
        for number in 0..<1000 { try await expectEqual(iterator.next()?.decode(as: Int.self), number) }
    }

    @Test func `a released client ends its connection and its sequences`() async throws {
        let fixture = try await PrimusFixture { $0.transforms = [.incoming { _ in true }, .outgoing { _ in true }] }
        weak var driver: SessionDriver<PrimusSession>?
        do {
            var primus: PrimusConnection? = try await fixture.open()
            driver = primus?.driver
            let (states, messages) = (primus!.states, primus!.messages)
            primus = nil
            for await _ in states {}
            for await _ in messages {}
        }
        try await eventually { driver == nil && fixture.server.connectionCount == 0 }
    }

    @Test func `settings change from the next attempt`() async throws {
        let fixture = try await PrimusFixture()
        let primus = try await fixture.open()
        try primus.update { $0.headers["X-Version"] = "2" }
        #expect(throws: PrimusError.self) { try primus.update { $0.plugins = [] } }
        #expect(throws: PrimusError.self) { try primus.update { $0.transformer = .browserchannel } }
        fixture.network.cut()
        primus.checkConnection()
        try await primus.opened()
        expectEqual(fixture.server.upgrades.all.map { $0.headers["X-Version"] }, [nil, "2"])
    }
}
