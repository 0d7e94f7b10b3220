import CommandLineSupport
import PusherChannels
import PusherWire
import RealtimeCore
import RealtimeTransports

/// The options that several Pusher commands have. Their help lists them in the order in which they are declared here.
extension OptionSpec {
    static func appID(_ help: String, _ presence: Presence = .optional) -> OptionSpec {
        .value("app-id", "ID", help, presence: presence)
    }

    static func key(_ help: String, _ presence: Presence = .optional) -> OptionSpec { .value("key", "KEY", help, presence: presence) }

    /// - Parameter help: What the secret is for. The option's help continues with the alternatives.
    static func secret(_ help: String, _ presence: Presence = .optional) -> OptionSpec {
        .hideable("secret", help, presence, environmentVariable: Secret.pusherVariable)
    }

    static let secretFile = OptionSpec.value("secret-file", "FILE", "A file that contains only the secret.", completion: .files)

    /// - Parameter help: What the key is for. The option's help continues with the alternatives.
    static func encryptionKey(_ help: String) -> OptionSpec {
        .hideable("encryption-key", "\(help): 32 bytes in Base64.", environmentVariable: Secret.encryptionVariable)
    }

    static let encryptionKeyFile = OptionSpec.value(
        "encryption-key-file", "FILE", "A file that contains only the encryption key.", completion: .files)
    static let userInfo = OptionSpec.value(
        "user-info", "JSON", "Information about the user for the other members of presence channels.")
    static let anyChannelNames = OptionSpec.flag(
        "any-channel-names", "Accept names of channels and users that the Pusher service would reject, for a server that allows them.")

    /// - Parameter help: What is limited.
    static func eventDataLimit(_ help: String) -> OptionSpec {
        .value("event-data-limit", "BYTES", "\(help) The default is that of the Pusher service, 10240.", as: .integer(0...Int.max))
    }

    static let cluster = OptionSpec.value("cluster", "NAME", "A cluster of Pusher's own service, such as eu, instead of URL.")
}

extension Arguments {
    /// Returns the value of `--user-info`, or `nil` if it was not specified.
    func userInfo() throws(UsageError) -> JSONValue? {
        guard let text = self.string("user-info") else { return nil }
        guard let info = try? JSONValue(parsing: text) else {
            throw self.usageError("Invalid value '\(text)' for '--user-info': must be JSON, such as {\"name\":\"Anna\"}")
        }
        return info
    }

    /// Returns the option for the encryption key, if a channel requires it and it is missing.
    func missingEncryptionKey(for channels: [String]) -> [String] {
        if self.has("encryption-key") || self.has("encryption-key-file") || self.environment("encryption-key") != nil { return [] }
        guard let channel = channels.first(where: { ChannelName.kind(of: $0).isEncrypted }) else { return [] }
        return ["'--encryption-key KEY' (or '--encryption-key-file FILE') for '\(channel)'"]
    }

    /// Returns the secret of a command that declares it as required.
    func requiredSecret() throws(UsageError) -> Secret {
        guard let secret = try Secret(self) else { preconditionFailure("--secret is not declared as required") }
        return secret
    }
}

/// The arguments that all commands for the HTTP API have.
struct PusherAPIOptions: Sendable {
    static let url = PositionalSpec(
        "URL", "The URL of the service: http://HOST:PORT or https://HOST.", .requiredWithout(option: "cluster"))

    /// Returns the options of a command.
    ///
    /// - Parameter own: The options that only this command has.
    static func options(_ own: [OptionSpec] = []) -> [OptionSpec] {
        [
            .appID("The ID of the app.", .required), .key("The key of the app.", .required),
            .secret("The secret of the app, which signs the request.", .requiredWithout(option: "secret-file")), .secretFile, .cluster,
            .certificates, .proxy, .anyChannelNames,
        ] + own + [.json, .verbose("Also print the request and the response, without the signature.")]
    }

    let service: PusherService
    private let appID: String
    private let key: String
    private let secret: Secret
    private let encryptionKey: Secret?
    private let validatesChannelNames: Bool
    let eventDataLimit: Int?
    private let network: NetworkOptions
    private let isVerbose: Bool

    /// - Parameters:
    ///   - next: The positional that follows `URL`.
    ///   - publishes: Whether the command has the options for the encryption key and for the size of an event.
    init(_ arguments: Arguments, next: String, publishes: Bool = false) throws(UsageError) {
        self.service = try PusherService(arguments, next: next)
        self.appID = arguments.required(option: "app-id")
        self.key = arguments.required(option: "key")
        self.secret = try arguments.requiredSecret()
        self.encryptionKey = publishes ? try Secret(arguments, "encryption-key") : nil
        self.validatesChannelNames = !arguments.has("any-channel-names")
        self.eventDataLimit = publishes ? arguments.integer("event-data-limit") : nil
        self.network = try NetworkOptions(arguments)
        self.isVerbose = arguments.has("verbose")
    }

    func publisher(_ console: Console) async throws(ToolFailure) -> PusherPublisher {
        let secret = try await self.secret.load()
        let encryptionKey = try await self.encryptionKey?.loadEncryptionKey()
        var transports = Transports.standard
        try await self.network.apply(to: &transports)
        var http = transports.http
        if self.isVerbose {
            http = HTTPTrace.transport(http, redact: HTTPTrace.redactSignature) { console.print($0) }
        }
        var publisher =
            switch self.service {
            case .cluster(let cluster):
                PusherPublisher(
                    appID: self.appID, key: self.key, secret: secret, cluster: cluster, encryptionMasterKey: encryptionKey, http: http)
            case .endpoint(let endpoint):
                PusherPublisher(
                    appID: self.appID, key: self.key, secret: secret, endpoint: endpoint, encryptionMasterKey: encryptionKey, http: http)
            }
        publisher.validatesChannelNames = self.validatesChannelNames
        if let eventDataLimit { publisher.eventDataLimit = eventDataLimit }
        return publisher
    }
}
