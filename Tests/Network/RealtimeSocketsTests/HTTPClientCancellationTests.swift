import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct HTTPClientCancellationTests {
    private struct SilentResolver: HostResolver {
        let asked = Completion()

        func resolve(_ host: String, port: Int, _ answer: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void) {
            self.asked.fulfill()
        }
    }

    /// Cancels the request when it has come so far, and says what became of it.
    private func cancelled(_ transport: SocketHTTPTransport, _ request: HTTPRequest, when: () async -> Void) async -> TransportError? {
        let task = Task { await transport.failure(request) }
        await when()
        task.cancel()
        return await task.value
    }

    @Test func `while the name is looked up`() async {
        let resolver = SilentResolver()
        let transport = SocketHTTPTransport(loop: .shared, resolver: resolver)
        let request = HTTPRequest.get(Endpoint(scheme: "http", host: "slow.test", port: 80))
        #expect(await self.cancelled(transport, request) { await resolver.asked.wait() }?.code == .cancelled)
    }

    @Test(.needsOpenSSL) func `while the connection comes about`() async throws {
        // The TLS handshake is a part of it, and this server does not answer it.
        try await ScriptedServer.run({ _, _ in }) { server in
            var request = HTTPRequest.get(server.endpoint)
            request.endpoint.scheme = "https"
            let error = await self.cancelled(SocketHTTPTransport(), request) {
                await server.connections.wait(1).first?.until { !$0.bytes.isEmpty }
            }
            #expect(error?.code == .cancelled)
            #expect(await server.connections.entries[0].until { $0.ended > 0 }.ended == 1)
        }
    }

    @Test func `while the head is waited for`() async throws {
        let arrived = Completion()
        try await ScriptedServer.run({ _, _ in arrived.fulfill() }) { server in
            let error = await self.cancelled(SocketHTTPTransport(), .get(server.endpoint)) { await arrived.wait() }
            #expect(error?.code == .cancelled)
            // The server learns of it at once: nothing is said that could be taken for an answer to wait for.
            #expect(await server.connections.entries[0].until { $0.ended > 0 }.ended == 1)
        }
    }

    @Test func `between the pieces of the body`() async throws {
        try await ScriptedServer.run { stream, _ in
            stream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n".utf8)
        } _: { server in
            let body = try await SocketHTTPTransport().open(.get(server.endpoint)).body
            let first = Completion()
            let task = Task { () -> TransportError? in
                do throws(TransportError) {
                    while let piece = try await body.next() {
                        #expect(piece == [UInt8(ascii: "a")])
                        first.fulfill()
                    }
                    return nil
                } catch {
                    return error
                }
            }
            await first.wait()
            task.cancel()
            #expect(await task.value?.code == .cancelled)
            #expect(await server.connections.entries[0].until { $0.ended > 0 }.ended == 1)
            // It stays so, also for a task that was not cancelled.
            let again = await #expect(throws: TransportError.self) { try await body.next() }
            #expect(again?.code == .cancelled)
        }
    }

    @Test func `before it begins`() async throws {
        try await ScriptedServer.run({ _, _ in }) { server in
            let gate = Completion()
            let task = Task { () -> TransportError? in
                await gate.wait()
                return await SocketHTTPTransport().failure(.get(server.endpoint))
            }
            task.cancel()
            gate.fulfill()
            #expect(await task.value?.code == .cancelled)
            #expect(server.connections.entries.isEmpty)
        }
    }

    /// Three hundred requests that are cancelled, sooner and later, against a server that does not answer all of them.
    private static func storm(_ loop: EventLoop) async throws {
        let listener = SocketListener(limits: .forTests.with { $0.stopTime = .seconds(600) }, on: [loop])
        let handler = TestHandler { head, _, responder in
            switch head.target {
            case "/0": break
            case "/1":
                responder.begin(HTTPResponseHead(status: 200))
                responder.write([1])
            default: responder.respond(HTTPResponse(status: 200, text: "done"))
            }
        }
        let address = try await listener.start(handler)
        let transport = SocketHTTPTransport(loop: loop)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<300 {
                group.addTask {
                    let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/\(number % 3)")
                    let task = Task { try await transport.send(.get(endpoint)) }
                    for _ in 0..<(number % 40) { await Task.yield() }
                    task.cancel()
                    let result = await task.result
                    if number % 3 < 2 { #expect(throws: TransportError.self) { try result.get() } }
                }
            }
        }
        await listener.stop()
        await loop.turn()
    }

    @Test func `a storm of them leaves no descriptor`() async {
        await #expect(processExitsWith: .success) {
            let loop = try EventLoop("test")
            // What the system's own libraries open when they are first used is open after this.
            try await HTTPClientCancellationTests.storm(loop)
            let before = descriptorCount()
            for _ in 0..<3 { try await HTTPClientCancellationTests.storm(loop) }
            #expect(descriptorCount() == before)
            loop.shutdown()
        }
    }
}
