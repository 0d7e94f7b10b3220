import CommandLineSupport
import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTransports
import SignalRHubs
import SignalRWire

/// The options that several SignalR commands have. Their help lists them in the order in which they are declared here.
extension OptionSpec {
    static let transports = OptionSpec.transports("The transports that may be used, in the order of the server's offer:")
    static let stateful = OptionSpec.flag(
        "stateful", "Continue the connection after a loss of its WebSocket, if the server allows stateful reconnect.")
    static let hubProtocol = OptionSpec.value(
        "protocol", "NAME", "The hub protocol: json, which is the default, or messagePack.", completion: .values(["json", "messagePack"]))

    /// - Parameter help: What the token is for. The option's help continues with the alternatives.
    static func token(_ help: String) -> OptionSpec { .hideable("token", help, environmentVariable: Secret.signalRVariable) }

    static let tokenFile = OptionSpec.value("token-file", "FILE", "A file that contains only the access token.", completion: .files)
}

/// An argument of a hub's method, as a command specifies it.
enum SignalRArgument: Sendable, Equatable {
    case value(JSONValue)
    /// `-`: the JSON in standard input.
    case standardInput
}

/// The connection of a command to a hub, as its arguments specify it.
struct SignalRConnection: Sendable {
    /// The options before and after the options of the command itself.
    static let firstOptions: [OptionSpec] = [
        .transports, .stateful, .hubProtocol, .token("The access token."), .tokenFile, .header, .certificates, .proxy,
    ]
    static let lastOptions: [OptionSpec] = [
        .json, .timestamps, .verbose("Also print the states of the connection, the negotiation, and every message, without tokens."),
    ]
    static let url = PositionalSpec("URL", "The URL of the hub, such as http://HOST:PORT/chat or https://HOST/chat.")
    static let method = PositionalSpec("METHOD", "The name of the method.")
    static let arguments = PositionalSpec(
        "JSON",
        "The arguments of the method. Each is JSON, so a string has quotes: '\"hello\"'. With -, one of them is read from standard input.",
        .repeated(atLeast: 0))

    /// Above what servers accept by default, so that their error states the limit.
    private static let inputLimit = 16 << 20

    let endpoint: Endpoint
    let allowedTransports: HubTransportKinds
    let isStateful: Bool
    let format: HubFormat
    let token: Secret?
    let headers: HTTPHeaders
    private let network: NetworkOptions
    let isVerbose: Bool

    init(_ arguments: Arguments) throws(UsageError) {
        do throws(TransportError) {
            self.endpoint = try Endpoint(arguments.required(positional: "URL"))
        } catch {
            throw arguments.usageError(error.message)
        }
        self.allowedTransports = try HubTransportKinds(arguments)
        self.isStateful = arguments.has("stateful")
        switch arguments.string("protocol")?.lowercased() {
        case nil, "json": self.format = .json
        case "messagepack": self.format = .messagePack
        case let name?: throw arguments.usageError("Invalid value '\(name)' for '--protocol': must be json or messagePack")
        }
        if self.format == .messagePack, self.allowedTransports == .serverSentEvents {
            throw arguments.usageError(
                "'--transport serverSentEvents' carries text only, which '--protocol messagePack' isn't. Use another transport or protocol")
        }
        self.token = try Secret(arguments, "token")
        self.headers = try HTTPHeaders(arguments)
        self.network = try NetworkOptions(arguments)
        self.isVerbose = arguments.has("verbose")
    }

    /// Returns the arguments `JSON`.
    ///
    /// - Throws: `UsageError` for the first one that isn't JSON, or that the protocol would change, and for a second `-`.
    func values(_ arguments: Arguments) throws(UsageError) -> [SignalRArgument] {
        let values = try arguments.positionals("JSON").map { text throws(UsageError) in
            if text == "-" { return SignalRArgument.standardInput }
            let value: JSONValue
            do throws(JSONError) {
                value = try JSONValue(parsing: text)
            } catch {
                let quoted = Shell.quoted(JSONValue.string(text).description)
                throw arguments.usageError("Invalid argument '\(text)': must be JSON. If it is a string, specify \(quoted)")
            }
            if let problem = self.problem(with: value) { throw arguments.usageError("Invalid argument \(problem)") }
            return .value(value)
        }
        if values.count(where: { $0 == .standardInput }) > 1 {
            throw arguments.usageError("Only one argument can be '-', because standard input is read to its end")
        }
        return values
    }

    /// Returns the values of the arguments, and reads the one from standard input.
    ///
    /// - Throws: `ToolFailure` when it can't be read, isn't JSON, or the protocol would change it.
    func load(_ arguments: [SignalRArgument]) async throws(ToolFailure) -> [JSONValue] {
        var values: [JSONValue] = []
        for argument in arguments {
            switch argument {
            case .value(let value): values.append(value)
            case .standardInput:
                let text = try await Input.standard(limit: Self.inputLimit)
                let value: JSONValue
                do throws(JSONError) {
                    value = try JSONValue(parsing: text)
                } catch {
                    throw ToolFailure(
                        "Cannot read standard input: \(error.message). It must be JSON, in which a string has quotes: \"hello\".")
                }
                if let problem = self.problem(with: value) { throw ToolFailure("Invalid value in standard input \(problem).") }
                values.append(value)
            }
        }
        return values
    }

    /// Returns why the protocol would change a value, or `nil`.
    private func problem(with value: JSONValue) -> String? {
        guard self.format == .messagePack, let number = value.numberRoundedByMessagePack else { return nil }
        return "'\(number)': MessagePack has no number with so many digits. Specify the string '\"\(number)\"'"
    }

    // MARK: Client

    /// Runs an operation with a client, and then disconnects it. With `--verbose`, prints what the client does.
    ///
    /// - Parameters:
    ///   - printer: The output.
    ///   - retry: Whether the client reconnects.
    ///   - printsStates: Whether to print the states of the connection with `--verbose`.
    ///   - operation: Starts the client and uses it.
    /// - Throws: The error of the operation, or the reason why the client can't be created.
    func run(
        _ printer: LinePrinter, retry: HubRetryPolicy = .none, printsStates: Bool = true,
        _ operation: (HubClient) async throws(ToolFailure) -> Void
    ) async throws(ToolFailure) {
        let connections = OpenConnections()
        let client = HubClient(try await self.configuration(printer, retry, connections))
        let lines = Lock(HubStateLines(of: client))
        let states =
            self.isVerbose && printsStates
            ? client.onUpdate(on: HubCallbackExecutor { $0() }) { update in
                if let line = lines.withLock({ $0.line(update) }) { printer.enqueue(line) }
            } : nil
        defer { states?.cancel() }
        let failure = await printer.printingQueue {
            do throws(ToolFailure) {
                try await operation(client)
                return nil as ToolFailure?
            } catch {
                return error
            }
        }
        client.stop()
        await connections.waitUntilClosed()
        await printer.flush()
        if let failure { throw failure }
    }

    private func configuration(
        _ printer: LinePrinter, _ retry: HubRetryPolicy, _ connections: OpenConnections
    ) async throws(ToolFailure) -> HubConfiguration {
        var transports = Transports.standard
        try await self.network.apply(to: &transports)
        connections.follow(&transports.webSocket)
        if self.isVerbose {
            transports.http = HTTPTrace.transport(transports.http, redact: HTTPTrace.redactTokens) { printer.enqueue($0) }
        }
        var configuration = HubConfiguration(self.endpoint, transports: transports)
        configuration.format = self.format
        configuration.allowedTransports = self.allowedTransports
        if self.isStateful { configuration.statefulReconnect = HubStatefulReconnect() }
        // A value takes about 75 times as much memory while it is shown as JSON, because a value of MessagePack can have one byte.
        if self.format == .messagePack { configuration.messageLimit = 2 << 20 }
        configuration.httpConnectionTrace = { connections.trace($0, $1) }
        configuration.headers = self.headers
        configuration.accessTokenSource = .value(self.nameOfToken)
        if let token = try await self.token?.load() { configuration.accessToken = { token } }
        configuration.retry = retry
        configuration.log =
            self.isVerbose ? LogSink(minimumLevel: .trace) { level, _, message in printer.enqueue(.log(level, message)) } : .none
        return configuration
    }

    /// The option that is to be changed if the server rejects the access token.
    private var nameOfToken: String {
        switch self.token {
        case .option, nil: "--token"
        case .file: "--token-file"
        case .environment: Secret.signalRVariable
        }
    }

    func start(_ client: HubClient, _ limit: TimeLimit) async throws(ToolFailure) {
        do throws(HubError) {
            try await client.start(within: limit.remaining)
        } catch {
            throw self.failure(error, limit, "Cannot connect to \(self.endpoint)")
        }
    }

    /// Encodes the arguments of a call.
    func encode(_ values: [JSONValue], for client: HubClient) throws(ToolFailure) -> HubPayload {
        do {
            return try client.coder.arguments(of: values)
        } catch {
            throw ToolFailure("\(error)")
        }
    }

    /// Returns the failure of a command.
    ///
    /// - Parameters:
    ///   - error: The error of the client.
    ///   - limit: The time limit of the command.
    ///   - timeout: What the command couldn't do within the time limit.
    func failure(_ error: HubError, _ limit: TimeLimit, _ timeout: String) -> ToolFailure {
        switch error.code {
        case .timedOut where limit.duration != nil: limit.failure(timeout)
        case .unauthorized where self.token == nil:
            // The server may have rejected the WebSocket, too.
            ToolFailure("\((error.cause as? TransportError)?.message ?? error.message) Specify the access token with --token.")
        default: ToolFailure(error.message)
        }
    }
}
