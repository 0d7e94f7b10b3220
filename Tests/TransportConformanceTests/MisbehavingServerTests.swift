import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// A TCP server that says what it is told once a request has come, right or wrong.
private final class ScriptedServer: Sendable {
    /// Called on the loop's thread with the stream and the answer that would be right.
    typealias Script = @Sendable (SocketStream, _ rightAnswer: [UInt8]) -> Void

    private final class Visitor: StreamEvents {
        private let script: Script
        private let request = Lock<[UInt8]>([])

        init(_ script: @escaping Script) {
            self.script = script
        }

        func opened(_ stream: SocketStream) {}
        func drained(_ stream: SocketStream) {}

        func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
            let request = self.request.withLock { request -> [UInt8]? in
                request += bytes
                return request.suffix(4) == Array("\r\n\r\n".utf8)[...] ? request : nil
            }
            guard let request else { return }
            var decoder = HTTPRequestDecoder(bodyLimit: 0)
            let answer = request.withUnsafeBytes { bytes -> [UInt8] in
                var input = bytes
                guard case .head(let request)? = try? decoder.next(&input), case .valid(let offer) = ServerHandshake.check(request.head),
                    let head = try? ServerHandshake.accept(offer, subprotocol: nil)
                else { return [] }
                var output: [UInt8] = []
                try? HTTPEncoder.append(head, to: &output)
                return output
            }
            self.script(stream, answer)
        }

        func ended(_ stream: SocketStream, _ error: TransportError?) { stream.close() }
    }

    let port: Int
    private let listener: TCPListener

    init(_ script: @escaping Script) throws {
        self.listener = try TCPListener(loops: [.shared]) { _ in Visitor(script) }
        self.port = self.listener.address.port
    }

    func connect() -> (connection: any WebSocketConnection, probe: Probe) {
        let probe = Probe()
        let request = WebSocketRequest(Endpoint(scheme: "ws", host: "127.0.0.1", port: self.port))
        let connection = SocketTransport().makeConnection(request, id: ConnectionID(rawValue: 1), events: probe)
        connection.open()
        return (connection, probe)
    }

    func stop() async { await self.listener.stop() }
}

extension SocketStream {
    fileprivate func say(_ bytes: [UInt8]) {
        self.enqueue { $0 += bytes }
        self.flush()
    }
}

private func textFrame(_ text: String) -> [UInt8] { [0x81, UInt8(text.utf8.count)] + Array(text.utf8) }

@Suite(.usesSockets, .timeLimit(.minutes(5))) struct MisbehavingServerTests {
    private func with(_ script: @escaping ScriptedServer.Script, _ body: (Probe, any WebSocketConnection) async throws -> Void) async throws
    {
        let server = try ScriptedServer(script)
        let (connection, probe) = server.connect()
        try await body(probe, connection)
        connection.abandon()
        await server.stop()
    }

    private func failure(_ probe: Probe) async -> TransportError? {
        guard case .transport(let error) = await probe.closed() else { return nil }
        return error
    }

    @Test func oneThatClosesAtOnceIsTold() async throws {
        try await self.with({ stream, _ in stream.close() }) { probe, _ in
            let error = await self.failure(probe)
            #expect(error?.code == .closed || error?.code == .reset)
        }
    }

    @Test func framesInTheSameSegmentAsTheAnswerAreNotLost() async throws {
        try await self.with({ stream, answer in stream.say(answer + textFrame("one") + textFrame("two")) }) { probe, _ in
            _ = try await probe.opened()
            try await probe.expect(.text("one"))
            try await probe.expect(.text("two"))
        }
    }

    @Test(arguments: [
        ("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno", 401),
        ("HTTP/1.1 302 Found\r\nLocation: http://example.org/\r\nContent-Length: 0\r\n\r\n", 302),
        ("HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", 503),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403),
    ])
    func anotherStatusIsARefusalWithThatStatus(answer: String, status: Int) async throws {
        try await self.with({ stream, _ in stream.say(Array(answer.utf8)) }) { probe, _ in
            let error = await self.failure(probe)
            #expect(error?.code == .upgradeRefused && error?.status == status)
        }
    }

    @Test(arguments: [
        "garbage\r\n\r\n", "HTTP/1.1 200 OK", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: d3Jvbmc=\r\n\r\n",
    ])
    func garbageIsTold(answer: String) async throws {
        try await self.with({ stream, _ in
            stream.say(Array(answer.utf8))
            stream.finishWriting()
        }) { probe, _ in
            let error = await self.failure(probe)
            #expect(error != nil && [.protocolViolation, .closed, .upgradeRefused].contains(error!.code), "\(String(describing: error))")
        }
    }

    @Test func oneThatNeverAnswersIsLeftAtOnce() async throws {
        try await self.with({ _, _ in }) { _, connection in
            connection.abandon()
        }
    }

    @Test func oneThatNeverAnswersFallsUnderTheTimeLimit() async throws {
        let server = try ScriptedServer { _, _ in }
        let probe = Probe()
        let request = WebSocketRequest(Endpoint(scheme: "ws", host: "127.0.0.1", port: server.port), timeout: .milliseconds(50))
        SocketTransport().makeConnection(request, id: ConnectionID(rawValue: 1), events: probe).open()
        #expect(await self.failure(probe)?.code == .timedOut)
        await server.stop()
    }

    @Test func aCutWithinAFrameEndsTheConnectionAndKeepsWhatCameBefore() async throws {
        try await self.with({ stream, answer in
            stream.say(answer + textFrame("whole") + [0x81, 100] + Array("part".utf8))
            stream.finishWriting()
        }) { probe, _ in
            _ = try await probe.opened()
            try await probe.expect(.text("whole"))
            #expect(await self.failure(probe)?.code == .closed)
        }
    }

    @Test func oneByteAtATimeIsEnough() async throws {
        try await self.with({ stream, answer in
            for byte in answer + textFrame("slow ü") + textFrame("") { stream.say([byte]) }
        }) { probe, _ in
            _ = try await probe.opened()
            try await probe.expect(.text("slow ü"))
            try await probe.expect(.text(""))
        }
    }

    @Test(
        arguments: [
            ([0xC1, 0x01, 0x61], CloseCode.protocolError), ([0x83, 0x00], .protocolError),
            ([0x81, 0x81, 0, 0, 0, 0, 0x61], .protocolError),
            ([0x81, 0x01, 0xFF], .invalidPayload), ([0x82, 0x7F, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF], .tooLarge),
            ([0x09, 0x00], .protocolError), ([0x88, 0x01, 0x03], .protocolError), ([0x80, 0x00], .protocolError),
        ] as [([UInt8], CloseCode)])
    func aBadFrameEndsTheConnectionAndNotItsNeighbours(frame: [UInt8], code: CloseCode) async throws {
        try await self.with({ stream, answer in stream.say(answer + textFrame("before") + frame + textFrame("after")) }) { probe, _ in
            _ = try await probe.opened()
            try await probe.expect(.text("before"))
            let error = await self.failure(probe)
            #expect(error?.code == (code == .tooLarge ? .tooLarge : .protocolViolation))
        }
    }
}
