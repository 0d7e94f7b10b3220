import RealtimeCore
import RealtimeTesting
import SignalRHubs
import SignalRServer
import SignalRTesting
import SignalRWire
import TestSupport
import Testing

/// Calls, handlers and the ends of connections over each transport, in memory.
@Suite(.timeLimit(.minutes(10))) struct HubTransportEndTests {
    // MARK: Calls that are in progress

    enum End: CaseIterable { case lost, stopped, closed }

    @Test(arguments: HubTransport.allCases, End.allCases)
    func `calls and streams in both directions end with their connection`(transport: HubTransport, end: End) async throws {
        let test = try await HubServerFixture()
        let (running, never) = (EventRecorder<Int>(), AsyncStream<Int>.makeStream())
        test.hub.on("Never") { caller in
            running.record(1)
            for await _ in never.stream {}
        }
        test.hub.stream("Ticks") { caller in
            running.record(1)
            return AsyncStream<Int> { $0.yield(1) }
        }
        test.hub.on("Sum") { (caller, items: HubStream<Int>) in
            running.record(1)
            return try await items.reduce(0, +)
        }
        let client = test.client(transport)
        try await client.start()
        let call = Task { try await client.invoke("Never") }
        let ticks = try client.stream("Ticks", of: Int.self)
        let inputEnds = EventRecorder<Int>()
        // Only the call refers to the sequence, which ends when it is released if the connection ends while an item is sent.
        let sum = Task {
            let numbers = AsyncStream<Int> { input in
                input.yield(1)
                input.onTermination = { _ in inputEnds.record(1) }
            }
            return try await client.invoke("Sum", HubUpload(numbers), as: Int.self)
        }
        // The methods run one after another, and streams beside them.
        try await eventually { running.all.count == 3 }
        switch end {
        case .lost: try await test.cut(client)
        case .stopped: client.stop()
        case .closed: test.signalR.server.close(test.hub.connectionIDs[0], error: "bye")
        }
        let expected: HubError.Code =
            switch end {
            case .lost: .connectionLost
            case .stopped: .stopped
            case .closed: .closedByServer
            }
        let errors = [
            await #expect(throws: HubError.self) { try await call.value },
            await #expect(throws: HubError.self) { try await sum.value },
            await #expect(throws: HubError.self) { for try await _ in ticks {} },
        ]
        expectEqual(errors.map { $0?.code }, [expected, expected, expected])
        try await eventually { inputEnds.all.count == 1 }
        expect(client.driver.read { $0.callCount == 0 && $0.waiterCount == 0 })
        never.continuation.finish()
        // Until then, a client over long polling could send another poll.
        try await eventually {
            test.signalR.clock.advance(by: .seconds(15))
            return test.hub.connectionIDs.isEmpty
        }
    }

    // MARK: Handlers

    @Test(arguments: HubTransport.allCases)
    func `a handler may call the server, and a slow one delays neither answers nor the server timeout`(
        transport: HubTransport
    ) async throws {
        let test = try await HubServerFixture()
        let (sums, gate) = (EventRecorder<Int>(), Signal())
        let client = test.client(transport)
        client.on("Start") { [weak client] (number: Int) in
            guard let client else { return }
            sums.record(try await client.invoke("Add", number, number, as: Int.self))
            await gate.wait()
        }
        try await client.start()
        try await test.hub.clients.all.send("Start", 1)
        try await test.hub.clients.all.send("Start", 2)
        try await eventually { sums.all == [2] }
        for _ in 0..<12 {
            test.signalR.clock.advance(by: .seconds(5))
            try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        }
        expect(client.isConnected && sums.all == [2])
        gate.send()
        try await eventually { sums.all == [2, 4] }
    }

    // MARK: Close messages and stopping

    @Test(arguments: HubTransport.allCases, [true, false])
    func `a close message has its error, and is followed by a reconnect only if it allows one`(
        transport: HubTransport, allowsReconnect: Bool
    ) async throws {
        let test = try await HubServerFixture()
        let client = test.client(transport) { $0.retry = .delays([.seconds(1)]) }
        let updates = client.updates()
        let first = try await client.start()
        test.signalR.server.close(try #require(first), error: "maintenance", allowReconnect: allowsReconnect)
        var errors: [HubError?] = []
        for await update in updates {
            switch update {
            case .reconnecting(let error): errors.append(error)
            case .closed(let error): errors.append(error)
            default: continue
            }
            break
        }
        expect(errors.map { $0?.code } == [.closedByServer] && errors.first??.serverMessage == "maintenance")
        let isStopped = if case .stopped = client.state { true } else { false }
        expectEqual(isStopped, !allowsReconnect)
        test.signalR.clock.advance(by: .seconds(1))
        if allowsReconnect {
            try await eventually { client.isConnected }
            expect(client.connectionID != first)
        } else {
            test.signalR.clock.advance(by: .seconds(600))
            expect(!client.isConnected && test.hub.connectionIDs.isEmpty)
        }
    }

    @Test(arguments: HubTransport.allCases)
    func `stopping between two attempts is immediate, reports the end once, and start works right after it`(
        transport: HubTransport
    ) async throws {
        let test = try await HubServerFixture()
        let client = test.client(transport) { $0.retry = .delays([.seconds(60)]) }
        let updates = client.updates()
        let first = try await client.start()
        try await test.cut(client)
        client.stop()
        expectEqual(client.state, .stopped(nil))
        _ = await updates.first { $0 == .closed(nil) }
        let second = try await client.start()
        test.signalR.clock.advance(by: .seconds(61))
        expect(client.isConnected && client.connectionID == second && second != first)
        client.stop()
        var later: [HubUpdate] = []
        for await update in updates {
            later.append(update)
            if update == .closed(nil) { break }
        }
        expect(later.contains(.state(.connected(connectionID: second))))
        expect(!later.contains { if case .reconnected = $0 { true } else { false } })
    }

    // MARK: What is received and sent

    @Test(arguments: HubTransport.allCases)
    func `by default, messages of more than 1 MiB are received`(transport: HubTransport) async throws {
        let test = try await HubServerFixture()
        test.hub.on("Large") { (caller, count: Int) in String(repeating: "x", count: count) }
        let client = test.client(transport)
        try await client.start()
        try await expectEqual(client.invoke("Large", 3 << 20, as: String.self).utf8.count, 3 << 20)
    }

    @Test(arguments: HubTransport.allCases)
    func `URLs with the fields of requests, and tokens with any characters, arrive unchanged`(transport: HubTransport) async throws {
        let test = try await HubServerFixture.recording()
        let token = "a+b&c=d/e?f%20g~h.i"
        let client = test.client(transport) {
            $0.endpoint.target = "/chat?_=1&x=_=2&id%3D=3"
            $0.accessToken = { token }
        }
        try await client.start()
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        expect(test.requests.all.allSatisfy { $0.token == token })
        let targets = test.requests.all.map(\.request.target)
        expectEqual(targets.first, "/chat/negotiate?_=1&x=_=2&id%3D=3&negotiateVersion=1")
        expect(targets.count >= 2 && targets.dropFirst().allSatisfy { $0.hasPrefix("/chat?_=1&x=_=2&id%3D=3&id=") })
        expect(!targets.contains { $0.contains("a+b") || $0.contains("a%2B") })
    }

    @Test(arguments: HubTransport.allCases)
    func `no arguments and results are logged`(transport: HubTransport) async throws {
        let test = try await HubServerFixture()
        test.hub.on("Echo") { (caller, text: String) in text }
        let log = EventRecorder<String>()
        let client = test.client(transport) { $0.log = LogSink(minimumLevel: .debug) { _, _, message in log.record(message) } }
        client.on("Note") { (_: Int) in }
        try await client.start()
        try await expectEqual(client.invoke("Echo", "top-secret", as: String.self), "top-secret")
        for target in ["Note", "Missing"] { try await test.hub.clients.all.send(target, "top-secret") }
        try await eventually { client.counters.decodingFailures == 1 }
        client.stop()
        let text = log.all.joined(separator: "\n")
        expect(text.contains("Note") && !text.contains("top-secret"))
    }

    @Test(arguments: HubTransportTests.overHTTP)
    func `the trace of connections over HTTP shows their messages and their end`(transport: HubTransport) async throws {
        let test = try await HubServerFixture()
        let (sent, received, ends) = (EventRecorder<String>(), EventRecorder<String>(), EventRecorder<String>())
        let client = test.client(transport) {
            $0.messagesOverHTTPTrace = { id, action in
                switch action {
                case .sent(let kind, let payload): sent.record(HubMessageTrace.text(kind, payload))
                case .received(let kind, let payload): received.record(HubMessageTrace.text(kind, payload))
                case .opened: ends.record("\(id) opened")
                case .sentClose(let code): ends.record("\(id) sent close \(code)")
                case .receivedClose(let code): ends.record("\(id) received close \(code)")
                case .abandoned: ends.record("\(id) abandoned")
                case .ended: ends.record("\(id) ended")
                }
            }
        }
        try await client.start()
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        client.stop()
        let (ping, call) = (#"{"type":6}"#, #"{"type":1,"invocationId":"1","target":"Add","arguments":[1,2]}"#)
        try await eventually { sent.all.last == #"{"type":7}"# && ends.all.contains("#1 sent close 1000") }
        expectEqual(sent.all.filter { $0 != ping }, [#"{"protocol":"json","version":1}"#, call, #"{"type":7}"#])
        expectEqual(sent.all.contains(ping), (transport == .serverSentEvents))
        expectEqual(received.all.prefix(2), ["{}", #"{"type":3,"invocationId":"1","result":3}"#])
        expectEqual(ends.all.first, "#1 opened")
        try await client.start()
        try await test.cut(client)
        expectEqual(ends.all.last, "#2 ended")
        // Not connections over WebSockets, whose transport can be traced.
        let other = test.client(.webSockets) { $0.messagesOverHTTPTrace = { _, _ in Issue.record("a WebSocket is traced") } }
        try await other.start()
        other.stop()
    }
}
