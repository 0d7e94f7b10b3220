internal import CommandLineSupport
/// `realtime demo`
struct DemoCommand: Sendable, Equatable {
    static let spec = CommandSpec(
        path: ["demo"],
        summary: "Show a server and two clients talking, in this process",
        description: """
            Starts a Pusher Channels server on a free port of this machine, connects two clients to it and shows what happens: \
            they subscribe, hear each other, lose the connection and come back. It needs no network and ends by itself.
            """,
        options: [.json],
        examples: ["demo"])

    init(_ arguments: Arguments) throws(UsageError) {}
}
