import PeerSupport
import PrimusClient
import RealtimeCoding
import RealtimeCore
import RealtimeTesting
import RealtimeTransports
import TestSupport
import Testing

/// The client against servers of Primus 8 and 6, with each transformer and parser that works there.
@Suite(
    .usesSockets, .timeLimit(.minutes(10)), .requires(.peers("primus", "primus6")))
struct ClientPeerTests {
    /// One of each kind of connection, and those whose framing depends on the packets.
    private static let burstDialects = Dialect.all.filter { dialect in
        let isBinary = dialect.connections == [.polling] || dialect.transformer == "websockets"
        return dialect.parser == "json" || (dialect.parser == "binary" && isBinary)
            || (dialect.server == "primus" && dialect.transformer == "websockets")
    }

    /// Starts a server, and opens a client of it.
    func with(
        _ dialect: Dialect, _ configure: (inout PrimusConfiguration) throws -> Void = { _ in },
        _ body: (Peer, PrimusConnection) async throws -> Void
    ) async throws {
        let peer = try Peer(dialect.server, dialect.serverOptions)
        var configuration = try dialect.configuration(try await peer.ready()["url"]?.string ?? "")
        try configure(&configuration)
        let primus = PrimusConnection(configuration)
        primus.open()
        try await body(peer, primus)
        primus.end()
        peer.stop()
    }

    /// Starts a server, and opens a client of it whose connection must last.
    func withLasting(
        _ dialect: Dialect, _ configure: @escaping @Sendable (inout PrimusConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (PrimusConnection) async throws -> Void
    ) async throws {
        let peer = try Peer(dialect.server, dialect.serverOptions)
        let url = try await peer.ready()["url"]?.string ?? ""
        try await ConnectionWatch.run { watch in
            var configuration = try dialect.configuration(url)
            configure(&configuration)
            let primus = watch.client(configuration)
            defer { primus.end() }
            primus.open()
            try await body(primus)
        }
        peer.stop()
    }

    /// Starts a server, and calls a closure for each kind of connection to it, one after the other.
    private func withEach(_ dialect: Dialect, _ body: (_ client: Dialect, _ url: String) async throws -> Void) async throws {
        let peer = try Peer(dialect.server, dialect.optionsForClients)
        let url = try await peer.ready()["url"]?.string ?? ""
        for client in dialect.clients { try await body(client, url) }
        peer.stop()
    }

    @Test(arguments: Dialect.servers)
    func `values of every kind come back as they were`(dialect: Dialect) async throws {
        let values = Self.values(dialect)
        try await self.withEach(dialect) { client, url in
            try await ConnectionWatch.run { watch in
                let primus = watch.client(try client.configuration(url))
                defer { primus.end() }
                primus.open()
                let messages = primus.messages.makeAsyncIterator()
                try await primus.opened(within: .seconds(300))
                for (index, value) in values.enumerated() {
                    // The other values go over the WebSocket.
                    if index == 5, client.moves { try await eventually("\(client)") { primus.transport == .webSockets } }
                    try await primus.write(value)
                    try await expectEqual(messages.next()?.value, value, "\(client)")
                }
                let transport = client.moves ? .webSockets : client.connections?.first?.transport ?? .webSockets
                expectEqual(primus.transport, transport, "\(client)")
            }
        }
    }

    private static func values(_ dialect: Dialect) -> [PrimusValue] {
        var values: [PrimusValue] = [
            0, 1, -1, 255, 65_536, 2_147_483_648, 9_007_199_254_740_991, 0.5, -1.5e-300, true,
            "", "text", "\"quoted\" \\ \n", "ä€😀\u{2028}", [1, [nil, "x"]], ["a": ["b": []]],
            .string(String(repeating: "long ", count: 20_000)),
        ]
        // The parser json passes on a binary message, and the server writes its buffer as an object, which is bytes again.
        if dialect.carriesBytes || dialect.transformer != "sockjs" { values.append(.bytes([0, 1, 255])) }
        if dialect.parser == "ejson" || dialect.parser == "msgpack" {
            values += [.date(PrimusDate(milliseconds: 1_700_000_000_123)), .double(.infinity), .expression(pattern: "a+", flags: "g")]
        }
        return values
    }

    @Test(arguments: Self.burstDialects)
    func `a burst arrives complete and in order, and so does one that is written`(dialect: Dialect) async throws {
        try await self.withLasting(dialect) { primus in
            let messages = primus.messages(buffer: .pauseReading(1_000)).makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            try await primus.write(["cmd": "burst", "n": 10_000])
            for number in 0..<10_000 {
                let value = try await messages.next()?.value.int
                guard value == number else { return expectEqual(value, number) }
            }
            async let written: Void = {
                for number in 0..<1_000 { try await primus.write(PrimusValue.int(Int64(number))) }
            }()
            for number in 0..<1_000 {
                let value = try await messages.next()?.value.int
                guard value == number else { return expectEqual(value, number) }
            }
            try await written
        }
    }

    @Test(arguments: Dialect.kinds.filter { $0.connections == nil })
    func `the client learns the ID of its spark, and the server the client's query and header fields`(dialect: Dialect) async throws {
        try await self.with(dialect) { configuration in
            configuration.endpoint.addQuery("name", "a b")
            configuration.headers = ["X-Name": "value"]
        } _: { _, primus in
            let messages = primus.messages.makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            try await primus.write(["cmd": "info"])
            let info = try #require(try await messages.next()?.value)
            try await expectEqual(primus.id(within: .seconds(300)), info["id"]?.string)
            expect(info["query"]?["name"] == "a b" && info["headers"]?["x-name"] == "value")
            guard dialect.transformer == "engine.io" else { return }
            expectEqual(info["query"]?["EIO"], (dialect.isEngineIO3 || dialect.server == "primus6" ? "3" : "4"))
        }
    }

    @Test(.serialized, arguments: Dialect.all.filter { $0.moves && ["json", "binary"].contains($0.parser) })
    func `bursts in both directions pass through the move to a WebSocket complete and in order`(dialect: Dialect) async throws {
        let held = EventRecorder<HeldTransport>()
        try await self.withLasting(dialect) { configuration in
            let transport = HeldTransport(Transports.standard.webSocket)
            held.record(transport)
            configuration.transports.webSocket = transport
        } _: { primus in
            let messages = primus.messages(buffer: .pauseReading(1_000))
            try await primus.opened(within: .seconds(300))
            let returned = EventRecorder<Int>()
            async let writing: Void = {
                for number in 0..<10_000 {
                    if number.isMultiple(of: 1_000) { try await primus.write(["cmd": "burst", "n": 1_000]) }
                    try await primus.write("\(number)")
                    // Only a part of the messages is on the way, and during the move few, so that a server that shares the processor with others has
                    // the time for it.
                    if number.isMultiple(of: 100) {
                        try await eventually {
                            number - (returned.all.last ?? 0) < (500..<9_000 ~= number && primus.transport == .polling ? 200 : 2_000)
                        }
                    }
                    if number == 500 {
                        expectEqual(primus.transport, .polling)
                        held.all.last?.release()
                    }
                    // Whatever the processor does beside this test, some messages are left for the WebSocket.
                    if number == 9_000 { try await eventually { primus.transport == .webSockets } }
                }
                try await primus.write(["last": true])
            }()
            // Texts come back, and the server answers each command with numbers.
            var (texts, numbers) = (0, 0)
            for await message in messages {
                let value = try message.value
                if value["last"] != nil { break }
                if let text = value.string {
                    try #require(text == "\(texts)")
                    texts += 1
                    if texts.isMultiple(of: 100) { returned.record(texts) }
                } else {
                    try #require(value.int == numbers % 1_000)
                    numbers += 1
                }
            }
            expect(texts == 10_000 && numbers == 10_000 && primus.transport == .webSockets)
            try await writing
        }
    }

    @Test(arguments: Dialect.kinds)
    func `the end by the server is final, and the client reconnects after any other`(dialect: Dialect) async throws {
        try await self.with(dialect) {
            $0.retry = .quick
        } _: { _, primus in
            let states = primus.states.makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            // The answer to a message of a session that moves may be lost with it.
            func write(_ value: PrimusValue) async throws {
                if dialect.moves { primus.enqueue(value) } else { try await primus.write(value) }
            }
            for isKilled in [false, true] {
                if isKilled { try await primus.control("kill") } else { try await write(["cmd": "endReconnect"]) }
                while let state = await states.next() { if case .reconnecting = state { break } }
                while let state = await states.next(), state != .open {}
            }
            try await write(["cmd": "end"])
            while let state = await states.next() { if case .closed = state { break } }
            expect(!primus.isConnected)
        }
    }

    @Test(arguments: Dialect.some.map { $0.with("--token", "T") })
    func `a refusal has the server's status and message, and a token is accepted in the query and in a field`(
        dialect: Dialect
    ) async throws {
        try await self.withEach(dialect) { client, url in
            let primus = PrimusConnection(try client.configuration(url))
            primus.open()
            let error = await #expect(throws: PrimusError.self) { try await primus.opened(within: .seconds(300)) }
            expect(error?.code == .unauthorized && error?.message.contains("Authentication required") == true, "\(client)")
            expect(error?.status == 401 && error?.serverMessage == "Authentication required", "\(client)")
            guard case .closed = primus.state else { return expect(false, "the client should be closed") }
            let credentials: [PrimusConfiguration.CredentialsProvider] = [
                { PrimusCredentials(query: [("token", "T")]) }, { ["Authorization": "Bearer T"] }, { ["Authorization": "Basic dXNlcjpU"] },
            ]
            for credential in credentials {
                var configuration = primus.configuration
                configuration.credentials = credential
                let other = PrimusConnection(configuration)
                other.open()
                try await other.opened(within: .seconds(300))
                other.end()
            }
            primus.end()
        }
    }

    @Test(
        arguments: Dialect.losses.map { dialect in
            dialect.server == "primus" ? dialect.with("--ping", "300") : dialect.with("--timeout", "900")
        })
    func `a connection outlives many intervals of the heartbeat`(dialect: Dialect) async throws {
        try await self.with(dialect) {
            $0.retry = .quick
        } _: { _, primus in
            try await primus.opened(within: .seconds(300))
            let clock = ContinuousClock()
            var (reconnects, end) = (0, clock.now.advanced(by: .seconds(3)))
            // A processor that is busy elsewhere may delay a ping until the end of its connection, but not those of every connection.
            try await eventually {
                if !primus.isConnected || primus.counters.reconnects != reconnects {
                    (reconnects, end) = (primus.counters.reconnects, clock.now.advanced(by: .seconds(3)))
                }
                return clock.now >= end
            }
        }
    }

    @Test(arguments: ["primus", "primus6"], [PrimusParserKind.json, .binary])
    func `a client of engine io finds the version that the server speaks without the specification`(
        server: String, parser: PrimusParserKind
    ) async throws {
        try await self.with(Dialect(server: server, transformer: "engine.io", parser: "\(parser)")) {
            ($0.detection, $0.transformer, $0.parser) = (.off, .engineIO, parser)
            $0.retry = .quick
        } _: { _, primus in
            let messages = primus.messages.makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            // Binary packets differ between the versions.
            try await primus.write(.bytes([1, 2, 3]))
            try await expectEqual(messages.next()?.value, .bytes([1, 2, 3]))
        }
    }
}
