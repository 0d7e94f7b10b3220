import CommandLineSupport
import PusherChannels
import RealtimeCore
import RealtimeSockets
import RealtimeTransports

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
            PositionalSpec(
                "DATA",
                "The data of the event, sent unchanged; usually JSON. With -, it is read from standard input, without a line break at its end."
            ),
        ],
        options: [
            .appID("The ID of the app.", .required),
            .key("The key of the app.", .required),
            .secret("The secret of the app, which signs the request.", .requiredWithout(option: "secret-file")),
            .secretFile,
            .cluster,
            .certificates,
            .value("socket-id", "ID", "The socket ID of a client to exclude from delivery."),
            .json,
            .verbose("Also print the request and the response, without the signature."),
        ],
        examples: [
            #"pusher publish http://127.0.0.1:8080 --app-id app --key key --secret secret prices price '{"value":12.5}'"#,
            "pusher publish http://127.0.0.1:8080 --app-id app --key key --secret secret prices price - < price.json",
        ])

    /// The limit of standard input, above the limit of an event, whose error then states the size.
    private static let dataLimit = 1 << 20

    let service: PusherService
    let appID: String
    let key: String
    let secret: PusherSecret
    let certificates: String?
    let channel: String
    let event: String
    let data: String
    let excludedSocketID: String?
    let isVerbose: Bool

    init(_ arguments: Arguments) throws(UsageError) {
        self.service = try PusherService(arguments, next: "CHANNEL")
        self.appID = arguments.required(option: "app-id")
        self.key = arguments.required(option: "key")
        guard let secret = try PusherSecret(arguments) else { preconditionFailure("--secret is not declared as required") }
        self.secret = secret
        self.certificates = arguments.string("ca")
        self.channel = arguments.required(positional: "CHANNEL")
        self.event = arguments.required(positional: "EVENT")
        self.data = arguments.required(positional: "DATA")
        self.excludedSocketID = arguments.string("socket-id")
        self.isVerbose = arguments.has("verbose")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let secret = try await self.secret.load()
        let tls = try await TLSConfiguration.trusting(self.certificates)
        var http = tls.map { SocketHTTPTransport(tls: $0) as any HTTPTransport } ?? Transports.standard.http
        if self.isVerbose { http = TracingHTTPTransport(http: http) { console.print($0) } }
        let data = self.data == "-" ? try await Input.standard(limit: Self.dataLimit) : self.data
        let publisher =
            switch self.service {
            case .cluster(let cluster): PusherPublisher(appID: self.appID, key: self.key, secret: secret, cluster: cluster, http: http)
            case .endpoint(let endpoint): PusherPublisher(appID: self.appID, key: self.key, secret: secret, endpoint: endpoint, http: http)
            }
        do throws(PusherError) {
            try await publisher.publish(self.event, to: [self.channel], data: data, except: self.excludedSocketID)
        } catch {
            throw ToolFailure(error)
        }
        console.print(
            Line(
                [.init("published", .success), " ", .init(self.event, .success), " to ", .init(self.channel, .name)],
                ["type": "published", "channel": .string(self.channel), "event": .string(self.event)]))
    }
}
