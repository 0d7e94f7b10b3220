import CommandLineSupport
import PusherChannels
import PusherWire
import RealtimeCore

/// `realtime pusher trigger`
struct PusherTriggerCommand: Command {
    static let spec = CommandSpec(
        path: ["pusher", "trigger"],
        summary: "Send a client event to the other subscribers of a channel",
        description: """
            Connects to a Pusher Channels service, subscribes to a private or presence channel, and sends a client event to the other \
            subscribers. Fails if the service responds with an error, for example because the app doesn't allow client events. To publish \
            an event to all subscribers, use pusher publish.
            """,
        positionals: [
            PusherConnectionOptions.url,
            PositionalSpec("CHANNEL", "The private or presence channel."),
            PositionalSpec("EVENT", "The name of the event, which starts with client-."),
            PositionalSpec("DATA", "The data of the event: JSON or text. With -, it is read from standard input."),
        ],
        options: PusherConnectionOptions.options + [
            .eventDataLimit("The maximum size of the data, for a server that accepts more."),
            .timeout("Exit with status 1 if subscribing takes longer. The default is 30 seconds."),
            .json, .timestamps,
            .verbose("Also print every frame that is sent or received, without signatures."),
        ],
        missing: PusherAuthorizationOptions.missing,
        examples: [
            #"pusher trigger ws://127.0.0.1:8080 --key key --secret secret private-room client-typing '{"on":true}'"#
        ])

    let connection: PusherConnectionOptions
    let channel: String
    let event: String
    let data: String
    let eventDataLimit: Int?
    let timeout: Duration

    init(_ arguments: Arguments) throws(UsageError) {
        self.connection = try PusherConnectionOptions(arguments)
        self.channel = arguments.required(positional: "CHANNEL")
        self.event = arguments.required(positional: "EVENT")
        self.data = arguments.required(positional: "DATA")
        self.eventDataLimit = arguments.integer("event-data-limit")
        self.timeout = arguments.duration("timeout") ?? .seconds(30)
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let text = try await Input.data(self.data, eventDataLimit: self.eventDataLimit)
        let data = (try? JSONValue(parsing: text)) ?? .string(text)
        let limit = TimeLimit(self.timeout)
        let printer = LinePrinter(console)
        try await self.connection.run(printer, configure: { if let limit = self.eventDataLimit { $0.eventDataLimit = limit } }) {
            client throws(ToolFailure) in
            do throws(PusherError) {
                try await self.trigger(data, with: client, limit)
            } catch {
                throw self.failure(error, limit)
            }
        }
        console.print(
            Line(
                [.init("triggered", .success), " ", .init(self.event, .success), " on ", .init(self.channel, .name)],
                ["type": "triggered", "channel": .string(self.channel), "event": .string(self.event)]))
    }

    /// Returns the failure of the command, which names its options instead of the calls of the client.
    private func failure(_ error: PusherError, _ limit: TimeLimit) -> ToolFailure {
        guard error.code == .timedOut else { return ToolFailure(error) }
        let summary = "Cannot subscribe to \(self.channel) at \(self.connection.service)"
        guard let reason = error.cause as? PusherError else { return limit.failure(summary) }
        return ToolFailure("\(summary)\(limit.text): \(reason.messageOfTool)", code: reason.serverCode)
    }

    private func trigger(_ data: JSONValue, with client: PusherClient, _ limit: TimeLimit) async throws(PusherError) {
        let channel = try client.subscribe(self.channel)
        client.connect()
        try await channel.subscribed(within: limit.remaining ?? self.timeout)
        let updates = client.updates(includingFrames: true)
        try channel.trigger(self.event, data)
        // The server responds to a ping after it has handled the event, and so after an error about it.
        client.checkConnection()
        for await update in updates {
            switch update {
            case .error(let error): throw error
            case .frame(let text) where (try? JSONValue(parsing: text))?["event"]?.string == EventName.pong: return
            default: continue
            }
        }
        throw PusherError(.disconnected, "The client was disconnected before the server confirmed the event.")
    }
}
