import CommandLineSupport
import PrimusClient
import PrimusServer
import RealtimeCore
import RealtimeSockets

/// The part of the demo about Primus: messages, events with acknowledgements, recovery from a lost connection, and a server that speaks
/// otherwise.
struct PrimusDemo: Sendable {
    private let plain: PrimusServer
    private let other: PrimusServer
    private let registrations: [CallbackObservation]
    private let console: Console

    init(_ console: Console) {
        self.console = console
        var configuration = PrimusServerConfiguration()
        configuration.plugins = .emitter
        self.plain = PrimusServer(configuration: configuration, log: .none)
        (configuration.transformer, configuration.parser) = (.engineIO, .msgpack)
        self.other = PrimusServer(configuration: configuration, log: .none)
        self.registrations = DemoSparks.add(to: self.plain) + DemoSparks.add(to: self.other)
    }

    func stop() async {
        await self.plain.stop()
        await self.other.stop()
    }

    func show() async throws {
        let url = try await self.start(self.plain)
        let anna = try self.client(url)
        // All lines about anna come from this one sequence, which keeps them in order.
        let events = anna.received
        anna.open()
        try await self.print(events) { $0.isOpen }

        self.console.printNote("Writing a message, which the server sends to all clients")
        try await anna.write(["text": "hello"])
        try await self.print(events) { if case .message = $0 { true } else { false } }

        self.console.printNote("Sending an event, which the server acknowledges")
        let numbers = try await anna.emitter.acknowledgement(of: "add", values: [20, 22], within: nil)
        self.console.print(.acknowledgement(numbers.map { $0.shown(for: .json) }))

        self.console.printNote("A second client sends an event to all")
        let bert = try self.client(url)
        bert.open()
        try await bert.emitter.send("chat", "bert", "hello")
        try await self.printEvent(events)

        self.console.printNote("Dropping the connection; the client reconnects")
        try self.drop()
        try await self.print(events) { $0.isOpen }
        try await bert.emitter.send("chat", "bert", "welcome back")
        try await self.printEvent(events)
        for client in [bert, anna] { client.end() }
        try await self.print(events) { $0.isEnd }
        try await self.showOther()
    }

    private func showOther() async throws {
        self.console.printNote("A server with engine.io and MessagePack, which the client finds out")
        let dora = try self.client(try await self.start(self.other))
        let events = dora.received
        dora.open()
        try await self.print(events) { $0.isOpen }
        try await dora.write(["bytes": .bytes([1, 2, 3]), "date": .date(PrimusDate(milliseconds: 0))] as PrimusValue)
        try await self.print(events) { if case .message = $0 { true } else { false } }
        dora.end()
        try await self.print(events) { $0.isEnd }
    }

    private func start(_ server: PrimusServer) async throws -> String {
        let address = try await server.start(on: SocketListener())
        let url = "http://\(address.host):\(address.port)\(server.configuration.pathname)"
        self.console.print(Line(["Primus server listening at ", .init(url, .name)], ["type": "serving", "url": .string(url)]))
        return url
    }

    private func client(_ url: String) throws -> PrimusConnection {
        var options = try PrimusConfiguration(url: url)
        options.plugins = [.emitter]
        options.retry = .delays([.zero, .milliseconds(100), .milliseconds(500)])
        options.log = .none
        return PrimusConnection(options)
    }

    /// Drops the connection of the client that has connected first.
    private func drop() throws {
        guard let spark = self.plain.sparks.first else { throw ToolFailure("The connection ended before the demo finished.") }
        self.plain.drop(spark.id)
    }

    private func printEvent(_ events: EventSequence<PrimusEvent>) async throws {
        try await self.print(events) { if case .plugin = $0 { true } else { false } }
    }

    /// Prints events up to and including the first one that matches.
    ///
    /// - Throws: `ToolFailure` when the connection ends before.
    private func print(_ events: EventSequence<PrimusEvent>, through isLast: (PrimusEvent) -> Bool) async throws {
        var lines = PrimusStateLines()
        for await event in events {
            if case .update(let update) = event {
                if let line = lines.line(update) { self.console.print(line) }
            } else {
                do throws(PrimusShown.Problem) {
                    if let line = try Line.received(event) { self.console.print(line) }
                } catch {
                    throw ToolFailure(error.message)
                }
            }
            if isLast(event) { return }
            if event.isEnd { break }
        }
        throw ToolFailure("The connection ended before the demo finished.")
    }
}

extension PrimusEvent {
    fileprivate var isOpen: Bool { if case .update(.state(.open)) = self { true } else { false } }
    fileprivate var isEnd: Bool { if case .update(.state(.closed)) = self { true } else { false } }
}
