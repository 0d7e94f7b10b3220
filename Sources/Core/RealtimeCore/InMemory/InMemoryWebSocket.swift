import RealtimeSystem

struct InMemoryWebSocketTransport: WebSocketTransport {
    let network: InMemoryNetwork

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        InMemorySocket(self.network, id, events, role: .client(request))
    }
}

/// One end of a WebSocket in memory.
///
/// ```
///   new ──open──▶ open ──close, end, peer's close, abandon──▶ closed
/// ```
final class InMemorySocket: WebSocketConnection {
    enum Role: Sendable {
        case client(WebSocketRequest)
        case server(InMemoryListener)
    }

    private struct State: Sendable {
        var phase = Phase.new
        var events: (any WebSocketEvents)?
        var peer: InMemorySocket?
        var outgoing: [WebSocketMessage] = []
        var inbox: [WebSocketMessage] = []
        var isPaused = false
        /// Told to close: what is enqueued from here on is dropped, though the network comes to it later.
        var isClosing = false
    }

    private enum Phase: Sendable { case new, open, closed }

    let id: ConnectionID
    private let network: InMemoryNetwork
    private let role: Role
    private let state: Lock<State>

    init(_ network: InMemoryNetwork, _ id: ConnectionID, _ events: (any WebSocketEvents)?, role: Role) {
        self.network = network
        self.id = id
        self.role = role
        self.state = Lock(State(events: events))
    }

    // MARK: From its owner

    func open() {
        guard case .client(let request) = self.role else { return }
        self.network.submit { self.connect(request) }
    }

    func enqueue(_ message: WebSocketMessage) {
        self.state.withLock { state in
            if state.phase != .closed, !state.isClosing { state.outgoing.append(message) }
        }
    }

    func flush() {
        self.network.submit {
            let (peer, messages) = self.state.withLock { state -> (InMemorySocket?, [WebSocketMessage]) in
                guard state.phase == .open else { return (nil, []) }
                defer { state.outgoing = [] }
                return (state.peer, state.outgoing)
            }
            if !messages.isEmpty { peer?.arrived(messages) }
            self.deliver()
        }
    }

    func pauseReading() { self.state.withLock { $0.isPaused = true } }

    func resumeReading() { self.state.withLock { $0.isPaused = false } }

    func close(_ code: CloseCode, reason: String) {
        self.state.withLock { $0.isClosing = true }
        self.flush()
        self.network.submit {
            let peer = self.state.withLock { $0.phase == .open ? $0.peer : nil }
            self.end(.requested)
            if self.network.condition != .silent { peer?.end(.peer(code, reason)) }
        }
    }

    func abandon() {
        let peer = self.state.withLock { state in
            defer { state.phase = .closed }
            state.events = nil
            return state.peer.take()
        }
        self.leave()
        guard let peer, self.network.condition != .silent else { return }
        self.network.submit { peer.end(.transport(TransportError(.reset, "The other end of the in-memory connection has gone."))) }
    }

    // MARK: On the network

    private func connect(_ request: WebSocketRequest) {
        guard self.state.withLock({ $0.phase == .new }) else { return }
        let endpoint = request.endpoint
        switch self.network.condition {
        case .up: break
        case .silent: return
        case .down:
            return self.end(
                .transport(TransportError(.unreachable, "There is no way to \(endpoint.origin): the in-memory network is down.")))
        }
        guard let listener = self.network.listener(at: endpoint), let handler = listener.handler else {
            return self.end(
                .transport(
                    TransportError(.refused, "Nothing listens at \(endpoint.origin) on the in-memory network; start the server first.")))
        }
        var headers = request.headers
        if !request.subprotocols.isEmpty { headers["Sec-WebSocket-Protocol"] = request.subprotocols.joined(separator: ", ") }
        let head = HTTPRequestHead(method: "GET", target: endpoint.target, headers: headers)
        switch handler.upgrade(head) {
        case .refuse(let response):
            let error = TransportError(
                .upgradeRefused, "\(endpoint.origin) refused the WebSocket with status \(response.head.status).",
                status: response.head.status)
            self.end(.transport(error))
        case .accept(let subprotocol):
            let server = InMemorySocket(self.network, self.network.nextConnectionID(), nil, role: .server(listener))
            guard self.join(server) else { return }
            listener.add(server)
            _ = server.join(self)
            let serverEvents = handler.accepted(server, id: server.id, request: head)
            server.state.withLock { $0.events = serverEvents }
            serverEvents.opened(server.id, head: HTTPResponseHead(status: 101))
            let answer = HTTPResponseHead(status: 101, headers: subprotocol.map { ["Sec-WebSocket-Protocol": $0] } ?? [:])
            self.state.withLock { $0.events }?.opened(self.id, head: answer)
            self.flush()
            server.flush()
        }
    }

    /// False: it was abandoned meanwhile, by another thread.
    private func join(_ peer: InMemorySocket) -> Bool {
        self.network.add(self)
        let isJoined = self.state.withLock { state in
            guard state.phase == .new else { return false }
            state.phase = .open
            state.peer = peer
            return true
        }
        if !isJoined { self.network.remove(self) }
        return isJoined
    }

    private func arrived(_ messages: [WebSocketMessage]) {
        guard self.network.condition != .silent else { return }
        self.state.withLock { state in
            guard state.phase == .open else { return }
            state.inbox += messages
            for message in messages where message.kind == .ping { state.outgoing.append(WebSocketMessage(.pong, message.bytes)) }
        }
        if messages.contains(where: { $0.kind == .ping }) { self.flush() }
        self.deliver()
    }

    private func deliver() {
        let (events, messages) = self.state.withLock { state -> ((any WebSocketEvents)?, [WebSocketMessage]) in
            guard state.phase == .open, !state.isPaused else { return (nil, []) }
            defer { state.inbox = [] }
            return (state.events, state.inbox)
        }
        if !messages.isEmpty { events?.received(self.id, MessageBatch(messages)) }
    }

    /// The connection is over for this end.
    func end(_ reason: CloseReason) {
        let (events, rest) = self.state.withLock { state -> ((any WebSocketEvents)?, [WebSocketMessage]) in
            guard state.phase != .closed else { return (nil, []) }
            state.phase = .closed
            state.peer = nil
            defer { state.inbox = [] }
            return (state.events.take(), state.inbox)
        }
        self.leave()
        // What arrived before the end was read late, not lost.
        if !rest.isEmpty { events?.received(self.id, MessageBatch(rest)) }
        events?.closed(self.id, reason)
    }

    private func leave() {
        self.network.remove(self)
        if case .server(let listener) = self.role { listener.remove(self) }
    }
}
