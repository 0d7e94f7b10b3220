internal import CommandLineSupport
/// `realtime serve pusher`
struct ServePusherCommand: Sendable, Equatable {
    static let spec = CommandSpec(
        path: ["serve", "pusher"],
        summary: "Run a Pusher Channels server",
        description: """
            Runs a Pusher Channels server with one app until Control-C: WebSockets for clients, and the HTTP API for publishing. \
            What is not given as an option is made at random, and printed. When the output is no terminal, its first line is \
            {"ready":true,"url":…,"port":…,"app":…,"key":…,"secret":…}, printed once the server accepts connections.
            """,
        options: [
            .value("host", "HOST", "The address to listen on; 127.0.0.1 unless given, which only this machine reaches."),
            .value("port", "PORT", "The port to listen on; 0, a free one, unless given.", as: .integer(0...65535)),
            .value("app-id", "ID", "The app's ID, for the HTTP API."),
            .value("key", "KEY", "The app's key, for clients."),
            .value("secret", "SECRET", "The app's secret, for signatures."),
            .json,
        ],
        examples: ["serve pusher", "serve pusher --port 8080 --app-id app --key key --secret secret"])

    var host: String
    var port: Int
    var appID: String?
    var key: String?
    var secret: String?

    init(_ arguments: Arguments) throws(UsageError) {
        self.host = arguments.text("host") ?? "127.0.0.1"
        self.port = arguments.integer("port") ?? 0
        self.appID = arguments.text("app-id")
        self.key = arguments.text("key")
        self.secret = arguments.text("secret")
    }

    /// The first line, which a program waits for.
    static func ready(url: String, port: Int, app: String, key: String, secret: String) -> Line {
        Line(
            ["Serving Pusher Channels at ", Line.Span(url, .name), Line.Span("  app \(app)  key \(key)  secret \(secret)", .faint)],
            [
                "ready": true, "url": .string(url), "port": .integer(port), "app": .string(app), "key": .string(key),
                "secret": .string(secret),
            ])
    }
}
