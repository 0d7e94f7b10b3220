import PrimusClient
import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeSockets
import RealtimeTransports
import TestSupport
import Testing

/// A kind of connection that tests with proxies use.
struct ProxiedKind: Sendable, CustomTestStringConvertible {
    let transformer: PrimusTransformerKind
    /// The ways to the server; `nil` for those that a client chooses itself.
    var ways: [PrimusWay]?
    /// The kind of the connection, at the end of its moves.
    let transport: PrimusTransport
    var testDescription: String { "\(self.transformer), \(self.ways.map { "\($0)" } ?? "its own choice")" }

    static let all = [
        ProxiedKind(transformer: .websockets, transport: .webSockets),
        ProxiedKind(transformer: .engineIO, ways: [.webSocket], transport: .webSockets),
        ProxiedKind(transformer: .engineIO, ways: [.polling], transport: .polling),
        ProxiedKind(transformer: .engineIO, ways: [.polling, .webSocket], transport: .webSockets),
        ProxiedKind(transformer: .sockjs, ways: [.webSocket], transport: .webSockets),
        ProxiedKind(transformer: .sockjs, ways: [.streaming], transport: .streaming),
        ProxiedKind(transformer: .sockjs, ways: [.polling], transport: .polling),
    ]

    /// A server that sends each message back.
    func server(_ configure: (inout PrimusServerConfiguration) -> Void = { _ in }) -> (server: PrimusServer, echo: CallbackObservation) {
        var configuration = PrimusServerConfiguration()
        configuration.transformer = self.transformer
        configuration.authorizationTimeout = .seconds(600)
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
        configuration.silenceLimit = .seconds(600)
        configuration.retry = .delays([.milliseconds(20)])
        configuration.ways = self.ways
        configuration.allowedTransports = self.ways == [.polling] && self.transformer == .engineIO ? .polling : .all
        return PrimusConnection(configuration)
    }
}

/// Sends messages, which the server sends back, and expects them in their order.
func expectEcho(_ client: PrimusConnection, count: Int = 50) async throws {
    let messages = client.messages(as: Int.self)
    for number in 0..<count { try await client.write(number) }
    var received: [Int] = []
    for await number in messages.prefix(count) { received.append(number) }
    #expect(received == Array(0..<count))
}
