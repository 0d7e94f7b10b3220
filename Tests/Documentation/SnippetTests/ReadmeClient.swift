// snippet:readme-client
import PusherChannels

struct Price: Decodable {
    let symbol: String
    let value: Double
}

func watchPrices() async throws {
    let client = PusherClient(key: "app-key", cluster: "eu")
    client.connect()
    let prices = try client.subscribe("prices")
    for await price in prices.events("price", as: Price.self) {
        print(price.symbol, price.value)
    }
}
// end
