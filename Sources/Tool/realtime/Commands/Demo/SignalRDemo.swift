import CommandLineSupport
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeTransports
import SignalRHubs
import SignalRServer
import SignalRWire

/// The part of the demo about SignalR: calls, streams, both hub protocols, two transports, and recovery from lost connections.
struct SignalRDemo: Sendable {
    private let server: SignalRServer
    private let console: Console

    init(_ console: Console) {
        self.console = console
        var configuration = SignalRServerConfiguration()
        configuration.allowsStatefulReconnects = true
        self.server = SignalRServer(configuration: configuration, log: .none)
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
        try await self.print(events, of: anna) { if case .update(.state(.connected), _) = $0 { true } else { false } }

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
        try await self.printCall(events, of: anna)

        self.console.printNote("Dropping the connection; the client reconnects")
        if let id = anna.connectionID { self.server.drop(id) }
        try await self.print(events, of: anna) { if case .update(.state(.connected), _) = $0 { true } else { false } }
        try await bert.send("Send", "bert", "welcome back")
        try await self.printCall(events, of: anna)

        self.console.printNote("A third client, over long polling")
        let carla = try self.client(url + "/chat", .json) { $0.allowedTransports = .longPolling }
        let states = carla.events(withCallsOf: [])
        try await carla.start()
        try await self.print(states, of: carla) { if case .update(.state(.connected), _) = $0 { true } else { false } }
        try await carla.send("Send", "carla", "hello from a proxy")
        try await self.printCall(events, of: anna)
        for client in [carla, anna, bert] { client.stop() }
        try await self.print(events, of: anna) { if case .update(.state(.stopped), _) = $0 { true } else { false } }
        try await self.showResume(url + "/echo")
    }

    private func showResume(_ url: String) async throws {
        self.console.printNote("A fourth client, with stateful reconnect, loses its WebSocket during a stream")
        let dora = try self.client(url, .json) { $0.statefulReconnect = HubStatefulReconnect() }
        let events = dora.events(withCallsOf: [])
        try await dora.start()
        try await self.print(events, of: dora) { if case .update(.state(.connected), _) = $0 { true } else { false } }
        let (numbers, input) = AsyncStream.makeStream(of: Int.self)
        let echo = try dora.stream("EchoStream", HubUpload(numbers), of: JSONValue.self).makeAsyncIterator()
        input.yield(1)
        if let number = try await echo.next() { self.console.print(.item(number)) }
        if let id = dora.connectionID { self.server.drop(id) }
        for number in 2...3 { input.yield(number) }
        input.finish()
        try await self.print(events, of: dora) { if case .update(.resumed, _) = $0 { true } else { false } }
        while let number = try await echo.next() { self.console.print(.item(number)) }
        dora.stop()
        try await self.print(events, of: dora) { if case .update(.state(.stopped), _) = $0 { true } else { false } }
    }

    private func client(
        _ url: String, _ format: HubFormat, _ configure: (inout HubConfiguration) -> Void = { _ in }
    ) throws -> HubClient {
        var options = HubConfiguration(try Endpoint(url), transports: .standard)
        options.format = format
        options.retry = .standard
        options.log = .none
        configure(&options)
        return HubClient(options)
    }

    private func printCall(_ events: EventSequence<HubEvent>, of client: HubClient) async throws {
        try await self.print(events, of: client) { if case .invocation = $0 { true } else { false } }
    }

    /// Prints events up to and including the first one that matches.
    ///
    /// - Throws: `ToolFailure` when the connection ends before.
    private func print(
        _ events: EventSequence<HubEvent>, of client: HubClient, through isLast: (HubEvent) -> Bool
    ) async throws {
        var lines = HubStateLines(of: client)
        for await event in events {
            switch event {
            case .update(let update, _): if let line = lines.line(update) { self.console.print(line) }
            case .invocation(let callback):
                self.console.print(.invocation(callback.invocation.target, try callback.invocation.arguments.json().array ?? []))
            case .item, .streamEnd, .frame: break
            }
            if isLast(event) { return }
            if case .update(.state(.stopped), _) = event { break }
        }
        throw ToolFailure("The connection ended before the demo finished.")
    }
}
