import Foundation
import Processes
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets
import SignalRServer
import TestSupport
import Testing

@testable import realtime

/// The tool as a process that the system stops for longer than its limits for silence, as it suspends apps.
@Suite(.usesSockets, .requires(.completeRun), .requires(.tool(Tool.path)), .timeLimit(.minutes(10)))
struct StandstillProcessTests {
    private static func standStill(_ tool: Tool, _ meanwhile: () async throws -> Void) async throws {
        tool.process.signal(SIGSTOP)
        try await meanwhile()
        try await self.exceedLimits()
        tool.process.signal(SIGCONT)
    }

    /// Waits until a client in this process takes a silent server for dead, whose limits are a few seconds longer than those of the tool: 31
    /// seconds for Pusher, and 30 for SignalR.
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

    @Test func `a listener prints the calls that waited, and stays connected`() async throws {
        var configuration = SignalRServerConfiguration()
        configuration.clientTimeout = .seconds(600)
        let server = SignalRServer(configuration: configuration, log: .none)
        let hub = server.hub("/chat")
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        let tool = try Tool(["signalr", "listen", "http://127.0.0.1:\(port)/chat", "Receive"])
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
}
