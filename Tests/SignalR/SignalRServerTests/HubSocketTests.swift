import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

@testable import SignalRServer

/// The server on a port.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct HubSocketTests {
    static func makeServer() -> (SignalRServer, Hub) {
        // Other tests use the processor.
        var configuration = SignalRServerConfiguration()
        configuration.authenticationTimeout = .seconds(600)
        configuration.connectTimeout = .seconds(600)
        configuration.disconnectTimeout = .seconds(600)
        configuration.handshakeTimeout = .seconds(600)
        configuration.clientResultTimeout = .seconds(600)
        configuration.clientTimeout = .seconds(600)
        configuration.keepAliveInterval = .seconds(600)
        let server = SignalRServer(configuration: configuration, log: .none)
        let hub = server.hub("/hub")
        hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        hub.on("Sum") { (caller, items: HubStream<Int>) in try await items.reduce(0, +) }
        hub.stream("Count") { (caller, count: Int) in
            AsyncStream<Int> { continuation in
                for number in 0..<count { continuation.yield(number) }
                continuation.finish()
            }
        }
        hub.stream("Large") { (caller, count: Int) in
            let produced = EventRecorder<Void>()
            return AsyncStream<String> {
                produced.record(())
                return produced.all.count <= count ? String(repeating: "a", count: 10_000) : nil
            }
        }
        hub.on("Ask") { caller -> String in try await caller.clients.caller.invoke("Answer") }
        return (server, hub)
    }

    @Test func `a client negotiates and calls methods over a socket`() async throws {
        let (server, hub) = Self.makeServer()
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/hub/negotiate?negotiateVersion=1")
        let response = try await SocketHTTPTransport().open(HTTPRequest("POST", endpoint))
        var body: [UInt8] = []
        while let bytes = try await response.body.next() { body += bytes }
        let token = try JSONValue(parsing: body)["connectionToken"]?.string ?? ""

        let client = RawHubClient(SocketWebSocketTransport(), address, "/hub?id=\(token)")
        client.send(#"{"protocol":"json","version":1}"#)
        try await expectEqual(client.next(), [:])
        try await expectEqual(client.invoke("Add", "1,2")["result"], 3)
        client.send(
            #"{"type":1,"invocationId":"2","target":"Sum","arguments":[],"streamIds":["3"]}"#,
            #"{"type":2,"invocationId":"3","item":4}"#, #"{"type":2,"invocationId":"3","item":5}"#, #"{"type":3,"invocationId":"3"}"#)
        try await expectEqual(client.next()["result"], 9)
        client.send(#"{"type":4,"invocationId":"4","target":"Count","arguments":[2]}"#)
        for expected in [2, 2, 3] { try await expectEqual(client.next()["type"]?.int, expected) }
        client.send(#"{"type":1,"invocationId":"5","target":"Ask","arguments":[]}"#)
        client.send(#"{"type":3,"invocationId":"\#(try await client.next()["invocationId"]?.string ?? "")","result":"yes"}"#)
        try await expectEqual(client.next()["result"], "yes")
        try await hub.clients.all.send("Bye")
        try await expectEqual(client.next()["target"], "Bye")
        await server.stop()
        guard case .peer(.goingAway, _)? = try await client.ending() else {
            Issue.record("the server should have closed the connection")
            return
        }
    }

    @Test func `a stream is sent as fast as the client reads`() async throws {
        let (server, _) = Self.makeServer()
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let client = RawHubClient(SocketWebSocketTransport(), address, "/hub")
        client.send(#"{"protocol":"json","version":1}"#)
        try await expectEqual(client.next(), [:])
        client.send(#"{"type":4,"invocationId":"1","target":"Large","arguments":[1000]}"#)
        for _ in 0..<1_000 { try await expectEqual(client.next()["type"], 2) }
        try await expectEqual(client.next()["type"], 3)
        await server.stop()
    }

    @Test func `unknown IDs and paths are rejected with a status`() async throws {
        let (server, _) = Self.makeServer()
        let address = try await server.start(on: SocketListener(limits: .forTests))
        for (target, status) in [("/hub?id=x", 404), ("/none", 404)] {
            let client = RawHubClient(SocketWebSocketTransport(), address, target)
            guard case .transport(let error)? = try await client.ending() else {
                Issue.record("the WebSocket should have been rejected")
                continue
            }
            expectEqual(error.response?.head.status, status)
        }
        await server.stop()
    }
}
