import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// Servers that say something wrong, or nothing, over plain sockets and TLS.
@Suite(.usesSockets, .timeLimit(.minutes(5))) struct MisbehavingServerTests {
    /// Runs `body` against a server that reads the request and then does as it is told, given the answer that would be right.
    private func with(
        over wire: Wire, _ script: @escaping @Sendable (RawPeer, _ rightAnswer: [UInt8]) throws -> Void,
        _ body: (Probe, any WebSocketConnection) async throws -> Void
    ) async throws {
        try await RawServer.with(
            { peer in
                try peer.secure(wire)
                try script(peer, try peer.answer())
            }, over: wire, body)
    }

    private func failure(_ probe: Probe) async -> TransportError? {
        guard case .transport(let error) = await probe.closed() else { return nil }
        return error
    }

    @Test(arguments: Wire.available)
    func `one that closes at once is told`(over wire: Wire) async throws {
        try await RawServer.with({ _ in }, over: wire) { probe, _ in
            let error = await self.failure(probe)
            #expect(error?.code == .closed || error?.code == .reset, "\(String(describing: error))")
        }
    }

    @Test(arguments: Wire.available)
    func `one that closes instead of answering is told`(over wire: Wire) async throws {
        try await self.with(over: wire, { _, _ in }) { probe, _ in
            #expect(await self.failure(probe)?.code == .closed)
        }
    }

    @Test(arguments: Wire.available)
    func `frames in the same segment as the answer are not lost`(over wire: Wire) async throws {
        try await self.with(
            over: wire,
            { peer, answer in
                try peer.send(answer + textFrame("one") + textFrame("two"))
                try peer.waitForTheEnd()
            }
        ) { probe, connection in
            _ = try await probe.opened()
            try await probe.expect(.text("one"))
            try await probe.expect(.text("two"))
            connection.abandon()
        }
    }

    @Test(
        arguments: [
            ("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno", 401),
            ("HTTP/1.1 302 Found\r\nLocation: http://example.org/\r\nContent-Length: 0\r\n\r\n", 302),
            ("HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", 503),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403),
            ("HTTP/1.1 200 OK\r\n\r\na page that the end of the connection ends", 200),
        ], Wire.available)
    func `another status is a refusal with that status`(answer: (text: String, status: Int), over wire: Wire) async throws {
        try await self.with(over: wire, { peer, _ in try peer.send(Array(answer.text.utf8)) }) { probe, _ in
            let error = await self.failure(probe)
            #expect(error?.code == .upgradeRefused && error?.status == answer.status, "\(String(describing: error))")
        }
    }

    @Test(
        arguments: [
            ("garbage\r\n\r\n", .protocolViolation),
            ("HTTP/1.1 200 OK", .closed),
            ("SSH-2.0-OpenSSH_9.2\r\n", .protocolViolation),
            ("\0\u{1}\u{2}\r\n", .protocolViolation),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", .protocolViolation),
            (
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: d3Jvbmc=\r\n\r\n",
                .protocolViolation
            ),
        ] as [(String, TransportError.Code)], Wire.available)
    func `garbage is told`(answer: (text: String, code: TransportError.Code), over wire: Wire) async throws {
        try await self.with(over: wire, { peer, _ in try peer.send(Array(answer.text.utf8)) }) { probe, _ in
            let error = await self.failure(probe)
            #expect(error?.code == answer.code, "\(String(describing: error))")
        }
    }

    @Test func `garbage instead of TLS is told`() async throws {
        try await RawServer.with({ try $0.send(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)) }, over: .tls) { probe, _ in
            #expect(await self.failure(probe)?.code == .tlsFailed)
        }
    }

    @Test(arguments: Wire.available)
    func `one that never answers is left at once`(over wire: Wire) async throws {
        // It may have gone before its request was whole. The script ends when it sees that.
        let script: @Sendable (RawPeer) throws -> Void = { peer in
            try? peer.secure(wire)
            try peer.waitForTheEnd()
        }
        try await RawServer.with(script, over: wire) { _, connection in connection.abandon() }
    }

    @Test(arguments: Wire.available, [false, true])
    func `one that never answers falls under the time limit`(over wire: Wire, speaksTLS: Bool) async throws {
        let server = try RawServer { peer in
            // On a slow machine the time may be over by then.
            if speaksTLS { try? peer.secure(wire) }
            try peer.waitForTheEnd()
        }
        let probe = Probe()
        let request = WebSocketRequest(wire.endpoint(server.port), timeout: .milliseconds(50))
        wire.transport().makeConnection(request, id: ConnectionID(rawValue: 1), events: probe).open()
        #expect(await self.failure(probe)?.code == .timedOut)
        await server.stop()
    }

    @Test(arguments: Wire.available)
    func `a cut within a frame ends the connection and keeps what came before`(over wire: Wire) async throws {
        try await self.with(
            over: wire, { peer, answer in try peer.send(answer + textFrame("whole") + [0x81, 100] + Array("part".utf8)) }
        ) { probe, _ in
            _ = try await probe.opened()
            try await probe.expect(.text("whole"))
            #expect(await self.failure(probe)?.code == .closed)
        }
    }

    /// The next byte is sent when the client has read the one before.
    @Test(arguments: Wire.available)
    func `one byte at a time is enough`(over wire: Wire) async throws {
        let loop = try EventLoop("byte by byte")
        let listener = try wire.listener()
        let behaving = BehavingServer(
            Behaviour(opened: { connection in
                for text in ["slow ü", ""] { connection.enqueue(.text(text)) }
                connection.close(CloseCode(rawValue: 4001), reason: "that was it")
            }))
        let address = try await listener.start(behaving)
        let count = Tally()
        let server = try RawServer { try relay($0, to: address.port, byteByByteTo: loop, count: count) }
        let probe = Probe()
        let connection = wire.transport(loop: loop).makeConnection(
            WebSocketRequest(wire.endpoint(server.port)), id: ConnectionID(rawValue: 1), events: probe)
        connection.open()
        _ = try await probe.opened()
        try await probe.expect(.text("slow ü"))
        try await probe.expect(.text(""))
        #expect(await probe.closed() == .peer(CloseCode(rawValue: 4001), "that was it"))
        await server.stop()
        await listener.stop()
        loop.shutdown()
        #expect(count.value > (wire == .plain ? 150 : 1000))
    }

    @Test(
        arguments: [
            ([0xC1, 0x01, 0x61], CloseCode.protocolError), ([0x83, 0x00], .protocolError),
            ([0x81, 0x81, 0, 0, 0, 0, 0x61], .protocolError),
            ([0x81, 0x01, 0xFF], .invalidPayload), ([0x82, 0x7F, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF], .tooLarge),
            ([0x09, 0x00], .protocolError), ([0x88, 0x01, 0x03], .protocolError), ([0x80, 0x00], .protocolError),
        ] as [([UInt8], CloseCode)], Wire.available)
    func `a bad frame ends the connection and not its neighbours`(frame: (bytes: [UInt8], code: CloseCode), over wire: Wire) async throws {
        let answered = Lock<[UInt8]>([])
        try await self.with(
            over: wire,
            { peer, answer in
                try peer.send(answer + textFrame("before") + frame.bytes + textFrame("after"))
                while case let more = try peer.receive(), !more.isEmpty { answered.withLock { $0 += more } }
            }
        ) { probe, _ in
            _ = try await probe.opened()
            try await probe.expect(.text("before"))
            let error = await self.failure(probe)
            #expect(error?.code == (frame.code == .tooLarge ? .tooLarge : .protocolViolation))
        }
        // A masked close frame with the code.
        let said = answered.withLock { $0 }
        try #require(said.count >= 8 && said[0] == 0x88)
        #expect(UInt16(said[6] ^ said[2]) << 8 | UInt16(said[7] ^ said[3]) == frame.code.rawValue)
    }
}
