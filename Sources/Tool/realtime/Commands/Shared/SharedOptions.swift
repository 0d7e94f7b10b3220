import CommandLineSupport
import PusherWire
import RealtimeCore
import RealtimeSockets
import RealtimeSystem

// The options that commands of several protocols have.

extension OptionSpec {
    /// An option with a secret, which can also be in a file or in the environment.
    ///
    /// - Parameters:
    ///   - name: The name, without dashes.
    ///   - help: What the secret is for. The option's help continues with the alternatives.
    static func hideable(
        _ name: String, _ help: String, _ presence: Presence = .optional, environmentVariable: String
    ) -> OptionSpec {
        .value(
            name, name.uppercased(),
            "\(help) Other users of this machine can see it; use --\(name)-file or \(environmentVariable) to hide it.",
            presence: presence, environmentVariable: environmentVariable)
    }

    /// - Parameters:
    ///   - help: What the token is for. The option's help continues with the alternatives.
    ///   - environmentVariable: The environment variable that replaces the option.
    static func token(_ help: String, environmentVariable: String) -> OptionSpec {
        .hideable("token", help, environmentVariable: environmentVariable)
    }

    static let tokenFile = OptionSpec.value("token-file", "FILE", "A file that contains only the access token.", completion: .files)

    static let certificates = OptionSpec.value(
        "ca", "FILE", "A PEM file with the certificates to trust, instead of those of the system.", completion: .files)

    static let proxy = OptionSpec.value(
        "proxy", "URL",
        """
        The proxy: http://HOST:PORT or socks5://HOST:PORT, with USER:PASSWORD@ before HOST if it requires them. Other users of this machine \
        can see it; environment uses HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY instead. The default is none.
        """, completion: .values(["environment", "none"]))

    static let header = OptionSpec.value(
        "header", "FIELD", "A header field for all requests of the connection, such as 'X-Tenant: 7'. Can be repeated.", isRepeatable: true)

    /// - Parameter help: When the command exits because of the count.
    static func count(_ help: String) -> OptionSpec { .value("count", "N", help, as: .integer(1...Int.max)) }

    /// - Parameter help: When the command exits because of the time limit.
    static func timeout(_ help: String) -> OptionSpec {
        .value("timeout", "SECONDS", help, as: .duration(.milliseconds(1) ... .seconds(1_000_000)))
    }
}

extension HTTPHeaders {
    /// Creates the header fields of `--header`.
    init(_ arguments: Arguments) throws(UsageError) {
        self = [:]
        for field in arguments.strings("header") {
            let parts = field.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let isName = parts[0].utf8.allSatisfy { (0x21...0x7E).contains($0) } && !parts[0].isEmpty
            let isValue = parts.count == 2 && parts[1].utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
            // The message omits the value, which may be a secret.
            guard isName, isValue else { throw arguments.usageError("Invalid value for '--header': must be a field such as 'X-Tenant: 7'") }
            self.add(String(parts[0]), String(parts[1].drop { $0 == " " }))
        }
    }
}

/// A secret, or where to find it: the secret of an app, or an access token.
enum Secret: Sendable {
    case option(String)
    /// - Parameters:
    ///   - path: The path of the file.
    ///   - name: The name of the option, for errors.
    case file(_ path: String, _ name: String)
    case environment(String)

    /// The environment variable that replaces `--secret` and `--secret-file`.
    static let pusherVariable = "REALTIME_PUSHER_SECRET"
    /// The environment variable that replaces `--encryption-key` and `--encryption-key-file`.
    static let encryptionVariable = "REALTIME_PUSHER_ENCRYPTION_KEY"
    /// The environment variable that replaces `--token` and `--token-file` of the commands for SignalR.
    static let signalRVariable = "REALTIME_SIGNALR_TOKEN"
    /// The environment variable that replaces `--token` and `--token-file` of the commands for Primus.
    static let primusVariable = "REALTIME_PRIMUS_TOKEN"

    /// Creates the secret from the options or, without them, from the environment.
    ///
    /// - Parameters:
    ///   - arguments: The command's arguments.
    ///   - option: The name of the option with the secret itself. The one with a file has the suffix `-file`.
    /// - Returns: The secret, or `nil` if neither provides one.
    /// - Throws: `UsageError` when both options are specified.
    init?(_ arguments: Arguments, _ option: String = "secret") throws(UsageError) {
        switch (arguments.string(option), arguments.string("\(option)-file")) {
        case (_?, _?): throw arguments.usageError("Specify either '--\(option)' or '--\(option)-file', not both")
        case (let text?, nil): self = .option(text)
        case (nil, let path?): self = .file(path, option)
        case (nil, nil):
            guard let text = arguments.environment(option) else { return nil }
            self = .environment(text)
        }
    }

    /// Whether the user specified it in a way that hides it from others, so that no output may contain it.
    var isHidden: Bool { if case .option = self { false } else { true } }

    /// Returns the secret, and reads the file that contains it.
    func load() async throws(ToolFailure) -> String {
        switch self {
        case .option(let text), .environment(let text): return text
        case .file(let path, let name):
            let text = try await Input.file(path)
            guard !text.isEmpty, !text.contains(where: \.isNewline) else {
                throw ToolFailure("The file '\(path)' must contain the \(name.replacingText("-", with: " ")), in one line.")
            }
            return text
        }
    }
}

extension Secret {
    /// Returns the key for encrypted channels, which is checked here: a client would report it only for a channel.
    func loadEncryptionKey() async throws(ToolFailure) -> String {
        let text = try await self.load()
        guard (try? EncryptionKey(base64: text)) != nil else {
            // The message doesn't repeat the value, which is a secret.
            throw ToolFailure("Invalid encryption key: it must be 32 bytes in Base64, as 'openssl rand -base64 32' prints them.")
        }
        return text
    }
}

/// How a command reaches a server: the certificates that it trusts, and its proxy.
struct NetworkOptions: Sendable {
    private let certificates: String?
    let proxy: ProxyConfiguration

    init(_ arguments: Arguments) throws(UsageError) {
        self.certificates = arguments.string("ca")
        switch arguments.string("proxy") {
        case nil, "none": self.proxy = .none
        case "environment": self.proxy = .environment
        case let url?:
            do throws(TransportError) {
                self.proxy = try ProxyConfiguration(url)
            } catch {
                // The message doesn't contain the URL, which may contain a password.
                throw arguments.usageError("Invalid value for '--proxy'. \(error.message)")
            }
        }
    }

    /// Replaces the transports if the options require others than the default ones, and lets their messages name the options.
    func apply(to transports: inout Transports) async throws(ToolFailure) {
        // The system's transports, which Apple platforms have, name no setting.
        guard self.certificates != nil || self.proxy != .none || transports.webSocket is SocketWebSocketTransport else { return }
        var tls = try await TLSConfiguration.trusting(self.certificates)
        tls.nameOfTrustRoots = "the file of --ca"
        // No command has an option for a client's certificate.
        tls.nameOfIdentity = nil
        transports.webSocket = SocketWebSocketTransport(tls: tls, proxy: self.proxy)
        transports.http = SocketHTTPTransport(tls: tls, proxy: self.proxy)
    }
}

extension TLSConfiguration {
    /// Returns the configuration that trusts the certificates of a PEM file, the value of `--ca`, or of the system.
    fileprivate static func trusting(_ file: String?) async throws(ToolFailure) -> TLSConfiguration {
        guard let file else { return TLSConfiguration() }
        // Read and checked here, because a client would retry with an invalid configuration.
        let text = try await Input.file(file)
        guard text.containsText("-----BEGIN CERTIFICATE-----") else {
            throw ToolFailure("The file '\(file)' contains no certificate (\"-----BEGIN CERTIFICATE-----\").")
        }
        var configuration = TLSConfiguration()
        configuration.trustRoots = .only([.text(text)])
        return configuration
    }
}
