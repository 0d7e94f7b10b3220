import RealtimeSystem
package import RealtimeCore

/// A server of the library on a virtual network: what arrives goes to the handler that the server gives to listeners.
///
/// This way, the model of a protocol's server needs no code for connections. It answers pings, as every transport does. The handler must
/// decide about an upgrade before it returns.
package final class SimulatedListener: SimulatedServer {
    private let simulation: Simulation
    private let handler: any ListenerHandler

    package init(_ simulation: Simulation, _ handler: any ListenerHandler) {
        self.simulation = simulation
        self.handler = handler
    }

    package func accept(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> UpgradeResult {
        let answer = Lock(UpgradeResponder.Answer?.none)
        switch self.handler.upgrade(request) {
        case .accept(let subprotocol, let headers, let acceptor):
            answer.withLock { $0 = .accept(subprotocol: subprotocol, headers: headers, to: acceptor) }
        case .reject(let response): answer.withLock { $0 = .reject(response) }
        case .later(let decide):
            let responder = UpgradeResponder { decision in answer.withLock { $0 = decision } }
            decide(responder)
            responder.cancel()
        }
        switch answer.withLock({ $0 }) {
        case .accept(let subprotocol, _, let acceptor)?:
            return .accept(PongSender(connection, acceptor.connected(connection, id: id)), subprotocol: subprotocol)
        case .reject(let response)?: return .reject(response)
        case nil:
            self.simulation.fail("the server did not decide about the upgrade to \(request.target) immediately")
            return .reject(HTTPResponse(status: 503))
        }
    }

    package func respond(to request: HTTPRequestHead, body: [UInt8], _ responder: any HTTPResponder) {
        self.handler.received(request, body: body, responder: responder)
    }
}

/// Answers pings.
private final class PongSender: MessageEvents {
    private let connection: any MessageConnection
    private let events: any MessageEvents

    init(_ connection: any MessageConnection, _ events: any MessageEvents) {
        (self.connection, self.events) = (connection, events)
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.events.opened(id, head: head) }
    func writing(_ id: ConnectionID, paused: Bool) { self.events.writing(id, paused: paused) }
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.events.closed(id, reason) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        self.events.received(id, batch)
        for message in batch.messages where message.kind == .ping { self.connection.enqueue(TransportMessage(.pong, message.bytes)) }
        self.connection.flush()
    }
}
