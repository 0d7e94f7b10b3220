/// The transports of a client: WebSocket connections, HTTP requests and the clock for both.
public struct Transports: Sendable {
    /// The transport for WebSocket connections.
    public var webSocket: any WebSocketTransport
    /// The transport for HTTP requests, for example to an authorization endpoint.
    public var http: any HTTPTransport
    package let time: any TimeSource
    /// Returns a seed for a client's random numbers.
    package let seed: @Sendable () -> UInt64

    package init(
        webSocket: any WebSocketTransport, http: any HTTPTransport, time: any TimeSource,
        seed: @escaping @Sendable () -> UInt64 = { UInt64.random(in: .min ... .max) }
    ) {
        self.webSocket = webSocket
        self.http = http
        self.time = time
        self.seed = seed
    }
}
