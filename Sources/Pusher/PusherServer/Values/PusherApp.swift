import PusherWire
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
    public var profile = PusherServerProfile.pusher
    /// Whether clients may send events to each other.
    public var allowsClientEvents = true
    /// The maximum number of client events per second and connection. The server rejects further events with error 4301. The default is
    /// the limit of the Pusher service, 10.
    public var clientEventsPerSecond = 10
    /// The maximum number of members of a presence channel. The default is the limit of the Pusher service, 100.
    public var memberLimit = 100
    /// The maximum number of connections. The server rejects further connections with close code 4004.
    public var connectionLimit = Int.max
    /// The maximum number of channels of a connection, including subscriptions that await a hook. The server rejects further subscriptions.
    /// The default is 10,000; the Pusher service states no limit.
    public var channelLimit = 10_000
    /// The maximum size of a message from a client, in bytes. The server ignores a larger message and responds with an error. The default
    /// is 100 KiB, which suffices for everything that the other limits allow.
    ///
    /// A message of more than twice this size, and of more than 64 KiB, ends the connection, which bounds the memory for a message that hasn't
    /// arrived completely. The listener may have a smaller limit; see `ListenerLimits.messageBytes`.
    public var messageLimit = 100 << 10
    /// The maximum size of the data of an event, in bytes, for client events and for the HTTP API. The server rejects larger data with error
    /// 4301 or status 413. The default is the limit of the Pusher service, 10 KiB.
    public var eventDataLimit = 10 << 10
    /// The maximum length of an event's name, in bytes. The default is the limit of the Pusher service, 200.
    public var eventNameLimit = 200
    /// The maximum length of a channel's name, in bytes. The default is 200, as in the server libraries of the Pusher service. Its
    /// documentation states 164.
    public var channelNameLimit = 200
    /// The maximum length of the ID of a user, in Unicode scalars. The server rejects a subscription to a presence channel and a sign-in with
    /// a longer one. The default is the limit of the Pusher service, 128.
    public var userIDLimit = 128
    /// The maximum size of the `user_info` of a user as JSON, in bytes. The server rejects a subscription to a presence channel and a sign-in
    /// with a larger one. The default is the limit of the Pusher service, 1 KiB.
    public var userInfoLimit = 1 << 10
    /// The maximum number of users on the watchlist of a connection. If a list has more, the server sends error 4302 and watches the first
    /// ones. The default is the limit of the Pusher service, 100.
    public var watchlistLimit = 100
    /// How long a cache channel keeps its last event for new subscribers. The default is the limit of the Pusher service, 30 minutes.
    public var cachedEventLifetime = Duration.seconds(1800)
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
    /// How long a connection may be inactive before the client sends a ping. The server also pings after this time.
    public var activityTimeout: Duration = .seconds(120)
    /// How long the server waits for a response to its ping before it closes the connection with code 4201.
    public var pongTimeout: Duration = .seconds(30)

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
