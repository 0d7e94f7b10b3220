internal import CommandLineSupport
internal import RealtimeSystem
internal import PusherChannels
internal import RealtimeCore

extension PusherSubscribeCommand: Command {
    private enum Outcome: Sendable {
        case goesOn
        case done
        case failed(ToolFailure)
        case timeIsUp
    }

    /// What the output said so far.
    private struct Progress: Sendable {
        var events = 0
        var subscribed: Set<String> = []
        /// Why there is no connection, while there is none.
        var trouble: String?
    }

    /// One task makes it, another looks at it.
    private final class SharedProgress: Sendable {
        private let value = Lock(Progress())

        var now: Progress { self.value.withLock { $0 } }

        func update<Result>(_ change: (inout Progress) -> Result) -> Result { self.value.withLock { change(&$0) } }
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let client = PusherClient(try self.configuration())
        // One sequence for everything, so that the output has the order in which it happened. Nothing is lost to a slow
        // reader: the connection waits for it.
        let updates = client.updates(buffer: .pauseReading(1024))
        let progress = SharedProgress()
        do throws(PusherError) {
            for name in self.channels { try client.subscribe(name) }
        } catch {
            throw ToolFailure(error.message)
        }
        client.connect()
        let outcome = await withTaskGroup(of: Outcome.self) { group -> Outcome in
            group.addTask { await self.tell(updates, progress, console) }
            group.addTask { await self.limit(client) }
            defer { group.cancelAll() }
            for await outcome in group {
                if case .goesOn = outcome { continue }
                return outcome
            }
            return .goesOn
        }
        if !client.state.isFinal { client.disconnect() }
        for await case .state(let state) in updates { console.say(Self.line(state)) }
        switch outcome {
        case .done: return
        case .failed(let failure): throw failure
        case .timeIsUp: throw self.late(progress.now)
        // Stopped by a signal: with --count it has not done what it was asked for.
        case .goesOn: if self.count != nil { throw self.late(progress.now) }
        }
    }

    private func configuration() throws(ToolFailure) -> PusherConfiguration {
        var configuration: PusherConfiguration
        switch self.place {
        case .cluster(let cluster): configuration = PusherConfiguration(key: self.key, cluster: cluster)
        case .endpoint(let endpoint): configuration = PusherConfiguration(key: self.key, endpoint: endpoint)
        }
        if let secret { configuration.authorizer = .secret(secret) }
        if let authEndpoint { configuration.authorizer = .endpoint(PusherAuthorizationEndpoint(authEndpoint)) }
        // The tool says itself what happens.
        configuration.log = .none
        return configuration
    }

    /// Until enough events came, the connection has ended for good, or a subscription has failed at once and would again.
    private func tell(_ updates: EventSequence<PusherUpdate>, _ progress: SharedProgress, _ console: Console) async -> Outcome {
        for await happening in updates {
            switch happening {
            case .event(let event) where self.events.isEmpty || self.events.contains(event.name):
                console.say(.event(channel: event.channel ?? "", event: event.name, data: event.data ?? "", userID: event.userID))
                let events = progress.update { progress in
                    progress.events += 1
                    return progress.events
                }
                if events == self.count { return .done }
            case .state(let state):
                console.say(Self.line(state))
                if case .connected = state { progress.update { $0.trouble = nil } }
                if case .failed(let error) = state { return .failed(ToolFailure(error.message)) }
                if case .disconnected(let error?) = state { return .failed(ToolFailure(error.message)) }
            case .subscription(let channel, .subscribed):
                progress.update { _ = $0.subscribed.insert(channel) }
                console.say(.subscribed(channel))
            case .subscription(let channel, .failed(let error)) where error.code != .timedOut && (error.status ?? 0) < 500:
                if !progress.now.subscribed.contains(channel) { return .failed(ToolFailure(error.message)) }
            case .error(let error):
                progress.update { $0.trouble = error.message }
                console.say(.error(error.message, code: error.serverCode))
            case .connectingIn(let wait):
                console.remark(.init("connecting again in \(wait.formattedSeconds)", .faint))
            case .event, .subscription, .members: continue
            }
        }
        return .goesOn
    }

    private static func line(_ state: PusherConnectionState) -> Line {
        switch state {
        case .connected(let socketID): .state(state.name, detail: "socket \(socketID)", style: .good)
        case .failed(let error), .disconnected(let error?): .state(state.name, detail: error.message, style: .bad)
        case .unavailable: .state(state.name, detail: "no connection yet, it goes on trying", style: .warning)
        default: .state(state.name)
        }
    }

    /// The time that `--timeout` gives: to be subscribed or, with `--count`, to have all events.
    private func limit(_ client: PusherClient) async -> Outcome {
        guard let timeout else { return .goesOn }
        let end = ContinuousClock.now + timeout
        if self.count == nil {
            do throws(PusherError) {
                for name in self.channels { try await client.channel(name)?.subscribed(within: max(.zero, end - .now)) }
                return .goesOn
            } catch {
                return error.code == .timedOut ? .timeIsUp : .goesOn
            }
        }
        do {
            try await Task.sleep(until: end, clock: .continuous)
        } catch {
            return .goesOn
        }
        return .timeIsUp
    }

    /// What there was not, where, and what to do.
    private func late(_ progress: Progress) -> ToolFailure {
        let time = self.timeout.map { " within \($0.formattedSeconds)" } ?? ""
        let missing = self.channels.filter { !progress.subscribed.contains($0) }
        let what =
            if let count, missing.isEmpty {
                "Of \(count) events \(progress.events) came from \(self.place)\(time)"
            } else {
                "There was no subscription to \(missing.first ?? self.channels[0]) at \(self.place)\(time)"
            }
        return ToolFailure("\(what): \(progress.trouble ?? "see what the server does, or give --timeout more seconds.")")
    }
}

extension Duration {
    /// With one decimal.
    var formattedSeconds: String {
        let tenths = Int((self / .milliseconds(100)).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
