import RealtimeCore
import RealtimeSystem
import SignalRWire

/// Negotiations, the requests that open connections, and those that belong to connections over HTTP.
extension SignalRServerMachine {
    // MARK: Negotiations

    enum NegotiationResult: Sendable {
        /// The token is `nil` if the client doesn't know tokens. Then the ID is the token.
        case connection(NegotiatedConnection)
        case redirect(NegotiateResponse.Redirect)
        case unavailable
    }

    struct NegotiatedConnection: Sendable {
        let id: String
        /// `nil` if the client doesn't know tokens. Then the ID is the token.
        let token: String?
        let transports: HubTransportKinds
        let allowsResuming: Bool
    }

    /// - Parameters:
    ///   - usesToken: Whether the client knows that the token isn't the ID of the connection.
    ///   - wantsResuming: Whether the client asks for stateful reconnect.
    mutating func negotiate(
        _ hub: HubID, usesToken: Bool, wantsResuming: Bool = false, now: Instant, _ effects: inout Effects<Self>
    ) -> NegotiationResult {
        if let redirect = self.hubs[hub.rawValue].redirect { return .redirect(redirect) }
        guard self.configuration.negotiationLimit > 0 else { return .unavailable }
        // The client of the oldest one is the least likely to connect. Refusing new ones would let a single client close all hubs.
        while self.negotiationDeadlines.count >= self.configuration.negotiationLimit, let oldest = self.negotiationDeadlines.earliestKey {
            self.forgetNegotiation(oldest)
        }
        let id = self.generator.makeID()
        let token = usesToken ? self.generator.makeID() : nil
        let key = ByteString(token ?? id)
        let allowsResuming = wantsResuming && self.configuration.allowsStatefulReconnects
        self.negotiations[key] = Negotiation(hub: hub, connectionID: id, allowsResuming: allowsResuming)
        self.negotiationDeadlines.set(key, PatientLimit(self.connectTimeout, now: now))
        self.deliver(.negotiated(hub: self.hubs[hub.rawValue].path, connectionID: id), &effects)
        return .connection(
            NegotiatedConnection(id: id, token: token, transports: self.hubs[hub.rawValue].transports, allowsResuming: allowsResuming))
    }

    private mutating func forgetNegotiation(_ key: ByteString) {
        self.negotiationDeadlines.remove(key)
        self.negotiations[key] = nil
    }

    /// The established connection with a token; `nil` if there is none. In version 0 of the negotiation, connections have no tokens.
    func connection(withToken token: String, on hub: HubID) -> HubConnectionInfo? {
        guard let negotiation = self.negotiations[ByteString(token)], negotiation.hub == hub, negotiation.connectionID != token,
            let id = self.hubs[hub.rawValue].connections[ByteString(negotiation.connectionID)],
            let connection = self.connections[id], connection.format != nil
        else { return nil }
        return connection.established?.info
    }

    // MARK: Opening

    private enum Opening {
        case refused(HubRefusal)
        /// The connection may be opened.
        case permitted
        case isOpen(ConnectionID)
    }

    /// Decides about a request that opens a negotiated connection, or belongs to it.
    private func opening(_ key: ByteString, by transport: HubTransport, on hub: HubID) -> Opening {
        guard let negotiation = self.negotiations[key], negotiation.hub == hub else { return .refused(.unknownToken) }
        guard negotiation.transport == transport || self.hubs[hub.rawValue].transports.contains(transport) else {
            return .refused(.unsupportedTransport(transport))
        }
        switch negotiation.state {
        case .waiting: return .permitted
        case .opening(let other), .open(let other, _):
            guard other == transport else { return .refused(.otherTransport) }
            guard case .open(_, let id) = negotiation.state else { return .refused(.inUse) }
            return .isOpen(id)
        }
    }

    /// Whether there are as many connections as may be, with those whose upgrade has been accepted.
    private var isFull: Bool { self.connections.count + self.admissionCount >= self.configuration.connectionLimit }

    /// Decides about a WebSocket.
    ///
    /// - Returns: Why it is refused, or `nil` to accept it. Then, ``connected(_:_:now:_:)`` or ``abandoned(_:)`` follows.
    mutating func admit(_ admission: Admission) -> HubRefusal? {
        if let token = admission.token {
            switch self.opening(token, by: .webSockets, on: admission.hub) {
            case .refused(let refusal): return refusal
            case .isOpen(let id):
                guard self.connections[id]?.isResumable == true else { return .inUse }
                guard self.connections[id]?.userID == admission.userID else { return .otherUser }
                self.admissionCount += 1
                return nil
            case .permitted: break
            }
        } else if !self.hubs[admission.hub.rawValue].transports.contains(.webSockets) {
            return .unsupportedTransport(.webSockets)
        }
        guard !self.isFull else { return .unavailable }
        if let token = admission.token { self.startOpening(token, .webSockets) }
        self.admissionCount += 1
        return nil
    }

    /// The listener has no connection for a WebSocket that was accepted.
    mutating func abandoned(_ admission: Admission) {
        self.endAdmission()
        // An open connection, which would have been resumed, remains.
        if let token = admission.token, case .opening? = self.negotiations[token]?.state { self.negotiations[token] = nil }
    }

    private mutating func endAdmission() {
        assert(self.admissionCount > 0, "an admission ends twice")
        self.admissionCount -= 1
    }

    private mutating func startOpening(_ key: ByteString, _ transport: HubTransport) {
        self.negotiations[key]?.state = .opening(transport)
        self.negotiationDeadlines.remove(key)
    }

    /// The listener has the connection of a WebSocket that was accepted.
    ///
    /// - Returns: `false` if its negotiation is forgotten. The caller closes the connection.
    mutating func connected(_ admission: Admission, _ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) -> Bool {
        self.endAdmission()
        guard let token = admission.token else {
            let negotiation = Negotiation(hub: admission.hub, connectionID: self.generator.makeID(), allowsResuming: false)
            self.insert(self.connection(.webSockets, negotiation, token: nil, admission.userID, admission.request, now: now), id)
            return true
        }
        if case .open(_, let resumed)? = self.negotiations[token]?.state { return self.resume(resumed, on: id, now: now, &effects) }
        return self.accepted(id, by: .webSockets, token: token, userID: admission.userID, admission.request, now: now, &effects)
    }

    /// A negotiated connection was opened with a request that was admitted.
    ///
    /// - Returns: `false` if the negotiation is forgotten. The caller closes the connection.
    mutating func accepted(
        _ id: ConnectionID, by transport: HubTransport, token: ByteString, userID: String?, _ request: HTTPRequestHead, now: Instant,
        _ effects: inout Effects<Self>
    ) -> Bool {
        guard let negotiation = self.negotiations[token] else { return false }
        self.negotiations[token]?.state = .open(transport, id)
        self.negotiations[token]?.earlyBodies = []
        self.insert(self.connection(transport, negotiation, token: token, userID, request, now: now), id)
        if !negotiation.earlyBodies.isEmpty {
            self.received(id, MessageBatch(negotiation.earlyBodies.map { .binary($0) }), now: now, &effects)
        }
        return true
    }

    private func connection(
        _ transport: HubTransport, _ negotiation: Negotiation, token: ByteString?, _ userID: String?, _ request: HTTPRequestHead,
        now: Instant
    ) -> Connection {
        Connection(
            hub: negotiation.hub, connectionID: negotiation.connectionID, transport: transport, token: token, userID: userID,
            request: request, allowsResuming: negotiation.allowsResuming && transport == .webSockets,
            state: .handshaking(Handshake(limit: PatientLimit(self.handshakeTimeout, now: now))))
    }

    private mutating func insert(_ connection: Connection, _ id: ConnectionID) {
        self.connections.insert(connection, id)
        self.updateTimer(id)
    }

    // MARK: Requests of connections over HTTP

    /// The decision about a request.
    enum RequestDecision: Sendable {
        case refuse(HubRefusal)
        /// It opens the connection. The caller opens it, and passes the request to it.
        case open(ByteString, HubTransport)
        case pass(to: ConnectionID)
        /// Its messages are kept until the connection is opened.
        case keep
    }

    /// Decides about a request that waits for messages: a stream of events, or a poll.
    ///
    /// - Parameter injected: The status with which to refuse to open the connection, as a fault; `nil` for none.
    mutating func waits(
        _ transport: HubTransport, token: String?, on hub: HubID, userID: String?, refusing injected: Int? = nil
    ) -> RequestDecision {
        guard let key = Self.key(token) else { return .refuse(.missingToken) }
        switch self.opening(key, by: transport, on: hub) {
        case .refused(let refusal): return .refuse(refusal)
        case .isOpen(let id): return self.pass(to: id, userID)
        case .permitted: break
        }
        if let injected { return .refuse(.fault(status: injected)) }
        guard !self.isFull else { return .refuse(.unavailable) }
        self.startOpening(key, transport)
        return .open(key, transport)
    }

    /// Decides about a request that brings messages.
    mutating func brings(_ body: [UInt8], token: String?, on hub: HubID, userID: String?) -> RequestDecision {
        guard let key = Self.key(token) else { return .refuse(.missingToken) }
        guard let negotiation = self.negotiations[key], negotiation.hub == hub else { return .refuse(.unknownToken) }
        guard negotiation.transport != .webSockets else { return .refuse(.postToWebSocket) }
        if case .open(_, let id) = negotiation.state { return self.pass(to: id, userID) }
        let size = negotiation.earlyBodies.reduce(body.count) { $0 + $1.count }
        guard size <= Self.earlyByteLimit, negotiation.earlyBodies.count < Self.earlyByteLimit / 128 else { return .refuse(.earlyBodies) }
        self.negotiations[key]?.earlyBodies.append(body)
        return .keep
    }

    /// The number of bytes that are kept for a connection that isn't opened yet: a handshake, and a few messages.
    private static let earlyByteLimit = 4096

    /// Decides about a request that ends the connection.
    func ends(token: String?, on hub: HubID, userID: String?) -> RequestDecision {
        guard let key = Self.key(token) else { return .refuse(.missingToken) }
        guard let negotiation = self.negotiations[key], negotiation.hub == hub else { return .refuse(.unknownToken) }
        guard case .open(.longPolling, let id) = negotiation.state else { return .refuse(.deletion) }
        return self.pass(to: id, userID)
    }

    /// The connection over HTTP with a token; `nil` if there is none.
    func connectionOverHTTP(withToken token: String?, on hub: HubID) -> ConnectionID? {
        guard let key = Self.key(token), let negotiation = self.negotiations[key], negotiation.hub == hub,
            case .open(let transport, let id) = negotiation.state, transport != .webSockets
        else { return nil }
        return id
    }

    /// The token may have been stolen, so it isn't enough: every request states the user.
    private func pass(to id: ConnectionID, _ userID: String?) -> RequestDecision {
        guard let connection = self.connections[id] else { return .refuse(.unknownToken) }
        return connection.userID == userID ? .pass(to: id) : .refuse(.otherUser)
    }

    private static func key(_ token: String?) -> ByteString? { token.flatMap { $0.isEmpty ? nil : ByteString($0) } }

    // MARK: Stopping

    /// Ends the connections over HTTP, which are closed: without a listener, no further request can bring their ends to the clients.
    mutating func endConnectionsOverHTTP(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.connections.ids where self.connections[id]?.transport != .webSockets {
            effects.commands.append(.abandon(id))
            self.end(id, .requested, now: now, &effects)
        }
    }
}
