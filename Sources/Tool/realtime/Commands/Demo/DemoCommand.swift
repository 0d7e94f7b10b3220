import CommandLineSupport
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets

/// `realtime demo`
struct DemoCommand: Command {
    static let spec = CommandSpec(
        path: ["demo"],
        summary: "Show servers and clients in action",
        description: """
            Starts a Pusher Channels server on a free local port, connects two clients to it and prints what they receive. Shows \
            subscribing, publishing, client events, and recovery from a lost connection. Then does the same with a SignalR server, and \
            shows calls, streams, long polling and stateful reconnect, and with two Primus servers, and shows messages, events and \
            acknowledgements. Needs no network and exits on its own.
            """,
        options: [.json],
        examples: ["demo"])

    private static let timeLimit = 60

    init(_ arguments: Arguments) throws(UsageError) {}

    func run(_ console: Console) async throws(ToolFailure) {
        let server = PusherServer(app: .random(), log: .none)
        let (signalR, primus) = (SignalRDemo(console), PrimusDemo(console))
        let failure = await withTaskGroup(of: ToolFailure?.self) { group in
            group.addTask { await self.failure(server, signalR, primus, console) }
            group.addTask {
                try? await Task.sleep(for: .seconds(Self.timeLimit))
                return ToolFailure("The demo did not finish within \(Self.timeLimit) seconds. Is the machine overloaded?")
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        await server.stop()
        await signalR.stop()
        await primus.stop()
        if let failure { throw failure }
        console.print(Line([.init("Done.", .success), " To try it yourself, run these commands in one terminal each:"], ["type": "done"]))
        let executable = Shell.executable()
        let examples = [
            ServePusherCommand.spec.examples[1], PusherSubscribeCommand.spec.examples[0], PusherPublishCommand.spec.examples[0],
            // They print what to run next.
            ServeSignalRCommand.spec.examples[0], ServePrimusCommand.spec.examples[0],
        ]
        for example in examples { console.printNote(.init("  \(executable) \(example)")) }
    }

    private func failure(
        _ server: PusherServer, _ signalR: SignalRDemo, _ primus: PrimusDemo, _ console: Console
    ) async -> ToolFailure? {
        do {
            try await self.show(server, console)
            try await signalR.show()
            try await primus.show()
            return nil
        } catch {
            return error as? ToolFailure ?? ToolFailure("The demo failed: \(error)")
        }
    }

    private func show(_ server: PusherServer, _ console: Console) async throws {
        let address = try await server.start(on: SocketListener())
        let url = "ws://\(address.host):\(address.port)"
        console.print(Line(["Pusher server listening at ", .init(url, .name)], ["type": "serving", "url": .string(url)]))

        let anna = try self.client("anna", server.app, address)
        let bert = try self.client("bert", server.app, address)
        // All lines about anna come from this one sequence, which keeps them in order.
        let updates = anna.updates()
        let channels = ["prices", "private-orders", "presence-room"]

        anna.connect()
        bert.connect()
        try await self.print(updates, console) { if case .state(.connected) = $0 { true } else { false } }
        for name in channels { try anna.subscribe(name) }
        try await self.printSubscriptions(channels.count, updates, console)

        console.printNote("Publishing over the HTTP API")
        let publisher = PusherPublisher(
            appID: server.app.id, key: server.app.key, secret: server.app.secret,
            endpoint: Endpoint(scheme: "http", host: address.host, port: address.port))
        try await publisher.publish("price", to: ["prices"], data: #"{"value":12.5}"#)
        try await self.printEvent(updates, console)
        try await publisher.publish("order", to: ["private-orders"], data: #"{"id":7,"state":"paid"}"#)
        try await self.printEvent(updates, console)

        console.printNote("A second client joins presence-room and triggers a client event")
        let room = try bert.subscribe("presence-room")
        try await self.print(updates, console) { if case .members(_, .joined) = $0 { true } else { false } }
        try room.trigger("client-typing", ["on": true])
        try await self.printEvent(updates, console)

        console.printNote("Dropping the connection; the client reconnects and resubscribes")
        if let socketID = anna.socketID { server.drop(socketID) }
        try await self.printSubscriptions(channels.count, updates, console)
        server.publish("price", to: "prices", data: #"{"value":13.25}"#)
        try await self.printEvent(updates, console)
        anna.disconnect()
        bert.disconnect()
        try await self.print(updates, console) { if case .state(.disconnected) = $0 { true } else { false } }
    }

    private func client(_ user: String, _ app: PusherApp, _ address: ListenerAddress) throws -> PusherClient {
        var configuration = PusherConfiguration(key: app.key, host: address.host, port: address.port, useTLS: false)
        configuration.authorizer = .secret(app.secret, userID: user)
        configuration.log = .none
        return PusherClient(configuration)
    }

    private func printSubscriptions(_ count: Int, _ updates: EventSequence<PusherUpdate>, _ console: Console) async throws {
        var remaining = count
        try await self.print(updates, console) { update in
            if case .subscription(_, .subscribed) = update { remaining -= 1 }
            return remaining == 0
        }
    }

    private func printEvent(_ updates: EventSequence<PusherUpdate>, _ console: Console) async throws {
        try await self.print(updates, console) { if case .event = $0 { true } else { false } }
    }

    /// Prints updates up to and including the first one that matches.
    ///
    /// - Throws: `ToolFailure` when the connection ends before.
    private func print(
        _ updates: EventSequence<PusherUpdate>, _ console: Console, through isLast: (PusherUpdate) -> Bool
    ) async throws {
        for await update in updates {
            switch update {
            case .state(let state): console.print(.state(state))
            case .subscription(let channel, .subscribed): console.print(.subscribed(channel))
            case .event(let event): console.print(.event(event))
            case .members(let channel, let change): console.print(.members(channel, change))
            case .subscription, .connectingIn, .error, .attempt, .frame, .sentFrame, .gap, .subscriptionCount, .user, .watchlist: break
            }
            if isLast(update) { return }
            if case .state(let state) = update, state.isFinal { break }
        }
        throw ToolFailure("The connection ended before the demo finished.")
    }
}
