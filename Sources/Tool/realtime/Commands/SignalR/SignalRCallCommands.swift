import CommandLineSupport
import RealtimeCoding
import SignalRHubs
import SignalRWire

/// A call of a hub's method, as the arguments of a command specify it.
struct SignalRCall: Sendable {
    let connection: SignalRConnection
    let method: String
    let values: [JSONArgument]
    let timeout: Duration?

    init(_ arguments: Arguments) throws(UsageError) {
        self.connection = try SignalRConnection(arguments)
        self.method = arguments.required(positional: "METHOD")
        self.values = try self.connection.values(arguments)
        self.timeout = arguments.duration("timeout")
    }

    /// Connects, and runs an operation with the client, the encoded arguments, the output, and the limit of the command.
    func run(
        _ console: Console, _ operation: (HubClient, HubPayload, LinePrinter, TimeLimit) async throws(ToolFailure) -> Void
    ) async throws(ToolFailure) {
        // Before the time limit begins: who types the value may need long.
        let values = try await self.connection.load(self.values)
        let (printer, limit) = (LinePrinter(console), TimeLimit(self.timeout))
        try await self.connection.run(printer) { client throws(ToolFailure) in
            let payload = try self.connection.encode(values, for: client)
            try await self.connection.start(client, limit)
            try await operation(client, payload, printer, limit)
        }
    }
}

/// `realtime signalr invoke`
struct SignalRInvokeCommand: Command {
    static let spec = CommandSpec(
        path: ["signalr", "invoke"],
        summary: "Call a method of a hub and print its result",
        description: """
            Connects to a hub, calls a method, prints its result as JSON and exits. An error of the method is printed to standard error, \
            with exit status 1.
            """,
        positionals: [SignalRConnection.url, SignalRConnection.method, SignalRConnection.arguments],
        options: SignalRConnection.firstOptions + [.timeout("Exit with status 1 if connecting and the call take longer.")]
            + SignalRConnection.lastOptions,
        examples: [
            "signalr invoke http://127.0.0.1:8080/echo Add 20 22",
            #"signalr invoke http://127.0.0.1:8080/echo Echo '{"text":"hello"}' --protocol messagePack"#,
            "signalr invoke http://127.0.0.1:8080/echo Echo - < value.json",
        ])

    let call: SignalRCall

    init(_ arguments: Arguments) throws(UsageError) { self.call = try SignalRCall(arguments) }

    func run(_ console: Console) async throws(ToolFailure) {
        let connection = self.call.connection
        try await self.call.run(console) { client, arguments, printer, limit throws(ToolFailure) in
            let result: HubPayload?
            do throws(HubError) {
                result = try await client.invoke(self.call.method, arguments, within: limit.remaining)
            } catch {
                throw connection.failure(error, limit, "\(self.call.method) of \(connection.endpoint) did not return a result")
            }
            await printer.print(.result(try result?.json() ?? .null))
        }
    }
}

/// `realtime signalr send`
struct SignalRSendCommand: Command {
    static let spec = CommandSpec(
        path: ["signalr", "send"],
        summary: "Call a method of a hub without waiting for a result",
        description: """
            Connects to a hub, calls a method without waiting for its result, and exits when the call has been sent. The server doesn't \
            report whether the method exists or fails; use signalr invoke to see errors.
            """,
        positionals: [SignalRConnection.url, SignalRConnection.method, SignalRConnection.arguments],
        options: SignalRConnection.firstOptions + [.timeout("Exit with status 1 if connecting and sending take longer.")]
            + SignalRConnection.lastOptions,
        examples: [#"signalr send http://127.0.0.1:8080/chat Send '"anna"' '"hello"'"#])

    let call: SignalRCall

    init(_ arguments: Arguments) throws(UsageError) { self.call = try SignalRCall(arguments) }

    func run(_ console: Console) async throws(ToolFailure) {
        try await self.call.run(console) { client, arguments, printer, limit throws(ToolFailure) in
            do throws(HubError) {
                try await client.send(self.call.method, arguments)
            } catch {
                throw self.call.connection.failure(error, limit, "Cannot send")
            }
            await printer.print(.sent(self.call.method))
        }
    }
}

/// `realtime signalr stream`
struct SignalRStreamCommand: Command {
    static let spec = CommandSpec(
        path: ["signalr", "stream"],
        summary: "Print the items of a hub's stream",
        description: """
            Connects to a hub, calls a method that returns a stream, and prints its items as JSON until the stream ends. Control-C and \
            --count tell the server to end the stream. If the connection is lost, the command fails.
            """,
        positionals: [SignalRConnection.url, SignalRConnection.method, SignalRConnection.arguments],
        options: SignalRConnection.firstOptions + [
            .count("Exit after N items."),
            .timeout("Exit with status 1 if connecting or, with --count, receiving all items takes longer."),
        ] + SignalRConnection.lastOptions,
        examples: [
            "signalr stream http://127.0.0.1:8080/clock Ticks 1", "signalr stream http://127.0.0.1:8080/clock Ticks 0.1 --count 3",
        ])

    let call: SignalRCall
    let count: Int?

    init(_ arguments: Arguments) throws(UsageError) {
        self.call = try SignalRCall(arguments)
        self.count = arguments.integer("count")
    }

    /// Why printing ended.
    private enum Ending: Sendable {
        case complete
        case failed(ToolFailure)
        /// The task was cancelled after this number of items.
        case interrupted(Int)
    }

    func run(_ console: Console) async throws(ToolFailure) {
        try await self.call.run(console) { client, arguments, printer, limit throws(ToolFailure) in
            let stream: HubStreamResult<HubPayload>
            do throws(HubError) {
                stream = try client.stream(self.call.method, arguments) { $0 }
            } catch {
                throw ToolFailure(error.message)
            }
            let (ending, isLate) = await (self.count == nil ? TimeLimit(nil) : limit).run { await self.print(stream, limit, printer) }
            switch ending {
            case .complete: return
            case .failed(let failure): throw failure
            case .interrupted(let received):
                guard let count else { return }
                let summary = "Received \(received) of \(count) items of \(self.call.method) from \(self.call.connection.endpoint)"
                throw limit.failure(summary, isExceeded: isLate)
            }
        }
    }

    private func print(_ stream: HubStreamResult<HubPayload>, _ limit: TimeLimit, _ printer: LinePrinter) async -> Ending {
        var received = 0
        do throws(HubError) {
            // When the iterator is released, the server is told to end the stream.
            let iterator = stream.makeAsyncIterator()
            while let payload = try await iterator.next() {
                do throws(ToolFailure) {
                    await printer.print(.item(try payload.json()))
                } catch {
                    return .failed(error)
                }
                received += 1
                if received == self.count { break }
            }
            return .complete
        } catch {
            if error.code == .cancelled { return .interrupted(received) }
            return .failed(self.call.connection.failure(error, limit, "Receiving was not completed"))
        }
    }
}
