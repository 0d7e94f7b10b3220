// snippet:primus-on-a-port
import PrimusClient
import PrimusServer
import RealtimeSockets
import Testing

@Test func `a message comes back over sockets`() async throws {
    let server = PrimusServer()
    let echo = server.onMessage { message in _ = try? message.spark.write(message.value) }
    let address = try await server.start(on: SocketListener())

    let client = PrimusConnection(try PrimusConfiguration(url: "http://\(address.host):\(address.port)/primus"))
    let messages = client.messages(as: String.self)
    client.open()
    try await client.opened()
    try await client.write("hello")
    #expect(await messages.first { _ in true } == "hello")

    client.end()
    echo.cancel()
    await server.stop()
}
// end
