import CommandLineSupport
import PusherChannels

/// `realtime pusher publish`
struct PusherPublishCommand: Command {
    static let spec = CommandSpec(
        path: ["pusher", "publish"],
        summary: "Publish an event over the HTTP API",
        description: "Publishes an event to the subscribers of a channel, over the HTTP API of a Pusher Channels service.",
        positionals: [
            PositionalSpec("URL", "The URL of the service: http://HOST:PORT or https://HOST.", .requiredWithout(option: "cluster")),
            PositionalSpec("CHANNEL", "The channel to publish to."),
            PositionalSpec("EVENT", "The name of the event."),
            PositionalSpec("DATA", "The data of the event, sent unchanged; usually JSON."),
        ],
        options: [
            .value("app-id", "ID", "The ID of the app.", isRequired: true),
            .value("key", "KEY", "The key of the app.", isRequired: true),
            .value("secret", "SECRET", "The secret of the app, which signs the request.", isRequired: true),
            PusherService.clusterOption,
            .value("socket-id", "ID", "The socket ID of a client to exclude from delivery."),
            .json,
        ],
        examples: [
            "pusher publish http://127.0.0.1:8080 --app-id app --key key --secret secret prices tick '{\"price\":1}'"
        ])

    let service: PusherService
    let appID: String
    let key: String
    let secret: String
    let channel: String
    let event: String
    let data: String
    let excludedSocketID: String?

    init(_ arguments: Arguments) throws(UsageError) {
        self.service = try PusherService(arguments, next: "CHANNEL")
        self.appID = arguments.required(option: "app-id")
        self.key = arguments.required(option: "key")
        self.secret = arguments.required(option: "secret")
        self.channel = arguments.required(positional: "CHANNEL")
        self.event = arguments.required(positional: "EVENT")
        self.data = arguments.required(positional: "DATA")
        self.excludedSocketID = arguments.string("socket-id")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let publisher =
            switch self.service {
            case .cluster(let cluster): PusherPublisher(appID: self.appID, key: self.key, secret: self.secret, cluster: cluster)
            case .endpoint(let endpoint): PusherPublisher(appID: self.appID, key: self.key, secret: self.secret, endpoint: endpoint)
            }
        do throws(PusherError) {
            try await publisher.publish(self.event, to: [self.channel], data: self.data, except: self.excludedSocketID)
        } catch {
            throw ToolFailure(error.message)
        }
        console.print(
            Line(
                [.init("published", .success), " ", .init(self.event, .success), " to ", .init(self.channel, .name)],
                ["type": "published", "channel": .string(self.channel), "event": .string(self.event)]))
    }
}
