import PusherServer
import RealtimeCore
import RealtimeTesting
import Testing

// The snippets about listeners in documentation comments, and a test of the one in SocketsOnly.swift.

private final class Authorizer {
    private let isAuthorized: @Sendable (HTTPRequestHead) async -> Bool

    init(_ isAuthorized: @escaping @Sendable (HTTPRequestHead) async -> Bool) {
        self.isAuthorized = isAuthorized
    }

    // snippet:upgrade
    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        .later { [isAuthorized] responder in
            let task = Task {
                if await isAuthorized(request) { responder.accept() } else { responder.reject(HTTPResponse(status: 401)) }
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
