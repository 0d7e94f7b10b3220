import CommandLineSupport
import PusherServer
import RealtimeCore
import RealtimeSockets

/// `realtime serve pusher`
struct ServePusherCommand: Command {
    static let spec = CommandSpec(
        path: ["serve", "pusher"],
        summary: "Run a Pusher Channels server",
        description: """
            Runs a Pusher Channels server with one app until Control-C: WebSockets for clients, and the HTTP API for publishing. \
            Values that are not specified are chosen at random and printed. Unless the output is a terminal, its first line is \
            {"ready":true,"url":…,"port":…,"app":…,"key":…,"secret":…}, printed when the server accepts connections.
            """,
        options: [
            .value("host", "HOST", "The address to listen on. The default is 127.0.0.1, which is reachable only locally."),
            .value("port", "PORT", "The port to listen on. The default is 0, which selects a free port.", as: .integer(0...65535)),
            .value("app-id", "ID", "The ID of the app, for the HTTP API."),
            .value("key", "KEY", "The key of the app, for clients."),
            .value("secret", "SECRET", "The secret of the app, for signatures."),
            .json,
        ],
        examples: ["serve pusher", "serve pusher --port 8080 --app-id app --key key --secret secret"])

    let host: String
    let port: Int
    let appID: String?
    let key: String?
    let secret: String?

    init(_ arguments: Arguments) throws(UsageError) {
        self.host = arguments.string("host") ?? "127.0.0.1"
        self.port = arguments.integer("port") ?? 0
        self.appID = arguments.string("app-id")
        self.key = arguments.string("key")
        self.secret = arguments.string("secret")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let random = PusherApp.random()
        let app = PusherApp(id: self.appID ?? random.id, key: self.key ?? random.key, secret: self.secret ?? random.secret)
        let server = PusherServer(app: app)
        let events = server.events
        let address: ListenerAddress
        do throws(TransportError) {
            var limits = ListenerLimits()
            // The server rejects larger messages; the listener doesn't read them. Some room between the two lets the server explain.
            limits.messageBytes = 2 * app.messageLimit
            address = try await server.start(on: SocketListener(host: self.host, port: self.port, limits: limits))
        } catch {
            throw ToolFailure(error)
        }
        let url = Endpoint(scheme: "ws", host: address.host, port: address.port).origin
        console.print(Self.ready(url: url, port: address.port, app: app))
        for await event in events {
            if let summary = Self.summary(of: event) { console.printNote(.init(summary, .faint)) }
        }
        await server.stop()
    }

    /// The first line, which programs wait for.
    static func ready(url: String, port: Int, app: PusherApp) -> Line {
        Line(
            [
                "Server listening at ", Line.Span(url, .name),
                Line.Span(" (app ID: \(app.id), key: \(app.key), secret: \(app.secret))", .faint),
            ],
            [
                "ready": true, "url": .string(url), "port": .integer(port), "app": .string(app.id), "key": .string(app.key),
                "secret": .string(app.secret),
            ])
    }

    /// Returns a description of an event for human readers, or `nil` for received frames, whose effects are events of their own.
    private static func summary(of event: PusherServerEvent) -> String? {
        switch event {
        case .connected(let socketID): "\(socketID) connected"
        case .disconnected(let socketID, let reason): "\(socketID) disconnected: \(reason)"
        case .received: nil
        case .subscribed(let socketID, let channel, let userID): "\(socketID) subscribed to \(channel)\(userID.map { " as \($0)" } ?? "")"
        case .subscriptionRejected(let socketID, let channel, let reason): "\(socketID) failed to subscribe to \(channel): \(reason)"
        case .unsubscribed(let socketID, let channel): "\(socketID) unsubscribed from \(channel)"
        case .clientEvent(let socketID, let channel, let name, _): "\(socketID) triggered \(name) on \(channel)"
        case .published(let channel, let name, let subscribers):
            "published \(name) to \(channel): \(subscribers) subscriber\(subscribers == 1 ? "" : "s")"
        case .error(let socketID, let code, let message): "\(socketID.map { "\($0): " } ?? "")error\(code.map { " \($0)" } ?? ""): \(message)"
        }
    }
}
