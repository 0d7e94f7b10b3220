import PusherTestSupport
import RealtimeCoding
import RealtimeCore
import PusherChannels
import PusherServer
import PusherTesting
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

@Suite(.usesSockets) struct SecretsTests {
    /// A session in which secrets appear wherever they can, with all its log messages and errors.
    @Test func `log messages and errors contain no secrets, signatures or data`() async throws {
        let (lines, clock) = (EventRecorder<String>(), ManualClock())
        let log = LogSink(minimumLevel: .debug) { lines.record("\($0) \($1) \($2)") }
        let network = InMemoryNetwork(clock: clock)
        var app = PusherApp(id: "1", key: "key", secret: "app-secret-1")
        app.clientEventsPerSecond = 1
        let server = PusherServer(app: app, network: network, log: log)
        let address = try await server.start(on: network.listener())
        let serverEvents = server.events

        func client(_ authorizer: PusherAuthorizer) -> PusherClient {
            var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
            configuration.transports = network.transports()
            configuration.authorizer = authorizer
            configuration.headers = ["Authorization": "Bearer header-token-1"]
            configuration.log = log
            return PusherClient(configuration)
        }
        let (good, bad) = (
            client(.secret("app-secret-1", userID: "user-id-1", userInfo: ["name": "user-info-1"])), client(.secret("app-secret-2"))
        )
        let application = try await network.listener(host: "app").start(
            ApplicationServer { _, _ in HTTPResponse(status: 500, text: "response-body-1") })
        let byEndpoint = client(
            .endpoint(
                PusherAuthorizationEndpoint(
                    try Endpoint("http://app:\(application.port)/auth?token=query-token-1"), headers: ["Cookie": "cookie-1"],
                    parameters: ["session": "parameter-1"])))
        let errors = [good.errors, bad.errors, byEndpoint.errors]
        for client in [good, bad, byEndpoint] { client.connect() }
        let (room, secret) = (try good.subscribe("presence-room"), try good.subscribe("private-one"))
        try await room.subscribed()
        try await secret.subscribed()
        _ = try bad.subscribe("private-one")
        let failed = try byEndpoint.subscribe("private-one")
        await #expect(throws: PusherError.self) { try await failed.subscribed() }
        for number in 1...3 { try room.trigger("client-a", ["text": "payload-\(number)"]) }
        server.publish("a", to: "private-one", data: "payload-4")
        let socketID = try #require(good.socketID)
        for frame in [
            #"{"event":"a","channel":5,"data":"payload-5"}"#, #"payload-6"#, #"{"event":"a","channel":"private-one","data":"payload-7"#,
            #"{"event":"pusher_internal:member_added","channel":"presence-room","data":"payload-8"}"#,
            #"{"event":"pusher:error","data":{"code":null,"message":"Invalid signature: digest of 1.2:presence-x:{\"user_id\":\"user-id-2\"}, but got \#(String(repeating: "0a", count: 32))"}}"#,
        ] { server.send(frame, to: socketID) }
        server.drop(socketID)
        clock.advance(by: .seconds(5))
        try await room.subscribed()
        for client in [good, bad, byEndpoint] { client.disconnect() }
        await server.stop()

        var reported = lines.all
        for sequence in errors { for error in await sequence.pending() { reported.append("\(error) \(error.message)") } }
        expect(reported.count > 20)
        let signatures = await serverEvents.pending().compactMap { event -> String? in
            guard case .received(_, let frame) = event, let json = try? JSONValue(parsing: frame) else { return nil }
            return json["data"]?["auth"]?.string
        }
        expect(signatures.count >= 4)
        let hidden = [
            "app-secret", "header-token", "query-token", "cookie-1", "parameter-1", "user-id", "user-info", "payload", "response-body",
            "0a0a0a0a",
        ]
        for line in reported {
            for text in hidden + signatures.map({ String($0.dropFirst(4)) }) { expect(!line.contains(text), "\(line)") }
        }
    }

    /// An error of the application whose description contains a secret.
    private struct TokenError: Error, CustomStringConvertible, Encodable {
        var description: String { "the token is thrown-token-1" }

        func encode(to encoder: any Encoder) throws { throw self }
    }

    @Test func `an error thrown by the application is the cause and only its type is in the message`() async throws {
        let (lines, net) = (EventRecorder<String>(), try await InMemoryPusher())
        let log = LogSink(minimumLevel: .debug) { lines.record("\($0) \($1) \($2)") }
        let authorizers: [PusherAuthorizer] = [
            .callback { _ in throw TokenError() },
            .endpoint(
                PusherAuthorizationEndpoint(Endpoint(scheme: "http", host: "app", port: 1), freshHeaders: { throw TokenError() })),
        ]
        for authorizer in authorizers {
            let client = net.client {
                $0.authorizer = authorizer
                $0.log = log
            }
            client.connect()
            let error = try await client.subscriptionError("private-one")
            expectEqual(error.code, .authorizationFailed)
            expect(error.cause is TokenError)
            expect(error.message.contains("TokenError"))
            expect(!"\(error) \(error.message) \(String(reflecting: error))".contains("thrown-token"))
            try await eventually { lines.all.contains { $0.contains("TokenError") } }
            _ = lines.take()
            client.disconnect()
        }
        let client = net.client { $0.log = log }
        client.connect()
        let room = try client.subscribe("private-one")
        let error = try #require(throws: PusherError.self) { try room.trigger("client-a", TokenError()) }
        expect(error.code == .encodingFailed && error.cause is TokenError && !error.message.contains("thrown-token"))
        expect(!lines.all.contains { $0.contains("thrown-token") })
        await net.server.stop()
    }

    /// Each response of the application's server contains a secret.
    @Test(arguments: [
        HTTPResponse(status: 200, text: "response-token-1"),
        HTTPResponse(status: 200, text: #"{"auth":5,"token":"response-token-1"}"#),
        HTTPResponse(status: 200, text: #"{"auth":"key:response-token-1","channel_data":"response-token-2"}"#),
        HTTPResponse(status: 302, headers: ["Location": "http://app/?response-token-1"], text: "response-token-1"),
        HTTPResponse(status: 403, headers: ["X-Token": "response-token-1"], text: #"{"error":"response-token-1"}"#),
        HTTPResponse(status: 500, text: String(repeating: "response-token-1 ", count: 20_000)),
    ])
    func `log messages contain no part of an application server's response`(_ response: HTTPResponse) async throws {
        let (lines, net) = (EventRecorder<String>(), try await InMemoryPusher())
        let application = try await net.network.listener(host: "app").start(ApplicationServer { _, _ in response })
        let client = net.client {
            $0.log = LogSink(minimumLevel: .debug) { lines.record("\($0) \($1) \($2)") }
            $0.authorizer = .endpoint(
                PusherAuthorizationEndpoint(
                    Endpoint(scheme: "http", host: "app", port: application.port, target: "/auth?key=query-token-1#fragment-token-1"),
                    headers: ["Authorization": "Bearer header-token-1"], freshHeaders: { ["Cookie": "header-token-2"] }))
        }
        client.connect()
        let channel = try client.subscribe("presence-one")
        let error = try await #require(throws: PusherError.self) { try await channel.subscribed() }
        expectEqual(error.code, .authorizationFailed)
        client.disconnect()
        await net.server.stop()
        expect(lines.all.count > 2)
        for line in lines.all + ["\(error)"] { expect(!line.contains("-token-"), "\(line)") }
    }

    /// Uses sockets, which resolve the host and name it in errors.
    @Test func `a user name in a URL is invalid and is not logged`() async throws {
        let lines = EventRecorder<String>()
        #expect(throws: TransportError.self) { try PusherAuthorizer.endpoint("https://anna:hunter-1@example.org/auth") }
        do {
            _ = try PusherAuthorizer.endpoint("https://anna:hunter-1@example.org/auth")
        } catch {
            expect(error.code == .invalidURL && !error.message.contains("hunter"))
        }
        let server = PusherServer(app: .random())
        let address = try await server.start(on: SocketListener(limits: .forTests))
        func client(_ host: String, _ authorizer: PusherAuthorizer?) -> PusherClient {
            var configuration = PusherConfiguration(key: server.app.key, host: host, port: address.port, useTLS: false)
            configuration.authorizer = authorizer
            configuration.log = LogSink(minimumLevel: .debug) { lines.record("\($0) \($1) \($2)") }
            configuration.allowLongTimes()
            return PusherClient(configuration)
        }
        let endpoint = Endpoint(scheme: "http", host: "anna:hunter-1@127.0.0.1", port: address.port, target: "/auth?query-hunter-2")
        let authorizing = client(address.host, .endpoint(PusherAuthorizationEndpoint(endpoint)))
        authorizing.connect()
        let channel = try authorizing.subscribe("private-one")
        let error = try await #require(throws: PusherError.self) { try await channel.subscribed(within: .seconds(300)) }
        expect(error.code == .authorizationFailed && (error.cause as? TransportError)?.code == .invalidURL)
        authorizing.disconnect()

        let connecting = client("anna:hunter-1@127.0.0.1", nil)
        connecting.connect()
        guard case .failed(let failure) = connecting.state else {
            Issue.record("the client is \(connecting.state.name)")
            return
        }
        let publisher = PusherPublisher(appID: "1", key: "key", secret: "hunter-3", endpoint: endpoint)
        let failedRequest = try await #require(throws: PusherError.self) { try await publisher.publish("a", to: ["b"], data: "hunter-4") }
        await server.stop()
        expect(lines.all.count > 2)
        for text in lines.all + ["\(error)", "\(failure)", "\(failedRequest)", "\(endpoint)", endpoint.origin] {
            expect(!text.contains("hunter") && !text.contains("anna"), "\(text)")
        }
    }

    /// The text of errors and close frames comes from the server.
    @Test func `header fields that a server echoes are not logged`() async throws {
        let (lines, net) = (EventRecorder<String>(), try await InMemoryPusher())
        let client = net.client {
            $0.headers = ["Authorization": "Bearer header-token-1", "Cookie": "session=header-token-2; theme=dark"]
            $0.log = LogSink(minimumLevel: .debug) { lines.record("\($0) \($1) \($2)") }
        }
        let errors = client.errors
        client.connect()
        _ = try client.subscribe("prices")
        let signature = String(repeating: "0a", count: 32)
        let socketID = try #require(client.socketID)
        for frame in [
            #"{"event":"pusher:error","data":{"code":4300,"message":"no: Bearer header-token-1"}}"#,
            #"{"event":"pusher:error","data":{"code":4300,"message":"no: header-token-2"}}"#,
            // The message is cut within the token.
            #"{"event":"pusher:error","data":{"code":4300,"message":"\#(String(repeating: "-", count: 485))header-token-1"}}"#,
            #"{"event":"pusher:subscription_error","channel":"prices","data":{"error":"no: header-token-1 \#(signature)"}}"#,
        ] { net.server.send(frame, to: socketID) }
        net.server.close(socketID, CloseCode(rawValue: 4009), reason: "not with header-token-1 and \(signature)")
        guard case .disconnected(let error?) = client.state else {
            Issue.record("the client is \(client.state.name)")
            return
        }
        await net.server.stop()
        var reported = lines.all + ["\(error)"]
        for error in await errors.pending() { reported.append("\(error)") }
        expect(reported.count > 4)
        for line in reported { expect(!line.contains("header-token") && !line.contains("0a0a0a"), "\(line)") }
    }
}
