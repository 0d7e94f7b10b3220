internal import CommandLineSupport
internal import PusherChannels
internal import PusherServer
internal import RealtimeCore
internal import RealtimeSockets

extension DemoCommand: Command {
    func run(_ console: Console) async throws(ToolFailure) {
        let server = PusherServer(app: .random(), log: .none)
        let failure = await withTaskGroup(of: ToolFailure?.self) { group in
            group.addTask { await self.outcome(server, console) }
            group.addTask {
                // A time limit, so that whatever goes wrong the demo ends.
                try? await Task.sleep(for: .seconds(9))
                return ToolFailure("The demo did not come to its end within 9 seconds; is this machine very busy?")
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        await server.stop()
        if let failure { throw failure }
        console.say(
            Line([.init("That was it.", .good), " Try realtime serve pusher, and realtime pusher subscribe beside it."], ["type": "done"]))
    }

    private func outcome(_ server: PusherServer, _ console: Console) async -> ToolFailure? {
        do {
            try await self.show(server, console)
            return nil
        } catch {
            return error as? ToolFailure ?? ToolFailure("The demo did not come to its end: \(error)")
        }
    }

    private func show(_ server: PusherServer, _ console: Console) async throws {
        let address = try await server.start(on: SocketListener())
        let url = "ws://\(address.host):\(address.port)"
        console.say(Line(["A server listens at ", .init(url, .name)], ["type": "serving", "url": .string(url)]))

        let anna = try self.client("anna", server.app, address)
        let bert = try self.client("bert", server.app, address)
        // All that is told of anna comes from this one sequence, so that it is told in the order in which it happened.
        let updates = anna.updates()
        let channels = ["prices", "private-orders", "presence-room"]

        anna.connect()
        bert.connect()
        try await self.tell(updates, console) { if case .state(.connected) = $0 { true } else { false } }
        for name in channels { try anna.subscribe(name) }
        try await self.tellSubscriptions(channels.count, updates, console)

        console.remark("Somebody publishes over the HTTP API.")
        let publisher = PusherPublisher(
            appID: server.app.id, key: server.app.key, secret: server.app.secret,
            endpoint: Endpoint(scheme: "http", host: address.host, port: address.port))
        try await publisher.publish("price", to: ["prices"], data: #"{"value":12.5}"#)
        try await self.tellEvent(updates, console)
        try await publisher.publish("order", to: ["private-orders"], data: #"{"id":7,"state":"paid"}"#)
        try await self.tellEvent(updates, console)

        console.remark("Another client comes into the room and types.")
        let room = try bert.subscribe("presence-room")
        try await self.tell(updates, console) { if case .members(_, .joined) = $0 { true } else { false } }
        try room.trigger("client-typing", ["on": true])
        try await self.tellEvent(updates, console)

        console.remark("The connection is cut, and comes back by itself with everything on it.")
        if let socketID = anna.socketID { server.drop(socketID) }
        try await self.tellSubscriptions(channels.count, updates, console)
        server.publish("price", to: "prices", data: #"{"value":13.25}"#)
        try await self.tellEvent(updates, console)
        anna.disconnect()
        bert.disconnect()
        try await self.tell(updates, console) { if case .state(.disconnected) = $0 { true } else { false } }
    }

    private func client(_ user: String, _ app: PusherApp, _ address: ListenerAddress) throws -> PusherClient {
        var configuration = PusherConfiguration(key: app.key, host: address.host, port: address.port, useTLS: false)
        configuration.authorizer = .secret(app.secret, userID: user)
        configuration.log = .none
        return PusherClient(configuration)
    }

    private func tellSubscriptions(_ count: Int, _ updates: EventSequence<PusherUpdate>, _ console: Console) async throws {
        var left = count
        try await self.tell(updates, console) { happening in
            if case .subscription(_, .subscribed) = happening { left -= 1 }
            return left == 0
        }
    }

    private func tellEvent(_ updates: EventSequence<PusherUpdate>, _ console: Console) async throws {
        try await self.tell(updates, console) { if case .event = $0 { true } else { false } }
    }

    /// Says what happens, up to what is waited for.
    private func tell(
        _ updates: EventSequence<PusherUpdate>, _ console: Console, until isLast: (PusherUpdate) -> Bool
    ) async throws {
        for await happening in updates {
            switch happening {
            case .state(.connected(let socketID)): console.say(.state("connected", detail: "socket \(socketID)", style: .good))
            case .state(let state): console.say(.state(state.name))
            case .subscription(let channel, .subscribed): console.say(.subscribed(channel))
            case .event(let event):
                console.say(.event(channel: event.channel ?? "", event: event.name, data: event.data ?? "", userID: event.userID))
            case .members(let channel, .joined(let member)):
                console.say(
                    Line(
                        [.init(member.id, .name), " is in ", .init(channel, .name)],
                        ["type": "joined", "channel": .string(channel), "id": .string(member.id)]))
            case .subscription, .members, .connectingIn, .error: break
            }
            if isLast(happening) { return }
        }
        throw ToolFailure("The connection ended before the demo did.")
    }
}
