import PrimusServer
import RealtimeSockets

/// A server in the form of a Feathers 4 application over Primus, with the services `authentication` and `todos`. Only clients that have
/// authenticated may use `todos`, and receive its events.
nonisolated struct FeathersServer {
    static let token = "eyJhbGciOiJub25lIn0.e30."

    let url: String
    private let server: PrimusServer
    private let registration: CallbackObservation
    private let task: Task<Void, Never>

    init() async throws {
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.plugins) = (.engineIO, .emitter)
        let server = PrimusServer(configuration: configuration, log: .none)
        let (calls, received) = AsyncStream.makeStream(of: PrimusServerCall.self)
        self.registration = server.on(nil) { received.yield($0) }
        // One call after the other, until `stop()` cancels the task.
        self.task = Task { [weak server] in
            var services = FeathersServices()
            for await call in calls {
                guard let server else { return }
                services.answer(call, server)
            }
        }
        let address = try await server.start(on: SocketListener())
        (self.server, self.url) = (server, "http://\(address.host):\(address.port)/primus")
    }

    func stop() async {
        self.registration.cancel()
        self.task.cancel()
        await self.server.stop()
    }
}

/// The services and their data.
nonisolated private struct FeathersServices {
    private var todos: [Todo] = []
    private var authenticated: Set<String> = []

    mutating func answer(_ call: PrimusServerCall, _ server: PrimusServer) {
        do {
            let (path, arguments) = try Self.path(call)
            switch (path, call.event) {
            case ("authentication", "create"):
                try Self.check(arguments.first)
                self.authenticated.insert(call.spark.id)
                try call.acknowledge(nil as FeathersError?, FeathersAuthentication(accessToken: FeathersServer.token))
            case ("todos", _) where !self.authenticated.contains(call.spark.id):
                throw FeathersError(name: "NotAuthenticated", message: "Sign in first.", code: 401)
            case ("todos", "find"): try call.acknowledge(nil as FeathersError?, self.todos)
            case ("todos", "get"): try call.acknowledge(nil as FeathersError?, self.todos[try self.index(arguments.first)])
            case ("todos", "create"):
                let todo = Todo(id: self.todos.count + 1, text: arguments.first?["text"]?.string ?? "", isDone: false)
                self.todos.append(todo)
                try self.finish(call, todo, "todos created", server)
            case ("todos", "patch"):
                let index = try self.index(arguments.first)
                if arguments.count > 1, let isDone = arguments[1]["isDone"]?.bool { self.todos[index].isDone = isDone }
                try self.finish(call, self.todos[index], "todos patched", server)
            case ("todos", "remove"):
                try self.finish(call, self.todos.remove(at: try self.index(arguments.first)), "todos removed", server)
            case ("todos", let method), ("authentication", let method):
                throw FeathersError(name: "MethodNotAllowed", message: "\(path) has no method \(method).", code: 405)
            default: throw FeathersError(name: "NotFound", message: "There is no service \(path).", code: 404)
            }
        } catch let error as FeathersError {
            try? call.acknowledge(error)
        } catch {
            try? call.acknowledge(FeathersError(name: "BadRequest", message: "\(error)", code: 400))
        }
    }

    /// The path of the service, and the arguments of its method.
    private static func path(_ call: PrimusServerCall) throws -> (String, [PrimusValue]) {
        let values = try call.arguments.values
        guard let path = values.first?.string else {
            throw FeathersError(name: "BadRequest", message: "The path of a service is missing.", code: 400)
        }
        return (path, Array(values.dropFirst()))
    }

    /// Checks what a client authenticates with: a password, or a token from before.
    private static func check(_ credentials: PrimusValue?) throws {
        let strategy = credentials?["strategy"]?.string
        if strategy == "local", credentials?["password"]?.string == "secret" { return }
        if strategy == "jwt", credentials?["accessToken"]?.string == FeathersServer.token { return }
        throw FeathersError(name: "NotAuthenticated", message: "Invalid login", code: 401)
    }

    private func index(_ id: PrimusValue?) throws -> Int {
        guard let id = id?.int, let index = self.todos.firstIndex(where: { $0.id == id }) else {
            throw FeathersError(name: "NotFound", message: "There is no such record.", code: 404)
        }
        return index
    }

    /// Sends the event of a change, and then the result.
    private func finish(_ call: PrimusServerCall, _ todo: Todo, _ event: String, _ server: PrimusServer) throws {
        server.forEach { spark in if self.authenticated.contains(spark.id) { try? spark.send(event, todo) } }
        try call.acknowledge(nil as FeathersError?, todo)
    }
}
