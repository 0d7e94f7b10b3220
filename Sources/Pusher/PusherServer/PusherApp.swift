public import RealtimeCore

/// An application of the embedded server.
public struct PusherApp: Sendable, Hashable {
    /// Its ID, for the HTTP API.
    public var id: String
    /// Its key, for clients.
    public var key: String
    /// Its secret, for whoever signs.
    public var secret: String
    /// Whether clients may send events to each other.
    public var allowsClientEvents = true
    /// How many events a client may send in a second; what is over it is answered with error 4301.
    public var clientEventsPerSecond = 10
    /// How many members a presence channel may have.
    public var memberLimit = 100
    /// How many connections it may have; more are closed with 4004.
    public var connectionLimit = Int.max
    /// What clients are told to do: ping after so long without a message. The server pings after it too.
    public var activityTimeout: Duration = .seconds(120)
    /// How long a client may take to answer the server's ping, before it is closed with 4201.
    public var pongTimeout: Duration = .seconds(30)

    /// An application.
    public init(id: String, key: String, secret: String) {
        self.id = id
        self.key = key
        self.secret = secret
    }

    /// An application made up on the spot.
    public static func random() -> PusherApp {
        func letters(_ count: Int) -> String {
            String((0..<count).map { _ in "abcdefghijklmnopqrstuvwxyz0123456789".randomElement() ?? "x" })
        }
        return PusherApp(id: "\(Int.random(in: 100_000..<1_000_000))", key: letters(20), secret: letters(20))
    }
}

/// What goes wrong on purpose.
public struct PusherServerFaults: Sendable, Hashable {
    /// How long every message to a client is held back.
    public var delay: Duration = .zero
    /// Which part of the messages to clients is lost, from 0 to 1.
    public var dropRate: Double = 0
    /// Nothing is sent to anybody, and nothing that comes is answered, while connections stay open.
    public var isSilent = false
    /// Every new connection is closed with this code.
    public var refuseWith: CloseCode?

    /// None.
    public init() {}
}
