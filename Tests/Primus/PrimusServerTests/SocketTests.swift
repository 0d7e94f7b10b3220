import PrimusClient
import PrimusServer
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// A server on sockets.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct SocketTests {
    private final class Hello: ListenerHandler {
        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            responder.respond(HTTPResponse(status: 200, text: "hello"))
        }
    }

    @Test(arguments: BehaviorKind.all) func `a server shares a port with another handler`(kind: BehaviorKind) async throws {
        let server = PrimusServer(configuration: Self.configuration(kind), log: .none)
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(ListenerRouter([.path("/primus", server.listenerHandler), .path("/hello", Hello())]))
        let echo = server.onMessage { message in _ = try? message.spark.write(message.value) }
        let client = Self.client(address, kind)
        let messages = client.messages.makeAsyncIterator()
        client.open()
        try await client.opened(within: .seconds(300))
        try await client.write(1)
        try await expectEqual(messages.next()?.value, 1)
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/hello")
        let response = try await SocketHTTPTransport(keepAlive: .off).send(HTTPRequest("GET", endpoint))
        expectEqual(String(decoding: response.body, as: UTF8.self), "hello")
        client.end()
        echo.cancel()
        await server.stop()
        await listener.stop()
    }

    @Test func `a message that is too long ends the connection with the code 1009`() async throws {
        var configuration = PrimusServerConfiguration()
        configuration.messageLimit = 100
        let server = PrimusServer(configuration: configuration, log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let client = RawClient(SocketWebSocketTransport(), address, "/primus", [:])
        try await eventually { server.sparks.count == 1 }
        client.send("\"" + String(repeating: "a", count: 200) + "\"")
        try await eventually { client.end != nil }
        expectEqual(client.end.map { "\($0)".contains("1009") }, true, "\(client.end as Any)")
        await server.stop()
    }

    @Test(arguments: BehaviorKind.all)
    func `a message above the limit of the server is a typed error, and affects no other client`(kind: BehaviorKind) async throws {
        var configuration = Self.configuration(kind)
        configuration.messageLimit = 200
        let server = PrimusServer(configuration: configuration, log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let echo = server.onMessage { message in _ = try? message.spark.write(message.value) }
        func client() async throws -> PrimusConnection {
            let client = Self.client(address, kind)
            client.open()
            try await client.opened(within: .seconds(300))
            return client
        }
        let (neighbor, client) = (try await client(), try await client())
        let messages = neighbor.messages.makeAsyncIterator()
        let long = String(repeating: "x", count: 300)
        if kind.transformer == .engineIO, kind.version == .v8 {
            // The handshake of the server contains the limit, so that the client refuses the message itself.
            let error = await #expect(throws: PrimusError.self) { try await client.write(long) }
            expect(error?.code == .messageTooLarge && client.isConnected)
        } else {
            client.enqueue(long)
            try await eventually { client.isClosed }
            if kind.isOverHTTP {
                // The status 413 answers the message, and the end of the session another request. Either may arrive first.
                expect([.messageTooLarge, .connectionLost].contains(client.closingError?.code))
            } else {
                expect(client.closingError?.code == .messageTooLarge && client.closingError?.serverCode?.rawValue == 1009)
            }
            if let error = client.closingError, error.code == .messageTooLarge {
                let advice = " Send smaller messages, or increase the limit of the server, maxLength in Primus."
                expect(error.message.hasSuffix(advice), "\(error)")
            }
        }
        try await neighbor.write(1)
        try await expectEqual(messages.next()?.value, 1)
        client.end()
        neighbor.end()
        echo.cancel()
        await server.stop()
    }

    @Test(arguments: BehaviorKind.overHTTP)
    func `with the default limits, a request can have as many messages as the server accepts`(kind: BehaviorKind) async throws {
        let server = PrimusServer(configuration: Self.configuration(kind), log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let values = EventRecorder<Int>()
        let token = server.onMessage { values.record((try? $0.value)?.string?.utf8.count ?? 0) }
        let client = Self.client(address, kind)
        client.open()
        try await client.opened(within: .seconds(300))
        // A sanitizer makes each byte take ten times as long.
        #if canImport(Glibc)
        let size = ProcessUsage.hasSanitizer ? 512 << 10 : 5 << 20
        #else
        let size = 5 << 20
        #endif
        client.enqueue("first")
        client.enqueue(String(repeating: "x", count: size))
        try await eventually { values.all.count == 2 }
        expectEqual(values.all, [5, size])
        client.end()
        token.cancel()
        await server.stop()
    }

    private static func configuration(_ kind: BehaviorKind) -> PrimusServerConfiguration { .patient(kind) }

    private static func client(_ address: ListenerAddress, _ kind: BehaviorKind) -> PrimusConnection {
        PrimusConnection(.patient(address, kind))
    }

    @Test func `releasing a server ends its connections and its listener`() async throws {
        var server: PrimusServer? = PrimusServer(log: .none)
        let address = try #require(try await server?.start(on: SocketListener(limits: .forTests)))
        let client = RawClient(SocketWebSocketTransport(), address, "/primus", [:])
        try await eventually { server?.sparks.count == 1 }
        server = nil
        try await eventually { client.end != nil }
        let late = RawClient(SocketWebSocketTransport(), address, "/primus", [:])
        try await eventually { late.end != nil }
    }
}
