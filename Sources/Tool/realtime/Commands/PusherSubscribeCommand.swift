import CommandLineSupport
import PusherChannels
import RealtimeCore

/// `realtime pusher subscribe`
struct PusherSubscribeCommand: Command {
    static let spec = CommandSpec(
        path: ["pusher", "subscribe"],
        summary: "Subscribe to channels and print their events",
        description: """
            Connects to a Pusher Channels service, subscribes to channels and prints their events until Control-C. Reconnects and \
            resubscribes when the connection is lost. Private and presence channels require --secret or --auth-endpoint.
            """,
        positionals: [
            PositionalSpec("URL", "The URL of the service: ws://HOST:PORT or wss://HOST.", .requiredWithout(option: "cluster")),
            PositionalSpec("CHANNEL", "The channels to subscribe to.", .repeated(atLeast: 1)),
        ],
        options: [
            .value("key", "KEY", "The key of the app.", isRequired: true),
            PusherService.clusterOption,
            .value("secret", "SECRET", "The secret of the app, which authorizes private and presence channels locally."),
            .value("auth-endpoint", "URL", "The http:// or https:// URL that authorizes private and presence channels."),
            .value("event", "NAME", "Print only events with this name. Can be repeated.", isRepeatable: true),
            .value("count", "N", "Exit after N events.", as: .integer(1...Int.max)),
            .value(
                "timeout", "SECONDS", "Exit with status 1 if subscribing or, with --count, receiving all events takes longer.",
                as: .duration(.milliseconds(1) ... .seconds(1_000_000))),
            .json,
        ],
        examples: [
            "pusher subscribe ws://127.0.0.1:8080 --key key prices",
            "pusher subscribe --cluster eu --key key --event trade --count 10 prices orders",
        ])

    let service: PusherService
    let key: String
    let channels: [String]
    let secret: String?
    let authEndpoint: Endpoint?
    /// The names of the events to print; empty for all.
    let events: [String]
    let count: Int?
    let timeout: Duration?

    init(_ arguments: Arguments) throws(UsageError) {
        self.service = try PusherService(arguments, next: "CHANNEL")
        self.key = arguments.required(option: "key")
        self.channels = arguments.positionals("CHANNEL")
        self.secret = arguments.string("secret")
        self.authEndpoint = try arguments.string("auth-endpoint").map { text throws(UsageError) in
            guard let endpoint = try? Endpoint(text), ["http", "https"].contains(endpoint.scheme) else {
                throw arguments.usageError("Invalid value '\(text)' for '--auth-endpoint': must be an http:// or https:// URL")
            }
            return endpoint
        }
        switch (self.secret, self.authEndpoint) {
        case (_?, _?): throw arguments.usageError("Specify either '--secret' or '--auth-endpoint', not both")
        case (nil, nil):
            if let channel = self.channels.first(where: { $0.hasPrefix("private-") || $0.hasPrefix("presence-") }) {
                throw arguments.usageError("Channel '\(channel)' requires authorization; specify '--secret' or '--auth-endpoint'")
            }
        default: break
        }
        self.events = arguments.strings("event")
        self.count = arguments.integer("count")
        self.timeout = arguments.duration("timeout")
    }
}

extension PusherSubscribeCommand {
    /// What has been received so far.
    private struct Progress: Sendable {
        var events = 0
        var subscribed: Set<String> = []
        /// The last error since the client was connected.
        var lastError: String?
        /// Whether the final state of the client has been printed.
        var hasPrintedEnd = false
    }

    /// Why printing ended.
    private enum Ending: Sendable {
        /// All events that `--count` asks for have been printed.
        case complete
        case failed(ToolFailure)
        case timedOut
        case interrupted
    }

    private enum TaskResult: Sendable {
        case printed(Ending, Progress)
        case timedOut
        /// There is no time limit, or it is met.
        case withinLimit
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let client = PusherClient(self.configuration())
        // One sequence for everything keeps the output in order, and no update is dropped: reading from the connection pauses instead.
        let updates = client.updates(buffer: .pauseReading(1024))
        do throws(PusherError) {
            for channel in self.channels { try client.subscribe(channel) }
        } catch {
            throw ToolFailure(error.message)
        }
        client.connect()
        let (ending, progress) = await self.printUntilEnd(updates, of: client, console)
        switch client.state {
        case .failed, .disconnected: break
        case .initialized, .connecting, .connected, .unavailable: client.disconnect()
        }
        if !progress.hasPrintedEnd {
            for await case .state(let state) in updates {
                console.print(.state(state))
                if state.isFinal { break }
            }
        }
        switch ending {
        case .complete: return
        case .failed(let failure): throw failure
        case .timedOut: throw self.incomplete(progress)
        case .interrupted: if self.count != nil { throw self.incomplete(progress) }
        }
    }

    private func configuration() -> PusherConfiguration {
        var configuration =
            switch self.service {
            case .cluster(let cluster): PusherConfiguration(key: self.key, cluster: cluster)
            case .endpoint(let endpoint): PusherConfiguration(key: self.key, endpoint: endpoint)
            }
        if let secret { configuration.authorizer = .secret(secret) }
        if let authEndpoint { configuration.authorizer = .endpoint(PusherAuthorizationEndpoint(authEndpoint)) }
        // The command prints all updates; a log would repeat them.
        configuration.log = .none
        return configuration
    }

    private func printUntilEnd(
        _ updates: EventSequence<PusherUpdate>, of client: PusherClient, _ console: Console
    ) async -> (Ending, Progress) {
        await withTaskGroup(of: TaskResult.self) { group in
            group.addTask { await self.printUpdates(updates, console) }
            group.addTask { await self.waitForLimit(client) }
            var hasTimedOut = false
            for await result in group {
                switch result {
                case .printed(.interrupted, let progress) where hasTimedOut: return (.timedOut, progress)
                case .printed(let ending, let progress):
                    group.cancelAll()
                    return (ending, progress)
                case .timedOut:
                    hasTimedOut = true
                    group.cancelAll()
                case .withinLimit: continue
                }
            }
            preconditionFailure("the printing task always returns")
        }
    }

    /// Prints updates until enough events have arrived, the client gives up, a subscription is rejected, or the task is cancelled.
    private func printUpdates(_ updates: EventSequence<PusherUpdate>, _ console: Console) async -> TaskResult {
        var progress = Progress()
        for await update in updates {
            switch update {
            case .event(let event):
                guard self.events.isEmpty || self.events.contains(event.name) else { continue }
                console.print(.event(event))
                progress.events += 1
                if progress.events == self.count { return .printed(.complete, progress) }
            case .state(let state):
                console.print(.state(state))
                progress.hasPrintedEnd = state.isFinal
                switch state {
                case .connected: progress.lastError = nil
                case .failed(let error), .disconnected(let error?): return .printed(.failed(ToolFailure(error.message)), progress)
                case .initialized, .connecting, .unavailable, .disconnected(nil): break
                }
            case .subscription(let channel, .subscribed):
                progress.subscribed.insert(channel)
                console.print(.subscribed(channel))
            case .subscription(let channel, .failed(let error)):
                // The client retries after a timeout and after an error of the authorization server.
                let isTransient = error.code == .timedOut || (error.status ?? 0) >= 500
                if !isTransient, !progress.subscribed.contains(channel) {
                    return .printed(.failed(ToolFailure(error.message)), progress)
                }
            case .error(let error):
                progress.lastError = error.message
                console.print(.error(error.message, code: error.serverCode))
            case .connectingIn(let delay):
                console.printNote(.init("retrying in \(delay.inSeconds)", .faint))
            case .subscription, .members, .attempt, .frame: continue
            }
        }
        return .printed(.interrupted, progress)
    }

    /// Waits until `--timeout` elapses or, without `--count`, until all channels are subscribed.
    private func waitForLimit(_ client: PusherClient) async -> TaskResult {
        guard let timeout else { return .withinLimit }
        let end = ContinuousClock.now + timeout
        if self.count == nil {
            do throws(PusherError) {
                for name in self.channels { try await client.channel(name)?.subscribed(within: max(.zero, end - .now)) }
                return .withinLimit
            } catch {
                return error.code == .timedOut ? .timedOut : .withinLimit
            }
        }
        do {
            try await Task.sleep(until: end, clock: .continuous)
        } catch {
            return .withinLimit
        }
        return .timedOut
    }

    /// The failure of a command that ended before all channels were subscribed or all events had arrived.
    private func incomplete(_ progress: Progress) -> ToolFailure {
        let time = self.timeout.map { " within \($0.inSeconds)" } ?? ""
        let missing = self.channels.filter { !progress.subscribed.contains($0) }
        let summary =
            if let count, missing.isEmpty {
                "Received \(progress.events) of \(count) events from \(self.service)\(time)"
            } else {
                "Cannot subscribe to \(missing.first ?? self.channels[0]) at \(self.service)\(time)"
            }
        let reason = progress.lastError.map { ": \($0)" } ?? ". Check the server, or use a longer --timeout."
        return ToolFailure(summary + reason)
    }
}

extension Duration {
    /// The duration in seconds, with one decimal.
    fileprivate var inSeconds: String {
        let tenths = Int((self / .milliseconds(100)).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
