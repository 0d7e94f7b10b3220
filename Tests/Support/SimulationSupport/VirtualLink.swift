import RealtimeCore

/// The way between a client and a server: one attempt to connect, and the connection that results from it.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class VirtualLink: @unchecked Sendable {
    let network: VirtualNetwork
    let request: WebSocketRequest
    let number: Int
    var client: VirtualConnection?
    var server: VirtualConnection?
    /// Half-open: everything is lost, and neither side is notified.
    private(set) var isSilent = false
    /// The network or the server disturbed the connection, so a client may abandon it.
    private(set) var isDisturbed = false

    private var simulation: Simulation { self.network.simulation }
    private var conditions: NetworkConditions { self.network.conditions }

    init(_ network: VirtualNetwork, _ request: WebSocketRequest, number: Int) {
        self.network = network
        self.request = request
        self.number = number
    }

    func disturb() {
        if !self.isDisturbed { self.network.totals.faults += 1 }
        self.isDisturbed = true
    }

    func silence() {
        self.simulation.note("  network: link \(self.number) is half-open")
        self.isSilent = true
        self.disturb()
    }

    // MARK: Connecting

    /// The client's end was opened.
    func connect(_ client: VirtualConnection) {
        let simulation = self.simulation
        let timeout = simulation.now.advanced(by: self.request.timeout)
        simulation.schedule(at: timeout) { [self] in
            guard client.phase == .opening else { return }
            self.disturb()
            client.end(.transport(TransportError(.timedOut, "The virtual network did not respond in time.")))
        }
        if self.network.server(at: self.request.endpoint) == nil || simulation.chance(self.conditions.refusedConnections) {
            self.disturb()
            simulation.schedule(in: self.conditions.refusalDelay) { [self] in
                self.network.totals.refused += 1
                client.arrive(end: .transport(TransportError(.refused, "The virtual network refused the connection.")))
            }
        } else if simulation.chance(self.conditions.unansweredConnections) {
            self.silence()
        } else if simulation.chance(self.conditions.slowConnections) {
            self.disturb()
            simulation.schedule(in: self.conditions.slowConnectDelay) { [self] in self.establish(client) }
        } else {
            simulation.schedule(in: self.conditions.connectDelay) { [self] in self.establish(client) }
        }
    }

    private func establish(_ client: VirtualConnection) {
        guard client.phase == .opening else { return client.opened(HTTPResponseHead(status: 101)) }
        guard let server = self.network.server(at: self.request.endpoint) else {
            return client.arrive(end: .transport(TransportError(.refused, "The virtual network refused the connection.")))
        }
        var headers = self.request.headers
        if !self.request.subprotocols.isEmpty { headers["Sec-WebSocket-Protocol"] = self.request.subprotocols.joined(separator: ", ") }
        let head = HTTPRequestHead(method: "GET", target: self.request.endpoint.target, headers: headers)
        let accepted = VirtualConnection(self.network.nextAccepted(), .server, self, nil)
        accepted.lastArrival = self.simulation.now
        self.server = accepted
        switch server.accept(accepted, id: accepted.id, request: head) {
        case .reject(let response):
            self.server = nil
            self.disturb()
            let status = response.head.status
            let message = "The virtual network rejected the upgrade with status \(status)."
            client.arrive(end: .transport(TransportError(.upgradeRejected, message, status: status)))
        case .accept(let events, let subprotocol):
            self.network.totals.opened += 1
            accepted.accept(events)
            let response = HTTPResponseHead(status: 101, headers: subprotocol.map { ["Sec-WebSocket-Protocol": $0] } ?? [:])
            client.opened(response)
            self.injectFault()
        }
    }

    // MARK: Faults

    /// May disturb the connection, after something has arrived.
    func injectFault() {
        guard let server, let client, server.phase == .open else { return }
        let simulation = self.simulation
        if simulation.chance(self.conditions.silences) { self.silence() }
        if simulation.chance(self.conditions.resets) { self.reset() }
        if simulation.chance(self.conditions.closes) {
            self.end(.peer(simulation.choose(self.conditions.closeCodes), ""))
        }
        if simulation.chance(self.conditions.stalls) { (simulation.chance(50) ? server : client).stall() }
    }

    func reset() { self.end(.transport(TransportError(.reset, "The virtual network reset the connection."))) }

    /// The network ends an open connection for both sides.
    private func end(_ reason: CloseReason) {
        guard let server, server.phase == .open else { return }
        self.disturb()
        server.end(reason)
        self.client?.schedule { $0.arrive(end: reason) }
    }

    func release() {
        self.client?.release()
        self.server?.release()
        (self.client, self.server) = (nil, nil)
    }
}
