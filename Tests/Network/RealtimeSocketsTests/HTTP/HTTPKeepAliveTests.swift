import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

/// Connections that are used for several requests.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct HTTPKeepAliveTests {
    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    /// Sends the same response to each request of a connection.
    private static func responding(_ response: String = Self.ok) -> ScriptedServer.Script {
        { stream, recorder in
            var count = 0
            while await Self.hasRequest(count + 1, recorder) {
                stream.send(response.utf8)
                count += 1
            }
            stream.close()
        }
    }

    /// Waits until the connection has received a number of requests, or ends.
    private static func hasRequest(_ number: Int, _ recorder: EventRecorder) async -> Bool {
        @Sendable func count(_ bytes: [UInt8]) -> Int { String(decoding: bytes, as: UTF8.self).split(separator: " HTTP/1.1\r\n").count - 1 }
        return count(await recorder.until { $0.ended > 0 || count($0.bytes) >= number }.bytes) >= number
    }

    private static func transport(_ change: (inout KeepAliveLimits) -> Void = { _ in }) -> SocketHTTPTransport {
        var limits = KeepAliveLimits.forTests
        change(&limits)
        return SocketHTTPTransport(tls: .trustingTestRoot, keepAlive: limits)
    }

    // MARK: Reuse

    @Test(arguments: HTTPClientServerTests.schemes, ["GET", "POST", "HEAD"])
    func `requests that follow each other use one connection`(_ scheme: String, _ method: String) async throws {
        let response = method == "HEAD" ? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" : Self.ok
        try await ScriptedServer.run(tls: scheme == "https" ? .test : nil, Self.responding(response)) { server in
            let transport = Self.transport()
            for _ in 0..<20 {
                let response = try await transport.send(.forTests(method, server.endpoint))
                expectEqual(response.head.status, 200)
            }
            expectEqual(server.connections.entries.count, 1)
            expectEqual(transport.pool?.count, 1)
        }
    }

    @Test(arguments: [
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nTrailer: a\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 500 Error\r\nContent-Length: 2\r\n\r\nok",
    ])
    func `a complete response keeps its connection`(_ response: String) async throws {
        try await ScriptedServer.run(Self.responding(response)) { server in
            let transport = Self.transport()
            for _ in 0..<3 { _ = try await transport.send(.get(server.endpoint)) }
            expectEqual(server.connections.entries.count, 1)
        }
    }

    @Test func `copies of a transport share its connections`() async throws {
        try await ScriptedServer.run(Self.responding()) { server in
            let first = Self.transport()
            let second = first
            for transport in [first, second, first] { _ = try await transport.send(.get(server.endpoint)) }
            expectEqual(server.connections.entries.count, 1)
        }
    }

    @Test func `a connection whose response was read slowly is used again`() async throws {
        let size = 4 << 20
        let response = "HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n" + String(repeating: "a", count: size)
        try await ScriptedServer.run(Self.responding(response)) { server in
            let transport = Self.transport()
            for _ in 0..<3 {
                let body = try await transport.open(.get(server.endpoint)).body
                var count = 0
                while let piece = try await body.next() { count += piece.count }
                expectEqual(count, size)
            }
            expectEqual(server.connections.entries.count, 1)
        }
    }

    @Test func `requests at the same time use different connections, of which a limited number is kept`() async throws {
        let arrived = Log<Int>()
        try await ScriptedServer.run { stream, _ in
            arrived.add(1)
            await arrived.wait(5)
            stream.send(Self.ok.utf8)
        } _: { server in
            let transport = Self.transport { $0.connectionsPerOrigin = 2 }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<5 { group.addTask { _ = try await transport.send(.get(server.endpoint)) } }
                try await group.waitForAll()
            }
            expectEqual(server.connections.entries.count, 5)
            expectEqual(transport.pool?.count, 2)
        }
    }

    @Test(arguments: HTTPClientServerTests.schemes)
    func `a response is that of its own request, whatever is cancelled`(_ scheme: String) async throws {
        let handler = TestHandler { head, body, responder in
            responder.respond(HTTPResponse(HTTPResponseHead(status: 200, headers: ["X-Target": head.target]), body: body))
        }
        try await withListener(handler, tls: scheme == "https" ? .test : nil) { address in
            let transport = Self.transport()
            await withTaskGroup(of: Void.self) { group in
                for task in 0..<8 {
                    group.addTask {
                        for number in 0..<scaled(150) {
                            let target = "/\(task)/\(number)"
                            let endpoint = Endpoint(scheme: scheme, host: address.host, port: address.port, target: target)
                            let request = HTTPRequest.forTests("POST", endpoint, body: pattern(number * 50, seed: number))
                            let exchange = Task { try await transport.send(request) }
                            if number % 3 == 0 {
                                for _ in 0..<(number % 40) { await Task.yield() }
                                exchange.cancel()
                            }
                            switch await exchange.result {
                            case .success(let response):
                                expect(response.head.headers["X-Target"] == target && response.body == request.body)
                            case .failure(let error):
                                expectEqual(number % 3, 0, "\(error)")
                            }
                        }
                    }
                }
            }
        }
    }

    // MARK: Connections that are not kept

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ])
    func `a response that does not allow it does not keep its connection`(_ response: String) async throws {
        try await ScriptedServer.run(Self.responding(response)) { server in
            let transport = Self.transport()
            for number in 1...3 {
                let response = try await transport.send(.get(server.endpoint))
                expectEqual(response.text, "ok")
                expectEqual(server.connections.entries.count, number)
                expectEqual(transport.pool?.count, 0)
            }
            for recorder in server.connections.entries { await expectEqual(recorder.until { $0.ended > 0 }.ended, 1) }
        }
    }

    @Test(arguments: [204, 304])
    func `a body behind a response that has none is not the response to the next request`(_ status: Int) async throws {
        let body = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        let response = "HTTP/1.1 \(status) Empty\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        try await ScriptedServer.run(Self.responding(response)) { server in
            let transport = Self.transport()
            for number in 1...3 {
                let response = try await transport.send(.get(server.endpoint))
                expect(response.head.status == status && response.body.isEmpty)
                expect(server.connections.entries.count == number && transport.pool?.count == 0)
            }
        }
    }

    @Test func `a body that ends with the connection does not keep it`() async throws {
        try await ScriptedServer.responding("HTTP/1.1 200 OK\r\n\r\nok") { server in
            let transport = Self.transport()
            for _ in 0..<2 {
                let response = try await transport.send(.get(server.endpoint))
                expectEqual(response.text, "ok")
            }
            expect(server.connections.entries.count == 2 && transport.pool?.count == 0)
        }
    }

    @Test(arguments: ["HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "nonsense\r\n\r\n"])
    func `an error does not keep the connection`(_ response: String) async throws {
        try await ScriptedServer.run(Self.responding(response)) { server in
            let transport = Self.transport()
            for number in 1...2 {
                await expect(transport.failure(.get(server.endpoint)) != nil)
                expect(server.connections.entries.count == number && transport.pool?.count == 0)
            }
        }
    }

    @Test func `a body that is not read to the end does not keep the connection`() async throws {
        try await ScriptedServer.run(Self.responding("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")) { server in
            let transport = Self.transport()
            do {
                let body = try await transport.open(.get(server.endpoint)).body
                try await expectEqual(body.next()?.first, UInt8(ascii: "a"))
            }
            let recorder = try #require(server.connections.entries.first)
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
            expectEqual(transport.pool?.count, 0)
        }
    }

    @Test func `a cancelled request does not keep its connection`() async throws {
        try await ScriptedServer.run({ _, _ in }) { server in
            let transport = Self.transport()
            let task = Task { await transport.failure(.get(server.endpoint)) }
            let recorder = try #require(await server.connections.wait(1).first)
            await recorder.until { !$0.bytes.isEmpty }
            task.cancel()
            await expectEqual(task.value?.code, .cancelled)
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
            expectEqual(transport.pool?.count, 0)
        }
    }

    @Test func `a response that ends before the request does not keep its connection`() async throws {
        try await ScriptedServer.run(stopsReading: true) { stream, _ in
            stream.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge".utf8)
        } _: { server in
            let transport = Self.transport()
            let request = HTTPRequest.forTests("POST", server.endpoint, body: [UInt8](repeating: 1, count: 32 << 20))
            let text = try await transport.send(request).text
            expectEqual(text, "large")
            expectEqual(transport.pool?.count, 0)
        }
    }

    @Test func `without keep-alive, each request has its own connection`() async throws {
        try await ScriptedServer.run(Self.responding()) { server in
            let transport = SocketHTTPTransport(keepAlive: .off)
            expectNil(transport.pool)
            for _ in 0..<2 { _ = try await transport.send(.get(server.endpoint)) }
            expectEqual(server.connections.entries.count, 2)
            for recorder in server.connections.entries {
                await expect(recorder.until { $0.ended > 0 }.bytes.contains(sequence: Array("Connection: close\r\n".utf8)))
            }
        }
    }

    // MARK: Idle connections

    @Test func `a request that cannot be repeated is not sent on a connection that was idle for too long`() async throws {
        try await ScriptedServer.run(Self.responding()) { server in
            let transport = Self.transport { $0.unrepeatableIdleTime = .zero }
            _ = try await transport.send(.get(server.endpoint))
            _ = try await transport.send(.forTests("POST", server.endpoint))
            expectEqual(server.connections.entries.count, 2)
            var request = HTTPRequest.forTests("POST", server.endpoint)
            request.isRepeatable = true
            _ = try await transport.send(request)
            _ = try await transport.send(.get(server.endpoint))
            expectEqual(server.connections.entries.count, 2)
        }
    }

    @Test func `a connection that is idle for too long is closed`() async throws {
        try await ScriptedServer.run(Self.responding()) { server in
            let transport = Self.transport { $0.idleTime = .milliseconds(1) }
            _ = try await transport.send(.get(server.endpoint))
            let recorder = try #require(server.connections.entries.first)
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
            expectEqual(transport.pool?.count, 0)
        }
    }

    @Test(arguments: HTTPClientServerTests.schemes, [true, false])
    func `a server may close an idle connection`(_ scheme: String, _ isOrderly: Bool) async throws {
        let next = Log<Int>()
        try await ScriptedServer.run(tls: scheme == "https" ? .test : nil) { stream, _ in
            stream.send(Self.ok.utf8)
            await next.wait(1)
            if isOrderly { stream.finishWriting() } else { stream.close() }
        } _: { server in
            let transport = Self.transport()
            let text = try await transport.send(.get(server.endpoint)).text
            expectEqual(text, "ok")
            expectEqual(transport.pool?.count, 1)
            next.add(1)
            try await eventually { transport.pool?.count == 0 }
            let later = try await transport.send(.forTests("POST", server.endpoint)).text
            expectEqual(later, "ok")
            expectEqual(server.connections.entries.count, 2)
        }
    }

    @Test(arguments: HTTPClientServerTests.schemes)
    func `the idle timeout applies to each request of a connection`(_ scheme: String) async throws {
        try await ScriptedServer.run(tls: scheme == "https" ? .test : nil) { stream, recorder in
            for number in 1...2 where await Self.hasRequest(number, recorder) { stream.send(Self.ok.utf8) }
        } _: { server in
            let transport = Self.transport()
            for _ in 0..<2 { _ = try await transport.send(.get(server.endpoint)) }
            var silent = HTTPRequest.forTests("POST", server.endpoint)
            silent.idleTimeout = .milliseconds(30)
            await expectEqual(transport.failure(silent)?.code, .timedOut)
            expectEqual(server.connections.entries.count, 1)
        }
    }

    @Test(arguments: HTTPClientServerTests.schemes)
    func `bytes on an idle connection are not the response to the next request`(_ scheme: String) async throws {
        let next = Log<Int>()
        try await ScriptedServer.run(tls: scheme == "https" ? .test : nil) { stream, _ in
            stream.send(Self.ok.utf8)
            await next.wait(1)
            stream.send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n".utf8)
        } _: { server in
            let transport = Self.transport()
            let text = try await transport.send(.get(server.endpoint)).text
            expectEqual(text, "ok")
            let recorder = try #require(server.connections.entries.first)
            next.add(1)
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
            expectEqual(transport.pool?.count, 0)
        }
    }

    @Test func `releasing the transport closes its idle connections`() async throws {
        try await ScriptedServer.run(Self.responding()) { server in
            weak var pool: ConnectionPool?
            do {
                let transport = Self.transport()
                pool = transport.pool
                _ = try await transport.send(.get(server.endpoint))
                expectEqual(pool?.count, 1)
            }
            // The loop's thread may still be returning from the end of the response.
            try await eventually { pool == nil }
            let recorder = try #require(server.connections.entries.first)
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
        }
    }

    @Test func `a response that ends after the transport was released closes its connection`() async throws {
        let next = Log<Int>()
        try await ScriptedServer.run { stream, _ in
            stream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".utf8)
            await next.wait(1)
            stream.send("ok".utf8)
        } _: { server in
            let body = try await Self.transport().open(.get(server.endpoint)).body
            next.add(1)
            while try await body.next() != nil {}
            let recorder = try #require(server.connections.entries.first)
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
        }
    }

    // MARK: Repetition

    /// Responds to the first request, and closes the connection when there is a second one.
    private static func closing(_ connections: Log<Int>, alwaysAfter first: Bool, sending bytes: String = "") -> ScriptedServer.Script {
        { stream, recorder in
            connections.add(1)
            let isFirst = connections.entries.count == 1
            if isFirst || !first { stream.send(Self.ok.utf8) }
            if isFirst {
                guard await Self.hasRequest(2, recorder) else { return stream.close() }
            }
            if isFirst || first { stream.respond(bytes) }
        }
    }

    @Test(arguments: [("GET", nil), ("DELETE", nil), ("POST", true)] as [(String, Bool?)])
    func `a request that may be repeated is sent again when the server closes the idle connection`(
        _ method: String, _ isRepeatable: Bool?
    ) async throws {
        try await ScriptedServer.run(Self.closing(Log(), alwaysAfter: false)) { server in
            let transport = Self.transport()
            _ = try await transport.send(.get(server.endpoint))
            var request = HTTPRequest.forTests(method, server.endpoint, body: Array("body".utf8))
            if let isRepeatable { request.isRepeatable = isRepeatable }
            let text = try await transport.send(request).text
            expectEqual(text, "ok")
            let connections = server.connections.entries
            expectEqual(connections.count, 2)
            await expectEqual(connections.last?.until { $0.bytes.contains(sequence: Array("body".utf8)) }.ended, 0)
        }
    }

    @Test func `a request is sent again once`() async throws {
        try await ScriptedServer.run(Self.closing(Log(), alwaysAfter: true)) { server in
            let transport = Self.transport()
            _ = try await transport.send(.get(server.endpoint))
            await expectEqual(transport.failure(.get(server.endpoint))?.code, .closed)
            expectEqual(server.connections.entries.count, 2)
        }
    }

    @Test(arguments: [("POST", nil), ("GET", false)] as [(String, Bool?)])
    func `a request that may not be repeated fails when the server closes the idle connection`(
        _ method: String, _ isRepeatable: Bool?
    ) async throws {
        try await ScriptedServer.run(Self.closing(Log(), alwaysAfter: false)) { server in
            let transport = Self.transport()
            _ = try await transport.send(.get(server.endpoint))
            var request = HTTPRequest.forTests(method, server.endpoint)
            if let isRepeatable { request.isRepeatable = isRepeatable }
            await expectEqual(transport.failure(request)?.code, .closed)
            expectEqual(server.connections.entries.count, 1)
        }
    }

    @Test func `a request is not sent again after the first byte of its response`() async throws {
        try await ScriptedServer.run(Self.closing(Log(), alwaysAfter: false, sending: "H")) { server in
            let transport = Self.transport()
            _ = try await transport.send(.get(server.endpoint))
            await expectEqual(transport.failure(.get(server.endpoint))?.code, .closed)
            expectEqual(server.connections.entries.count, 1)
        }
    }

    @Test func `a request on a new connection is not sent again`() async throws {
        try await ScriptedServer.run({ stream, _ in stream.finishWriting() }) { server in
            await expectEqual(Self.transport().failure(.get(server.endpoint))?.code, .closed)
            expectEqual(server.connections.entries.count, 1)
        }
    }

    // MARK: Resources

    @Test func `many requests use the same descriptors`() async {
        await #expect(processExitsWith: .success) {
            let loop = try EventLoop("test")
            try await withListener { address in
                let transport = SocketHTTPTransport(keepAlive: .forTests, loop: loop)
                let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
                for _ in 0..<10 { _ = try await transport.send(.get(endpoint)) }
                let before = descriptorCount()
                for _ in 0..<scaled(10_000) { _ = try await transport.send(.get(endpoint)) }
                try await eventually { descriptorCount() == before }
                expectEqual(transport.pool?.count, 1)
            }
            loop.shutdown()
        }
    }
}

extension KeepAliveLimits {
    /// Times that no test reaches by accident.
    static var forTests: KeepAliveLimits {
        var limits = KeepAliveLimits()
        limits.idleTime = .seconds(600)
        limits.unrepeatableIdleTime = .seconds(600)
        return limits
    }
}
