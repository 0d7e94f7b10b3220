import PrimusServer
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// A server on sockets.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct SocketTests {
    @Test func `a message that is too long ends the connection with the code 1009`() async throws {
        var configuration = PrimusServerConfiguration()
        configuration.messageLimit = 100
        let server = PrimusServer(configuration: configuration, log: .none)
        let address = try await server.start(on: SocketListener())
        let client = RawClient(SocketWebSocketTransport(), address, "/primus", [:])
        try await eventually { server.sparks.count == 1 }
        client.send("\"" + String(repeating: "a", count: 200) + "\"")
        try await eventually { client.end != nil }
        #expect(client.end.map { "\($0)".contains("1009") } == true, "\(client.end as Any)")
        await server.stop()
    }

    @Test func `releasing a server ends its connections and its listener`() async throws {
        var server: PrimusServer? = PrimusServer(log: .none)
        let address = try #require(try await server?.start(on: SocketListener()))
        let client = RawClient(SocketWebSocketTransport(), address, "/primus", [:])
        try await eventually { server?.sparks.count == 1 }
        server = nil
        try await eventually { client.end != nil }
        let late = RawClient(SocketWebSocketTransport(), address, "/primus", [:])
        try await eventually { late.end != nil }
    }
}
