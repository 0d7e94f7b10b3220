import PusherTestSupport
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// Usual mistakes, and the messages that help to find them.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct MistakeTests {
    /// A server of something else: it answers every request with the same response.
    private final class OtherServer: ListenerHandler {
        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            var response = HTTPResponse(status: 404, text: "<html><head><title>Welcome</title></head><body>A shop</body></html>")
            response.head.headers["Content-Type"] = "text/html"
            responder.respond(response)
        }

        func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
            .reject(HTTPResponse(status: 404, text: "<html><head><title>Welcome</title></head><body>A shop</body></html>"))
        }
    }

    private func withListener(
        tls: Bool = false, _ handler: any ListenerHandler, _ body: (ListenerAddress) async throws -> Void
    ) async throws {
        func file(_ name: String) -> PEM { .file(Vectors.path("certificates/\(name)")) }
        let identity = TLSIdentity(certificateChain: file("server.pem"), privateKey: file("server-key.pem"))
        let listener = SocketListener(tls: tls ? TLSServerConfiguration(identity) : nil, limits: .forTests)
        let address = try await listener.start(handler)
        do { try await body(address) } catch { Issue.record(error) }
        await listener.stop()
    }

    /// The message of the first failure to connect.
    private func failure(_ address: ListenerAddress, useTLS: Bool) async throws -> String {
        var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: useTLS)
        configuration.log = .none
        configuration.allowLongTimes()
        let client = PusherClient(configuration)
        let errors = client.errors
        client.connect()
        let error = try #require(await errors.first { _ in true })
        client.disconnect()
        expect(error.message.contains("\(address.host):\(address.port)"))
        return error.message
    }

    @Test func `a web server's page is named by its title`() async throws {
        try await self.withListener(OtherServer()) { address in
            let message = try await self.failure(address, useTLS: false)
            expect(message.contains("404 Not Found and a web page titled \"Welcome\"") && !message.contains("shop"))
            let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
            let publisher = PusherPublisher(appID: "1", key: "key", secret: "secret", endpoint: endpoint)
            let error = await #expect(throws: PusherError.self) { try await publisher.publish("event", to: ["one"], data: "1") }
            expectEqual(error?.message.contains("404 Not Found and a web page titled \"Welcome\""), true)
        }
    }

    @Test func `a port that expects TLS suggests a secure URL`() async throws {
        try await self.withListener(tls: true, OtherServer()) { address in
            let message = try await self.failure(address, useTLS: false)
            expect(message.contains("use wss://"))
            let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
            let publisher = PusherPublisher(appID: "1", key: "key", secret: "secret", endpoint: endpoint)
            let error = await #expect(throws: PusherError.self) { try await publisher.publish("event", to: ["one"], data: "1") }
            expectEqual(error?.message.contains("use https://"), true)
        }
    }

    @Test func `a port without TLS suggests an unencrypted URL`() async throws {
        try await self.withListener(OtherServer()) { address in
            let message = try await self.failure(address, useTLS: true)
            expect(message.contains("use ws://"))
        }
    }

    @Test(arguments: [
        ("localhost:6001", "must not contain a port: set `port`"), ("https://example.com", "must not contain a scheme"),
        ("wss://example.com:443", "must not contain a scheme"),
    ])
    func `a host that is a URL says what to change`(host: String, expected: String) async {
        let client = PusherClient(key: "key", host: host)
        client.connect()
        guard case .failed(let error) = client.state else {
            Issue.record("\(client.state)")
            return
        }
        expect(error.code == .invalidConfiguration && error.message.contains(expected))
    }

    @Test func `a wrong secret is the suggested reason for a rejected signature`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = .secret("wrong") }
        client.connect()
        let error = await #expect(throws: PusherError.self) { try await client.subscribe("private-one").subscribed() }
        expect(error?.code == .subscriptionRejected && error?.channel == "private-one")
        expectEqual(error?.message.contains("Check the key and the secret"), true)
        let endpoint = Endpoint(scheme: "http", host: pusher.address.host, port: pusher.address.port)
        let publisher = PusherPublisher(appID: "1", key: "key", secret: "wrong", endpoint: endpoint, http: pusher.network.transports().http)
        let rejection = await #expect(throws: PusherError.self) { try await publisher.publish("event", to: ["one"], data: "1") }
        expectEqual(rejection?.message.contains("Check the app ID, the key and the secret."), true)
    }

    @Test func `a wrong key is reported once`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.key = "wrong" }
        let errors = client.errors
        client.connect()
        let reported = await errors.pending()
        expect(reported.map(\.serverCode) == [4001] && reported.map(\.code) == [.rejected])
    }

    @Test func `what is missing in the configuration is named as in code`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = nil }
        client.connect()
        let channel = await #expect(throws: PusherError.self) { try await client.subscribe("private-one").subscribed() }
        expectEqual(channel?.message, "private-one requires authorization: set `PusherConfiguration.authorizer`.")
        client.user.signIn()
        let user = await #expect(throws: PusherError.self) { try await client.user.signedIn() }
        expectEqual(user?.message, "Signing in requires authentication: set `PusherConfiguration.userAuthenticator`.")
        let filter = #expect(throws: PusherError.self) { try client.subscribe("one", filter: .equals("a", "b")) }
        expectEqual(filter?.message.contains("set `PusherConfiguration.allowsFilters`"), true)
    }

    @Test func `a rejection that is about authentication suggests to check the secret`() {
        for reason in ["Invalid signature", "Authentication error: Channel requires authentication."] {
            let error = PusherError.subscriptionRejected("private-a", reason, serverCode: nil)
            expect(error.message.hasSuffix(" Check the key and the secret that sign subscriptions."))
        }
        expect(!PusherError.subscriptionRejected("private-a", "Not allowed.", serverCode: nil).message.contains("secret"))
    }

    @Test func `an error describes itself without Foundation's general text`() {
        expectEqual(PusherError(.timedOut, "It took too long.").localizedDescription, "It took too long.")
        expectEqual(TransportError(.timedOut, "It took too long.").localizedDescription, "It took too long.")
    }

    @Test func `a configuration of TLS that cannot be used is a final failure`() async throws {
        var configuration = PusherConfiguration(key: "key", host: "127.0.0.1", port: 1)
        var tls = TLSConfiguration()
        tls.trustRoots = .only([.text("nothing")])
        configuration.transports.webSocket = SocketWebSocketTransport(tls: tls)
        configuration.log = .none
        let client = PusherClient(configuration)
        client.connect()
        let error = await #expect(throws: PusherError.self) { try await client.connected() }
        expect(error?.code == .invalidConfiguration && error?.message.contains("contains no certificate") == true)
        expectEqual(client.state.name, "failed")
    }

    @Test func `the page of a web server at the authorization endpoint is named`() async throws {
        let pusher = try await InMemoryPusher()
        let address = try await pusher.network.listener(host: "app").start(OtherServer())
        let client = pusher.client { $0.authorizer = .endpoint(.init(Endpoint(scheme: "http", host: "app", port: address.port))) }
        client.connect()
        let error = await #expect(throws: PusherError.self) { try await client.subscribe("private-one").subscribed() }
        expect(error?.message.contains("and a web page titled \"Welcome\"") == true && error?.message.contains("shop") == false)
        expect((error?.cause as? TransportError)?.response != nil)
    }

    @Test func `a channel that failed keeps the start of the response`() async throws {
        let pusher = try await InMemoryPusher()
        let server = ApplicationServer { _, _ in HTTPResponse(status: 403, text: String(repeating: "a", count: 5_000)) }
        let address = try await pusher.network.listener(host: "app").start(server)
        let client = pusher.client { $0.authorizer = .endpoint(.init(Endpoint(scheme: "http", host: "app", port: address.port))) }
        client.connect()
        let channel = try client.subscribe("private-one")
        await #expect(throws: PusherError.self) { try await channel.subscribed() }
        guard case .failed(let stored) = channel.state else {
            Issue.record("\(channel.state)")
            return
        }
        let response = (stored.cause as? TransportError)?.response
        expect(response?.head.status == 403 && response?.body.count == 1_024)
    }

    @Test func `an authorization without a user is not requested again`() async throws {
        let (pusher, requests) = (try await InMemoryPusher(), EventRecorder<String>())
        let handler = ApplicationServer { request, _ in
            requests.record("\(request.path)")
            return HTTPResponse(status: 200, text: #"{"auth":"key:signature"}"#)
        }
        let address = try await pusher.network.listener(host: "app").start(handler)
        let client = pusher.client { $0.authorizer = .endpoint(.init(Endpoint(scheme: "http", host: "app", port: address.port))) }
        client.connect()
        let room = try client.subscribe("presence-room")
        let error = await #expect(throws: PusherError.self) { try await room.subscribed() }
        expect(error?.code == .authorizationFailed && error?.message.contains("channel_data") == true)
        pusher.clock.advance(by: .seconds(600))
        guard case .failed = room.state else {
            Issue.record("the subscription is \(room.state)")
            return
        }
        expectEqual(requests.all.count, 1)
    }

    @Test func `the error for a wrong key names the server`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.key = "wrong" }
        client.connect()
        guard case .disconnected(let error?) = client.state else {
            Issue.record("the client is \(client.state.name)")
            return
        }
        expect(error.message.hasPrefix("ws://\(pusher.address.host):\(pusher.address.port) rejected the connection (close code 4001"))
        expect(error.message.hasSuffix("Check the key and the cluster or host."))
    }
}
