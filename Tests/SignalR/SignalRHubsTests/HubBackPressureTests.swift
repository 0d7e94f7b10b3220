import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRWire
import TestSupport
import Testing

@testable import SignalRHubs

/// When a client stops reading because the application is slow, when it must not, and what ends when it can't.
@Suite(.timeLimit(.minutes(10))) struct HubBackPressureTests {
    /// More than the default size of a buffer.
    private static let large = String(repeating: "x", count: 1 << 20)

    private static func call(_ target: String, _ arguments: String = "[]", id: String? = nil) -> String {
        #"{"type":1,\#(id.map { #""invocationId":"\#($0)","# } ?? "")"target":"\#(target)","arguments":\#(arguments)}"#
    }

    private static func item(_ id: Int, _ item: Int) -> String { #"{"type":2,"invocationId":"\#(id)","item":\#(item)}"# }
    private static func completion(_ id: Int) -> String { #"{"type":3,"invocationId":"\#(id)"}"# }

    /// The number of frames that the client has read, with the answer to the handshake.
    private static func frames(_ hub: HubFixture) -> Int { hub.client.counters.messagesReceived }

    private static func isWaiting(_ stream: HubStreamResult<Int>?) -> Bool {
        stream?.source.events.consumer.buffer.hasWaitingReader == true
    }

    // MARK: Streams that are read

    @Test(arguments: [true, false])
    func `a handler that reads a stream receives its items although the queue of handlers is full`(isFullBefore: Bool) async throws {
        let hub = try await HubFixture.connected { $0.handlerBuffer = HubBufferLimit(count: 4) }
        let gate = Waiter<Void>()
        let streams = EventRecorder<HubStreamResult<Int>>()
        let starts = EventRecorder<Int>()
        let items = EventRecorder<Int>()
        let notes = EventRecorder<Int>()
        hub.client.on("read") { [weak client = hub.client] in
            starts.record(1)
            await gate.value()
            guard let client else { return }
            let stream = try client.stream("items", of: Int.self)
            streams.record(stream)
            for try await item in stream { items.record(item) }
        }
        hub.client.on("note") { (number: Int) in notes.record(number) }
        hub.server.send(Self.call("read"))
        try await eventually { starts.all.count == 1 }
        if isFullBefore {
            for number in 1...24 { hub.server.send(Self.call("note", "[\(number)]")) }
            // The answer to the handshake, the call that is being handled, and four that wait.
            expectEqual(Self.frames(hub), 6)
            gate.fulfill(())?.resume()
            try await eventually { Self.frames(hub) == 26 }
        } else {
            gate.fulfill(())?.resume()
            try await eventually { Self.isWaiting(streams.all.first) }
            for number in 1...24 { hub.server.send(Self.call("note", "[\(number)]")) }
            expectEqual(Self.frames(hub), 26)
        }
        for number in 1...10 {
            hub.server.send(Self.item(1, number))
            hub.server.send(Self.call("note", "[\(24 + number)]"))
        }
        hub.server.send(Self.completion(1))
        try await eventually { items.all.count == 10 && notes.all.count == 34 }
        expect(items.all == Array(1...10) && notes.all == Array(1...34))
    }

    @Test(arguments: [true, false])
    func `a task reads a stream although another one, which isn't read, is full`(isFullBefore: Bool) async throws {
        let hub = try await HubFixture.connected { $0.streamBuffer = HubBufferLimit(count: 4) }
        let first = try hub.client.stream("first", of: Int.self)
        let second = try hub.client.stream("second", of: Int.self)
        let read: @Sendable () async throws -> [Int] = {
            var items: [Int] = []
            for try await item in second { items.append(item) }
            return items
        }
        let sendAll = {
            for number in 1...50 { hub.server.send(Self.item(1, number)) }
            for number in 1...10 { hub.server.send(Self.item(2, number)) }
            hub.server.send(Self.completion(2))
        }
        let reading: Task<[Int], any Error>
        if isFullBefore {
            sendAll()
            // The answer to the handshake, and four items.
            expectEqual(Self.frames(hub), 5)
            reading = Task { try await read() }
        } else {
            reading = Task { try await read() }
            try await eventually { Self.isWaiting(second) }
            sendAll()
        }
        try await expectEqual(reading.value, Array(1...10))
        // Nothing of the other one was lost.
        hub.server.send(Self.completion(1))
        var items: [Int] = []
        for try await item in first { items.append(item) }
        expectEqual(items, Array(1...50))
    }

    // MARK: Pausing

    @Test func `reading is paused again when no call and no reader of a stream waits any more`() async throws {
        let hub = try await HubFixture.connected { $0.handlerBuffer = HubBufferLimit(count: 4) }
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("slow") { (a: Int) in
            calls.record(a)
            if a == 0 { await gate.value() }
        }
        func send(_ numbers: ClosedRange<Int>) {
            for number in numbers { hub.server.send(Self.call("slow", "[\(number)]")) }
        }
        send(0...0)
        try await eventually { calls.all.count == 1 }
        send(1...11)
        // The answer to the handshake, the call that is being handled, and four that wait.
        expectEqual(Self.frames(hub), 6)

        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        try await eventually { Self.frames(hub) == 13 }
        send(12...12)
        try await eventually { Self.frames(hub) == 14 }
        hub.server.send(#"{"type":3,"invocationId":"1","result":5}"#)
        try await expectEqual(call.value, 5)
        // Reading stops after the next frame.
        send(13...13)
        try await eventually { Self.frames(hub) == 16 }
        send(14...20)
        expectEqual(Self.frames(hub), 16)

        let stream = try hub.client.stream("ticks", of: Int.self)
        expectEqual(Self.frames(hub), 16)
        let reading = Task { for try await _ in stream {} }
        try await eventually { Self.frames(hub) == 23 }
        send(21...21)
        try await eventually { Self.frames(hub) == 24 }
        reading.cancel()
        await expectEqual(hubError { try await reading.value }?.code, .cancelled)
        send(22...22)
        try await eventually { Self.frames(hub) == 25 }
        send(23...30)
        expectEqual(Self.frames(hub), 25)

        gate.fulfill(())?.resume()
        try await eventually { calls.all.count == 31 }
        expectEqual(calls.all, Array(0...30))
    }

    @Test func `large items that aren't read wait at the server while no call waits, and none is lost`() async throws {
        let hub = try await HubFixture.connected()
        let stream = try hub.client.stream("ticks", of: String.self)
        for _ in 1...20 { hub.server.send(#"{"type":2,"invocationId":"1","item":"\#(Self.large)"}"#) }
        expectEqual(Self.frames(hub), 2)
        hub.server.send(Self.completion(1))
        var sizes: [Int] = []
        for try await item in stream { sizes.append(item.utf8.count) }
        expectEqual(sizes, Array(repeating: 1 << 20, count: 20))
    }

    // MARK: Overflow

    /// A client with a call that waits, whose first handler doesn't return until the gate opens.
    private static func busy(
        _ calls: EventRecorder<Int>, _ gate: Waiter<Void>, _ configure: (inout HubConfiguration) -> Void = { _ in }
    ) async throws -> (hub: HubFixture, call: Task<Int, any Error>) {
        let hub = try await HubFixture.connected {
            $0.serverTimeout = .seconds(1000)
            configure(&$0)
        }
        hub.client.on("slow") { (text: String) in
            calls.record(text.utf8.count)
            await gate.value()
        }
        hub.server.send(Self.call("slow", #"["x"]"#))
        try await eventually { calls.all.count == 1 }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        return (hub, call)
    }

    /// Sends more than 16 MiB of invocations, and waits until the client doesn't read any more.
    private static func overflow(_ hub: HubFixture) async throws {
        for _ in 1...20 { hub.server.send(Self.call("slow", #"["\#(Self.large)"]"#)) }
        // The answer to the handshake, the call that is being handled, and those that wait.
        try await eventually { Self.frames(hub) >= 18 }
    }

    @Test func `a stream that isn't read ends when too much of it waits during a call, and the connection stays`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        let stream = try hub.client.stream("ticks", of: String.self)
        for _ in 1...20 { hub.server.send(#"{"type":2,"invocationId":"2","item":"\#(Self.large)"}"#) }
        hub.server.send(#"{"type":3,"invocationId":"1","result":5}"#)
        try await eventually { Self.frames(hub) >= 17 }
        hub.clock.advance(by: .seconds(29))
        expectEqual(hub.server.received.all.map { $0["type"] }, [1, 4])
        hub.clock.advance(by: .seconds(1))
        let messages = try await hub.server.received(3)
        expectEqual(messages.last, ["type": 5, "invocationId": "2"])
        try await expectEqual(call.value, 5)
        var count = 0
        let error = await hubError { for try await _ in stream { count += 1 } }
        expect(error?.code == .bufferOverflow && error?.message.contains("ticks") == true)
        // More than 16 MiB waited. What followed was ignored.
        expect(count >= 16 && count + hub.client.counters.messagesIgnored == 20)
        expect(hub.isConnected && hub.server.upgrades.all.count == 1 && hub.events.isEmpty)
        expectEqual(hub.server.received.all.count, 3)
    }

    @Test func `a call completes after a stream has overflowed, although another stream is full`() async throws {
        let hub = try await HubFixture.connected()
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        let ticks = try hub.client.stream("ticks", of: String.self)
        let full = try hub.client.stream("full", of: String.self)
        for _ in 1...2 { hub.server.send(#"{"type":2,"invocationId":"3","item":"\#(Self.large)"}"#) }
        for _ in 1...20 { hub.server.send(#"{"type":2,"invocationId":"2","item":"\#(Self.large)"}"#) }
        hub.server.send(#"{"type":3,"invocationId":"1","result":5}"#)
        try await eventually { Self.frames(hub) >= 19 }
        hub.clock.advance(by: .seconds(30))
        try await expectEqual(hub.server.received(4).last, ["type": 5, "invocationId": "2"])
        try await expectEqual(call.value, 5)
        await expectEqual(hubError { for try await _ in ticks {} }?.code, .bufferOverflow)
        hub.server.send(Self.completion(3))
        var count = 0
        for try await _ in full { count += 1 }
        expectEqual(count, 2)
    }

    @Test func `a stream that is read again in time doesn't end, and loses nothing`() async throws {
        let hub = try await HubFixture.connected { $0.serverTimeout = .seconds(1000) }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        let stream = try hub.client.stream("ticks", of: String.self)
        for _ in 1...20 { hub.server.send(#"{"type":2,"invocationId":"2","item":"\#(Self.large)"}"#) }
        hub.server.send(#"{"type":3,"invocationId":"1","result":5}"#)
        try await eventually { Self.frames(hub) >= 17 }
        hub.clock.advance(by: .seconds(29))
        let iterator = stream.makeAsyncIterator()
        for _ in 1...20 { try await expectEqual(iterator.next()?.utf8.count, 1 << 20) }
        try await expectEqual(call.value, 5)
        hub.clock.advance(by: .seconds(60))
        hub.server.send(Self.completion(2))
        try await expectNil(iterator.next())
        expect(hub.isConnected && hub.server.received.all.count == 2)
    }

    @Test func `the connection ends when handlers are too slow during a call`() async throws {
        let (calls, gate) = (EventRecorder<Int>(), Waiter<Void>())
        let (hub, call) = try await Self.busy(calls, gate) { $0.retry = .delays([.seconds(1)]) }
        try await Self.overflow(hub)
        hub.clock.advance(by: .seconds(29))
        expect(hub.isConnected)
        hub.clock.advance(by: .seconds(1))
        let error = try #require(await hubError { try await call.value })
        expectEqual(error.code, .bufferOverflow)
        try await eventually { hub.events.count == 2 }
        expectEqual(hub.events, [.reconnecting(error), .connectingIn(.seconds(1))])
        try await eventually { hub.server.ends.all == [.peer(.normal, "")] }
        hub.clock.advance(by: .seconds(1))
        expect(hub.isConnected && hub.server.connectionCount == 1)
        // What was received before the end is handled.
        gate.fulfill(())?.resume()
        try await eventually { calls.all.count >= 17 }
        expect(calls.all.dropFirst().allSatisfy { $0 == 1 << 20 })
    }

    @Test func `without a retry policy, handlers that are too slow during a call stop the client with the error`() async throws {
        let (calls, gate) = (EventRecorder<Int>(), Waiter<Void>())
        let (hub, call) = try await Self.busy(calls, gate)
        try await Self.overflow(hub)
        hub.clock.advance(by: .seconds(30))
        let error = try #require(await hubError { try await call.value })
        expectEqual(error.code, .bufferOverflow)
        expectEqual(hub.client.state, .stopped(error))
        gate.fulfill(())?.resume()
    }

    @Test func `handlers that catch up in time keep the connection, and all calls are handled`() async throws {
        let (calls, gate) = (EventRecorder<Int>(), Waiter<Void>())
        let (hub, call) = try await Self.busy(calls, gate)
        try await Self.overflow(hub)
        hub.clock.advance(by: .seconds(29))
        gate.fulfill(())?.resume()
        try await eventually { calls.all.count == 21 }
        hub.clock.advance(by: .seconds(60))
        hub.server.send(#"{"type":3,"invocationId":"1","result":5}"#)
        try await expectEqual(call.value, 5)
        expect(hub.isConnected && hub.server.upgrades.all.count == 1 && hub.events.isEmpty)
    }

    // MARK: Results

    @Test func `the result of a handler whose connection has ended is logged and not sent`() async throws {
        let log = EventRecorder<String>()
        let hub = try await HubFixture.connected {
            $0.retry = .delays([.seconds(1)])
            $0.log = LogSink(minimumLevel: .debug) { level, _, message in log.record("\(level): \(message)") }
        }
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("slow") {
            calls.record(1)
            await gate.value()
            return 1
        }
        hub.client.on("end") { 2 }
        hub.server.send(Self.call("slow", id: "s1"))
        try await eventually { calls.all.count == 1 }
        hub.network.cut()
        hub.clock.advance(by: .seconds(1))
        expect(hub.isConnected)
        gate.fulfill(())?.resume()
        try await eventually { log.all.contains { $0.hasPrefix("debug: ignored the result of a handler of slow") } }
        hub.server.send(Self.call("end", id: "s2"))
        try await expectEqual(hub.server.received(1), [["type": 3, "invocationId": "s2", "result": 2]])
        expectEqual(hub.client.counters.messagesIgnored, 1)
    }
}
