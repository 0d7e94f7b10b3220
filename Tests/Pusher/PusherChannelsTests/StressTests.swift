import PusherChannels
import PusherServer
import PusherWire
import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

/// Calls every method from many tasks: in any order, no call waits forever, and the client works afterwards.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct StressTests {
    private static let channels = ["one", "two", "private-one", "private-two", "presence-one", "presence-two"]

    private static func act(_ client: PusherClient, _ server: PusherServer, _ generator: inout SplitMix64) async {
        let name = Self.channels.randomElement(using: &generator) ?? "one"
        switch Int.random(in: 0..<16, using: &generator) {
        case 0...3: client.connect()
        case 4: client.disconnect()
        case 5...7: _ = try? client.subscribe(name)
        case 8: client.unsubscribe(name)
        case 9: try? client.channel(name)?.trigger("client-a", ["a": 1])
        case 10: if let id = client.socketID { server.drop(id) }
        case 11: if let id = client.socketID { server.close(id, CloseCode(rawValue: 4200)) }
        case 12: server.publish("a", to: name, data: "1")
        case 13: try? await client.channel(name)?.subscribed(within: .milliseconds(2))
        case 14: _ = try? await client.connected(within: .milliseconds(2))
        default:
            guard let channel = client.channel(name) else { return }
            let (events, states, members) = (channel.events(buffer: .pauseReading(2)), channel.states, channel.memberChanges)
            let waiting = Task {
                _ = await events.first { _ in true }
                _ = await states.first { _ in true }
                _ = await members.first { _ in true }
            }
            await Task.yield()
            waiting.cancel()
            await waiting.value
        }
    }

    private static func stress(_ client: PusherClient, _ server: PusherServer, seed: UInt64) async {
        await withTaskGroup { group in
            for number in 0..<UInt64(8) {
                group.addTask {
                    var generator = SplitMix64(seed: seed &* 100 &+ number)
                    for _ in 0..<150 {
                        await Self.act(client, server, &generator)
                        if Bool.random(using: &generator) { await Task.yield() }
                    }
                }
            }
        }
    }

    private static func checkClient(_ client: PusherClient, _ server: PusherServer) async throws {
        client.connect()
        // The end of the last connection, which the server may have caused, may come late.
        try await eventually {
            for name in Self.channels { try await client.subscribe(name).subscribed(within: .seconds(120)) }
            return server.subscribers(of: "presence-one") == [client.socketID]
        }
        let events = try #require(client.channel("two")).events("last")
        server.publish("last", to: "two", data: "1")
        await expectEqual(events.first { _ in true }?.data, "1")
        expectEqual(client.waiterCount, 0)
        client.disconnect()
    }

    private static func configure(_ configuration: inout PusherConfiguration) {
        configuration.authorizer = .callback { request in
            await Task.yield()
            let data = request.channel.hasPrefix("presence-") ? #"{"user_id":"me"}"# : nil
            let auth = ChannelSignature.token(
                key: "key", secret: "secret", socketID: request.socketID, channel: request.channel, channelData: data)
            return PusherChannelAuthorization(auth: auth, channelData: data)
        }
        configuration.backoff = Backoff(base: .milliseconds(1), cap: .milliseconds(5))
        configuration.log = .none
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func `a client withstands concurrent calls over sockets`(seed: UInt64) async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        weak var dropped: PusherClient?
        do {
            var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
            Self.configure(&configuration)
            // Other tests use the processor.
            configuration.subscriptionTimeout = .seconds(600)
            let client = PusherClient(configuration)
            dropped = client
            await Self.stress(client, server, seed: seed)
            try await Self.checkClient(client, server)
        }
        expectNil(dropped)
        await server.stop()
        expect(server.socketIDs.isEmpty)
    }
}
