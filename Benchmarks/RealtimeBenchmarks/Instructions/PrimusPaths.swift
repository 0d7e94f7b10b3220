import CommandLineSupport
import PrimusClient
import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeSystem

extension InstructionCounts {
    static var primus: [CountedPath] {
        [PrimusCoding.json, .ejson, .messagePack, .binary].flatMap { coding in
            [
                CountedPath("primus-\(coding.kind)-message") {
                    try await self.receive(coding) { client, arrivals in
                        let messages = client.messages(buffer: .pauseReading(4096))
                        return Task { for await message in messages { arrivals.add(message.raw.bytes.count) } }
                    }
                },
                CountedPath("primus-\(coding.kind)-decoded") {
                    try await self.receive(coding) { client, arrivals in
                        let messages = client.messages(as: LoadPrice.self)
                        return Task { for await message in messages { arrivals.add(message.volume) } }
                    }
                },
            ]
        } + [
            CountedPath("primus-64-sends") {
                let (client, network) = try await self.client(.json)
                let text = String(repeating: "x", count: 100)
                return try self.sends(network) { count in for _ in 0..<count { client.enqueue(text) } }
            },
            CountedPath("primus-polling", messages: 320) {
                var serverConfiguration = PrimusServerConfiguration()
                serverConfiguration.transformer = .engineIO
                let network = InMemoryNetwork(time: StoppedTime())
                let server = PrimusServer(network: network, configuration: serverConfiguration, log: .none)
                let address = try await server.start(on: network.listener())
                var configuration = PrimusConfiguration(
                    Endpoint(scheme: "http", host: address.host, port: address.port, target: serverConfiguration.pathname),
                    transports: network.transports())
                (configuration.transformer, configuration.parser, configuration.detection) = (.engineIO, .json, .off)
                (configuration.startsWithPolling, configuration.allowedTransports) = (true, .polling)
                (configuration.log, configuration.silenceLimit) = (.none, .seconds(600))
                let (client, arrivals) = (PrimusConnection(configuration), Arrivals())
                let messages = client.messages(buffer: .pauseReading(4096))
                let consumer = Task { for await message in messages { arrivals.add(message.raw.bytes.count) } }
                client.open()
                try await client.opened()
                let text = String(repeating: "x", count: 100)
                return { messages in
                    try arrivals.expect(messages) {
                        for _ in 0..<messages {
                            try server.write(text)
                            MainThread.runAll()
                        }
                    }
                    withExtendedLifetime((server, client, consumer)) {}
                }
            },
        ]
    }

    private static func client(_ coding: PrimusCoding) async throws -> (PrimusConnection, RecordedNetwork) {
        let network = RecordedNetwork()
        var configuration = try PrimusConfiguration(url: "http://127.0.0.1:1\(LoadPrimus.path(of: coding))")
        (configuration.transformer, configuration.parser, configuration.detection) = (.websockets, coding.kind, .off)
        (configuration.log, configuration.silenceLimit) = (.none, .seconds(600))
        configuration.transports = network.transports
        let client = PrimusConnection(configuration)
        client.open()
        try await client.opened()
        return (client, network)
    }

    private static func receive(
        _ coding: PrimusCoding, _ consume: (PrimusConnection, Arrivals) -> any Sendable
    ) async throws -> CountedPath.Run {
        let (client, network) = try await self.client(coding)
        let arrivals = Arrivals()
        let consumer = consume(client, arrivals)
        guard let price = LoadPrimus.price(coding) else { throw ToolFailure("The message can't be encoded.") }
        let frame = LoadHub.frame(price, mask: nil)
        return { messages in
            try arrivals.expect(messages) { network.read(frame, count: messages) }
            withExtendedLifetime((client, consumer)) {}
        }
    }
}
