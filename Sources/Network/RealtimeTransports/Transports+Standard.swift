public import RealtimeCore
#if os(Linux)
import RealtimeSockets
#else
import RealtimeURLSession
#endif

extension Transports {
    /// The platform's default transports: the package's own sockets on Linux, `URLSession` and the system's network path on Apple
    /// platforms.
    public static let standard: Transports = {
        #if os(Linux)
        Transports(webSocket: SocketWebSocketTransport(), http: SocketHTTPTransport(), time: EventLoop.shared)
        #else
        Transports(
            webSocket: URLSessionWebSocketTransport(), http: URLSessionHTTPTransport(), time: SystemTime.shared,
            networkPath: NetworkPathMonitor.system)
        #endif
    }()
}
