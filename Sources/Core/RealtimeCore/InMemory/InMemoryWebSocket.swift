import RealtimeSystem

struct InMemoryWebSocketTransport: WebSocketTransport {
    let network: InMemoryNetwork

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        InMemorySocket(self.network, id, events, role: .client(request))
    }
}

/// One end of an in-memory WebSocket connection.
///
/// ```
///   new ──open──▶ open ──close, end, peer's close, abandon──▶ closed
/// ```
final class InMemorySocket: MessageConnection, InMemoryConnection {
    enum Role: Sendable {
        case client(WebSocketRequest)
        case server(InMemoryListener)
    }

    private struct State: Sendable {
        var phase = Phase.new
        var events: (any MessageEvents)?
        var peer: InMemorySocket?
        /// The handler's pending decision about the upgrade.
        var upgrade: InMemoryUpgrade?
        var outgoing: [TransportMessage] = []
        var incoming: [TransportMessage] = []
        var isPaused = false
        /// Whether a message above the limit has arrived, which ends the connection. What follows isn't delivered.
        var isOversized = false
        /// The bytes that this end has sent and the other end has not received yet.
        var output: OutputGauge
        /// More bytes than the limit wait. If the peer has paused reading, the next `flush` ends the connection.
        var isOverLimit = false
        /// Whether `close` was called. Messages enqueued later are dropped, even though the network closes the connection later.
        var isClosing = false
    }

    private enum Phase: Sendable { case new, open, closed }

    let id: ConnectionID
    private let network: InMemoryNetwork
    private let role: Role
    /// The maximum size of a received message in bytes.
    private let messageLimit: Int
    private let state: Lock<State>

    /// - Parameter messageLimit: The maximum size of a received message in bytes, for a server; `nil` for none. A client has that of its request.
    init(_ network: InMemoryNetwork, _ id: ConnectionID, _ events: (any MessageEvents)?, role: Role, messageLimit: Int? = nil) {
        self.network = network
        self.id = id
        self.role = role
        if case .client(let request) = role { self.messageLimit = request.messageLimit } else { self.messageLimit = messageLimit ?? .max }
        self.state = Lock(State(events: events, output: OutputGauge(limit: network.messageBacklogBytes)))
    }

    // MARK: Owner

    func open() {
        guard case .client(let request) = self.role else { return }
        self.network.submit { self.connect(request) }
    }

    func enqueue(_ message: TransportMessage) {
        self.state.withLock { state in
            guard state.phase != .closed, !state.isClosing else { return }
            if state.output.bytes > state.output.limit { state.isOverLimit = true }
            state.output.add(message.bytes.count)
            state.outgoing.append(message)
        }
    }

    func flush() {
        self.network.submit {
            let (peer, messages) = self.state.withLock { state -> (InMemorySocket?, [TransportMessage]) in
                guard state.phase == .open else { return (nil, []) }
                defer { state.outgoing = [] }
                return (state.peer, state.outgoing)
            }
            if let peer, !messages.isEmpty { peer.receive(messages, from: self) }
            self.deliver()
            if let peer { self.reportBacklog(for: peer) }
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
        let (peer, upgrade) = self.state.withLock { state in
            defer { state.phase = .closed }
            state.events = nil
            return (state.peer.take(), state.upgrade.take())
        }
        self.unregister()
        upgrade?.end()
        guard let peer, self.network.condition != .silent else { return }
        self.network.submit { peer.end(.transport(TransportError(.reset, "The peer abandoned the in-memory connection."))) }
    }

    // MARK: Network

    private func connect(_ request: WebSocketRequest) {
        guard self.state.withLock({ $0.phase == .new }) else { return }
        let endpoint = request.endpoint
        switch self.network.condition {
        case .up: break
        case .silent: return
        case .down:
            return self.end(.transport(InMemoryNetwork.unreachable(endpoint)))
        }
        guard let listener = self.network.listener(at: endpoint), let handler = listener.handler else {
            return self.end(.transport(InMemoryNetwork.refused(endpoint)))
        }
        var headers = request.headers
        if !request.subprotocols.isEmpty { headers["Sec-WebSocket-Protocol"] = request.subprotocols.joined(separator: ", ") }
        let head = HTTPRequestHead(method: "GET", target: endpoint.requestTarget, headers: headers)
        switch handler.upgrade(head) {
        case .reject(let response): self.rejected(response, request)
        case .accept(let subprotocol, let headers, let acceptor): self.accepted(subprotocol, headers, request, listener, acceptor)
        case .later(let ask):
            let upgrade = InMemoryUpgrade(listener, time: self.network.time) { answer in
                self.network.submit { self.decided(answer, request, listener) }
            }
            let isWaiting = self.state.withLock { state in
                guard state.phase == .new else { return false }
                state.upgrade = upgrade
                return true
            }
            guard isWaiting else { return }
            self.network.add(self)
            upgrade.begin(ask)
        }
    }

    private func decided(_ answer: UpgradeResponder.Answer, _ request: WebSocketRequest, _ listener: InMemoryListener) {
        guard let upgrade = self.state.withLock({ $0.upgrade.take() }) else { return answer.abandon() }
        upgrade.end()
        if self.network.condition == .silent { return answer.abandon() }
        switch answer {
        case .reject(let response): self.rejected(response, request)
        case .accept(let subprotocol, let headers, let acceptor): self.accepted(subprotocol, headers, request, listener, acceptor)
        }
    }

    private func rejected(_ response: HTTPResponse, _ request: WebSocketRequest) {
        let message = "\(request.endpoint.origin): \(response.rejectionOfUpgrade(at: request.endpoint))"
        self.end(.transport(TransportError(.upgradeRejected, message, response: response)))
    }

    private func accepted(
        _ subprotocol: String?, _ fields: HTTPHeaders, _ request: WebSocketRequest, _ listener: InMemoryListener,
        _ acceptor: any UpgradeAcceptor
    ) {
        var headers = HTTPHeaders()
        if let subprotocol { headers.add("Sec-WebSocket-Protocol", subprotocol) }
        for field in fields { headers.add(field.name, field.value) }
        guard fields.upgradeResponseError == nil, subprotocol.map(request.subprotocols.contains) ?? true else {
            acceptor.abandoned()
            return self.rejected(HTTPResponse(status: 500, text: "The server's response to the WebSocket request is invalid.\n"), request)
        }
        let server = InMemorySocket(
            self.network, .nextAccepted(), nil, role: .server(listener), messageLimit: acceptor.messageLimit)
        guard self.connect(to: server) else { return acceptor.abandoned() }
        _ = server.connect(to: self)
        guard listener.add(server) else {
            acceptor.abandoned()
            self.end(.transport(InMemoryNetwork.refused(request.endpoint)))
            return server.abandon()
        }
        let serverEvents = acceptor.connected(server, id: server.id)
        server.state.withLock { $0.events = serverEvents }
        serverEvents.opened(server.id, head: HTTPResponseHead(status: 101))
        self.state.withLock { $0.events }?.opened(self.id, head: HTTPResponseHead(status: 101, headers: headers))
        self.flush()
        server.flush()
    }

    /// - Returns: False if another thread has abandoned the connection in the meantime.
    private func connect(to peer: InMemorySocket) -> Bool {
        self.network.add(self)
        let isConnected = self.state.withLock { state in
            guard state.phase == .new else { return false }
            state.phase = .open
            state.peer = peer
            return true
        }
        if !isConnected { self.network.remove(self) }
        return isConnected
    }

    private func receive(_ messages: [TransportMessage], from sender: InMemorySocket) {
        guard self.network.condition != .silent else { return sender.sent(messages) }
        self.state.withLock { state in
            guard state.phase == .open else { return }
            state.incoming += messages
            for message in messages where message.kind == .ping && state.output.accept(message.bytes.count) {
                state.outgoing.append(TransportMessage(.pong, message.bytes))
            }
        }
        if messages.contains(where: { $0.kind == .ping }) { self.flush() }
        self.deliver()
    }

    private func deliver() {
        let (events, peer, messages) = self.state.withLock { state -> ((any MessageEvents)?, InMemorySocket?, [TransportMessage]) in
            guard state.phase == .open, !state.isPaused, !state.isOversized else { return (nil, nil, []) }
            defer { state.incoming = [] }
            state.isOversized = self.accepted(state.incoming).count < state.incoming.count
            return (state.events, state.peer, state.incoming)
        }
        guard !messages.isEmpty else { return }
        let accepted = self.accepted(messages)
        if !accepted.isEmpty { events?.received(self.id, MessageBatch(accepted)) }
        peer?.sent(messages)
        if accepted.count < messages.count { self.endOversized() }
    }

    /// The messages before the first one above the limit.
    private func accepted(_ messages: [TransportMessage]) -> ArraySlice<TransportMessage> {
        messages.prefix { $0.kind == .ping || $0.kind == .pong || $0.bytes.count <= self.messageLimit }
    }

    /// Ends the connection after what the owner has sent in response to the messages before.
    private func endOversized() {
        self.flush()
        self.network.submit {
            let peer = self.state.withLock { $0.phase == .open ? $0.peer : nil }
            let error = TransportError.oversizedMessage(limit: self.messageLimit)
            self.end(.transport(error))
            guard self.network.condition != .silent else { return }
            peer?.end(.peer(.tooLarge, TransportError.reasonForOversizedMessage(limit: self.messageLimit)))
        }
    }

    /// The other end has received messages.
    private func sent(_ messages: [TransportMessage]) {
        let events = self.state.withLock { state -> (any MessageEvents)? in
            for message in messages { state.output.remove(message.bytes.count) }
            // Only a change to writing: more than the mark may be enqueued now, but not flushed yet.
            guard state.output.bytes == 0, state.output.takeChange() == false else { return nil }
            return state.events
        }
        events?.writing(self.id, paused: false)
    }

    /// Pauses writing if too much waits for a peer that has paused reading, and ends the connection at the limit.
    private func reportBacklog(for peer: InMemorySocket) {
        let isPeerPaused = peer.state.withLock { $0.isPaused }
        let (events, error) = self.state.withLock { state -> ((any MessageEvents)?, TransportError?) in
            // Whatever has piled up while another thread processed events, a peer that reads has received it now.
            guard isPeerPaused else {
                state.isOverLimit = false
                return (nil, nil)
            }
            if state.isOverLimit { return (nil, state.output.error) }
            return (state.output.takeChange() == true ? state.events : nil, nil)
        }
        events?.writing(self.id, paused: true)
        guard let error else { return }
        self.end(.transport(error))
        peer.end(.transport(TransportError(.reset, "The peer ended the in-memory connection, because its output exceeded the limit.")))
    }

    func fail(_ error: TransportError) { self.end(.transport(error)) }

    /// Ends the connection for this end.
    func end(_ reason: CloseReason) {
        let (events, unread, upgrade) = self.state.withLock { state -> ((any MessageEvents)?, [TransportMessage], InMemoryUpgrade?) in
            guard state.phase != .closed else { return (nil, [], nil) }
            state.phase = .closed
            state.peer = nil
            defer { state.incoming = [] }
            return (state.events.take(), state.incoming, state.upgrade.take())
        }
        self.unregister()
        upgrade?.end()
        // Messages that arrived while reading was paused are delivered before the end.
        let accepted = self.accepted(unread)
        if !accepted.isEmpty { events?.received(self.id, MessageBatch(accepted)) }
        events?.closed(self.id, reason)
    }

    private func unregister() {
        self.network.remove(self)
        if case .server(let listener) = self.role { listener.remove(self) }
    }
}
