import PrimusServer
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import TestSupport
import Testing

/// The HTTP that the protocol description of SockJS 0.3.3 asks for, in both versions and over sockets.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct SockJSHTTPTests {
    /// A connection of a client that sends text, and records the bytes that it receives.
    private final class Client: StreamEvents {
        private struct State: Sendable {
            var received: [UInt8] = []
            var hasEnded = false
        }

        private let state = Lock(State())

        /// The bytes after the last response that was taken.
        var bytes: [UInt8] { self.state.withLock { $0.received } }
        /// Whether the server has closed the connection.
        var hasEnded: Bool { self.state.withLock { $0.hasEnded } }

        func take() -> Response? {
            self.state.withLock { state in
                defer { state.received = [] }
                return Response(state.received)
            }
        }

        func opened(_ stream: SocketStream) { stream.flush() }
        func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) { self.state.withLock { $0.received += bytes } }
        func drained(_ stream: SocketStream) {}
        func ended(_ stream: SocketStream, _ error: TransportError?) { self.state.withLock { $0.hasEnded = true } }
    }

    /// A response, whose header fields have lowercase letters.
    private struct Response {
        var head: String
        var body: [UInt8]

        init?(_ bytes: [UInt8]) {
            guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
            self.head = String(decoding: bytes[..<end.upperBound], as: UTF8.self).lowercased()
            self.body = Array(bytes[end.upperBound...])
        }

        var text: String { String(decoding: self.body, as: UTF8.self) }
        /// The content of the chunks; `nil` if there are others than those of a complete body.
        var chunkedText: String? {
            var (rest, content) = (self.body[...], [UInt8]())
            while let line = rest.firstRange(of: Array("\r\n".utf8)) {
                guard let size = Int(String(decoding: rest[..<line.lowerBound], as: UTF8.self), radix: 16) else { return nil }
                let end = line.upperBound + size
                guard rest.endIndex >= end + 2 else { return nil }
                content += rest[line.upperBound..<end]
                rest = rest[(end + 2)...]
                if size == 0 { return rest.isEmpty ? String(decoding: content, as: UTF8.self) : nil }
            }
            return nil
        }
    }

    private static let greeting = "Welcome to SockJS!\n"
    private static let frames =
        String(repeating: "h", count: 2048) + "\no\na[\"\\\"primus::server::close\\\"\"]\nc[1000,\"Normal closure\"]\n"

    /// Runs a server, and a connection of a client whose requests keep it alive.
    private func with(
        _ body: (PrimusServer, Client, _ send: (_ request: String) -> Void) async throws -> Void
    ) async throws {
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.pingInterval) = (.sockjs, nil)
        (configuration.sockJSHeartbeatInterval, configuration.sockJSDisconnectDelay) = (.seconds(600), .seconds(600))
        let server = PrimusServer(configuration: configuration, log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let client = Client()
        let stream = SocketStream(events: client)
        stream.connect(to: address.host, port: address.port, ConnectOptions(timeout: .seconds(600)))
        try await body(server, client) { request in
            stream.enqueue { $0 += "\(request)\r\nHost: a\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n".utf8 }
            stream.flush()
        }
        stream.close()
        await server.stop()
    }

    @Test(arguments: ["1.0", "1.1"]) func `a connection is kept after a response with a length`(version: String) async throws {
        try await self.with { _, client, send in
            for _ in 0..<2 {
                send("GET /primus HTTP/\(version)")
                try await eventually { String(decoding: client.bytes, as: UTF8.self).hasSuffix(Self.greeting) }
                let response = try #require(client.take())
                expect(response.head.hasPrefix("http/1.1 200 ") && response.text == Self.greeting)
                expect(response.head.contains("\r\ncontent-length: 19\r\n") && !response.head.contains("transfer-encoding"))
                expect(!response.head.contains("connection: close") && !client.hasEnded)
                if version == "1.0" { expect(response.head.contains("\r\nconnection: keep-alive\r\n")) }
            }
        }
    }

    @Test func `a stream has chunks, and the connection is kept`() async throws {
        try await self.with { server, client, send in
            send("POST /primus/000/s/xhr_streaming HTTP/1.1")
            try await eventually { server.sparks.count == 1 }
            server.endAll()
            try await eventually { Response(client.bytes)?.chunkedText != nil }
            let response = try #require(client.take())
            expect(response.head.hasPrefix("http/1.1 200 ") && response.head.contains("\r\ntransfer-encoding: chunked\r\n"))
            expect(!response.head.contains("content-length") && response.chunkedText == Self.frames)
            send("GET /primus HTTP/1.1")
            try await eventually { String(decoding: client.bytes, as: UTF8.self).hasSuffix(Self.greeting) }
        }
    }

    @Test func `a stream for a client of HTTP 1 0 has no chunks, and ends with the connection`() async throws {
        try await self.with { server, client, send in
            send("POST /primus/000/s/xhr_streaming HTTP/1.0")
            try await eventually { server.sparks.count == 1 }
            server.endAll()
            try await eventually { client.hasEnded }
            let response = try #require(client.take())
            expect(response.head.hasPrefix("http/1.1 200 ") && response.text == Self.frames)
            expect(!response.head.contains("transfer-encoding") && !response.head.contains("content-length"))
        }
    }

    // MARK: Requests of WebSockets

    /// `WebsocketHttpErrors` of the description, and the recorded "WebSocket requests".
    @Test(arguments: ["/primus/0/0/websocket", "/primus/websocket"])
    func `requests with the fields of a WebSocket that are none are refused`(target: String) async throws {
        for fields in ["", "\r\nUpgrade: WebSocket\r\nConnection: close"] {
            try await self.with { _, client, send in
                send("GET \(target) HTTP/1.1\(fields)")
                let text = "Not a valid websocket request"
                try await eventually { Response(client.bytes)?.text == text }
                expectEqual(client.take()?.head.hasPrefix("http/1.1 400 "), true, "\(fields)")
            }
        }
        for fields in ["", "\r\nUpgrade: WebSocket\r\nConnection: Upgrade"] {
            try await self.with { _, client, send in
                send("POST \(target) HTTP/1.1\(fields)")
                try await eventually { Response(client.bytes) != nil }
                let head = try #require(client.take()).head
                expect(head.hasPrefix("http/1.1 405 ") && head.contains("\r\nallow: get\r\n"), "\(head)")
                expect(!head.contains("content-type") && head.contains("\r\ncontent-length: 0\r\n"), "\(head)")
            }
        }
    }

    /// `Websocket.test_headersSanity` of the description. The key and the answer to it are those of RFC 6455.
    @Test(arguments: ["/primus/000/s/websocket", "/primus/websocket"])
    func `a handshake is answered with the fields of an upgrade, and without a length`(target: String) async throws {
        try await self.with { _, client, send in
            let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
            send("GET \(target) HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\(key)")
            try await eventually { Response(client.bytes) != nil }
            let head = try #require(client.take()).head
            expect(head.hasPrefix("http/1.1 101 ") && head.contains("\r\nsec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"))
            expect(head.contains("\r\nconnection: upgrade\r\n") && head.contains("\r\nupgrade: websocket\r\n"))
            expect(!head.contains("content-length"))
        }
    }
}
