internal import CommandLineSupport
/// `realtime pusher publish`
struct PusherPublishCommand: Sendable, Equatable {
    static let spec = CommandSpec(
        path: ["pusher", "publish"],
        summary: "Publish an event through the HTTP API",
        description: "Sends one event to a channel's subscribers through the HTTP API of a Pusher Channels service.",
        positionals: [
            PositionalSpec("URL", "Where the service is: http://HOST:PORT or https://HOST.", .requiredWithout(option: "cluster")),
            PositionalSpec("CHANNEL", "The channel."),
            PositionalSpec("EVENT", "The event's name."),
            PositionalSpec("DATA", "The event's data, sent as it is; usually JSON."),
        ],
        options: [
            .value("app-id", "ID", "The app's ID.", isRequired: true),
            .value("key", "KEY", "The app's key.", isRequired: true),
            .value("secret", "SECRET", "The app's secret, to sign the request.", isRequired: true),
            PusherPlace.cluster,
            .value("socket-id", "ID", "The socket ID of a client that is not to get the event."),
            .json,
        ],
        examples: [
            "pusher publish http://127.0.0.1:8080 --app-id app --key key --secret secret prices tick '{\"price\":1}'"
        ])

    var place: PusherPlace
    var appID: String
    var key: String
    var secret: String
    var channel: String
    var event: String
    var data: String
    /// Who is left out.
    var socketID: String?

    init(_ arguments: Arguments) throws(UsageError) {
        self.place = try PusherPlace(arguments, next: "CHANNEL")
        self.appID = arguments.required(option: "app-id")
        self.key = arguments.required(option: "key")
        self.secret = arguments.required(option: "secret")
        self.channel = arguments.required(positional: "CHANNEL")
        self.event = arguments.required(positional: "EVENT")
        self.data = arguments.required(positional: "DATA")
        self.socketID = arguments.text("socket-id")
    }
}
