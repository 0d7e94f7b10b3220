import CommandLineSupport
import RealtimeCore
import RealtimeJSON
import RealtimeSystem
import RealtimeTransports
import SignalRCore
import SignalRWire

/// The options that several SignalR commands have. Their help lists them in the order in which they are declared here.
extension OptionSpec {
    static let transport = OptionSpec.value("transport", "NAME", "The transport: webSockets, which is the default.")
    static let hubProtocol = OptionSpec.value("protocol", "NAME", "The hub protocol: json, which is the default, or messagePack.")

    /// - Parameter help: What the token is for. The option's help continues with the alternatives.
    static func token(_ help: String) -> OptionSpec { .hideable("token", help, environmentVariable: Secret.signalRVariable) }

    static let tokenFile = OptionSpec.value("token-file", "FILE", "A file that contains only the access token.")
    static let header = OptionSpec.value(
        "header", "FIELD", "A header field for all requests, such as 'X-Tenant: 7'. Can be repeated.", isRepeatable: true)
}

/// The connection of a command to a hub, as its arguments specify it.
struct SignalRConnection: Sendable {
    /// The options before and after those of the command itself.
    static let firstOptions: [OptionSpec] = [
        .transport, .hubProtocol, .token("The access token."), .tokenFile, .header, .certificates, .proxy,
    ]
    static let lastOptions: [OptionSpec] = [
        .json, .verbose("Also print the states of the connection, the negotiation, and every message, without tokens."),
    ]
    static let url = PositionalSpec("URL", "The URL of the hub, such as http://HOST:PORT/chat or https://HOST/chat.")
    static let method = PositionalSpec("METHOD", "The name of the method.")
    static let arguments = PositionalSpec(
        "JSON", "The arguments of the method. Each is JSON, so a string has quotes: '\"hello\"'.", .repeated(atLeast: 0))

    let endpoint: Endpoint
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
        if let name = arguments.string("transport"), name.lowercased() != "websockets" {
            let isPlanned = ["serversentevents", "longpolling"].contains(name.lowercased())
            let problem = isPlanned ? "not available yet" : "unknown transport"
            throw arguments.usageError("Invalid value '\(name)' for '--transport': \(problem); use webSockets")
        }
        switch arguments.string("protocol")?.lowercased() {
        case nil, "json": self.format = .json
        case "messagepack": self.format = .messagePack
        case let name?: throw arguments.usageError("Invalid value '\(name)' for '--protocol': must be json or messagePack")
        }
        self.token = try Secret(arguments, "token")
        self.headers = try Self.headers(arguments)
        self.network = try NetworkOptions(arguments)
        self.isVerbose = arguments.has("verbose")
    }

    private static func headers(_ arguments: Arguments) throws(UsageError) -> HTTPHeaders {
        var headers: HTTPHeaders = [:]
        for field in arguments.strings("header") {
            let parts = field.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let isName = parts[0].utf8.allSatisfy { (0x21...0x7E).contains($0) } && !parts[0].isEmpty
            let isValue = parts.count == 2 && parts[1].utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
            // Without the value, which may be a secret.
            guard isName, isValue else { throw arguments.usageError("Invalid value for '--header': must be a field such as 'X-Tenant: 7'") }
            headers.add(String(parts[0]), String(parts[1].drop { $0 == " " }))
        }
        return headers
    }

    /// Returns the values of the arguments `JSON`.
    ///
    /// - Throws: `UsageError` for the first one that isn't JSON, or that the protocol would change.
    func values(_ arguments: Arguments) throws(UsageError) -> [JSONValue] {
        try arguments.positionals("JSON").map { text throws(UsageError) in
            let value: JSONValue
            do throws(JSONError) {
                value = try JSONValue(parsing: text)
            } catch {
                let quoted = shellQuoted(JSONValue.string(text).description)
                throw arguments.usageError("Invalid argument '\(text)': must be JSON. If it is a string, specify \(quoted)")
            }
            if self.format == .messagePack, let number = value.numberRoundedByMessagePack {
                throw arguments.usageError(
                    "Invalid argument '\(number)': MessagePack has no number with so many digits. Specify the string '\"\(number)\"'")
            }
            return value
        }
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
        let states =
            self.isVerbose && printsStates
            ? client.observe { update in if case .state(let state) = update { printer.enqueue(.state(state)) } } : nil
        defer { states?.cancel() }
        let failure = await withTaskGroup(of: Void.self) { group in
            group.addTask { await printer.printQueue() }
            defer { group.cancelAll() }
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
        transports.webSocket = TracingTransport(transports.webSocket) { connections.trace($0, $1) }
        if self.isVerbose {
            transports.http = TracingHTTPTransport(http: transports.http, redact: TracingHTTPTransport.redactTokens) { printer.enqueue($0) }
        }
        var configuration = HubConfiguration(self.endpoint, transports: transports)
        configuration.format = self.format
        configuration.headers = self.headers
        if let token = try await self.token?.load() { configuration.accessToken = { token } }
        configuration.retry = retry
        configuration.log =
            self.isVerbose ? LogSink(minimumLevel: .trace) { level, _, message in printer.enqueue(.log(level, message)) } : .none
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
        case .timedOut where limit.duration != nil: limit.exceeded(timeout)
        case .unauthorized where self.token == nil:
            ToolFailure("\(error.cause?.message ?? error.message) Specify the access token with --token.")
        default: ToolFailure(error.message)
        }
    }
}

/// The time limit of a command, from its start.
struct TimeLimit: Sendable {
    let duration: Duration?
    private let end: ContinuousClock.Instant?

    init(_ duration: Duration?) {
        self.duration = duration
        self.end = duration.map { ContinuousClock.now.advanced(by: $0) }
    }

    /// The time until the limit, which is always positive; `nil` without a limit.
    var remaining: Duration? { self.end.map { max(.milliseconds(1), ContinuousClock.now.duration(to: $0)) } }

    func exceeded(_ what: String) -> ToolFailure {
        let time = self.duration.map { " within \($0.inSeconds)" } ?? ""
        return ToolFailure("\(what)\(time). Check the server, or use a longer --timeout.")
    }

    /// Runs an operation, and cancels it when the time limit is reached.
    ///
    /// - Returns: The result of the operation, and whether it was cancelled.
    func run<Value: Sendable>(_ operation: @escaping @Sendable () async -> Value) async -> (value: Value, isExceeded: Bool) {
        await withTaskGroup(of: Value?.self) { group in
            group.addTask { await operation() }
            if let remaining = self.remaining {
                group.addTask {
                    try? await Task.sleep(for: remaining)
                    return nil
                }
            }
            var isExceeded = false
            for await result in group {
                group.cancelAll()
                if let value = result { return (value, isExceeded) }
                isExceeded = true
            }
            preconditionFailure("the operation always returns")
        }
    }
}

/// Waits for the end of a client's connections, so that the process doesn't exit before everything that was sent has been written.
final class OpenConnections: Sendable {
    /// The time limit for a server that doesn't respond to a close frame.
    private static let limit = Duration.seconds(2)

    private struct State: Sendable {
        var open: Set<ConnectionID> = []
        var waiter: Waiter<Void>?
    }

    private let state = Lock(State())

    func trace(_ id: ConnectionID, _ action: ConnectionAction) {
        let waiter = self.state.withLock { state -> Waiter<Void>? in
            switch action {
            case .opened: state.open.insert(id)
            case .abandoned, .receivedClose, .ended: state.open.remove(id)
            case .sent, .received, .sentClose: return nil
            }
            return state.open.isEmpty ? state.waiter : nil
        }
        waiter?.fulfill(())?.resume()
    }

    /// Waits for at most two seconds, also in a task that is cancelled.
    func waitUntilClosed() async {
        let waiter = Waiter<Void>()
        let isClosed = self.state.withLock { state in
            state.waiter = waiter
            return state.open.isEmpty
        }
        if isClosed { return }
        // Not part of the command's task, whose cancellation would end the sleep. It ends with the wait.
        let timer = Task {
            try? await Task.sleep(for: Self.limit)
            waiter.fulfill(())?.resume()
        }
        await waiter.value()
        timer.cancel()
    }
}
