import CommandLineSupport
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets

/// `realtime serve pusher`
struct ServePusherCommand: Command {
    static let spec = CommandSpec(
        path: ["serve", "pusher"],
        summary: "Run a Pusher Channels server",
        description: """
            Runs a Pusher Channels server with one or several apps until Control-C: WebSockets for clients, the HTTP API, and webhooks. \
            Prints connections, subscriptions, client events, publications and errors. Values that are not specified are chosen at random \
            and printed. Unless the output is a terminal, its first line is \
            {"ready":true,"url":…,"port":…,"app":…,"key":…,"secret":…,"auth_endpoint":…}, printed when the server accepts connections. It \
            contains the secret unless a file or the environment provides it, and the authorization endpoint if there is one. With --app, \
            it contains "apps", a list of objects with "app" and "key", and each line about an app contains "app".
            """,
        options: [
            .host,
            .port,
            .serverTLS,
            .appID("The ID of the app, for the HTTP API."),
            .key("The key of the app, for clients."),
            .secret("The secret of the app, for signatures."),
            .secretFile,
            .flag("any-channel-names", "Accept names of channels that the Pusher service would reject."),
            .encryptionKey("The key of the app for encrypted channels"),
            .encryptionKeyFile,
            .value(
                "app", "ID:KEY:SECRET",
                "An app, instead of the options above. Can be repeated, for several apps. Other users of this machine can see the secret.",
                isRepeatable: true),
            .value(
                "webhook", "URL", "A URL to which the server sends webhooks, with one event each. Can be repeated.", isRepeatable: true),
            .value(
                "auth-endpoint", "PATH",
                """
                A path, such as /pusher/auth, at which the server authorizes all channels and signs users in, for apps and for web pages \
                of all origins. The form fields user_id and user_info become the user.
                """),
            .value(
                "profile", "NAME",
                "The server to imitate, in the form of its frames and its limits: pusher (default), soketi, reverb, slanger or sockudo.",
                completion: .values(["pusher", "soketi", "reverb", "slanger", "sockudo"])),
            .value(
                "event-data-limit", "BYTES", "The maximum size of the data of an event. The default is that of the profile, such as 10240.",
                as: .integer(0...Int.max)),
            .json, .timestamps,
            .verbose("Also print every frame that is received or sent, without signatures."),
        ],
        examples: [
            "serve pusher",
            "serve pusher --port 8080 --app-id app --key key --secret secret",
            "serve pusher --port 8080 --key key --auth-endpoint /pusher/auth",
            "serve pusher --port 8443 --tls certificate.pem key.pem",
            "serve pusher --app 1:key1:secret1 --app 2:key2:secret2 --webhook http://127.0.0.1:3000/hooks",
        ])

    let host: String
    let port: Int
    let tls: TLSServerConfiguration?
    let appID: String?
    let key: String?
    let secret: Secret?
    let encryptionKey: Secret?
    /// The apps of `--app`; empty without the option.
    let apps: [PusherApp]
    let webhooks: [Endpoint]
    let authEndpoint: String?
    let profile: PusherServerProfile
    let eventDataLimit: Int?
    let allowsAnyChannelNames: Bool
    let isVerbose: Bool

    private static let profiles: [String: PusherServerProfile] = [
        "pusher": .pusher, "soketi": .soketi, "reverb": .reverb, "slanger": .slanger, "sockudo": .sockudo,
    ]

    init(_ arguments: Arguments) throws(UsageError) {
        self.host = arguments.string("host") ?? "127.0.0.1"
        self.port = arguments.integer("port") ?? 0
        self.tls = TLSServerConfiguration(arguments)
        self.appID = arguments.string("app-id")
        self.key = arguments.string("key")
        self.secret = try Secret(arguments)
        self.encryptionKey = try Secret(arguments, "encryption-key")
        self.apps = try Self.apps(arguments)
        self.webhooks = try Self.webhooks(arguments)
        self.authEndpoint = arguments.string("auth-endpoint")
        if let path = self.authEndpoint {
            let parts = path.split(separator: "/")
            guard path.hasPrefix("/"), path.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x3F && $0 != 0x23 }),
                let first = parts.first, !["app", "apps"].contains(first)
            else {
                throw arguments.usageError(
                    "Invalid value '\(path)' for '--auth-endpoint': must be a path such as /pusher/auth, and not below /app or /apps")
            }
        }
        let name = arguments.string("profile") ?? "pusher"
        guard let profile = Self.profiles[name] else {
            throw arguments.usageError("Invalid value '\(name)' for '--profile': must be pusher, soketi, reverb, slanger or sockudo")
        }
        self.profile = profile
        self.eventDataLimit = arguments.integer("event-data-limit")
        self.allowsAnyChannelNames = arguments.has("any-channel-names")
        self.isVerbose = arguments.has("verbose")
    }

    private static func apps(_ arguments: Arguments) throws(UsageError) -> [PusherApp] {
        var apps: [PusherApp] = []
        for text in arguments.strings("app") {
            let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
            // The message doesn't repeat the value, which contains a secret.
            guard parts.count == 3, !parts.contains("") else {
                throw arguments.usageError("Invalid value for '--app': must be an ID, a key and a secret, such as 1:key:secret")
            }
            guard !apps.contains(where: { $0.id == parts[0] || $0.key == parts[1] }) else {
                throw arguments.usageError("Two apps have the ID '\(parts[0])' or the key '\(parts[1])'; use different ones")
            }
            apps.append(PusherApp(id: parts[0], key: parts[1], secret: parts[2]))
        }
        let others = ["app-id", "key", "secret", "secret-file", "encryption-key", "encryption-key-file"]
        for option in others where !apps.isEmpty && arguments.has(option) {
            throw arguments.usageError("Specify either '--\(option)' or '--app', not both")
        }
        if apps.count > 1, arguments.has("auth-endpoint") {
            throw arguments.usageError("'--auth-endpoint' requires a single app, because requests don't name the app")
        }
        return apps
    }

    private static func webhooks(_ arguments: Arguments) throws(UsageError) -> [Endpoint] {
        var endpoints: [Endpoint] = []
        for url in arguments.strings("webhook") {
            guard let endpoint = try? Endpoint(url), ["http", "https"].contains(endpoint.scheme) else {
                throw arguments.usageError("Invalid value '\(url)' for '--webhook': must be an http:// or https:// URL")
            }
            endpoints.append(endpoint)
        }
        return endpoints
    }

    func run(_ console: Console) async throws(ToolFailure) {
        var apps = self.apps.isEmpty ? [try await self.singleApp()] : self.apps
        for index in apps.indices { self.configure(&apps[index]) }
        let printer = LinePrinter(console)
        let log = LogSink(minimumLevel: .warning) { printer.enqueue(.error($2)) }
        let webhooks = self.webhooks.isEmpty ? nil : PusherServerWebhooks(self.webhooks)
        let servers = apps.map { PusherServer(app: $0, webhooks: webhooks, log: log) }
        let listener = self.listener(apps[0], printer)
        let sources = servers.map { server in (events: server.events, line: self.lines(of: server.app)) }
        let address: ListenerAddress
        do throws(TransportError) {
            address = try await listener.start(self.handler(servers, printer))
        } catch {
            throw ToolFailure(error)
        }
        // Doesn't use the printer: this is the first line, also if a client has connected already.
        console.print(self.ready(address, apps))
        console.printCommands(self.commands(address, apps[0]), hasTLS: self.tls != nil)
        await printer.print(sources) {
            // Asks the clients to reconnect, before the listener closes their connections.
            for server in servers { await server.stop() }
            await listener.stop()
        }
    }

    /// Changes what all apps have in common.
    func configure(_ app: inout PusherApp) {
        app.profile = self.profile
        if self.allowsAnyChannelNames { app.validatesChannelNames = false }
        guard let eventDataLimit else { return }
        app.eventDataLimit = eventDataLimit
        // Escaping the characters of a text makes it up to six times as long.
        app.messageLimit = max(app.messageLimit, min(eventDataLimit, .max / 6 - 1024) * 6 + 1024)
    }

    /// Returns the app of the options other than `--app`.
    private func singleApp() async throws(ToolFailure) -> PusherApp {
        let random = PusherApp.random()
        var app = PusherApp(
            id: self.appID ?? random.id, key: self.key ?? random.key, secret: try await self.secret?.load() ?? random.secret)
        app.encryptionMasterKey = try await self.encryptionKey?.loadEncryptionKey()
        return app
    }

    private func listener(_ app: PusherApp, _ printer: LinePrinter) -> any Listener {
        var limits = ListenerLimits()
        // The server rejects larger messages; the listener doesn't read them. Some room between the two lets the server explain.
        limits.messageBytes = 2 * min(app.messageLimit, .max / 2)
        limits.bodyBytes = max(limits.bodyBytes, app.messageLimit)
        let listener = SocketListener(host: self.host, port: self.port, tls: self.tls, limits: limits)
        guard self.isVerbose else { return listener }
        let frames = PusherFrameTrace { printer.enqueue($0) }
        return TracingListener(listener) { frames.trace($0, $1) }
    }

    private func handler(_ servers: [PusherServer], _ printer: LinePrinter) -> any ListenerHandler {
        let router = PusherServerRouter(servers)
        guard let path = self.authEndpoint else { return router }
        let authorization = PusherAuthorizationHandler(app: servers[0].app, origins: ["*"]) { attempt in
            let decision = Self.decision(about: attempt)
            printer.enqueue(Self.line(attempt, decision))
            return decision
        } authenticateUser: { attempt in
            let decision = Self.decision(about: attempt)
            printer.enqueue(Self.line(attempt, decision))
            return decision
        }
        return ListenerRouter([.exactPath(path, authorization), .path("/", router)])
    }

    /// Authorizes every channel, with the user that the form names.
    private static func decision(about attempt: PusherAuthorizationAttempt) -> PusherAuthorizationDecision {
        guard let text = attempt.parameters["user_info"] else { return .accept(userID: attempt.parameters["user_id"]) }
        guard let info = try? JSONValue(parsing: text) else { return .reject(message: "The field user_info must be JSON.") }
        return .accept(userID: attempt.parameters["user_id"], userInfo: info)
    }

    /// Signs every user in whom the form names.
    private static func decision(about attempt: PusherUserAuthenticationAttempt) -> PusherUserAuthenticationDecision {
        guard let userID = attempt.parameters["user_id"] else {
            return .reject(message: "Add the field user_id to the form, with the ID of the user.")
        }
        guard let text = attempt.parameters["user_info"] else { return .accept(userID: userID) }
        guard let info = try? JSONValue(parsing: text) else { return .reject(message: "The field user_info must be JSON.") }
        return .accept(userID: userID, userInfo: info)
    }
}

// MARK: - Output

extension ServePusherCommand {
    /// The first line, which programs wait for.
    func ready(_ address: ListenerAddress, _ apps: [PusherApp]) -> Line {
        let url = Self.url(address)
        let authEndpoint = self.authEndpoint.map {
            Endpoint(scheme: address.isSecure ? "https" : "http", host: address.host, port: address.port).origin + $0
        }
        let isHidden = self.secret?.isHidden == true
        let credentials = apps.map { app in
            "app ID: \(app.id), key: \(app.key)" + (isHidden || !self.apps.isEmpty ? "" : ", secret: \(app.secret)")
        }
        let single = self.apps.isEmpty ? apps.first : nil
        let list = self.apps.map { JSONValue.object(["app": .string($0.id), "key": .string($0.key)]) }
        return Line(
            ["Server listening at ", Line.Span(url, .name), Line.Span(" (\(credentials.joined(separator: "; ")))", .faint)]
                + (authEndpoint.map { [", authorizing at ", Line.Span($0, .name)] } ?? []),
            [
                "ready": true, "url": .string(url), "port": .integer(address.port), "app": (single?.id).map(Line.Value.string),
                "key": (single?.key).map(Line.Value.string), "secret": isHidden ? nil : (single?.secret).map(Line.Value.string),
                "apps": single == nil ? .json(.array(list)) : nil, "auth_endpoint": authEndpoint.map(Line.Value.string),
            ])
    }

    /// Commands to try with an app, as a shell in the same folder accepts them.
    func commands(_ address: ListenerAddress, _ app: PusherApp) -> [String] {
        let (tool, url) = (Shell.executable(), Self.url(address))
        let key = "--key \(Shell.quoted(app.key))"
        let subscribe = "\(tool) pusher subscribe \(url) \(key) prices"
        // The output doesn't contain the secrets of `--app`.
        guard self.apps.isEmpty else { return [subscribe] }
        let secret =
            switch self.secret {
            case .option, nil: " --secret \(Shell.quoted(app.secret))"
            case .file(let path, _): " --secret-file \(Shell.quoted(path))"
            case .environment: ""
            }
        return [
            subscribe,
            "\(tool) pusher publish \(url) --app-id \(Shell.quoted(app.id)) \(key)\(secret) prices price '{\"value\":12.5}'",
            "\(tool) pusher subscribe \(url) \(key)\(secret) --user-id anna presence-room",
        ]
    }

    private static func url(_ address: ListenerAddress) -> String {
        Endpoint(scheme: address.isSecure ? "wss" : "ws", host: address.host, port: address.port).origin
    }

    /// Returns what makes lines of an app's events, which name the app if `--app` is used.
    private func lines(of app: PusherApp) -> @Sendable (PusherServerEvent) -> Line? {
        guard !self.apps.isEmpty else { return Self.line }
        return { Self.line($0)?.labeled("app", app.id) }
    }

    /// Returns the line of an event, or `nil` for a frame, which is printed as it is received.
    static func line(_ event: PusherServerEvent) -> Line? {
        switch event {
        case .connected(let socketID): Self.line("connected", socketID, " connected", [:])
        case .disconnected(let socketID, let reason):
            Self.line(
                "disconnected", socketID, " disconnected: \(reason.textOfServer)",
                ["code": reason.peerCode.map { .integer(Int($0.rawValue)) }, "reason": .string(reason.textOfServer)])
        case .received: nil
        case .signedIn(let socketID, let userID):
            Self.line("signed_in", socketID, " signed in as \(userID)", ["user_id": .string(userID)])
        case .subscribed(let socketID, let channel, let userID):
            Self.line(
                "subscribed", socketID, " subscribed to \(channel)\(userID.map { " as \($0)" } ?? "")",
                ["channel": .string(channel), "user_id": userID.map(Line.Value.string)])
        case .subscriptionRejected(let socketID, let channel, let message):
            Self.line(
                "subscription_rejected", socketID, " failed to subscribe to \(channel): \(message)",
                ["channel": .string(channel), "message": .string(message)], .warning)
        case .unsubscribed(let socketID, let channel):
            Self.line("unsubscribed", socketID, " unsubscribed from \(channel)", ["channel": .string(channel)])
        case .cacheMiss(let socketID, let channel):
            Self.line("cache_miss", socketID, " found no cached event on \(channel)", ["channel": .string(channel)])
        case .subscriptionCount(let channel, let count):
            Self.line(
                "subscription_count", nil, "\(channel) has \(count) subscriber\(count == 1 ? "" : "s")",
                ["channel": .string(channel), "count": .integer(count)])
        case .clientEvent(let socketID, let channel, let name, let data):
            Self.line(
                "client_event", socketID, " triggered \(name) on \(channel): \(data)",
                ["channel": .string(channel), "event": .string(name), "data": .string(data)])
        case .published(let channel, let name, let subscribers):
            Self.line(
                "published", nil, "published \(name) to \(channel): \(subscribers) subscriber\(subscribers == 1 ? "" : "s")",
                ["channel": .string(channel), "event": .string(name), "subscribers": .integer(subscribers)])
        case .error(let socketID, let code, let message):
            Self.line(
                "error", socketID, "\(socketID == nil ? "" : ": ")error: \(message)\(code.map { " (\($0))" } ?? "")",
                ["code": code.map(Line.Value.integer), "message": .string(message)], .warning)
        }
    }

    private static func line(_ attempt: PusherAuthorizationAttempt, _ decision: PusherAuthorizationDecision) -> Line {
        let channel = attempt.channel
        switch decision {
        case .accept(let userID, _):
            return Self.line(
                "authorized", attempt.socketID, " authorized for \(channel)\(userID.map { " as \($0)" } ?? "")",
                ["channel": .string(channel), "user_id": userID.map(Line.Value.string)])
        case .reject(let message):
            return Self.line(
                "authorization_rejected", attempt.socketID, " not authorized for \(channel): \(message)",
                ["channel": .string(channel), "message": .string(message)], .warning)
        }
    }

    private static func line(_ attempt: PusherUserAuthenticationAttempt, _ decision: PusherUserAuthenticationDecision) -> Line {
        switch decision {
        case .accept(let userID, _, _):
            Self.line("authenticated", attempt.socketID, " authenticated as \(userID)", ["user_id": .string(userID)])
        case .reject(let message):
            Self.line(
                "authentication_rejected", attempt.socketID, " not authenticated: \(message)", ["message": .string(message)], .warning)
        }
    }

    private static func line(
        _ type: String, _ socketID: String?, _ text: String, _ members: KeyValuePairs<String, Line.Value?>, _ style: Line.Style = .faint
    ) -> Line {
        Line([Line.Span((socketID ?? "") + text, style)], type: type, socketID: socketID, members)
    }
}
