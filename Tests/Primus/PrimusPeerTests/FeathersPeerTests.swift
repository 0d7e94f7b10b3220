import PeerSupport
import PrimusClient
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

/// The client with an application of Feathers 4, which has Primus 8 and primus-emitter inside. `dev/peers/feathers-server.js` describes its
/// services.
@Suite(.usesSockets, .timeLimit(.minutes(10)), .requires(.feathersPeer))
struct FeathersPeerTests {
    typealias Query = [String: PrimusValue]

    struct Todo: Codable, Hashable, Sendable {
        var id: Int
        var text: String
        var isDone = false
    }

    struct NewTodo: Codable, Sendable { var text: String? }

    /// The first argument of an acknowledgement. Only the message is always there.
    struct Failure: Error, Decodable, Hashable {
        var name: String?
        var message: String
        var code: Int?
        var className: String?
        var data: [String: String]?
        var errors: [String: String]?
    }

    struct Session: Decodable, Sendable {
        struct User: Decodable, Hashable, Sendable {
            var id: Int
            var email: String
        }
        var accessToken: String
        var user: User
    }

    private static let dialects: [Dialect] = [
        Dialect(server: "feathers"), Dialect(server: "feathers", parser: "ejson"), Dialect(server: "feathers", parser: "msgpack"),
        Dialect(server: "feathers", parser: "binary"), Dialect(server: "feathers", transformer: "faye"),
        Dialect(server: "feathers", transformer: "engine.io"), Dialect(server: "feathers", transformer: "engine.io", parser: "msgpack"),
        Dialect(server: "feathers", transformer: "engine.io", connections: [.polling]),
        Dialect(server: "feathers", transformer: "engine.io", parser: "msgpack", connections: [.polling]),
        Dialect(server: "feathers", transformer: "engine.io", connections: [.polling, .webSocket]),
        Dialect(server: "feathers", transformer: "sockjs"),
        Dialect(server: "feathers", transformer: "sockjs", connections: [.streaming]),
    ]

    /// One of each kind of connection with engine.io.
    private static let some = Self.dialects.filter { $0.parser == "json" && ["websockets", "engine.io"].contains($0.transformer) }

    /// Starts an application, and opens two clients of it.
    private func with(_ dialect: Dialect, _ body: (Peer, PrimusConnection, PrimusConnection) async throws -> Void) async throws {
        try await ClientPeerTests().with(dialect) {
            $0.plugins = [.emitter]
            $0.retry = .backoff(PrimusBackoff(minimum: .milliseconds(20), maximum: .milliseconds(100)))
        } _: { peer, primus in
            let other = PrimusConnection(primus.configuration)
            other.open()
            for client in [primus, other] { try await client.opened(within: .seconds(300)) }
            try await body(peer, primus, other)
            other.end()
        }
    }

    /// Calls a method with an argument and a query.
    private func call<Value: Decodable>(
        _ primus: PrimusConnection, _ method: String, _ path: String, _ argument: some Encodable & Sendable, _ type: Value.Type = Value.self
    ) async throws -> Value {
        try Self.result(
            await primus.emitter.send(
                method, path, argument, Query(), returning: Failure?.self, Value?.self, within: .seconds(300)))
    }

    /// Calls a method with an ID, a record and a query.
    private func change<Value: Decodable>(
        _ primus: PrimusConnection, _ method: String, _ id: Int?, _ data: Query, _ type: Value.Type = Value.self
    ) async throws -> Value {
        try Self.result(
            await primus.emitter.send(
                method, "todos", id, data, Query(), returning: Failure?.self, Value?.self, within: .seconds(300)))
    }

    private func find(_ primus: PrimusConnection, _ query: Query = [:], in path: String = "todos") async throws -> [Todo] {
        try Self.result(
            await primus.emitter.send("find", path, query, returning: Failure?.self, [Todo]?.self, within: .seconds(300)))
    }

    private func create(_ primus: PrimusConnection, _ text: String, in path: String = "todos") async throws -> Todo {
        try await self.call(primus, "create", path, NewTodo(text: text))
    }

    private func signIn(_ primus: PrimusConnection, _ credentials: Query) async throws -> Session {
        try await self.call(primus, "create", "authentication", credentials)
    }

    /// The result in an acknowledgement, or its error.
    private static func result<Value>(_ acknowledgement: (error: Failure?, result: Value?)) throws -> Value {
        guard let error = acknowledgement.error else { return try #require(acknowledgement.result) }
        expectNil(acknowledgement.result)
        throw error
    }

    private let credentials: Query = ["strategy": "local", "email": "anna@example.org", "password": "secret"]

    @Test(arguments: Self.dialects)
    func `methods of a service return records, and a second client receives an event for each change`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus, other in
            let events = other.emitter.events.makeAsyncIterator()
            try await expectEqual(self.find(primus), [])
            let text = "é \"quoted\" \u{2028} \u{1F600}"
            try await expectEqual(self.create(primus, text), Todo(id: 1, text: text))
            try await expectEqual(self.call(primus, "get", "todos", 1), Todo(id: 1, text: text))
            try await expectEqual(self.change(primus, "update", 1, ["text": "a"]), Todo(id: 1, text: "a"))
            try await expectEqual(self.change(primus, "patch", 1, ["isDone": true]), Todo(id: 1, text: "a", isDone: true))
            try await expectEqual(self.find(other), [Todo(id: 1, text: "a", isDone: true)])
            try await expectEqual(self.call(primus, "remove", "todos", 1), Todo(id: 1, text: "a", isDone: true))
            try await expectEqual(self.find(primus), [])
            for (name, todo) in [
                ("created", Todo(id: 1, text: text)), ("updated", Todo(id: 1, text: "a")),
                ("patched", Todo(id: 1, text: "a", isDone: true)), ("removed", Todo(id: 1, text: "a", isDone: true)),
            ] {
                let event = try #require(await events.next())
                try expect(event.name == "todos \(name)" && event.decode(Todo.self) == todo)
            }
        }
    }

    @Test(arguments: Self.dialects)
    func `an error of a service has a name, a message, a code and data`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus, _ in
            var error = await #expect(throws: Failure.self) { try await self.call(primus, "get", "todos", 7, Todo.self) }
            expect(error?.name == "NotFound" && error?.code == 404 && error?.className == "not-found")
            expect(error?.message == "No record found for id '7'" && error?.data == nil && error?.errors == [:])
            error = await #expect(throws: Failure.self) { try await self.call(primus, "create", "todos", NewTodo(), Todo.self) }
            expect(error?.name == "BadRequest" && error?.code == 400 && error?.className == "bad-request")
            expect(error?.data == ["field": "text"] && error?.errors == ["text": "must be a string"])
            error = await #expect(throws: Failure.self) { try await self.find(primus, in: "unknown") }
            expect(error?.name == "NotFound" && error?.message == "Service 'unknown' not found")
            error = await #expect(throws: Failure.self) { try await self.find(primus, in: "failures") }
            expect(error?.name == "MethodNotAllowed" && error?.code == 405)
        }
    }

    @Test(arguments: Self.dialects)
    func `an error that isn't one of Feathers has a message only`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus, _ in
            let error = await #expect(throws: Failure.self) { try await self.call(primus, "get", "failures", 7, Todo.self) }
            expectEqual(error, Failure(message: "Failure 7"))
        }
    }

    @Test(arguments: Self.some)
    func `several records are created and changed together, and each has an event`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus, other in
            let created = other.emitter.on("todos created").makeAsyncIterator()
            let patched = other.emitter.on("todos patched").makeAsyncIterator()
            let todos = (1...100).map { Todo(id: $0, text: "\($0)") }
            try await expectEqual(self.call(primus, "create", "todos", todos.map { NewTodo(text: $0.text) }), todos)
            let changed = try await self.change(primus, "patch", nil, ["isDone": true], [Todo].self)
            expect(changed.count == 100 && changed.allSatisfy(\.isDone))
            for todo in todos { try await expectEqual(created.next()?.decode(Todo.self), todo) }
            for todo in todos { try await expectEqual(patched.next()?.decode(Todo.self).id, todo.id) }
        }
    }

    @Test(arguments: Self.some)
    func `a query has a limit, and values that are compared with their types`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus, _ in
            for text in ["a", "b", "c"] { _ = try await self.create(primus, text) }
            _ = try await self.change(primus, "patch", 2, ["isDone": true], Todo.self)
            try await expectEqual(self.find(primus, ["$limit": 2]).map(\.text), ["a", "b"])
            try await expectEqual(self.find(primus, ["$limit": 2, "$skip": 1, "isDone": false]).map(\.text), ["c"])
            try await expectEqual(self.find(primus, ["isDone": true]).map(\.text), ["b"])
            try await expectEqual(self.find(primus, ["isDone": "true"]), [])
            // A query may be absent, and the path have slashes.
            let (_, all) = try await primus.emitter.send("find", "/todos/", returning: Failure?.self, [Todo]?.self, within: .seconds(300))
            expectEqual(all?.count, 3)
        }
    }

    @Test(arguments: Self.some)
    func `a method that isn't acknowledged is called all the same`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus, other in
            let created = other.emitter.on("todos created").makeAsyncIterator()
            try await primus.emitter.send("get", "todos", 7, Query())
            try await primus.emitter.send("create", "todos", NewTodo(text: "a"), Query())
            try await expectEqual(created.next()?.decode(Todo.self), Todo(id: 1, text: "a"))
        }
    }

    @Test(arguments: Self.some)
    func `only connections that have signed in call a service and receive its events`(dialect: Dialect) async throws {
        try await self.with(dialect) { _, primus, other in
            let (received, missed) = (other.emitter.events.makeAsyncIterator(), primus.emitter.events.makeAsyncIterator())
            var error = await #expect(throws: Failure.self) { try await self.create(other, "early", in: "notes") }
            expect(error?.name == "NotAuthenticated" && error?.code == 401)
            var wrong = self.credentials
            wrong["password"] = "wrong"
            error = await #expect(throws: Failure.self) { try await self.signIn(other, wrong) }
            expect(error?.name == "NotAuthenticated" && error?.message == "Invalid login")
            try await expectEqual(self.signIn(other, self.credentials).user, Session.User(id: 1, email: "anna@example.org"))
            try await expectEqual(self.create(other, "a", in: "notes"), Todo(id: 1, text: "a"))
            _ = try await self.create(primus, "b")
            await expectEqual(received.next()?.name, "notes created")
            await expectEqual(received.next()?.name, "todos created")
            await expectEqual(missed.next()?.name, "todos created")

            // Signing out.
            _ = try await self.call(other, "remove", "authentication", Int?.none, Session.self)
            error = await #expect(throws: Failure.self) { try await self.find(other, in: "notes") }
            expectEqual(error?.code, 401)
        }
    }

    @Test(arguments: Self.some)
    func `a reconnected client isn't signed in until it sends its token`(dialect: Dialect) async throws {
        try await self.with(dialect) { peer, primus, _ in
            let session = try await self.signIn(primus, self.credentials)
            try await expectEqual(self.find(primus, in: "notes"), [])
            let updates = primus.updates().makeAsyncIterator()
            try await peer.stopped()
            let endpoint = primus.configuration.endpoint
            let next = try Peer(
                "feathers", ["--transformer", dialect.transformer, "--parser", dialect.parser, "--port", "\(endpoint.port)"])
            _ = try await next.ready()
            while let update = await updates.next() { if case .reconnected = update { break } }
            var error = await #expect(throws: Failure.self) { try await self.find(primus, in: "notes") }
            expectEqual(error?.name, "NotAuthenticated")
            error = await #expect(throws: Failure.self) { try await self.signIn(primus, ["strategy": "jwt", "accessToken": "token"]) }
            expectEqual(error?.name, "NotAuthenticated")
            _ = try await self.signIn(primus, ["strategy": "jwt", "accessToken": .string(session.accessToken)])
            try await expectEqual(self.find(primus, in: "notes"), [])
            next.stop()
        }
    }

    @Test func `events of services and results pass through the move to a WebSocket complete and in order`() async throws {
        let dialect = Dialect(server: "feathers", transformer: "engine.io", connections: [.polling, .webSocket])
        try await ClientPeerTests().withLasting(dialect) {
            $0.plugins = [.emitter]
        } _: { primus in
            let created = primus.emitter.on("todos created").makeAsyncIterator()
            var id = 0
            // Until the connection has moved, and a little longer.
            var left = 20
            while left > 0 {
                id += 1
                let todo = try await self.create(primus, "\(id)")
                expectEqual(todo, Todo(id: id, text: "\(id)"))
                if primus.transport == .webSockets { left -= 1 }
            }
            for number in 1...id {
                let todo = try await created.next()?.decode(Todo.self)
                expectEqual(todo?.id, number)
            }
        }
    }
}
