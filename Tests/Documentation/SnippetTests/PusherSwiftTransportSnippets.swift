import PusherSwift
import RealtimeSockets

func pusherSwiftTransports(_ options: PusherClientOptions, _ proxy: ProxyConfiguration) {
    // snippet:pusherswift-transports
    var transports = Transports.standard
    transports.webSocket = SocketWebSocketTransport(proxy: proxy)
    transports.http = SocketHTTPTransport(proxy: proxy)
    options.transports = transports
    // end
}
