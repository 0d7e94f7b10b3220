import PusherChannels
import PusherServer
import RealtimeTesting
import Testing

@Suite struct SecretsTests {
    /// A whole session with everything in it that must not be told, and every line and error that came of it.
    @Test func noLogLineAndNoErrorHoldsASecretASignatureAUserOrAPayload() async throws {
        let (lines, clock) = (Recorder<String>(), ManualClock())
        let log = LogSink(minimumLevel: .debug) { lines.record("\($0) \($1) \($2)") }
        let network = InMemoryNetwork(clock: clock)
        var app = PusherApp(id: "1", key: "key", secret: "app-secret-1")
        app.clientEventsPerSecond = 1
        let server = PusherServer(app: app, network: network, log: log)
        let address = try await server.start(on: network.listener())
        let serverEvents = server.events

        func client(_ authorizer: Authorizer) -> PusherClient {
            var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
            configuration.transports = network.transports()
            configuration.authorizer = authorizer
            configuration.headers = ["Authorization": "Bearer header-token-1"]
            configuration.log = log
            return PusherClient(configuration)
        }
        let (good, bad) = (client(.secret("app-secret-1", userID: "user-id-1", userInfo: ["name": "user-info-1"])), client(.secret("app-secret-2")))
        let application = try await network.listener(host: "app").start(ApplicationServer { _, _ in HTTPResponse(status: 500, text: "answer-body-1") })
        let asking = client(.endpoint(AuthorizationEndpoint(
            try Endpoint("http://app:\(application.port)/auth?token=query-token-1"), headers: ["Cookie": "cookie-1"], parameters: ["session": "parameter-1"])))
        let errors = [good.errors, bad.errors, asking.errors]
        for client in [good, bad, asking] { client.connect() }
        let (room, secret) = (try good.subscribe("presence-room"), try good.subscribe("private-one"))
        try await room.subscribed()
        try await secret.subscribed()
        _ = try bad.subscribe("private-one")
        let refused = try asking.subscribe("private-one")
        await #expect(throws: PusherError.self) { try await refused.subscribed() }
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
        for client in [good, bad, asking] { client.disconnect() }
        await server.stop()

        var told = lines.all
        for sequence in errors { for error in await sequence.pending() { told.append("\(error) \(error.message)") } }
        #expect(told.count > 20)
        let signatures = await serverEvents.pending().compactMap { event -> String? in
            guard case .received(_, let frame) = event, let json = try? JSONValue(parsing: frame) else { return nil }
            return json["data"]?["auth"]?.string
        }
        #expect(signatures.count >= 4)
        let hidden = [
            "app-secret", "header-token", "query-token", "cookie-1", "parameter-1", "user-id", "user-info", "payload", "answer-body", "0a0a0a0a",
        ]
        for line in told {
            for text in hidden + signatures.map({ String($0.dropFirst(4)) }) { #expect(!line.contains(text), "\(line)") }
        }
    }
}
