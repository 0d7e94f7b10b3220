package import RealtimeCore

/// A server on a ``VirtualNetwork``. It is called on the thread of the simulation.
package protocol SimulatedServer: AnyObject, Sendable {
    /// Handles a WebSocket upgrade.
    ///
    /// - Parameters:
    ///   - connection: The server's end, for sending messages and closing it.
    ///   - id: The ID of the server's end. It is unique on the network.
    ///   - request: The head of the request.
    /// - Returns: The object that receives the messages and the end of the connection, or the response that rejects the upgrade.
    func accept(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> UpgradeResult

    /// Handles an HTTP request. By default, the response is 404.
    ///
    /// - Parameter responder: Sends the response, now or later, as a whole or in pieces. If it isn't called, the client waits until its
    ///   time limit.
    func respond(to request: HTTPRequestHead, body: [UInt8], _ responder: any HTTPResponder)
}

package enum UpgradeResult: Sendable {
    case accept(any MessageEvents, subprotocol: String? = nil)
    case reject(HTTPResponse)
}

extension SimulatedServer {
    package func respond(to request: HTTPRequestHead, body: [UInt8], _ responder: any HTTPResponder) {
        responder.respond(HTTPResponse(status: 404))
    }
}

/// A network without sockets, with delays and faults, in the virtual time of a ``Simulation``.
///
/// It knows WebSocket connections, messages and HTTP requests, and no protocol. A client connects through ``connect(_:id:events:)`` or
/// ``webSocket``, and sends requests through ``http``. Several clients and servers can share a network.
///
/// It fulfills the contract of `MessageConnection` with one exception, which tests that clients ignore late events: the events of an
/// abandoned connection are still delivered, and ``Simulation/cause`` is `lateEvent` meanwhile.
///
/// `@unchecked Sendable`: used only on the thread of the simulation, which checks that.
package final class VirtualNetwork: @unchecked Sendable {
    /// The counts of the network. Each message that is sent is delivered, lost or on its way.
    package struct Totals: Sendable {
        package var connections = 0, opened = 0, refused = 0, faults = 0, lateEvents = 0, requests = 0, pauses = 0
        package var repeatedRequests = 0, exchangeFaults = 0
        package var sent = 0, delivered = 0, lost = 0, inTransit = 0
    }

    package let simulation: Simulation
    /// The current behavior. A change affects what is sent from now on.
    package var conditions: NetworkConditions
    /// Whether a ``RecoveryRun`` is in its phase of faults, in which servers and users make trouble as well.
    package internal(set) var hasFaults = true
    package internal(set) var totals = Totals()
    private var servers: [String: any SimulatedServer] = [:]
    private var links: [VirtualLink] = []
    private var exchanges: [VirtualExchange] = []
    private var lastAccepted: UInt64 = 0

    package init(_ simulation: Simulation, _ conditions: NetworkConditions = .reliable) {
        self.simulation = simulation
        self.conditions = conditions
        simulation.atRelease { self.release() }
    }

    /// Makes a server reachable under a host name and port. Replaces the server that is reachable there; `nil` removes it, so that
    /// connections are refused.
    package func setServer(_ server: (any SimulatedServer)?, host: String, port: Int) { self.servers["\(host):\(port)"] = server }

    func server(at endpoint: Endpoint) -> (any SimulatedServer)? { self.servers["\(endpoint.host):\(endpoint.port)"] }

    /// Creates a client's connection, which starts connecting when it is opened.
    package func connect(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> VirtualConnection {
        self.totals.connections += 1
        let link = VirtualLink(self, request, number: self.links.count + 1)
        let client = VirtualConnection(id, .client, link, events)
        link.client = client
        self.links.append(link)
        return client
    }

    package var webSocket: any WebSocketTransport { VirtualTransport(network: self) }

    package var http: any HTTPExchangeTransport { VirtualHTTP(network: self) }

    func add(_ exchange: VirtualExchange) { self.exchanges.append(exchange) }

    /// Resets all connections, also those of HTTP requests.
    package func cut() {
        for link in self.links { link.reset() }
        for exchange in self.exchanges { exchange.reset() }
    }

    /// Returns an ID that doesn't depend on other tests of the process, and that no session over HTTP of a server has.
    func nextAccepted() -> ConnectionID {
        self.lastAccepted += 1
        return ConnectionID(rawValue: 1 << 63 | self.lastAccepted)
    }

    /// The numbers of events on the network, for the counts of a run.
    package var counts: [String: Int] {
        [
            "connections": self.totals.opened, "late events": self.totals.lateEvents, "pauses": self.totals.pauses,
            "faults": self.totals.faults, "steps": self.simulation.steps,
            "requests": self.totals.requests, "repeated requests": self.totals.repeatedRequests,
        ]
    }

    /// Checks that every message was delivered or lost, or is on its way.
    package func checkCounts() {
        let totals = self.totals
        self.simulation.require(
            totals.sent == totals.delivered + totals.lost + totals.inTransit, "the messages of the network don't add up: \(totals)")
    }

    /// Releases all clients and servers, which may refer to their connections.
    private func release() {
        for link in self.links { link.release() }
        for exchange in self.exchanges { exchange.release() }
        let released = self.servers
        (self.links, self.exchanges, self.servers) = ([], [], [:])
        // A server that is deallocated here may close its connections.
        _ = released
    }
}

private struct VirtualTransport: WebSocketTransport {
    let network: VirtualNetwork

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        self.network.connect(request, id: id, events: events)
    }
}
