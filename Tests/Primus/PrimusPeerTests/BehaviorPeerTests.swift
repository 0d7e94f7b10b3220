import PeerSupport
import PrimusClient
import RealtimeCoding
import RealtimeCore
import RealtimeTesting
import RealtimeTransports
import TestSupport
import Testing

/// Behaviors of the client with servers of Primus 8 and 6 that `ClientPeerTests` doesn't test, over each transformer. All behaviors, with the
/// embedded server and the manual clock, are in `SocketBehaviorTests`, `ReconnectBehaviorTests` and `ServerBehaviorTests`.
@Suite(
    .usesSockets, .timeLimit(.minutes(10)), .requires(.peers("primus", "primus6")))
struct BehaviorPeerTests {
    @Test(arguments: Dialect.some) func `writes before the connection arrive in order`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) { _, primus in
            let messages = primus.messages.makeAsyncIterator()
            for number in 0..<11 { primus.enqueue(number) }
            for number in 0..<11 {
                let value = try await messages.next()?.value
                expectEqual(value?.int, number)
            }
        }
    }

    @Test(arguments: Dialect.some)
    func `a client opens and ends again and again, and leaves no spark`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) { _, primus in
            // A server of engine.io may notice only by its heartbeat that a client has gone during the handshake.
            let endsEarly = dialect.transformer != "engine.io"
            for _ in 0..<10 {
                try await primus.opened(within: .seconds(300))
                primus.end()
                expectEqual(primus.state, .closed(nil))
                primus.open()
                guard endsEarly else { continue }
                primus.end()
                primus.open()
            }
            try await primus.opened(within: .seconds(300))
            primus.end()
            try await eventually { try await primus.control("sparks", method: "GET") == "[]" }
        }
    }

    @Test(arguments: Dialect.some)
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
            expectEqual(first, ["in": ["out": "a"]])
            let second = try await messages.next()?.value
            expectEqual(second, ["in": ["out": "b"]])
        }
    }

    // The server of SockJS has no limit for requests.
    @Test(
        arguments: Dialect.kinds.filter { $0.transformer != "sockjs" || !$0.isOverHTTP }.map { $0.with("--maxLength", "1000") })
    func `a message above the limit of the server is a typed error`(dialect: Dialect) async throws {
        let stayed = EventRecorder<Bool>()
        try await ClientPeerTests().with(dialect) {
            $0.retry = .none
            $0.log = LogSink(minimumLevel: .info) { _, _, text in if text.contains("stays with polling") { stayed.record(true) } }
        } _: { _, primus in
            try await primus.opened(within: .seconds(300))
            // A session stays with polling if the move takes longer than ten seconds.
            if dialect.moves { try await eventually { primus.transport == .webSockets || !stayed.all.isEmpty } }
            // A server of engine.io 4 reports its limit, so that the client refuses the message itself.
            let (text, isPolling) = (String(repeating: "x", count: 5_000), primus.transport == .polling)
            // The one of engine.io 3 closes the socket of a request that is too long, without an answer.
            let isReset = dialect.server == "primus6" && isPolling
            do throws(PrimusError) {
                try await primus.write(text)
                expect(!isReset)
            } catch {
                guard isReset else { return expect(error.code == .messageTooLarge && primus.isConnected) }
                expectEqual(error.code, .connectionLost)
            }
            let states = primus.states.makeAsyncIterator()
            while let state = await states.next() {
                guard case .closed(let error) = state else { continue }
                return expectEqual(error?.code, (isReset ? .connectionLost : .messageTooLarge), "\(String(describing: error))")
            }
        }
    }

    @Test(arguments: Dialect.losses)
    func `a server that refuses newcomers says why, and gets its clients back later`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) {
            $0.retry = .quick
        } _: { _, primus in
            try await primus.opened(within: .seconds(300))
            try await primus.control("refuse?status=503")
            let updates = primus.updates().makeAsyncIterator()
            try await primus.control("kill")
            while let update = await updates.next() {
                guard case .attemptFailed(let error) = update else { continue }
                expect(error.status == 503 && error.serverMessage == "refused on request", "\(error)")
                break
            }
            try await primus.control("accept")
            try await primus.opened(within: .seconds(300))
        }
    }

    @Test(arguments: Dialect.losses)
    func `a server that stops for good ends its clients, and one that restarts gets them back`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) {
            $0.retry = .quick
        } _: { peer, primus in
            try await primus.opened(within: .seconds(300))
            let endpoint = primus.configuration.endpoint
            let updates = primus.updates().makeAsyncIterator()
            try await primus.control("closeReconnect")
            while let update = await updates.next() { if case .attemptFailed = update { break } }
            peer.stop()
            let next = try Peer(
                dialect.server, dialect.with("--port", "\(endpoint.port)").serverOptions)
            _ = try await next.ready()
            try await primus.opened(within: .seconds(300))
            try await primus.control("close")
            try await eventually { primus.state == .closed(nil) }
            next.stop()
        }
    }

    @Test(arguments: Dialect.losses.filter { $0.server == "primus" }.map { $0.with("--ping", "400") })
    func `a server that stops its pings is left`(dialect: Dialect) async throws {
        try await ClientPeerTests().with(dialect) {
            $0.retry = .quick
        } _: { _, primus in
            let updates = primus.updates().makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            try await primus.control("stopPings")
            while let update = await updates.next() { if update == .offline { break } }
            while let update = await updates.next() { if case .reconnected = update { break } }
        }
    }

    @Test(arguments: Dialect.losses.filter { $0.server == "primus6" && !$0.moves })
    func `a server that no longer answers the client's pings is left`(dialect: Dialect) async throws {
        let transport = SilentTransport(.standard)
        try await ClientPeerTests().with(dialect) {
            $0.retry = .quick
            $0.transports.webSocket = transport
            $0.transports.http = transport
            ($0.pingInterval, $0.pongTimeout) = (.milliseconds(200), .milliseconds(300))
        } _: { _, primus in
            let updates = primus.updates().makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            transport.isSilent = true
            while let update = await updates.next() { if update == .offline { break } }
            transport.isSilent = false
            while let update = await updates.next() { if case .reconnected = update { break } }
        }
    }

    @Test(arguments: Dialect.losses.filter { $0.isOverHTTP && !$0.moves })
    func `a session that another server doesn't know is lost, and the client begins one there`(dialect: Dialect) async throws {
        let other = try Peer(dialect.server, dialect.serverOptions)
        let port = try #require(try await other.ready()["port"]?.int)
        let balancer = Balancer(Transports.standard.http)
        try await ClientPeerTests().with(dialect) {
            $0.retry = .quick
            $0.transports.http = balancer
        } _: { _, primus in
            try await primus.opened(within: .seconds(300))
            let updates = primus.updates().makeAsyncIterator()
            let messages = primus.messages.makeAsyncIterator()
            balancer.lead(to: port)
            primus.enqueue(["cmd": "silent"])
            while let update = await updates.next() {
                guard case .reconnecting(let error) = update else { continue }
                expectEqual(error.code, .connectionLost)
                if dialect.transformer == "engine.io" {
                    expect(error.status == 400 && error.serverCode == .engineIOUnknownSession, "\(error)")
                } else {
                    // A server of SockJS refuses the message, unless it has begun another session with the request for messages before.
                    expect(error.status == 404 || error.serverCode == .sockJSSessionLost, "\(error)")
                }
                break
            }
            while let update = await updates.next() { if case .reconnected = update { break } }
            try await primus.write("there")
            try await expectEqual(messages.next()?.value, "there")
            let sparks = try await primus.control("sparks", method: "GET", port: port)
            try await expect(primus.id(within: .seconds(300)).isEmpty == false && sparks.contains(primus.sparkID ?? "-"))
        }
        other.stop()
    }

    @Test(arguments: Dialect.losses.filter { $0.moves })
    func `a WebSocket that reaches another server leaves the session with polling`(dialect: Dialect) async throws {
        let other = try Peer(dialect.server, dialect.serverOptions)
        let port = try #require(try await other.ready()["port"]?.int)
        let stayed = Signal()
        try await ClientPeerTests().with(dialect) {
            $0.transports.webSocket = OtherServer(transport: Transports.standard.webSocket, port: port)
            $0.log = LogSink(minimumLevel: .info) { _, _, text in if text.contains("stays with polling") { stayed.send() } }
        } _: { _, primus in
            let messages = primus.messages.makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            let id = try await primus.id(within: .seconds(300))
            await stayed.wait()
            try await primus.write("still here")
            try await expectEqual(messages.next()?.value, "still here")
            expect(primus.transport == .polling && primus.sparkID == id)
        }
        other.stop()
    }
}
