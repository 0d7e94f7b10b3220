import RealtimeSystem

/// The access of a client to the network: the transports for WebSocket connections and HTTP requests, the clock for both, and the monitor
/// of the network path.
public struct Transports: Sendable {
    /// The transport for WebSocket connections.
    public var webSocket: any WebSocketTransport
    /// The transport for HTTP requests, for example to an authorization endpoint.
    public var http: any HTTPTransport
    /// The monitor that tells the client when the network path has changed, or `nil` to rely on the client's timers.
    ///
    /// The default is a monitor of the system's network path on Apple platforms, and `nil` elsewhere.
    public var networkPath: NetworkPathMonitor?
    package let time: any TimeSource
    /// Returns a seed for a client's random numbers.
    package let seed: @Sendable () -> UInt64
    private let fixedEpoch: Int64?

    /// The milliseconds from the beginning of 1970 (UTC) to the instant zero of ``time``.
    package var epoch: Int64 { self.fixedEpoch ?? WallClock.millisecondsSince1970 - self.time.now.nanoseconds / 1_000_000 }

    package init(
        webSocket: any WebSocketTransport, http: any HTTPTransport, time: any TimeSource, networkPath: NetworkPathMonitor? = nil,
        epoch: Int64? = nil, seed: @escaping @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }
    ) {
        self.webSocket = webSocket
        self.http = http
        self.networkPath = networkPath
        self.time = time
        self.fixedEpoch = epoch
        self.seed = seed
    }
}
