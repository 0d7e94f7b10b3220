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
    for await event in prices.events("price") {
        let price = try event.decode(Price.self)
        print(price.symbol, price.value)
    }
}
// end
