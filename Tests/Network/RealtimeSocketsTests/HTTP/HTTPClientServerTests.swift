import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// Tests of the client against the listener.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct HTTPClientServerTests {
    /// `http`, and `https` where OpenSSL is installed.
    static let schemes = ["http"] + Requirement.openSSL.cases(["https"])

    private func withServer(
        _ scheme: String, _ handler: TestHandler = TestHandler(), limits: ListenerLimits = .forTests,
        _ body: (SocketHTTPTransport, Endpoint) async throws -> Void
    ) async throws {
        let isSecure = scheme == "https"
        try await withListener(handler, limits: limits, tls: isSecure ? .test : nil) { address in
            expectEqual(address.isSecure, isSecure)
            let transport = SocketHTTPTransport(tls: .trustingTestRoot)
            try await body(transport, Endpoint(scheme: scheme, host: address.host, port: address.port))
        }
    }

    @Test(arguments: Self.schemes)
    func `a hundred concurrent requests all receive a response`(_ scheme: String) async throws {
        let handler = TestHandler { head, body, responder in
            responder.respond(HTTPResponse(HTTPResponseHead(status: 200, headers: ["X-Target": head.target]), body: body))
        }
        try await self.withServer(scheme, handler) { transport, endpoint in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<100 {
                    group.addTask {
                        var request = HTTPRequest.forTests("POST", endpoint, body: pattern(number * 100, seed: number))
                        request.endpoint.target = "/\(number)"
                        let response = try await transport.send(request)
                        expectEqual(response.head.headers["X-Target"], "/\(number)")
                        expectEqual(response.body, request.body)
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test(arguments: Self.schemes)
    func `a hundred long polls do not delay other requests`(_ scheme: String) async throws {
        let hanging = Log<any HTTPResponder>()
        let handler = TestHandler { head, _, responder in
            if head.target == "/poll" { hanging.add(responder) } else { responder.respond(HTTPResponse(status: 200, text: "quick")) }
        }
        try await self.withServer(scheme, handler) { transport, endpoint in
            await withTaskGroup(of: String?.self) { group in
                for _ in 0..<100 {
                    group.addTask {
                        var request = HTTPRequest.get(endpoint)
                        request.endpoint.target = "/poll"
                        return try? await transport.send(request).text
                    }
                }
                await hanging.wait(100)
                let quick = try? await transport.send(.get(endpoint)).text
                expectEqual(quick, "quick")
                for responder in hanging.entries { responder.respond(HTTPResponse(status: 200, text: "late")) }
                for await response in group { expectEqual(response, "late") }
            }
        }
    }

    @Test(arguments: Self.schemes)
    func `large bodies are transferred in both directions`(_ scheme: String) async throws {
        let handler = TestHandler { _, body, responder in responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: body)) }
        try await self.withServer(scheme, handler, limits: .forTests.with { $0.bodyBytes = 8 << 20 }) { transport, endpoint in
            let request = HTTPRequest.forTests("PUT", endpoint, body: pattern(4 << 20))
            let response = try await transport.send(request, bodyLimit: 8 << 20)
            expectEqual(response.body, request.body)
        }
    }

    @Test(arguments: Self.schemes)
    func `an upload that is too large is rejected before it is complete`(_ scheme: String) async throws {
        let handler = TestHandler()
        try await self.withServer(scheme, handler, limits: .forTests.with { $0.bodyBytes = 1000 }) { transport, endpoint in
            let response = try await transport.send(.forTests("POST", endpoint, body: [UInt8](repeating: 1, count: 16 << 20)))
            expectEqual(response.head.status, 413)
            expect(response.text.contains("1000 bytes"))
        }
        expect(handler.requests.withLock { $0.isEmpty })
    }

    @Test(arguments: Self.schemes)
    func `a streamed response arrives as it is written`(_ scheme: String) async throws {
        let streams = Log<any HTTPResponder>()
        let disconnected = Log<Bool>()
        let handler = TestHandler { _, _, responder in
            responder.onDisconnect { disconnected.add(true) }
            responder.begin(HTTPResponseHead(status: 200, headers: ["Content-Type": "text/event-stream"]))
            streams.add(responder)
        }
        try await self.withServer(scheme, handler) { transport, endpoint in
            do {
                let response = try await transport.open(.get(endpoint))
                expectEqual(response.head.headers["Content-Type"], "text/event-stream")
                let responder = try #require(await streams.wait(1).first)
                for number in 0..<100 {
                    responder.write(Array("data: \(number)\n\n".utf8))
                    let piece = try await response.body.next()
                    expectEqual(piece, Array("data: \(number)\n\n".utf8))
                }
                expect(disconnected.entries.isEmpty)
            }
            // The body has been released.
            await disconnected.wait(1)
        }
    }

    @Test(.requires(.openSSL)) func `a server with an untrusted certificate receives no request`() async throws {
        let handler = TestHandler()
        try await withListener(handler, tls: .test) { address in
            let endpoint = Endpoint(scheme: "https", host: address.host, port: address.port)
            let request = HTTPRequest.get(endpoint, ["Authorization": "Bearer secret"])
            await expectEqual(SocketHTTPTransport().failure(request)?.code, .certificateRejected)
        }
        expect(handler.requests.withLock { $0.isEmpty })
    }

    @Test(.requires(.openSSL)) func `a plain request to a TLS port and a TLS request to a plain port fail`() async throws {
        try await withListener(tls: .test) { address in
            let error = await SocketHTTPTransport().failure(.get(Endpoint(scheme: "http", host: address.host, port: address.port)))
            expect(error != nil)
        }
        try await withListener { address in
            let error = await SocketHTTPTransport().failure(.get(Endpoint(scheme: "https", host: address.host, port: address.port)))
            expectEqual(error?.code, .tlsFailed)
        }
    }

    @Test func `HTTPS without OpenSSL fails`() async {
        var tls = TLSConfiguration()
        tls.library = .absent
        let error = await SocketHTTPTransport(tls: tls).failure(.get(Endpoint(scheme: "https", host: "127.0.0.1", port: 9)))
        expectEqual(error?.code, .tlsUnavailable)
    }

    @Test func `the response to HEAD has header fields and no body`() async throws {
        try await self.withServer("http") { transport, endpoint in
            let response = try await transport.send(.forTests("HEAD", endpoint))
            expect(response.head.headers["Content-Length"] == "7" && response.body.isEmpty)
        }
    }

    @Test func `a request that expects 100 Continue succeeds`() async throws {
        try await self.withServer("http") { transport, endpoint in
            let request = HTTPRequest.forTests("POST", endpoint, headers: ["Expect": "100-continue"], body: Array("body".utf8))
            let response = try await transport.send(request)
            expectEqual(response.text, "POST / body")
        }
    }
}
