import CommandLineSupport
import PrimusServer
import PrimusWire
import PusherServer
import PusherWire
import RealtimeCoding
import RealtimeCore
import RealtimeSystem
import SignalRServer
import SignalRWire

extension InstructionCounts {
    /// The number of connections that receive each delivery.
    private static let receivers = 10

    static var servers: [CountedPath] {
        [
            CountedPath("pusher-server-delivery") {
                let (server, sockets, arrivals) = try await self.pusherServer(LoadMessage.channel(0), self.receivers)
                return { messages in
                    try arrivals.expect(messages) {
                        for _ in 0..<(messages / self.receivers) {
                            server.publish(LoadMessage.event, to: LoadMessage.channel(0), data: LoadMessage.data)
                        }
                    }
                    withExtendedLifetime(sockets) {}
                }
            },
            CountedPath("pusher-server-client-event") {
                let (server, sockets, arrivals) = try await self.pusherServer(LoadMessage.privateChannel, 2)
                let data = Array(#"{"text":"\#(SendBench.data.text)"}"#.utf8)
                let event = PusherFrames.clientEvent(LoadMessage.more, channel: LoadMessage.privateChannel, data: data)
                return { messages in
                    try arrivals.expect(messages) { for _ in 0..<messages { sockets[0].send(event) } }
                    withExtendedLifetime(server) {}
                }
            },
            CountedPath("signalr-server-delivery") {
                let (hub, server, sockets, arrivals) = try await self.hub(self.receivers)
                return { messages in
                    try arrivals.expect(messages) {
                        Task {
                            for _ in 0..<(messages / self.receivers) {
                                try await hub.clients.all.send(
                                    LoadHub.Method.price, "ACME", 1234.56, 98765, true, 1_712_345_678_901, LoadHub.note)
                            }
                        }
                        MainThread.runAll()
                    }
                    withExtendedLifetime((server, sockets)) {}
                }
            },
            CountedPath("signalr-server-call", messages: 640) {
                let (hub, server, sockets, arrivals) = try await self.hub(1)
                let arguments = try HubValueCoder(.json).arguments(98765, LoadHub.note)
                let call = HubMessageWriter.message(
                    .invocation(HubInvocation(id: "1", target: LoadHub.Method.echo, arguments: arguments)), .json)
                return { messages in
                    try arrivals.expect(messages) {
                        for _ in 0..<messages {
                            sockets[0].send(call)
                            MainThread.runAll()
                        }
                    }
                    withExtendedLifetime((hub, server)) {}
                }
            },
            CountedPath("primus-server-delivery") {
                let (server, sockets, arrivals) = try await self.primusServer(self.receivers)
                return { messages in
                    try arrivals.expect(messages) {
                        for _ in 0..<(messages / self.receivers) { try server.write(LoadMessage.data) }
                    }
                    withExtendedLifetime(sockets) {}
                }
            },
            CountedPath("primus-server-message", messages: 640) {
                let (server, sockets, _) = try await self.primusServer(1)
                let arrivals = Arrivals()
                let observation = server.onMessage(on: CallbackExecutor { $0() }) { message in
                    arrivals.add((try? message.decode(as: LoadPrice.self).volume) ?? 0)
                }
                guard let price = LoadPrimus.price(.json) else { throw ToolFailure("The message can't be encoded.") }
                return { messages in
                    try arrivals.expect(messages) { for _ in 0..<messages { sockets[0].send(price) } }
                    withExtendedLifetime((server, observation)) {}
                }
            },
        ]
    }

    /// A server with a number of connections that have subscribed to a channel.
    private static func pusherServer(_ channel: String, _ count: Int) async throws -> (PusherServer, [CountingSocket], Arrivals) {
        let (network, arrivals) = (InMemoryNetwork(time: StoppedTime()), Arrivals())
        let app = PusherApp(id: "1", key: "key", secret: "secret")
        let server = PusherServer(app: app, network: network, log: .none)
        let address = try await server.start(on: network.listener())
        let sockets = (0..<count).map { _ in CountingSocket(network, address, "/app/key?protocol=7", arrivals) }
        for socket in sockets {
            guard let greeting = socket.first.withUnsafeBytes({ try? PusherFrame(scanning: $0).dataValue() }),
                let id = greeting["socket_id"]?.string
            else { throw ToolFailure("The server sent no socket ID.") }
            let auth = ChannelSignature.token(key: app.key, secret: app.secret, socketID: id, channel: channel)
            socket.send(PusherFrames.subscribe(channel, auth: auth))
        }
        arrivals.reset()
        return (server, sockets, arrivals)
    }

    private static func hub(_ count: Int) async throws -> (Hub, SignalRServer, [CountingSocket], Arrivals) {
        let (network, arrivals) = (InMemoryNetwork(time: StoppedTime()), Arrivals())
        let server = SignalRServer(network: network, log: .none)
        let hub = server.hub(BenchHub.path)
        hub.on(LoadHub.Method.echo) { (_, _: Int, note: String) in note }
        let address = try await server.start(on: network.listener())
        let sockets = (0..<count).map { _ in CountingSocket(network, address, BenchHub.path, arrivals) }
        for socket in sockets { socket.send(TransportMessage(.text, HubHandshake.request(.json, version: 1))) }
        arrivals.reset()
        return (hub, server, sockets, arrivals)
    }

    private static func primusServer(_ count: Int) async throws -> (PrimusServer, [CountingSocket], Arrivals) {
        let (network, arrivals) = (InMemoryNetwork(time: StoppedTime()), Arrivals())
        let server = PrimusServer(network: network, log: .none)
        let address = try await server.start(on: network.listener())
        let sockets = (0..<count).map { _ in CountingSocket(network, address, server.configuration.pathname, arrivals) }
        arrivals.reset()
        return (server, sockets, arrivals)
    }
}

/// A client's end of a connection that counts what arrives, without a protocol.
///
/// `@unchecked Sendable`: the process has one thread.
private final class CountingSocket: MessageEvents, @unchecked Sendable {
    private let arrivals: Arrivals
    private var connection: (any MessageConnection)?
    /// The first message.
    private(set) var first: [UInt8] = []

    init(_ network: InMemoryNetwork, _ address: ListenerAddress, _ target: String, _ arrivals: Arrivals) {
        self.arrivals = arrivals
        let endpoint = Endpoint(scheme: "ws", host: address.host, port: address.port, target: target)
        let connection = network.webSocket.makeConnection(WebSocketRequest(endpoint), id: ConnectionID(rawValue: 1), events: self)
        self.connection = connection
        connection.open()
    }

    func send(_ message: TransportMessage) {
        self.connection?.enqueue(message)
        self.connection?.flush()
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
    func closed(_ id: ConnectionID, _ reason: CloseReason) {}

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        if self.first.isEmpty { self.first = batch.messages[0].bytes }
        for index in batch.entries.indices { self.arrivals.add(batch.entries[index].range.count) }
    }
}
