import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import SignalRClient
import SignalRTesting
import SignalRWire
import TestSupport
import Testing

/// Clients of a server with TLS, whose certificate is signed by a root certificate that the system doesn't trust.
@Suite(.usesSockets, .requires(.openSSL), .timeLimit(.minutes(10)))
struct HubTLSTests {
    private struct Running {
        let server: SignalRServer
        let address: ListenerAddress
        /// For each request that arrived, whether it was a negotiation.
        let requests: EventRecorder<Bool>

        func url(_ scheme: String) -> String { "\(scheme)://\(self.address.host):\(self.address.port)/chat" }

        var rejection: String { "The certificate of \(self.address.host):\(self.address.port) was rejected" }
    }

    private static let trusted = TLSConfiguration.TrustRoots.only([Self.pem("root")])

    private static func pem(_ name: String) -> PEM { .file(Vectors.path("certificates/\(name).pem")) }

    private static func start() async throws -> Running {
        var configuration = SignalRServerConfiguration()
        configuration.allowLongTimes()
        let requests = EventRecorder<Bool>()
        var hooks = SignalRServerHooks()
        hooks.authenticate = { request in
            requests.record(request.isNegotiation)
            return request.token == "secret-token" ? .accept(userID: "anna") : .reject(status: 401)
        }
        let server = SignalRServer(configuration: configuration, hooks: hooks, log: .none)
        let hub = server.hub("/chat")
        hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        hub.on("Echo") { (caller, text: String) in text }
        hub.on("Ask") { (caller, method: String, question: String) async throws -> String in
            try await caller.clients.caller.invoke(method, question)
        }
        hub.stream("Count") { (caller, count: Int) in
            AsyncStream<Int> { continuation in
                for number in 0..<count { continuation.yield(number) }
                continuation.finish()
            }
        }
        let identity = TLSIdentity(certificateChain: Self.pem("server"), privateKey: Self.pem("server-key"))
        let address = try await server.start(on: SocketListener(tls: TLSServerConfiguration(identity), limits: .forTests))
        return Running(server: server, address: address, requests: requests)
    }

    /// The platform's transports, except that WebSockets and HTTP requests trust the given certificates.
    private static func transports(
        webSocket: TLSConfiguration.TrustRoots, http: TLSConfiguration.TrustRoots
    ) -> Transports {
        var transports = Transports.standard
        var tls = TLSConfiguration()
        tls.trustRoots = webSocket
        transports.webSocket = SocketWebSocketTransport(tls: tls)
        tls.trustRoots = http
        transports.http = SocketHTTPTransport(tls: tls)
        return transports
    }

    private static func configuration(_ url: String, _ transports: Transports) throws -> HubConfiguration {
        var configuration = try HubConfiguration(url: url)
        configuration.transports = transports
        configuration.accessToken = { "secret-token" }
        configuration.log = .none
        configuration.allowLongTimes()
        return configuration
    }

    private static func connection(_ url: String, _ transports: Transports, _ hubProtocol: HubProtocolType = .json) -> HubConnection {
        var options = HttpConnectionOptions()
        options.accessTokenFactory = { "secret-token" }
        options.transport = .webSockets
        return HubConnectionBuilder()
            .withUrl(url: url, options: options)
            .withTransports(transports)
            .withHubProtocol(hubProtocol: hubProtocol)
            .withLogLevel(logLevel: .error)
            .withConfiguration { $0.allowLongTimes() }
            .build()
    }

    // MARK: Clients

    @Test(arguments: ["https", "wss"], HubFormat.allCases)
    func `a client that trusts the root certificate calls, is called and reconnects`(scheme: String, format: HubFormat) async throws {
        let running = try await Self.start()
        let transports = Self.transports(webSocket: Self.trusted, http: Self.trusted)
        var configuration = try Self.configuration(running.url(scheme), transports)
        configuration.format = format
        configuration.retry = .delays([.zero, .milliseconds(10), .seconds(1)])
        let client = HubClient(configuration)
        client.on("Answer") { (question: String) in "\(question) because" }
        try await client.start()
        expectEqual(running.requests.all, [true, false])
        try await expectEqual(client.invoke("Add", 40, 2, as: Int.self), 42)
        // More than a record of TLS contains.
        let text = String(repeating: "é", count: 10_000)
        try await expectEqual(client.invoke("Echo", text, as: String.self), text)
        try await expectEqual(client.invoke("Ask", "Answer", "why", as: String.self), "why because")
        var numbers: [Int] = []
        for try await number in try client.stream("Count", 1_000, of: Int.self) { numbers.append(number) }
        expectEqual(numbers, Array(0..<1_000))

        let (updates, first) = (client.updates(), client.connectionID)
        running.server.drop(try #require(first))
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        expect(client.connectionID != nil && client.connectionID != first)
        expectEqual(running.requests.all, [true, false, true, false])
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        client.stop()
        await running.server.stop()
    }

    /// Without a root, the client trusts the certificates of the system.
    @Test(arguments: [nil, "other-root"] as [String?], [false, true])
    func `a client without the root certificate doesn't start, and says why`(root: String?, trustsForHTTP: Bool) async throws {
        let running = try await Self.start()
        let roots = root.map { TLSConfiguration.TrustRoots.only([Self.pem($0)]) } ?? .system
        let transports = Self.transports(webSocket: roots, http: trustsForHTTP ? Self.trusted : roots)
        var configuration = try Self.configuration(running.url("https"), transports)
        configuration.allowedTransports = .webSockets
        let client = HubClient(configuration)
        let error = await #expect(throws: HubError.self) { try await client.start() }
        expect(error?.code == .connectionLost && error?.transportError?.code == .certificateRejected)
        expectEqual(error?.message.contains(running.rejection), true, "\(error?.message ?? "no error")")
        if root != nil {
            expectEqual(error?.message.contains("add the root certificate to `TLSConfiguration.trustRoots` of the transports"), true)
        }
        expectEqual(client.state, .stopped(error))
        // Nothing was sent, and so no token, to a server that isn't trusted.
        expectEqual(running.requests.all, (trustsForHTTP ? [true] : []))
        await running.server.stop()
    }

    @Test func `without a negotiation, only the WebSocket needs the root certificate`() async throws {
        let running = try await Self.start()
        let transports = Self.transports(webSocket: Self.trusted, http: .only([Self.pem("other-root")]))
        var configuration = try Self.configuration(running.url("wss"), transports)
        configuration.allowedTransports = .webSockets
        configuration.skipsNegotiation = true
        let client = HubClient(configuration)
        try await client.start()
        expectEqual(running.requests.all, [false])
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        client.stop()
        await running.server.stop()
    }

    // MARK: Connections with the API of signalr-client-swift

    @Test(arguments: ["https", "wss"], HubFormat.allCases)
    func `a connection whose transports trust the root certificate calls and is called`(scheme: String, format: HubFormat) async throws {
        let running = try await Self.start()
        let transports = Self.transports(webSocket: Self.trusted, http: Self.trusted)
        let connection = Self.connection(running.url(scheme), transports, format == .json ? .json : .messagePack)
        await connection.on("Answer") { (question: String) in "\(question) because" }
        try await connection.start()
        expectEqual(running.requests.all, [true, false])
        let sum: Int = try await connection.invoke(method: "Add", arguments: 40, 2)
        expectEqual(sum, 42)
        let answer: String = try await connection.invoke(method: "Ask", arguments: "Answer", "why")
        expectEqual(answer, "why because")
        var numbers: [Int] = []
        let stream: any StreamResult<Int> = try await connection.stream(method: "Count", arguments: 3)
        for try await number in stream.stream { numbers.append(number) }
        expectEqual(numbers, [0, 1, 2])
        await connection.stop()
        await running.server.stop()
    }

    @Test(arguments: [false, true])
    func `a connection without the root certificate doesn't start, and says why`(trustsForHTTP: Bool) async throws {
        let running = try await Self.start()
        let transports = Self.transports(webSocket: .system, http: trustsForHTTP ? Self.trusted : .system)
        let connection = Self.connection(running.url("https"), transports)
        await #expect {
            try await connection.start()
        } throws: { error in
            guard case SignalRError.failedToStartConnection(let text) = error else { return false }
            return text.contains(running.rejection)
        }
        await expectEqual(connection.state(), .Stopped)
        expectEqual(running.requests.all, (trustsForHTTP ? [true] : []))
        await running.server.stop()
    }
}
