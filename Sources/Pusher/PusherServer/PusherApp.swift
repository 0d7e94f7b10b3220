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
    /// The maximum number of client events per second and connection. The server rejects further events with error 4301.
    public var clientEventsPerSecond = 10
    /// The maximum number of members of a presence channel.
    public var memberLimit = 100
    /// The maximum number of connections. The server rejects further connections with close code 4004.
    public var connectionLimit = Int.max
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
