import PusherChannels
import PusherServer
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

func serverTLS(_ server: PusherServer) async throws {
    // snippet:transports-listener
    let identity = TLSIdentity(certificateChain: .file("server.pem"), privateKey: .file("server-key.pem"))
    let address = try await server.start(on: SocketListener(host: "0.0.0.0", port: 8443, tls: TLSServerConfiguration(identity)))
    print("wss://\(address.host):\(address.port)")
    // end
}
