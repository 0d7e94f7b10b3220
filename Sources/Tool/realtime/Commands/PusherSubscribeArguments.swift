internal import CommandLineSupport
internal import PusherWire
internal import RealtimeCore

/// `realtime pusher subscribe`
struct PusherSubscribeCommand: Sendable, Equatable {
    static let spec = CommandSpec(
        path: ["pusher", "subscribe"],
        summary: "Print the events of channels as they come",
        description: """
            Connects to a Pusher Channels service, subscribes to channels and prints their events until Control-C. A connection \
            that is lost comes back by itself. Private and presence channels need --secret or --auth-endpoint.
            """,
        positionals: [
            PositionalSpec("URL", "Where the service is: ws://HOST:PORT or wss://HOST.", .requiredWithout(option: "cluster")),
            PositionalSpec("CHANNEL", "The channels to subscribe to.", .repeated(atLeast: 1)),
        ],
        options: [
            .value("key", "KEY", "The app's key.", isRequired: true),
            PusherPlace.cluster,
            .value("secret", "SECRET", "The app's secret, to sign for private and presence channels here."),
            .value("auth-endpoint", "URL", "The http:// or https:// address that signs for private and presence channels."),
            .value("event", "NAME", "Print this event only. Can be given again for more.", isRepeatable: true),
            .value("count", "N", "End after so many events.", as: .integer(1...Int.max)),
            .value(
                "timeout", "SECONDS", "End with status 1 if it takes longer to subscribe or, with --count, to get all events.",
                as: .duration(.milliseconds(1) ... .seconds(1_000_000))),
            .json,
        ],
        examples: [
            "pusher subscribe ws://127.0.0.1:8080 --key key prices",
            "pusher subscribe --cluster eu --key key --event trade --count 10 prices orders",
        ])

    var place: PusherPlace
    var key: String
    var channels: [String]
    var secret: String?
    var authEndpoint: Endpoint?
    /// Empty for all.
    var events: [String]
    var count: Int?
    var timeout: Duration?

    init(_ arguments: Arguments) throws(UsageError) {
        self.place = try PusherPlace(arguments, next: "CHANNEL")
        self.key = arguments.required(option: "key")
        self.channels = arguments.all("CHANNEL")
        self.secret = arguments.text("secret")
        if let text = arguments.text("auth-endpoint") {
            guard let endpoint = try? Endpoint(text), ["http", "https"].contains(endpoint.scheme) else {
                throw arguments.wrong("The value of --auth-endpoint has to be an http:// or https:// address")
            }
            guard self.secret == nil else { throw arguments.wrong("Give either --secret or --auth-endpoint, not both") }
            self.authEndpoint = endpoint
        }
        if self.secret == nil, self.authEndpoint == nil,
            let name = self.channels.first(where: { ChannelName.kind(of: $0).needsAuthorization })
        {
            throw arguments.wrong("\(name) needs a signature; give --secret or --auth-endpoint")
        }
        self.events = arguments.texts("event")
        self.count = arguments.integer("count")
        self.timeout = arguments.duration("timeout")
    }
}
