import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import SignalRHubs
import SignalRWire
import Testing

private struct Unencodable: Encodable {
    struct Refused: Error {}
    func encode(to encoder: any Encoder) throws { throw Refused() }
}

/// Calls of the application: invocations, messages without an answer, and streams in both directions.
@Suite(.timeLimit(.minutes(10))) struct HubCallTests {
    /// Answers invocations of `echo` with their first argument.
    private static var echoing: ScriptedHub.Script {
        var script = ScriptedHub.Script()
        script.answer = { message in
            guard let id = message["invocationId"]?.string, message["target"] == "echo" else { return [] }
            return [#"{"type":3,"invocationId":"\#(id)","result":\#(message["arguments"]?[0] ?? .null)}"#]
        }
        return script
    }

    private static func error(of task: Task<some Sendable, any Error>) async -> HubError? { await hubError { try await task.value } }

    // MARK: Invocations

    @Test func `the message of a failed call has a limited length, and the text of the server a larger one`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send(#"{"type":3,"invocationId":"1","error":"\#(String(repeating: "x", count: 3000))"}"#)
        let error = try #require(await hubError { try await call.value })
        expect(error.message.utf8.count <= 1000 && error.serverMessage?.utf8.count == 3000)
    }

    @Test func `an invocation returns its result`() async throws {
        let hub = try await HubFixture.connected(Self.echoing)
        try await expectEqual(hub.client.invoke("echo", "héllo\u{1E}", 2, as: String.self), "héllo\u{1E}")
        expectEqual(hub.server.received.all, [["type": 1, "invocationId": "1", "target": "echo", "arguments": ["héllo\u{1E}", 2]]])
        try await expectEqual(hub.client.invoke("echo", [1.5], as: [Double].self), [1.5])
        expectEqual(hub.server.received.all.last?["invocationId"], "2")
    }

    @Test func `an invocation without a result returns nothing`() async throws {
        let hub = try await HubFixture.connected()
        for completion in [#"{"type":3,"invocationId":"1"}"#, #"{"type":3,"invocationId":"2","result":null}"#] {
            let call = try await hub.begin { try await $0.invoke("save", as: Int?.self) }
            hub.server.send(completion)
            try await expectNil(call.value)
        }
    }

    @Test func `an error of the server is an error of the call`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send(#"{"type":3,"invocationId":"1","error":"no such method"}"#)
        let error = await Self.error(of: call)
        expect(error?.code == .invocationFailed && error?.serverMessage == "no such method")
        expect(hub.isConnected)
    }

    @Test func `results arrive at their callers in any order`() async throws {
        let hub = try await HubFixture.connected()
        let first = try await hub.begin { try await $0.invoke("a", as: Int.self) }
        let second = try await hub.begin { try await $0.invoke("b", as: Int.self) }
        hub.server.send(#"{"type":3,"invocationId":"2","result":22}"#, #"{"type":3,"invocationId":"1","result":11}"#)
        try await expectEqual(first.value, 11)
        try await expectEqual(second.value, 22)
    }

    @Test func `a result of another type is an error of the call`() async throws {
        let hub = try await HubFixture.connected(Self.echoing)
        let error = await hubError { try await hub.client.invoke("echo", "text", as: Int.self) }
        expect(error?.code == .decodingFailed && error?.message.contains("echo") == true && error?.message.contains("Int") == true)
        try await expectEqual(hub.client.invoke("echo", 5, as: Int.self), 5)
    }

    @Test func `an argument that cannot be encoded is an error, and nothing is sent`() async throws {
        let hub = try await HubFixture.connected(Self.echoing)
        let error = await hubError { try await hub.client.invoke("echo", 1, Unencodable(), as: Int.self) }
        expect(error?.code == .encodingFailed && error?.message.contains("Argument 2") == true)
        expect(hub.server.received.all.isEmpty)
    }

    @Test(arguments: [true, false])
    func `pending calls fail when the connection is lost or stopped`(isStopped: Bool) async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        let other = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        let stream = try hub.client.stream("ticks", of: Int.self)
        if isStopped { hub.client.stop() } else { hub.network.cut() }
        let expected = isStopped ? HubError.Code.stopped : .connectionLost
        await expectEqual(Self.error(of: call)?.code, expected)
        await expectEqual(Self.error(of: other)?.code, expected)
        await expectEqual(hubError { for try await _ in stream {} }?.code, expected)
        expectEqual(hub.client.driver.read { $0.waiterCount }, 0)
    }

    @Test func `the answer to a call of an earlier connection is ignored`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.network.cut()
        await expectEqual(Self.error(of: call)?.code, .connectionLost)
        hub.clock.advance(by: .seconds(1))
        let next = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        // IDs aren't used twice.
        hub.server.send(#"{"type":3,"invocationId":"1","result":1}"#, #"{"type":3,"invocationId":"2","result":2}"#)
        try await expectEqual(next.value, 2)
    }

    @Test func `a cancelled invocation throws, and tells the server`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        call.cancel()
        await expectEqual(Self.error(of: call)?.code, .cancelled)
        expectEqual(hub.server.received.all.last, ["type": 5, "invocationId": "1"])
        hub.server.send(#"{"type":3,"invocationId":"1","error":"cancelled"}"#)
        expect(hub.client.counters.messagesIgnored == 1 && hub.isConnected)
    }

    @Test func `an invocation in a cancelled task isn't sent`() async throws {
        let hub = try await HubFixture.connected()
        let call = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await hub.client.invoke("save", as: Int.self)
        }
        await expectEqual(Self.error(of: call)?.code, .cancelled)
        expect(hub.server.received.all.isEmpty)
    }

    @Test func `an invocation with a time limit throws, and tells the server`() async throws {
        let hub = try await HubFixture.connected { $0.callTimeLimit = .seconds(20) }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self, within: .seconds(5)) }
        let other = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.clock.advance(by: .seconds(5))
        await expectEqual(Self.error(of: call)?.code, .timedOut)
        expectEqual(hub.server.received.all.last, ["type": 5, "invocationId": "1"])
        hub.clock.advance(by: .seconds(15))
        await expectEqual(Self.error(of: other)?.code, .timedOut)
    }

    @Test func `a call whose clock does not advance says so`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self, within: .seconds(5)) }
        hub.clock.time.elapsedInRealTime(.seconds(60))
        let error = await Self.error(of: call)
        expectEqual(error?.code, .timedOut)
        expectEqual(
            error?.message,
            "Waited 60.0 seconds of real time while the test clock did not advance: the call isn't completed. "
                + "Advance the clock if something is to happen later.")
        expect(hub.isConnected)
    }

    @Test func `a call that can't be encoded costs the calls after it nothing`() async throws {
        let hub = try await HubFixture.connected(Self.echoing)
        await expectEqual(hubError { try await hub.client.invoke("echo", Unencodable(), as: Int.self) }?.code, .encodingFailed)
        try await expectEqual(hub.client.invoke("echo", 7, as: Int.self), 7)
        expectEqual(hub.server.received.all.count, 1)
    }

    @Test func `calls without a connection throw`() async throws {
        let hub = try await HubFixture(negotiates: true)
        let payload = try hub.payload(1)
        func check() async {
            await expectEqual(hubError { try await hub.client.invoke("a", payload) }?.code, .notConnected)
            await expectEqual(hubError { try await hub.client.send("a", payload) }?.code, .notConnected)
            await expectEqual(hubError { try hub.client.stream("a", of: Int.self) }?.code, .notConnected)
        }
        await check()
        let start = Task { try await hub.client.start() }
        _ = try await start.value
        hub.client.stop()
        await check()
        expectEqual(hub.server.received.all, [["type": 7]])
    }

    @Test func `unknown and duplicate completions, and items of invocations, are ignored and counted`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send(
            #"{"type":3,"invocationId":"7","result":1}"#, #"{"type":3,"invocationId":"01","result":1}"#,
            #"{"type":3,"invocationId":"+1","result":1}"#, #"{"type":3,"invocationId":"x","result":1}"#,
            #"{"type":2,"invocationId":"1","item":1}"#, #"{"type":2,"invocationId":"9","item":1}"#,
            #"{"type":3,"invocationId":"1","result":5}"#, #"{"type":3,"invocationId":"1","result":6}"#)
        try await expectEqual(call.value, 5)
        expect(hub.client.counters.messagesIgnored == 7 && hub.isConnected)
    }

    // MARK: Frames

    @Test func `messages may be divided among frames at any byte`() async throws {
        let hub = try await HubFixture.connected()
        let text = #"{"type":3,"invocationId":"1","result":"héllo"}"# + "\u{1E}"
        for position in [1, 10, 43, 45] {
            let call = try await hub.begin { try await $0.invoke("save", as: String.self) }
            let id = hub.server.received.all.last?["invocationId"]?.string ?? ""
            let message = text.replacingOccurrence(of: "\"1\"", with: "\"\(id)\"")
            let index = message.index(message.startIndex, offsetBy: position)
            hub.server.send(raw: String(message[..<index]))
            hub.server.send(raw: String(message[index...]))
            try await expectEqual(call.value, "héllo")
        }
    }

    @Test func `an invalid message doesn't affect its neighbors`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send(
            "nonsense", "{", #"{"type":"1"}"#, #"{"type":1,"arguments":[]}"#, #"{"type":42}"#, #"{"type":8,"sequenceId":1}"#,
            #"{"type":3,"invocationId":"1","result":5}"#)
        try await expectEqual(call.value, 5)
        expect(hub.isConnected)
        expectEqual(hub.client.counters.messagesIgnored, 6)
        let errors = hub.events.filter { if case .error(let error) = $0 { error.code == .invalidMessage } else { false } }
        expectEqual(errors.count, 4)
    }

    @Test func `an invalid answer fails its call`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send(#"{"type":3,"invocationId":"1","result":5,"error":"both"}"#)
        await expectEqual(Self.error(of: call)?.code, .invalidMessage)
        expect(hub.isConnected)
    }

    @Test func `an invalid invocation with an ID is answered with an error`() async throws {
        let hub = try await HubFixture.connected()
        hub.server.send(#"{"type":1,"invocationId":"s1","arguments":[]}"#)
        let answer = try #require(hub.server.received.all.last)
        expect(answer["type"] == 3 && answer["invocationId"] == "s1" && answer["error"]?.string != nil)
    }

    @Test func `a message that exceeds the limit ends the connection`() async throws {
        let hub = try await HubFixture.connected {
            $0.messageLimit = 1000
            $0.retry = .delays([.seconds(1)])
        }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        for _ in 1...11 { hub.server.send(raw: String(repeating: "x", count: 100)) }
        let error = await Self.error(of: call)
        expectEqual(error?.code, .invalidMessage)
        let text = "A message is longer than the limit of 1000 bytes. Increase `HubConfiguration.messageLimit` to accept it."
        expect(error?.message.contains(text) == true, "\(error as Any)")
        expect(hub.isReconnecting)
        hub.clock.advance(by: .seconds(1))
        expect(hub.isConnected)
    }

    @Test func `a message that exceeds the limit of the server is lost with advice`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.close(.tooLarge, "The message exceeds the receiver's limit of 100 bytes.")
        let message = await Self.error(of: call)?.message
        let reason = "the server closed the connection with code 1009: The message exceeds the receiver's limit of 100 bytes."
        let advice = "Send smaller messages, or increase the limit of the server, MaximumReceiveMessageSize in ASP.NET Core."
        expect(message?.hasSuffix("\(reason) \(advice)") == true, "\(message ?? "")")
    }

    // MARK: Messages without an answer

    @Test func `a message without an answer has no ID`() async throws {
        let hub = try await HubFixture.connected()
        try await hub.client.send("say", hub.payload("hello", true))
        expectEqual(hub.server.received.all, [["type": 1, "target": "say", "arguments": ["hello", true]]])
    }

    /// Fills the output, until the transport reports that the server reads slowly.
    private static func fill(_ hub: HubFixture) async throws {
        hub.server.pauseReading()
        let large = try hub.payload(String(repeating: "x", count: 300_000))
        try await hub.client.send("large", large)
    }

    @Test func `a message waits while the server reads slowly`() async throws {
        let hub = try await HubFixture.connected()
        try await Self.fill(hub)
        let payload = try hub.payload(1)
        let call = Task { try await hub.client.send("say", payload) }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 1 }
        expect(hub.server.received.all.isEmpty)
        hub.server.resumeReading()
        try await call.value
        expectEqual(hub.server.received.all.map { $0["target"] }, ["large", "say"])
    }

    @Test func `a call waits again if others have paused writing before it was sent`() async throws {
        let hub = try await HubFixture.connected()
        try await Self.fill(hub)
        let payload = try hub.payload(1)
        let call = Task { try await hub.client.invoke("say", payload) }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 1 }
        hub.client.driver.step { session, now, effects in
            guard let id = session.connection.connected else { return }
            session.writing(id, paused: false, now: now, &effects)
            session.writing(id, paused: true, now: now, &effects)
        }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 1 }
        expectEqual(hub.client.driver.read { $0.callCount }, 0)
        hub.server.resumeReading()
        try await eventually { hub.server.received.all.map { $0["target"] } == ["large", "say"] }
        hub.server.send(#"{"type":3,"invocationId":"1"}"#)
        _ = try await call.value
    }

    @Test(arguments: [0, 1, 2])
    func `a message that waits fails when it is cancelled, or the connection is stopped or lost`(end: Int) async throws {
        let hub = try await HubFixture.connected()
        try await Self.fill(hub)
        let payload = try hub.payload(1)
        let call = Task { try await hub.client.send("say", payload) }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 1 }
        switch end {
        case 0: call.cancel()
        case 1: hub.client.stop()
        default: hub.network.cut()
        }
        await expectEqual(Self.error(of: call)?.code, [.cancelled, .stopped, .connectionLost][end])
        expectEqual(hub.client.driver.read { $0.waiterCount }, 0)
    }

    // MARK: Streams from the server

    @Test func `a stream delivers its items and ends`() async throws {
        let hub = try await HubFixture.connected()
        let stream = try hub.client.stream("count", 3, of: Int.self)
        expectEqual(hub.server.received.all, [["type": 4, "invocationId": "1", "target": "count", "arguments": [3]]])
        for item in 1...3 { hub.server.send(#"{"type":2,"invocationId":"1","item":\#(item)}"#) }
        hub.server.send(#"{"type":3,"invocationId":"1"}"#, #"{"type":2,"invocationId":"1","item":4}"#)
        var items: [Int] = []
        for try await item in stream { items.append(item) }
        expectEqual(items, [1, 2, 3])
        expectEqual(hub.server.received.all.count, 1)
        expectEqual(hub.client.counters.messagesIgnored, 1)
    }

    @Test func `an error of a stream comes after its items`() async throws {
        let hub = try await HubFixture.connected()
        let stream = try hub.client.stream("count", of: Int.self)
        hub.server.send(#"{"type":2,"invocationId":"1","item":1}"#, #"{"type":3,"invocationId":"1","error":"tired"}"#)
        let iterator = stream.makeAsyncIterator()
        try await expectEqual(iterator.next(), 1)
        let error = await hubError { try await iterator.next() }
        expect(error?.code == .invocationFailed && error?.serverMessage == "tired")
        try await expectNil(iterator.next())
    }

    @Test func `leaving the loop over a stream tells the server`() async throws {
        let hub = try await HubFixture.connected()
        let stream = try hub.client.stream("count", of: Int.self)
        hub.server.send(#"{"type":2,"invocationId":"1","item":1}"#)
        for try await _ in stream { break }
        expectEqual(hub.server.received.all.last, ["type": 5, "invocationId": "1"])
        hub.server.send(#"{"type":2,"invocationId":"1","item":2}"#)
        // Those of handlers, and of the updates that the test records.
        expect(hub.client.counters.messagesIgnored == 1 && hub.client.driver.consumerCount == 3)
    }

    @Test(arguments: [true, false])
    func `a second loop over a stream is an error, and doesn't affect the first one`(isOver: Bool) async throws {
        let hub = try await HubFixture.connected()
        let stream = try hub.client.stream("count", of: Int.self)
        var first: HubStreamResult<Int>.AsyncIterator? = stream.makeAsyncIterator()
        hub.server.send(#"{"type":2,"invocationId":"1","item":1}"#)
        try await expectEqual(first?.next(), 1)
        if isOver {
            hub.server.send(#"{"type":3,"invocationId":"1"}"#)
            try await expectNil(first?.next())
            first = nil
        }
        for _ in 0..<2 {
            let error = await hubError { for try await _ in stream { break } }
            expect(
                error?.code == .streamConsumed && error?.message.hasPrefix("The stream count is consumed once") == true, "\(error as Any)")
        }
        guard !isOver else { return }
        hub.server.send(#"{"type":2,"invocationId":"1","item":2}"#)
        try await expectEqual(first?.next(), 2)
        expect(hub.server.received.all.count == 1)
    }

    @Test func `a call of a method without a name isn't sent`() async throws {
        let hub = try await HubFixture.connected()
        let upload = HubUpload(AsyncStream<Int> { $0.finish() })
        let errors = [
            await hubError { try await hub.client.invoke("") }, await hubError { try await hub.client.invoke("", 1, as: Int.self) },
            await hubError { try await hub.client.invoke("", upload) }, await hubError { try await hub.client.send("", 1) },
            await hubError { try await hub.client.send("", upload) }, await hubError { try hub.client.stream("", of: Int.self) },
        ]
        for error in errors {
            expectEqual(error?.code, .encodingFailed)
            expectEqual(error?.message, "The call wasn't sent, because the name of its method is empty.")
        }
        expect(hub.server.received.all.isEmpty && hub.isConnected)
    }

    @Test func `releasing a stream that was never read tells the server`() async throws {
        let hub = try await HubFixture.connected()
        _ = try hub.client.stream("count", of: Int.self)
        expectEqual(hub.server.received.all.last, ["type": 5, "invocationId": "1"])
        expectEqual(hub.client.driver.consumerCount, 3)
    }

    @Test func `cancelling the task that reads a stream tells the server`() async throws {
        let hub = try await HubFixture.connected()
        let stream = try hub.client.stream("count", of: Int.self)
        let reading = Task { for try await _ in stream {} }
        hub.server.send(#"{"type":2,"invocationId":"1","item":1}"#)
        reading.cancel()
        await expectEqual(Self.error(of: reading)?.code, .cancelled)
        expectEqual(hub.server.received.all.last, ["type": 5, "invocationId": "1"])
    }

    @Test func `an item of another type ends the stream with an error, and tells the server`() async throws {
        let hub = try await HubFixture.connected()
        let stream = try hub.client.stream("count", of: Int.self)
        hub.server.send(#"{"type":2,"invocationId":"1","item":1}"#, #"{"type":2,"invocationId":"1","item":"two"}"#)
        var items: [Int] = []
        let error = await hubError { for try await item in stream { items.append(item) } }
        expect(items == [1] && error?.code == .decodingFailed && error?.message.contains("count") == true)
        expectEqual(hub.server.received.all.last, ["type": 5, "invocationId": "1"])
    }

    @Test func `a stream ends when the client is released`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = ScriptedHub()
        let address = try await network.listener().start(server)
        var options = HubConfiguration(
            Endpoint(scheme: "http", host: address.host, port: address.port), transports: network.transports())
        (options.log, options.allowedTransports, options.skipsNegotiation) = (.none, .webSockets, true)
        var client: HubClient? = HubClient(options)
        try await client?.start()
        let stream = try #require(try client?.stream("count", of: Int.self))
        client = nil
        await expectEqual(hubError { for try await _ in stream {} }?.code, .stopped)
    }

    // MARK: Streams to the server

    @Test func `the items of a stream to the server follow the call`() async throws {
        let hub = try await HubFixture.connected()
        let (items, feed) = AsyncStream.makeStream(of: Int.self)
        let call = try await hub.begin { try await $0.invoke("sum", 5, HubUpload(items), as: Int.self) }
        expectEqual(hub.server.received.all, [["type": 1, "invocationId": "1", "target": "sum", "arguments": [5], "streamIds": ["2"]]])
        for item in 1...2 { feed.yield(item) }
        feed.finish()
        let expected: [JSONValue] = [
            ["type": 2, "invocationId": "2", "item": 1], ["type": 2, "invocationId": "2", "item": 2], ["type": 3, "invocationId": "2"],
        ]
        expectEqual(Array(try await hub.server.received(4).dropFirst()), expected)
        hub.server.send(#"{"type":3,"invocationId":"1","result":8}"#)
        try await expectEqual(call.value, 8)
    }

    @Test func `a call may have several streams to the server, without waiting for a result`() async throws {
        let hub = try await HubFixture.connected()
        let streams = [[1, 2], [3]].map { items in
            HubUpload(
                AsyncStream { feed in
                    for item in items { feed.yield(item) }
                    feed.finish()
                })
        }
        try await hub.client.send("merge", hub.payload(), streams: streams)
        let messages = try await hub.server.received(6)
        expectEqual(messages[0], ["type": 1, "target": "merge", "arguments": [], "streamIds": ["1", "2"]])
        expectEqual(messages.filter { $0["invocationId"] == "1" }.map { $0["item"] }, [1, 2, nil])
        expectEqual(messages.filter { $0["invocationId"] == "2" }.map { $0["item"] }, [3, nil])
    }

    @Test func `a stream from the server may have a stream to it`() async throws {
        let hub = try await HubFixture.connected()
        let (items, feed) = AsyncStream.makeStream(of: Int.self)
        let stream = try hub.client.stream("double", HubUpload(items), of: Int.self)
        expect(hub.server.received.all[0]["type"] == 4 && hub.server.received.all[0]["streamIds"] == ["2"])
        feed.yield(4)
        _ = try await hub.server.received(2)
        hub.server.send(#"{"type":2,"invocationId":"1","item":8}"#)
        for try await item in stream {
            expectEqual(item, 8)
            break
        }
        let messages = try await hub.server.received(4)
        expectEqual(messages[2], ["type": 5, "invocationId": "1"])
        expect(messages[3]["type"] == 3 && messages[3]["invocationId"] == "2" && messages[3]["error"]?.string != nil)
    }

    @Test func `a sequence that throws completes its stream with the error`() async throws {
        struct Failed: Error {}
        let hub = try await HubFixture.connected()
        let items = AsyncThrowingStream<Int, any Error> { feed in
            feed.yield(1)
            feed.finish(throwing: Failed())
        }
        try await hub.client.send("sum", hub.payload(), streams: [HubUpload(items)])
        let end = try await hub.server.received(3)[2]
        expect(end["type"] == 3 && end["error"] == "The stream threw an error of type Failed.")
    }

    @Test(arguments: [0, 1, 2, 3])
    func `a stream to the server stops with its call or connection`(end: Int) async throws {
        let hub = try await HubFixture.connected()
        let (items, feed) = AsyncStream.makeStream(of: Int.self)
        let terminations = EventRecorder<Bool>()
        feed.onTermination = { _ in terminations.record(true) }
        let call = try await hub.begin { try await $0.invoke("sum", HubUpload(items), as: Int.self) }
        feed.yield(1)
        _ = try await hub.server.received(2)
        switch end {
        case 0: hub.server.send(#"{"type":3,"invocationId":"1","result":1}"#)
        case 1: call.cancel()
        case 2: hub.client.stop()
        default: hub.network.cut()
        }
        _ = await call.result
        try await eventually { terminations.all.count == 1 }
        feed.yield(2)
        let rest = hub.server.received.all.dropFirst(2)
        switch end {
        case 0, 3: expect(rest.isEmpty)
        case 1:
            // Without the second one, a method without cancellation would wait for items.
            expectEqual(rest.first, ["type": 5, "invocationId": "1"])
            expect(rest.count == 2 && rest.last?["invocationId"] == "2" && rest.last?["error"]?.string != nil)
        default: expectEqual(Array(rest), [["type": 7]])
        }
    }

    @Test func `a stream to the server waits while the server reads slowly`() async throws {
        let hub = try await HubFixture.connected()
        let (items, feed) = AsyncStream<Int>.makeStream()
        let call = Task { try await hub.client.invoke("sum", HubUpload(items), as: Int.self) }
        try await eventually { hub.client.driver.read { $0.callCount } == 2 }
        try await Self.fill(hub)
        for number in 1...10 { feed.yield(number) }
        feed.finish()
        try await eventually { hub.client.driver.read { $0.waiterCount } == 2 }
        for _ in 1...100 { await Task.yield() }
        expectEqual(hub.client.driver.read { $0.waiterCount }, 2)
        hub.server.resumeReading()
        try await eventually {
            hub.server.received.all.filter { $0["type"] == 2 }.map { $0["item"] } == (1...10).map { .number($0) }
        }
        call.cancel()
        _ = await call.result
    }

    @Test func `a call waits while the server reads slowly, within its limit`() async throws {
        let hub = try await HubFixture.connected()
        try await Self.fill(hub)
        let late = Task { try await hub.client.invoke("late", within: .seconds(5)) }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 1 }
        hub.clock.advance(by: .seconds(5))
        await expectEqual(late.result.code, .timedOut)
        let call = Task { try await hub.client.invoke("sum", as: Int.self) }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 1 }
        expectEqual(hub.client.driver.read { $0.callCount }, 0)
        hub.server.resumeReading()
        try await eventually { hub.server.received.all.contains { $0["target"] == "sum" } }
        expect(!hub.server.received.all.contains { $0["target"] == "late" })
        call.cancel()
        _ = await call.result
    }
}

extension Result {
    fileprivate var code: HubError.Code? { if case .failure(let error) = self { (error as? HubError)?.code } else { nil } }
}

extension String {
    fileprivate func replacingOccurrence(of text: String, with other: String) -> String {
        self.replacing(text, with: other, maxReplacements: 1)
    }
}

extension JSONValue {
    fileprivate static func number(_ value: Int) -> JSONValue { JSONValue(integerLiteral: Int64(value)) }
}
