import CommandLineSupport
import PusherChannels
import RealtimeCore
import RealtimeSystem

extension InstructionCounts {
    static var pusher: [CountedPath] {
        [
            CountedPath("pusher-event-strings") {
                try await self.receive { channel, _, arrivals in
                    let events = channel.events(LoadMessage.event, buffer: .pauseReading(4096))
                    return Task { for await event in events { arrivals.add(event.name.utf8.count + (event.data?.utf8.count ?? 0)) } }
                }
            },
            CountedPath("pusher-event-callback") {
                try await self.receive { _, client, arrivals in
                    client.onUpdate(on: PusherCallbackExecutor { $0() }, buffer: .pauseReading(4096)) { update in
                        guard case .event(let event) = update else { return }
                        arrivals.add(event.name.utf8.count + (event.data?.utf8.count ?? 0))
                    }
                }
            },
            CountedPath("pusher-event-decoded") {
                try await self.receive { channel, _, arrivals in
                    let events = channel.events(LoadMessage.event, buffer: .pauseReading(4096))
                    return Task { for await event in events { arrivals.add(try event.decode(LoadPrice.self).volume) } }
                }
            },
            CountedPath("pusher-64-sends") {
                let (client, channel, network) = try await self.channel(LoadMessage.privateChannel)
                let data = SendBench.data
                return try self.sends(network) { count in
                    for _ in 0..<count { try channel.trigger(LoadMessage.more, data) }
                    withExtendedLifetime(client) {}
                }
            },
        ]
    }

    private static func channel(_ name: String) async throws -> (PusherClient, PusherChannel, RecordedNetwork) {
        let network = RecordedNetwork()
        var configuration = PusherConfiguration(key: "bench", host: "127.0.0.1", port: 1, useTLS: false)
        configuration.authorizer = .secret("secret")
        configuration.log = .none
        configuration.transports = network.transports
        let client = PusherClient(configuration)
        client.connect()
        try await client.connected()
        let channel = try client.subscribe(name)
        try await channel.subscribed()
        return (client, channel, network)
    }

    private static func receive(
        _ consume: (PusherChannel, PusherClient, Arrivals) -> any Sendable
    ) async throws -> CountedPath.Run {
        let (client, channel, network) = try await self.channel(LoadMessage.channel(0))
        let arrivals = Arrivals()
        let consumer = consume(channel, client, arrivals)
        let frame = LoadMessage.frame(channel: LoadMessage.channel(0))
        return { messages in
            try arrivals.expect(messages) { network.read(frame, count: messages) }
            withExtendedLifetime((client, channel, consumer)) {}
        }
    }

    /// Sends messages from a task, 64 in a row, to a peer that doesn't answer.
    static func sends(
        _ network: RecordedNetwork, _ send: @escaping @Sendable (_ count: Int) async throws -> Void
    ) throws -> CountedPath.Run {
        network.connection?.isAnswering = false
        let row = 64
        return { messages in
            let before = network.connection?.sentCount ?? 0
            for _ in 0..<(messages / row) {
                Task { try await send(row) }
                MainThread.runAll()
            }
            let sent = (network.connection?.sentCount ?? 0) - before
            guard sent == messages else { throw ToolFailure("\(sent) of \(messages) messages were sent.") }
        }
    }
}
