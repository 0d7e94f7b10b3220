import PrimusClient
import PrimusServer
import PrimusWire
import ProxySupport
import RealtimeCore
import RealtimeSockets
import RealtimeTransports
import TestSupport
import Testing

/// A kind of connection that tests with proxies use.
struct ProxiedKind: Sendable, CustomTestStringConvertible {
    let transformer: PrimusTransformerKind
    /// The kinds of connections; `nil` for those that a client chooses itself.
    var connections: [PrimusConnectionKind]?
    /// The kind of the connection, at the end of its moves.
    let transport: PrimusTransport
    var testDescription: String { "\(self.transformer), \(self.connections.map { "\($0)" } ?? "its own choice")" }

    static let all = [
        ProxiedKind(transformer: .websockets, transport: .webSockets),
        ProxiedKind(transformer: .engineIO, connections: [.webSocket], transport: .webSockets),
        ProxiedKind(transformer: .engineIO, connections: [.polling], transport: .polling),
        ProxiedKind(transformer: .engineIO, connections: [.polling, .webSocket], transport: .webSockets),
        ProxiedKind(transformer: .sockjs, connections: [.webSocket], transport: .webSockets),
        ProxiedKind(transformer: .sockjs, connections: [.streaming], transport: .streaming),
        ProxiedKind(transformer: .sockjs, connections: [.polling], transport: .polling),
    ]

    /// A server that sends each message back.
    func server(_ configure: (inout PrimusServerConfiguration) -> Void = { _ in }) -> (server: PrimusServer, echo: CallbackObservation) {
        var configuration = PrimusServerConfiguration()
        configuration.transformer = self.transformer
        (configuration.authorizationTimeout, configuration.engineProbeTimeout) = (.seconds(600), .seconds(600))
        (configuration.sockJSDisconnectDelay, configuration.enginePingTimeout) = (.seconds(300), .seconds(120))
        configure(&configuration)
        let server = PrimusServer(configuration: configuration, log: .none)
        return (server, server.onMessage { message in _ = try? message.spark.write(message.value) })
    }

    func client(_ url: String, _ transports: Transports = .standard) throws -> PrimusConnection {
        var configuration = try PrimusConfiguration(url: url)
        configuration.transports = transports
        configuration.log = .none
        configuration.connectTimeout = .seconds(600)
        configuration.detectionTimeout = .seconds(600)
        (configuration.silenceLimit, configuration.probeTimeout) = (.seconds(600), .seconds(600))
        configuration.retry = .delays([.milliseconds(20)])
        configuration.connectionKinds = self.connections
        configuration.allowedTransports = self.connections == [.polling] && self.transformer == .engineIO ? .polling : .all
        return PrimusConnection(configuration)
    }
}

/// Sends messages, which the server sends back, and expects them in their order.
func expectEcho(_ client: PrimusConnection, count: Int = 50) async throws {
    let messages = client.messages(as: Int.self)
    for number in 0..<count { try await client.write(number) }
    var received: [Int] = []
    for await number in messages.prefix(count) { received.append(number) }
    expectEqual(received, Array(0..<count))
}

/// Expects that a connection can last for some time although nothing but the heartbeat of the server keeps it alive.
func expectConnection(of kind: ProxiedKind, lasts duration: Duration, _ makeClient: () throws -> PrimusConnection) async throws {
    try await expectConnection(lasts: duration) {
        let client = try makeClient()
        client.open()
        try await client.opened(within: .seconds(600))
        return ({ client.isConnected && client.transport == kind.transport && client.counters.reconnects == 0 }, { client.end() })
    }
}

/// A server whose heartbeats are much shorter than the time limits of proxies.
func beatOften(_ configuration: inout PrimusServerConfiguration) {
    (configuration.pingInterval, configuration.enginePingInterval) = (.milliseconds(200), .milliseconds(200))
    configuration.sockJSHeartbeatInterval = .milliseconds(200)
}
