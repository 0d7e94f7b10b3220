import Foundation
import Processes
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import TestSupport
import Testing

/// nginx as it is usually deployed in front of a WebSocket server: it ends TLS, and passes the upgrade on.
private struct Nginx {
    /// The path of nginx, or `nil` if it isn't installed. Debian installs it in a folder that isn't in everyone's `PATH`.
    static let path: String? = {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        return (folders + ["/usr/sbin", "/usr/local/sbin"]).map { "\($0)/nginx" }.first {
            FileManager.default.isExecutableFile(atPath: $0)
        }
    }()

    static let skipReason = "install nginx, for example with apt-get install nginx-light"

    private let folder: String
    let port: Int

    /// Creates a configuration on a free port.
    ///
    /// - Parameters:
    ///   - upstream: The port of the server.
    ///   - readTimeout: How long the server may send nothing until nginx closes a connection, in seconds.
    init(upstream: Int, readTimeout: Int) async throws {
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("realtime-nginx-\(UUID().uuidString)").path
        self.port = try await Self.freePort()
        try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: true)
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(self.folder)/\($0);" }
        let configuration = """
            daemon off;
            master_process off;
            pid \(self.folder)/nginx.pid;
            error_log stderr;
            events { worker_connections 64; }
            http {
                access_log off;
                \(temporary.joined(separator: "\n    "))
                server {
                    listen 127.0.0.1:\(self.port) ssl;
                    ssl_certificate \(Vectors.path("certificates/server.pem"));
                    ssl_certificate_key \(Vectors.path("certificates/server-key.pem"));
                    location / {
                        proxy_pass http://127.0.0.1:\(upstream);
                        proxy_http_version 1.1;
                        proxy_set_header Host $host;
                        proxy_set_header Upgrade $http_upgrade;
                        proxy_set_header Connection "upgrade";
                        proxy_read_timeout \(readTimeout)s;
                    }
                }
            }
            """
        try configuration.write(toFile: "\(self.folder)/nginx.conf", atomically: true, encoding: .utf8)
    }

    func remove() { try? FileManager.default.removeItem(atPath: self.folder) }

    /// Starts nginx, and waits until it listens. It runs until the process ends, and with it the input of the shell.
    func start() async throws -> ChildProcess {
        let script = #""$0" -p "$1" -c "$1/nginx.conf" & nginx=$!; cat; kill $nginx; wait $nginx"#
        let process = try ChildProcess(["/bin/sh", "-c", script, try #require(Self.path), self.folder], errors: .discarded)
        do {
            try await eventually("nginx listens") { await self.isListening() }
        } catch {
            process.end()
            throw error
        }
        return process
    }

    /// Returns a port that was free a moment ago: nginx can't choose one by itself.
    private static func freePort() async throws -> Int {
        let listener = SocketListener()
        let port = try await listener.start(ListenerRouter([])).port
        await listener.stop()
        return port
    }

    /// Whether nginx responds, if only that it expects TLS.
    private func isListening() async -> Bool {
        let request = HTTPRequest("GET", Endpoint(scheme: "http", host: "127.0.0.1", port: self.port))
        return (try? await SocketHTTPTransport().send(request, bodyLimit: 1 << 16)) != nil
    }
}

/// A server of this package behind nginx, and a client that trusts only the authority of the tests.
private struct ProxiedServer {
    static let app = PusherApp(id: "1", key: "k", secret: "s")

    let server = PusherServer(app: Self.app, log: .none)
    let nginx: Nginx

    init(readTimeout: Int = 600) async throws {
        self.nginx = try await Nginx(upstream: try await self.server.start(on: SocketListener()).port, readTimeout: readTimeout)
    }

    private static func trust(_ root: String) -> TLSConfiguration {
        var tls = TLSConfiguration()
        tls.trustRoots = .only([.file(Vectors.path("certificates/\(root).pem"))])
        return tls
    }

    func client(trusting root: String = "root", activityTimeout: Duration = .seconds(120)) -> PusherClient {
        var configuration = PusherConfiguration(key: Self.app.key, host: "localhost", port: self.nginx.port)
        configuration.transports.webSocket = SocketWebSocketTransport(tls: Self.trust(root))
        configuration.authorizer = .secret(Self.app.secret)
        configuration.activityTimeout = activityTimeout
        configuration.backoff = Backoff(base: .milliseconds(100), cap: .seconds(1))
        configuration.log = .none
        return PusherClient(configuration)
    }

    func publisher() -> PusherPublisher {
        PusherPublisher(
            appID: Self.app.id, key: Self.app.key, secret: Self.app.secret,
            endpoint: Endpoint(scheme: "https", host: "localhost", port: self.nginx.port),
            http: SocketHTTPTransport(tls: Self.trust("root")))
    }

    func end() async {
        await self.server.stop()
        self.nginx.remove()
    }
}

/// The client and the server with nginx between them, which ends TLS.
@Suite(.usesSockets, .enabled(if: Nginx.path != nil, Comment(rawValue: Nginx.skipReason)), .timeLimit(.minutes(10)))
struct PusherProxyTests {
    @Test func `events pass through a proxy with TLS in both directions`() async throws {
        let proxied = try await ProxiedServer()
        let proxy = try await proxied.nginx.start()
        let client = proxied.client()
        client.connect()
        let orders = try client.subscribe("private-orders")
        let (events, received) = (orders.events("tick"), proxied.server.events)
        try await orders.subscribed()
        // Larger than the buffers of the proxy.
        let text = String(repeating: "ü", count: 4_000)
        try await proxied.publisher().publish("tick", to: "private-orders", data: ["text": text])
        #expect(try await events.first { _ in true }?.decode([String: String].self) == ["text": text])
        try orders.trigger("client-hello", ["text": text])
        let clientEvent = await received.first { if case .clientEvent = $0 { true } else { false } }
        guard case .clientEvent(_, "private-orders", "client-hello", let data)? = clientEvent else {
            Issue.record("The server should have received the client event.")
            return
        }
        #expect(data.contains(text))
        #expect(try await proxied.publisher().channels()["private-orders"] != nil)

        // A client that trusts another authority.
        let stranger = proxied.client(trusting: "other-root")
        let errors = stranger.errors
        stranger.connect()
        let error = await errors.first { _ in true }
        #expect(error?.message.contains("certificate") == true)
        stranger.disconnect()
        client.disconnect()
        await proxied.end()
        proxy.end()
    }

    @Test func `pings keep a connection open that a proxy would close for inactivity`() async throws {
        let proxied = try await ProxiedServer(readTimeout: 3)
        let proxy = try await proxied.nginx.start()
        let client = proxied.client(activityTimeout: .milliseconds(500))
        client.connect()
        let channel = try client.subscribe("prices")
        try await channel.subscribed()
        let received = proxied.server.events
        // One connection is open for longer than the time limit of the proxy. On a busy computer, a ping may be late, so that the proxy closes
        // the connection all the same. Then, the next one counts.
        var (socketID, start, connections) = (client.socketID, ContinuousClock.now, 1)
        for await event in received {
            guard case .received(let sender, let frame) = event, frame.contains("pusher:ping") else { continue }
            if sender != socketID { (socketID, start, connections) = (sender, .now, connections + 1) }
            if connections > 20 || ContinuousClock.now - start > .seconds(4) { break }
        }
        #expect(connections <= 20, "The proxy closes connections in spite of the pings.")
        client.disconnect()
        await proxied.end()
        proxy.end()
    }

    @Test func `a connection that a proxy closes for inactivity is re-established, with a gap`() async throws {
        let proxied = try await ProxiedServer(readTimeout: 1)
        let proxy = try await proxied.nginx.start()
        let client = proxied.client()
        let channel = try client.subscribe("private-orders")
        let (gaps, states) = (channel.gaps, client.states)
        client.connect()
        // Without pings, nothing arrives for a second.
        let gap = try #require(await gaps.first { _ in true })
        #expect(gap.channel == "private-orders")
        var socketIDs: Set<String> = []
        for await state in states {
            if case .connected(let socketID) = state { socketIDs.insert(socketID) }
            if socketIDs.count == 2 { break }
        }
        client.disconnect()
        await proxied.end()
        proxy.end()
    }

    @Test func `a client resubscribes after the restart of a proxy, with a gap`() async throws {
        let proxied = try await ProxiedServer()
        let first = try await proxied.nginx.start()
        let client = proxied.client()
        client.connect()
        let channels = try ["prices", "private-orders"].map { try client.subscribe($0) }
        for channel in channels { try await channel.subscribed() }
        let (events, gaps) = (channels.map { $0.events("tick") }, channels.map(\.gaps))
        first.end()
        let second = try await proxied.nginx.start()
        for (channel, gaps) in zip(channels, gaps) {
            let gap = try #require(await gaps.first { _ in true })
            #expect(gap.channel == channel.name && gap.duration > .zero)
            #expect(channel.state == .subscribed)
        }
        try await proxied.publisher().publish("tick", to: channels.map(\.name), data: "again")
        for sequence in events { #expect(await sequence.first { _ in true }?.data == "again") }
        #expect(proxied.server.socketIDs == [client.socketID])
        client.disconnect()
        await proxied.end()
        second.end()
    }
}
