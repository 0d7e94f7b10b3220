/// An app of an embedded server: its credentials and its limits.
public struct PusherApp: Sendable, Hashable {
    /// The ID of the app, which the HTTP API uses.
    public var id: String
    /// The key, with which clients connect.
    public var key: String
    /// The secret, with which subscriptions and requests to the HTTP API are signed.
    public var secret: String
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
    /// The listener has a limit of its own, which bounds the memory for a message that hasn't arrived completely; see
    /// `ListenerLimits.messageBytes`.
    public var messageLimit = 100 << 10
    /// The maximum size of the data of an event, in bytes, for client events and for the HTTP API. The server rejects larger data with error
    /// 4301 or status 413. The default is the limit of the Pusher service, 10 KiB.
    public var eventDataLimit = 10 << 10
    /// The maximum length of an event's name, in bytes. The default is the limit of the Pusher service, 200.
    public var eventNameLimit = 200
    /// The maximum length of a channel's name, in bytes. The default is 200, as in the server libraries of the Pusher service. Its
    /// documentation states 164.
    public var channelNameLimit = 200
    /// The maximum length of the ID of a presence channel's member, in Unicode scalars. The server rejects a subscription with a longer one.
    /// The default is the limit of the Pusher service, 128.
    public var userIDLimit = 128
    /// The maximum size of the `user_info` of a presence channel's member as JSON, in bytes. The server rejects a subscription with a larger
    /// one. The default is the limit of the Pusher service, 1 KiB.
    public var userInfoLimit = 1 << 10
    /// How long a connection may be inactive before the client sends a ping. The server also pings after this time.
    public var activityTimeout: Duration = .seconds(120)
    /// How long the server waits for a response to its ping before it closes the connection with code 4201.
    public var pongTimeout: Duration = .seconds(30)

    /// Creates an app with the given credentials and default limits.
    public init(id: String, key: String, secret: String) {
        self.id = id
        self.key = key
        self.secret = secret
    }

    /// Creates an app with random credentials.
    public static func random() -> PusherApp {
        func letters(_ count: Int) -> String {
            String((0..<count).map { _ in "abcdefghijklmnopqrstuvwxyz0123456789".randomElement() ?? "x" })
        }
        return PusherApp(id: "\(Int.random(in: 100_000..<1_000_000))", key: letters(20), secret: letters(20))
    }
}
