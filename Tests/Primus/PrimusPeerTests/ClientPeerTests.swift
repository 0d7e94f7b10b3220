import PeerSupport
import PrimusClient
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

/// The client against servers of Primus 8 and 6, with each transformer and parser that works there.
@Suite(
    .usesSockets, .timeLimit(.minutes(10)), .enabled(if: Peer.starts("primus", "primus6"), "\(Peer.skipReason): primus, primus6"))
struct ClientPeerTests {
    struct Dialect: Sendable, CustomTestStringConvertible {
        var server = "primus"
        var transformer = "websockets"
        var parser = "json"
        var options: [String] = []
        /// The kinds of connections; `nil` for a WebSocket.
        var connections: [PrimusConnectionKind]?
        var testDescription: String {
            let connections = self.connections.map { ", " + $0.map(\.description).joined(separator: " then ") } ?? ""
            return "\(self.server), \(self.transformer), \(self.parser)\(connections) \(self.options.joined(separator: " "))"
        }
        var carriesBytes: Bool { self.parser != "json" }
    }

    static let dialects: [Dialect] =
        ["json", "ejson", "msgpack", "binary"].flatMap { parser in
            [Dialect(parser: parser), Dialect(transformer: "engine.io", parser: parser)]
        } + [
            Dialect(transformer: "faye"), Dialect(transformer: "faye", parser: "msgpack"), Dialect(transformer: "sockjs"),
            Dialect(transformer: "sockjs", parser: "ejson"), Dialect(server: "primus6"), Dialect(server: "primus6", parser: "ejson"),
            Dialect(server: "primus6", parser: "binary"), Dialect(server: "primus6", transformer: "sockjs"),
            Dialect(server: "primus6", transformer: "engine.io"), Dialect(server: "primus6", transformer: "engine.io", parser: "binary"),
        ]

    /// The kinds of connections over HTTP, and the move to a WebSocket.
    static let polled: [Dialect] =
        ["primus", "primus6"].flatMap { server in
            [[PrimusConnectionKind.polling], [.polling, .webSocket]].flatMap { connections in
                [
                    Dialect(server: server, transformer: "engine.io", connections: connections),
                    Dialect(server: server, transformer: "engine.io", parser: "binary", connections: connections),
                ]
            }
                + [PrimusConnectionKind.framedWebSocket, .streaming, .polling].map {
                    Dialect(server: server, transformer: "sockjs", connections: [$0])
                }
        } + [
            Dialect(transformer: "engine.io", parser: "msgpack", connections: [.polling]),
            Dialect(transformer: "engine.io", parser: "ejson", connections: [.polling, .webSocket]),
            Dialect(transformer: "sockjs", parser: "ejson", connections: [.streaming]),
        ]

    /// One of each transformer and version.
    static let some: [Dialect] = Self.dialects.filter { $0.parser == "json" }

    /// Starts a server, and opens a client of it.
    func with(
        _ dialect: Dialect, _ configure: (inout PrimusConfiguration) throws -> Void = { _ in },
        _ body: (Peer, PrimusConnection) async throws -> Void
    ) async throws {
        let peer = try Peer(dialect.server, ["--transformer", dialect.transformer, "--parser", dialect.parser] + dialect.options)
        let ready = try await peer.ready()
        var configuration = try PrimusConfiguration(url: ready["url"]?.string ?? "")
        configuration.log = .none
        configuration.connectTimeout = .seconds(300)
        configuration.reconnectTimeout = .seconds(300)
        configuration.detectionTimeout = .seconds(300)
        if let connections = dialect.connections {
            configuration.connectionKinds = connections
            configuration.startsWithPolling = true
            configuration.allowedTransports = connections.contains { $0.transport == .webSockets } ? .all : .polling
        }
        try configure(&configuration)
        let primus = PrimusConnection(configuration)
        primus.open()
        try await body(peer, primus)
        primus.end()
        peer.stop()
    }

    @Test(arguments: Self.dialects + Self.polled)
    func `values of every kind come back as they were`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus in
            let messages = primus.messages.makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            var values: [PrimusValue] = [
                0, 1, -1, 255, 65_536, 2_147_483_648, 9_007_199_254_740_991, 0.5, -1.5e-300, "", "text", "\"quoted\" \\ \n", "ä€😀\u{2028}",
                true,
                [1, [nil, "x"]], ["a": ["b": []]], .string(String(repeating: "long ", count: 20_000)),
            ]
            if dialect.carriesBytes { values.append(.bytes([0, 1, 255])) }
            if dialect.parser == "ejson" || dialect.parser == "msgpack" {
                values += [.date(PrimusDate(milliseconds: 1_700_000_000_123)), .double(.infinity), .expression(pattern: "a+", flags: "g")]
            }
            for value in values {
                try await primus.write(value)
                #expect(try await messages.next()?.value == value)
            }
        }
    }

    @Test(arguments: Self.dialects + Self.polled.filter { $0.server == "primus" && $0.parser == "json" })
    func `a burst arrives complete and in order, and so does one that is written`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus in
            let messages = primus.messages(buffer: .pauseReading(1_000)).makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            try await primus.write(["cmd": "burst", "n": 10_000])
            for number in 0..<10_000 {
                let value = try await messages.next()?.value.int
                guard value == number else { return #expect(value == number) }
            }
            async let written: Void = {
                for number in 0..<1_000 { try await primus.write(PrimusValue.int(Int64(number))) }
            }()
            for number in 0..<1_000 {
                let value = try await messages.next()?.value.int
                guard value == number else { return #expect(value == number) }
            }
            try await written
        }
    }

    @Test(arguments: Self.some)
    func `the client learns the ID of its spark, and the server the client's query and header fields`(dialect: Dialect) async throws {
        try await self.with(dialect) { configuration in
            configuration.endpoint.addQuery("name", "a b")
            configuration.headers = ["X-Name": "value"]
        } _: { _, primus in
            let messages = primus.messages.makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            try await primus.write(["cmd": "info"])
            let info = try #require(try await messages.next()?.value)
            #expect(try await primus.id(within: .seconds(300)) == info["id"]?.string)
            #expect(info["query"]?["name"] == "a b" && info["headers"]?["x-name"] == "value")
        }
    }

    @Test(arguments: Self.some)
    func `the end by the server is final, and the client reconnects after any other`(dialect: Dialect) async throws {
        try await self.with(dialect) {
            $0.retry = .backoff(PrimusBackoff(minimum: .milliseconds(20), maximum: .milliseconds(100)))
        } _: {
            _, primus in
            let states = primus.states.makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            for command in ["endReconnect", "kill"] {
                try await primus.write(["cmd": .string(command)])
                while let state = await states.next() { if case .reconnecting = state { break } }
                while let state = await states.next(), state != .open {}
            }
            try await primus.write(["cmd": "end"])
            while let state = await states.next() { if case .closed = state { break } }
            #expect(!primus.isConnected)
        }
    }

    @Test(
        arguments: Self.some.map { dialect in
            var dialect = dialect
            dialect.options = ["--token", "T"]
            return dialect
        })
    func `a refusal has the server's status and message, and a token is accepted in the query and in a field`(
        dialect: Dialect
    ) async throws {
        try await self.with(dialect) { _, primus in
            let error = await #expect(throws: PrimusError.self) { try await primus.opened(within: .seconds(300)) }
            #expect(error?.code == .unauthorized && error?.message.contains("Authentication required") == true, "\(error?.message ?? "")")
            guard case .closed = primus.state else { return #expect(Bool(false), "the client should be closed") }
        }
        let credentials: [PrimusConfiguration.CredentialsProvider] = [
            { PrimusCredentials(query: [("token", "T")]) }, { ["Authorization": "Bearer T"] }, { ["Authorization": "Basic dXNlcjpU"] },
        ]
        for credential in credentials {
            try await self.with(dialect) {
                $0.credentials = credential
            } _: { _, primus in
                try await primus.opened(within: .seconds(300))
            }
        }
    }

    @Test(
        arguments: Self.some.map { dialect in
            var dialect = dialect
            dialect.options = dialect.server == "primus" ? ["--ping", "300"] : ["--timeout", "900"]
            return dialect
        })
    func `a connection outlives many intervals of the heartbeat`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus in
            let id = try await primus.opened(within: .seconds(300))
            let clock = ContinuousClock()
            let end = clock.now.advanced(by: .seconds(3))
            try await eventually { clock.now >= end }
            #expect(primus.isConnected && primus.sparkID == id)
        }
    }

    @Test(arguments: ["primus", "primus6"], [PrimusParserKind.json, .binary])
    func `a client of engine io finds the version that the server speaks without the specification`(
        server: String, parser: PrimusParserKind
    ) async throws {
        try await self.with(Dialect(server: server, transformer: "engine.io", parser: "\(parser)")) {
            ($0.detection, $0.transformer, $0.parser) = (.off, .engineIO, parser)
            $0.retry = .backoff(PrimusBackoff(minimum: .milliseconds(20), maximum: .milliseconds(100)))
        } _: { _, primus in
            let messages = primus.messages.makeAsyncIterator()
            try await primus.opened(within: .seconds(300))
            // Binary packets differ between the versions.
            try await primus.write(.bytes([1, 2, 3]))
            #expect(try await messages.next()?.value == .bytes([1, 2, 3]))
        }
    }
}
