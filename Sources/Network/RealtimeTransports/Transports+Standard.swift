public import RealtimeCore
#if os(Linux)
import RealtimeSockets
#else
import RealtimeURLSession
#endif

extension Transports {
    /// What the platform does best: the package's own sockets on Linux, URLSession on Apple's systems.
    public static let standard: Transports = {
        #if os(Linux)
        Transports(webSocket: SocketWebSocketTransport(), http: SocketHTTPTransport(), time: EventLoop.shared)
        #else
        Transports(webSocket: URLSessionWebSocketTransport(), http: URLSessionHTTPTransport(), time: SystemTime.shared)
        #endif
    }()
}
