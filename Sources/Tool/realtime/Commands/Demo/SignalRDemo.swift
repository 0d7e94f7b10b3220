import CommandLineSupport
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeTransports
import SignalRHubs
import SignalRServer
import SignalRWire

/// The part of the demo about SignalR: calls, a stream, both hub protocols, and recovery from a lost connection.
struct SignalRDemo: Sendable {
    private let server: SignalRServer
    private let console: Console

    init(_ console: Console) {
        self.console = console
        self.server = SignalRServer(log: .none)
        DemoHubs.add(to: self.server)
    }

    func stop() async { await self.server.stop() }

    func show() async throws {
        let address = try await self.server.start(on: SocketListener())
        let url = "http://\(address.host):\(address.port)"
        self.console.print(Line(["SignalR server listening at ", .init(url, .name)], ["type": "serving", "url": .string(url)]))

        let anna = try self.client(url + "/chat", .json)
        // All lines about anna come from this one sequence, which keeps them in order.
        let events = anna.events(withCallsOf: ["Receive"])
        try await anna.start()
        try await self.print(events) { if case .update(.state(.connected), _) = $0 { true } else { false } }

        self.console.printNote("Calling a method, and a stream")
        let calls = try self.client(url + "/echo", .json)
        try await calls.start()
        self.console.print(.result(try await calls.invoke("Add", 20, 22, as: JSONValue.self)))
        for try await number in try calls.stream("Count", 3, of: JSONValue.self) { self.console.print(.item(number)) }
        calls.stop()

        self.console.printNote("A second client, which uses MessagePack, sends to the chat")
        let bert = try self.client(url + "/chat", .messagePack)
        try await bert.start()
        try await bert.send("Send", "bert", "hello")
        try await self.printCall(events)

        self.console.printNote("Dropping the connection; the client reconnects")
        if let id = anna.connectionID { self.server.drop(id) }
        try await self.print(events) { if case .update(.state(.connected), _) = $0 { true } else { false } }
        try await bert.send("Send", "bert", "welcome back")
        try await self.printCall(events)
        anna.stop()
        bert.stop()
        try await self.print(events) { if case .update(.state(.stopped), _) = $0 { true } else { false } }
    }

    private func client(_ url: String, _ format: HubFormat) throws -> HubClient {
        var options = HubConfiguration(try Endpoint(url), transports: .standard)
        options.format = format
        options.retry = .standard
        options.log = .none
        return HubClient(options)
    }

    private func printCall(_ events: EventSequence<HubEvent>) async throws {
        try await self.print(events) { if case .invocation = $0 { true } else { false } }
    }

    /// Prints events up to and including the first one that matches.
    ///
    /// - Throws: `ToolFailure` when the connection ends before.
    private func print(_ events: EventSequence<HubEvent>, through isLast: (HubEvent) -> Bool) async throws {
        for await event in events {
            switch event {
            case .update(.state(let state), _): self.console.print(.state(state))
            case .invocation(let callback):
                self.console.print(.invocation(callback.invocation.target, try callback.invocation.arguments.json().array ?? []))
            case .update, .item, .streamEnd, .frame: break
            }
            if isLast(event) { return }
            if case .update(.state(.stopped), _) = event { break }
        }
        throw ToolFailure("The connection ended before the demo finished.")
    }
}
