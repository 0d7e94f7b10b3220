public import RealtimeCore

/// The state of a client.
///
/// ```
///   closed ──open──▶ opening ──▶ open ──loss──▶ reconnecting ──▶ open …
///     ▲                 │          │                 │
///     └── end, failure ─┴── end ───┴── end, failure ─┘
/// ```
/// A client that the strategy `online` alone reconnects is closed by a loss, and `opening` when the network is back.
public enum PrimusState: Hashable, Sendable {
    /// The client hasn't been opened, or was ended by the application or the server, with `nil`. Or it has given up, with the reason.
    case closed(PrimusError?)
    /// The client tries to connect, and hasn't been connected since it was opened.
    case opening
    /// The client is connected.
    case open
    /// The connection was lost, and the client tries to establish another one.
    case reconnecting(PrimusError)

    /// The same state as a machine may keep it.
    var forStorage: PrimusState {
        switch self {
        case .closed(let error): .closed(error?.forStorage)
        case .reconnecting(let error): .reconnecting(error.forStorage)
        case .opening, .open: self
        }
    }
}

/// An attempt to connect again.
public struct PrimusRetry: Hashable, Sendable {
    /// The number of the attempt since the loss, from 1.
    public var attempt: Int
    /// The maximum number of attempts; `nil` if it isn't limited.
    public var limit: Int?
    /// The delay before the attempt.
    public var delay: Duration
    /// The time since the loss.
    public var elapsed: Duration

    /// Creates a description of an attempt, for a preview or a test of your code.
    public init(attempt: Int, limit: Int? = nil, delay: Duration, elapsed: Duration) {
        (self.attempt, self.limit, self.delay, self.elapsed) = (attempt, limit, delay, elapsed)
    }
}

/// A change of a client.
public enum PrimusUpdate: Hashable, Sendable {
    /// The state has changed.
    case state(PrimusState)
    /// The dialect of the connection that opens: detected, configured or assumed. Once for each connection.
    case dialect(PrimusDialect)
    /// The kind of the connection that opens. Once for each connection, and once more when its session has moved from polling to a WebSocket.
    case transport(PrimusTransport)
    /// The connection was lost, and the client reconnects. Once for each loss.
    case reconnecting(PrimusError)
    /// An attempt to connect failed, and another one follows. The error says why.
    case attemptFailed(PrimusError)
    /// The next attempt to connect was scheduled.
    case reconnectScheduled(PrimusRetry)
    /// The client tries again after this delay.
    case connectingIn(Duration)
    /// A scheduled attempt begins.
    case reconnect(PrimusRetry)
    /// The client is connected again.
    case reconnected(PrimusRetry)
    /// An attempt to connect exceeded its time limit.
    case connectTimedOut(PrimusError)
    /// The client has used all attempts and gives up.
    case reconnectFailed(PrimusError)
    /// The server has become silent, so that the network is presumed to be gone.
    case offline
    /// The network is back.
    case online
    /// The round-trip time was measured.
    case latency(Duration)
    /// The ID of the spark, the server's side of the connection, has become known.
    case sparkID(String)
    /// The client was ended, by the application, by the server or because it gave up. Exactly once for each open. The error is `nil` if the
    /// application has ended it, and has the code ``PrimusError/Code/closedByServer`` if the server has.
    case ended(PrimusError?)
    /// The client recovered from this error, or it concerns a message that was ignored.
    case error(PrimusError)
}

/// A change of a client's state, with the states before and after it.
public typealias PrimusStateChange = StateChange<PrimusState>

/// A message that a client sent or received, without its secrets; see ``PrimusConnection/frames(buffer:)``.
public typealias PrimusFrameTrace = TracedFrame

/// Where callbacks run.
///
/// Callbacks never run on the thread that reads from the connection, nor under a lock. Whatever the executor, the callbacks of one
/// registration run in order and one at a time.
public typealias PrimusCallbackExecutor = CallbackExecutor

/// The registration of a callback of a client. Releasing it ends the callbacks.
public typealias PrimusObservation = CallbackObservation

/// The events of the client for JavaScript, private ones included, in its order.
///
/// Source: the sequences of events of `primus.js` 8.0.9, observed.
package enum PrimusTrace: Hashable, Sendable {
    package enum ReadyState: String, Hashable, Sendable { case opening, open, end }

    case outgoingOpen, outgoingReconnect, outgoingEnd, outgoingURL, incomingOpen, incomingEnd
    case incomingError(PrimusError)
    case incomingPing(String), outgoingPong(String), incomingPong(String), outgoingPing(String), incomingID(String)
    case outgoingData(TransportMessage)
    /// A packet that was received. For data, the ``PrimusEvent/message(_:)`` follows.
    case incomingData(TransportMessage)
    case readyStateChange(ReadyState)
    case open, close, end
    case error(PrimusError)
    case reconnectScheduled(PrimusRetry), reconnect(PrimusRetry), reconnected(PrimusRetry)
    case reconnectTimeout(PrimusError, PrimusRetry), reconnectFailed(PrimusError, PrimusRetry)
    case timeout(PrimusError)
    case online, offline
}
