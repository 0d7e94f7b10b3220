import CommandLineSupport
import PusherChannels
import PusherWire

/// `realtime pusher publish`
struct PusherPublishCommand: Command {
    static let spec = CommandSpec(
        path: ["pusher", "publish"],
        summary: "Publish an event over the HTTP API",
        description: "Publishes an event to the subscribers of a channel, over the HTTP API of a Pusher Channels service.",
        positionals: [
            PusherAPIOptions.url,
            PositionalSpec("CHANNEL", "The channel to publish to, or #server-to-user-ID for a user who is signed in."),
            PositionalSpec("EVENT", "The name of the event."),
            PositionalSpec(
                "DATA",
                "The data of the event, sent unchanged; usually JSON. With -, it is read from standard input, without a line break at its end."
            ),
        ],
        options: PusherAPIOptions.options([
            .value("socket-id", "ID", "The socket ID of a client to exclude from delivery."),
            .encryptionKey("The key of the app for encrypted channels"), .encryptionKeyFile,
            .eventDataLimit("The maximum size of the data, for a server that accepts more."),
        ]),
        missing: { $0.missingEncryptionKey(for: [$0.positional("CHANNEL")].compactMap(\.self)) },
        examples: [
            #"pusher publish http://127.0.0.1:8080 --app-id app --key key --secret secret prices price '{"value":12.5}'"#,
            "pusher publish http://127.0.0.1:8080 --app-id app --key key --secret secret prices price - < price.json",
        ])

    let api: PusherAPIOptions
    let channel: String
    let event: String
    let data: String
    let excludedSocketID: String?

    init(_ arguments: Arguments) throws(UsageError) {
        self.api = try PusherAPIOptions(arguments, next: "CHANNEL", publishes: true)
        self.channel = arguments.required(positional: "CHANNEL")
        self.event = arguments.required(positional: "EVENT")
        self.data = arguments.required(positional: "DATA")
        self.excludedSocketID = arguments.string("socket-id")
        if self.excludedSocketID != nil, UserID.user(ofChannel: self.channel) != nil {
            throw arguments.usageError("'--socket-id' requires a channel that isn't a user's")
        }
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let publisher = try await self.api.publisher(console)
        let data = try await Input.data(self.data, eventDataLimit: self.api.eventDataLimit)
        do throws(PusherError) {
            if let user = UserID.user(ofChannel: self.channel) {
                try await publisher.sendToUser(user, self.event, data: data)
            } else {
                try await publisher.publish(self.event, to: [self.channel], data: data, except: self.excludedSocketID)
            }
        } catch {
            throw ToolFailure(error)
        }
        console.print(
            Line(
                [.init("published", .success), " ", .init(self.event, .success), " to ", .init(self.channel, .name)],
                ["type": "published", "channel": .string(self.channel), "event": .string(self.event)]))
    }
}

extension Input {
    /// Returns the data of an event: an argument, or standard input for `-`.
    ///
    /// - Parameter eventDataLimit: The limit of the event, if it isn't the default.
    static func data(_ argument: String, eventDataLimit: Int?) async throws(ToolFailure) -> String {
        guard argument == "-" else { return argument }
        // Above the limit of an event, whose error then states the size.
        let limit = eventDataLimit.map { $0 == .max ? $0 : $0 + 1 } ?? 0
        return try await Input.standard(limit: max(1 << 20, limit))
    }
}
