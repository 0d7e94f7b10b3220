import RealtimeCoding
import PusherWire
import RealtimeCore
import RealtimeSystem

/// Handles what a listener accepts: hands WebSockets to the server's driver and responds to requests to the HTTP API.
///
/// The listener holds the handler and not the server, so that releasing the server closes it, and the listener with it.
final class PusherServerHandler: ListenerHandler {
    private let app: PusherApp
    private let unixTime: @Sendable () -> Int64
    private let connections: ServedConnections<PusherServerMachine>

    init(app: PusherApp, connections: ServedConnections<PusherServerMachine>, unixTime: @escaping @Sendable () -> Int64) {
        self.app = app
        self.connections = connections
        self.unixTime = unixTime
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        if self.connections.isShutDown { return .reject(PusherServerAPI.unavailable) }
        // A connection is rejected with a close code when it is open: a rejected upgrade cannot carry the code.
        return .accept(to: Acceptor(handler: self, request: request))
    }

    private struct Acceptor: UpgradeAcceptor {
        let handler: PusherServerHandler
        let request: HTTPRequestHead

        /// More than the app's limit, so that the server can explain what is wrong with a message.
        var messageLimit: Int? { max(64 << 10, 2 * min(self.handler.app.messageLimit, 1 << 30)) }

        func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
            self.handler.connections.adopt(connection, id: id) { machine, now, effects in
                machine.accepted(id, self.request, now: now, &effects)
            }
        }
    }

    /// Enough for a batch of the largest events, of those who know the app.
    func bodyLimit(for request: HTTPRequestHead) -> Int? {
        guard request.method == "POST", PusherServerAPI.appID(of: request) == ByteString(self.app.id) else {
            return bodyLimitWithoutMessages
        }
        return max(1 << 20, PublicationLimit.events * (2 * min(self.app.eventDataLimit, 1 << 30) + 4096))
    }

    // MARK: HTTP API

    /// Responds to a request to the HTTP API before returning.
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        if self.connections.isShutDown { return responder.respond(PusherServerAPI.unavailable) }
        do throws(PusherServerAPI.Rejection) {
            let call = try PusherServerAPI.Call(request, body: body, app: self.app, unixTime: self.unixTime())
            var response = JSONObject()
            self.connections.driver.step { machine, now, effects in response = machine.perform(call, now: now, &effects) }
            responder.respond(call == .health ? PusherServerAPI.healthy : PusherServerAPI.success(response))
        } catch {
            self.connections.driver.step { machine, _, effects in
                machine.deliver(.error(socketID: nil, code: error.status, message: error.message), &effects)
            }
            responder.respond(PusherServerAPI.error(error))
        }
    }
}
