import PusherChannels
import PusherServer

/// The data of a price event. Any `Codable` type works.
struct Price: Codable {
    let symbol: String
    let value: Double

    init(_ symbol: String, _ value: Double) {
        self.symbol = symbol
        self.value = value
    }
}

/// The publisher of prices. Like an application's server, it holds the app's secret and uses the HTTP API.
struct Market {
    private let publisher: PusherPublisher

    init(_ app: PusherApp, _ address: ListenerAddress) {
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
        self.publisher = PusherPublisher(appID: app.id, key: app.key, secret: app.secret, endpoint: endpoint)
    }

    /// Publishes one event per price.
    func publish(_ prices: [Price]) async throws {
        for price in prices {
            try await self.publisher.publish("price", to: "prices", data: price)
        }
    }

    /// Publishes that no more prices follow.
    func close() async throws {
        try await self.publisher.publish("closed", to: "prices", data: "{}")
    }
}
