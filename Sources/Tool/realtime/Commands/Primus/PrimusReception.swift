import CommandLineSupport
import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeCoding
import RealtimeSystem

/// The common part of the commands that print the messages, events and requests of a server.
struct PrimusReception: Sendable {
    static let options: [OptionSpec] =
        PrimusClientOptions.firstOptions + [
            .primusPlugins(
                "The events of emitter and emit, and the requests of responder are printed; channels and streams aren't joined. Without a "
                    + "plugin, its packets are printed as data.")
        ] + PrimusClientOptions.networkOptions + [
            .count("Exit after N messages, events and requests."),
            .timeout("Exit with status 1 if connecting or, with --count, receiving all messages takes longer."),
        ] + PrimusClientOptions.lastOptions

    let connection: PrimusClientOptions
    let count: Int?
    let timeout: Duration?

    init(_ arguments: Arguments) throws(UsageError) {
        self.connection = try PrimusClientOptions(arguments)
        self.count = arguments.integer("count")
        self.timeout = arguments.duration("timeout")
    }

    /// The numbers of received messages when printing ends.
    private struct Progress: Sendable {
        var messages = 0
        /// Whether a message was valid.
        var hasShown = false
        var hasOpened = false
        /// Why the server may not be one of Primus, if it has no specification.
        var doubt: String?
        /// The last error since the client was open.
        var lastError: String?
        /// Whether the client has ended by itself.
        var hasEnded = false
        /// The reason why the command ends early.
        var failure: ToolFailure?
    }

    /// Connects, and prints what the server sends.
    ///
    /// - Parameters:
    ///   - console: The output.
    ///   - value: A value to write first; `nil` to only listen, which prints states and reconnects.
    func run(_ console: Console, writing value: JSONValue? = nil) async throws(ToolFailure) {
        let (printer, limit) = (LinePrinter(console), TimeLimit(self.timeout))
        let listens = value == nil
        try await self.connection.run(printer, reconnects: listens, printsStates: !listens, limit) { client throws(ToolFailure) in
            let events = client.received
            let (progress, isLate) = await (self.count == nil ? TimeLimit(nil) : limit).run {
                // Immediately, while a large message is printed: a server that floods isn't asked for more.
                await withTaskCancellationHandler {
                    await self.receive(client, events, writing: value, limit, printer)
                } onCancel: {
                    client.end()
                }
            }
            if listens, !progress.hasEnded {
                client.end()
                // The task may be cancelled, so that a loop over the sequence would leave it.
                for case .update(.state(let state)) in events.takeBuffered() {
                    await printer.print(.state(state, nil))
                    if case .closed = state { break }
                }
            }
            if let failure = progress.failure { throw failure }
            guard let count, progress.messages < count else { return }
            throw self.incomplete(progress, count, limit, isLate)
        }
    }

    /// Connects, writes, and prints what arrives until that is enough, the client gives up, or the task is cancelled.
    private func receive(
        _ client: PrimusConnection, _ events: EventSequence<PrimusEvent>, writing value: JSONValue?, _ limit: TimeLimit,
        _ printer: LinePrinter
    ) async -> Progress {
        // Messages before the value is written aren't answers, and are only printed.
        let begins = Lock(value == nil)
        async let start = self.start(client, writing: value, limit) { begins.withLock { $0 = true } }
        var progress = await self.print(events, printsStates: value == nil, printer) { begins.withLock { $0 } }
        if progress.failure != nil, !progress.hasEnded { return progress }
        // A value that wasn't written in time is a failure also after enough messages.
        if let failure = await start, !Task.isCancelled || self.isComplete(progress) { progress.failure = failure }
        return progress
    }

    private func isComplete(_ progress: Progress) -> Bool { self.count.map { progress.messages >= $0 } ?? false }

    /// Connects and writes. If that fails, ends the client.
    private func start(
        _ client: PrimusConnection, writing value: JSONValue?, _ limit: TimeLimit, begin: () -> Void
    ) async -> ToolFailure? {
        do throws(ToolFailure) {
            // With `--count`, the limit applies to the whole command.
            try await self.connection.open(client, self.count == nil ? limit : TimeLimit(nil))
            begin()
            if let value { try await self.write(value, client, limit) }
            return nil
        } catch {
            client.end()
            return error
        }
    }

    private func write(_ value: JSONValue, _ client: PrimusConnection, _ limit: TimeLimit) async throws(ToolFailure) {
        do throws(PrimusError) {
            try await client.write(PrimusValue(written: value, for: client.dialect?.parser ?? .json))
        } catch {
            throw self.connection.failure(error, of: client, limit, "Cannot write to \(self.connection.endpoint)")
        }
    }

    private func print(
        _ events: EventSequence<PrimusEvent>, printsStates: Bool, _ printer: LinePrinter, counts: () -> Bool
    ) async -> Progress {
        var (progress, lines) = (Progress(), PrimusStateLines())
        for await event in events {
            if case .update(let update) = event, printsStates, let line = lines.line(update) { await printer.print(line) }
            switch event {
            case .update(.state(.open)): (progress.hasOpened, progress.lastError) = (true, nil)
            case .update(.state(.reconnecting(let error))): progress.lastError = self.connection.message(error)
            case .update(.state(.closed(let error))):
                progress.hasEnded = true
                // A cancellation while the client connects also ends it.
                if Task.isCancelled { return progress }
                progress.failure = self.connection.failure(closedBecauseOf: error)
                return progress
            case .update(.error(let error)) where error.code == .detectionFailed:
                let message = self.connection.message(error)
                await printer.print(.error(message))
                progress.doubt = message
            case .update(.error(let error)), .update(.attemptFailed(let error)):
                let message = self.connection.message(error)
                // The same reason of each attempt is printed once.
                if message != progress.lastError { await printer.print(.error(message)) }
                progress.lastError = message
            case .update(.connectingIn(let delay)): await printer.printNote(.init("retrying in \(delay.inSeconds)", .faint))
            case .message, .plugin:
                do throws(PrimusShown.Problem) {
                    if let line = try Line.received(event) { await printer.print(line) }
                    progress.hasShown = true
                } catch {
                    // If not even the first message is valid, the others aren't.
                    if error.isInvalid, !progress.hasShown {
                        progress.failure = ToolFailure("\(error.message) The server may have another parser. Check --parser.")
                        return progress
                    }
                    await printer.print(.error(error.message))
                }
                if counts() { progress.messages += 1 }
                if self.isComplete(progress) { return progress }
            case .update, .untransformed, .outgoing, .trace, .mark, .frame: continue
            }
        }
        return progress
    }

    /// The failure of a command that ended before all messages had arrived.
    private func incomplete(_ progress: Progress, _ count: Int, _ limit: TimeLimit, _ isLate: Bool) -> ToolFailure {
        let endpoint = self.connection.endpoint
        let summary =
            progress.hasOpened
            ? "Received \(progress.messages) of \(count) messages from \(endpoint)" : "Cannot connect to \(endpoint)"
        // A server that isn't one of Primus may take what the client sends, and not answer.
        let doubt = progress.hasShown ? nil : progress.doubt
        return limit.failure(summary, isExceeded: isLate, reason: progress.lastError ?? doubt)
    }
}
