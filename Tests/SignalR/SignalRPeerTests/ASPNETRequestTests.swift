import PeerSupport
import ProxySupport
import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// Watches what passes through a relay, and counts the POST requests of connections to a hub.
private final class PostWatcher: Sendable {
    private struct State: Sendable {
        /// The connections of the relay on which a POST waits for its response.
        var waiting: Set<Int> = []
        var count = 0
        var most = 0
    }

    private let state = Lock(State())

    /// The number of requests so far.
    var count: Int { self.state.withLock { $0.count } }
    /// The largest number of requests that were in progress at the same time.
    var most: Int { self.state.withLock { $0.most } }

    func observe(_ connection: Int, isRequest: Bool, _ bytes: UnsafeRawBufferPointer) {
        self.state.withLock { state in
            guard isRequest else {
                state.waiting.remove(connection)
                return
            }
            // The rest of a body, or another request. A negotiation has another path.
            guard !state.waiting.contains(connection), bytes.starts(with: "POST /test?".utf8) else { return }
            state.waiting.insert(connection)
            state.count += 1
            state.most = max(state.most, state.waiting.count)
        }
    }
}

/// The requests of the client as ASP.NET Core in its own process receives them.
@Suite(.usesSockets, .requires(.peers("aspnet")), .timeLimit(.minutes(10)))
struct ASPNETRequestTests {
    /// The requests that a server has received, except those of its `/control` API.
    private static func requests(_ server: ASPNETServer) async throws -> [JSONValue] {
        try await server.control("requests", "GET").array ?? []
    }

    // MARK: What requests carry

    /// nginx sets the cookie, as a balancer with sticky sessions does.
    @Test(.requires(.nginx))
    func `every request has the header fields, the token, the cookie and the ID of its connection`() async throws {
        let server = try await ASPNETServer()
        let nginx = try Nginx(to: server.port) { $0.headers = ["Set-Cookie": "route=a; Path=/"] }
        try await nginx.start()
        var earlier: Set<String> = []
        for pair in HubPair.allCases {
            try await server.control("requests?clear=true", "GET")
            let hub = try await server.connected("/auth?room=a%20b", pair) {
                $0.endpoint.port = nginx.port
                $0.accessToken = { "token-anna" }
                $0.headers = ["X-App": "mine"]
            }
            try await expectEqual(hub.invoke("WhoAmI", as: String.self), "anna")
            try await expectEqual(hub.invoke("Query", "room", as: String.self), "a b")
            hub.stop()
            try await eventually { try await server.control("connections", "GET")["live"] == [] }
            // The DELETE of a connection may arrive when its poll has already ended it, during the next connection.
            let requests = try await Self.requests(server).filter { Self.connectionID($0).map(earlier.contains) != true }
            Self.check(requests, of: pair)
            earlier.formUnion(requests.compactMap(Self.connectionID))
        }
        await nginx.stop()
    }

    private static func connectionID(_ request: JSONValue) -> String? {
        request["query"]?.string?.parameter("id")
    }

    private static func check(_ requests: [JSONValue], of pair: HubPair) {
        let (negotiation, others) = (requests.first, requests.dropFirst())
        let methods: Set<String> =
            switch pair.transport {
            case .webSockets: ["GET"]
            case .serverSentEvents: ["GET", "POST"]
            case .longPolling: ["GET", "POST"]
            }
        // The server may end a poll before the client has told it about the end with DELETE.
        expectEqual(Set(others.compactMap { $0["method"]?.string }).subtracting(["DELETE"]), methods, "\(pair)")
        expect(negotiation?["path"] == "/auth/negotiate" && others.allSatisfy { $0["path"] == "/auth" }, "\(pair)")
        expect(requests.allSatisfy { $0["query"]?.string?.hasPrefix("?room=a%20b") == true }, "\(pair)")
        expectEqual(Set(others.map(Self.connectionID)).count, 1, "\(pair)")
        for (name, value) in ["Authorization": "Bearer token-anna", "X-App": "mine", "X-Requested-With": "XMLHttpRequest"] {
            expect(requests.allSatisfy { $0["headers"]?[name]?.string == value }, "\(name), \(pair)")
        }
        expect(negotiation?["headers"]?["Cookie"] == nil && others.allSatisfy { $0["headers"]?["Cookie"] == "route=a" }, "\(pair)")
        if pair.transport == .serverSentEvents {
            let stream = others.first { $0["method"] == "GET" }?["headers"]
            expect(stream?["Accept"] == "text/event-stream" && stream?["Cache-Control"] == "no-cache")
        }
    }

    @Test(arguments: HubPair.overHTTP)
    func `what is sent during a POST waits for the next one, in order`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let watcher = PostWatcher()
        let relay = try TestRelay(to: server.port) { watcher.observe($0, isRequest: $1, $2) }
        let hub = try await server.connected("/test", pair) { $0.endpoint.port = relay.port }
        let echoed = EventRecorder<Int>()
        hub.on("EchoBack") { (_: String, number: Int) in echoed.record(number) }
        let items = AsyncStream<String> { feed in
            for number in 0..<1_000 { feed.yield("\(number)") }
            feed.finish()
        }
        async let joined = hub.invoke("Join", " ", HubUpload(items), as: String.self)
        try await withThrowingTaskGroup { group in
            for number in 0..<1_000 { group.addTask { try await hub.send("Echo", "text", number) } }
            try await group.waitForAll()
        }
        try await expectEqual(joined, (0..<1_000).map(String.init).joined(separator: " "))
        try await eventually { echoed.all.count == 1_000 }
        // The server performs several calls at the same time.
        expectEqual(echoed.all.sorted(), Array(0..<1_000))
        expectEqual(watcher.most, 1)
        // The handshake, the first message, and what waited: fewer than messages.
        expect((3..<1_000).contains(watcher.count), "\(watcher.count)")
        hub.stop()
        await relay.stop()
    }

    // MARK: Tokens of established connections

    /// A server whose polls end after a moment, so that the next one has the revoked token. It ends with the process of the tests.
    private static let shortPolls = Task { try await ASPNETServer(options: ["--extra", "--pollTimeout 200"]) }

    @Test(arguments: HubPair.overHTTP)
    func `a token that is revoked during the connection is replaced, and the connection remains`(pair: HubPair) async throws {
        let server = try await Self.shortPolls.value
        let (asked, user) = (EventRecorder<Void>(), "anna\(pair)")
        let (first, second) = ("token-\(user)", "token-\(user)-3600")
        let hub = try await server.connected("/auth", pair) {
            $0.accessToken = {
                asked.record(())
                return asked.all.count == 1 ? first : second
            }
        }
        let id = hub.connectionID
        try await expectEqual(hub.invoke("WhoAmI", as: String.self), user)
        try await server.revoke(first)
        // A poll notices it by itself. An event stream continues, and the next POST notices it.
        if pair.transport == .longPolling { try await eventually { asked.all.count == 2 } }
        try await expectEqual(hub.invoke("WhoAmI", as: String.self), user)
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        let tokens = try await Self.requests(server).compactMap { $0["headers"]?["Authorization"]?.string }
        expectEqual(tokens.last { $0.contains(user) }, "Bearer \(second)")
        expect(hub.connectionID == id && asked.all.count == 2)
        hub.stop()
    }

    @Test(arguments: HubPair.overHTTP)
    func `a token that remains revoked ends the connection as unauthorized`(pair: HubPair) async throws {
        let server = try await Self.shortPolls.value
        let (asked, token) = (EventRecorder<Void>(), "token-bert\(pair)")
        let hub = try await server.connected("/auth", pair) {
            $0.accessToken = {
                asked.record(())
                return token
            }
        }
        async let end = hubError { try await hub.invoke("Slow", 3_600_000) }
        try await eventually { hub.counters.messagesSent > 1 }
        try await server.revoke(token)
        if pair.transport == .serverSentEvents { await hubError { try await hub.send("InvokeWithoutReturn", "x") } }
        let error = await end
        expect(error?.code == .unauthorized && error?.status == 401)
        expectEqual(error?.message.contains(token), false)
        try await eventually { if case .stopped(let reason) = hub.state { reason?.code == .unauthorized } else { false } }
        expectEqual(asked.all.count, 2)
    }

    @Test(arguments: HubPair.overHTTP)
    func `a client whose token is revoked reconnects as soon as there is another one`(pair: HubPair) async throws {
        let server = try await Self.shortPolls.value
        let (first, second) = ("token-carl\(pair)", "token-dora\(pair)")
        let hasChanged = Lock(false)
        let hub = try await server.connected("/auth", pair) {
            $0.accessToken = { hasChanged.withLock { $0 } ? second : first }
            $0.retry = .backoff(Backoff(base: .milliseconds(20), cap: .milliseconds(20)))
        }
        let (updates, id) = (hub.updates(), hub.connectionID)
        try await server.revoke(first)
        if pair.transport == .serverSentEvents { await hubError { try await hub.send("InvokeWithoutReturn", "x") } }
        let loss = await updates.first { if case .reconnecting = $0 { true } else { false } }
        guard case .reconnecting(let error)? = loss else { return expect(false, "the connection should be lost") }
        expectEqual(error.code, .unauthorized)
        hasChanged.withLock { $0 = true }
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        expect(hub.connectionID != id)
        try await expectEqual(hub.invoke("WhoAmI", as: String.self), "dora\(pair)")
        hub.stop()
    }

    @Test(arguments: HubPair.overHTTP)
    func `a token that expires during the connection ends it, and the next start is unauthorized`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let (hub, error) = try await server.expired(pair, user: "erna\(pair)")
        expect([nil, .unauthorized, .closedByServer].contains(error?.code), "\(error?.message ?? "")")
        // The server may close it a moment before the token expires.
        try await eventually {
            hub.stop()
            return await hubError { try await hub.start() }?.code == .unauthorized
        }
    }
}

extension String {
    /// The value of a parameter of a query.
    fileprivate func parameter(_ name: String) -> String? {
        self.split { "?&".contains($0) }.first { $0.hasPrefix("\(name)=") }.map(String.init)
    }
}
