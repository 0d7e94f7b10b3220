import CommandLineSupport
import RealtimeCore
import RealtimeSystem
import SignalRHubs
import SignalRServer
import SignalRWire

extension InstructionCounts {
    static var signalR: [CountedPath] {
        [(HubFormat.json, "json"), (.messagePack, "messagepack")].flatMap { format, name in
            [
                CountedPath("signalr-call-2-\(name)") {
                    try await self.receive(format, arguments: 2) { client, arrivals in
                        client.on(LoadHub.Method.price) { (volume: Int, note: String) in arrivals.add(volume + note.utf8.count) }
                    }
                },
                CountedPath("signalr-call-6-\(name)") {
                    try await self.receive(format, arguments: 6) { client, arrivals in
                        client.on(LoadHub.Method.price) { (symbol: String, _: Double, volume: Int, _: Bool, _: Int, note: String) in
                            arrivals.add(symbol.utf8.count + volume + note.utf8.count)
                        }
                    }
                },
                CountedPath("signalr-invoke-\(name)", messages: 640) {
                    let (client, _) = try await self.client(format)
                    let arrivals = Arrivals()
                    let text = String(repeating: "x", count: 100)
                    return { messages in
                        try arrivals.expect(messages) {
                            Task {
                                for _ in 0..<messages {
                                    arrivals.add(try await client.invoke(LoadHub.Method.echo, text, as: String.self).utf8.count)
                                }
                            }
                            MainThread.runAll()
                        }
                    }
                },
                CountedPath("signalr-64-sends-\(name)") {
                    let (client, network) = try await self.client(format)
                    let text = String(repeating: "x", count: 100)
                    return try self.sends(network) { count in
                        for _ in 0..<count { try await client.send(LoadHub.Method.hold, text) }
                    }
                },
                CountedPath("signalr-stream-\(name)") {
                    let (client, network) = try await self.client(format)
                    network.connection?.isAnswering = false
                    let arrivals = Arrivals()
                    let items = try client.stream(LoadHub.Method.items, 0, of: Double.self)
                    let consumer = Task { for try await item in items { arrivals.add(Int(item)) } }
                    let item = LoadHub.frame(
                        HubMessageWriter.message(.streamItem(id: "1", try HubValueCoder(format).payload(1234.56)), format), mask: nil)
                    return { messages in
                        try arrivals.expect(messages) { network.read(item, count: messages) }
                        withExtendedLifetime((client, consumer)) {}
                    }
                },
            ]
        } + [
            CountedPath("signalr-long-polling", messages: 320) {
                let network = InMemoryNetwork(time: StoppedTime())
                let server = SignalRServer(network: network, log: .none)
                let hub = server.hub(BenchHub.path)
                let address = try await server.start(on: network.listener())
                let (client, arrivals) = (try self.client(BenchHub.path, of: address, network), Arrivals())
                client.on(LoadHub.Method.price) { (volume: Int, note: String) in arrivals.add(volume + note.utf8.count) }
                try await client.start()
                return { messages in
                    try arrivals.expect(messages) {
                        for _ in 0..<messages {
                            Task { try await hub.clients.all.send(LoadHub.Method.price, 98765, LoadHub.note) }
                            MainThread.runAll()
                        }
                    }
                    withExtendedLifetime((server, client)) {}
                }
            }
        ]
    }

    private static func client(_ path: String, of address: ListenerAddress, _ network: InMemoryNetwork) throws -> HubClient {
        var configuration = HubConfiguration(
            Endpoint(scheme: "http", host: address.host, port: address.port, target: path), transports: network.transports())
        configuration.allowedTransports = .longPolling
        configuration.log = .none
        return HubClient(configuration)
    }

    private static func client(_ format: HubFormat) async throws -> (HubClient, RecordedNetwork) {
        let network = RecordedNetwork()
        let client = try await BenchFixture.hubClient("http://127.0.0.1:1\(BareInvocations.target)", format) {
            $0.transports = network.transports
        }
        return (client, network)
    }

    private static func receive(
        _ format: HubFormat, arguments: Int, _ handle: (HubClient, Arrivals) -> Void
    ) async throws -> CountedPath.Run {
        let (client, network) = try await self.client(format)
        let arrivals = Arrivals()
        handle(client, arrivals)
        let frame = LoadHub.call(format, arguments: arguments)
        return { messages in
            try arrivals.expect(messages) { network.read(frame, count: messages) }
            withExtendedLifetime(client) {}
        }
    }
}
