import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
@testable import SignalRHubs
import SignalRWire
import Testing

/// Stateful reconnect: a connection survives the loss of its socket.
@Suite(.timeLimit(.minutes(10))) struct HubResumeTests {
    /// An answer to a negotiation that supports stateful reconnect.
    private static func response(_ number: Int) -> HTTPResponse {
        HTTPResponse(
            status: 200,
            text: """
                {"connectionToken":"secret-token-\(number)","connectionId":"id-\(number)","negotiateVersion":1,"useStatefulReconnect":true,\
                "availableTransports":[{"transport":"WebSockets","transferFormats":["Text","Binary"]}]}
                """)
    }

    private static var script: ScriptedHub.Script {
        ScriptedHub.Script(negotiate: { _, number in Self.response(number) })
    }

    /// A client that is connected with stateful reconnect.
    private func connected(
        _ script: ScriptedHub.Script = Self.script, _ configure: (inout HubConfiguration) -> Void = { _ in }
    ) async throws -> HubFixture {
        try await HubFixture.connected(negotiates: true, script) {
            $0.statefulReconnect = HubStatefulReconnect()
            configure(&$0)
        }
    }

    private static func sequence(_ number: Int) -> String { #"{"type":9,"sequenceId":\#(number)}"# }
    private static func ack(_ number: Int) -> String { #"{"type":8,"sequenceId":\#(number)}"# }
    private static func item(_ call: Int, _ item: Int) -> String { #"{"type":2,"invocationId":"\#(call)","item":\#(item)}"# }
    private static func note(_ number: Int) -> String { #"{"type":1,"target":"note","arguments":[\#(number)]}"# }

    private func types(_ messages: some Sequence<JSONValue>) -> [Int] {
        messages.map { Int($0["type"]?.number?.integer(as: Int.self) ?? -1) }
    }

    // MARK: Negotiation

    @Test func `the client asks for stateful reconnect, and uses version 2 if the server supports it`() async throws {
        let hub = try await self.connected()
        expectEqual(hub.server.negotiations.all.map(\.target), ["/chat/negotiate?room=1&negotiateVersion=1&useStatefulReconnect=true"])
        expectEqual(hub.server.handshakes.all, [#"{"protocol":"json","version":2}"#])
    }

    @Test func `a server without it is used as before`() async throws {
        let hub = try await self.connected(ScriptedHub.Script())
        expectEqual(hub.server.handshakes.all, [#"{"protocol":"json","version":1}"#])
        hub.network.cut()
        expect(hub.stopError?.code == .connectionLost && hub.server.upgrades.all.count == 1)
    }

    @Test func `a server that supports it without being asked is an error`() async throws {
        let hub = try await HubFixture(negotiates: true, Self.script)
        let error = await hubError { try await hub.client.start() }
        expect(error?.code == .negotiationFailed && error?.message.contains("didn't ask for") == true)
    }

    @Test func `a client without a negotiation or without WebSockets doesn't ask for it`() async throws {
        let skipping = try await HubFixture.connected { $0.statefulReconnect = HubStatefulReconnect() }
        expectEqual(skipping.server.handshakes.all, [#"{"protocol":"json","version":1}"#])
        let polling = try await HubFixture(negotiates: true) {
            $0.statefulReconnect = HubStatefulReconnect()
            $0.allowedTransports = .longPolling
        }
        _ = await hubError { try await polling.client.start() }
        expect(polling.server.negotiations.all.allSatisfy { !$0.target.contains("useStatefulReconnect") })
    }

    @Test(arguments: [
        (HubStatefulReconnect(bufferBytes: 0), "The bufferBytes of statefulReconnect must be at least 1, but are 0."),
        (HubStatefulReconnect(backlogLimit: -1), "The backlogLimit of statefulReconnect must not be negative, but is -1."),
        (HubStatefulReconnect(timeLimit: .zero), "The timeLimit of statefulReconnect must be greater than zero, but is 0.0 seconds."),
    ])
    func `invalid settings are an error`(settings: HubStatefulReconnect, problem: String) async throws {
        let hub = try await HubFixture(negotiates: true) { $0.statefulReconnect = settings }
        let error = await hubError { try await hub.client.start() }
        expect(error?.code == .invalidConfiguration && error?.message.contains(problem) == true)
    }

    // MARK: Resuming

    @Test func `a connection continues on another socket, and nothing is reported as lost`() async throws {
        let hub = try await self.connected()
        let call = try await hub.begin { try await $0.invoke("add", 1, as: Int.self) }
        hub.network.cut()
        expect(hub.isConnected && hub.client.connectionID == "id-1")
        // Neither a negotiation nor a handshake, and the same connection.
        expect(hub.server.negotiations.all.count == 1 && hub.server.upgrades.all.count == 2)
        expectEqual(hub.server.upgrades.all[0].target, hub.server.upgrades.all[1].target)
        expect(hub.server.handshakes.all.count == 2 && hub.server.handshakes.all[1] == #"{"type":9,"sequenceId":1}"#)
        // The call wasn't acknowledged.
        try await expectEqual(hub.server.received(2).last, hub.server.received.all.first)
        expect(hub.events.isEmpty)
        hub.server.send(Self.sequence(1), #"{"type":3,"invocationId":"1","result":5}"#)
        try await expectEqual(call.value, 5)
        expect(hub.events == [.resumed] && hub.client.counters.resumes == 1 && hub.client.counters.reconnects == 0)
        expectEqual(hub.states, [.connecting, .connected(connectionID: "id-1")])
    }

    @Test(arguments: [CloseCode.normal, .abnormal, .goingAway, .internalError, CloseCode(rawValue: 1012)])
    func `a close without a close message is followed by a resume`(code: CloseCode) async throws {
        let hub = try await self.connected()
        hub.server.close(code)
        expect(hub.server.upgrades.all.count == 2 && hub.isConnected)
    }

    @Test func `silence of the server is followed by a resume`() async throws {
        let hub = try await self.connected { $0.keepAliveInterval = .zero }
        hub.clock.advance(by: .seconds(30))
        expect(hub.server.upgrades.all.count == 2 && hub.isConnected)
        hub.server.send(Self.sequence(1))
        expectEqual(hub.events, [.resumed])
    }

    @Test(arguments: [CloseCode.protocolError, .unsupportedData, .invalidPayload, .tooLarge])
    func `a close because of what the client sent ends the connection`(code: CloseCode) async throws {
        let hub = try await self.connected()
        hub.server.close(code)
        expect(hub.isStopped && hub.server.upgrades.all.count == 1)
    }

    @Test(arguments: [true, false]) func `a close message ends the connection`(allowsReconnect: Bool) async throws {
        let hub = try await self.connected { $0.retry = .delays([.seconds(5)]) }
        hub.server.send(#"{"type":7,"error":"bye","allowReconnect":\#(allowsReconnect)}"#)
        expectEqual(hub.server.upgrades.all.count, 1)
        expect(allowsReconnect ? hub.isReconnecting : hub.stopError?.serverMessage == "bye")
    }

    @Test func `a message that is too large would be repeated, so it ends the connection`() async throws {
        let hub = try await self.connected { $0.messageLimit = 1000 }
        hub.server.send(raw: String(repeating: "x", count: 2000))
        expect(hub.isStopped && hub.server.upgrades.all.count == 1)
    }

    @Test func `stopping doesn't resume, and says so to the server`() async throws {
        let hub = try await self.connected()
        hub.client.stop()
        expectEqual(self.types(hub.server.received.all), [7])
        expect(hub.isStopped && hub.server.upgrades.all.count == 1)
    }

    // MARK: Messages

    @Test func `messages are acknowledged once a second`() async throws {
        let hub = try await self.connected()
        hub.client.on("note") { (_: Int) in }
        for number in 1...3 { hub.server.send(Self.note(number)) }
        hub.clock.advance(by: .milliseconds(999))
        expect(hub.server.received.all.isEmpty)
        hub.clock.advance(by: .milliseconds(1))
        expectEqual(hub.server.received.all, [["type": 8, "sequenceId": 3]])
        hub.clock.advance(by: .seconds(5))
        expectEqual(hub.server.received.all.count, 1)
    }

    @Test func `much data is acknowledged immediately`() async throws {
        let hub = try await self.connected { $0.statefulReconnect?.bufferBytes = 200 }
        hub.client.on("note") { (_: Int) in }
        hub.server.send(Self.note(1))
        expect(hub.server.received.all.isEmpty)
        hub.server.send(Self.note(2), Self.note(3))
        expectEqual(hub.server.received.all, [["type": 8, "sequenceId": 3]])
    }

    @Test func `messages that the server repeats are handled once`() async throws {
        let hub = try await self.connected()
        let notes = EventRecorder<Int>()
        hub.client.on("note") { (number: Int) in notes.record(number) }
        hub.server.send(Self.note(1), Self.note(2), #"{"type":1,"target":5}"#)
        hub.network.cut()
        // What precedes the number belongs to the previous socket.
        hub.server.send(Self.note(99), Self.ack(7), Self.sequence(2), Self.note(2), #"{"type":1,"target":5}"#, Self.note(3))
        try await eventually { notes.all == [1, 2, 3] }
        hub.clock.advance(by: .seconds(1))
        expectEqual(hub.server.received.all.last, ["type": 8, "sequenceId": 4])
        expect(hub.events.count == 2 && hub.events.last == .resumed)
    }

    @Test func `a number of a message that the client hasn't received ends the connection with an error`() async throws {
        let hub = try await self.connected { $0.retry = .delays([.seconds(5)]) }
        hub.network.cut()
        hub.server.send(Self.sequence(2))
        expect(hub.isReconnecting)
        guard case .reconnecting(let error)? = hub.events.first else { return expect(false, "it should reconnect") }
        expect(error.code == .connectionLost && error.message.contains("The peer continues with message 2"))
        expectEqual(hub.server.ends.all.last, .peer(.protocolError, ""))
        hub.clock.advance(by: .seconds(5))
        try await eventually { hub.isConnected && hub.client.connectionID == "id-2" }
    }

    @Test func `only what the server hasn't acknowledged is repeated`() async throws {
        let hub = try await self.connected()
        for number in 1...4 { try await hub.client.send("note", number) }
        hub.server.send(Self.ack(3), Self.ack(1), Self.ack(1000))
        hub.network.cut()
        expectEqual(hub.server.handshakes.all.last, #"{"type":9,"sequenceId":4}"#)
        expectEqual(hub.server.received.all.map { $0["arguments"] }, [[1], [2], [3], [4], [4]])
        hub.server.send(Self.sequence(1), Self.ack(4))
        hub.network.cut()
        expectEqual(hub.server.handshakes.all.last, #"{"type":9,"sequenceId":5}"#)
        expectEqual(hub.server.received.all.count, 5)
    }

    @Test func `a second cut during the repetition repeats everything again`() async throws {
        let hub = try await self.connected()
        for number in 1...2 { try await hub.client.send("note", number) }
        hub.network.cut()
        hub.network.cut()
        expectEqual(hub.server.upgrades.all.count, 2)
        hub.clock.advance(by: .milliseconds(100))
        expectEqual(hub.server.upgrades.all.count, 3)
        expectEqual(hub.server.received.all.map { $0["arguments"] }, [[1], [2], [1], [2], [1], [2]])
        hub.server.send(Self.sequence(1))
        expectEqual(hub.events, [.resumed])
    }

    @Test(arguments: [HubFormat.json, .messagePack])
    func `calls that are made while the connection is resumed are sent in order`(format: HubFormat) async throws {
        let hub = try await self.connected { $0.format = format }
        hub.network.condition = .down
        hub.network.cut()
        for number in 1...3 { try await hub.client.send("note", number) }
        let call = Task { try await hub.client.invoke("add", 4, as: Int.self) }
        try await eventually { hub.client.driver.read { $0.callCount == 1 } }
        expectEqual(hub.server.messageCount, 0)
        hub.network.condition = .up
        hub.clock.advance(by: .milliseconds(100))
        // In MessagePack, the sequence is one of the recorded messages.
        let sequences = format == .messagePack ? 1 : 0
        expectEqual(hub.server.messageCount, 4 + sequences)
        try await hub.client.send("note", 5)
        expectEqual(hub.server.messageCount, 5 + sequences)
        hub.server.send([.sequence(sequenceID: 1), .completion(id: "1", .result(try hub.client.coder.payload(7)))], format)
        try await expectEqual(call.value, 7)
        if format == .json { expectEqual(hub.server.received.all.map { $0["arguments"] }, [[1], [2], [3], [4], [5]]) }
    }

    @Test func `streams in both directions and results of handlers continue`() async throws {
        let hub = try await self.connected()
        let (result, started) = (Waiter<Int>(), EventRecorder<Bool>())
        hub.client.on("ask") { () -> Int in
            started.record(true)
            return await result.value()
        }
        let (numbers, continuation) = AsyncStream.makeStream(of: Int.self)
        let sum = try await hub.begin { try await $0.invoke("sum", HubUpload(numbers), as: Int.self) }
        let stream = try hub.client.stream("count", of: Int.self)
        let reading = Task { try await stream.reduce(into: []) { $0.append($1) } }
        continuation.yield(10)
        _ = try await hub.server.received(3)
        hub.server.send(Self.item(3, 1), #"{"type":1,"invocationId":"s","target":"ask","arguments":[]}"#)
        try await eventually { started.all.count == 1 }
        hub.network.condition = .down
        hub.network.cut()
        continuation.yield(20)
        result.fulfill(42)?.resume()
        try await eventually { hub.client.driver.read { $0.resumable?.buffer.count } == 5 }
        hub.network.condition = .up
        hub.clock.advance(by: .milliseconds(100))
        let messages = try await hub.server.received(8)
        expectEqual(self.types(messages), [1, 4, 2, 1, 4, 2] + self.types(messages[6...]))
        expect(messages[6...].contains(["type": 3, "invocationId": "s", "result": 42]))
        expect(messages[6...].contains(["type": 2, "invocationId": "2", "item": 20]))
        hub.server.send(Self.sequence(1), Self.item(3, 1), #"{"type":1,"invocationId":"s","target":"ask","arguments":[]}"#, Self.item(3, 2))
        hub.server.send(#"{"type":3,"invocationId":"3"}"#, #"{"type":3,"invocationId":"1","result":30}"#)
        try await expectEqual(sum.value, 30)
        try await expectEqual(reading.value, [1, 2])
        expectEqual(started.all.count, 1)
    }

    // MARK: A full buffer

    @Test func `a full buffer makes senders wait for an acknowledgment`() async throws {
        let hub = try await self.connected { $0.statefulReconnect?.bufferBytes = 80 }
        for number in 1...2 { try await hub.client.send("note", number) }
        let send = Task { try await hub.client.send("note", 3) }
        let call = Task { try await hub.client.invoke("add", 4, as: Int.self) }
        try await eventually { hub.client.driver.read { $0.writingCallers.count == 2 } }
        expectEqual(hub.server.messageCount, 2)
        hub.server.send(Self.ack(2))
        try await send.value
        try await hub.server.awaitMessages(4)
        hub.server.send(#"{"type":3,"invocationId":"1","result":7}"#)
        try await expectEqual(call.value, 7)
    }

    @Test func `a sender that waits for an acknowledgment is answered though a stream isn't read`() async throws {
        let hub = try await self.connected {
            $0.statefulReconnect?.bufferBytes = 120
            $0.streamBuffer = HubBufferLimit(count: 2)
        }
        let items = try hub.client.stream("items", of: Int.self)
        for number in 1...2 { try await hub.client.send("note", number) }
        let send = Task { try await hub.client.send("note", 3) }
        try await eventually { hub.client.driver.read { $0.writingCallers.count == 1 } }
        for number in 1...20 { hub.server.send(Self.item(1, number)) }
        hub.server.send(Self.ack(3))
        try await send.value
        _ = items
    }

    @Test func `a full buffer makes senders wait also while the connection is resumed, and a loss answers them`() async throws {
        let hub = try await self.connected { $0.statefulReconnect = HubStatefulReconnect(bufferBytes: 80, timeLimit: .seconds(3)) }
        hub.network.condition = .down
        hub.network.cut()
        for number in 1...2 { try await hub.client.send("note", number) }
        let send = Task { await hubError { try await hub.client.send("note", 3) } }
        try await eventually { hub.client.driver.read { $0.writingCallers.count == 1 } }
        hub.clock.advance(by: .seconds(5))
        await expectEqual(send.value?.code, .connectionLost)
        expect(hub.isStopped)
    }

    @Test func `a full buffer permits one message after a resume, so that a lost acknowledgment isn't awaited for ever`() async throws {
        let hub = try await self.connected { $0.statefulReconnect?.bufferBytes = 80 }
        for number in 1...2 { try await hub.client.send("note", number) }
        let sends = Task { for number in 3...4 { try await hub.client.send("note", number) } }
        try await eventually { hub.client.driver.read { $0.writingCallers.count == 1 } }
        hub.network.cut()
        hub.server.send(Self.sequence(1))
        try await hub.server.awaitMessages(5)
        try await eventually { hub.client.driver.read { $0.writingCallers.count == 1 } }
        expectEqual(hub.server.received.all.map { $0["arguments"] }, [[1], [2], [1], [2], [3]])
        hub.server.send(Self.ack(3))
        try await sends.value
        expectEqual(hub.server.messageCount, 6)
    }

    @Test func `a caller that waits for a slow server continues when the connection is resumed`() async throws {
        let hub = try await self.connected { $0.statefulReconnect?.bufferBytes = 1 << 24 }
        hub.server.pauseReading()
        let text = String(repeating: "x", count: 1 << 16)
        let sends = Task { for _ in 1...20 { try await hub.client.send("note", text) } }
        try await eventually { hub.client.driver.read { $0.writingCallers.count == 1 } }
        hub.network.cut()
        hub.server.send(Self.sequence(1))
        try await sends.value
        try await hub.server.awaitMessages(20)
        expectEqual(hub.events, [.resumed])
    }

    // MARK: The limit for what doesn't wait

    private static let small = HubStatefulReconnect(bufferBytes: 80, backlogLimit: 200)

    enum Moment: CaseIterable { case connected, opening, synchronizing, pausing }

    @Test(arguments: Moment.allCases, [true, false])
    func `a connection whose server acknowledges nothing ends at the limit, also while it is resumed`(
        moment: Moment, reconnects: Bool
    ) async throws {
        let hub = try await self.connected {
            $0.statefulReconnect = Self.small
            if reconnects { $0.retry = .delays([.seconds(20)]) }
        }
        switch moment {
        case .connected: break
        case .opening:
            hub.network.condition = .silent
            hub.network.cut()
        case .synchronizing: hub.network.cut()
        case .pausing:
            hub.network.condition = .down
            hub.network.cut()
        }
        // Each one has 62 bytes. One is permitted after a resume, and counts like the others.
        var streams: [HubStreamResult<Int>] = []
        while hub.isConnected, streams.count < 100 { streams.append(try hub.client.stream("count", of: Int.self)) }
        expectEqual(streams.count, 6)
        for stream in streams {
            let error = await hubError { for try await _ in stream {} }
            expect(error?.code == .bufferOverflow && error?.message.contains("310 bytes") == true, "\(String(describing: error))")
        }
        expect(hub.client.driver.read { $0.callCount == 0 && $0.waiterCount == 0 && $0.resumable == nil })
        if reconnects {
            expect(hub.events.first?.isReconnecting == true && hub.isReconnecting)
            hub.network.condition = .up
            hub.clock.advance(by: .seconds(20))
            try await eventually { hub.client.connectionID == "id-2" }
        } else {
            expect(hub.stopError?.code == .bufferOverflow && hub.events == [.closed(hub.stopError)])
            hub.network.condition = .up
            hub.clock.advance(by: .seconds(100))
            expect(hub.client.driver.nextDeadline == nil && hub.isStopped)
        }
    }

    @Test func `results of handlers have the limit`() async throws {
        let hub = try await self.connected { $0.statefulReconnect = Self.small }
        hub.client.on("ask") { String(repeating: "x", count: 60) }
        for number in 1...10 { hub.server.send(#"{"type":1,"invocationId":"\#(number)","target":"ask","arguments":[]}"#) }
        try await eventually { hub.stopError?.code == .bufferOverflow }
        // Each one has 102 bytes. Another thread may still deliver what was sent.
        try await eventually { hub.server.ends.all == [.peer(.normal, "")] }
        expectEqual(self.types(hub.server.received.all).count { $0 == 3 }, 3)
    }

    @Test func `cancellations have the limit, and the call has ended`() async throws {
        let hub = try await self.connected { $0.statefulReconnect = Self.small }
        let call = try await hub.begin { client in await hubError { try await client.invoke("add", as: Int.self) } }
        let streams = try (1...4).map { _ in try hub.client.stream("count", of: Int.self) }
        expect(hub.isConnected)
        call.cancel()
        try await expectEqual(call.value?.code, .cancelled)
        expectEqual(hub.stopError?.code, .bufferOverflow)
        for stream in streams { await expectEqual(hubError { for try await _ in stream {} }?.code, .bufferOverflow) }
    }

    @Test func `a message that waited doesn't end the connection, and an acknowledgment makes room`() async throws {
        let hub = try await self.connected { $0.statefulReconnect = Self.small }
        var streams = try (1...5).map { _ in try hub.client.stream("count", of: Int.self) }
        let send = Task { try await hub.client.send("note", 1) }
        try await eventually { hub.client.driver.read { $0.writingCallers.count == 1 } }
        hub.network.cut()
        // After the resume, it is permitted.
        try await send.value
        hub.server.send(Self.sequence(1), Self.ack(6))
        for _ in 1...5 { streams.append(try hub.client.stream("count", of: Int.self)) }
        expect(hub.isConnected && hub.events == [.resumed])
    }

    // MARK: Failing

    @Test func `attempts are repeated within the time limit, and then the loss is reported with its reason`() async throws {
        let hub = try await self.connected { $0.retry = .delays([.seconds(20)]) }
        let call = try await hub.begin { client in await hubError { try await client.invoke("add", 1, as: Int.self) } }
        hub.server.script.upgrade = { _, _ in .reject(HTTPResponse(status: 503)) }
        hub.network.cut()
        expect(hub.isConnected && hub.events.isEmpty)
        hub.clock.advance(by: .seconds(13))
        expect(hub.isConnected && hub.events.isEmpty)
        let attempts = hub.server.upgrades.all.count
        expect(attempts > 8 && Set(hub.server.upgrades.all.map(\.target)).count == 1)
        hub.clock.advance(by: .seconds(3))
        let error = try await call.value
        expect(error?.code == .connectionLost && error?.transportError?.code == .reset)
        expect(hub.events.map(\.isReconnecting) == [true, false] && hub.isReconnecting)
        hub.server.script.upgrade = { _, _ in .accept(subprotocol: nil) }
        hub.clock.advance(by: .seconds(20))
        // Updates follow the state, on the thread that has negotiated.
        try await eventually { hub.events.last == .reconnected(connectionID: "id-2") }
        expect(hub.isConnected && hub.client.counters.resumes == 0)
        expectEqual(hub.server.handshakes.all.last, #"{"protocol":"json","version":2}"#)
    }

    @Test(arguments: [404, 401, 409, 302]) func `a server that doesn't know the connection any more ends it immediately`(
        status: Int
    ) async throws {
        let hub = try await self.connected()
        hub.server.script.upgrade = { _, _ in .reject(HTTPResponse(status: status)) }
        hub.network.cut()
        expectEqual(hub.server.upgrades.all.count, 2)
        expect(hub.stopError?.code == .connectionLost && hub.stopError?.transportError?.code == .reset)
        expectEqual(hub.events, [.closed(hub.stopError)])
    }

    @Test func `a server that accepts a socket and says nothing gets another one`() async throws {
        let hub = try await self.connected()
        hub.network.cut()
        expectEqual(hub.server.upgrades.all.count, 2)
        hub.clock.advance(by: .seconds(5))
        hub.clock.advance(by: .milliseconds(100))
        expect(hub.server.upgrades.all.count == 3 && hub.events.isEmpty)
        hub.server.send(Self.sequence(1))
        expectEqual(hub.events, [.resumed])
    }

    @Test func `a close message during a resume ends the connection with its error`() async throws {
        let hub = try await self.connected()
        hub.network.cut()
        hub.server.send(#"{"type":7,"error":"shutting down"}"#)
        expectEqual(hub.stopError?.serverMessage, "shutting down")
    }

    @Test func `a socket that the server closes while the connection is resumed is followed by another one`() async throws {
        let hub = try await self.connected()
        hub.network.cut()
        hub.server.close(.normal)
        hub.clock.advance(by: .milliseconds(100))
        expectEqual(hub.server.upgrades.all.count, 3)
        hub.server.send(Self.sequence(1))
        expect(hub.events == [.resumed] && hub.isConnected)
    }

    @Test(arguments: ["opening", "open", "pausing"]) func `stopping while the connection is resumed answers all calls`(
        step: String
    ) async throws {
        let hub = try await self.connected()
        let call = try await hub.begin { client in await hubError { try await client.invoke("add", 1, as: Int.self) } }
        switch step {
        case "opening": hub.network.condition = .silent
        case "pausing": hub.network.condition = .down
        default: break
        }
        hub.network.cut()
        expect(hub.isConnected)
        hub.client.stop()
        try await expectEqual(call.value?.code, .stopped)
        expect(hub.client.state == .stopped(nil) && hub.events == [.closed(nil)])
        hub.network.condition = .up
        hub.clock.advance(by: .seconds(100))
        expectNil(hub.client.driver.nextDeadline)
        try await hub.client.start()
        expectEqual(hub.client.connectionID, "id-2")
    }

    @Test func `a check of the connection ends a pause between attempts`() async throws {
        let hub = try await self.connected()
        hub.network.condition = .down
        hub.network.cut()
        hub.clock.advance(by: .seconds(8))
        hub.network.condition = .up
        hub.client.checkConnection()
        expectEqual(hub.server.upgrades.all.count, 2)
        hub.server.send(Self.sequence(1))
        expectEqual(hub.events, [.resumed])
    }

    @Test func `a call that is cancelled while the connection is resumed is cancelled on the server afterwards`() async throws {
        let hub = try await self.connected()
        let call = try await hub.begin { client in await hubError { try await client.invoke("add", 1, as: Int.self) } }
        hub.network.condition = .down
        hub.network.cut()
        call.cancel()
        try await expectEqual(call.value?.code, .cancelled)
        hub.network.condition = .up
        hub.clock.advance(by: .milliseconds(100))
        expectEqual(self.types(try await hub.server.received(3)), [1, 1, 5])
    }

    @Test func `a call whose time is up while the connection is resumed says why it was lost`() async throws {
        let hub = try await self.connected()
        let call = try await hub.begin { client in
            await hubError { try await client.invoke("add", 1, as: Int.self, within: .seconds(2)) }
        }
        hub.server.script.upgrade = { _, _ in .reject(HTTPResponse(status: 503)) }
        hub.network.cut()
        hub.clock.advance(by: .seconds(2))
        let error = try await call.value
        expect(error?.code == .timedOut && (error?.cause as? HubError)?.code == .connectionLost, "\(error as Any)")
        expectEqual(error?.message.contains("the client is still retrying. Connection to"), true, "\(error as Any)")
        expect(hub.isConnected)
    }

    @Test func `the token of a resume is the current one, and refreshes continue`() async throws {
        let tokens = EventRecorder<Int>()
        var script = Self.script
        script.negotiate = { request, number in
            if request.target.contains("/refresh") { return ScriptedHub.json(#"{"tokenLifetimeSeconds":3600}"#) }
            return Self.response(number)
        }
        let hub = try await self.connected(script) {
            $0.accessToken = {
                tokens.record(0)
                return "token-\(tokens.all.count)"
            }
        }
        try await hub.client.refreshAuthentication()
        hub.network.cut()
        expectEqual(hub.server.upgrades.all.map { $0.headers["Authorization"] }, ["Bearer token-1", "Bearer token-2"])
        // Also while the connection is resumed.
        try await hub.client.refreshAuthentication()
        hub.network.cut()
        hub.clock.advance(by: .milliseconds(100))
        expectEqual(hub.server.upgrades.all.last?.headers["Authorization"], "Bearer token-3")
    }

    @Test func `messages are traced when they are sent, also repeatedly`() async throws {
        let hub = try await self.connected()
        let frames = hub.client.frames().makeAsyncIterator()
        try await hub.client.send("note", 1)
        await expectEqual(frames.next()?.text.contains(#""target":"note""#), true)
        hub.network.cut()
        await expectEqual(frames.next()?.text.contains(#""type":9"#), true)
        await expectEqual(frames.next()?.text.contains(#""target":"note""#), true)
    }

    @Test func `stopping while the connection is resumed leaves nothing behind`() async throws {
        let hub = try await self.connected()
        hub.network.condition = .down
        hub.network.cut()
        hub.client.stop()
        expect(hub.client.driver.read { $0.waiterCount == 0 && $0.callCount == 0 && $0.resumable == nil })
    }
}
