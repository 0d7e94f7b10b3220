import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

/// Usual mistakes, and the messages that help to find them.
@Suite(.usesSockets, .timeLimit(.minutes(5)))
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

        func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
            preconditionFailure("no upgrade is accepted")
        }
    }

    private func withListener(
        tls: Bool = false, _ handler: any ListenerHandler, _ body: (ListenerAddress) async throws -> Void
    ) async throws {
        func file(_ name: String) -> PEM { .file(Vectors.path("certificates/\(name)")) }
        let identity = TLSIdentity(certificateChain: file("server.pem"), privateKey: file("server-key.pem"))
        let listener = SocketListener(tls: tls ? TLSServerConfiguration(identity) : nil)
        let address = try await listener.start(handler)
        do { try await body(address) } catch { Issue.record(error) }
        await listener.stop()
    }

    /// The message of the first failure to connect.
    private func failure(_ address: ListenerAddress, useTLS: Bool) async throws -> String {
        var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: useTLS)
        configuration.log = .none
        let client = PusherClient(configuration)
        let errors = client.errors
        client.connect()
        let error = try #require(await errors.first { _ in true })
        client.disconnect()
        #expect(error.message.contains("\(address.host):\(address.port)"))
        return error.message
    }

    @Test func `a web server's page is named by its title`() async throws {
        try await self.withListener(OtherServer()) { address in
            let message = try await self.failure(address, useTLS: false)
            #expect(message.contains("404 Not Found and a web page titled \"Welcome\"") && !message.contains("shop"))
            let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
            let publisher = PusherPublisher(appID: "1", key: "key", secret: "secret", endpoint: endpoint)
            let error = await #expect(throws: PusherError.self) { try await publisher.publish("event", to: ["one"], data: "1") }
            #expect(error?.message.contains("404 Not Found and a web page titled \"Welcome\"") == true)
        }
    }

    @Test func `a port that expects TLS suggests a secure URL`() async throws {
        try await self.withListener(tls: true, OtherServer()) { address in
            let message = try await self.failure(address, useTLS: false)
            #expect(message.contains("use wss://"))
            let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
            let publisher = PusherPublisher(appID: "1", key: "key", secret: "secret", endpoint: endpoint)
            let error = await #expect(throws: PusherError.self) { try await publisher.publish("event", to: ["one"], data: "1") }
            #expect(error?.message.contains("use https://") == true)
        }
    }

    @Test func `a port without TLS suggests an unencrypted URL`() async throws {
        try await self.withListener(OtherServer()) { address in
            let message = try await self.failure(address, useTLS: true)
            #expect(message.contains("use ws://"))
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
        #expect(error.code == .invalidConfiguration && error.message.contains(expected))
    }

    @Test func `a wrong secret is the suggested reason for a rejected signature`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = .secret("wrong") }
        client.connect()
        let error = await #expect(throws: PusherError.self) { try await client.subscribe("private-one").subscribed() }
        #expect(error?.code == .subscriptionRejected && error?.channel == "private-one")
        #expect(error?.message.contains("Check the key and the secret") == true)
        let endpoint = Endpoint(scheme: "http", host: pusher.address.host, port: pusher.address.port)
        let publisher = PusherPublisher(appID: "1", key: "key", secret: "wrong", endpoint: endpoint, http: pusher.network.transports().http)
        let rejection = await #expect(throws: PusherError.self) { try await publisher.publish("event", to: ["one"], data: "1") }
        #expect(rejection?.message.contains("Check the app ID, the key and the secret.") == true)
    }

    @Test func `a wrong key is reported once`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.key = "wrong" }
        let errors = client.errors
        client.connect()
        let reported = await errors.pending()
        #expect(reported.map(\.serverCode) == [4001] && reported.map(\.code) == [.rejected])
    }

    @Test func `an error describes itself without Foundation's general text`() {
        #expect(PusherError(.timedOut, "It took too long.").localizedDescription == "It took too long.")
        #expect(TransportError(.timedOut, "It took too long.").localizedDescription == "It took too long.")
    }
}
