// snippet:testing-port
import PusherChannels
import PusherServer
import RealtimeSockets
import Testing

@Test func `prices arrive over sockets`() async throws {
    let server = PusherServer(app: .random())
    let address = try await server.start(on: SocketListener())

    let client = PusherClient(key: server.app.key, host: address.host, port: address.port, useTLS: false)
    client.connect()
    let prices = try client.subscribe("prices")
    let events = prices.events("price")
    try await prices.subscribed()

    let publisher = PusherPublisher(
        appID: server.app.id, key: server.app.key, secret: server.app.secret,
        endpoint: Endpoint(scheme: "http", host: address.host, port: address.port))
    try await publisher.publish("price", to: ["prices"], data: #"{"symbol":"ACME","value":12.5}"#)
    let price = try await events.first { _ in true }?.decode(Price.self)
    #expect(price?.value == 12.5)

    client.disconnect()
    await server.stop()
}
// end
