import RealtimeJSON
import RealtimeSystem
import PusherWire
import RealtimeCore

/// Handles what a listener accepts: hands WebSockets to the server's driver and responds to requests to the HTTP API.
///
/// The listener holds the handler and not the server, so that releasing the server closes it, and the listener with it.
final class PusherServerHandler: ListenerHandler {
    let app: PusherApp
    private let unixTime: @Sendable () -> Int64
    private let driver: SessionDriver<PusherServerMachine>
    private let injector: FaultInjector
    private let rejectionCode = Lock<CloseCode?>(nil)
    private let isShutDown = Lock(false)

    init(
        app: PusherApp, driver: SessionDriver<PusherServerMachine>, injector: FaultInjector, unixTime: @escaping @Sendable () -> Int64
    ) {
        self.app = app
        self.driver = driver
        self.injector = injector
        self.unixTime = unixTime
    }

    /// Rejects everything from now on, because the server is released and its listener has not stopped yet. A WebSocket whose upgrade
    /// is accepted at the same time is closed by the listener.
    func shutDown() { self.isShutDown.withLock { $0 = true } }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        if self.isShutDown.withLock({ $0 }) { return .reject(PusherServerAPI.unavailable) }
        // A connection is rejected with a close code when it is open: a rejected upgrade cannot carry the code.
        return .accept(subprotocol: nil)
    }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        let faulty = self.injector.decorate(connection, id: id, events: self.driver)
        let rejectionCode = self.rejectionCode.withLock { $0 }
        self.driver.adopt(faulty, id: id) { machine, now, effects in
            machine.accepted(id, request, rejection: rejectionCode, now: now, &effects)
            machine.suspendHeartbeat(id, faulty.isSilent, now: now)
        }
        return faulty
    }

    // MARK: Faults

    var faults: PusherServerFaults {
        get { PusherServerFaults(self.injector.faults, rejectionCode: self.rejectionCode.withLock { $0 }) }
        set {
            self.rejectionCode.withLock { $0 = newValue.rejectionCode }
            self.driver.step { machine, now, _ in
                self.injector.faults = newValue.connectionFaults
                for id in machine.connections.keys.sorted() {
                    machine.suspendHeartbeat(id, self.injector.connection(id)?.isSilent ?? false, now: now)
                }
            }
        }
    }

    func silence(_ socketID: String, _ isSilent: Bool) {
        self.driver.step { machine, now, _ in
            guard let id = machine.connectionIDs[ByteString(socketID)], let connection = self.injector.connection(id) else { return }
            connection.silence(isSilent)
            machine.suspendHeartbeat(id, connection.isSilent, now: now)
        }
    }

    /// Sends a message regardless of faults.
    func sendUnaffected(_ message: WebSocketMessage, to socketID: String) {
        let id = self.driver.read { $0.connectionIDs[ByteString(socketID)] }
        id.flatMap(self.injector.connection)?.sendUnaffected(message)
    }

    // MARK: HTTP API

    /// Responds to a request to the HTTP API before returning.
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        if self.isShutDown.withLock({ $0 }) { return responder.respond(PusherServerAPI.unavailable) }
        do throws(PusherServerAPI.Rejection) {
            let call = try PusherServerAPI.Call(request, body: body, app: self.app, unixTime: self.unixTime())
            var response = JSONObject()
            self.driver.step { machine, now, effects in response = machine.perform(call, now: now, &effects) }
            responder.respond(call == .health ? PusherServerAPI.healthy : PusherServerAPI.success(response))
        } catch {
            self.driver.step { machine, _, effects in
                machine.deliver(.error(socketID: nil, code: error.status, message: error.message), &effects)
            }
            responder.respond(PusherServerAPI.error(error))
        }
    }
}
