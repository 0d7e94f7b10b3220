import PusherChannels
import PusherServer
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

// The snippets in documentation comments.

/// The signed-in user of an app, with a token that expires.
actor UserSession {
    private var current = "token"

    /// Returns a token that is valid for a while, and requests a new one if necessary.
    func token() async throws -> String { self.current }

    func mayJoin(_ channel: String) -> Bool { true }

    func authorize(_ request: PusherAuthorizationRequest) async throws -> PusherChannelAuthorization {
        PusherChannelAuthorization(auth: "key:\(self.current)")
    }
}

/// An application's code with completion handlers.
struct Backend: Sendable {
    func authorize(_ channel: String, _ socketID: String, _ complete: @escaping PusherAuthorizer.Completion) {
        complete(.success(PusherChannelAuthorization(auth: "key:signature")))
    }
}

func clientReference() async throws {
    // snippet:client
    let client = PusherClient(key: "app-key", cluster: "eu")
    client.connect()
    let prices = try client.subscribe("prices")
    for await price in prices.events("price", as: Price.self) {
        print(price.symbol, price.value)
    }
    // end
}

func stateChangesReference(_ client: PusherClient) async {
    // snippet:state-changes
    for await change in client.stateChanges {
        if case .connected = change.old { print("connection lost") }
        if case .connected = change.new { print("connected") }
    }
    // end
}

func typedEventsReference(_ prices: PusherChannel) async {
    // snippet:typed-events
    for await price in prices.events("price", as: Price.self) {
        print(price.symbol, price.value)
    }
    // end
}

func updatesReference(_ client: PusherClient) async {
    // snippet:updates
    for await update in client.updates() {
        switch update {
        case .state(let state): print(state.name)
        case .subscription(let channel, let state): print(channel, state)
        case .event(let event): print(event)
        default: break
        }
    }
    // end
}

func configurationReference() throws {
    // snippet:configuration
    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    configuration.authorizer = try .endpoint("https://example.org/pusher/auth")
    let client = PusherClient(configuration)
    // end
    client.connect()
}

func publisherReference() async throws {
    // snippet:publisher
    let publisher = PusherPublisher(appID: "1", key: "key", secret: "secret", cluster: "eu")
    try await publisher.publish("price", to: "prices", data: ["value": 12])
    let rooms = try await publisher.channels(prefix: "presence-", info: [.userCount])
    // end
    _ = rooms
}

func authorizeReference(_ publisher: PusherPublisher, _ socketID: String, _ channel: String) throws -> [UInt8] {
    // snippet:authorize
    let user = PusherMember(id: "7", info: ["name": "Anna"])
    let authorization = try publisher.authorize(socketID: socketID, channel: channel, user: user)
    let body = try JSONValueEncoder().encode(authorization)
    // end
    return body
}

func logReference(_ configuration: inout PusherConfiguration) {
    // snippet:log
    configuration.log = LogSink(minimumLevel: .debug) { level, subsystem, message in
        print(level, subsystem, message)
    }
    // end
}

struct Shipment: Decodable {
    var carrier: String
}

func echoReference(_ client: PusherClient) async throws {
    // snippet:echo
    let echo = PusherEcho(client)
    let orders = try echo.private("orders.1")
    for await update in orders.listen("OrderShipped", as: Shipment.self) {
        print(update.carrier)
    }
    // end
}

func clientEventLimitReference(_ configuration: inout PusherConfiguration) {
    // snippet:client-event-limit
    configuration.clientEventLimit = PusherClientEventLimit(perSecond: 10, excess: .fail)
    // end
}

func filterReference(_ client: PusherClient) throws {
    // snippet:filter-value
    let filter = PusherFilter.all([.equals("region", "eu"), .isAtLeast("total", 100)])
    let orders = try client.subscribe("orders", filter: filter)
    // end
    _ = orders
}

func filterSubscriptionReference(_ client: PusherClient) throws {
    // snippet:filter
    let orders = try client.subscribe("orders", filter: .equals("region", "eu"))
    // end
    _ = orders
}

func deltaCompressionReference() {
    // snippet:delta-compression
    var configuration = PusherConfiguration(key: "app-key", host: "127.0.0.1", port: 6001, useTLS: false)
    configuration.deltaCompression = .fossil
    // end
    _ = configuration
}

func networkPathReference(_ configuration: inout PusherConfiguration) {
    // snippet:network-path
    let monitor = NetworkPathMonitor()
    configuration.transports.networkPath = monitor
    monitor.pathChanged()
    // end
}

func tokenReference(_ configuration: inout PusherConfiguration, _ session: UserSession) throws {
    // snippet:authorizer-token
    configuration.authorizer = try .endpoint("https://example.org/pusher/auth") {
        ["Authorization": "Bearer \(try await session.token())"]
    }
    // end
}

func authorizerReference(_ configuration: inout PusherConfiguration, _ session: UserSession, _ backend: Backend) {
    // snippet:authorizer-completion
    configuration.authorizer = .completion { request, complete in
        backend.authorize(request.channel, request.socketID) { result in complete(result) }
    }
    // end
    // snippet:authorizer-refusal
    configuration.authorizer = .callback { request in
        guard await session.mayJoin(request.channel) else { throw PusherAuthorizationRefusal("Only members may join.") }
        return try await session.authorize(request)
    }
    // end
}

func tlsReference() {
    // snippet:tls
    var tls = TLSConfiguration()
    tls.trustRoots = .only([.file("/etc/myservice/root.pem")])
    // end
    _ = tls
}

func listenerReference(_ server: PusherServer) async throws {
    // snippet:listener
    let listener = SocketListener(port: 8080)
    let address = try await server.start(on: listener)
    // end
    _ = address
}

@Suite(.usesSockets) struct ReferenceSnippets {
    @Test func `an endpoint parses a URL`() throws {
        // snippet:endpoint
        let endpoint = try Endpoint("wss://realtime.example.com/app/key?protocol=7")
        // end
        #expect(endpoint.host == "realtime.example.com" && endpoint.port == 443 && endpoint.isSecure)
    }

    @Test func `a manual clock advances on request`() {
        // snippet:clock
        let clock = ManualClock()
        let network = InMemoryNetwork(clock: clock)
        clock.advance(by: .seconds(120))
        // end
        #expect(clock.elapsed == .seconds(120))
        network.cut()
    }

    @Test func `a server starts in memory`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        // snippet:server
        let app = PusherApp.random()
        let server = PusherServer(app: app, network: network)
        let address = try await server.start(on: network.listener())
        server.publish("price", to: "prices", data: #"{"value":12}"#)
        // end
        #expect(address.host == "memory")
        await server.stop()
    }
}
