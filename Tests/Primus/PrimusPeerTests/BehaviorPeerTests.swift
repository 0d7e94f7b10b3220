import PeerSupport
import PrimusClient
import RealtimeCore
import RealtimeTesting
import RealtimeTransports
import TestSupport
import Testing

/// Behaviors of the client with servers of Primus 8 and 6 that `ClientPeerTests` doesn't test, over each transformer. All behaviors, with the
/// embedded server and the manual clock, are in `SocketBehaviorTests`, `ReconnectBehaviorTests` and `ServerBehaviorTests`.
@Suite(
    .usesSockets, .timeLimit(.minutes(10)), .enabled(if: Peer.starts("primus", "primus6"), "\(Peer.skipReason): primus, primus6"))
struct BehaviorPeerTests {
    typealias Dialect = ClientPeerTests.Dialect
    private let quick = PrimusRetryPolicy.backoff(PrimusBackoff(minimum: .milliseconds(20), maximum: .milliseconds(100)))

    /// The dialects, with options of the server.
    private static func some(_ options: String...) -> [Dialect] {
        ClientPeerTests.some.map { dialect in
            var dialect = dialect
            dialect.options = options
            return dialect
        }
    }

    /// Calls the server's control API.
    @discardableResult
    private func control(_ primus: PrimusConnection, _ command: String, method: String = "POST") async throws -> String {
        let endpoint = primus.configuration.endpoint
        let target = Endpoint(scheme: "http", host: endpoint.host, port: endpoint.port, target: "/control/\(command)")
        let response = try await Transports.standard.http.send(HTTPRequest(method, target))
        return String(decoding: response.body, as: UTF8.self)
    }

    @Test(arguments: ClientPeerTests.some) func `writes before the connection arrive in order`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) { _, primus in
            let messages = primus.messages.makeAsyncIterator()
            for number in 0..<11 { primus.enqueue(number) }
            for number in 0..<11 {
                let value = try await messages.next()?.value
                #expect(value?.int == number)
            }
        }
    }

    @Test(arguments: ClientPeerTests.some)
    func `a client opens and ends again and again, and leaves no spark`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) { _, primus in
            // A server of engine.io may notice only by its heartbeat that a client has gone during the handshake.
            let endsEarly = dialect.transformer != "engine.io"
            for _ in 0..<10 {
                try await primus.opened(within: .seconds(300))
                primus.end()
                #expect(primus.state == .closed(nil))
                primus.open()
                guard endsEarly else { continue }
                primus.end()
                primus.open()
            }
            try await primus.opened(within: .seconds(300))
            primus.end()
            try await eventually { try await self.control(primus, "sparks", method: "GET") == "[]" }
        }
    }

    @Test(arguments: ClientPeerTests.some)
    func `transforms rewrite and veto what is sent and received`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) { configuration in
            configuration.transforms = [
                .outgoing { message in
                    message = ["out": message]
                    return message["out"] != "secret"
                },
                .incoming { message in
                    message = ["in": message]
                    return message["in"]?["out"] != "hidden"
                },
            ]
        } _: { _, primus in
            let messages = primus.messages.makeAsyncIterator()
            for value in ["a", "secret", "hidden", "b"] { primus.enqueue(value) }
            let first = try await messages.next()?.value
            #expect(first == ["in": ["out": "a"]])
            let second = try await messages.next()?.value
            #expect(second == ["in": ["out": "b"]])
        }
    }

    @Test(arguments: Self.some("--maxLength", "1000"))
    func `a message above the limit of the server is a typed error`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) {
            $0.retry = .none
        } _: { _, primus in
            try await primus.opened(within: .seconds(300))
            // A server of engine.io 4 reports its limit, so that the client refuses the message itself.
            let text = String(repeating: "x", count: 5_000)
            do throws(PrimusError) {
                try await primus.write(text)
            } catch {
                return #expect(error.code == .messageTooLarge && primus.isConnected)
            }
            let states = primus.states.makeAsyncIterator()
            while let state = await states.next() {
                guard case .closed(let error) = state else { continue }
                return #expect(error?.code == .messageTooLarge, "\(String(describing: error))")
            }
        }
    }

    @Test(arguments: ClientPeerTests.some)
    func `a server that refuses newcomers says why, and gets its clients back later`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) {
            $0.retry = self.quick
        } _: { _, primus in
            try await primus.opened(within: .seconds(300))
            try await self.control(primus, "refuse?status=503")
            let updates = primus.updates().makeAsyncIterator()
            try await self.control(primus, "kill")
            while let update = await updates.next() {
                guard case .attemptFailed(let error) = update else { continue }
                #expect(error.status == 503 && error.serverMessage == "refused on request", "\(error)")
                break
            }
            try await self.control(primus, "accept")
            try await primus.opened(within: .seconds(300))
        }
    }

    @Test(arguments: ClientPeerTests.some)
    func `a server that stops for good ends its clients, and one that restarts gets them back`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) {
            $0.retry = self.quick
        } _: { peer, primus in
            try await primus.opened(within: .seconds(300))
            let endpoint = primus.configuration.endpoint
            let updates = primus.updates().makeAsyncIterator()
            try await self.control(primus, "closeReconnect")
            while let update = await updates.next() { if case .attemptFailed = update { break } }
            peer.stop()
            let next = try Peer(
                dialect.server, ["--transformer", dialect.transformer, "--parser", dialect.parser, "--port", "\(endpoint.port)"])
            _ = try await next.ready()
            try await primus.opened(within: .seconds(300))
            try await self.control(primus, "close")
            try await eventually { primus.state == .closed(nil) }
            next.stop()
        }
    }

    @Test(arguments: Self.some("--ping", "400").filter { $0.server == "primus" })
    func `a server that stops its pings is left`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) {
            $0.retry = self.quick
        } _: { _, primus in
            let updates = primus.updates().makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            try await self.control(primus, "stopPings")
            while let update = await updates.next() { if update == .offline { break } }
            while let update = await updates.next() { if case .reconnected = update { break } }
        }
    }
}
