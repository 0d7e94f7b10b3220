import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import RealtimeSockets

/// Servers that end a connection with RST instead of FIN, as one does whose process or machine has died.
@Suite(.usesSockets, .timeLimit(.minutes(5))) struct ResetTests {
    /// When it happens.
    enum Moment: String, CaseIterable, Sendable, CustomTestStringConvertible {
        case uponTheConnection = "as soon as it is accepted"
        case beforeTheAnswer = "before the answer"
        case withinTheAnswer = "in the middle of the answer"
        case afterTheAnswer = "right after the answer"
        case withinAFrame = "in the middle of a frame"
        case whileTheClientSends = "while the client sends"
        case afterTheCloseFrame = "after the server's close frame"
        case afterTheClientsCloseFrame = "after the client's close frame"

        var testDescription: String { self.rawValue }

        /// What a server does that dies then.
        func script(_ wire: Wire) -> RawServer.Script {
            { peer in
                defer { peer.reset() }
                if self == .uponTheConnection { return }
                try peer.secure(wire)
                let answer = try peer.answer()
                switch self {
                case .uponTheConnection, .beforeTheAnswer: break
                case .withinTheAnswer: try peer.send(Array(answer[..<(answer.count / 2)]))
                case .afterTheAnswer: try peer.send(answer)
                case .withinAFrame: try peer.send(answer + textFrame("whole") + [0x81, 100] + Array("a part".utf8))
                case .whileTheClientSends:
                    try peer.send(answer)
                    _ = try peer.receive(atMost: 1000)
                case .afterTheCloseFrame: try peer.send(answer + closeFrame(CloseCode(rawValue: 4200), "bye"))
                case .afterTheClientsCloseFrame:
                    try peer.send(answer)
                    _ = try peer.receive()
                }
            }
        }

        /// What the client's owner is told, all of it.
        func expect(_ probe: Probe, _ connection: any WebSocketConnection) async throws {
            switch self {
            case .uponTheConnection, .beforeTheAnswer, .withinTheAnswer: break
            case .afterTheAnswer: _ = try await probe.opened()
            case .withinAFrame:
                _ = try await probe.opened()
                try await probe.expect(.text("whole"))
            case .whileTheClientSends:
                _ = try await probe.opened()
                connection.enqueue(.binary(Array(repeating: 7, count: 16 << 20)))
                connection.flush()
            case .afterTheCloseFrame:
                _ = try await probe.opened()
                #expect(await probe.next() == .closed(.peer(CloseCode(rawValue: 4200), "bye")))
                return
            case .afterTheClientsCloseFrame:
                _ = try await probe.opened()
                connection.close(.normal, reason: "")
                #expect(await probe.next() == .closed(.requested))
                return
            }
            let last = await probe.next()
            guard case .closed(.transport(let error)) = last else {
                Issue.record("the end should be told, and not \(last)")
                return
            }
            #expect(error.code == .reset && error.message.contains("reset"), "\(self) \(error)")
        }
    }

    @Test(arguments: Moment.allCases, Wire.available)
    func `a reset is told at once and for what it is`(_ moment: Moment, over wire: Wire) async throws {
        try await RawServer.with(moment.script(wire), over: wire) { probe, connection in
            try await moment.expect(probe, connection)
            // Nothing more is heard of it, whatever is still asked of it.
            connection.enqueue(.text("into the void"))
            connection.flush()
            connection.close(.normal, reason: "")
            connection.open()
            await EventLoop.shared.settle()
            #expect(probe.isQuiet)
        }
    }

    /// Whichever byte of the server's is the last one: the client has what came before, and one end.
    @Test(arguments: Wire.available)
    func `a reset behind any byte is an end`(over wire: Wire) async throws {
        let listener = try wire.listener()
        let greeting = ["one", "two", "three"]
        let server = BehavingServer(
            Behaviour(opened: { connection in
                for word in greeting { connection.enqueue(.text(word)) }
                connection.flush()
            }))
        let address = try await listener.start(server)

        func run(_ limit: Int) async throws -> (count: Int, news: [Probe.News]) {
            let (count, probe) = (Tally(), Probe())
            let proxy = try RawServer { try relay($0, to: address.port, limit: limit, count: count) }
            let connection = wire.transport().makeConnection(
                WebSocketRequest(wire.endpoint(proxy.port)), id: ConnectionID(rawValue: 1), events: probe)
            connection.open()
            var news: [Probe.News] = []
            while true {
                news.append(await probe.next())
                if case .closed = news.last { break }
                if limit == .max, news.count == 1 + greeting.count { break }
            }
            connection.abandon()
            await proxy.stop()
            return (count.value, news)
        }

        let (total, all) = try await run(.max)
        #expect(all.dropFirst() == greeting.map { .message(.text($0)) }[...])
        // With TLS nearly all of it is certificates, and a signature may have a byte more or less.
        for limit in stride(from: 0, through: wire == .plain ? total : total - 8, by: wire == .plain ? 1 : 31) {
            let (_, news) = try await run(limit)
            guard case .closed(.transport(let error)) = news.last else {
                Issue.record("\(limit) bytes: \(news)")
                continue
            }
            #expect(error.code == .reset, "\(limit) bytes: \(error)")
            // What came before is what comes without a reset, up to a point.
            #expect(news.dropLast().dropFirst() == all.dropFirst().prefix(max(0, news.count - 2)), "\(limit) bytes: \(news)")
        }
        await listener.stop()
    }

    /// In memory there are no bytes: the network is cut between messages.
    @Test func `a cut in memory is a reset`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let listener = network.listener()
        let server = BehavingServer(
            Behaviour(
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
            case .closed(.transport(let error)): #expect(word != "close" && error.code == .reset)
            case .closed(let reason): #expect(word == "close" && reason == .peer(CloseCode(rawValue: 4200), "bye"))
            case let other: Issue.record("\(other)")
            }
            #expect(probe.isQuiet)
        }
        await listener.stop()
    }

    #if canImport(Glibc)
    @Test func `resets leave no descriptor behind`() async {
        await #expect(processExitsWith: .success) {
            func runAll() async throws {
                for wire in Wire.available {
                    for moment in Moment.allCases {
                        try await RawServer.with(moment.script(wire), over: wire) { try await moment.expect($0, $1) }
                    }
                }
                // What a connection holds, it gives back on the loop's thread.
                await EventLoop.shared.settle()
            }
            try await runAll()
            let before = ProcessUsage.now()
            for _ in 0..<5 { try await runAll() }
            let after = ProcessUsage.now()
            precondition(after.descriptors <= before.descriptors, "descriptors: \(before) \(after)")
            precondition(after.threads <= before.threads + 2, "threads: \(before) \(after)")
        }
    }
    #endif
}

extension EventLoop {
    /// Returns when what was asked of the loop before has been done.
    func settle() async {
        for _ in 0..<2 {
            let done = Signal()
            self.execute { done.send() }
            await done.wait()
        }
    }
}
