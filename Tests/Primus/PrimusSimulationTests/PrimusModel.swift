import PrimusClient
import PrimusWire
import RealtimeCore
import SimulationSupport

/// A server of Primus on a virtual network: it sends back what it receives, pings, and ends connections with and without a message.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class PrimusModel: ListenerHandler, WebSocketEvents, @unchecked Sendable {
    static let endpoint = Endpoint(scheme: "http", host: "simulated", port: 80)

    private let simulation: Simulation
    private let spec: String
    private var open: [(id: ConnectionID, connection: any WebSocketConnection)] = []
    private var last: [ConnectionID: Int] = [:]
    /// The time of the last message on each connection.
    private var heard: [ConnectionID: Instant] = [:]
    private(set) var echoes = 0, ends = 0

    init(on network: VirtualNetwork) {
        self.simulation = network.simulation
        let isOld = network.simulation.chance(30)
        self.spec =
            isOld
            ? #"{"timeout":12000,"version":"6.1.0","parser":"json","transformer":"websockets"}"#
            : #"{"pingInterval":5000,"version":"8.0.9","parser":"json","transformer":"websockets"}"#
        network.setServer(SimulatedListener(network.simulation, self), host: "simulated", port: 80)
    }

    var connectionCount: Int { self.open.count }

    func ping() {
        // As Primus does, because a client may be gone without a sign.
        let limit = self.simulation.now.advanced(by: .seconds(-15))
        for (id, connection) in self.open where self.heard[id].map({ $0 < limit }) ?? false {
            connection.abandon()
            self.open.removeAll { $0.id == id }
        }
        guard self.spec.contains("pingInterval") else { return }
        self.send(#""primus::ping::\#(self.simulation.now.nanoseconds / 1_000_000)""#)
    }

    /// Sends a text on all connections.
    private func send(_ text: String) {
        for (_, connection) in self.open {
            connection.enqueue(.text(text))
            connection.flush()
        }
    }

    /// Ends all connections.
    ///
    /// - Parameter isFinal: Whether the clients are told not to come back.
    func end(isFinal: Bool) {
        if isFinal {
            self.ends += self.open.count
            self.send(#""primus::server::close""#)
        }
        for (_, connection) in self.open { connection.close(.normal, reason: "") }
    }

    // MARK: Listening

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(self.simulation.chance(5) ? HTTPResponse(status: 503) : HTTPResponse(status: 200, text: self.spec))
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        self.simulation.chance(3) ? .reject(HTTPResponse(status: 502)) : .accept(subprotocol: nil)
    }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        self.open.append((id, connection))
        self.heard[id] = self.simulation.now
        return self
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {}

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.open.removeAll { $0.id == id } }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        guard let connection = self.open.first(where: { $0.id == id })?.connection else { return }
        self.heard[id] = self.simulation.now
        for message in batch.messages where message.kind == .text {
            let text = String(decoding: message.bytes, as: UTF8.self)
            if let number = Int(text) {
                // Messages may be lost with their connection, and never change their order.
                self.simulation.require(number > self.last[id] ?? 0, "\(number) arrived after \(self.last[id] ?? 0)")
                self.last[id] = number
                self.echoes += 1
                connection.enqueue(.text(text))
            } else if text == #""primus::id::""# {
                connection.enqueue(.text(#""primus::id::spark""#))
            } else if text.hasPrefix(#""primus::ping::"#) {
                connection.enqueue(.text(#""primus::pong::"# + text.dropFirst(#""primus::ping::"#.count)))
            } else {
                self.simulation.require(text.hasPrefix(#""primus::pong::"#), "the server received \(text)")
            }
        }
        connection.flush()
    }
}
