import DocumentationStubs
import PusherChannels
import PusherServer
import RealtimeTesting
import TestSupport
import Testing

// The snippets of the article InAServer.

// snippet:server-service
struct PriceFeed: Service {
    let client: PusherClient

    func run() async throws {
        let prices = try self.client.subscribe("prices").events("price", as: Price.self)
        try await withGracefulShutdownHandler {
            async let connection: Void = self.client.run()
            for await price in prices {
                print(price.symbol, price.value)
            }
            try await connection
        } onGracefulShutdown: {
            self.client.disconnect()
        }
    }
}
// end

func groupSnippet(_ client: PusherClient, _ logger: Logger) async throws {
    // snippet:server-group
    let group = ServiceGroup(services: [PriceFeed(client: client)], gracefulShutdownSignals: [.sigterm], logger: logger)
    try await group.run()
    // end
}

// snippet:server-log
extension LogSink {
    init(_ logger: Logger) {
        self.init(minimumLevel: logger.logLevel == .trace ? .trace : .debug) { level, subsystem, message in
            logger.log(level: Logger.Level(rawValue: "\(level)") ?? .info, "\(message)", metadata: ["subsystem": "\(subsystem)"])
        }
    }
}
// end

func loggerSnippet(_ configuration: inout PusherConfiguration) {
    // snippet:server-log-use
    configuration.log = LogSink(Logger(label: "pusher"))
    // end
}

// snippet:server-metrics
func record(_ counters: Counters) {
    Meter(label: "pusher_messages_received").set(counters.messagesReceived)
    Meter(label: "pusher_messages_sent").set(counters.messagesSent)
    Meter(label: "pusher_reconnects").set(counters.reconnects)
    Meter(label: "pusher_events_dropped").set(counters.eventsDropped)
    if let roundTrip = counters.lastRoundTrip { Timer(label: "pusher_round_trip").record(duration: roundTrip) }
}
// end

func metricsSnippet(_ client: PusherClient) async throws {
    // snippet:server-metrics-use
    while !Task.isCancelled {
        record(client.counters)
        try await Task.sleep(for: .seconds(15))
    }
    // end
}

struct Trade: Codable {
    let symbol: String
    let value: Double
}

// snippet:server-form
struct SubscriptionForm: Decodable {
    let socket_id: String
    let channel_name: String
}

struct SubscriptionResponse: ResponseEncodable {
    let auth: String
    let channel_data: String?
}
// end

func routesSnippet(_ router: Router<BasicRequestContext>, _ user: @escaping @Sendable (Request) throws -> PusherMember) {
    // snippet:server-publisher
    let publisher = PusherPublisher(appID: "1", key: "app-key", secret: "app-secret", cluster: "eu")
    // end
    // snippet:server-authorize
    router.post("/pusher/auth") { request, context in
        let form = try await URLEncodedFormDecoder().decode(SubscriptionForm.self, from: request, context: context)
        let user = try user(request)
        guard form.channel_name == "presence-room" else { throw HTTPError(.forbidden) }
        let authorization = try publisher.authorize(socketID: form.socket_id, channel: form.channel_name, user: user)
        return SubscriptionResponse(auth: authorization.auth, channel_data: authorization.channelData)
    }
    // end
    // snippet:server-publish
    router.post("/trades") { request, context in
        let trade = try await request.decode(as: Trade.self, context: context)
        try await publisher.publish("trade", to: "trades", data: trade)
        return HTTPResponse.Status.accepted
    }
    // end
    // snippet:server-webhooks
    router.post("/pusher/webhooks") { request, context in
        let body = try await request.body.collect(upTo: 1 << 20)
        let (key, signature) = (HTTPField.Name("X-Pusher-Key")!, HTTPField.Name("X-Pusher-Signature")!)
        guard
            let webhook = try? publisher.webhook(
                key: request.headers[key], signature: request.headers[signature], body: body.readableBytesView)
        else { throw HTTPError(.unauthorized) }
        for case .channelVacated(let channel) in webhook.events { print("\(channel) is empty") }
        return HTTPResponse.Status.ok
    }
    // end
}

// snippet:server-queries
func printRooms(_ publisher: PusherPublisher) async throws {
    let rooms = try await publisher.channels(prefix: "presence-", info: [.userCount])
    for (name, info) in rooms.sorted(by: { $0.key < $1.key }) where info.userCount == 1 {
        let users = try await publisher.users(of: name)
        print("\(users.first?.id ?? "someone") is alone in \(name)")
    }
}
// end

// snippet:server-sign-in
func signIn(_ socketID: String, _ publisher: PusherPublisher) throws -> PusherUserAuthentication {
    let user = PusherMember(id: "anna", info: ["name": "Anna"])
    return try publisher.authenticateUser(socketID: socketID, user: user, watchlist: ["bert"])
}
// end

// snippet:server-users
func warn(_ userID: String, _ publisher: PusherPublisher) async throws {
    try await publisher.sendToUser(userID, "warning", data: "Your session ends soon.")
}

func signOut(_ userID: String, _ publisher: PusherPublisher) async throws {
    try await publisher.terminateConnections(ofUser: userID)
}
// end

@Suite struct InAServerTests {
    private let network = InMemoryNetwork(clock: ManualClock())

    private func client() async throws -> (PusherClient, PusherServer) {
        let server = PusherServer(app: .random(), network: self.network)
        let address = try await server.start(on: self.network.listener())
        var configuration = PusherConfiguration(key: server.app.key, host: address.host, port: address.port, useTLS: false)
        configuration.transports = self.network.transports()
        return (PusherClient(configuration), server)
    }

    @Test func `the service of the article ends when the client is disconnected`() async throws {
        let (client, server) = try await self.client()
        let running = Task { try await PriceFeed(client: client).run() }
        try await untilSubscribed(client)
        server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
        client.disconnect()
        try await running.value
    }

    @Test func `the service of the article ends when its task is cancelled`() async throws {
        let (client, server) = try await self.client()
        let running = Task { try await PriceFeed(client: client).run() }
        try await untilSubscribed(client)
        running.cancel()
        try await running.value
        #expect(client.state == .disconnected(nil) && server.socketIDs.isEmpty)
    }

    @Test func `the service of the article throws if the server rejects the client`() async throws {
        let (client, server) = try await self.client()
        let running = Task { try await PriceFeed(client: client).run() }
        try await untilSubscribed(client)
        server.close(try #require(client.socketID), CloseCode(rawValue: 4001))
        let error = await #expect(throws: PusherError.self) { try await running.value }
        #expect(error?.code == .rejected)
    }

    private func untilSubscribed(_ client: PusherClient) async throws {
        while client.channel("prices")?.state != .subscribed { await Task.yield() }
    }

    @Test func `messages are passed on with their levels`() async throws {
        let lines = EventRecorder<String>()
        var logger = Logger { level, message, metadata in lines.record("\(metadata["subsystem"] ?? "") \(level): \(message)") }
        logger.logLevel = .trace
        var configuration = PusherConfiguration(key: "key", host: "memory", port: 1, useTLS: false)
        configuration.transports = self.network.transports()
        configuration.log = LogSink(logger)
        let client = PusherClient(configuration)
        client.connect()
        client.disconnect()
        #expect(lines.all.contains { $0.hasPrefix("pusher debug: ") } && lines.all.contains("pusher trace: #1 ended"))
        #expect(configuration.log.minimumLevel == .trace)
        logger.logLevel = .warning
        #expect(LogSink(logger).minimumLevel == .debug)
    }
}
