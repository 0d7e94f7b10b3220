import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct HTTPClientCancellationTests {
    private struct SilentResolver: HostResolver {
        let lookupStarted = Signal()

        func resolve(_ host: String, port: Int, _ completion: @escaping @Sendable (Result<[SocketAddress], TransportError>) -> Void) {
            self.lookupStarted.send()
        }
    }

    /// Cancels the request after `when` has returned, and returns the error that the request throws.
    private func cancelled(_ transport: SocketHTTPTransport, _ request: HTTPRequest, when: () async -> Void) async -> TransportError? {
        let task = Task { await transport.failure(request) }
        await when()
        task.cancel()
        return await task.value
    }

    @Test func `cancelling during name resolution fails the request`() async {
        let resolver = SilentResolver()
        let transport = SocketHTTPTransport(loop: .shared, resolver: resolver)
        let request = HTTPRequest.get(Endpoint(scheme: "http", host: "slow.test", port: 80))
        await expectEqual(self.cancelled(transport, request) { await resolver.lookupStarted.wait() }?.code, .cancelled)
    }

    @Test(.requires(.openSSL)) func `cancelling during the TLS handshake closes the connection`() async throws {
        // The server does not respond to the TLS handshake.
        try await ScriptedServer.run({ _, _ in }) { server in
            var request = HTTPRequest.get(server.endpoint)
            request.endpoint.scheme = "https"
            let error = await self.cancelled(SocketHTTPTransport(), request) {
                await server.connections.wait(1).first?.until { !$0.bytes.isEmpty }
            }
            expectEqual(error?.code, .cancelled)
            await expectEqual(server.connections.entries[0].until { $0.ended > 0 }.ended, 1)
        }
    }

    @Test func `cancelling while waiting for the head closes the connection`() async throws {
        let arrived = Signal()
        try await ScriptedServer.run({ _, _ in arrived.send() }) { server in
            let error = await self.cancelled(SocketHTTPTransport(), .get(server.endpoint)) { await arrived.wait() }
            expectEqual(error?.code, .cancelled)
            // The connection closes immediately, without waiting for the server.
            await expectEqual(server.connections.entries[0].until { $0.ended > 0 }.ended, 1)
        }
    }

    @Test func `cancelling between the pieces of the body closes the connection`() async throws {
        try await ScriptedServer.run { stream, _ in
            stream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n".utf8)
        } _: { server in
            let body = try await SocketHTTPTransport().open(.get(server.endpoint)).body
            let first = Signal()
            let task = Task { () -> TransportError? in
                do throws(TransportError) {
                    while let piece = try await body.next() {
                        expectEqual(piece, [UInt8(ascii: "a")])
                        first.send()
                    }
                    return nil
                } catch {
                    return error
                }
            }
            await first.wait()
            task.cancel()
            await expectEqual(task.value?.code, .cancelled)
            await expectEqual(server.connections.entries[0].until { $0.ended > 0 }.ended, 1)
            // Later reads fail too, even from a task that was not cancelled.
            let again = await #expect(throws: TransportError.self) { try await body.next() }
            expectEqual(again?.code, .cancelled)
        }
    }

    @Test func `cancelling before the request starts opens no connection`() async throws {
        try await ScriptedServer.run({ _, _ in }) { server in
            let gate = Signal()
            let task = Task { () -> TransportError? in
                await gate.wait()
                return await SocketHTTPTransport().failure(.get(server.endpoint))
            }
            task.cancel()
            gate.send()
            await expectEqual(task.value?.code, .cancelled)
            expect(server.connections.entries.isEmpty)
        }
    }

    /// Sends 300 requests and cancels each after a different time. The server responds to only a part of them.
    private static func storm(_ loop: EventLoop) async throws {
        let listener = SocketListener(limits: .forTests.with { $0.shutdownTimeout = .seconds(600) }, on: [loop])
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

    @Test func `many cancelled requests leak no descriptors`() async {
        await #expect(processExitsWith: .success) {
            let loop = try EventLoop("test")
            // The first use of the system's libraries opens descriptors that stay open.
            try await HTTPClientCancellationTests.storm(loop)
            let before = descriptorCount()
            for _ in 0..<3 { try await HTTPClientCancellationTests.storm(loop) }
            // The idle connections of a transport are closed soon after its release, perhaps not yet when the first storm has ended.
            try await eventually { descriptorCount() <= before }
            loop.shutdown()
        }
    }
}
