internal import CommandLineSupport
internal import RealtimeCore

/// `realtime autobahn-client`: what a WebSocket client under test has to do. See `dev/autobahn`.
struct AutobahnClientCommand: Sendable, Equatable {
    static let spec = CommandSpec(
        path: ["autobahn-client"],
        summary: "Be the client that a WebSocket test suite asks for",
        description: """
            Asks the fuzzing server at URL for the number of its cases, echoes every message in each of them, and has it write \
            its report.
            """,
        positionals: [PositionalSpec("URL", "Where the fuzzing server is: ws://HOST:PORT.")],
        options: [.value("agent", "NAME", "The name in the report; ours unless given.")],
        isHidden: true)

    var endpoint: Endpoint
    var agent: String

    init(_ arguments: Arguments) throws(UsageError) {
        guard let endpoint = try? Endpoint(arguments.required(positional: "URL")), ["ws", "wss"].contains(endpoint.scheme) else {
            throw arguments.wrong("The URL has to look like ws://HOST:PORT")
        }
        self.endpoint = endpoint
        self.agent = arguments.text("agent") ?? "ours"
    }
}

/// `realtime autobahn-server`: what a WebSocket server under test has to do. See `dev/autobahn`.
struct AutobahnServerCommand: Sendable, Equatable {
    static let spec = CommandSpec(
        path: ["autobahn-server"],
        summary: "Be the echo server that a WebSocket test suite asks for",
        description: """
            Accepts WebSockets on 127.0.0.1, echoes every message, and ends with SIGTERM. Its first line is \
            {"ready":true,"url":…,"port":…}.
            """,
        options: [.value("port", "PORT", "The port; 0, a free one, unless given.", as: .integer(0...65535))],
        isHidden: true)

    var port: Int

    init(_ arguments: Arguments) throws(UsageError) {
        self.port = arguments.integer("port") ?? 0
    }
}
