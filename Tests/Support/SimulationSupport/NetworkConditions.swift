package import RealtimeCore

/// How a virtual network behaves: durations in milliseconds, and probabilities in percent.
package struct NetworkConditions: Sendable {
    // MARK: Durations

    /// How long a message takes. Messages of one connection and direction keep their order; those of different connections don't.
    package var delay: ClosedRange<Int64> = 1...300
    /// How long a connection takes to open.
    package var connectDelay: ClosedRange<Int64> = 5...2_000
    /// How long a slow connection takes to open, which may exceed the time limit of the client.
    package var slowConnectDelay: ClosedRange<Int64> = 5_000...60_000
    /// How long it takes until a connection is refused.
    package var refusalDelay: ClosedRange<Int64> = 0...4_000
    /// How long one side doesn't read during a stall.
    package var stallTime: ClosedRange<Int64> = 500...30_000
    /// When a transport ends a connection whose peer doesn't answer a close.
    package var closeTimeout: ClosedRange<Int64> = 5_000...30_000
    /// How long late events of an abandoned connection may take.
    package var lateness: ClosedRange<Int64> = 0...90_000

    // MARK: Faults of connections
    // Those that happen after a message happen after a part of the response to a request as well.

    /// An attempt to connect is refused.
    package var refusedConnections = 0
    /// An attempt to connect is never answered.
    package var unansweredConnections = 0
    /// An attempt to connect takes long.
    package var slowConnections = 0
    /// After a message: the connection becomes half-open. Everything on it is lost, and neither side is notified.
    package var silences = 0
    /// After a message: the connection is reset.
    package var resets = 0
    /// After a message: an intermediary closes the connection with one of ``closeCodes``.
    package var closes = 0
    package var closeCodes: [CloseCode] = [.goingAway]
    /// After a message: one side stops reading for a while, as a busy process does. The other side sees back-pressure.
    package var stalls = 0
    /// A client's close is never answered.
    package var unansweredCloses = 0
    /// Messages that were sent together arrive in two reads.
    package var splitReads = 20
    /// The number of bytes that fit on the way to a side that doesn't read. Beyond it, the sender is told to pause.
    package var window = 4_096

    // MARK: Faults of HTTP requests

    /// A request is refused.
    package var failedRequests = 0
    /// A request never arrives, and the client isn't notified.
    package var unansweredRequests = 0
    /// A request arrives twice, as with an intermediary that repeats it, and the client receives one of the responses. Only requests that
    /// may be repeated, which a POST may not.
    package var repeatedRequests = 0

    package init() {}

    /// A network that loses nothing.
    package static let reliable = NetworkConditions()

    /// A network with faults of all kinds.
    package static let unreliable: NetworkConditions = {
        var conditions = NetworkConditions()
        conditions.refusedConnections = 20
        conditions.unansweredConnections = 10
        conditions.slowConnections = 4
        conditions.silences = 4
        conditions.resets = 4
        conditions.closes = 4
        conditions.stalls = 4
        conditions.unansweredCloses = 50
        conditions.failedRequests = 5
        conditions.unansweredRequests = 5
        conditions.repeatedRequests = 5
        return conditions
    }()
}
