import PusherWire
import RealtimeCore
import RealtimeEncoding

/// An app of an embedded server: its credentials and its limits.
public struct PusherApp: Sendable, Hashable {
    /// The ID of the app, which the HTTP API uses.
    public var id: String
    /// The key, with which clients connect.
    public var key: String
    /// The secret, with which subscriptions and requests to the HTTP API are signed.
    public var secret: String
    /// The key for encrypted channels: 32 bytes in Base64. With it, the server encrypts what it publishes on them itself, and a
    /// `PusherAuthorizationHandler` authorizes subscriptions to them. The server doesn't need it to pass on what others publish.
    public var encryptionMasterKey: String?
    /// Whether the app can be used. If not, the server rejects connections with close code 4003 and requests with status 403.
    public var isEnabled = true
    /// The ways in which the server differs from others. The default is the profile of the Pusher service.
    ///
    /// The limits and timeouts below that aren't set are those of the server whose profile it is. The values that they name are those of the
    /// Pusher service.
    public var profile = PusherServerProfile.pusher
    /// Whether clients may send events to each other.
    public var allowsClientEvents = true
    /// The maximum number of client events per second and connection. The server rejects further events with error 4301. The default is 10.
    public var clientEventsPerSecond: Int {
        get { self.own.clientEventsPerSecond ?? self.profile.limits.clientEventsPerSecond }
        set { self.own.clientEventsPerSecond = newValue }
    }
    /// The maximum number of members of a presence channel. The default is 100.
    public var memberLimit: Int {
        get { self.own.memberLimit ?? self.profile.limits.memberLimit }
        set { self.own.memberLimit = newValue }
    }
    /// The maximum number of connections. The server rejects further connections with close code 4004.
    public var connectionLimit = Int.max
    /// The hosts of the web pages that may connect, such as `example.com` and `*.example.com`, in which `*` stands for any characters. The
    /// default is `*` alone, which allows connections without an `Origin` as well.
    ///
    /// The server rejects other connections, and those without the header field `Origin`, with close code 4009. It follows the setting
    /// `allowed_origins` of Reverb. sockudo has it as well, and compares the scheme and the port too; the Pusher service and other servers don't. A client
    /// that isn't a web page sends the field if it is one of its `PusherConfiguration.headers`.
    public var allowedOrigins = ["*"]
    /// The maximum number of channels of a connection, including subscriptions that await a hook. The server rejects further subscriptions.
    /// The default is 10,000; the Pusher service states no limit.
    public var channelLimit = 10_000
    /// The maximum size of a message from a client, in bytes. The server ignores a larger message and responds with an error. The default
    /// is 100 KiB, which suffices for everything that the other limits allow.
    ///
    /// A message of more than twice this size, and of more than 64 KiB, ends the connection, which bounds the memory for a message that hasn't
    /// arrived completely. The listener may have a smaller limit; see `ListenerLimits.messageBytes`.
    public var messageLimit: Int {
        get { self.own.messageLimit ?? self.profile.limits.messageLimit }
        set { self.own.messageLimit = newValue }
    }
    /// The maximum size of the data of an event, in bytes, for client events and for the HTTP API. The server rejects larger data with error
    /// 4301 or status 413. The default is 10 KiB.
    public var eventDataLimit: Int {
        get { self.own.eventDataLimit ?? self.profile.limits.eventDataLimit }
        set { self.own.eventDataLimit = newValue }
    }
    /// The maximum length of an event's name, in bytes. The default is 200.
    public var eventNameLimit: Int {
        get { self.own.eventNameLimit ?? self.profile.limits.eventNameLimit }
        set { self.own.eventNameLimit = newValue }
    }
    /// The maximum length of a channel's name, in bytes. The default is 200, as in the server libraries of the Pusher service. Its
    /// documentation states 164.
    public var channelNameLimit: Int {
        get { self.own.channelNameLimit ?? self.profile.limits.channelNameLimit }
        set { self.own.channelNameLimit = newValue }
    }
    /// Whether the names of channels, and the IDs of users who sign in, are checked. With the default, `true`, they may only contain letters,
    /// digits and `_-=@,.;`. None may be empty in any case.
    public var validatesChannelNames: Bool {
        get { self.own.validatesChannelNames ?? self.profile.limits.validatesChannelNames }
        set { self.own.validatesChannelNames = newValue }
    }
    /// The maximum number of channels on which an event is published with one request to the HTTP API. The default is 100.
    public var publicationChannelLimit: Int {
        get { self.own.publicationChannelLimit ?? self.profile.limits.publicationChannelLimit }
        set { self.own.publicationChannelLimit = newValue }
    }
    /// The maximum number of events that are published with one request to the HTTP API. The default is 10.
    public var batchLimit: Int {
        get { self.own.batchLimit ?? self.profile.limits.batchLimit }
        set { self.own.batchLimit = newValue }
    }
    /// The maximum length of the ID of a user, in Unicode scalars. The server rejects a subscription to a presence channel and a sign-in with
    /// a longer one. The default is 128.
    public var userIDLimit: Int {
        get { self.own.userIDLimit ?? self.profile.limits.userIDLimit }
        set { self.own.userIDLimit = newValue }
    }
    /// The maximum size of the `user_info` of a user as JSON, in bytes. The server rejects a subscription to a presence channel and a sign-in
    /// with a larger one. The default is 1 KiB.
    public var userInfoLimit: Int {
        get { self.own.userInfoLimit ?? self.profile.limits.userInfoLimit }
        set { self.own.userInfoLimit = newValue }
    }
    /// The maximum number of users on the watchlist of a connection. If a list has more, the server sends error 4302 and watches the first
    /// ones. The default is the limit of the Pusher service, 100.
    public var watchlistLimit = 100
    /// How long a cache channel keeps its last event for new subscribers. The default is 30 minutes.
    public var cachedEventLifetime: Duration {
        get { self.own.cachedEventLifetime ?? self.profile.limits.cachedEventLifetime }
        set { self.own.cachedEventLifetime = newValue }
    }
    /// The maximum number of channels whose last event is kept. The events of further cache channels are delivered, but not kept. The
    /// default is 10,000; the Pusher service states no limit.
    public var cachedEventLimit = 10_000
    /// The number of events of each channel that the server keeps for clients that have lost their connection. The default is 0: the server
    /// keeps none, like the Pusher service.
    ///
    /// With a larger number, clients with the setting `PusherConfiguration.recovery` recover the events that they missed, as with sockudo,
    /// and their client events reach themselves as well.
    /// The server keeps the events of at most ``cachedEventLimit`` channels, and up to 128 MiB of events. Beyond that, it forgets those of
    /// the channel that was used least recently. Restarting its listener doesn't remove them. A request is answered with at most 4 MiB of
    /// events, and the client's next one when they have been sent.
    public var recoveryLimit = 0
    /// How long the server keeps the events of a channel, from the last one. The default is sockudo's, 2 minutes.
    public var recoveryLifetime = Duration.seconds(120)
    /// Whether clients may subscribe to channels with filters, as with sockudo. The default is `false`, like the Pusher service.
    ///
    /// A channel with a filter receives the events whose tags satisfy it. Publishers set tags with the HTTP API and
    /// ``PusherServer/publish(_:to:data:tags:except:)``. Presence channels have no filters. Clients use version 2 of the protocol for it.
    public var allowsFilters = false
    /// Whether clients may request events as deltas from earlier ones, as from sockudo. The default is `false`, like the Pusher
    /// service.
    ///
    /// The events that servers publish are compressed with the algorithm Fossil, except on encrypted channels: the first two of each name are
    /// complete, and then every eleventh. Clients use version 2 of the protocol for it.
    public var allowsDeltaCompression = false
    /// Whether the subscribers of a channel are notified when their number changes. The default is `false`, as in the Pusher service.
    ///
    /// A channel with more than 100 subscribers is notified every 5 seconds at most. Presence channels are not notified.
    public var sendsSubscriptionCounts = false
    /// How long a client has to sign in, or to subscribe to a private or presence channel, before the server closes its connection with
    /// code 4009. The default is `nil`, which means that no connection has to be authorized.
    public var authorizationTimeout: Duration?
    /// How long a connection may be inactive before the client sends a ping. The server also pings after this time. The default is 120 seconds.
    public var activityTimeout: Duration {
        get { self.own.activityTimeout ?? self.profile.limits.activityTimeout }
        set { self.own.activityTimeout = newValue }
    }
    /// How long the server waits for a response to its ping before it closes the connection with code 4201.
    public var pongTimeout: Duration = .seconds(30)

    /// The limits and timeouts that were set. The others are those of the profile.
    private var own = OwnLimits()

    private struct OwnLimits: Sendable, Hashable {
        var activityTimeout: Duration?
        var clientEventsPerSecond: Int?
        var memberLimit: Int?
        var messageLimit: Int?
        var eventDataLimit: Int?
        var eventNameLimit: Int?
        var validatesChannelNames: Bool?
        var channelNameLimit: Int?
        var userIDLimit: Int?
        var userInfoLimit: Int?
        var publicationChannelLimit: Int?
        var batchLimit: Int?
        var cachedEventLifetime: Duration?
    }

    /// Returns a message that says why the name of a channel is invalid, or `nil` if it is valid.
    ///
    /// - Parameter allowsUsers: Whether the name may be that of a user's channel.
    func validationError(channel: String, allowsUsers: Bool = false) -> String? {
        ChannelName.validationError(
            channel, limit: self.channelNameLimit, checksCharacters: self.validatesChannelNames, allowsUsers: allowsUsers)
    }

    /// Returns a message that says why the ID of a user who signs in is invalid, or `nil` if it is valid.
    func validationError(userID: String) -> String? {
        UserID.validationError(userID, limit: self.userIDLimit, checksCharacters: self.validatesChannelNames)
    }

    /// Returns whether a web page, or another client, may connect.
    ///
    /// - Parameter origin: The value of the header field `Origin`.
    /// - Source: Reverb (`verifyOrigin` in `Server.php`).
    func allows(origin: String?) -> Bool {
        if self.allowedOrigins.contains("*") { return true }
        guard let host = origin.flatMap({ try? Endpoint($0) })?.host else { return false }
        return self.allowedOrigins.contains { Self.matches(Array(host.utf8)[...], Array($0.utf8)[...]) }
    }

    /// Returns whether a text is one that a pattern describes, in which `*` stands for any characters.
    private static func matches(_ text: ArraySlice<UInt8>, _ pattern: ArraySlice<UInt8>) -> Bool {
        let parts = pattern.split(separator: UInt8(ascii: "*"), omittingEmptySubsequences: false)
        guard parts.count > 1, let first = parts.first, let last = parts.last else { return text.elementsEqual(pattern) }
        guard text.count >= first.count + last.count, text.starts(with: first), text.suffix(last.count).elementsEqual(last) else {
            return false
        }
        var rest = text.dropFirst(first.count).dropLast(last.count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let start = rest.indices.first(where: { rest[$0...].starts(with: part) }) else { return false }
            rest = rest[(start + part.count)...]
        }
        return true
    }

    /// The key for encrypted channels, or `nil` if there is none or it is invalid.
    var masterKey: EncryptionKey? { self.encryptionMasterKey.flatMap { try? EncryptionKey(base64: $0) } }

    /// Creates an app with the given credentials and default limits.
    public init(id: String, key: String, secret: String) {
        self.id = id
        self.key = key
        self.secret = secret
    }

    /// Creates an app with random credentials and a random key for encrypted channels.
    public static func random() -> PusherApp {
        func letters(_ count: Int) -> String {
            String((0..<count).map { _ in "abcdefghijklmnopqrstuvwxyz0123456789".randomElement() ?? "x" })
        }
        var app = PusherApp(id: "\(Int.random(in: 100_000..<1_000_000))", key: letters(20), secret: letters(20))
        app.encryptionMasterKey = Base64.encode((0..<EncryptionKey.length).map { _ in UInt8.random(in: .min ... .max) })
        return app
    }
}
