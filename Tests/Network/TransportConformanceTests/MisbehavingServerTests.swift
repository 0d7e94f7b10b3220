import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// Servers that violate the protocol or do not respond, over plain sockets and TLS.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct MisbehavingServerTests {
    /// Runs `body` with a client of a server that reads the request and then runs a script.
    ///
    /// - Parameter script: Called with the response that would be correct.
    private func with(
        over wire: Wire, _ script: @escaping @Sendable (RawPeer, _ response: [UInt8]) throws -> Void,
        _ body: (Probe, any MessageConnection) async throws -> Void
    ) async throws {
        try await RawServer.with(
            { peer in
                try peer.secure(wire)
                try script(peer, try peer.acceptHandshake())
            }, over: wire, body)
    }

    private func failure(_ probe: Probe) async -> TransportError? {
        guard case .transport(let error) = await probe.closed() else { return nil }
        return error
    }

    @Test(arguments: Wire.available)
    func `a server that closes the connection immediately is an error`(over wire: Wire) async throws {
        try await RawServer.with({ _ in }, over: wire) { probe, _ in
            let error = await self.failure(probe)
            expect(error?.code == .closed || error?.code == .reset, "\(String(describing: error))")
        }
    }

    @Test(arguments: Wire.available)
    func `a server that closes the connection without a response is an error`(over wire: Wire) async throws {
        try await self.with(over: wire, { _, _ in }) { probe, _ in
            await expectEqual(self.failure(probe)?.code, .closed)
        }
    }

    @Test(arguments: Wire.available)
    func `frames in the same segment as the response are delivered`(over wire: Wire) async throws {
        try await self.with(
            over: wire,
            { peer, response in
                try peer.send(response + textFrame("one") + textFrame("two"))
                try peer.readUntilEnd()
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
    func `a status other than 101 is a rejection with that status`(response: (text: String, status: Int), over wire: Wire) async throws {
        try await self.with(over: wire, { peer, _ in try peer.send(Array(response.text.utf8)) }) { probe, _ in
            let error = await self.failure(probe)
            expect(error?.code == .upgradeRejected && error?.status == response.status, "\(String(describing: error))")
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
    func `an invalid response is an error`(response: (text: String, code: TransportError.Code), over wire: Wire) async throws {
        try await self.with(over: wire, { peer, _ in try peer.send(Array(response.text.utf8)) }) { probe, _ in
            let error = await self.failure(probe)
            expectEqual(error?.code, response.code, "\(String(describing: error))")
        }
    }

    @Test func `a response without TLS is a TLS error`() async throws {
        try await RawServer.with({ try $0.send(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)) }, over: .tls) { probe, _ in
            await expectEqual(self.failure(probe)?.code, .tlsFailed)
        }
    }

    @Test(arguments: Wire.available)
    func `a connection to a server that never responds can be abandoned`(over wire: Wire) async throws {
        // The client may disconnect before its request is complete, which ends the script.
        let script: @Sendable (RawPeer) throws -> Void = { peer in
            try? peer.secure(wire)
            try peer.readUntilEnd()
        }
        try await RawServer.with(script, over: wire) { _, connection in connection.abandon() }
    }

    @Test(arguments: Wire.available, [false, true])
    func `a connection to a server that never responds times out`(over wire: Wire, usesTLS: Bool) async throws {
        let server = try RawServer { peer in
            // On a slow machine the connection may have timed out already.
            if usesTLS { try? peer.secure(wire) }
            try peer.readUntilEnd()
        }
        let probe = Probe()
        let request = WebSocketRequest(wire.endpoint(server.port), timeout: .milliseconds(50))
        wire.transport().makeConnection(request, id: ConnectionID(rawValue: 1), events: probe).open()
        await expectEqual(self.failure(probe)?.code, .timedOut)
        await server.stop()
    }

    @Test(arguments: Wire.available)
    func `an end inside a frame is an error after the messages before it`(over wire: Wire) async throws {
        try await self.with(
            over: wire, { peer, response in try peer.send(response + textFrame("whole") + [0x81, 100] + Array("part".utf8)) }
        ) { probe, _ in
            _ = try await probe.opened()
            try await probe.expect(.text("whole"))
            await expectEqual(self.failure(probe)?.code, .closed)
        }
    }

    /// The server sends each byte after the client has read the previous one.
    @Test(arguments: Wire.available)
    func `a connection that transmits one byte at a time delivers every message`(over wire: Wire) async throws {
        let loop = try EventLoop("byte by byte")
        let listener = try wire.listener()
        let scripted = ScriptedServer(
            Behavior(opened: { connection in
                for text in ["slow ü", ""] { connection.enqueue(.text(text)) }
                connection.close(CloseCode(rawValue: 4001), reason: "the end")
            }))
        let address = try await listener.start(scripted)
        let count = Tally()
        let server = try RawServer { try relay($0, to: address.port, byteByByteTo: loop, count: count) }
        let probe = Probe()
        let connection = wire.transport(loop: loop).makeConnection(
            WebSocketRequest(wire.endpoint(server.port), timeout: .seconds(600)), id: ConnectionID(rawValue: 1), events: probe)
        connection.open()
        _ = try await probe.opened()
        try await probe.expect(.text("slow ü"))
        try await probe.expect(.text(""))
        await expectEqual(probe.closed(), .peer(CloseCode(rawValue: 4001), "the end"))
        await server.stop()
        await listener.stop()
        loop.shutdown()
        expect(count.value > (wire == .plain ? 150 : 1000))
    }

    @Test(
        arguments: [
            ([0xC1, 0x01, 0x61], CloseCode.protocolError), ([0x83, 0x00], .protocolError),
            ([0x81, 0x81, 0, 0, 0, 0, 0x61], .protocolError),
            ([0x81, 0x01, 0xFF], .invalidPayload), ([0x82, 0x7F, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF], .tooLarge),
            ([0x09, 0x00], .protocolError), ([0x88, 0x01, 0x03], .protocolError), ([0x80, 0x00], .protocolError),
        ] as [([UInt8], CloseCode)], Wire.available)
    func `an invalid frame ends the connection after the messages before it`(
        frame: (bytes: [UInt8], code: CloseCode), over wire: Wire
    ) async throws {
        let received = Lock<[UInt8]>([])
        try await self.with(
            over: wire,
            { peer, response in
                try peer.send(response + textFrame("before") + frame.bytes + textFrame("after"))
                while case let more = try peer.receive(), !more.isEmpty { received.withLock { $0 += more } }
            }
        ) { probe, _ in
            _ = try await probe.opened()
            try await probe.expect(.text("before"))
            let error = await self.failure(probe)
            expectEqual(error?.code, (frame.code == .tooLarge ? .tooLarge : .protocolViolation))
        }
        // The client has sent a masked close frame with the code.
        let bytes = received.withLock { $0 }
        try #require(bytes.count >= 8 && bytes[0] == 0x88)
        expectEqual(UInt16(bytes[6] ^ bytes[2]) << 8 | UInt16(bytes[7] ^ bytes[3]), frame.code.rawValue)
    }
}
