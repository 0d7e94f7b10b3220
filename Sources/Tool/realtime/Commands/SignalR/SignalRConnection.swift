import CommandLineSupport
import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import SignalRHubs
import SignalRWire

/// The options that several SignalR commands have. Their help lists them in the order in which they are declared here.
extension OptionSpec {
    static let transports = OptionSpec.transports("The transports that may be used, in the order of the server's offer:")
    static let stateful = OptionSpec.flag(
        "stateful", "Continue the connection after a loss of its WebSocket, if the server allows stateful reconnect.")
    static let hubProtocol = OptionSpec.value(
        "protocol", "NAME", "The hub protocol: json, which is the default, or messagePack.", completion: .values(["json", "messagePack"]))
}

/// The connection of a command to a hub, as its arguments specify it.
struct SignalRConnection: Sendable {
    /// The options before and after the options of the command itself.
    static let firstOptions: [OptionSpec] =
        [.transports, .stateful, .hubProtocol] + ClientOptions.tokenOptions(Secret.signalRVariable) + ClientOptions.networkOptions
    static let lastOptions: [OptionSpec] = [
        .json, .timestamps, .verbose("Also print the states of the connection, the negotiation, and every message, without tokens."),
    ]
    static let url = PositionalSpec("URL", "The URL of the hub, such as http://HOST:PORT/chat or https://HOST/chat.")
    static let method = PositionalSpec("METHOD", "The name of the method.")
    static let arguments = PositionalSpec(
        "JSON",
        "The arguments of the method. Each is JSON, so a string has quotes: '\"hello\"'. With -, one of them is read from standard input.",
        .repeated(atLeast: 0))

    let client: ClientOptions
    let allowedTransports: HubTransportKinds
    let isStateful: Bool
    let format: HubFormat
    var endpoint: Endpoint { self.client.endpoint }

    init(_ arguments: Arguments) throws(UsageError) {
        self.client = try ClientOptions(
            arguments, url: arguments.required(positional: "URL"), tokenVariable: Secret.signalRVariable)
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
    }

    /// Returns the arguments `JSON`.
    ///
    /// - Throws: `UsageError` for the first one that isn't JSON, or that the protocol would change, and for a second `-`.
    func values(_ arguments: Arguments) throws(UsageError) -> [JSONArgument] {
        try JSONArgument.all(arguments) { self.problem(with: $0) }
    }

    /// Returns the values of the arguments, and reads the one from standard input.
    ///
    /// - Throws: `ToolFailure` when it can't be read, isn't JSON, or the protocol would change it.
    func load(_ arguments: [JSONArgument]) async throws(ToolFailure) -> [JSONValue] {
        try await arguments.load { self.problem(with: $0) }
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
            self.client.isVerbose && printsStates
            ? client.onUpdate(on: HubCallbackExecutor { $0() }) { update in
                if let line = lines.withLock({ $0.line(update) }) { printer.enqueue(line) }
            } : nil
        defer { states?.cancel() }
        try await printer.run(connections) {
            client.stop()
        } _: { () throws(ToolFailure) in
            try await operation(client)
        }
    }

    private func configuration(
        _ printer: LinePrinter, _ retry: HubRetryPolicy, _ connections: OpenConnections
    ) async throws(ToolFailure) -> HubConfiguration {
        var configuration = HubConfiguration(self.endpoint, transports: try await self.client.transports(printer, connections))
        configuration.format = self.format
        configuration.allowedTransports = self.allowedTransports
        if self.isStateful { configuration.statefulReconnect = HubStatefulReconnect() }
        // A value takes about 75 times as much memory while it is shown as JSON, because a value of MessagePack can have one byte.
        if self.format == .messagePack { configuration.messageLimit = 2 << 20 }
        configuration.messagesOverHTTPTrace = { connections.trace($0, $1) }
        configuration.headers = self.client.headers
        configuration.accessTokenSource = .value(self.client.nameOfToken)
        if let token = try await self.client.token?.load() { configuration.accessToken = { token } }
        configuration.retry = retry
        configuration.log = self.client.log(printer)
        return configuration
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
        case .timedOut where limit.duration != nil: limit.failure(timeout, reason: (error.cause as? HubError)?.message)
        case .unauthorized where self.client.token == nil:
            // The server may have rejected the WebSocket, too.
            ToolFailure("\((error.cause as? TransportError)?.message ?? error.message) Specify the access token with --token.")
        default: ToolFailure(error.message)
        }
    }
}
