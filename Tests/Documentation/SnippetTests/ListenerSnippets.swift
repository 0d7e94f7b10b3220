import PusherServer
import RealtimeCore
import RealtimeTesting
import Testing

// The snippets about listeners in documentation comments, and a test of the one in SocketsOnly.swift.

final class Conversation: MessageEvents {
    init(with name: String, on connection: any MessageConnection) {}

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
    func closed(_ id: ConnectionID, _ reason: CloseReason) {}
}

// snippet:acceptor
struct Visitor: UpgradeAcceptor {
    let name: String

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        Conversation(with: name, on: connection)
    }
}
// end

private final class Visitors {
    private let findUser: @Sendable (HTTPRequestHead) async -> String?

    init(_ findUser: @escaping @Sendable (HTTPRequestHead) async -> String?) {
        self.findUser = findUser
    }

    // snippet:upgrade
    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        .later { [findUser] responder in
            let task = Task {
                guard let name = await findUser(request) else { return responder.reject(HTTPResponse(status: 401)) }
                responder.accept(to: Visitor(name: name))
            }
            responder.onCancel { task.cancel() }
        }
    }
    // end
}

func routerReference(
    _ listener: any Listener, _ chat: any ListenerHandler, _ news: any ListenerHandler, _ health: any ListenerHandler
) async throws {
    // snippet:router
    let router = ListenerRouter([
        .path("/chat", chat),
        .path("/news", news),
        .matching(health) { request in request.method == "GET" && request.path == "/health" },
    ])
    let address = try await listener.start(router)
    // end
    _ = address
}

func sharedListenerReference(_ listener: any Listener, _ server: PusherServer, _ chat: any ListenerHandler) async throws {
    // snippet:shared-listener
    let router = ListenerRouter([
        .path("/app", server.listenerHandler), .path("/apps", server.listenerHandler), .path("/chat", chat),
    ])
    let address = try await listener.start(router)
    // end
    _ = address
}

func authorizationReference(_ listener: any Listener, _ server: PusherServer) async throws {
    // snippet:authorization-handler
    let authorization = PusherAuthorizationHandler(app: server.app) { attempt in
        attempt.request.headers["Authorization"] == "Bearer token" ? .accept(userID: "anna") : .reject()
    }
    let router = ListenerRouter([.exactPath("/pusher/auth", authorization), .path("/", server.listenerHandler)])
    let address = try await listener.start(router)
    // end
    _ = address
}

@Suite struct ListenerSnippets {
    @Test(arguments: [("/hello", 200, "Hello!\n"), ("/other", 404, "")])
    func `the server of the page on sockets responds`(path: String, status: Int, body: String) async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let listener = network.listener(host: "greeter", port: 80)
        _ = try await listener.start(Greeter())
        let response = try await network.http.send(HTTPRequest("GET", Endpoint("http://greeter\(path)")))
        #expect(response.head.status == status)
        #expect(String(decoding: response.body, as: UTF8.self) == body)
        await listener.stop()
    }
}
