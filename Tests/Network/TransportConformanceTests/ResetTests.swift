import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import RealtimeSockets

/// Servers that end a connection with RST instead of FIN, like a process that was killed.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct ResetTests {
    /// The point at which the server resets the connection.
    enum Moment: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case afterAccept = "after accepting"
        case beforeResponse = "before the response"
        case insideResponse = "inside the response"
        case afterResponse = "after the response"
        case insideFrame = "inside a frame"
        case whileClientSends = "while the client sends"
        case afterCloseFrame = "after the server's close frame"
        case afterClientCloseFrame = "after the client's close frame"

        var testDescription: String { self.rawValue }

        /// The script of the server.
        func script(_ wire: Wire) -> RawServer.Script {
            { peer in
                defer { peer.reset() }
                if self == .afterAccept { return }
                try peer.secure(wire)
                let response = try peer.acceptHandshake()
                switch self {
                case .afterAccept, .beforeResponse: break
                case .insideResponse: try peer.send(Array(response[..<(response.count / 2)]))
                case .afterResponse: try peer.send(response)
                case .insideFrame: try peer.send(response + textFrame("whole") + [0x81, 100] + Array("a part".utf8))
                case .whileClientSends:
                    try peer.send(response)
                    _ = try peer.receive(atMost: 1000)
                case .afterCloseFrame: try peer.send(response + closeFrame(CloseCode(rawValue: 4200), "bye"))
                case .afterClientCloseFrame:
                    try peer.send(response)
                    _ = try peer.receive()
                }
            }
        }

        /// Expects all events of the client's connection.
        func expect(_ probe: Probe, _ connection: any MessageConnection) async throws {
            switch self {
            case .afterAccept, .beforeResponse, .insideResponse: break
            case .afterResponse: _ = try await probe.opened()
            case .insideFrame:
                _ = try await probe.opened()
                try await probe.expect(.text("whole"))
            case .whileClientSends:
                _ = try await probe.opened()
                connection.enqueue(.binary(Array(repeating: 7, count: 16 << 20)))
                connection.flush()
            case .afterCloseFrame:
                _ = try await probe.opened()
                await expectEqual(probe.next(), .closed(.peer(CloseCode(rawValue: 4200), "bye")))
                return
            case .afterClientCloseFrame:
                _ = try await probe.opened()
                connection.close(.normal, reason: "")
                await expectEqual(probe.next(), .closed(.requested))
                return
            }
            var last = await probe.next()
            while case .writing = last { last = await probe.next() }
            guard case .closed(.transport(let error)) = last else {
                Issue.record("expected an error, not \(last)")
                return
            }
            #expect(error.code == .reset && error.message.contains("reset"), "\(self) \(error)")
        }
    }

    @Test(arguments: Moment.allCases, Wire.available)
    func `a reset is reported immediately and as a reset`(_ moment: Moment, over wire: Wire) async throws {
        try await RawServer.with(moment.script(wire), over: wire) { probe, connection in
            try await moment.expect(probe, connection)
            // Calls no longer have an effect.
            connection.enqueue(.text("dropped"))
            connection.flush()
            connection.close(.normal, reason: "")
            connection.open()
            await EventLoop.shared.settle()
            expect(probe.isEmpty)
        }
    }

    /// Resets the connection after every possible number of bytes. The client receives the messages before it, and one end.
    @Test(arguments: Wire.available)
    func `a reset after any byte ends the connection`(over wire: Wire) async throws {
        let listener = try wire.listener()
        let texts = ["one", "two", "three"]
        let server = ScriptedServer(
            Behavior(opened: { connection in
                for text in texts { connection.enqueue(.text(text)) }
                connection.flush()
            }))
        let address = try await listener.start(server)

        func run(_ limit: Int) async throws -> (count: Int, events: [Probe.Event]) {
            let (count, probe) = (Tally(), Probe())
            let proxy = try RawServer { try relay($0, to: address.port, limit: limit, count: count) }
            let connection = wire.transport().makeConnection(
                WebSocketRequest(wire.endpoint(proxy.port), timeout: .seconds(600)), id: ConnectionID(rawValue: 1), events: probe)
            connection.open()
            var events: [Probe.Event] = []
            while true {
                events.append(await probe.next())
                if case .closed = events.last { break }
                if limit == .max, events.count == 1 + texts.count { break }
            }
            connection.abandon()
            await proxy.stop()
            return (count.value, events)
        }

        let (total, all) = try await run(.max)
        expectEqual(all.dropFirst(), texts.map { .message(.text($0)) }[...])
        // With TLS most of the bytes are certificates, and the length of a signature varies by a few bytes.
        for limit in stride(from: 0, through: wire == .plain ? total : total - 8, by: wire == .plain ? 1 : 31) {
            let (_, events) = try await run(limit)
            guard case .closed(.transport(let error)) = events.last else {
                Issue.record("\(limit) bytes: \(events)")
                continue
            }
            expectEqual(error.code, .reset, "\(limit) bytes: \(error)")
            // The events before the end are the first ones of a run without a reset.
            expectEqual(events.dropLast().dropFirst(), all.dropFirst().prefix(max(0, events.count - 2)), "\(limit) bytes: \(events)")
        }
        await listener.stop()
    }

    /// The in-memory network transmits messages and not bytes, so it is cut between messages.
    @Test func `cutting the in-memory network is reported as a reset`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let listener = network.listener()
        let server = ScriptedServer(
            Behavior(
                opened: { connection in
                    connection.enqueue(.text("hello"))
                    connection.flush()
                },
                received: { connection, message in
                    switch message {
                    case .text("cut"): network.cut()
                    case .text("leave"): connection.abandon()
                    default:
                        connection.close(CloseCode(rawValue: 4200), reason: "bye")
                        network.cut()
                    }
                }))
        let address = try await listener.start(server)
        for word in ["cut", "leave", "close"] {
            let probe = Probe()
            let connection = network.webSocket.makeConnection(
                WebSocketRequest(Endpoint(scheme: "ws", host: address.host, port: address.port)), id: ConnectionID(rawValue: 1),
                events: probe)
            connection.open()
            _ = try await probe.opened()
            try await probe.expect(.text("hello"))
            connection.enqueue(.text(word))
            connection.flush()
            switch await probe.next() {
            case .closed(.transport(let error)): expect(word != "close" && error.code == .reset)
            case .closed(let reason): expect(word == "close" && reason == .peer(CloseCode(rawValue: 4200), "bye"))
            case let other: Issue.record("\(other)")
            }
            expect(probe.isEmpty)
        }
        await listener.stop()
    }

    #if canImport(Glibc)
    @Test func `resets leak no descriptor`() async {
        await #expect(processExitsWith: .success) {
            func runAll() async throws {
                for wire in Wire.available {
                    for moment in Moment.allCases {
                        try await RawServer.with(moment.script(wire), over: wire) { try await moment.expect($0, $1) }
                    }
                }
                // Connections release their descriptors on the loop's thread.
                await EventLoop.shared.settle()
            }
            try await runAll()
            let before = ProcessUsage.now()
            for _ in 0..<5 { try await runAll() }
            try await ProcessUsage.expectRelease(since: before, growthKiB: nil)
        }
    }
    #endif
}

extension EventLoop {
    /// Returns when the loop has completed all earlier requests.
    func settle() async {
        for _ in 0..<2 {
            let done = Signal()
            self.execute { done.send() }
            await done.wait()
        }
    }
}
