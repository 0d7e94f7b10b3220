internal import PusherChannels

extension PusherSubscribeCommand: Command {
    private enum Outcome: Sendable {
        case goesOn
        case done
        case failed(ToolFailure)
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let client = PusherClient(try self.configuration())
        // Nothing is lost to a slow reader: the connection waits for it.
        let events = client.events(buffer: .pauseReading(1024))
        let (states, errors, waits) = (client.states, client.errors, client.connectingIn)
        let channels: [Channel]
        do throws(PusherError) {
            channels = try self.channels.map { name throws(PusherError) in try client.subscribe(name) }
        } catch {
            throw ToolFailure(error.message)
        }
        let subscriptions = channels.map { ($0, $0.states) }
        client.connect()
        let failure = await withTaskGroup(of: Outcome.self) { group -> ToolFailure? in
            group.addTask { await Self.tell(states, console) }
            group.addTask { await Self.tell(waits, console) }
            group.addTask { await Self.tell(errors, console) }
            for (channel, states) in subscriptions { group.addTask { await Self.tell(channel, states, console) } }
            group.addTask { await self.tell(events, console) }
            group.addTask { await Self.watch(client) }
            group.addTask { await self.limit(channels) }
            defer {
                group.cancelAll()
                client.disconnect()
            }
            for await outcome in group {
                switch outcome {
                case .goesOn: continue
                case .done: return nil
                case .failed(let failure): return failure
                }
            }
            return nil
        }
        if let failure { throw failure }
    }

    private func configuration() throws(ToolFailure) -> PusherConfiguration {
        var configuration: PusherConfiguration
        switch self.place {
        case .cluster(let cluster): configuration = PusherConfiguration(key: self.key, cluster: cluster)
        case .endpoint(let endpoint): configuration = PusherConfiguration(key: self.key, endpoint: endpoint)
        }
        if let secret { configuration.authorizer = .secret(secret) }
        if let authEndpoint { configuration.authorizer = .endpoint(AuthorizationEndpoint(authEndpoint)) }
        // The tool says itself what happens.
        configuration.log = .none
        return configuration
    }

    /// Until enough events came, or the connection has ended for good.
    private func tell(_ events: EventSequence<PusherEvent>, _ console: Console) async -> Outcome {
        var left = self.count ?? Int.max
        for await event in events where self.events.isEmpty || self.events.contains(event.name) {
            console.say(.event(channel: event.channel ?? "", event: event.name, data: event.data ?? "", userID: event.userID))
            left -= 1
            if left == 0 { return .done }
        }
        return .goesOn
    }

    private static func tell(_ states: EventSequence<ConnectionState>, _ console: Console) async -> Outcome {
        for await state in states {
            switch state {
            case .connected(let socketID): console.say(.state(state.name, detail: "socket \(socketID)", style: .good))
            case .failed(let error), .disconnected(let error?): console.say(.state(state.name, detail: error.message, style: .bad))
            case .unavailable: console.say(.state(state.name, detail: "no connection yet, it goes on trying", style: .warning))
            default: console.say(.state(state.name))
            }
        }
        return .goesOn
    }

    private static func tell(_ waits: EventSequence<Duration>, _ console: Console) async -> Outcome {
        for await wait in waits { console.remark(.init("connecting again in \(wait.formattedSeconds)", .faint)) }
        return .goesOn
    }

    private static func tell(_ errors: EventSequence<PusherError>, _ console: Console) async -> Outcome {
        for await error in errors where ![.refused, .failed].contains(error.code) {
            console.say(.error(error.message, code: error.serverCode))
        }
        return .goesOn
    }

    /// A subscription that fails at once, and would fail again, ends the command.
    private static func tell(_ channel: Channel, _ states: EventSequence<SubscriptionState>, _ console: Console) async -> Outcome {
        var wasSubscribed = false
        for await state in states {
            switch state {
            case .subscribed:
                wasSubscribed = true
                console.say(.subscribed(channel.name))
            case .failed(let error) where !wasSubscribed && error.code != .timedOut && (error.status ?? 0) < 500:
                return .failed(ToolFailure(error.message))
            default: continue
            }
        }
        return .goesOn
    }

    private static func watch(_ client: PusherClient) async -> Outcome {
        do throws(PusherError) {
            try await client.run()
            return .done
        } catch {
            return error.code == .cancelled ? .done : .failed(ToolFailure(error.message))
        }
    }

    /// The time that `--timeout` gives: to be subscribed or, with `--count`, to have all events.
    private func limit(_ channels: [Channel]) async -> Outcome {
        guard let timeout else { return .goesOn }
        if self.count == nil {
            do throws(PusherError) {
                for channel in channels { try await channel.subscribed(within: timeout) }
                return .goesOn
            } catch {
                return error.code == .timedOut ? .failed(self.late(timeout, "subscribed to every channel")) : .goesOn
            }
        }
        do {
            try await Task.sleep(for: timeout)
        } catch {
            return .goesOn
        }
        return .failed(self.late(timeout, "\(self.count ?? 0) events"))
    }

    private func late(_ timeout: Duration, _ what: String) -> ToolFailure {
        ToolFailure(
            "After \(timeout.formattedSeconds) there were not yet \(what); give --timeout more seconds, or see what the server does.")
    }
}

extension Duration {
    /// With one decimal.
    var formattedSeconds: String {
        let tenths = Int((self / .milliseconds(100)).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
