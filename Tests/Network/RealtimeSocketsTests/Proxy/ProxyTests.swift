import ProxySupport
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

/// Connections through proxies, over sockets.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ProxyTests {
    private typealias Credentials = ProxyConfiguration.Credentials

    private static let credentials = Credentials(username: "anna", password: "hunter2:ü")
    private static let wires = [false] + Requirement.openSSL.cases([true])

    /// Records the events of a client's WebSocket.
    private final class Events: MessageEvents {
        enum Event: Sendable, Equatable {
            case opened
            case text(String)
            case closed(CloseReason)
        }

        let log = Log<Event>()

        func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.log.add(.opened) }

        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            for message in batch.messages { self.log.add(.text(String(decoding: message.bytes, as: UTF8.self))) }
        }

        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.log.add(.closed(reason)) }

        /// Waits for the end of a connection that was never open, and returns its reason.
        func failure() async -> TransportError? {
            guard case .closed(.transport(let error)) = await self.log.wait(1).first else { return nil }
            return error
        }
    }

    /// Runs `body` with a proxy.
    private static func withProxy(
        _ kind: TestProxy.Kind, credentials: Credentials? = nil, _ body: (TestProxy) async throws -> Void
    ) async throws {
        let proxy = try TestProxy(kind, credentials: credentials)
        do {
            try await body(proxy)
        } catch {
            await proxy.stop()
            throw error
        }
        await proxy.stop()
    }

    private static func webSocket(
        _ endpoint: Endpoint, _ proxy: ProxyConfiguration, timeout: Duration = .seconds(600), loop: EventLoop = .shared
    ) -> (connection: any MessageConnection, events: Events) {
        let events = Events()
        let transport = SocketWebSocketTransport(tls: .trustingTestRoot, proxy: proxy, loop: loop)
        let request = WebSocketRequest(endpoint, timeout: timeout)
        let connection = transport.makeConnection(request, id: ConnectionID(rawValue: 1), events: events)
        connection.open()
        return (connection, events)
    }

    private static func failure(_ endpoint: Endpoint, _ proxy: ProxyConfiguration) async -> TransportError? {
        await SocketHTTPTransport(tls: .trustingTestRoot, proxy: proxy).failure(.get(endpoint))
    }

    // MARK: Both kinds

    @Test(arguments: TestProxy.Kind.allCases, Self.wires)
    func `a WebSocket transfers messages in both directions through a proxy`(kind: TestProxy.Kind, isSecure: Bool) async throws {
        let large = String(repeating: "ü", count: 300_000)
        let handler = TestHandler(onAccepted: { connection, _ in
            connection.enqueue(.text("hello"))
            connection.enqueue(.text(large))
            connection.flush()
        })
        try await withListener(handler, tls: isSecure ? .test : nil) { address in
            try await Self.withProxy(kind, credentials: Self.credentials) { proxy in
                let endpoint = Endpoint(scheme: isSecure ? "wss" : "ws", host: "localhost", port: address.port)
                let (connection, events) = Self.webSocket(endpoint, proxy.configuration)
                // The connection may be open by now.
                connection.enqueue(.text(large))
                connection.flush()
                await expectEqual(events.log.wait(3), [.opened, .text("hello"), .text(large)])
                await expectEqual(handler.events.log.wait(2), ["opened", large])
                // The proxy has received the name and not an address.
                expectEqual(proxy.targets, ["localhost:\(address.port)"])
                connection.close(.normal, reason: "")
                await expectEqual(events.log.wait(4).last, .closed(.requested))
            }
        }
    }

    @Test(arguments: TestProxy.Kind.allCases, Self.wires)
    func `HTTP requests go through a proxy, in a tunnel that is kept or in one each`(kind: TestProxy.Kind, isSecure: Bool) async throws {
        let handler = TestHandler { _, body, responder in responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: body)) }
        try await withListener(handler, limits: .forTests.with { $0.bodyBytes = 4 << 20 }, tls: isSecure ? .test : nil) { address in
            try await Self.withProxy(kind) { proxy in
                let endpoint = Endpoint(scheme: isSecure ? "https" : "http", host: "127.0.0.1", port: address.port, target: "/a?b=c")
                for (keepAlive, tunnels) in [(KeepAliveLimits.forTests, 1), (.off, 3)] {
                    let transport = SocketHTTPTransport(tls: .trustingTestRoot, proxy: proxy.configuration, keepAlive: keepAlive)
                    for size in [0, 3 << 20] {
                        let response = try await transport.send(.forTests("POST", endpoint, body: pattern(size)), bodyLimit: 4 << 20)
                        expect(response.head.status == 200 && response.body == pattern(size))
                    }
                    expectEqual(proxy.targets, [String](repeating: "127.0.0.1:\(address.port)", count: tunnels))
                }
                // Inside the tunnel, the request is that for a server.
                let requests = handler.requests.withLock { $0 }
                expectEqual(requests.map(\.head.target), [String](repeating: "/a?b=c", count: 4))
                expect(requests.allSatisfy { $0.head.headers["Proxy-Authorization"] == nil })
            }
        }
    }

    @Test(arguments: TestProxy.Kind.allCases)
    func `the proxy looks hosts up, and exceptions are connected directly`(kind: TestProxy.Kind) async throws {
        try await withListener { address in
            try await Self.withProxy(kind) { proxy in
                var configuration = proxy.configuration
                configuration.exceptions = ["127.0.0.0/8"]
                let transport = SocketHTTPTransport(proxy: configuration)
                let direct = try await transport.send(.get(Endpoint(scheme: "http", host: "127.0.0.1", port: address.port)))
                expect(direct.head.status == 200 && proxy.targets.isEmpty)
                // The name exists only for the proxy.
                let proxied = try await transport.send(.get(Endpoint(scheme: "http", host: "server.invalid", port: address.port)))
                expect(proxied.head.status == 200 && proxy.targets == ["server.invalid:\(address.port)"])
            }
        }
    }

    @Test(.requires(.openSSL), arguments: TestProxy.Kind.allCases)
    func `the certificate must match the server and not the proxy`(kind: TestProxy.Kind) async throws {
        let handler = TestHandler()
        try await withListener(handler, tls: .test) { address in
            try await Self.withProxy(kind) { proxy in
                let error = await Self.failure(
                    Endpoint(scheme: "https", host: "server.invalid", port: address.port), proxy.configuration)
                expectEqual(error?.code, .certificateRejected)
                expectEqual(error?.message.contains("not for server.invalid"), true, "\(describe(error))")
                expectEqual(proxy.targets.count, 1)
            }
        }
        expect(handler.requests.withLock { $0.isEmpty })
    }

    @Test(arguments: TestProxy.Kind.allCases)
    func `a proxy that requires other credentials is an error for requests and WebSockets`(kind: TestProxy.Kind) async throws {
        try await Self.withProxy(kind, credentials: Self.credentials) { proxy in
            let others = [nil, Credentials(username: "anna", password: "hunter3"), Credentials(username: "anne", password: "hunter2:ü")]
            for credentials in others {
                let configuration = proxy.configuration(with: credentials)
                let error = await Self.failure(Endpoint(scheme: "http", host: "server.invalid", port: 80), configuration)
                let advice = credentials == nil ? "requires a user name and a password" : "rejected the user name or the password"
                expect(error?.code == .proxyRejected && error?.status == (kind == .http ? 407 : nil))
                expect(error?.message.contains(advice) == true && error?.message.contains("hunter") == false, "\(describe(error))")
                let (_, events) = Self.webSocket(Endpoint(scheme: "ws", host: "server.invalid", port: 80), configuration)
                await expectEqual(events.failure(), error)
            }
            expect(proxy.targets.isEmpty)
        }
    }

    @Test(arguments: TestProxy.Kind.allCases)
    func `a proxy that refuses the connection, or whose connection is refused, is an error`(kind: TestProxy.Kind) async throws {
        let port = TestPort.refusing()
        let endpoint = Endpoint(scheme: "http", host: "127.0.0.1", port: port)
        try await Self.withProxy(kind) { proxy in
            let refused = await Self.failure(endpoint, proxy.configuration)
            let reason = kind == .http ? "502 Bad Gateway" : "connection refused, SOCKS reply 5"
            expectEqual(refused?.code, .proxyRejected)
            expectEqual(refused?.message.contains("couldn't connect to 127.0.0.1:\(port) (\(reason))"), true, "\(describe(refused))")
            proxy.isRefusing = true
            let forbidden = await Self.failure(endpoint, proxy.configuration)
            expectEqual(forbidden?.code, .proxyRejected)
            expectEqual(forbidden?.message.contains("doesn't allow the connection to 127.0.0.1:\(port)"), true, "\(describe(forbidden))")
        }
        let absent = await Self.failure(endpoint, .socks5(host: "127.0.0.1", port: port))
        expectEqual(absent?.code, .refused)
        expectEqual(absent?.message.hasPrefix("Cannot connect to the proxy: 127.0.0.1:\(port) refused the connection."), true)
    }

    @Test func `an invalid proxy fails the connection before anything is sent`() async throws {
        let configuration = ProxyConfiguration.http(host: "user:hunter2@proxy.test", port: 1)
        let error = await Self.failure(Endpoint(scheme: "http", host: "server.invalid", port: 80), configuration)
        expect(error?.code == .invalidURL && error?.message.contains("hunter2") == false)
        let (_, events) = Self.webSocket(Endpoint(scheme: "ws", host: "server.invalid", port: 80), configuration)
        await expectEqual(events.failure(), error)
    }

    // MARK: Bytes of the tunnel

    @Test func `what arrives together with the response of the proxy belongs to the tunnel`() async throws {
        // One write contains the response of the proxy and that of the server.
        let script: ScriptedServer.Script = { stream, _ in
            stream.respond("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
        }
        try await ScriptedServer.run(script) { server in
            let transport = SocketHTTPTransport(proxy: .http(host: "127.0.0.1", port: server.endpoint.port))
            let response = try await transport.send(.get(Endpoint(scheme: "http", host: "server.invalid", port: 80)))
            expectEqual(response.text, "early")
        }
    }

    @Test func `a tunnel opens when the response of the proxy arrives in pieces`() async throws {
        let loop = try EventLoop("test")
        let listener = try TCPListener(loops: [loop]) { _ in
            EventRecorder(onReceived: { stream, bytes in
                let text = String(decoding: bytes, as: UTF8.self)
                if text.hasPrefix("CONNECT ") {
                    for byte in "HTTP/1.1 200 OK\r\n\r\n".utf8 { stream.send([byte]) }
                } else if let key = text.split(separator: "\r\n").first(where: { $0.hasPrefix("Sec-WebSocket-Key: ") }) {
                    let accept = HandshakeKey.accept(String(key.dropFirst(19)))
                    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    stream.send(Array("\(head)Sec-WebSocket-Accept: \(accept)\r\n\r\n".utf8) + frame(0x81, "hi"))
                }
            })
        }
        let (connection, events) = Self.webSocket(
            Endpoint(scheme: "ws", host: "server.invalid", port: 80), .http(host: "127.0.0.1", port: listener.address.port))
        await expectEqual(events.log.wait(2), [.opened, .text("hi")])
        connection.abandon()
        loop.shutdown()
    }

    // MARK: Hostile and silent proxies

    @Test(
        arguments: [
            ("HTTP/1.1 200 OK\r\nX: ", .closed, "ended the connection before it was connected to server.invalid:80"),
            ("", .closed, "ended the connection before it was connected to server.invalid:80"),
            ("220 smtp.test ready\r\n", .protocolViolation, "Invalid response of the proxy http://127.0.0.1:"),
            (String(repeating: "x", count: 100_000), .tooLarge, "Invalid response of the proxy http://127.0.0.1:"),
        ] as [(String, TransportError.Code, String)])
    func `a proxy with an invalid response is an error`(response: String, code: TransportError.Code, message: String) async throws {
        try await ScriptedServer.responding(response) { server in
            let proxy = ProxyConfiguration.http(host: "127.0.0.1", port: server.endpoint.port)
            let error = await Self.failure(Endpoint(scheme: "http", host: "server.invalid", port: 80), proxy)
            expect(error?.code == code && error?.message.contains(message) == true, "\(describe(error))")
        }
    }

    @Test func `a proxy that does not respond is limited by the time to connect`() async throws {
        try await ScriptedServer.run({ _, _ in }) { server in
            let proxy = ProxyConfiguration.http(host: "127.0.0.1", port: server.endpoint.port)
            var request = HTTPRequest.get(Endpoint(scheme: "http", host: "server.invalid", port: 80))
            request.connectTimeout = .milliseconds(50)
            let error = await SocketHTTPTransport(proxy: proxy).failure(request)
            expectEqual(error?.code, .timedOut)
            expectEqual(error?.message.contains("didn't connect to server.invalid:80 within 0.05 seconds"), true, "\(describe(error))")
            await expectEqual(server.connections.wait(1)[0].until { $0.ended > 0 }.ended, 1)
            let (_, events) = Self.webSocket(Endpoint(scheme: "ws", host: "server.invalid", port: 80), proxy, timeout: .milliseconds(50))
            await expectEqual(events.failure()?.code, .timedOut)
            await expectEqual(server.connections.wait(2)[1].until { $0.ended > 0 }.ended, 1)
        }
    }

    @Test(arguments: [false, true])
    func `cancelling or abandoning a connection during the handshake with the proxy closes it`(usesWebSocket: Bool) async throws {
        try await ScriptedServer.run({ _, _ in }) { server in
            let proxy = ProxyConfiguration.http(host: "127.0.0.1", port: server.endpoint.port)
            let task = Task { () -> TransportError? in
                usesWebSocket ? nil : await Self.failure(Endpoint(scheme: "http", host: "server.invalid", port: 80), proxy)
            }
            let webSocket = usesWebSocket ? Self.webSocket(Endpoint(scheme: "ws", host: "server.invalid", port: 80), proxy) : nil
            let recorder = try #require(await server.connections.wait(1).first)
            await recorder.until { $0.bytes.contains(sequence: Array("\r\n\r\n".utf8)) }
            task.cancel()
            webSocket?.connection.abandon()
            await expectEqual(task.value?.code, (usesWebSocket ? nil : .cancelled))
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
            expect(webSocket?.events.log.entries.isEmpty != false)
        }
    }

    @Test func `a loop that shuts down ends the handshake with the proxy`() async throws {
        try await ScriptedServer.run({ _, _ in }) { server in
            let loop = try EventLoop("test")
            let proxy = ProxyConfiguration.http(host: "127.0.0.1", port: server.endpoint.port)
            let (_, events) = Self.webSocket(Endpoint(scheme: "ws", host: "server.invalid", port: 80), proxy, loop: loop)
            let recorder = try #require(await server.connections.wait(1).first)
            await recorder.until { !$0.bytes.isEmpty }
            loop.shutdown()
            await expectEqual(events.failure()?.code, .closed)
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
        }
    }

    /// Sends 120 requests through two proxies, one of which requires credentials that the requests lack, and cancels each after a
    /// different time.
    private static func storm(_ loop: EventLoop) async throws {
        for kind in TestProxy.Kind.allCases {
            let listener = SocketListener(limits: .forTests.with { $0.shutdownTimeout = .seconds(600) }, on: [loop])
            let address = try await listener.start(TestHandler())
            let proxies = [try TestProxy(kind), try TestProxy(kind, credentials: self.credentials)]
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<60 {
                    group.addTask {
                        let proxy = proxies[number % 2].configuration(with: nil)
                        let transport = SocketHTTPTransport(proxy: proxy, loop: loop)
                        let task = Task { try await transport.send(.get(Endpoint(scheme: "http", host: "a", port: address.port))) }
                        for _ in 0..<(number * 3) { await Task.yield() }
                        if number % 4 != 0 { task.cancel() }
                        let result = await task.result
                        if number % 2 == 1 { #expect(throws: TransportError.self) { try result.get() } }
                        if number % 4 == 0 { expectEqual((try? result.get())?.head.status, 200) }
                    }
                }
            }
            for proxy in proxies { await proxy.stop() }
            await listener.stop()
        }
        await loop.turn()
    }

    @Test func `requests through proxies that fail or are cancelled leak no descriptors`() async {
        await #expect(processExitsWith: .success) {
            let loop = try EventLoop("test")
            // The first use of the system's libraries opens descriptors that stay open.
            try await ProxyTests.storm(loop)
            let before = descriptorCount()
            for _ in 0..<3 { try await ProxyTests.storm(loop) }
            // The idle connections of a transport are closed soon after its release, perhaps not yet when the first storm has ended.
            try await eventually { descriptorCount() <= before }
            loop.shutdown()
        }
    }
}

private func describe(_ error: TransportError?) -> String { error?.message ?? "no error" }
