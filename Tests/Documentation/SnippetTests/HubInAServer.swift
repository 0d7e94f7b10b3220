import DocumentationStubs
import SignalRHubs
import SignalRTesting
import TestSupport
import Testing

// The snippets of the articles HubInAServer, HubLoadBalancers and HubTroubleshooting.

// snippet:hub-server-service
struct PriceWatcher: Service {
    let client: HubClient

    func run() async throws {
        let handler = self.client.on("PriceChanged") { (symbol: String, price: Double) in
            print(symbol, price)
        }
        defer { handler.cancel() }
        try await withGracefulShutdownHandler {
            try await self.client.run()
        } onGracefulShutdown: {
            self.client.stop()
        }
    }
}
// end

private func group(_ client: HubClient, _ logger: Logger) async throws {
    // snippet:hub-server-group
    let group = ServiceGroup(services: [PriceWatcher(client: client)], gracefulShutdownSignals: [.sigterm], logger: logger)
    try await group.run()
    // end
}

private func configuration(_ session: UserSession) throws {
    // snippet:hub-server-configuration
    var configuration = try HubConfiguration(url: "https://example.org/prices")
    configuration.retry = .backoff(Backoff(base: .seconds(1), cap: .seconds(30)))
    configuration.retriesFirstStart = true
    configuration.callTimeLimit = .seconds(10)
    configuration.accessToken = { try await session.token() }
    configuration.log = LogSink(Logger(label: "signalr"))
    // end
    _ = configuration
}

private func route(_ router: Router<BasicRequestContext>, _ client: HubClient) {
    // snippet:hub-server-route
    router.post("/trades") { request, context in
        let trade = try await request.decode(as: Trade.self, context: context)
        try await client.connected(within: .seconds(5))
        try await client.invoke("PlaceTrade", trade, within: .seconds(5))
        return HTTPResponse.Status.accepted
    }
    // end
}

private func loadBalancers(_ configuration: inout HubConfiguration) {
    // snippet:hub-skips-negotiation
    configuration.allowedTransports = .webSockets
    configuration.skipsNegotiation = true
    // end
    // snippet:hub-keep-alive
    configuration.keepAliveInterval = .seconds(10)
    // end
}

private func trace() throws {
    // snippet:hub-troubleshooting-trace
    var configuration = try HubConfiguration(url: "https://example.org/chat")
    configuration.log = LogSink(minimumLevel: .trace) { level, subsystem, message in
        print(level, subsystem, message)
    }
    // end
    _ = configuration
}

@Suite(.timeLimit(.minutes(10))) struct HubInAServerTests {
    @Test(arguments: [true, false])
    func `the service of the article ends when the client is stopped or its task is cancelled`(isStopped: Bool) async throws {
        let signalR = try await InMemorySignalR()
        signalR.server.hub("/prices")
        let client = signalR.client("/prices")
        let running = Task { try await PriceWatcher(client: client).run() }
        try await client.connected()
        if isStopped { client.stop() } else { running.cancel() }
        try await running.value
        #expect(!client.isConnected)
    }

    @Test func `the service of the article throws if the connection is lost for good`() async throws {
        let signalR = try await InMemorySignalR()
        signalR.server.hub("/prices")
        let client = signalR.client("/prices")
        let running = Task { try await PriceWatcher(client: client).run() }
        try await client.connected()
        signalR.network.cut()
        let error = await #expect(throws: HubError.self) { try await running.value }
        #expect(error?.code == .connectionLost)
    }
}
