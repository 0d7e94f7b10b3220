import Foundation
import PrimusSwift
import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// A kind of connection over which the sequences of events are the same.
struct TraceKind: Sendable, CustomTestStringConvertible {
    let transformer: PrimusTransformerKind
    var websockets = true
    /// Whether the client moves from polling to a WebSocket.
    var moves = false
    /// The kind of connection that the client uses, if it isn't the first one that it would try.
    var connection: PrimusConnectionKind?
    var testDescription: String {
        let connection = self.connection.map { " over \($0)" } ?? ""
        return "\(self.transformer)\(self.websockets ? "" : " without WebSockets")\(self.moves ? " with a move" : "")\(connection)"
    }

    /// The kind of the connection, when it has moved.
    var transport: PrimusTransport {
        if self.websockets { return .webSockets }
        return self.transformer == .engineIO || self.connection == .polling ? .polling : .streaming
    }

    /// The framing of the server's packets. That of text is the same in both versions of engine.io.
    var framing: PrimusFraming {
        switch self.transformer {
        case .engineIO: .engineIO(.v4, .server)
        case .sockjs where !self.websockets || self.connection != nil: .sockJS(.server)
        default: .plain
        }
    }

    static let all = [
        TraceKind(transformer: .websockets), TraceKind(transformer: .engineIO), TraceKind(transformer: .engineIO, websockets: false),
        TraceKind(transformer: .engineIO, moves: true), TraceKind(transformer: .sockjs), TraceKind(transformer: .sockjs, websockets: false),
        TraceKind(transformer: .sockjs, connection: .framedWebSocket),
        TraceKind(transformer: .sockjs, websockets: false, connection: .polling),
    ]
}

/// The sequences of events of the client for JavaScript, as the listeners of this API see them.
@Suite(.timeLimit(.minutes(10))) struct TraceTests {
    private let opening = [
        "outgoing::open", "readyStateChange opening", "outgoing::end", "outgoing::url", "incoming::open", "initialised",
        "readyStateChange open",
    ]
    private let ended = ["readyStateChange end", "outgoing::end", "close", "end"]
    private let attempt = [
        "outgoing::reconnect", "outgoing::open", "readyStateChange opening", "outgoing::end", "outgoing::url", "reconnect",
    ]

    @Test(arguments: TraceKind.all) func `a client outlives a standstill of the process`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        try await test.open()
        for _ in 0..<3 {
            test.memory.clock.standStill(for: .seconds(3_600))
            test.memory.clock.advance(by: .seconds(1))
        }
        expect(
            test.primus.readyState == .open && test.trace.all.allSatisfy { !["reconnecting", "end", "close"].contains($0) },
            "\(test.trace.all)")
        test.primus.end()
    }

    @Test(arguments: TraceKind.all)
    func `opening, queued writes and open`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        test.primus.write("early")
        test.primus.open()
        try await test.awaits("open")
        expectEqual(test.trace.all, self.opening + ["outgoing::data", "open"])
    }

    @Test(arguments: TraceKind.all)
    func `the end of the user comes once, behind the last message`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        let events = test.memory.server.events.makeAsyncIterator()
        try await test.open()
        for _ in 0..<6 { test.primus.end(["last": 1]) }
        try await test.awaits("end")
        expectEqual(test.trace.all, ["outgoing::data"] + self.ended)
        while let event = await events.next() {
            guard case .received(_, let message) = event else { continue }
            expectEqual(message, .text(#"{"last":1}"#))
            break
        }
        try await test.settle()
        expect(test.trace.all == ["outgoing::data"] + self.ended && test.primus.readyState == .closed)
    }

    @Test(arguments: TraceKind.all)
    func `the server ends the connection behind a message, and the client doesn't reconnect`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        try await test.open()
        try test.memory.server.sparks[0].end("bye")
        try await test.awaits("end")
        expectEqual(test.trace.all, ["incoming::data", "data", "incoming::data", "incoming::end"] + self.ended)
        try await test.settle()
        expect(test.memory.server.sparks.isEmpty && test.trace.all.last == "end")
    }

    @Test(arguments: TraceKind.all)
    func `a drop, and the next connection`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        try await test.open()
        test.memory.network.cut()
        try await test.awaits("open")
        expectEqual(
            test.trace.all,
            ["incoming::end", "readyStateChange end", "close", "reconnect scheduled"] + self.attempt
                + ["incoming::open", "reconnected", "readyStateChange open", "open"])
    }

    @Test(arguments: TraceKind.all)
    func `a drop without strategies`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind) { $0.reconnect.strategies = [] }
        try await test.open()
        test.memory.network.cut()
        try await test.awaits("end")
        expectEqual(test.trace.all, ["incoming::end", "readyStateChange end", "close", "outgoing::end", "end"])
    }

    @Test(arguments: TraceKind.all)
    func `refusals at the start, until the attempts are used up`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind) { $0.reconnect.retries = 2 }
        test.memory.server.faults.refusalStatus = 503
        test.primus.open()
        try await test.awaits("readyStateChange end", containing: "reconnect failed")
        let failed = ["incoming::end", "readyStateChange end"]
        expectEqual(
            test.trace.all,
            self.opening.prefix(4) + ["incoming::error", "error", "reconnect scheduled"] + failed + self.attempt
                + ["incoming::error", "reconnect scheduled"] + failed + self.attempt + ["incoming::error", "end", "reconnect failed"]
                + failed)
    }

    @Test(arguments: TraceKind.all)
    func `a refusal without the strategy for it`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind) { $0.strategy = [.disconnect] }
        test.memory.server.faults.refusalStatus = 503
        test.primus.open()
        try await test.awaits("end")
        expectEqual(test.trace.all, self.opening.prefix(4) + ["incoming::error", "error"] + self.ended)
    }

    @Test(arguments: TraceKind.all)
    func `the time limit of the first attempt`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind) { ($0.strategy, $0.timeout, $0.autodetect) = ([.disconnect], 2, false) }
        test.memory.network.condition = .silent
        test.primus.open()
        try await test.awaits("end", advancingAfter: ["outgoing::url"])
        expectEqual(test.trace.all, self.opening.prefix(4) + ["timeout"] + self.ended)
    }

    @Test(arguments: TraceKind.all)
    func `an attempt that hangs has a limit, and the last one ends in the closed state`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind) { ($0.reconnect.retries, $0.reconnect.timeout) = (1, 3) }
        try await test.open()
        test.memory.network.condition = .silent
        test.memory.network.cut()
        try await test.awaits("readyStateChange end", advancingAfter: ["reconnect"], containing: "reconnect failed")
        expectEqual(
            test.trace.all,
            ["incoming::end", "readyStateChange end", "close", "reconnect scheduled"] + self.attempt
                + ["reconnect timeout", "end", "reconnect failed", "readyStateChange end"])
        expectEqual(test.primus.readyState, .closed)
    }

    @Test(arguments: TraceKind.all)
    func `silence means offline until the next connection`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        try await test.open()
        test.memory.server.faults.isSilent = true
        try await eventually {
            if test.primus.online { test.memory.clock.advance(by: .seconds(1)) }
            return test.trace.all.last == "reconnect scheduled"
        }
        expect(!test.primus.online)
        test.memory.server.faults.isSilent = false
        try await test.awaits("open")
        expectEqual(
            test.trace.all,
            ["offline", "incoming::end", "readyStateChange end", "close", "reconnect scheduled"] + self.attempt
                + ["incoming::open", "reconnected", "online", "readyStateChange open", "open"])
        expect(test.primus.online)
    }

    @Test(arguments: TraceKind.all)
    func `the end of the user while an attempt is scheduled`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        try await test.open()
        test.memory.network.condition = .down
        test.memory.network.cut()
        try await eventually { test.trace.all.last == "reconnect scheduled" }
        _ = test.trace.take()
        test.primus.end()
        try await eventually { !test.trace.all.isEmpty }
        test.memory.network.condition = .up
        try await test.settle()
        expect(test.trace.all == ["end"] && test.memory.server.sparks.isEmpty)
    }

    @Test(arguments: TraceKind.all)
    func `a bad frame is an error, and its neighbors arrive`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        try await test.open()
        let id = test.memory.server.sparks[0].id
        let packets = ["1", "{", "2"].map { TransportMessage.text($0) }
        for message in kind.framing.messages(packets) { test.memory.server.sendRaw(message, to: id) }
        try await eventually { test.trace.all.count == 6 }
        expectEqual(test.trace.all, ["incoming::data", "data", "incoming::data", "error", "incoming::data", "data"])
        expectEqual(test.primus.readyState, .open)
    }

    @Test(arguments: TraceKind.all)
    func `destroy ends the client for good`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        try await test.open()
        expect(test.primus.destroy())
        expect(!test.primus.destroy())
        try await test.awaits("destroy")
        expectEqual(test.trace.all, self.ended + ["destroy"])
        try await eventually { test.primus.listeners("open").isEmpty }
        test.primus.open()
        expect(!test.primus.write("late"))
        try await test.settle()
        expect(test.trace.all.last == "destroy" && test.primus.readyState == .closed)
    }

    @Test(arguments: TraceKind.all)
    func `destroy in a listener of open`(kind: TraceKind) async throws {
        let test = try await PrimusFixture(kind)
        test.primus.on("open", queue: test.queue) { [primus = test.primus] in _ = primus.destroy() }
        test.primus.open()
        try await test.awaits("destroy")
        expectEqual(test.trace.all, self.opening + ["open"] + self.ended + ["destroy"])
    }

    @Test func `the end before the client opens by itself`() async throws {
        let test = try await PrimusFixture()
        let options = PrimusFixture.options(test.memory)
        options.manual = false
        let (queue, trace) = (test.queue, EventRecorder<String>())
        // On the main actor, so that the client can't open in between.
        await MainActor.run {
            let primus = Primus(url: URL(string: test.memory.url)!, options: options)
            for event in PrimusFixture.events { primus.on(event, queue: queue) { trace.record(event) } }
            primus.end()
        }
        try await eventually { trace.all.last == "end" }
        try await test.settle()
        expect(trace.all == ["outgoing::end", "close", "end"] && test.memory.server.sparks.isEmpty)
    }

    @Test(arguments: TraceKind.all)
    func `a client that was ended stays ended when the network changes`(kind: TraceKind) async throws {
        let monitor = NetworkPathMonitor()
        let test = try await PrimusFixture(kind) { $0.transports?.networkPath = monitor }
        try await test.open()
        test.primus.end()
        try await test.awaits("end")
        monitor.pathChanged()
        try await test.settle()
        expect(test.trace.all == self.ended && test.memory.server.sparks.isEmpty)
    }

    @Test func `the strategy online alone connects again when the network is back`() async throws {
        let monitor = NetworkPathMonitor()
        let test = try await PrimusFixture {
            $0.transports?.networkPath = monitor
            $0.strategy = [.online]
        }
        try await test.open()
        test.memory.network.cut()
        try await test.awaits("end")
        _ = test.trace.take()
        monitor.pathChanged()
        try await test.awaits("open")
        expect(test.trace.all.contains("reconnect") && test.trace.all.contains("reconnected"), "\(test.trace.all)")
    }

    @Test func `a client that wasn't opened ends without events`() async throws {
        let test = try await PrimusFixture()
        _ = test.primus.client
        test.primus.end("unsent")
        test.primus.client.end()
        expectEqual(test.primus.client.queuedCount, 0)
        expect(test.primus.destroy())
        try await test.awaits("destroy")
        expectEqual(test.trace.all, ["destroy"])
    }
}
