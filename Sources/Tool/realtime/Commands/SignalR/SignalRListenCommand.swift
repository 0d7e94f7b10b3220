import CommandLineSupport
import RealtimeCore
import RealtimeCoding
import SignalRHubs
import SignalRWire

/// `realtime signalr listen`
struct SignalRListenCommand: Command {
    static let spec = CommandSpec(
        path: ["signalr", "listen"],
        summary: "Print the calls of a hub to its clients",
        description: """
            Connects to a hub, and prints the calls of these client methods with their arguments as JSON, and the states of the connection, \
            until Control-C. Reconnects when the connection is lost, until the server closes it for good. A server that waits for a result \
            receives an error. A call of another method is reported once, in case a name is misspelled.
            """,
        positionals: [
            SignalRConnection.url,
            PositionalSpec("METHOD", "The names of the client methods, which are case-sensitive.", .repeated(atLeast: 1)),
        ],
        options: SignalRConnection.firstOptions + [
            .count("Exit after N calls."),
            .timeout("Exit with status 1 if connecting or, with --count, receiving all calls takes longer."),
        ] + SignalRConnection.lastOptions,
        examples: [
            "signalr listen http://127.0.0.1:8080/chat Receive",
            "signalr listen http://127.0.0.1:8080/chat Receive --count 1 --protocol messagePack",
        ])

    let connection: SignalRConnection
    let methods: [String]
    let count: Int?
    let timeout: Duration?

    init(_ arguments: Arguments) throws(UsageError) {
        self.connection = try SignalRConnection(arguments)
        self.methods = arguments.positionals("METHOD")
        self.count = arguments.integer("count")
        self.timeout = arguments.duration("timeout")
    }

    /// The numbers of received calls when printing ends.
    private struct Progress: Sendable {
        var calls = 0
        var hasConnected = false
        /// The last error since the client was connected.
        var lastError: String?
        /// Whether the client has stopped by itself.
        var hasStopped = false
        /// The reason why the client can't connect or reconnect.
        var failure: ToolFailure?
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let (printer, limit) = (LinePrinter(console), TimeLimit(self.timeout))
        try await self.connection.run(printer, retry: .backoff(Backoff()), printsStates: false) { client throws(ToolFailure) in
            let events = client.events(withCallsOf: self.methods, includesOthers: true)
            let (progress, isLate) = await (self.count == nil ? TimeLimit(nil) : limit).run {
                // Immediately, while a large call is printed: a server that floods isn't asked for more.
                await withTaskCancellationHandler {
                    await self.listen(client, events, limit, printer)
                } onCancel: {
                    client.stop()
                }
            }
            // A client that wasn't started, because the limit had passed before, reports nothing.
            if !progress.hasStopped, client.hasUpdates {
                client.stop()
                // The task may be cancelled, so that a loop over the sequence would leave it.
                for case .update(.state(let state), _) in events.takeBuffered() {
                    await printer.print(.state(state, over: nil))
                    if case .stopped = state { break }
                }
            }
            if let failure = progress.failure { throw failure }
            guard let count, progress.calls < count else { return }
            throw self.incomplete(progress, count, limit, isLate)
        }
    }

    /// Connects, and prints what happens until enough calls have arrived, the client gives up, or the task is cancelled.
    private func listen(
        _ client: HubClient, _ events: EventSequence<HubEvent>, _ limit: TimeLimit, _ printer: LinePrinter
    ) async -> Progress {
        async let start = self.start(client, limit)
        var progress = await self.print(events, of: client, printer)
        if progress.calls == self.count, self.count != nil { return progress }
        // The reason why the first attempt failed. If there was one that succeeded, the client's last state says why it has ended.
        if !progress.hasConnected, let failure = await start, !Task.isCancelled { progress.failure = failure }
        return progress
    }

    private func start(_ client: HubClient, _ limit: TimeLimit) async -> ToolFailure? {
        do throws(ToolFailure) {
            // With `--count`, the limit applies to the whole command.
            try await self.connection.start(client, self.count == nil ? limit : TimeLimit(nil))
            return nil
        } catch {
            return error
        }
    }

    private func print(_ events: EventSequence<HubEvent>, of client: HubClient, _ printer: LinePrinter) async -> Progress {
        var (progress, lines) = (Progress(), HubStateLines(of: client))
        var otherMethods: Set<String> = []
        for await event in events {
            if case .update(let update, _) = event, let line = lines.line(update) { await printer.print(line) }
            switch event {
            case .update(.state(let state), _):
                switch state {
                case .connected: (progress.hasConnected, progress.lastError) = (true, nil)
                case .reconnecting(let error): progress.lastError = error.message
                case .connecting: break
                case .stopped(let error):
                    progress.hasStopped = true
                    // A cancellation while the client connects also stops it.
                    if Task.isCancelled { return progress }
                    let reason = error?.message ?? "The server \(self.connection.endpoint) closed the connection."
                    progress.failure = ToolFailure(reason)
                    return progress
                }
            case .update(.error(let error), _):
                // The same reason of each attempt is printed once.
                if error.message != progress.lastError { await printer.print(.error(error.message)) }
                progress.lastError = error.message
            case .update(.connectingIn(let delay), _): await printer.printNote(.init("retrying in \(delay.inSeconds)", .faint))
            case .invocation(let callback):
                let invocation = callback.invocation
                guard self.methods.contains(invocation.target) else {
                    // With `--verbose`, the log of the client says so. A server may make up names without end.
                    guard !self.connection.client.isVerbose, otherMethods.count < 100,
                        otherMethods.insert(invocation.target).inserted
                    else { continue }
                    await printer.print(.log(.warning, client.driver.read { $0.missingHandler(of: invocation.target) }))
                    continue
                }
                do throws(ToolFailure) {
                    await printer.print(.invocation(invocation.target, try invocation.arguments.json().array ?? []))
                } catch {
                    await printer.print(.error(error.message))
                }
                progress.calls += 1
                if progress.calls == self.count { return progress }
            case .update, .item, .streamEnd, .frame: continue
            }
        }
        return progress
    }

    /// The failure of a command that ended before all calls had arrived.
    private func incomplete(_ progress: Progress, _ count: Int, _ limit: TimeLimit, _ isLate: Bool) -> ToolFailure {
        let endpoint = self.connection.endpoint
        let summary =
            progress.hasConnected
            ? "Received \(progress.calls) of \(count) calls from \(endpoint)" : "Cannot connect to \(endpoint)"
        return limit.failure(summary, isExceeded: isLate, reason: progress.lastError)
    }
}
