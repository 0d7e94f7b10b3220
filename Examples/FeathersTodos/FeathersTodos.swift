import PrimusClient

nonisolated struct Todo: Codable, Sendable {
    let id: Int
    let text: String
    var isDone: Bool
}

/// Uses a service of a Feathers application over polling: signs in, creates and changes a record, receives the events of another client, and
/// handles errors. The server runs in the same process, on a port; with a URL as the argument, it is another one.
@main struct FeathersTodos {
    static func main() async throws {
        let own = CommandLine.arguments.count > 1 ? nil : try await FeathersServer()
        let url = own?.url ?? CommandLine.arguments[1]
        let (anna, bert) = (try Self.client(url), try Self.client(url))
        let (todos, others) = (FeathersService<Todo>(path: "todos", primus: anna), FeathersService<Todo>(path: "todos", primus: bert))

        do {
            _ = try await todos.find()
        } catch let error as FeathersError {
            print(error)
        }
        for client in [anna, bert] { try await Self.signIn(client) }
        print("anna has signed in over \(anna.transport?.description ?? "nothing")")

        // From now on, so that no event is missed.
        let (created, patched) = (others.on("created"), others.on("patched"))
        let todo = try await todos.create(["text": "write an example"])
        print("anna created:", todo.id, todo.text)
        for await todo in created {
            print("bert received: todos created", todo.id)
            break
        }
        _ = try await todos.patch(todo.id, ["isDone": true])
        for await todo in patched {
            print("bert received: todos patched", todo.id, todo.isDone ? "done" : "open")
            break
        }
        print("all:", try await todos.find().map(\.text))
        do {
            _ = try await todos.get(7)
        } catch let error as FeathersError {
            print(error)
        }
        for client in [anna, bert] { client.end() }
        await own?.stop()
    }

    private static func client(_ url: String) throws -> PrimusConnection {
        var configuration = try PrimusConfiguration(url: url)
        configuration.plugins = [.emitter]
        configuration.allowedTransports = .polling
        configuration.log = .none
        let client = PrimusConnection(configuration)
        client.open()
        return client
    }

    /// Authenticates the connection. An app does that again after each reconnect, with the token.
    private static func signIn(_ client: PrimusConnection) async throws {
        let authentication = FeathersService<FeathersAuthentication>(path: "authentication", primus: client)
        _ = try await authentication.create(["strategy": "local", "email": "anna@example.org", "password": "secret"])
    }
}
