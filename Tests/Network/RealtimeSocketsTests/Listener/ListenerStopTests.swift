import Foundation
import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ListenerStopTests {
    @Test func `a listener can be started only once until it is stopped`() async throws {
        let listener = SocketListener()
        let first = try await listener.start(TestHandler())
        let error = await #expect(throws: TransportError.self) { try await listener.start(TestHandler()) }
        expectEqual(error?.code, .unsupported)
        await listener.stop()
        await listener.stop()
        let second = try await listener.start(TestHandler())
        expect(first.host == "127.0.0.1" && second.port > 0 && !second.isSecure)
        await listener.stop()
    }

    @Test func `a port in use is an error and the listener can be started again`() async throws {
        let port = TestPort.next()
        let (first, second) = (SocketListener(port: port), SocketListener(port: port))
        let address = try await first.start(TestHandler())
        let error = await #expect(throws: TransportError.self) { try await second.start(TestHandler()) }
        expectEqual(error?.code, .addressInUse)
        await first.stop()
        let again = try await second.start(TestHandler())
        expectEqual(again.port, address.port)
        await second.stop()
    }

    @Test(.requires(.openSSL)) func `a listener that is stopped while it starts does not listen`() async throws {
        // The start waits for the certificate, which it reads from a pipe.
        let path = "/tmp/realtime-test-\(getpid())-\(UInt64.random(in: .min ... .max))"
        try #require(mkfifo(path, 0o600) == 0)
        defer { unlink(path) }
        let identity = TLSIdentity(certificateChain: .file(path), privateKey: TestCertificates.pem("server-key"))
        let listener = SocketListener(tls: TLSServerConfiguration(identity))
        let started = Waiter<Result<ListenerAddress, TransportError>>()
        let starting = Task {
            do throws(TransportError) {
                started.fulfill(.success(try await listener.start(TestHandler())))?.resume()
            } catch {
                started.fulfill(.failure(error))?.resume()
            }
        }
        var pipe: Int32 = -1
        while pipe < 0 {
            pipe = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            await Task.yield()
        }
        let stopping = Task.immediate { await listener.stop() }
        let certificate = try String(contentsOfFile: TestCertificates.path("server"), encoding: .utf8)
        expectEqual(write(pipe, certificate, certificate.utf8.count), certificate.utf8.count)
        close(pipe)
        let result = await started.value()
        await starting.value
        await stopping.value
        #expect(throws: TransportError.self) { try result.get() }
        // It can be started again.
        unlink(path)
        try #require(symlink(TestCertificates.path("server"), path) == 0)
        _ = try await listener.start(TestHandler())
        await listener.stop()
    }

    @Test func `an unreadable key fails the start`() async throws {
        let identity = TLSIdentity(certificateChain: .file("/nowhere.pem"), privateKey: .file("/nowhere.pem"))
        await #expect(throws: TransportError.self) { try await SocketListener(tls: TLSServerConfiguration(identity)).start(TestHandler()) }
    }

    @Test func `TLS without OpenSSL fails the start`() async throws {
        var tls = TLSServerConfiguration.test
        tls.library = .absent
        let error = await #expect(throws: TransportError.self) { try await SocketListener(tls: tls).start(TestHandler()) }
        expectEqual(error?.code, .tlsUnavailable)
    }

    @Test func `idle connections close immediately`() async throws {
        let listener = SocketListener(limits: .forTests.with { $0.shutdownTimeout = .seconds(600) })
        let address = try await listener.start(TestHandler())
        let clients = try (0..<10).map { _ in try RawClient(address) }
        for client in clients {
            client.request()
            await client.text(until: "GET / ")
        }
        async let stopped: Void = listener.stop()
        for client in clients { _ = await client.textToEnd() }
        await stopped
    }

    @Test func `stopping waits for a pending response`() async throws {
        let waiting = Log<any HTTPResponder>()
        let listener = SocketListener(limits: .forTests.with { $0.shutdownTimeout = .seconds(600) })
        let address = try await listener.start(TestHandler { _, _, responder in waiting.add(responder) })
        let (first, idle) = (try RawClient(address), try RawClient(address))
        first.request("/1")
        // The listener may read two connections in any order.
        await waiting.wait(1)
        idle.request("/2")
        let responders = await waiting.wait(2)
        responders[1].respond(HTTPResponse(status: 200, text: "two"))
        await idle.text(until: "two")
        async let stopped: Void = listener.stop()
        // When the idle connection closes, the listener is stopping.
        _ = await idle.textToEnd()
        responders[0].respond(HTTPResponse(status: 200, text: "one"))
        let response = await first.textToEnd()
        expect(response.contains("one"))
        await stopped
    }

    @Test func `connections that remain after the shutdown timeout are dropped`() async throws {
        let disconnected = Log<Bool>()
        let handler = TestHandler { _, _, responder in responder.onDisconnect { disconnected.add(true) } }
        let listener = SocketListener(limits: .forTests.with { $0.shutdownTimeout = .milliseconds(20) })
        let address = try await listener.start(handler)
        let client = try RawClient(address)
        client.request()
        let partial = try RawClient(address)
        partial.send("GET / HT")
        while handler.requests.withLock({ $0.isEmpty }), !Task.isCancelled { await EventLoop.shared.turn() }
        await listener.stop()
        expectEqual(disconnected.entries.count, 1)
        await expect(client.textToEnd().isEmpty)
    }

    @Test func `stopping closes WebSockets with 1001`() async throws {
        let handler = TestHandler()
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(handler)
        let client = try RawClient(address)
        client.send("\(ListenerWebSocketTests.upgrade)\r\n")
        await handler.events.log.wait(1)
        async let stopped: Void = listener.stop()
        let reason = "The server is shutting down."
        let close = [0x88, UInt8(2 + reason.utf8.count), 0x03, 0xE9] + Array(reason.utf8)
        await expect(client.recorder.until { $0.bytes.contains(sequence: close) }.bytes.contains(sequence: close))
        // The client completes the close handshake.
        client.stream.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE9])
        _ = await client.textToEnd()
        await stopped
        expectEqual(handler.events.log.entries, ["opened", "closed"])
    }

    @Test func `a WebSocket that does not close is dropped and its owner is notified`() async throws {
        let handler = TestHandler()
        let listener = SocketListener(limits: .forTests.with { $0.shutdownTimeout = .milliseconds(20) })
        let address = try await listener.start(handler)
        let client = try RawClient(address)
        client.send("\(ListenerWebSocketTests.upgrade)\r\n")
        await handler.events.log.wait(1)
        await listener.stop()
        expectEqual(handler.events.log.entries, ["opened", "closed"])
        client.close()
    }

    @Test func `concurrent stops all wait`() async throws {
        let waiting = Log<any HTTPResponder>()
        let listener = SocketListener(port: TestPort.next(), limits: .forTests.with { $0.shutdownTimeout = .milliseconds(20) })
        let address = try await listener.start(TestHandler { _, _, responder in waiting.add(responder) })
        let client = try RawClient(address)
        client.request()
        await waiting.wait(1)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    await listener.stop()
                    let late = EventRecorder()
                    SocketStream(events: late).connect(to: address.host, port: address.port)
                    await expectEqual(late.ended()?.code, .refused)
                }
            }
        }
        client.close()
    }

    @Test func `a busy listener stops`() async throws {
        let listener = SocketListener(limits: .forTests.with { $0.shutdownTimeout = .milliseconds(200) }, loops: 2)
        let address = try await listener.start(TestHandler())
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
        let responses = Log<Bool>()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    while let response = try? await SocketHTTPTransport().send(.get(endpoint)) {
                        responses.add(response.head.status == 200)
                    }
                }
            }
            await responses.wait(50)
            await listener.stop()
        }
        expect(responses.entries.allSatisfy { $0 })
    }

    /// A leftover timer would wake the loop unnecessarily and keep its client in memory until then.
    @Test func `a stopped listener leaves no timers`() async throws {
        let loop = try EventLoop("test")
        let listener = SocketListener(limits: .forTests.with { $0.shutdownTimeout = .milliseconds(50) }, on: [loop])
        let handler = TestHandler()
        let address = try await listener.start(handler)
        // Clients that have sent nothing, a part of a request, or a request; clients that have closed; and WebSockets.
        let (silent, partial, idle) = (try RawClient(address), try RawClient(address), try RawClient(address))
        partial.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12")
        idle.request()
        await idle.text(until: "GET / ")
        let (finished, disconnected) = (try RawClient(address), try RawClient(address))
        finished.request("/", "Connection: close")
        await expectEqual(finished.textToEnd().status, 200)
        disconnected.request()
        await disconnected.text(until: "GET / ")
        disconnected.close()
        let sockets = try (0..<3).map { _ in try RawClient(address) }
        for client in sockets { client.send("\(ListenerWebSocketTests.upgrade)\r\n") }
        await handler.events.log.wait(3)
        sockets[0].stream.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8])
        sockets[1].close()
        await handler.events.log.wait(5)
        // An open WebSocket has no timer. The remaining timers are those of the other connections.
        await listener.stop()
        await loop.turn()
        expectEqual(loop.timerCount, 0)
        for client in [silent, partial, idle] + sockets { client.close() }
        loop.shutdown()
    }

    @Test func `disconnected clients leave no timers`() async throws {
        let (loop, handler) = (try EventLoop("test"), TestHandler())
        try await withListener(handler) { address in
            let transport = SocketWebSocketTransport(loop: loop)
            let request = WebSocketRequest(Endpoint(scheme: "ws", host: address.host, port: address.port))
            let events = SocketEvents()
            let connections = (0..<3).map { transport.makeConnection(request, id: ConnectionID(rawValue: $0), events: events) }
            // One after the other: the listener may accept several in any order.
            for (number, connection) in connections.enumerated() {
                connection.open()
                await events.log.wait(number + 1)
            }
            connections[0].close(.normal, reason: "")
            await events.log.wait(4)
            handler.events.connections.withLock { $0.last }?.close(.normal, reason: "")
            await events.log.wait(5)
            for connection in connections { connection.abandon() }
            await loop.turn()
            expectEqual(loop.timerCount, 0)
        }
        loop.shutdown()
    }

    @Test func `the request timeouts end when a WebSocket opens`() async throws {
        let loop = try EventLoop("test")
        let (listener, handler) = (SocketListener(limits: .forTests, on: [loop]), TestHandler())
        let client = try RawClient(try await listener.start(handler))
        client.send("\(ListenerWebSocketTests.upgrade)\r\n")
        await handler.events.log.wait(1)
        await loop.turn()
        expectEqual(loop.timerCount, 0)
        client.close()
        await listener.stop()
        loop.shutdown()
    }

    @Test func `stopping a listener leaves shared loops running`() async throws {
        let loop = try EventLoop("test")
        let listener = SocketListener(on: [loop])
        let address = try await listener.start(TestHandler())
        let client = try RawClient(address)
        client.request("/", "Connection: close")
        await expectEqual(client.textToEnd().status, 200)
        await listener.stop()
        await loop.turn()
        let again = try await listener.start(TestHandler())
        expect(again.port > 0)
        await listener.stop()
        loop.shutdown()
    }
}
