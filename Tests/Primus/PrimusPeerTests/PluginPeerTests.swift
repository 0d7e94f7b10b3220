import PeerSupport
import PrimusClient
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

/// The plugins against those of the original, with servers of Primus 8 and 6.
@Suite(
    .usesSockets, .timeLimit(.minutes(10)), .requires(.peers("primus", "primus6")))
struct PluginPeerTests {
    struct Todo: Codable, Hashable, Sendable {
        var id: Int
        var title: String
        var isDone: Bool?
    }

    /// A client that is open, with a server that has plugins.
    struct Fixture: Sendable {
        let primus: PrimusConnection

        /// Starts a server, and runs a body over each kind of connection to it, one after the other. The connections must last.
        ///
        /// - Parameter plugins: The plugins of the server; `nil` for all that its packages have. With primus-emit, those that emit events to
        ///   listeners don't work in the original.
        static func run(
            _ dialect: Dialect = Dialect(), plugins: String? = nil, _ body: @escaping @Sendable (Fixture) async throws -> Void
        ) async throws {
            let (peer, url) = try await Self.server(dialect, plugins: plugins)
            for client in dialect.clients {
                // While a session moves to a WebSocket, and after that.
                for waits in client.moves ? [false, true] : [false] {
                    try await ConnectionWatch.run { watch in
                        let primus = watch.client(try Self.configuration(client, url))
                        defer { primus.end() }
                        primus.open()
                        try await primus.opened(within: .seconds(300))
                        if waits { try await eventually("\(client)") { primus.transport == .webSockets } }
                        try await body(Fixture(primus: primus))
                        if !client.moves { expectEqual(primus.transport, client.connections?.first?.transport ?? .webSockets) }
                    }
                }
            }
            peer.stop()
        }

        static func server(_ dialect: Dialect, plugins: String? = nil) async throws -> (Peer, url: String) {
            let all = dialect.server == "primus" ? "emitter,multiplex,substream,responder" : "emitter,substream"
            let peer = try Peer(dialect.server, dialect.with("--plugins", plugins ?? all).optionsForClients)
            return (peer, try await peer.ready()["url"]?.string ?? "")
        }

        static func configuration(_ client: Dialect, _ url: String) throws -> PrimusConfiguration {
            var configuration = try client.configuration(url)
            configuration.plugins = [.emitter, .multiplex, .substream, .responder, .emit]
            return configuration
        }

        /// Calls the server's control API over the connection.
        func command(_ value: PrimusValue) async throws { try await self.primus.write(value) }
    }

    static let new = Dialect.servers.filter { $0.server == "primus" }
    /// With Primus 6, whose packages have only the plugins emitter and substream.
    static let old = Dialect.servers.filter { $0.server == "primus6" }

    @Test(arguments: Self.new + Self.old)
    func `an event is acknowledged with its arguments`(dialect: Dialect) async throws {
        try await Fixture.run(dialect) { fixture in
            let todos = [Todo(id: 1, title: "é \"quoted\" \u{2028}"), Todo(id: 2, title: "", isDone: true)]
            let echoed: [Todo] = try await fixture.primus.emitter.send("echo", todos, within: .seconds(300))
            expectEqual(echoed, todos)
            let (text, number, none) = try await fixture.primus.emitter.send(
                "echo", "text", 1.5, Int?.none, returning: String.self, Double.self, Int?.self, within: .seconds(300))
            expect(text == "text" && number == 1.5 && none == nil)
            let nothing: Int? = try await fixture.primus.emitter.send("echo", within: .seconds(300))
            expectNil(nothing)
            // The acknowledgements of the first ones arrive later.
            async let late: Int = fixture.primus.emitter.send("later", 1, within: .seconds(300))
            let early: Int = try await fixture.primus.emitter.send("echo", 2, within: .seconds(300))
            #expect(try await (early, late) == (2, 1))
        }
    }

    @Test(arguments: Self.new + Self.old)
    func `the server's events arrive and are acknowledged`(dialect: Dialect) async throws {
        try await Fixture.run(dialect) { fixture in
            let messages = fixture.primus.messages
            let questions = fixture.primus.emitter.on("question")
            try await fixture.command(["cmd": "emit", "event": "question", "args": ["name", 5, ["a": 1]], "ack": true])
            let iterator = questions.makeAsyncIterator()
            let event = try #require(await iterator.next())
            expect(event.name == "question" && event.expectsAcknowledgement)
            let (text, number, object) = try event.decode(String.self, Int.self, [String: Int].self)
            expect(text == "name" && number == 5 && object == ["a": 1])
            try expect(event.acknowledge("answer", Todo(id: 3, title: "x")))
            try expect(!event.acknowledge("again"))
            let answers = messages.makeAsyncIterator()
            let answer = try #require(await answers.next())
            try expectEqual(answer.value, ["acked": ["answer", ["id": 3, "title": "x"]]])

            let replies = fixture.primus.emitter.on("re:hello")
            try await fixture.primus.emitter.send("hello", "there")
            let reply = replies.makeAsyncIterator()
            let greeting = try #require(await reply.next())
            try expectEqual(greeting.decode(String.self), "there")
        }
    }

    @Test(arguments: Self.new)
    func `events of primus-emit arrive in both directions`(dialect: Dialect) async throws {
        try await Fixture.run(dialect, plugins: "emit") { fixture in
            let replies = fixture.primus.emits.on("re:plain")
            try await fixture.primus.emits.send("plain", "a", 2)
            let iterator = replies.makeAsyncIterator()
            let (text, number) = try #require(await iterator.next()).decode(String.self, Int.self)
            expect(text == "a" && number == 2)
        }
    }

    @Test(arguments: Self.new)
    func `a channel carries messages in both directions`(dialect: Dialect) async throws {
        try await Fixture.run(dialect) { fixture in
            let (a, b) = (fixture.primus.channel("a"), fixture.primus.channel("b"))
            let (first, second) = (a.messages.makeAsyncIterator(), b.messages.makeAsyncIterator())
            for (channel, text) in [(a, "to a"), (b, "to b")] { try await channel.write(text) }
            struct Message: Decodable {
                var channel: String
                var data: String
            }
            let (fromA, fromB) = (
                try #require(await first.next()).decode(as: Message.self), try #require(await second.next()).decode(as: Message.self)
            )
            expect(fromA.channel == "a" && fromA.data == "to a")
            expect(fromB.channel == "b" && fromB.data == "to b")
            a.leave()
            await expectNil(first.next())
            expect(!a.isJoined && b.isJoined)
            await #expect(throws: PrimusError.self) { try await a.write("late") }
            try await b.write("more")
            try await expectEqual(second.next()?.decode(as: Message.self).data, "more")
        }
    }

    @Test(arguments: Self.new.filter { $0.parser == "json" })
    func `a channel is joined again after a reconnect`(dialect: Dialect) async throws {
        let (peer, url) = try await Fixture.server(dialect)
        for client in dialect.clients {
            var configuration = try Fixture.configuration(client, url)
            configuration.retry = .delays([.zero, .zero, .seconds(1), .seconds(5)])
            let fixture = Fixture(primus: PrimusConnection(configuration))
            fixture.primus.open()
            try await fixture.primus.opened(within: .seconds(300))
            let channel = fixture.primus.channel("a")
            let messages = channel.messages.makeAsyncIterator()
            try await channel.write(1)
            try await expectEqual(messages.next()?.value["data"], 1)
            let updates = fixture.primus.updates().makeAsyncIterator()
            // Its answer may be lost with a session that moves.
            fixture.primus.enqueue(["cmd": "endReconnect"] as PrimusValue)
            while let update = await updates.next() { if case .reconnected = update { break } }
            try await channel.write(2)
            try await expectEqual(messages.next()?.value["data"], 2)
            fixture.primus.end()
        }
        peer.stop()
    }

    @Test(arguments: Self.new + Self.old)
    func `a stream carries messages in both directions, and ends`(dialect: Dialect) async throws {
        try await Fixture.run(dialect) { fixture in
            let stream = fixture.primus.substream("sub")
            let messages = stream.messages.makeAsyncIterator()
            try await stream.write(Todo(id: 1, title: "a"))
            try await expectEqual(messages.next()?.decode(as: Todo.self), Todo(id: 1, title: "a"))
            try await stream.write("text")
            try await expectEqual(messages.next()?.decode(as: String.self), "text")
            stream.end()
            await expectNil(messages.next())
            expect(!stream.isOpen)
        }
    }

    @Test(arguments: Self.new)
    func `requests are answered in both directions`(dialect: Dialect) async throws {
        try await Fixture.run(dialect) { fixture in
            let reply: [String: [String: [Int]]] = try await fixture.primus.request(["add": [1, 2]], within: .seconds(300))
            expectEqual(reply, ["answer": ["add": [1, 2]]])
            let messages = fixture.primus.messages
            let registration = fixture.primus.onRequest(on: .tasks) { request in
                let number = (try? request.decode(as: Int.self)) ?? 0
                _ = try? request.respond(["double": 2 * number])
            }
            try await fixture.command(["cmd": "ask", "data": 21])
            let iterator = messages.makeAsyncIterator()
            try await expectEqual(iterator.next()?.value, ["answered": ["double": 42]])
            withExtendedLifetime(registration) {}
        }
    }

    @Test func `an event without a listener on the server isn't acknowledged in time`() async throws {
        try await Fixture.run { fixture in
            let error = await #expect(throws: PrimusError.self) {
                _ = try await fixture.primus.emitter.send("unheard", as: Int.self, within: .milliseconds(1))
            }
            expectEqual(error?.code, .timedOut)
            let echoed: Int = try await fixture.primus.emitter.send("echo", 1, within: .seconds(300))
            expectEqual(echoed, 1)
        }
    }
}
