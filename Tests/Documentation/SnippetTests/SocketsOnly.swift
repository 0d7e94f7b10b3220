import RealtimeSockets

// The server of the page RealtimeSockets. This file imports no other module, as in applications.

// snippet:sockets-server
final class Greeter: ListenerHandler {
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        guard request.path == "/hello" else { return responder.respond(HTTPResponse(status: 404)) }
        responder.respond(HTTPResponse(status: 200, headers: ["Content-Type": "text/plain"], text: "Hello!\n"))
    }
}

func serve() async throws -> ListenerAddress {
    let listener = SocketListener(port: 8080)
    return try await listener.start(Greeter())
}
// end

/// A handler that uses the other types of a listener by name.
private final class Echo: ListenerHandler, UpgradeAcceptor, MessageEvents {
    private let isAllowed: @Sendable (HTTPHeaders) -> Bool

    init(_ isAllowed: @escaping @Sendable (HTTPHeaders) -> Bool) {
        self.isAllowed = isAllowed
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.begin(HTTPResponseHead(status: 200))
        responder.end()
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        .later { (responder: UpgradeResponder) in
            if self.isAllowed(request.headers) { responder.accept(to: self) } else { responder.reject(HTTPResponse(status: 401)) }
        }
    }

    func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
        connection.enqueue(TransportMessage.text("hello"))
        connection.flush()
        return self
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
    func closed(_ id: ConnectionID, _ reason: CloseReason) {
        if case .peer(CloseCode.goingAway, _) = reason { print("The client has left") }
    }
}

private func serve(on listener: any Listener) async throws(TransportError) -> Int {
    let router = ListenerRouter([.path("/hello", Greeter()), .path("/echo", Echo { $0["Authorization"] != nil })])
    return try await listener.start(router).port
}
