import CommandLineSupport
import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeSystem

/// The connection of a command to a server of Primus, as its arguments specify it.
struct PrimusClientOptions: Sendable {
    static let url = PositionalSpec(
        "URL", "The URL of the server, such as http://HOST:PORT or https://HOST/path. Without a path, it is /primus.")
    /// The options of every command for a server of Primus.
    static let networkOptions: [OptionSpec] =
        ClientOptions.tokenOptions(Secret.primusVariable) + [
            .value(
                "token-parameter", "NAME",
                "The parameter of the query that contains the token. Without it, the token is in the field Authorization, after Bearer.")
        ] + ClientOptions.networkOptions
    /// The options before and after the options of the command itself, for commands that connect.
    static let firstOptions: [OptionSpec] = [
        .primusTransformer("The transformer of the server:", standard: "The default is that of the server's specification."),
        .primusParser("The parser of the server:", standard: "The default is that of the server's specification."),
        .primusTransport,
    ]
    static let lastOptions: [OptionSpec] = [
        .json, .timestamps,
        .verbose("Also print the states of the connection, the requests, and every message, without tokens."),
    ]

    /// The time limit for the specification of a server before a connection.
    private static let specTimeout = Duration.seconds(15)

    let client: ClientOptions
    let transformer: PrimusTransformerKind?
    let parser: PrimusParserKind?
    let transport: PrimusTransportChoice?
    let plugins: PrimusPluginSet
    private let tokenParameter: String?
    private var address: PrimusAddress { PrimusAddress(self.client.endpoint) }
    /// The address of the server, with the path that a URL without one means.
    var endpoint: Endpoint { self.address.endpoint }

    /// - Parameter plugins: The plugins in place of those of `--plugins`.
    init(_ arguments: Arguments, plugins: PrimusPluginSet? = nil) throws(UsageError) {
        let (url, authorization): (String, String?)
        do throws(TransportError) {
            (url, authorization) = try PrimusUserInfo.split(arguments.required(positional: "URL"))
        } catch {
            throw arguments.usageError(error.message)
        }
        var client = try ClientOptions(arguments, url: url, tokenVariable: Secret.primusVariable)
        if let authorization {
            if arguments.has("token") || arguments.has("token-file") {
                throw arguments.usageError("Specify either a user name in the URL or a token, not both")
            }
            client.token = nil
            client.headers["Authorization"] = authorization
        }
        self.client = client
        self.transformer = try PrimusTransformerKind(arguments)
        self.parser = try PrimusParserKind(arguments)
        self.transport = try PrimusTransportChoice(arguments, self.transformer)
        self.plugins = if let plugins { plugins } else { try PrimusPluginSet(arguments) }
        self.tokenParameter = arguments.string("token-parameter")
        if self.tokenParameter != nil, client.token == nil {
            throw arguments.usageError(
                "'--token-parameter' needs a token. Specify '--token' or '--token-file', or set \(Secret.primusVariable)")
        }
        try arguments.check(self.transformer, self.parser)
    }

    // MARK: Client

    /// Runs an operation with a client, and then disconnects it. With `--verbose`, prints what the client does.
    ///
    /// - Parameters:
    ///   - printer: The output.
    ///   - reconnects: Whether the client reconnects after a loss. It never repeats the first attempt.
    ///   - printsStates: Whether to print the states of the connection with `--verbose`.
    ///   - limit: The time limit of the command.
    ///   - operation: Opens the client and uses it.
    /// - Throws: The error of the operation, or the reason why the client can't be created.
    func run(
        _ printer: LinePrinter, reconnects: Bool = false, printsStates: Bool = true, _ limit: TimeLimit,
        _ operation: (PrimusConnection) async throws(ToolFailure) -> Void
    ) async throws(ToolFailure) {
        let connections = OpenConnections()
        let transports = try await self.client.transports(printer, connections, redact: HTTPTrace.redactSession)
        let credentials = try await self.credentials()
        let configuration = self.configuration(transports, credentials, reconnects: reconnects, printer, connections, limit)
        let client = PrimusConnection(configuration)
        let lines = Lock(PrimusStateLines())
        let states =
            self.client.isVerbose && printsStates
            ? client.onUpdate(on: PrimusCallbackExecutor { $0() }) { update in
                if let line = lines.withLock({ $0.line(update) }) { printer.enqueue(line) }
            } : nil
        defer { states?.cancel() }
        try await printer.run(connections) {
            client.end()
        } _: { () throws(ToolFailure) in
            try await operation(client)
        }
    }

    private func configuration(
        _ transports: Transports, _ credentials: PrimusCredentials?, reconnects: Bool, _ printer: LinePrinter,
        _ connections: OpenConnections, _ limit: TimeLimit
    ) -> PrimusConfiguration {
        var configuration = PrimusConfiguration(self.client.endpoint, transports: transports)
        configuration.transformer = self.transformer
        configuration.parser = self.parser
        self.transport?.apply(to: &configuration)
        configuration.messagesOverHTTPTrace = { connections.trace($0, $1) }
        let plugins: [(PrimusPluginSet, any PrimusPlugin)] = [
            (.emitter, .emitter), (.emit, .emit), (.multiplex, .multiplex), (.substream, .substream), (.responder, .responder),
        ]
        configuration.plugins = plugins.filter { self.plugins.contains($0.0) }.map(\.1)
        configuration.headers = self.client.headers
        if let credentials { configuration.credentials = { credentials } }
        // A person waits, and can't repeat an attempt that was only slow. The limit of the command ends before that of the attempt, half of which
        // is for its first kind of connection.
        configuration.connectTimeout = min(.seconds(30), limit.remaining.map { max(.seconds(2), $0 * 5 / 4) } ?? .seconds(30))
        configuration.detectionTimeout = Self.specTimeout
        // A command with `--transport upgrade` is about the move, and goes on without it meanwhile.
        configuration.probeTimeout = .seconds(60)
        configuration.retry = reconnects ? .standard : .none
        configuration.strategies = [.disconnect, .online]
        configuration.log = self.client.log(printer)
        return configuration
    }

    private func credentials() async throws(ToolFailure) -> PrimusCredentials? {
        guard let token = try await self.client.token?.load() else { return nil }
        if let tokenParameter { return PrimusCredentials(query: [(tokenParameter, token)]) }
        return ["Authorization": "Bearer \(token)"]
    }

    /// Opens a client.
    func open(_ client: PrimusConnection, _ limit: TimeLimit) async throws(ToolFailure) {
        client.open()
        do throws(PrimusError) {
            // The client ends an attempt that takes too long.
            try await client.opened(within: limit.remaining ?? .seconds(1_000_000))
        } catch {
            throw self.failure(error, of: client, limit, "Cannot connect to \(self.endpoint)")
        }
        // The client connects without a move, where there is none.
        if let transport, let transformer = client.dialect?.transformer, let problem = transport.problem(with: transformer) {
            throw ToolFailure("The server \(self.endpoint) has the transformer \(transformer). \(problem)")
        }
    }

    // MARK: Specification

    /// Requests the specification of the server.
    ///
    /// - Throws: `ToolFailure` when the server has none that can be read.
    func spec(_ printer: LinePrinter, _ limit: TimeLimit) async throws(ToolFailure) -> PrimusSpec {
        let transports = try await self.client.transports(printer, nil, redact: HTTPTrace.redactSession)
        return try await self.spec(transports, try await self.credentials(), limit)
    }

    private func spec(
        _ transports: Transports, _ credentials: PrimusCredentials?, _ limit: TimeLimit
    ) async throws(ToolFailure) -> PrimusSpec {
        var endpoint = self.address.spec
        var headers = self.client.headers
        for field in credentials?.headers ?? [:] { headers[field.name] = field.value }
        for item in credentials?.query ?? [] { endpoint.addQuery(item.name, item.value) }
        let request = HTTPRequest("GET", endpoint, headers: headers)
        let http = RedirectingHTTP(transports, cookies: RedirectingHTTP.Cookies())
        let (result, isLate) = await limit.run { () async -> Result<HTTPResponse, TransportError> in
            do throws(TransportError) {
                return .success(try await http.send(request, bodyLimit: 64 << 10))
            } catch {
                return .failure(error)
            }
        }
        if isLate { throw limit.failure("The server did not answer \(self.address.spec)") }
        let check = "Check that the URL is that of a server of Primus, with its path."
        switch result {
        case .failure(let error): throw ToolFailure(error)
        case .success(let response) where response.head.status == 200:
            do throws(PrimusSpecError) {
                return try PrimusSpec(parsing: response.body)
            } catch {
                throw ToolFailure("\(error) It was read from \(self.address.spec). \(check)")
            }
        case .success(let response):
            let message = "\(self.address.spec) answered with the status \(response.statusSummary)"
            throw ToolFailure("\(message) \([401, 403].contains(response.head.status) ? self.adviceOnToken : check)")
        }
    }

    // MARK: Failures

    /// Returns the failure of a command.
    ///
    /// - Parameters:
    ///   - error: The error of a call.
    ///   - client: The client.
    ///   - limit: The time limit of the command.
    ///   - timeout: What the command couldn't do within the time limit.
    func failure(_ error: PrimusError, of client: PrimusConnection, _ limit: TimeLimit, _ timeout: String) -> ToolFailure {
        switch (error.code, client.state) {
        case (.timedOut, _) where limit.isPassed: limit.failure(timeout, reason: (error.cause as? PrimusError).map { self.message($0) })
        // The connection ended before the call.
        case (.notOpen, .closed(let reason)): self.failure(closedBecauseOf: reason)
        default: ToolFailure(self.message(error))
        }
    }

    /// Returns the failure of a command whose client has ended by itself.
    func failure(closedBecauseOf error: PrimusError?) -> ToolFailure {
        ToolFailure(error.map { self.message($0) } ?? "The server \(self.endpoint) ended the connection.")
    }

    /// Returns the message of an error, with the options in place of the settings of a client.
    func message(_ error: PrimusError) -> String {
        switch error.code {
        case .unauthorized: "\(error.message.replacingText(" Check the credentials.", with: "")) \(self.adviceOnToken)"
        case .detectionFailed: error.message.replacingText("or set transformer and parser.", with: "or set --transformer and --parser.")
        case .handshakeFailed: error.message.replacingText(" and the transformer.", with: " and --transformer.")
        // A server with another transformer refuses the WebSocket, or doesn't greet the client.
        case .timedOut where self.transformer != nil: "\(error.message) Check --transformer."
        case .connectionLost where self.transformer != nil && error.status != nil: "\(error.message) Check --transformer."
        case .unsupported:
            error.message
                .replacingText(" Set transformer to nil\(Self.adviceOnDetection)", with: " Omit --transformer.")
                .replacingText(" Set parser to nil\(Self.adviceOnDetection)", with: " Omit --parser.")
                .replacingText(" Allow webSockets, or", with: " Omit --transport, or")
                .replacingText(" on the server, or allow polling.", with: " on the server, or omit --transport.")
                .replacingText(" Set customTransformer to an implementation of it.", with: " The tool has no other transformers.")
                .replacingText(" Set customParser to an implementation of it.", with: " The tool has no other parsers.")
        default: error.message
        }
    }

    private static let adviceOnDetection = ", or, if the specification of the server is wrong, the detection to off."

    private var adviceOnToken: String {
        self.client.token == nil ? "Specify the access token with --token." : "Check the access token of \(self.client.nameOfToken)."
    }
}
