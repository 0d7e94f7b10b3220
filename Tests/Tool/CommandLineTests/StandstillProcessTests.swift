import Foundation
import PrimusServer
import Processes
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import SignalRServer
import TestSupport
import Testing

@testable import realtime

/// The tool as a process that the system stops for longer than its limits for silence, as it suspends apps.
@Suite(.usesSockets, .requires(.completeRun), .requires(.tool(Tool.path)), .timeLimit(.minutes(10)))
struct StandstillProcessTests {
    /// - Parameter before: What happens immediately before the process goes on: it waits to be read then.
    private static func standStill(_ tool: Tool, _ before: () async throws -> Void) async throws {
        tool.process.signal(SIGSTOP)
        try await self.exceedLimits()
        try await before()
        tool.process.signal(SIGCONT)
    }

    /// Waits until a client in this process takes a silent server for dead, whose limits are a few seconds longer than those of the tool: 31
    /// seconds for Pusher, 30 for SignalR, and 30 for Primus.
    private static func exceedLimits() async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "k", secret: "s"), log: .none)
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        var configuration = PusherConfiguration(key: "k", host: "127.0.0.1", port: port, useTLS: false)
        (configuration.activityTimeout, configuration.pongTimeout, configuration.log) = (.seconds(5), .seconds(30), .none)
        let client = PusherClient(configuration)
        client.connect()
        try await client.connected()
        let errors = client.errors
        server.faults.isSilent = true
        _ = await errors.first { _ in true }
        client.disconnect()
        server.faults.isSilent = false
        await server.stop()
    }

    @Test func `a subscriber prints the events that waited, and stays connected`() async throws {
        var app = PusherApp(id: "1", key: "k", secret: "s")
        (app.activityTimeout, app.pongTimeout) = (.seconds(1), .seconds(600))
        let server = PusherServer(app: app, log: .none)
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        let tool = try Tool(["pusher", "subscribe", "ws://127.0.0.1:\(port)", "--key", "k", "prices"])
        while await !tool.nextLine().contains("subscribed") {}
        try await Self.standStill(tool) { for number in 0..<3 { server.publish("tick", to: "prices", data: "\(number)") } }
        for number in 0..<3 {
            await expectEqual(tool.nextLine(), #"{"type":"event","channel":"prices","event":"tick","data":"\#(number)"}"#)
        }
        tool.process.signal(SIGTERM)
        await expectEqual(tool.end().output, #"{"type":"state","state":"disconnected"}"# + "\n")
        await server.stop()
    }

    @Test(arguments: ["webSockets", "serverSentEvents", "longPolling"])
    func `a listener prints the calls that waited, and stays connected`(transport: String) async throws {
        var configuration = SignalRServerConfiguration()
        configuration.clientTimeout = .seconds(600)
        // The answer with a ping would be the last one to a client that doesn't poll.
        if transport == "longPolling" { configuration.keepAliveInterval = .seconds(600) }
        let server = SignalRServer(configuration: configuration, log: .none)
        let hub = server.hub("/chat")
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        let tool = try Tool(["signalr", "listen", "http://127.0.0.1:\(port)/chat", "Receive", "--transport", transport])
        while await !tool.nextLine().contains("\"connected\"") {}
        try await eventually { hub.connectionIDs.count == 1 }
        let connection = hub.connectionIDs
        try await Self.standStill(tool) { for number in 0..<3 { try await hub.clients.all.send("Receive", number) } }
        for number in 0..<3 {
            await expectEqual(tool.nextLine(), #"{"type":"invocation","target":"Receive","arguments":[\#(number)]}"#)
        }
        expectEqual(hub.connectionIDs, connection)
        tool.process.signal(SIGTERM)
        await expectEqual(tool.end().output, #"{"type":"state","state":"disconnected"}"# + "\n")
        await server.stop()
    }

    @Test(arguments: ["webSockets", "polling"])
    func `a listener prints the messages that waited, and stays open`(transport: String) async throws {
        var configuration = PrimusServerConfiguration()
        configuration.transformer = .engineIO
        // What the client waits for a ping, and what the server waits for the pong.
        (configuration.enginePingInterval, configuration.enginePingTimeout) = (.seconds(29), .seconds(1))
        let server = PrimusServer(configuration: configuration, log: .none)
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        let tool = try Tool(["primus", "listen", "http://127.0.0.1:\(port)/primus", "--transport", transport])
        while await !tool.nextLine().contains("\"open\"") {}
        try await eventually { server.sparks.count == 1 }
        let sparks = server.sparks.map(\.id)
        server.faults.stopsPings = true
        try await Self.standStill(tool) { server.forEach { spark in for number in 0..<3 { _ = try? spark.write(number) } } }
        for number in 0..<3 { await expectEqual(tool.nextLine(), #"{"type":"data","data":\#(number)}"#) }
        expectEqual(server.sparks.map(\.id), sparks)
        tool.process.signal(SIGTERM)
        await expectEqual(tool.end().output, #"{"type":"state","state":"end"}"# + "\n")
        await server.stop()
    }

    @Test func `a server awaits the rest of a request after it stood still`() async throws {
        let tool = try Tool(["serve", "pusher", "--port", "0"])
        let ready = try JSONSerialization.jsonObject(with: Data(await tool.nextLine().utf8)) as? [String: Any]
        let port = try #require(ready?["port"] as? Int)
        let request = PartialRequest(port: port)
        request.send("GET / HTTP/1.1\r\n")
        // When the server answers another client, it has read the beginning, and later its limit has passed.
        let other = HTTPRequest("GET", Endpoint(scheme: "http", host: "127.0.0.1", port: port))
        await expectEqual(try SocketHTTPTransport().send(other).head.status, 404)
        try await Self.standStill(tool) {}
        await expectEqual(try SocketHTTPTransport().send(other).head.status, 404)
        request.send("Host: localhost\r\n\r\n")
        try await eventually { request.response.contains("\r\n\r\n") }
        expect(request.response.hasPrefix("HTTP/1.1 404"), "\(request.response)")
        request.stream.close()
        tool.process.signal(SIGTERM)
        await expectEqual(tool.waitForEnd(), 0)
    }

    /// A client that sends a request in parts.
    private final class PartialRequest: StreamEvents {
        let stream = SocketStream()
        private let received = Lock("")

        init(port: Int) { self.stream.connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .seconds(600)), events: self) }

        var response: String { self.received.withLock { $0 } }

        func send(_ text: String) {
            self.stream.enqueue { $0.append(contentsOf: text.utf8) }
            self.stream.flush()
        }

        func opened(_ stream: SocketStream) {}
        func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
            self.received.withLock { $0 += String(decoding: bytes, as: UTF8.self) }
        }
        func drained(_ stream: SocketStream) {}
        func ended(_ stream: SocketStream, _ error: TransportError?) {}
    }
}
