import CommandLineSupport
import PusherChannels

/// `realtime pusher channels`
struct PusherChannelsCommand: Command {
    static let spec = CommandSpec(
        path: ["pusher", "channels"],
        summary: "List channels and their attributes",
        description: """
            Lists the channels that have subscribers or, if channels are specified, the attributes of these, over the HTTP API of a Pusher \
            Channels service.
            """,
        positionals: [
            PusherAPIOptions.url,
            PositionalSpec("CHANNEL", "The channels. The default is all that have subscribers.", .repeated(atLeast: 0)),
        ],
        options: PusherAPIOptions.options([
            .value("prefix", "PREFIX", "List only channels whose names begin with the prefix, such as presence-."),
            .value(
                "info", "NAME",
                """
                An attribute to print: user_count, which a list has only with the prefix presence-, or subscription_count or cache, which \
                only single channels have. Can be repeated.
                """, isRepeatable: true, completion: .values(["user_count", "subscription_count", "cache"])),
        ]),
        examples: [
            "pusher channels http://127.0.0.1:8080 --app-id app --key key --secret secret --prefix presence- --info user_count",
            "pusher channels http://127.0.0.1:8080 --app-id app --key key --secret secret --info subscription_count prices",
        ])

    let api: PusherAPIOptions
    let channels: [String]
    let prefix: String?
    let attributes: Set<PusherChannelAttribute>

    init(_ arguments: Arguments) throws(UsageError) {
        self.api = try PusherAPIOptions(arguments, next: "CHANNEL")
        self.channels = arguments.positionals("CHANNEL")
        self.prefix = arguments.string("prefix")
        self.attributes = Set(arguments.strings("info").map { PusherChannelAttribute(rawValue: $0) })
        if self.prefix != nil, !self.channels.isEmpty { throw arguments.usageError("Specify either CHANNEL or '--prefix', not both") }
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let publisher = try await self.api.publisher(console)
        do throws(PusherError) {
            for name in self.channels { console.print(.channel(name, try await publisher.channel(name, info: self.attributes))) }
            guard self.channels.isEmpty else { return }
            let all = try await publisher.channels(prefix: self.prefix, info: self.attributes)
            for (name, info) in all.sorted(by: { $0.key < $1.key }) { console.print(.channel(name, info)) }
        } catch {
            throw ToolFailure(error)
        }
    }
}

/// `realtime pusher users`
struct PusherUsersCommand: Command {
    static let spec = CommandSpec(
        path: ["pusher", "users"],
        summary: "List the users of a presence channel",
        description: "Lists the IDs of the users of a presence channel, over the HTTP API of a Pusher Channels service.",
        positionals: [PusherAPIOptions.url, PositionalSpec("CHANNEL", "The presence channel.")],
        options: PusherAPIOptions.options(),
        examples: ["pusher users http://127.0.0.1:8080 --app-id app --key key --secret secret presence-room"])

    let api: PusherAPIOptions
    let channel: String

    init(_ arguments: Arguments) throws(UsageError) {
        self.api = try PusherAPIOptions(arguments, next: "CHANNEL")
        self.channel = arguments.required(positional: "CHANNEL")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let publisher = try await self.api.publisher(console)
        do throws(PusherError) {
            for user in try await publisher.users(of: self.channel) {
                console.print(
                    Line([.init(user.id, .name)], ["type": "user", "channel": .string(self.channel), "user_id": .string(user.id)]))
            }
        } catch {
            throw ToolFailure(error)
        }
    }
}

/// `realtime pusher terminate`
struct PusherTerminateCommand: Command {
    static let spec = CommandSpec(
        path: ["pusher", "terminate"],
        summary: "Close the connections of a user",
        description: """
            Closes all connections of a user who has signed in, over the HTTP API of a Pusher Channels service. The user can connect again \
            unless the application server refuses to sign in.
            """,
        positionals: [PusherAPIOptions.url, PositionalSpec("USER", "The ID of the user.")],
        options: PusherAPIOptions.options(),
        examples: ["pusher terminate http://127.0.0.1:8080 --app-id app --key key --secret secret anna"])

    let api: PusherAPIOptions
    let user: String

    init(_ arguments: Arguments) throws(UsageError) {
        self.api = try PusherAPIOptions(arguments, next: "USER")
        self.user = arguments.required(positional: "USER")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let publisher = try await self.api.publisher(console)
        do throws(PusherError) {
            try await publisher.terminateConnections(ofUser: self.user)
        } catch {
            throw ToolFailure(error)
        }
        console.print(
            Line(
                [.init("terminated", .success), " the connections of ", .init(self.user, .name)],
                ["type": "terminated", "user_id": .string(self.user)]))
    }
}

/// `realtime pusher sign`
struct PusherSignCommand: Command {
    static let spec = CommandSpec(
        path: ["pusher", "sign"],
        summary: "Print the signature of a subscription or a user",
        description: """
            Prints what an application server responds to a client: the authorization of a channel that isn't public or, without a \
            channel, the authentication of a user. Sends nothing.
            """,
        positionals: [
            PositionalSpec("SOCKET", "The socket ID of the client, such as 123.456."),
            PositionalSpec("CHANNEL", "The private, presence or encrypted channel. Without it, the user is signed in.", .optional),
        ],
        options: [
            .key("The key of the app.", .required),
            .secret("The secret of the app.", .requiredWithout(option: "secret-file")),
            .secretFile,
            .anyChannelNames,
            .encryptionKey("The key of the app for encrypted channels"), .encryptionKeyFile,
            .value("user-id", "ID", "The ID of the user, for a presence channel or to sign in."),
            .userInfo,
            .value("watch", "ID", "The ID of a user whom the user who signs in watches. Can be repeated.", isRepeatable: true),
            .json,
        ],
        missing: { arguments in
            let key = arguments.missingEncryptionKey(for: [arguments.positional("CHANNEL")].compactMap(\.self))
            let needsUser = arguments.positional("SOCKET") != nil && arguments.positional("CHANNEL")?.hasPrefix("presence-") != false
            return key + (needsUser && !arguments.has("user-id") ? ["'--user-id ID'"] : [])
        },
        examples: [
            "pusher sign 123.456 private-orders --key key --secret secret",
            "pusher sign 123.456 --key key --secret secret --user-id anna --watch bert",
        ])

    let socketID: String
    let channel: String?
    let key: String
    let secret: Secret
    let encryptionKey: Secret?
    let user: PusherMember?
    let watchlist: [String]
    let validatesChannelNames: Bool

    init(_ arguments: Arguments) throws(UsageError) {
        self.socketID = arguments.required(positional: "SOCKET")
        self.channel = arguments.positional("CHANNEL")
        self.key = arguments.required(option: "key")
        self.secret = try arguments.requiredSecret()
        self.encryptionKey = try Secret(arguments, "encryption-key")
        let info = try arguments.userInfo()
        self.user = arguments.string("user-id").map { PusherMember(id: $0, info: info) }
        self.watchlist = arguments.strings("watch")
        self.validatesChannelNames = !arguments.has("any-channel-names")
        if self.channel != nil, !self.watchlist.isEmpty { throw arguments.usageError("Specify either CHANNEL or '--watch', not both") }
    }

    func run(_ console: Console) async throws(ToolFailure) {
        let secret = try await self.secret.load()
        let encryptionKey = try await self.encryptionKey?.loadEncryptionKey()
        do throws(PusherError) { console.print(try self.line(secret, encryptionKey)) } catch { throw ToolFailure(error) }
    }

    private func line(_ secret: String, _ encryptionKey: String?) throws(PusherError) -> Line {
        // Signing sends no request, so the ID and the endpoint have no meaning.
        var publisher = PusherPublisher(
            appID: "", key: self.key, secret: secret, endpoint: Endpoint(scheme: "http", host: "localhost", port: 80),
            encryptionMasterKey: encryptionKey)
        publisher.validatesChannelNames = self.validatesChannelNames
        var json = JSONObject()
        if let channel {
            let signed = try publisher.authorize(socketID: self.socketID, channel: channel, user: self.user)
            json["auth"] = .string(signed.auth)
            json["channel_data"] = signed.channelData.map { .string($0) }
            json["shared_secret"] = signed.sharedSecret.map { .string($0) }
        } else {
            let signed = try publisher.authenticateUser(
                socketID: self.socketID, user: self.user ?? PusherMember(id: ""), watchlist: self.watchlist)
            json["auth"] = .string(signed.auth)
            json["user_data"] = .string(signed.userData)
        }
        return Line(
            [.init(JSONValue.object(json).description)],
            [
                "type": "signed", "channel": self.channel.map(Line.Value.string), "auth": json["auth"].map(Line.Value.json),
                "channel_data": json["channel_data"].map(Line.Value.json), "shared_secret": json["shared_secret"].map(Line.Value.json),
                "user_data": json["user_data"].map(Line.Value.json),
            ])
    }
}

extension Line {
    /// The attributes of a channel.
    fileprivate static func channel(_ name: String, _ info: PusherChannelInfo) -> Line {
        func count(_ number: Int?, _ noun: String) -> String? { number.map { "\($0) \(noun)\($0 == 1 ? "" : "s")" } }
        let details = [
            info.isOccupied.map { $0 ? "occupied" : "not occupied" }, count(info.userCount, "user"),
            count(info.subscriptionCount, "subscription"), info.cache.map { "cached: \($0.data)" },
        ].compactMap(\.self)
        return Line(
            [.init(name, .name)] + (details.isEmpty ? [] : [.init(": " + details.joined(separator: ", "))]),
            [
                "type": "channel", "channel": .string(name), "occupied": info.isOccupied.map(Value.bool),
                "user_count": info.userCount.map(Value.integer), "subscription_count": info.subscriptionCount.map(Value.integer),
                "cache": info.cache.map { cache in
                    var json: JSONObject = ["data": .string(cache.data)]
                    json["ttl"] = cache.ttl.map { .number(JSONNumber($0)) }
                    return .json(.object(json))
                },
            ])
    }
}
