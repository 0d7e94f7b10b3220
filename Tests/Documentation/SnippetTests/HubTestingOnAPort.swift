// snippet:hubs-on-a-port
import RealtimeSockets
import SignalRHubs
import SignalRServer
import Testing

@Test func `a sum arrives over sockets`() async throws {
    let server = SignalRServer()
    server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
    let address = try await server.start(on: SocketListener())

    let client = HubClient(try HubConfiguration(url: "http://\(address.host):\(address.port)/chat"))
    try await client.start()
    #expect(try await client.invoke("Add", 1, 2, as: Int.self) == 3)

    client.stop()
    await server.stop()
}
// end
