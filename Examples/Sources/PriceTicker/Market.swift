import PusherChannels
import PusherServer

/// What is published: any `Codable` type.
struct Price: Codable {
    let symbol: String
    let value: Double

    init(_ symbol: String, _ value: Double) {
        self.symbol = symbol
        self.value = value
    }
}

/// The producer. It knows the application's secret and talks to the HTTP API, as a server does.
struct Market {
    private let publisher: PusherPublisher

    init(_ app: PusherApp, _ address: ListenerAddress) {
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
        self.publisher = PusherPublisher(appID: app.id, key: app.key, secret: app.secret, endpoint: endpoint)
    }

    func publish(_ prices: [Price]) async throws {
        for price in prices {
            try await self.publisher.publish("price", to: ["prices"], data: try JSONValueEncoder().encodeToString(price))
        }
    }

    func close() async throws {
        try await self.publisher.publish("closed", to: ["prices"], data: "{}")
    }
}
