/// What carries a client's connections: WebSockets, HTTP requests, and the time that goes with them.
public struct Transports: Sendable {
    /// Makes WebSockets.
    public var webSocket: any WebSocketTransport
    /// Sends requests, to an authorisation endpoint for example.
    public var http: any HTTPTransport
    package let time: any TimeSource
    /// Where random numbers come from: another one for each client.
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

extension InMemoryNetwork {
    /// Carries a client's connections over this network.
    ///
    /// - Parameter seed: makes the waits between attempts the same in each run.
    public func transports(seed: UInt64 = 1) -> Transports {
        Transports(webSocket: self.webSocket, http: self.http, time: self.time, seed: { seed })
    }
}
