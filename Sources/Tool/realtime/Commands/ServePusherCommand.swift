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
            Runs a Pusher Channels server with one app until Control-C: WebSockets for clients, and the HTTP API for publishing. Prints \
            connections, subscriptions, client events, publications and errors. Values that are not specified are chosen at random and \
            printed. Unless the output is a terminal, its first line is \
            {"ready":true,"url":…,"port":…,"app":…,"key":…,"secret":…,"auth_endpoint":…}, printed when the server accepts connections. It \
            contains the secret unless a file or the environment provides it, and the authorization endpoint if there is one.
            """,
        options: [
            .value("host", "HOST", "The address to listen on. The default is 127.0.0.1, which is reachable only locally."),
            .value("port", "PORT", "The port to listen on. The default is 0, which selects a free port.", as: .integer(0...65535)),
            .appID("The ID of the app, for the HTTP API."),
            .key("The key of the app, for clients."),
            .secret("The secret of the app, for signatures."),
            .secretFile,
            .value(
                "auth-endpoint", "PATH",
                """
                A path, such as /pusher/auth, at which the server authorizes all private and presence channels, for apps and for web \
                pages of all origins. The form fields user_id and user_info become the user of a presence channel.
                """),
            .json,
            .verbose("Also print every frame that is received or sent, without signatures."),
        ],
        examples: [
            "serve pusher",
            "serve pusher --port 8080 --app-id app --key key --secret secret",
            "serve pusher --port 8080 --key key --auth-endpoint /pusher/auth",
        ])

    let host: String
    let port: Int
    let appID: String?
    let key: String?
    let secret: PusherSecret?
    let authEndpoint: String?
    let isVerbose: Bool

    init(_ arguments: Arguments) throws(UsageError) {
        self.host = arguments.string("host") ?? "127.0.0.1"
        self.port = arguments.integer("port") ?? 0
        self.appID = arguments.string("app-id")
        self.key = arguments.string("key")
        self.secret = try PusherSecret(arguments)
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
        self.isVerbose = arguments.has("verbose")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let random = PusherApp.random()
        let app = PusherApp(
            id: self.appID ?? random.id, key: self.key ?? random.key, secret: try await self.secret?.load() ?? random.secret)
        let printer = LinePrinter(console)
        let server = PusherServer(app: app, log: LogSink(minimumLevel: .warning) { printer.enqueue(.error($2)) })
        let events = server.events
        let address: ListenerAddress
        do throws(TransportError) {
            address = try await server.start(on: self.listener(app, printer))
        } catch {
            throw ToolFailure(error)
        }
        // Not by the printer: it is the first line, also if a client has connected already.
        console.print(self.ready(address, app))
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await printer.printQueue() }
            await self.print(events, printer)
            group.cancelAll()
        }
        await server.stop()
        await printer.flush()
    }

    /// Prints events until the task is cancelled.
    private func print(_ events: EventSequence<PusherServerEvent>, _ printer: LinePrinter) async {
        var dropped = 0
        for await event in events {
            if let line = Self.line(event) { await printer.print(line) }
            let total = events.dropped
            if total > dropped {
                await printer.print(.error("\(total - dropped) events are missing here, because the output is read too slowly."))
                dropped = total
            }
        }
    }

    private func listener(_ app: PusherApp, _ printer: LinePrinter) -> any Listener {
        var limits = ListenerLimits()
        // The server rejects larger messages; the listener doesn't read them. Some room between the two lets the server explain.
        limits.messageBytes = 2 * app.messageLimit
        var listener: any Listener = SocketListener(host: self.host, port: self.port, limits: limits)
        if self.isVerbose { listener = TracingListener(listener: listener) { printer.enqueue($0) } }
        guard let path = self.authEndpoint else { return listener }
        let authorization = PusherAuthorizationHandler(app: app, origins: ["*"]) { attempt in
            let decision = Self.decision(about: attempt)
            printer.enqueue(Self.line(attempt, decision))
            return decision
        }
        return AuthorizingListener(listener: listener, path: path, authorization: authorization)
    }

    /// Authorizes every channel, with the user that the form names.
    private static func decision(about attempt: PusherAuthorizationAttempt) -> PusherAuthorizationDecision {
        guard let text = attempt.parameters["user_info"] else { return .accept(userID: attempt.parameters["user_id"]) }
        guard let info = try? JSONValue(parsing: text) else { return .reject(message: "The field user_info must be JSON.") }
        return .accept(userID: attempt.parameters["user_id"], userInfo: info)
    }
}

/// A listener whose handler shares it with an authorization endpoint.
private struct AuthorizingListener: Listener {
    let listener: any Listener
    let path: String
    let authorization: any ListenerHandler

    func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress {
        try await self.listener.start(ListenerRouter([.path(self.path, self.authorization), .path("/", handler)]))
    }

    func stop() async { await self.listener.stop() }
}

// MARK: - Output

extension ServePusherCommand {
    /// The first line, which programs wait for.
    func ready(_ address: ListenerAddress, _ app: PusherApp) -> Line {
        let url = Endpoint(scheme: "ws", host: address.host, port: address.port).origin
        let authEndpoint = self.authEndpoint.map { Endpoint(scheme: "http", host: address.host, port: address.port).origin + $0 }
        let secret = self.secret?.isHidden == true ? nil : app.secret
        let credentials = "app ID: \(app.id), key: \(app.key)" + (secret.map { ", secret: \($0)" } ?? "")
        return Line(
            ["Server listening at ", Line.Span(url, .name), Line.Span(" (\(credentials))", .faint)]
                + (authEndpoint.map { [", authorizing at ", Line.Span($0, .name)] } ?? []),
            [
                "ready": true, "url": .string(url), "port": .integer(address.port), "app": .string(app.id), "key": .string(app.key),
                "secret": secret.map(Line.Value.string), "auth_endpoint": authEndpoint.map(Line.Value.string),
            ])
    }

    /// Returns the line of an event, or `nil` for a frame, which is printed as it is received.
    static func line(_ event: PusherServerEvent) -> Line? {
        switch event {
        case .connected(let socketID): Self.line("connected", socketID, " connected", [:])
        case .disconnected(let socketID, let reason):
            Self.line(
                "disconnected", socketID, " disconnected: \(Self.text(reason))",
                ["code": Self.code(reason).map { .integer(Int($0.rawValue)) }, "reason": .string(Self.text(reason))])
        case .received: nil
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

    /// The description of a reason from the side of the server.
    private static func text(_ reason: CloseReason) -> String {
        guard case .peer(let code, let text) = reason else { return "\(reason)" }
        return "the client closed the connection with code \(code)\(text.isEmpty ? "" : ": \(text)")"
    }

    private static func code(_ reason: CloseReason) -> CloseCode? { if case .peer(let code, _) = reason { code } else { nil } }

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

    private static func line(
        _ type: String, _ socketID: String?, _ text: String, _ members: KeyValuePairs<String, Line.Value?>, _ style: Line.Style = .faint
    ) -> Line {
        Line([Line.Span((socketID ?? "") + text, style)], type: type, socketID: socketID, members)
    }
}
