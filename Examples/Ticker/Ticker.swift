import PusherChannels
import PusherServer
import RealtimeSockets

nonisolated struct Price: Codable, Sendable {
    let symbol: String
    let value: Double
}

/// Prints prices before and after the server restarts. The server runs in the same process, on a port.
@main struct Ticker {
    static func main() async throws {
        let app = PusherApp.random()
        var server = PusherServer(app: app)
        let address = try await server.start(on: SocketListener())

        var configuration = PusherConfiguration(key: app.key, host: address.host, port: address.port, useTLS: false)
        configuration.backoff = Backoff(base: .milliseconds(100), cap: .seconds(1))
        configuration.log = .none
        let client = PusherClient(configuration)
        let channel = try client.subscribe("prices")
        let prices = channel.events("price", as: Price.self)
        client.connect()
        try await channel.subscribed()
        print("Connected to port \(address.port)")

        try server.publish("price", to: "prices", data: Price(symbol: "ACME", value: 12.5))
        server.publish("price", to: "prices", data: "not a price")
        try server.publish("price", to: "prices", data: Price(symbol: "INIT", value: 80))
        await Self.show(2, of: prices)

        let changes = client.stateChanges
        await server.stop()
        server = PusherServer(app: app)
        try await server.start(on: SocketListener(port: address.port))
        for await change in changes {
            print("\(change.old.name) -> \(change.new.name)")
            if case .connected = change.new { break }
        }
        try await channel.subscribed()

        try server.publish("price", to: "prices", data: Price(symbol: "ACME", value: 14))
        await Self.show(1, of: prices)
        print("\(client.counters.reconnects) reconnect, \(client.counters.decodingFailures) event skipped")
        client.disconnect()
        await server.stop()
    }

    private static func show(_ count: Int, of prices: PusherDecodedEvents<Price>) async {
        for await price in prices.prefix(count) { print("\(price.symbol) \(price.value)") }
    }
}
