import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeTesting
import RealtimeTransports
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// The same client over sockets.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct HubOnAPortTests {
    @Test func `a client negotiates, calls, streams, is called, and reconnects over sockets`() async throws {
        var script = ScriptedHub.Script()
        script.upgrade = { _, number in number == 1 ? .reject(HTTPResponse(status: 401)) : .accept(subprotocol: nil) }
        script.answer = { message in
            guard message["target"] == "echo", let id = message["invocationId"]?.string else { return [] }
            return [#"{"type":3,"invocationId":"\#(id)","result":\#(message["arguments"]?[0] ?? .null)}"#]
        }
        let server = ScriptedHub(script)
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(server)
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/chat")
        var options = HubConfiguration(endpoint, transports: .standard)
        options.accessToken = { "token" }
        options.retry = .delays([.zero, .milliseconds(10), .seconds(1)])
        options.log = .none
        // Other tests use the processor.
        (options.connectTimeout, options.handshakeTimeout, options.serverTimeout) = (.seconds(600), .seconds(600), .seconds(600))
        let client = HubClient(options)
        client.on("add") { (a: Int, b: Int) in a + b }
        let updates = client.updates()

        // The first upgrade is answered with 401, and the attempt is continued.
        try await expectEqual(client.start(), "id-2")
        let text = String(repeating: "é", count: 300_000)
        try await expectEqual(client.invoke("echo", text, as: String.self), text)
        let stream = try client.stream("count", of: Int.self)
        _ = try await server.received(2)
        server.send(#"{"type":2,"invocationId":"2","item":7}"#, #"{"type":1,"invocationId":"s","target":"add","arguments":[1,2]}"#)
        for try await item in stream {
            expectEqual(item, 7)
            break
        }
        let answers = try await server.received(4).dropFirst(2)
        expect(answers.contains(["type": 5, "invocationId": "2"]))
        expect(answers.contains(["type": 3, "invocationId": "s", "result": 3]))

        server.close(.goingAway)
        await expectEqual(updates.first { $0.isReconnected }, .reconnected(connectionID: "id-3"))
        try await expectEqual(client.invoke("echo", 5, as: Int.self), 5)
        client.stop()
        try await eventually { server.connectionCount == 0 }
        expectEqual(server.received.all.last, ["type": 7])
        await listener.stop()
    }
}
