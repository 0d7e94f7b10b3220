import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets

// The snippets of the article TransportsAndTLS.

func clientTLS() {
    // snippet:transports-root
    var tls = TLSConfiguration()
    tls.trustRoots = .systemAnd([.file("/etc/myservice/root.pem")])

    var configuration = PusherConfiguration(key: "app-key", host: "realtime.example.org")
    configuration.transports.webSocket = SocketWebSocketTransport(tls: tls)
    configuration.transports.http = SocketHTTPTransport(tls: tls)
    // end
    _ = configuration
}

func proxyOfAURL() throws {
    // snippet:proxy-configuration
    let proxy = try ProxyConfiguration("http://user:password@proxy.example.com:3128")
    let transport = SocketWebSocketTransport(proxy: proxy)
    // end
    _ = transport
}

func proxyOfTransports() {
    // snippet:transports-proxy
    let credentials = ProxyConfiguration.Credentials(username: "user", password: "password")
    var proxy = ProxyConfiguration.http(host: "proxy.example.com", port: 3128, credentials: credentials)
    proxy.exceptions = ["localhost", "internal.example.com", "10.0.0.0/8"]

    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    configuration.transports.webSocket = SocketWebSocketTransport(proxy: proxy)
    configuration.transports.http = SocketHTTPTransport(proxy: proxy)
    // end
    _ = configuration
}

func keepAlive() {
    // snippet:transports-keep-alive
    var limits = KeepAliveLimits()
    limits.unrepeatableIdleTime = .zero
    let http = SocketHTTPTransport(keepAlive: limits)
    // end
    _ = http
}

func serverTLS(_ server: PusherServer) async throws {
    // snippet:transports-listener
    let identity = TLSIdentity(certificateChain: .file("server.pem"), privateKey: .file("server-key.pem"))
    let address = try await server.start(on: SocketListener(host: "0.0.0.0", port: 8443, tls: TLSServerConfiguration(identity)))
    print("wss://\(address.host):\(address.port)")
    // end
}

func unbufferedResponse(_ responder: any HTTPResponder) {
    // snippet:transports-unbuffered
    responder.begin(HTTPResponseHead(status: 200, headers: ["X-Accel-Buffering": "no", "Cache-Control": "no-cache"]))
    responder.write(Array("hello\n".utf8))
    // end
}

/// The loop of an application, for the next snippet.
struct MyEventLoop: Sendable {}

/// Stands for an exchange that the application implements.
final class MyExchange: HTTPExchange {
    init(_ request: HTTPRequest, _ id: ExchangeID, _ events: any HTTPExchangeEvents, on loop: MyEventLoop) {}

    func start() {}
    func pauseReading() {}
    func resumeReading() {}
    func cancel() {}
}

// snippet:custom-http-transport
struct EventLoopTransport: HTTPExchangeTransport {
    let loop: MyEventLoop

    func makeExchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange {
        MyExchange(request, id, events, on: self.loop)
    }
}
// end
