import PrimusWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import PrimusClient

/// Transforms, plugins with hooks, and the application's own parser and transformer.
@Suite(.timeLimit(.minutes(10))) struct TransformTests {
    private struct Failed: Error {}

    @Test func `asynchronous transforms keep the order of messages, in both directions`() async throws {
        let gate = Signal()
        let fixture = try await PrimusFixture {
            $0.transforms = [
                .outgoing { value in
                    // The first message waits longer than the others.
                    if value == 0 { await gate.wait() }
                    value = .array([value])
                    return true
                },
                .incoming { value in
                    if value == 0 { for _ in 0..<20 { await Task.yield() } }
                    value = .array([value])
                    return true
                },
            ]
        }
        let primus = try await fixture.open()
        let messages = primus.messages
        for number in 0..<4 { expect(primus.enqueue(number)) }
        expectEqual(primus.queuedCount, 4)
        gate.send()
        try await eventually { fixture.server.texts == ["[0]", "[1]", "[2]", "[3]"] }
        fixture.server.send("0", "1", "2")
        let iterator = messages.makeAsyncIterator()
        for number in 0..<3 as Range<Int64> { try await expectEqual(iterator.next()?.value, [.int(number)]) }
    }

    @Test func `a transform vetoes a message, and a failing one discards it`() async throws {
        let fixture = try await PrimusFixture {
            $0.transforms = [
                .outgoing { if $0 == "fail" { throw Failed() } else { $0 != "veto" } },
                .incoming { if $0 == "fail" { throw Failed() } else { $0 != "veto" } },
            ]
        }
        let primus = try await fixture.open()
        let (messages, errors) = (primus.messages, primus.errors)
        await expectEqual(#expect(throws: PrimusError.self) { try await primus.write("veto") }?.code, .vetoed)
        let failure = await #expect(throws: PrimusError.self) { try await primus.write("fail") }
        expect(failure?.code == .transformFailed && failure?.cause is Failed)
        try await primus.write("sent")
        expectEqual(fixture.server.texts, [#""sent""#])
        fixture.server.send(#""veto""#, #""fail""#, #""kept""#)
        try await expectEqual(messages.makeAsyncIterator().next()?.value, "kept")
        await expectEqual(errors.pending().map(\.code), [.transformFailed])
    }

    @Test func `what was written before the end is sent, though it is still in a transform`() async throws {
        let gate = Signal()
        let fixture = try await PrimusFixture {
            $0.transforms = [
                .outgoing { _ in
                    await gate.wait()
                    return true
                }
            ]
        }
        let primus = try await fixture.open()
        primus.enqueue("last")
        primus.end()
        expect(primus.state == .closed(nil) && fixture.server.connectionCount == 1)
        gate.send()
        try await eventually { fixture.server.connectionCount == 0 }
        expectEqual(fixture.server.texts, [#""last""#])
        primus.open()
        try await primus.opened()
    }

    @Test func `calls, answers and messages that don't wait, which are in a transform, aren't sent on the next connection`() async throws {
        let gate = Signal()
        let fixture = try await PrimusFixture {
            $0.plugins = [.emitter]
            $0.transforms = [
                .outgoing { _ in
                    await gate.wait()
                    return true
                }
            ]
        }
        let primus = try await fixture.open()
        let events = primus.emitter.on("question").makeAsyncIterator()
        fixture.server.send(#"{"type":0,"id":1,"data":["question"]}"#)
        let event = try #require(await events.next())
        try expect(event.acknowledge("late"))
        let call = Task { try await primus.emitter.send("ask", as: Int.self, within: .seconds(1_000)) }
        try await eventually { primus.queuedCount == 2 }
        let write = Task { try await primus.write("bound", ifNotOpen: .failIfNotOpen) }
        try await eventually { primus.queuedCount == 3 }
        primus.enqueue("kept")
        fixture.network.cut()
        for caller in [Task { _ = try await call.value }, write] {
            let error = await #expect(throws: PrimusError.self) { try await caller.value }
            expectEqual(error?.code, .connectionLost)
        }
        primus.reconnectNow()
        try await primus.opened()
        gate.send()
        try await eventually { fixture.server.texts.contains(#""kept""#) }
        expectEqual(fixture.server.texts, [#""kept""#])
    }

    @Test func `a transform that never returns delays the end for a limited time`() async throws {
        let gate = Signal()
        let fixture = try await PrimusFixture {
            $0.transforms = [
                .outgoing { _ in
                    await gate.wait()
                    return true
                }
            ]
        }
        let primus = try await fixture.open()
        let write = Task { try await primus.write("never") }
        try await eventually { primus.queuedCount == 1 }
        primus.end()
        fixture.clock.advance(by: .seconds(5))
        expectEqual(fixture.server.connectionCount, 0)
        await expectEqual(#expect(throws: PrimusError.self) { try await write.value }?.code, .ended)
        gate.send()
        try await eventually { primus.queuedCount == 0 }
        expect(fixture.server.texts.isEmpty)
    }

    @Test func `messages of Primus itself aren't transformed`() async throws {
        let fixture = try await PrimusFixture { $0.transforms = [.incoming { _ in false }, .outgoing { _ in false }] }
        let primus = try await fixture.open()
        fixture.server.send(#""primus::ping::5""#)
        expectEqual(fixture.server.texts, [#""primus::pong::5""#])
        withExtendedLifetime(primus) {}
    }

    private struct Recording: PrimusPlugin {
        let name = "recording"
        let events = EventRecorder<String>()

        func opened(isReconnect: Bool) async { self.events.record("opened \(isReconnect)") }
        func incoming(_ message: inout PrimusValue) async throws -> Bool { message != "hidden" }
        func outgoing(_ message: inout PrimusValue) async throws -> Bool {
            message = .array([message])
            return true
        }
        func url(_ endpoint: Endpoint) async throws -> Endpoint {
            var endpoint = endpoint
            endpoint.addQuery("plugin", "yes")
            return endpoint
        }
        func ended() async { self.events.record("ended") }
    }

    @Test func `the hooks of a plugin are called in order`() async throws {
        let plugin = Recording()
        let fixture = try await PrimusFixture { $0.plugins = [plugin] }
        let primus = try await fixture.open()
        let messages = primus.messages
        fixture.server.send(#""hidden""#, #""shown""#)
        let shown = try await messages.makeAsyncIterator().next()?.value
        expectEqual(shown, "shown")
        try await primus.write(1)
        expect(fixture.server.texts == ["[1]"] && fixture.server.upgrades.all.first?.target == "/primus?plugin=yes")
        fixture.network.cut()
        primus.reconnectNow()
        try await primus.opened()
        primus.end()
        try await eventually { plugin.events.all == ["opened false", "opened true", "ended"] }
        var configuration = fixture.configuration
        configuration.plugins.append(plugin)
        let twice = PrimusConnection(configuration)
        await expectEqual(#expect(throws: PrimusError.self) { try await twice.run() }?.code, .invalidConfiguration)
    }

    /// Writes values backwards, so that nothing of Primus is recognized without it.
    private struct Backwards: PrimusParser {
        let name = "backwards"
        func encode(_ value: PrimusValue) throws -> TransportMessage {
            .text(String((value.string ?? "\(value.int ?? 0)").reversed()))
        }
        func decode(_ packet: TransportMessage) throws -> PrimusValue {
            .string(String(String(decoding: packet.bytes, as: UTF8.self).reversed()))
        }
    }

    @Test(arguments: [PrimusTransformerKind.websockets, .engineIO]) func `a parser of the application carries everything`(
        transformer: PrimusTransformerKind
    ) async throws {
        var script = ScriptedPrimus.Script()
        let isEngineIO = transformer == .engineIO
        if isEngineIO { script.greeting = [.text(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#)] }
        let prefix = isEngineIO ? "4" : ""
        let fixture = try await PrimusFixture(script) {
            $0.customParser = Backwards()
            ($0.transformer, $0.detection) = (transformer, .off)
        }
        let primus = try await fixture.open()
        let messages = primus.messages
        try await primus.write("abc")
        fixture.server.send("\(prefix)71::gnip::sumirp", "\(prefix)zyx")
        try await expectEqual(messages.makeAsyncIterator().next()?.value, "xyz")
        expectEqual(fixture.server.texts, ["\(prefix)cba", "\(prefix)71::gnop::sumirp"])
    }

    private struct Bytes: PrimusParser {
        let name = "bytes"
        func encode(_ value: PrimusValue) throws -> TransportMessage {
            value.string == "text" ? .text("text") : TransportMessage(.binary, [0xFF])
        }
        func decode(_ packet: TransportMessage) throws -> PrimusValue { .string("") }
    }

    @Test func `bytes of a parser of the application aren't sent over sockjs, which carries text only`() async throws {
        let fixture = try await PrimusFixture(ScriptedPrimus.Script()) {
            $0.customParser = Bytes()
            ($0.transformer, $0.detection) = (.sockjs, .off)
        }
        let primus = try await fixture.open()
        let error = await #expect(throws: PrimusError.self) { try await primus.write("bytes") }
        expect(error?.code == .encodingFailed && error?.message.contains("SockJS carries text only") == true)
        try await primus.write("text")
        expect(fixture.server.texts == ["text"] && primus.isConnected)
    }

    /// Carries packets with a mark in front, several to a message.
    private struct Marked: PrimusCustomTransformer {
        let name = "marked"
        func webSocket(_ endpoint: Endpoint) -> Endpoint { endpoint.appending(path: "marked") }
        func packets(in message: TransportMessage) throws -> [TransportMessage] {
            let text = String(decoding: message.bytes, as: UTF8.self)
            guard text.hasPrefix("#") else { throw Failed() }
            return text.dropFirst().split(separator: "#").map { .text(String($0)) }
        }
        func message(for packet: TransportMessage) -> TransportMessage { .text("#\(String(decoding: packet.bytes, as: UTF8.self))") }
    }

    /// Calls a closure for each message that it translates.
    private final class Calling: PrimusCustomTransformer {
        let name = "calling"
        let body = Lock<(@Sendable () -> Void)?>(nil)
        func webSocket(_ endpoint: Endpoint) -> Endpoint { endpoint }
        func packets(in message: TransportMessage) -> [TransportMessage] { [message] }
        func message(for packet: TransportMessage) -> TransportMessage {
            self.body.withLock { $0 }?()
            return packet
        }
    }

    @Test func `a close that comes while a message is translated follows it`() {
        let (transformer, recording) = (Calling(), RecordingConnection())
        let request = PrimusRequest(
            connection: .webSocket(WebSocketRequest(Endpoint(scheme: "ws", host: "host", port: 80))),
            endpoint: Endpoint(scheme: "ws", host: "host", port: 80), framing: .plain, customTransformer: transformer, customParser: nil)
        let connection = PrimusTranslatedConnection(recording, PrimusTranslation(request))
        transformer.body.withLock { $0 = { [weak connection] in connection?.close(.normal, reason: "") } }
        connection.enqueue(.text("a"))
        connection.flush()
        expectEqual(recording.calls.all.filter { $0 != .flushed }, [.sent("a"), .closing(.normal)])
    }

    @Test func `a transformer of the application frames everything`() async throws {
        let fixture = try await PrimusFixture { $0.customTransformer = Marked() }
        let primus = try await fixture.open()
        let messages = primus.messages
        expectEqual(fixture.server.upgrades.all.map(\.target), ["/primus/marked"])
        fixture.server.send("broken", ##"#"primus::ping::1"#1#2"##)
        try await primus.write("out")
        expectEqual(fixture.server.texts, [##"#"primus::pong::1""##, ##"#"out""##])
        try await expectEqual(messages.pending().map { try $0.value }, [1, 2])
    }

    @Test func `a message that a transformer of the application can't read is an error, and its neighbors arrive`() async throws {
        let fixture = try await PrimusFixture { $0.customTransformer = Marked() }
        let primus = try await fixture.open()
        let (messages, errors, updates, frames) = (primus.messages, primus.errors, primus.updates(), primus.frames())
        fixture.server.send("#1", "secret and broken", "#2", "", "#3")
        try await expectEqual(messages.pending().map { try $0.value }, [1, 2, 3])
        let reported = await errors.pending()
        expect(reported.map(\.code) == [.invalidMessage, .invalidMessage] && reported.allSatisfy { $0.cause is Failed })
        let message = reported.first?.message ?? ""
        expect(message.contains("marked") && message.contains("Failed") && !message.contains("secret"), "\(message)")
        await expectEqual(updates.pending().count { if case .error = $0 { true } else { false } }, 2)
        await expectEqual(frames.pending().map(\.text), ["1", "secret and broken", "2", "", "3"])
        expect(primus.state == .open && primus.counters.messagesIgnored == 2)
    }
}
