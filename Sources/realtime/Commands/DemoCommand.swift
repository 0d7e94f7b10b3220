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
        // Asked for before anything happens, so that no state is missed.
        var states = anna.states.makeAsyncIterator()

        anna.connect()
        bert.connect()
        try await anna.connected()
        try await self.tell(&states, until: "connected", console)
        let prices = try anna.subscribe("prices")
        let orders = try anna.subscribe("private-orders")
        let room = try anna.subscribe("presence-room")
        for channel in [prices, orders, room] {
            try await channel.subscribed()
            console.say(.subscribed(channel.name))
        }

        console.remark("Somebody publishes over the HTTP API.")
        let publisher = PusherPublisher(
            appID: server.app.id, key: server.app.key, secret: server.app.secret,
            endpoint: Endpoint(scheme: "http", host: address.host, port: address.port))
        try await self.hear(prices.events("price"), console) {
            try await publisher.publish("price", to: ["prices"], data: #"{"value":12.5}"#)
        }
        try await self.hear(orders.events("order"), console) {
            try await publisher.publish("order", to: ["private-orders"], data: #"{"id":7,"state":"paid"}"#)
        }

        console.remark("Another client comes into the room and types.")
        let changes = room.memberChanges
        let bertsRoom = try bert.subscribe("presence-room")
        try await bertsRoom.subscribed()
        if case .joined(let member)? = await changes.first(where: { if case .joined = $0 { true } else { false } }) {
            console.say(
                Line(
                    [.init(member.id, .name), " is in ", .init(room.name, .name)],
                    ["type": "joined", "channel": .string(room.name), "id": .string(member.id)]))
        }
        try await self.hear(room.events("client-typing"), console) { try bertsRoom.trigger("client-typing", ["on": true]) }

        console.remark("The connection is cut, and comes back by itself with everything on it.")
        let subscriptions: [EventSequence<SubscriptionState>] = [prices.states, orders.states, room.states]
        if let socketID = anna.socketID { server.drop(socketID) }
        for states in subscriptions { _ = await states.first { $0 == .subscribed } }
        try await self.tell(&states, until: "connected", console)
        for channel in [prices, orders, room] { console.say(.subscribed(channel.name)) }
        try await self.hear(prices.events("price"), console) { server.publish("price", to: "prices", data: #"{"value":13.25}"#) }
        anna.disconnect()
        bert.disconnect()
        try await self.tell(&states, until: "disconnected", console)
    }

    private func client(_ user: String, _ app: PusherApp, _ address: ListenerAddress) throws -> PusherClient {
        var configuration = PusherConfiguration(key: app.key, host: address.host, port: address.port, useTLS: false)
        configuration.authorizer = .secret(app.secret, userID: user)
        configuration.log = .none
        return PusherClient(configuration)
    }

    /// Sets something off, and says what is heard of it.
    private func hear(_ events: EventSequence<PusherEvent>, _ console: Console, _ cause: () async throws -> Void) async throws {
        try await cause()
        guard let event = await events.first(where: { _ in true }) else { throw ToolFailure("An event that was published did not arrive.") }
        console.say(.event(channel: event.channel ?? "", event: event.name, data: event.data ?? "", userID: event.userID))
    }

    /// Says what states the connection has gone through, up to one that it has reached.
    private func tell(
        _ states: inout EventSequence<ConnectionState>.AsyncIterator, until last: String, _ console: Console
    ) async throws {
        while let state = await states.next() {
            if case .connected(let socketID) = state {
                console.say(.state(state.name, detail: "socket \(socketID)", style: .good))
            } else {
                console.say(.state(state.name))
            }
            if state.name == last { return }
        }
        throw ToolFailure("The connection ended before its time.")
    }
}
