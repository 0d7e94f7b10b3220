import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct ListenerStopTests {
    @Test func `it is started once and again after its stop`() async throws {
        let listener = SocketListener()
        let first = try await listener.start(TestHandler())
        let error = await #expect(throws: TransportError.self) { try await listener.start(TestHandler()) }
        #expect(error?.code == .unsupported)
        await listener.stop()
        await listener.stop()
        let second = try await listener.start(TestHandler())
        #expect(first.host == "127.0.0.1" && second.port > 0 && !second.isSecure)
        await listener.stop()
    }

    @Test func `a taken port is an error and the listener may try again`() async throws {
        let first = SocketListener()
        let address = try await first.start(TestHandler())
        let second = SocketListener(port: address.port)
        let error = await #expect(throws: TransportError.self) { try await second.start(TestHandler()) }
        #expect(error?.code == .addressInUse)
        await first.stop()
        let again = try await second.start(TestHandler())
        #expect(again.port == address.port)
        await second.stop()
    }

    @Test func `a key that cannot be read is an error of the start`() async throws {
        let identity = TLSIdentity(certificateChain: .file("/nowhere.pem"), privateKey: .file("/nowhere.pem"))
        await #expect(throws: TransportError.self) { try await SocketListener(tls: TLSServerConfiguration(identity)).start(TestHandler()) }
    }

    @Test func `without OpenSSL there is no TLS`() async throws {
        var tls = TLSServerConfiguration.test
        tls.library = .absent
        let error = await #expect(throws: TransportError.self) { try await SocketListener(tls: tls).start(TestHandler()) }
        #expect(error?.code == .tlsUnavailable)
    }

    @Test func `idle connections end at once`() async throws {
        let listener = SocketListener(limits: .forTests.with { $0.stopTime = .seconds(600) })
        let address = try await listener.start(TestHandler())
        let clients = try (0..<10).map { _ in try RawClient(address) }
        for client in clients {
            client.request()
            await client.text(until: "GET / ")
        }
        async let stopped: Void = listener.stop()
        for client in clients { _ = await client.whole() }
        await stopped
    }

    @Test func `an answer that is being made is waited for`() async throws {
        let waiting = Log<any HTTPResponder>()
        let listener = SocketListener(limits: .forTests.with { $0.stopTime = .seconds(600) })
        let address = try await listener.start(TestHandler { _, _, responder in waiting.add(responder) })
        let (first, idle) = (try RawClient(address), try RawClient(address))
        first.request("/1")
        idle.request("/2")
        let responders = await waiting.wait(2)
        responders[1].respond(HTTPResponse(status: 200, text: "two"))
        await idle.text(until: "two")
        async let stopped: Void = listener.stop()
        // By the end of the idle one it is known that the stop has begun.
        _ = await idle.whole()
        responders[0].respond(HTTPResponse(status: 200, text: "one"))
        let answer = await first.whole()
        #expect(answer.contains("one") || answer.contains("two"))
        await stopped
    }

    @Test func `whoever takes too long is cut off`() async throws {
        let gone = Log<Bool>()
        let handler = TestHandler { _, _, responder in responder.onDisconnect { gone.add(true) } }
        let listener = SocketListener(limits: .forTests.with { $0.stopTime = .milliseconds(20) })
        let address = try await listener.start(handler)
        let client = try RawClient(address)
        client.request()
        let partial = try RawClient(address)
        partial.send("GET / HT")
        while handler.requests.withLock({ $0.isEmpty }), !Task.isCancelled { await EventLoop.shared.turn() }
        await listener.stop()
        #expect(gone.entries.count == 1)
        #expect(await client.whole().isEmpty)
    }

    @Test func `WebSockets are closed with 1001`() async throws {
        let handler = TestHandler()
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(handler)
        let client = try RawClient(address)
        client.send("\(ListenerWebSocketTests.upgrade)\r\n")
        await handler.events.log.wait(1)
        async let stopped: Void = listener.stop()
        let close: [UInt8] = [0x88, 19, 0x03, 0xE9]
        #expect(await client.recorder.until { $0.bytes.holds(close) }.bytes.holds(close))
        // The client's own close frame, as it should be.
        client.stream.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE9])
        _ = await client.whole()
        await stopped
        #expect(handler.events.log.entries == ["opened", "closed"])
    }

    @Test func `a WebSocket that does not answer is cut off and its owner hears of it`() async throws {
        let handler = TestHandler()
        let listener = SocketListener(limits: .forTests.with { $0.stopTime = .milliseconds(20) })
        let address = try await listener.start(handler)
        let client = try RawClient(address)
        client.send("\(ListenerWebSocketTests.upgrade)\r\n")
        await handler.events.log.wait(1)
        await listener.stop()
        #expect(handler.events.log.entries == ["opened", "closed"])
        client.close()
    }

    @Test func `two stops both wait`() async throws {
        let waiting = Log<any HTTPResponder>()
        let listener = SocketListener(limits: .forTests.with { $0.stopTime = .milliseconds(20) })
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
                    #expect(await late.ended()?.code == .refused)
                }
            }
        }
        client.close()
    }

    @Test func `it stops while it is busy`() async throws {
        let listener = SocketListener(limits: .forTests.with { $0.stopTime = .milliseconds(200) }, loops: 2)
        let address = try await listener.start(TestHandler())
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
        let answered = Log<Bool>()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    while let response = try? await SocketHTTPTransport().send(.get(endpoint)) { answered.add(response.head.status == 200) }
                }
            }
            await answered.wait(50)
            await listener.stop()
        }
        #expect(answered.entries.allSatisfy { $0 })
    }

    /// A wish that is left would wake the loop for nobody, and keep a little memory until then.
    @Test func `nobody is to be woken any more`() async throws {
        let loop = try EventLoop("test")
        let listener = SocketListener(limits: .forTests.with { $0.stopTime = .milliseconds(50) }, on: [loop])
        let handler = TestHandler()
        let address = try await listener.start(handler)
        // Clients that have said nothing, a part of a request, a request; that have ended; and WebSockets of all kinds.
        let (silent, partial, idle) = (try RawClient(address), try RawClient(address), try RawClient(address))
        partial.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12")
        idle.request()
        await idle.text(until: "GET / ")
        let (done, cut) = (try RawClient(address), try RawClient(address))
        done.request("/", "Connection: close")
        #expect(await done.whole().status == 200)
        cut.request()
        await cut.text(until: "GET / ")
        cut.close()
        let sockets = try (0..<3).map { _ in try RawClient(address) }
        for client in sockets { client.send("\(ListenerWebSocketTests.upgrade)\r\n") }
        await handler.events.log.wait(3)
        sockets[0].stream.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8])
        sockets[1].close()
        await handler.events.log.wait(5)
        // An open WebSocket needs nobody to look after it by the clock: what is waited for are the others' requests.
        await listener.stop()
        await loop.turn()
        #expect(loop.sleepers == 0)
        for client in [silent, partial, idle] + sockets { client.close() }
        loop.shutdown()
    }

    @Test func `a client that is done is not to be woken either`() async throws {
        let (loop, handler) = (try EventLoop("test"), TestHandler())
        try await withListener(handler) { address in
            let transport = SocketWebSocketTransport(loop: loop)
            let request = WebSocketRequest(Endpoint(scheme: "ws", host: address.host, port: address.port))
            let events = SocketEvents()
            let connections = (0..<3).map { transport.makeConnection(request, id: ConnectionID(rawValue: $0), events: events) }
            for connection in connections { connection.open() }
            await events.log.wait(3)
            connections[0].close(.normal, reason: "")
            await events.log.wait(4)
            handler.events.connections.withLock { $0.last }?.close(.normal, reason: "")
            await events.log.wait(5)
            for connection in connections { connection.abandon() }
            await loop.turn()
            #expect(loop.sleepers == 0)
        }
        loop.shutdown()
    }

    @Test func `a WebSocket has no time limit of its request left`() async throws {
        let loop = try EventLoop("test")
        let (listener, handler) = (SocketListener(limits: .forTests, on: [loop]), TestHandler())
        let client = try RawClient(try await listener.start(handler))
        client.send("\(ListenerWebSocketTests.upgrade)\r\n")
        await handler.events.log.wait(1)
        await loop.turn()
        #expect(loop.sleepers == 0)
        client.close()
        await listener.stop()
        loop.shutdown()
    }

    @Test func `loops of somebody else live on`() async throws {
        let loop = try EventLoop("test")
        let listener = SocketListener(on: [loop])
        let address = try await listener.start(TestHandler())
        let client = try RawClient(address)
        client.request("/", "Connection: close")
        #expect(await client.whole().status == 200)
        await listener.stop()
        await loop.turn()
        let again = try await listener.start(TestHandler())
        #expect(again.port > 0)
        await listener.stop()
        loop.shutdown()
    }
}
