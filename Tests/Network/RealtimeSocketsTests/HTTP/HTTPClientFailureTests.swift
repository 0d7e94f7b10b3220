import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct HTTPClientFailureTests {
    struct Invalid: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var response: String
        var code: TransportError.Code

        init(_ name: String, _ response: String, _ code: TransportError.Code) {
            self.testDescription = name
            self.response = response
            self.code = code
        }
    }

    private static let ok = "HTTP/1.1 200 OK\r\n"
    private static let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    static let invalid: [Invalid] = [
        Invalid("no bytes", "", .closed),
        Invalid("truncated in the status line", "HTTP/1.1 2", .closed),
        Invalid("truncated after the status line", Self.ok, .closed),
        Invalid("truncated in a field", Self.ok + "Content-Le", .closed),
        Invalid("truncated before the empty line", Self.ok + "Content-Length: 5\r\n", .closed),
        Invalid("only 100 Continue", "HTTP/1.1 100 Continue\r\n\r\n", .closed),
        Invalid("truncated in the head after 100 Continue", "HTTP/1.1 100 Continue\r\n\r\n" + Self.ok, .closed),
        Invalid("truncated in a body with a length", Self.ok + "Content-Length: 5\r\n\r\nhel", .closed),
        Invalid("truncated in a chunk", Self.chunked + "5\r\nhel", .closed),
        Invalid("truncated between chunks", Self.chunked + "3\r\nhel\r\n", .closed),
        Invalid("truncated in the trailers", Self.chunked + "3\r\nhel\r\n0\r\nTrailer: a\r\n", .closed),
        Invalid("an invalid chunk size", Self.chunked + "zz\r\nhello", .protocolViolation),
        Invalid("a negative chunk size", Self.chunked + "-5\r\nhello", .protocolViolation),
        Invalid("a chunk size that overflows", Self.chunked + "ffffffffffffffffff\r\nhello", .protocolViolation),
        Invalid("a chunk longer than its size", Self.chunked + "2\r\nhello", .protocolViolation),
        Invalid("an invalid trailer", Self.chunked + "0\r\nno colon\r\n\r\n", .protocolViolation),
        Invalid("an invalid length", Self.ok + "Content-Length: five\r\n\r\nhello", .protocolViolation),
        Invalid("a negative length", Self.ok + "Content-Length: -5\r\n\r\nhello", .protocolViolation),
        Invalid("a length that overflows", Self.ok + "Content-Length: 99999999999999999999\r\n\r\nhello", .protocolViolation),
        Invalid("two lengths", Self.ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", .protocolViolation),
        Invalid("an unsupported transfer coding", Self.ok + "Transfer-Encoding: gzip\r\n\r\nhello", .protocolViolation),
        Invalid("no colon", Self.ok + "no colon\r\n\r\n", .protocolViolation),
        Invalid("an empty name", Self.ok + ": value\r\n\r\n", .protocolViolation),
        Invalid("a name with a space", Self.ok + "A name: value\r\n\r\n", .protocolViolation),
        Invalid("a NUL", Self.ok + "X: a\0b\r\n\r\n", .protocolViolation),
        Invalid("bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", .protocolViolation),
        Invalid("a line of 200 kB", Self.ok + "X: \(String(repeating: "a", count: 200_000))\r\n\r\n", .tooLarge),
        Invalid(
            "a head of 300 kB", Self.ok + String(repeating: "X: \(String(repeating: "a", count: 997))\r\n", count: 300) + "\r\n", .tooLarge),
        Invalid("20,000 fields", Self.ok + String(repeating: "X:\r\n", count: 20_000) + "\r\n", .tooLarge),
        Invalid("endless interim responses", String(repeating: "HTTP/1.1 102 Processing\r\n\r\n", count: 1000), .protocolViolation),
        Invalid("not HTTP", "220 mail ready\r\n", .protocolViolation),
        Invalid("SSH", "SSH-2.0-OpenSSH\r\n", .protocolViolation),
        Invalid("a status that is not a number", "HTTP/1.1 abc OK\r\n\r\n", .protocolViolation),
        Invalid("a status of two digits", "HTTP/1.1 20 OK\r\n\r\n", .protocolViolation),
        Invalid("an unsupported version", "HTTP/2.0 200 OK\r\n\r\n", .protocolViolation),
        Invalid("an unrequested upgrade", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", .protocolViolation),
    ]

    @Test(arguments: Self.invalid)
    func `an invalid response is an error`(_ invalid: Invalid) async throws {
        try await ScriptedServer.responding(invalid.response) { server in
            let error = await SocketHTTPTransport().failure(.get(server.endpoint))
            expectEqual(error?.code, invalid.code, "\(error?.message ?? "")")
            expectEqual(error?.message.hasPrefix(server.endpoint.origin), true)
            expectNil(error?.status)
            if invalid.response.isEmpty { expectEqual(error?.message.contains("use https://"), true, "\(error?.message ?? "")") }
        }
    }

    @Test(.requires(.openSSL), arguments: Self.invalid)
    func `an invalid response over TLS is an error`(_ invalid: Invalid) async throws {
        try await ScriptedServer.responding(invalid.response, tls: .test) { server in
            let error = await SocketHTTPTransport(tls: .trustingTestRoot).failure(.get(server.endpoint))
            expectEqual(error?.code, invalid.code, "\(error?.message ?? "")")
        }
    }

    /// An attacker who cuts a connection can't end it within TLS.
    @Test(.requires(.openSSL), arguments: [false, true])
    func `a body that ends with its connection is complete only if the server has ended it within TLS`(isCut: Bool) async throws {
        let mayEnd = Signal()
        try await ScriptedServer.run(tls: .test) { stream, _ in
            stream.send((Self.ok + "\r\nhello").utf8)
            await mayEnd.wait()
            // The loop ends its connections without an alert.
            if isCut { stream.loop.shutdown() } else { stream.finishWriting() }
        } _: { server in
            let body = try await SocketHTTPTransport(tls: .trustingTestRoot).open(.get(server.endpoint)).body
            var received: [UInt8] = []
            while received.count < 5, let piece = try await body.next() { received += piece }
            expectEqual(received, Array("hello".utf8))
            mayEnd.send()
            if isCut {
                let error = await #expect(throws: TransportError.self) { try await body.next() }
                expect(error?.code == .closed || error?.code == .reset, "\(error?.message ?? "")")
            } else {
                try await expectNil(body.next())
            }
        }
    }

    @Test func `data that arrives before a failure is delivered`() async throws {
        try await ScriptedServer.responding(Self.ok + "Content-Length: 10\r\n\r\nhello") { server in
            let response = try await SocketHTTPTransport().open(.get(server.endpoint))
            expectEqual(response.head.status, 200)
            var body: [UInt8] = []
            let error = await #expect(throws: TransportError.self) {
                while let piece = try await response.body.next() { body += piece }
            }
            expectEqual(body, Array("hello".utf8))
            // A server that has answered expects no TLS.
            expectEqual(error?.message.contains("https"), false, "\(error?.message ?? "")")
            // Later reads fail too, so the body is never mistaken for a complete one.
            await #expect(throws: TransportError.self) { try await response.body.next() }
        }
    }

    @Test func `connecting to a port without a listener is refused`() async throws {
        let port = TestPort.refusing()
        let error = await SocketHTTPTransport().failure(.get(Endpoint(scheme: "http", host: "127.0.0.1", port: port)))
        expectEqual(error?.code, .refused)
        expectEqual(error?.message.contains("127.0.0.1:\(port)"), true)
    }

    @Test func `a host name without an address is reported as not found`() async throws {
        struct NoResolver: HostResolver {
            func resolve(_ host: String, port: Int, _ completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void) {
                completion(.failure(.noAddress(host)))
            }
        }
        let transport = SocketHTTPTransport(loop: .shared, resolver: NoResolver())
        let error = await transport.failure(.get(Endpoint(scheme: "http", host: "no.such.test", port: 80)))
        expectEqual(error?.code, .nameNotFound)
        expectEqual(error?.message.contains("no.such.test"), true)
    }

    @Test(arguments: ["", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"])
    func `a reset connection is reported as reset`(_ response: String) async throws {
        let (listener, port) = try RawSocket.listening()
        let peer = PosixThread("test-peer") {
            guard let socket = try? listener.accepted() else { return }
            _ = socket.receive(20)
            socket.send(Array(response.utf8))
            socket.reset()
        }
        let error = await SocketHTTPTransport().failure(.get(Endpoint(scheme: "http", host: "127.0.0.1", port: port)))
        expectEqual(error?.code, .reset)
        peer?.detach()
        listener.close()
    }

    @Test(arguments: [
        "", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    ])
    func `a server that stops sending triggers the idle timeout`(_ response: String) async throws {
        try await ScriptedServer.run({ stream, _ in stream.send(response.utf8) }) { server in
            var request = HTTPRequest.get(server.endpoint)
            request.idleTimeout = .milliseconds(30)
            let error = await SocketHTTPTransport().failure(request)
            expectEqual(error?.code, .timedOut)
            expectEqual(error?.message.contains("idleTimeout"), true)
            let recorder = await server.connections.wait(1)[0]
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
        }
    }

    /// Records the events of an exchange.
    private final class Recorder: HTTPExchangeEvents {
        let events = Log<String>()

        func received(_ head: HTTPResponseHead, of id: ExchangeID) { self.events.add("\(head.status)") }
        func received(_ body: [UInt8], of id: ExchangeID) { self.events.add(String(decoding: body, as: UTF8.self)) }
        func ended(_ id: ExchangeID, _ error: TransportError?) { self.events.add(error.map { "\($0.code)" } ?? "complete") }
    }

    @Test(arguments: [false, true])
    func `an idle timeout that passed while the process stood still begins anew, once for each wait`(answers: Bool) async throws {
        let mayAnswer = Signal()
        let script: ScriptedServer.Script = { stream, _ in
            stream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na".utf8)
            await mayAnswer.wait()
            stream.send("b".utf8)
        }
        try await ScriptedServer.run(script) { server in
            let loop = try EventLoop("test-client")
            let recorder = Recorder()
            let transport = SocketHTTPTransport(loop: loop)
            let exchange = try #require(
                transport.makeExchange(.get(server.endpoint), id: ExchangeID(rawValue: 1), events: recorder) as? HTTPClientExchange)
            exchange.start()
            await expectEqual(recorder.events.wait(2), ["200", "a"])
            // The timer fires after a standstill.
            let continued = loop.now.advanced(by: .seconds(10_000))
            loop.execute { exchange.deadlinePassed(now: continued) }
            await loop.turn()
            expectEqual(recorder.events.entries.count, 2)
            if answers {
                mayAnswer.send()
                await expectEqual(recorder.events.wait(4).suffix(2), ["b", "complete"])
            } else {
                loop.execute { exchange.deadlinePassed(now: continued.advanced(by: .seconds(10_000))) }
                await expectEqual(recorder.events.wait(3).last, "timedOut")
                mayAnswer.send()
            }
            loop.shutdown()
        }
    }

    @Test func `a server that does not read the request triggers the idle timeout`() async throws {
        try await ScriptedServer.run(stopsReading: true, { _, _ in }) { server in
            var request = HTTPRequest.forTests("POST", server.endpoint, body: [UInt8](repeating: 0, count: 32 << 20))
            request.idleTimeout = .milliseconds(50)
            await expectEqual(SocketHTTPTransport().failure(request)?.code, .timedOut)
        }
    }

    @Test func `a slow reader does not trigger the idle timeout`() async throws {
        let size = 8 << 20
        let loop = try EventLoop("test")
        let bytes = Array("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n".utf8) + [UInt8](repeating: 7, count: size)
        let listener = try TCPListener(loops: [loop]) { _ in EventRecorder(onReceived: { stream, _ in stream.send(bytes) }) }
        var request = HTTPRequest.get(Endpoint(scheme: "http", host: "127.0.0.1", port: listener.address.port))
        var result = Result<Int, TransportError>.success(0)
        // The timeout also applies before and after the pause. If a busy machine exceeds it there, the next attempt has a longer one.
        for milliseconds in [100, 400, 1_600, 6_400] {
            request.idleTimeout = .milliseconds(milliseconds)
            result = await Self.readSlowly(request, loop)
            if case .success = result { break }
        }
        expectEqual(result, .success(size))
        loop.shutdown()
    }

    /// Waits for longer than the idle timeout before it reads the response. Returns the number of bytes that it has read.
    private static func readSlowly(_ request: HTTPRequest, _ loop: EventLoop) async -> Result<Int, TransportError> {
        do throws(TransportError) {
            let response = try await SocketHTTPTransport(loop: loop).open(request)
            // Measured by the loop's own clock.
            let alarm = Signal()
            loop.schedule(alarm, at: loop.now.advanced(by: request.idleTimeout * 3))
            await alarm.wait()
            var count = 0
            while let piece = try await response.body.next() { count += piece.count }
            return .success(count)
        } catch {
            return .failure(error)
        }
    }

    @Test func `a connection that is not established triggers the connect timeout`() async throws {
        struct SilentResolver: HostResolver {
            func resolve(_ host: String, port: Int, _ completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void) {}
        }
        var request = HTTPRequest.get(Endpoint(scheme: "http", host: "never.test", port: 80))
        request.connectTimeout = .milliseconds(10)
        await expectEqual(SocketHTTPTransport(loop: .shared, resolver: SilentResolver()).failure(request)?.code, .timedOut)
    }

    @Test(.requires(.openSSL)) func `a server without TLS triggers the connect timeout`() async throws {
        try await ScriptedServer.run({ _, _ in }) { server in
            var request = HTTPRequest.get(server.endpoint)
            request.endpoint.scheme = "https"
            request.connectTimeout = .milliseconds(50)
            await expectEqual(SocketHTTPTransport().failure(request)?.code, .timedOut)
        }
    }

    @Test func `a request on a stopped loop fails`() async throws {
        let loop = try EventLoop("test")
        loop.shutdown()
        let error = await SocketHTTPTransport(loop: loop).failure(.get(Endpoint(scheme: "http", host: "127.0.0.1", port: 9)))
        expectEqual(error?.code, .closed)
    }

    @Test func `stopping the loop fails requests in progress`() async throws {
        let loop = try EventLoop("test")
        try await ScriptedServer.run({ _, _ in loop.shutdown() }) { server in
            await expectEqual(SocketHTTPTransport(loop: loop).failure(.get(server.endpoint))?.code, .closed)
        }
    }

    static let unsendable: [(HTTPRequest, TransportError.Code)] = {
        let endpoint = Endpoint(scheme: "http", host: "127.0.0.1", port: 9)
        return [
            (.get(Endpoint(scheme: "ws", host: "127.0.0.1", port: 9)), .unsupported),
            (.get(Endpoint(scheme: "wss", host: "127.0.0.1", port: 9)), .unsupported),
            (.get(Endpoint(scheme: "ftp", host: "127.0.0.1", port: 9)), .unsupported),
            (.get(endpoint, ["X": "a\r\nEvil: b"]), .unsupported),
            (.get(endpoint, ["X\r\nEvil": "a"]), .unsupported),
            (.get(endpoint, ["Transfer-Encoding": "chunked"]), .unsupported),
            (.get(Endpoint(scheme: "http", host: "a\r\nEvil: b", port: 9)), .unsupported),
            (.get(Endpoint(scheme: "http", host: "127.0.0.1", port: 9, target: "/ HTTP/1.1\r\nEvil: b\r\n")), .invalidURL),
            (HTTPRequest("GET / HTTP/1.1\r\nEvil:", endpoint), .unsupported),
            (HTTPRequest("CONNECT", endpoint), .unsupported),
            (.get(Endpoint(scheme: "http", host: "127.0.0.1", port: 70_000)), .invalidURL),
        ]
    }()

    @Test(arguments: Self.unsendable.indices)
    func `a request that cannot be sent is rejected`(_ index: Int) async {
        let (request, code) = Self.unsendable[index]
        let error = await SocketHTTPTransport().failure(request)
        expectEqual(error?.code, code, "\(error?.message ?? "")")
    }

    @Test func `a body over the limit fails the request`() async throws {
        try await ScriptedServer.responding(Self.ok + "Content-Length: 5\r\n\r\nhello") { server in
            let error = await #expect(throws: TransportError.self) {
                try await SocketHTTPTransport().send(.get(server.endpoint), bodyLimit: 4)
            }
            expectEqual(error?.code, .tooLarge)
        }
    }

    @Test func `a second reader is rejected and the first one continues`() async throws {
        let mayRespond = Signal()
        try await ScriptedServer.run { stream, _ in
            stream.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".utf8)
            await mayRespond.wait()
            stream.respond("hello")
        } _: { server in
            let body = try await SocketHTTPTransport().open(.get(server.endpoint)).body
            let rejected = Log<TransportError.Code>()
            let read = await withTaskGroup(of: [UInt8].self) { group in
                for _ in 0..<2 {
                    group.addTask {
                        do throws(TransportError) {
                            return try await body.next() ?? []
                        } catch {
                            rejected.add(error.code)
                            return []
                        }
                    }
                }
                await rejected.wait(1)
                mayRespond.send()
                return await group.reduce([]) { $0 + $1 }
            }
            expectEqual(rejected.entries, [.unsupported])
            expectEqual(read, Array("hello".utf8))
        }
    }
}
