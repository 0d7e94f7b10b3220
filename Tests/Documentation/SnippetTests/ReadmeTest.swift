// snippet:readme-test
import PusherTesting
import Testing

@Test func `prices continue after the connection is lost`() async throws {
    let pusher = try await InMemoryPusher()
    let client = pusher.client()
    client.connect()
    let prices = try client.subscribe("prices")
    let events = prices.events("price")
    #expect(prices.state == .subscribed)

    pusher.network.cut()
    #expect(client.state == .connecting)
    pusher.clock.advance(by: .seconds(1))
    #expect(prices.state == .subscribed)

    pusher.server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
    let price = try await events.pending().first?.decode(Price.self)
    #expect(price?.value == 12.5)
}
// end
