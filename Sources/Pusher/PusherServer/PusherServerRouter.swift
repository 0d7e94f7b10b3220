import PusherWire
public import RealtimeCore
import RealtimeSystem

/// A handler with which the servers of several apps share a listener.
///
/// ```swift
/// let servers = apps.map { PusherServer(app: $0) }
/// let listener = SocketListener(port: 8080)
/// let address = try await listener.start(PusherServerRouter(servers))
/// ```
/// Each app has a server of its own. The router passes a client to the server with the key in the path of its request, and a request to the
/// HTTP API to the server with the ID in its path. The first server receives everything else: it closes the connection of a client with
/// an unknown key with code 4001, and responds to a request with an unknown ID with status 404.
///
/// Keep references to the servers, and don't call ``PusherServer/start(on:)``. To stop, stop the listener, and then each server to ask
/// its clients to reconnect.
public final class PusherServerRouter: ListenerHandler {
    private let servers: [(app: PusherApp, handler: any ListenerHandler)]

    /// Creates a router. It doesn't retain the servers: requests for a server that has been released are rejected.
    ///
    /// - Parameter servers: The servers, at least one. Of servers with the same key or the same ID, the first one receives the requests.
    public init(_ servers: [PusherServer]) {
        precondition(!servers.isEmpty, "A router needs at least one server.")
        self.servers = servers.map { ($0.app, $0.listenerHandler) }
    }

    private func handler(forKeyIn request: HTTPRequestHead) -> any ListenerHandler {
        let key = PusherServerAPI.appKey(of: request)
        return (self.servers.first { ByteString($0.app.key) == key } ?? self.servers[0]).handler
    }

    /// Passes a request to the server with the ID of the app in its path.
    public func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.handler(forIDIn: request).received(request, body: body, responder: responder)
    }

    private func handler(forIDIn request: HTTPRequestHead) -> any ListenerHandler {
        let id = PusherServerAPI.appID(of: request)
        return (self.servers.first { ByteString($0.app.id) == id } ?? self.servers[0]).handler
    }

    /// Passes an upgrade to the server with the key of the app in its path.
    public func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { self.handler(forKeyIn: request).upgrade(request) }

    /// Returns the limit of the server with the ID of the app in its path.
    public func bodyLimit(for request: HTTPRequestHead) -> Int? { self.handler(forIDIn: request).bodyLimit(for: request) }
}

extension PusherServerRouter: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("apps", self.servers.map(\.app.id))] }
}
