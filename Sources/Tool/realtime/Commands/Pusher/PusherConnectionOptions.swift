import CommandLineSupport
import PusherChannels
import RealtimeCore

/// How private and presence channels are authorized.
enum PusherAuthorizationOptions: Sendable {
    case secret(Secret, userID: String?, userInfo: JSONValue?, encryptionKey: Secret?)
    case endpoint(Endpoint)
}

extension PusherAuthorizationOptions {
    private static let userOptions = ["user-id", "user-info", "encryption-key", "encryption-key-file"]

    /// Returns the options that a private channel or another option requires and that are missing.
    static func missing(_ arguments: Arguments) -> [String] {
        if arguments.has("auth-endpoint") { return [] }
        if ["secret", "secret-file"].contains(where: arguments.has) || arguments.environment("secret") != nil {
            return arguments.missingEncryptionKey(for: arguments.positionals("CHANNEL"))
        }
        if let option = self.userOptions.first(where: arguments.has) {
            return ["'--secret SECRET' (or '--secret-file FILE') for '--\(option)'"]
        }
        guard
            let channel = arguments.positionals("CHANNEL").first(where: { $0.hasPrefix("private-") || $0.hasPrefix("presence-") })
        else { return [] }
        return ["'--secret SECRET' (or '--secret-file FILE', or '--auth-endpoint URL') for '\(channel)'"]
    }

    /// Creates the authorization that the options specify, or `nil` if they specify none.
    init?(_ arguments: Arguments) throws(UsageError) {
        guard let url = arguments.string("auth-endpoint") else {
            guard let secret = try Secret(arguments) else { return nil }
            self = .secret(
                secret, userID: arguments.string("user-id"), userInfo: try arguments.userInfo(),
                encryptionKey: try Secret(arguments, "encryption-key"))
            return
        }
        for option in ["secret", "secret-file"] + Self.userOptions where arguments.has(option) {
            throw arguments.usageError("Specify either '--\(option)' or '--auth-endpoint', not both")
        }
        guard let endpoint = try? Endpoint(url), ["http", "https"].contains(endpoint.scheme) else {
            throw arguments.usageError("Invalid value '\(url)' for '--auth-endpoint': must be an http:// or https:// URL")
        }
        self = .endpoint(endpoint)
    }
}

/// The arguments that all commands with a connection have.
struct PusherConnectionOptions: Sendable {
    static let url = PositionalSpec("URL", "The URL of the service: ws://HOST:PORT or wss://HOST.", .requiredWithout(option: "cluster"))

    static let options: [OptionSpec] = [
        .key("The key of the app.", .required),
        .secret("The secret of the app, which authorizes private and presence channels locally."),
        .secretFile,
        .cluster,
        .header,
        .certificates,
        .proxy,
        .anyChannelNames,
        .encryptionKey("The key of the app for encrypted channels, which requires a secret"),
        .encryptionKeyFile,
        .value("auth-endpoint", "URL", "The http:// or https:// URL that authorizes private and presence channels."),
        .value("user-id", "ID", "The ID of the user on presence channels, which requires a secret. The default is the socket ID."),
        .userInfo,
    ]

    let service: PusherService
    let authorization: PusherAuthorizationOptions?
    let isVerbose: Bool
    /// The IDs of the users whom the user watches.
    private let watchlist: [String]
    private let key: String
    private let headers: HTTPHeaders
    private let validatesChannelNames: Bool
    private let network: NetworkOptions

    /// Whether there is what signing in a user requires.
    var signsUsers: Bool { if case .secret(_, userID: .some, _, _) = self.authorization { true } else { false } }

    init(_ arguments: Arguments) throws(UsageError) {
        self.service = try PusherService(arguments, next: "CHANNEL")
        self.key = arguments.required(option: "key")
        self.authorization = try PusherAuthorizationOptions(arguments)
        self.watchlist = arguments.strings("watch")
        self.headers = try HTTPHeaders(arguments)
        self.validatesChannelNames = !arguments.has("any-channel-names")
        self.network = try NetworkOptions(arguments)
        self.isVerbose = arguments.has("verbose")
    }

    /// Runs an operation with a client, and then disconnects it. With `--verbose`, prints the frames.
    ///
    /// - Parameters:
    ///   - printer: The output.
    ///   - configure: Changes the configuration before the client is created.
    ///   - operation: Connects the client and uses it.
    /// - Throws: The error of the operation, or the reason why the client can't be created.
    func run(
        _ printer: LinePrinter, configure: (inout PusherConfiguration) -> Void = { _ in },
        _ operation: (PusherClient) async throws(ToolFailure) -> Void
    ) async throws(ToolFailure) {
        let connections = OpenConnections()
        var configuration = try await self.configuration(printer, connections)
        configure(&configuration)
        let client = PusherClient(configuration)
        let failure = await printer.printingQueue {
            do throws(ToolFailure) {
                try await operation(client)
                return nil as ToolFailure?
            } catch {
                return error
            }
        }
        client.disconnect()
        await connections.waitUntilClosed()
        await printer.flush()
        if let failure { throw failure }
    }

    private func configuration(_ printer: LinePrinter, _ connections: OpenConnections) async throws(ToolFailure) -> PusherConfiguration {
        var configuration =
            switch self.service {
            case .cluster(let cluster): PusherConfiguration(key: self.key, cluster: cluster)
            case .endpoint(let endpoint): PusherConfiguration(key: self.key, endpoint: endpoint)
            }
        switch self.authorization {
        case .secret(let secret, let userID, let userInfo, let encryptionKey):
            let secret = try await secret.load()
            let encryptionKey = try await encryptionKey?.loadEncryptionKey()
            configuration.authorizer = .secret(secret, userID: userID, userInfo: userInfo, encryptionMasterKey: encryptionKey)
            if let userID {
                let user = PusherMember(id: userID, info: userInfo)
                configuration.userAuthenticator = .secret(secret, user: user, watchlist: self.watchlist)
            }
        case .endpoint(let endpoint): configuration.authorizer = .endpoint(PusherAuthorizationEndpoint(endpoint))
        case nil: break
        }
        configuration.headers = self.headers
        configuration.validatesChannelNames = self.validatesChannelNames
        try await self.network.apply(to: &configuration.transports)
        connections.follow(&configuration.transports.webSocket)
        // The command prints all updates, which the messages of other levels would repeat.
        configuration.log = .none
        if self.isVerbose {
            configuration.log = LogSink(minimumLevel: .trace) { level, _, message in
                if level == .trace { printer.enqueue(.log(level, message)) }
            }
        }
        return configuration
    }
}
