// snippet:readme-test
import PusherChannels
import PusherServer
import RealtimeTesting
import Testing

@Test func `prices continue after the connection is lost`() async throws {
    let clock = ManualClock()
    let network = InMemoryNetwork(clock: clock)
    let server = PusherServer(app: .random(), network: network)
    let address = try await server.start(on: network.listener())

    var configuration = PusherConfiguration(key: server.app.key, host: address.host, port: address.port, useTLS: false)
    configuration.transports = network.transports()
    let client = PusherClient(configuration)
    client.connect()
    let prices = try client.subscribe("prices")
    let events = prices.events("price")
    #expect(prices.state == .subscribed)

    network.cut()
    #expect(client.state == .connecting)
    clock.advance(by: .seconds(1))
    #expect(prices.state == .subscribed)

    server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
    let price = try await events.first { _ in true }?.decode(Price.self)
    #expect(price?.value == 12.5)
}
// end
