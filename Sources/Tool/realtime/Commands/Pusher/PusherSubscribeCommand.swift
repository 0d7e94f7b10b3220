import CommandLineSupport
import PusherChannels
import PusherWire
import RealtimeCore

/// `realtime pusher subscribe`
struct PusherSubscribeCommand: Command {
    static let spec = CommandSpec(
        path: ["pusher", "subscribe"],
        summary: "Subscribe to channels and print their events",
        description: """
            Connects to a Pusher Channels service, subscribes to channels and prints their events, the members of presence channels and \
            the states of the connection until Control-C. Reconnects and resubscribes when the connection is lost. Private and presence \
            channels require a secret or --auth-endpoint. With --sign-in, events for the user are printed as well. Events of the protocol, whose names start with pusher:, are only printed with \
            --verbose, and only count if --event names them as well.
            """,
        positionals: [
            PusherConnectionOptions.url,
            PositionalSpec("CHANNEL", "The channels to subscribe to.", .repeated(atLeast: 1)),
        ],
        options: PusherConnectionOptions.options + [
            .flag("sign-in", "Sign the user of --user-id in, which requires a secret."),
            .value("watch", "ID", "The ID of a user whom the user who signs in watches. Can be repeated.", isRepeatable: true),
            .value("event", "NAME", "Print only events with this name. Can be repeated.", isRepeatable: true),
            .count("Exit after N events of the channels."),
            .timeout("Exit with status 1 if subscribing or, with --count, receiving all events takes longer."),
            .json, .timestamps,
            .verbose(
                "Also print attempts to connect, events of the protocol, and every frame that is sent or received, without signatures."),
        ],
        missing: PusherAuthorizationOptions.missing,
        examples: [
            "pusher subscribe ws://127.0.0.1:8080 --key key prices",
            "pusher subscribe ws://127.0.0.1:8080 --key key --secret secret --user-id anna presence-room",
            "pusher subscribe ws://127.0.0.1:8080 --key key --auth-endpoint http://127.0.0.1:8080/pusher/auth private-orders",
            "pusher subscribe --cluster eu --key key --event trade --count 10 prices orders",
        ])

    let connection: PusherConnectionOptions
    let channels: [String]
    /// Whether the user signs in.
    let signsIn: Bool
    /// The names of the events to print; empty for all.
    let events: [String]
    let count: Int?
    let timeout: Duration?

    private var service: PusherService { self.connection.service }
    private var isVerbose: Bool { self.connection.isVerbose }

    init(_ arguments: Arguments) throws(UsageError) {
        self.connection = try PusherConnectionOptions(arguments)
        self.channels = arguments.positionals("CHANNEL")
        self.signsIn = arguments.has("sign-in")
        if self.signsIn, !self.connection.signsUsers {
            throw arguments.usageError("'--sign-in' requires '--user-id ID' and '--secret SECRET' (or '--secret-file FILE')")
        }
        if !self.signsIn, arguments.has("watch") { throw arguments.usageError("'--watch' requires '--sign-in'") }
        self.events = arguments.strings("event")
        self.count = arguments.integer("count")
        self.timeout = arguments.duration("timeout")
        if !self.isVerbose, let event = self.events.first(where: EventName.isReserved) {
            throw arguments.usageError("'\(event)' is an event of the protocol; specify '--verbose' to print it")
        }
    }
}

extension PusherSubscribeCommand {
    /// The numbers of received events so far.
    private struct Progress: Sendable {
        var events = 0
        var subscribed: Set<String> = []
        /// The last error since the client was connected.
        var lastError: String?
        /// An error that hasn't been printed, because the end of the connection may follow.
        var announcement: PusherError?
        /// Whether the final state of the client has been printed.
        var hasPrintedEnd = false
    }

    /// Why printing ended.
    private enum Ending: Sendable {
        /// All events that `--count` asks for have been printed.
        case complete
        case failed(ToolFailure)
        /// The task was cancelled.
        case interrupted
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let (printer, limit) = (LinePrinter(console), TimeLimit(self.timeout))
        try await self.connection.run(printer) { client throws(ToolFailure) in
            try await self.run(client, limit, printer)
        }
    }

    private func run(_ client: PusherClient, _ limit: TimeLimit, _ printer: LinePrinter) async throws(ToolFailure) {
        // One sequence for everything keeps the output in order, and no update is dropped: reading from the connection pauses instead.
        let updates = client.updates(buffer: .pauseReading(1024))
        do throws(PusherError) {
            for channel in self.channels { try client.subscribe(channel) }
        } catch {
            throw ToolFailure(error)
        }
        if self.signsIn { client.user.signIn() }
        client.connect()
        let ((ending, progress), isLate) = await limit.run(until: self.limitIsMet(client)) {
            // Immediately, while a large event is printed: a server that floods isn't read any more.
            await withTaskCancellationHandler {
                await self.printUpdates(updates, printer)
            } onCancel: {
                client.disconnect()
            }
        }
        switch client.state {
        case .failed, .disconnected: break
        case .initialized, .connecting, .connected, .unavailable: client.disconnect()
        }
        if !progress.hasPrintedEnd {
            // The task may be cancelled, so that a loop over the sequence would leave it.
            for case .state(let state) in updates.takeBuffered() {
                await printer.print(.state(state))
                if state.isFinal { break }
            }
        }
        switch ending {
        case .complete: return
        case .failed(let failure): throw failure
        case .interrupted: if isLate || self.count != nil { throw self.incomplete(progress, limit, isLate) }
        }
    }

    /// Prints updates until enough events have arrived, the client gives up, a subscription is rejected, or the task is cancelled.
    private func printUpdates(_ updates: EventSequence<PusherUpdate>, _ printer: LinePrinter) async -> (Ending, Progress) {
        var progress = Progress()
        for await update in updates {
            // An error that announces the end of the connection is part of the next error, which says what to do.
            if let announcement = progress.announcement.take(), !update.isEndOfConnection {
                await printer.print(.error(announcement.message, code: announcement.serverCode))
            }
            switch update {
            case .event(let event):
                guard self.isRequested(event) else { continue }
                await printer.print(.event(event))
                guard self.counts(event) else { continue }
                progress.events += 1
                if progress.events == self.count { return (.complete, progress) }
            case .state(let state):
                await printer.print(.state(state))
                progress.hasPrintedEnd = state.isFinal
                switch state {
                case .connected: progress.lastError = nil
                case .failed(let error), .disconnected(let error?): return (.failed(ToolFailure(error)), progress)
                case .initialized, .connecting, .unavailable, .disconnected(nil): break
                }
            case .subscription(let channel, .subscribed):
                progress.subscribed.insert(channel)
                await printer.print(.subscribed(channel))
            case .subscription(let channel, .failed(let error)):
                if !error.isTransient, !progress.subscribed.contains(channel) {
                    return (.failed(ToolFailure(error)), progress)
                }
            case .members(let channel, let change): await printer.print(.members(channel, change))
            case .user(.signedIn(let member)): await printer.print(.signedIn(member.id))
            case .user(.failed(let error)) where !error.isTransient: return (.failed(ToolFailure(error)), progress)
            case .user: break
            case .watchlist(let change): await printer.print(.watchlist(change))
            case .gap(let gap): await printer.print(.gap(gap))
            case .subscriptionCount(let channel, let count): await printer.print(.subscriptionCount(channel, count))
            case .error(let error) where error.announcesEnd: progress.announcement = error
            case .error(let error):
                // The same reason of each attempt is printed once.
                if error.message != progress.lastError { await printer.print(.error(error.message, code: error.serverCode)) }
                progress.lastError = error.message
            case .connectingIn(let delay):
                await printer.printNote(.init("retrying in \(delay.inSeconds)", .faint))
            case .attempt(let number):
                if self.isVerbose {
                    await printer.print(
                        Line(
                            [.init("attempt \(number): connecting to \(self.service)", .faint)],
                            ["type": "attempt", "number": .integer(number)]))
                }
            case .subscription, .frame, .sentFrame: continue
            }
        }
        return (.interrupted, progress)
    }

    /// Returns whether an event is printed.
    private func isRequested(_ event: PusherEvent) -> Bool {
        guard let channel = event.channel, self.channels.contains(channel) || UserID.user(ofChannel: channel) != nil else { return false }
        if EventName.isReserved(event.name), !self.isVerbose { return false }
        return self.events.isEmpty || self.events.contains(event.name)
    }

    /// Returns whether an event that is printed counts for `--count`. `--verbose` alone doesn't change what counts.
    private func counts(_ event: PusherEvent) -> Bool { !EventName.isReserved(event.name) || !self.events.isEmpty }

    /// Returns what waits until `--timeout` no longer matters, because all channels have been subscribed; `nil` with `--count`.
    ///
    /// A subscription that fails decides nothing: either the client retries, or the command ends for another reason.
    func limitIsMet(_ client: PusherClient) -> (@Sendable () async -> Void)? {
        guard self.count == nil else { return nil }
        // Before waiting, so that each of them contains all states from now on.
        let states = self.channels.compactMap { client.channel($0)?.states }
        return { for states in states { _ = await states.contains(.subscribed) } }
    }

    /// The failure of a command that ended before all channels were subscribed or all events had arrived.
    private func incomplete(_ progress: Progress, _ limit: TimeLimit, _ isLate: Bool) -> ToolFailure {
        let missing = self.channels.filter { !progress.subscribed.contains($0) }
        let summary =
            if let count, missing.isEmpty {
                "Received \(progress.events) of \(count) events from \(self.service)"
            } else {
                "Cannot subscribe to \(missing.first ?? self.channels[0]) at \(self.service)"
            }
        // The line with the reason may be far above, so the last line repeats it.
        return limit.failure(summary, isExceeded: isLate, reason: progress.lastError)
    }
}

extension PusherError {
    /// Whether the server closes the connection after this error, as a rule. The code 4009 can also reject a subscription.
    fileprivate var announcesEnd: Bool {
        self.code == .server && self.serverCode.map { (4000...4299).contains($0) && $0 != 4009 } ?? false
    }
}

extension PusherUpdate {
    /// Whether the update is one of those with which a client reports that the connection is lost or rejected.
    fileprivate var isEndOfConnection: Bool {
        switch self {
        case .error(let error): error.code == .connectionLost
        case .state(.failed), .state(.disconnected(.some)), .state(.connecting), .subscription(_, .pending): true
        default: false
        }
    }
}
