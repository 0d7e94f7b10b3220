import CommandLineSupport
import RealtimeCore
import RealtimeTransports

/// How a command connects to a server, in every protocol whose clients have access tokens and header fields.
struct ClientOptions: Sendable {
    /// - Parameter variable: The environment variable that replaces the options.
    static func tokenOptions(_ variable: String) -> [OptionSpec] {
        [.token("The access token.", environmentVariable: variable), .tokenFile]
    }
    static let networkOptions: [OptionSpec] = [.header, .certificates, .proxy]

    let endpoint: Endpoint
    var token: Secret?
    var headers: HTTPHeaders
    let isVerbose: Bool
    private let network: NetworkOptions
    /// The environment variable of the token.
    private let tokenVariable: String

    /// - Parameters:
    ///   - arguments: The arguments of the command.
    ///   - url: The URL of the server.
    ///   - tokenVariable: The environment variable that replaces `--token` and `--token-file`.
    init(_ arguments: Arguments, url: String, tokenVariable: String) throws(UsageError) {
        do throws(TransportError) {
            self.endpoint = try Endpoint(url)
        } catch {
            throw arguments.usageError(error.message)
        }
        self.token = try Secret(arguments, "token")
        self.headers = try HTTPHeaders(arguments)
        self.network = try NetworkOptions(arguments)
        self.isVerbose = arguments.has("verbose")
        self.tokenVariable = tokenVariable
    }

    /// The option that is to be changed if the server rejects the access token.
    var nameOfToken: String {
        switch self.token {
        case .option, nil: "--token"
        case .file: "--token-file"
        case .environment: self.tokenVariable
        }
    }

    /// Returns the transports of the client. With `--verbose`, they print requests and responses.
    ///
    /// - Parameters:
    ///   - printer: The output.
    ///   - connections: What follows the connections; `nil` for a command without connections.
    ///   - redact: Removes the secrets from the texts of a request.
    func transports(
        _ printer: LinePrinter, _ connections: OpenConnections?, redact: @escaping HTTPTrace.Redact = HTTPTrace.redactTokens
    ) async throws(ToolFailure) -> Transports {
        var transports = Transports.standard
        try await self.network.apply(to: &transports)
        connections?.follow(&transports.webSocket)
        if self.isVerbose {
            transports.http = HTTPTrace.transport(transports.http, redact: redact) { printer.enqueue($0) }
            transports.webSocket = HTTPTrace.transport(transports.webSocket, redact: redact) { printer.enqueue($0) }
        }
        return transports
    }

    /// Returns the log of the client, which is printed with `--verbose`.
    func log(_ printer: LinePrinter) -> LogSink {
        self.isVerbose ? LogSink(minimumLevel: .trace) { level, _, message in printer.enqueue(.log(level, message)) } : .none
    }
}

extension LinePrinter {
    /// Runs an operation with a client, and then disconnects it. Prints the lines that are enqueued meanwhile.
    ///
    /// - Parameters:
    ///   - connections: The connections of the client. Returns when they have ended.
    ///   - stop: Disconnects the client.
    ///   - operation: Uses the client.
    /// - Throws: The error of the operation.
    nonisolated func run(
        _ connections: OpenConnections, stop: () -> Void, _ operation: () async throws(ToolFailure) -> Void
    ) async throws(ToolFailure) {
        let failure = await self.printingQueue {
            do throws(ToolFailure) {
                try await operation()
                return nil as ToolFailure?
            } catch {
                return error
            }
        }
        stop()
        await connections.waitUntilClosed()
        await self.flush()
        if let failure { throw failure }
    }
}
