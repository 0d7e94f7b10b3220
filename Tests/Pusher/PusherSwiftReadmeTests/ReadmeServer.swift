import Foundation
import PusherServer
import PusherSwift
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport

/// A server of this package on a port, with an endpoint that authorizes subscriptions.
final class ReadmeServer: Sendable {
    let server: PusherServer
    let address: ListenerAddress
    /// The requests that the endpoint received.
    let attempts: EventRecorder<PusherAuthorizationAttempt>
    private let listener: SocketListener
    private let key: String

    private init(
        _ server: PusherServer, _ address: ListenerAddress, _ attempts: EventRecorder<PusherAuthorizationAttempt>,
        _ listener: SocketListener, _ key: String
    ) {
        (self.server, self.address, self.attempts, self.listener, self.key) = (server, address, attempts, listener, key)
    }

    static func start(key: String) async throws -> ReadmeServer {
        var app = PusherApp(id: "1", key: key, secret: "secret")
        app.encryptionMasterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        let server = PusherServer(app: app, log: .none)
        let attempts = EventRecorder<PusherAuthorizationAttempt>()
        let endpoint = PusherAuthorizationHandler(app: app) { attempt in
            attempts.record(attempt)
            return .accept(userID: attempt.socketID)
        }
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(
            ListenerRouter([.path("/app", server.listenerHandler), .path("/pusher/auth", endpoint), .path("/builder", endpoint)]))
        return ReadmeServer(server, address, attempts, listener, key)
    }

    /// The origin that replaces `http://localhost:9292`.
    var origin: String { "http://\(self.address.host):\(self.address.port)" }

    /// Creates a client of this server. Its other settings are those that a snippet passes; without a method of authorization, it uses the
    /// endpoint.
    func pusher(_ options: PusherClientOptions) -> Pusher {
        var method = options.authMethod
        switch method {
        case .endpoint, .noMethod: method = .endpoint(authEndpoint: "\(self.origin)/pusher/auth")
        default: break
        }
        let options = PusherClientOptions(
            authMethod: method, attemptToReturnJSONObject: options.attemptToReturnJSONObject, autoReconnect: options.autoReconnect,
            host: .host(self.address.host), port: self.address.port, useTLS: false, activityTimeout: options.activityTimeout)
        return Pusher(key: self.key, options: options)
    }

    /// Sends a frame to a client.
    func send(_ frame: String, to pusher: Pusher) { self.server.send(frame, to: pusher.connection.socketId ?? "") }

    /// Publishes an event on a channel.
    func publish(_ event: String, to channel: String, data: String) { self.server.publish(event, to: channel, data: data) }

    func stop() async {
        await self.listener.stop()
        await self.server.stop()
    }

    /// Runs a test with a server.
    static func with(key: String = "YOUR_APP_KEY", _ body: (ReadmeServer) async throws -> Void) async throws {
        let server = try await ReadmeServer.start(key: key)
        do {
            try await body(server)
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }
}
