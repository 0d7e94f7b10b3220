import CommandLineSupport
import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeCoding

/// `realtime primus listen`
struct PrimusListenCommand: Command {
    static let spec = CommandSpec(
        path: ["primus", "listen"],
        summary: "Print the messages of a Primus server",
        description: """
            Connects to a server, and prints its messages and the states of the connection, until Control-C. Reconnects when the connection is \
            lost, until the server closes it for good. With --plugins, also prints events and requests, which it doesn't answer. Values that \
            JSON lacks are printed in the form of EJSON, such as {"$date":0}, unless the parser is json.
            """,
        positionals: [PrimusClientOptions.url], options: PrimusReception.options,
        examples: ["primus listen http://127.0.0.1:8080 --plugins emitter", "primus listen http://127.0.0.1:8080 --count 1 --timeout 30"])

    let reception: PrimusReception

    init(_ arguments: Arguments) throws(UsageError) { self.reception = try PrimusReception(arguments) }

    func run(_ console: Console) async throws(ToolFailure) { try await self.reception.run(console) }
}

/// `realtime primus write`
struct PrimusWriteCommand: Command {
    static let spec = CommandSpec(
        path: ["primus", "write"],
        summary: "Write a message to a Primus server and print what comes back",
        description: """
            Connects to a server, writes a message, and then prints the server's messages until Control-C, or until --count of them have \
            arrived after it. A lost connection is a failure. For another parser than json, the message is EJSON: {"$date":0} is a date, for example.
            """,
        positionals: [
            PrimusClientOptions.url,
            PositionalSpec(
                "JSON", "The message. It is JSON, so a string has quotes: '\"hello\"'. With -, it is read from standard input."),
        ],
        options: PrimusReception.options,
        examples: [
            #"primus write http://127.0.0.1:8080 '{"text":"hello"}' --count 1"#, "primus write http://127.0.0.1:8080 - < value.json",
        ])

    let reception: PrimusReception
    let value: JSONArgument

    init(_ arguments: Arguments) throws(UsageError) {
        self.reception = try PrimusReception(arguments)
        self.value = try JSONArgument.all(arguments)[0]
    }

    func run(_ console: Console) async throws(ToolFailure) {
        // Before the time limit begins: who types the value may need long.
        try await self.reception.run(console, writing: try await self.value.load())
    }
}

/// `realtime primus send`
struct PrimusSendCommand: Command {
    static let spec = CommandSpec(
        path: ["primus", "send"],
        summary: "Send an event to a Primus server with primus-emitter",
        description: """
            Connects to a server, sends an event, and exits when it has been sent. With --ack, waits for the acknowledgement and prints its \
            arguments. The server needs the plugin primus-emitter, or primus-emit for --plugins emit, which has no acknowledgements.
            """,
        positionals: [
            PrimusClientOptions.url, PositionalSpec("EVENT", "The name of the event."),
            PositionalSpec(
                "JSON",
                "The arguments of the event. Each is JSON, so a string has quotes: '\"hello\"'. With -, one of them is read from standard input.",
                .repeated(atLeast: 0)),
        ],
        options: [.flag("ack", "Wait for the acknowledgement of the event, and print its arguments.")]
            + PrimusClientOptions.firstOptions + [
                .value(
                    "plugins", "NAME", "The plugin: emitter, which is the default, or emit.", completion: .values(["emitter", "emit"]))
            ] + PrimusClientOptions.networkOptions + [
                .timeout("Exit with status 1 if connecting, sending and the acknowledgement take longer. The default is 30 seconds.")
            ] + PrimusClientOptions.lastOptions,
        examples: [
            #"primus send http://127.0.0.1:8080 chat '"anna"' '"hello"'"#, "primus send http://127.0.0.1:8080 add 20 22 --ack",
        ])

    let connection: PrimusClientOptions
    let event: String
    let values: [JSONArgument]
    let waitsForAcknowledgement: Bool
    let timeout: Duration

    init(_ arguments: Arguments) throws(UsageError) {
        let plugins: PrimusPluginSet
        switch arguments.string("plugins")?.lowercased() {
        case nil, "emitter": plugins = .emitter
        case "emit": plugins = .emit
        case let name?: throw arguments.usageError("Invalid value '\(name)' for '--plugins': must be emitter or emit")
        }
        self.connection = try PrimusClientOptions(arguments, plugins: plugins)
        self.event = arguments.required(positional: "EVENT")
        self.values = try JSONArgument.all(arguments)
        self.waitsForAcknowledgement = arguments.has("ack")
        self.timeout = arguments.duration("timeout") ?? .seconds(30)
        if self.waitsForAcknowledgement, plugins == .emit {
            throw arguments.usageError("The plugin emit has no acknowledgements. Omit '--ack', or use '--plugins emitter'")
        }
        do throws(PrimusPluginError) {
            if plugins == .emit {
                try PrimusEventName.validateEmit(self.event)
            } else {
                try PrimusEventName.validate(self.event, for: .server)
            }
        } catch {
            throw arguments.usageError(error.description)
        }
    }

    func run(_ console: Console) async throws(ToolFailure) {
        // Before the time limit begins: who types the value may need long.
        let values = try await self.values.load()
        let (printer, limit) = (LinePrinter(console), TimeLimit(self.timeout))
        try await self.connection.run(printer, limit) { client throws(ToolFailure) in
            try await self.connection.open(client, limit)
            let parser = client.dialect?.parser ?? .json
            do throws(PrimusError) {
                await printer.print(try await self.send(values.map { PrimusValue(written: $0, for: parser) }, client, parser, limit))
            } catch {
                throw self.failure(error, client, limit)
            }
        }
    }

    private func failure(_ error: PrimusError, _ client: PrimusConnection, _ limit: TimeLimit) -> ToolFailure {
        guard error.code == .timedOut, self.waitsForAcknowledgement else {
            return self.connection.failure(error, of: client, limit, "Cannot send")
        }
        return ToolFailure(
            "The server did not acknowledge \(self.event)\(limit.text). Check that it has the plugin primus-emitter, and a listener of this "
                + "event that acknowledges it, or use a longer --timeout.")
    }

    /// Returns the line to print.
    private func send(
        _ values: [PrimusValue], _ client: PrimusConnection, _ parser: PrimusParserKind, _ limit: TimeLimit
    ) async throws(PrimusError) -> Line {
        if self.waitsForAcknowledgement {
            let arguments = try await client.emitter.acknowledgement(of: self.event, values: values, within: limit.remaining)
            return .acknowledgement(arguments.map { $0.shown(for: parser) })
        }
        if self.connection.plugins == .emit {
            try await client.emits.send(self.event, values: values)
        } else {
            try await client.emitter.send(self.event, values: values)
        }
        return .sentEvent(self.event)
    }
}

/// `realtime primus spec`
struct PrimusSpecCommand: Command {
    static let spec = CommandSpec(
        path: ["primus", "spec"],
        summary: "Print the specification of a Primus server",
        description: """
            Requests the specification that a server publishes below its path, at /spec, and prints its version, its transformer, its parser \
            and its heartbeat.
            """,
        positionals: [PrimusClientOptions.url],
        options: PrimusClientOptions.networkOptions + [
            .timeout("Exit with status 1 if the request takes longer. The default is 30 seconds."), .json,
            .verbose("Also print the request and the response, without tokens."),
        ],
        examples: ["primus spec http://127.0.0.1:8080"])

    let connection: PrimusClientOptions
    let timeout: Duration

    init(_ arguments: Arguments) throws(UsageError) {
        self.connection = try PrimusClientOptions(arguments)
        self.timeout = arguments.duration("timeout") ?? .seconds(30)
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let printer = LinePrinter(console)
        let result = await printer.printingQueue { () async -> Result<PrimusSpec, ToolFailure> in
            do throws(ToolFailure) {
                return .success(try await self.connection.spec(printer, TimeLimit(self.timeout)))
            } catch {
                return .failure(error)
            }
        }
        await printer.flush()
        await printer.print(.spec(try result.get()))
    }
}
