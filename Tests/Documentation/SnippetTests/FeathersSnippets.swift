import Foundation
import PrimusTesting
import Testing

// The snippets of the article on Feathers, and a server in its form for them.

// snippet:feathers-error
/// The error with which a service of Feathers answers. An error of another type that the service throws has only a message.
struct FeathersError: Error, Codable, Sendable, CustomStringConvertible {
    let name: String?
    let message: String
    let code: Int?

    var description: String { "\(self.name ?? "Error") (\(self.code ?? 500)): \(self.message)" }
}
// end

// snippet:feathers-service
/// A service of a Feathers application, at the other end of a connection.
///
/// A method is an event of primus-emitter with the path of the service, the arguments and a query. The acknowledgement has an error, or `null`
/// and the result.
struct FeathersService<Item: Codable & Sendable>: Sendable {
    typealias Query = [String: PrimusValue]

    let path: String
    let primus: PrimusConnection

    func find(_ query: Query = [:]) async throws -> [Item] {
        try Self.result(
            await self.emitter.send("find", self.path, query, returning: FeathersError?.self, [Item]?.self, within: .seconds(5)))
    }

    func get(_ id: Int, _ query: Query = [:]) async throws -> Item { try await self.call("get", id, query) }

    func create(_ data: some Encodable & Sendable, _ query: Query = [:]) async throws -> Item { try await self.call("create", data, query) }

    func remove(_ id: Int, _ query: Query = [:]) async throws -> Item { try await self.call("remove", id, query) }

    func patch(_ id: Int, _ data: some Encodable & Sendable, _ query: Query = [:]) async throws -> Item {
        try Self.result(
            await self.emitter.send("patch", self.path, id, data, query, returning: FeathersError?.self, Item?.self, within: .seconds(5)))
    }

    /// The items of an event of the service from now on, such as `created`. Items that can't be decoded are skipped.
    func on(_ event: String) -> some AsyncSequence<Item, Never> & Sendable {
        self.emitter.on("\(self.path) \(event)").compactMap { try? $0.decode(Item.self) }
    }

    private var emitter: PrimusEmitter { self.primus.emitter }

    private func call(_ method: String, _ argument: some Encodable & Sendable, _ query: Query) async throws -> Item {
        try Self.result(
            await self.emitter.send(method, self.path, argument, query, returning: FeathersError?.self, Item?.self, within: .seconds(5)))
    }

    private static func result<Result>(_ acknowledgement: (error: FeathersError?, result: Result?)) throws -> Result {
        if let error = acknowledgement.error { throw error }
        guard let result = acknowledgement.result else {
            throw FeathersError(name: "NoResult", message: "The result is missing.", code: 500)
        }
        return result
    }
}
// end

private struct Todo: Codable, Hashable, Sendable {
    let id: Int
    var text: String
}

private func connect() throws -> PrimusConnection {
    // snippet:feathers-connect
    var configuration = try PrimusConfiguration(url: "https://example.org/primus")
    configuration.plugins = [.emitter]
    let primus = PrimusConnection(configuration)
    primus.open()
    // end
    return primus
}

private func use(_ primus: PrimusConnection) async throws {
    // snippet:feathers-use
    let todos = FeathersService<Todo>(path: "todos", primus: primus)
    let created = todos.on("created")
    do {
        let todo = try await todos.create(["text": "write an article"])
        print(todo.id, try await todos.find(["$limit": 10]).count)
    } catch let error as FeathersError where error.code == 401 {
        print("sign in first")
    }
    for await todo in created {
        print(todo.text)
        break
    }
    // end
}

private func authenticate(_ primus: PrimusConnection) async throws {
    // snippet:feathers-authentication
    struct Authentication: Codable, Sendable {
        let accessToken: String
    }
    let authentication = FeathersService<Authentication>(path: "authentication", primus: primus)
    let session = try await authentication.create(["strategy": "local", "email": "anna@example.org", "password": "secret"])
    // end
    // snippet:feathers-again
    for await state in primus.states where state == .open {
        do {
            _ = try await authentication.create(["strategy": "jwt", "accessToken": session.accessToken])
        } catch let error as FeathersError where error.code == 401 {
            print("The token is refused. Sign in again.")
            break
        } catch {
            print("The connection isn't authenticated: \(error)")
        }
    }
    // end
}

/// A server in the form of a Feathers 4 application, with the services `authentication` and `todos`.
private func answer(_ call: PrimusServerCall, _ server: PrimusServer, _ users: inout Set<String>, _ todos: inout [Todo]) throws {
    let values = try call.arguments.values
    let none = nil as FeathersError?
    switch (values.first?.string, call.event) {
    case ("authentication", "create"):
        guard values[1]["password"]?.string == "secret" || values[1]["accessToken"]?.string == "token" else {
            return try call.acknowledge(FeathersError(name: "NotAuthenticated", message: "Invalid login", code: 401))
        }
        users.insert(call.spark.id)
        try call.acknowledge(none, ["accessToken": "token"])
    case ("todos", _) where !users.contains(call.spark.id):
        try call.acknowledge(FeathersError(name: "NotAuthenticated", message: "Sign in first.", code: 401))
    case ("todos", "find"): try call.acknowledge(none, todos)
    case ("todos", "create"):
        todos.append(Todo(id: todos.count, text: values[1]["text"]?.string ?? ""))
        for spark in server.sparks where users.contains(spark.id) { try spark.send("todos created", todos.last) }
        try call.acknowledge(none, todos.last)
    case ("todos", "patch"):
        guard let id = values[1].int, todos.indices.contains(id) else {
            return try call.acknowledge(FeathersError(name: "NotFound", message: "No record found", code: 404))
        }
        todos[id].text = values[2]["text"]?.string ?? todos[id].text
        try call.acknowledge(none, todos[id])
    default: try call.acknowledge(FeathersError(name: "NotFound", message: "No service", code: 404))
    }
}

@Test private func `an app talks to services in the form of Feathers over polling`() async throws {
    var configuration = PrimusServerConfiguration()
    (configuration.transformer, configuration.plugins) = (.engineIO, .emitter)
    let memory = try await InMemoryPrimus(configuration: configuration)
    let (calls, received) = AsyncStream.makeStream(of: PrimusServerCall.self)
    let registration = memory.server.on(nil) { received.yield($0) }
    let server = memory.server
    // One call after the other, until the stream ends.
    let answering = Task {
        var (users, todos) = (Set<String>(), [Todo]())
        for await call in calls { try answer(call, server, &users, &todos) }
    }
    let primus = memory.client { ($0.plugins, $0.allowedTransports) = ([.emitter], .polling) }
    primus.open()
    try await primus.opened()
    #expect(primus.transport == .polling)
    let todos = FeathersService<Todo>(path: "todos", primus: primus)
    let refusal = await #expect(throws: FeathersError.self) { try await todos.find() }
    #expect(refusal?.code == 401 && refusal?.name == "NotAuthenticated")
    let authentication = FeathersService<[String: String]>(path: "authentication", primus: primus)
    await #expect(throws: FeathersError.self) { try await authentication.create(["strategy": "local", "password": "wrong"]) }
    let session = try await authentication.create(["strategy": "local", "password": "secret"])

    let created = todos.on("created")
    #expect(try await todos.create(["text": "first"]) == Todo(id: 0, text: "first"))
    for await todo in created {
        #expect(todo == Todo(id: 0, text: "first"))
        break
    }
    #expect(try await todos.patch(0, ["text": "second"]).text == "second")
    #expect(try await todos.find(["$limit": 10]) == [Todo(id: 0, text: "second")])
    let missing = await #expect(throws: FeathersError.self) { try await todos.patch(7, ["text": ""]) }
    #expect(missing?.code == 404)

    // A new connection isn't authenticated.
    primus.end()
    primus.open()
    await #expect(throws: FeathersError.self) { try await todos.find() }
    _ = try await authentication.create(["strategy": "jwt", "accessToken": session["accessToken"] ?? ""])
    #expect(try await todos.find().count == 1)
    primus.end()
    registration.cancel()
    received.finish()
    try await answering.value
}
