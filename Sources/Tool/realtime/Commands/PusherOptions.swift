import CommandLineSupport
import PusherChannels
import RealtimeSockets
import RealtimeSystem

/// The options that several Pusher commands have. Their help lists them in the order in which they are declared here.
extension OptionSpec {
    static func appID(_ help: String, _ presence: Presence = .optional) -> OptionSpec {
        .value("app-id", "ID", help, presence: presence)
    }

    static func key(_ help: String, _ presence: Presence = .optional) -> OptionSpec { .value("key", "KEY", help, presence: presence) }

    /// - Parameter help: What the secret is for. The option's help continues with the alternatives.
    static func secret(_ help: String, _ presence: Presence = .optional) -> OptionSpec {
        .value(
            "secret", "SECRET", "\(help) Other users of this machine can see it; use --secret-file or \(PusherSecret.variable) to hide it.",
            presence: presence, environmentVariable: PusherSecret.variable)
    }

    static let secretFile = OptionSpec.value("secret-file", "FILE", "A file that contains only the secret.")
    static let cluster = OptionSpec.value("cluster", "NAME", "A cluster of Pusher's own service, such as eu, instead of URL.")
    static let certificates = OptionSpec.value(
        "ca", "FILE", "A PEM file with the certificates to trust, instead of those of the system.")
}

/// The secret of an app, or where to find it.
enum PusherSecret: Sendable {
    case option(String)
    case file(String)
    case environment(String)

    /// The environment variable that replaces `--secret` and `--secret-file`.
    static let variable = "REALTIME_PUSHER_SECRET"

    /// Creates the secret from the options or, without them, from the environment.
    ///
    /// - Returns: The secret, or `nil` if neither provides one.
    /// - Throws: `UsageError` when both options are specified.
    init?(_ arguments: Arguments) throws(UsageError) {
        switch (arguments.string("secret"), arguments.string("secret-file")) {
        case (_?, _?): throw arguments.usageError("Specify either '--secret' or '--secret-file', not both")
        case (let text?, nil): self = .option(text)
        case (nil, let path?): self = .file(path)
        case (nil, nil):
            guard let text = arguments.environment("secret") else { return nil }
            self = .environment(text)
        }
    }

    /// Whether the user specified it in a way that hides it from others, so that no output may contain it.
    var isHidden: Bool { if case .option = self { false } else { true } }

    /// Returns the secret, and reads the file that contains it.
    func load() async throws(ToolFailure) -> String {
        switch self {
        case .option(let text), .environment(let text): return text
        case .file(let path):
            let text = try await Input.file(path)
            guard !text.isEmpty, !text.contains(where: \.isNewline) else {
                throw ToolFailure("The file '\(path)' must contain the secret, in one line.")
            }
            return text
        }
    }
}

extension TLSConfiguration {
    /// Returns the configuration that trusts the certificates of a PEM file, the value of `--ca`; `nil` for the default configuration.
    static func trusting(_ file: String?) async throws(ToolFailure) -> TLSConfiguration? {
        guard let file else { return nil }
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
