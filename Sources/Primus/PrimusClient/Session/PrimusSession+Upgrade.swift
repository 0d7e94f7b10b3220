import PrimusWire
package import RealtimeCore

/// The move of a session of engine.io from polling to a WebSocket.
///
/// ```
///          the session is open        3probe              the last poll and request end
///   polling ──────▶ probing ────────────────▶ moving ─────────────────▶ WebSocket
///                      └── error, time limit ──▶ polling
/// ```
/// The server sends nothing on the WebSocket before it has received the packet `upgrade`, and the client nothing between the answer to its probe
/// and that packet, which follows the request with messages that is under way. So all messages keep their order. Those that wait for the next
/// request follow on the WebSocket, because a server gives up one that isn't used soon. A client that is ended while it moves sends its
/// messages first, when the move is complete.
///
/// Source: `probe` in `socket.js` of engine.io-client 6.6.
extension PrimusSession {
    /// The step of the move.
    enum Upgrade: Sendable {
        case none
        /// The time that the server has to answer.
        case probing(PatientLimit)
        case moving(Moving)
    }

    /// The messages for the WebSocket after the move, in the order of their kinds. Others wait in the queue.
    struct Moving: Sendable {
        /// The messages that the polling has accepted and not sent.
        var unsent: [TransportMessage] = []
        /// The packets of heartbeats and plugins.
        var held: [TransportMessage] = []
        /// How many messages at the beginning of the queue its limit doesn't count, and their bytes: those that the connection would have taken.
        var exempt = (count: 0, bytes: 0)
    }

    private static let probe = "probe"

    /// The kind of the connection; `nil` if the client isn't connected.
    package var transport: PrimusTransport? {
        guard self.connection.connected != nil, self.drain == nil else { return nil }
        if case .moving = self.upgrade { return .polling }
        return self.attempt.connectionKind.transport
    }

    /// The URL of the WebSocket to which a session over polling moves.
    private var upgradeEndpoint: Endpoint? {
        guard case .engineIO(let version, _) = self.attempt.framing, let handshake = self.attempt.handshake else { return nil }
        return self.address.engineIO(version, .websocket, sid: handshake.sid)
    }

    /// Whether packets wait for the end of the move.
    var isMoving: Bool { if case .moving = self.upgrade { true } else { false } }

    /// Whether a session over polling may move, if the server allows it: the settings do, no WebSocket has failed in this attempt, and no move
    /// has ended a session.
    var mayMove: Bool {
        self.options.allowedTransports.contains(.webSockets) && !self.attempt.failures.contains(.webSocket) && !self.knowledge.failsToMove
    }

    /// Opens a WebSocket for a session over polling.
    mutating func beginUpgrade(now: Instant, _ effects: inout Effects<Self>) {
        guard self.attempt.connectionKind == .polling, let handshake = self.attempt.handshake, let endpoint = self.upgradeEndpoint,
            handshake.upgrades.contains(EngineIOTransport.websocket.rawValue), self.mayMove,
            let candidate = self.move.begin(&self.connection)
        else { return }
        self.upgrade = .probing(PatientLimit(self.options.probeTimeout, now: now))
        let request = PrimusRequest(
            connection: .webSocket(self.webSocketRequest(endpoint)), endpoint: endpoint, framing: self.attempt.framing,
            customTransformer: nil, customParser: self.options.customParser)
        effects.commands.append(.open(candidate, request))
    }

    /// The WebSocket is open.
    mutating func candidateOpened(_ id: ConnectionID, _ head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        guard case .engineIO(let version, _) = self.attempt.framing else { return }
        if let endpoint = self.upgradeEndpoint { self.cookies.store(head.headers, from: endpoint, now: now) }
        effects.commands.append(.send(id, EngineIOPacket(.ping, Self.probe).transportMessage(version)))
    }

    /// A message has arrived on the WebSocket before the move.
    mutating func candidateReceived(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        for message in batch.messages where message.kind == .text || message.kind == .binary {
            guard case .engineIO(let version, _) = self.attempt.framing,
                let packet = try? EngineIOPacket(message, version), packet.kind == .pong, packet.text == Self.probe
            else {
                let text = self.excerpt(String(decoding: message.bytes, as: UTF8.self))
                return self.abandonUpgrade("the server answered the probe with \(text)", &effects)
            }
            guard let old = self.move.complete(&self.connection, now: now) else { return }
            (self.upgrade, self.movedConnection) = (.moving(Moving()), old)
            // Nothing that keeps the connection alive may precede the packet that moves it.
            self.connection.suspendHeartbeat(id, true, now: now)
            effects.commands.append(.close(old, .normal, reason: EngineIOPollingRules.upgraded))
            return
        }
    }

    /// One of the two connections that isn't the current one has ended.
    package mutating func additionalClosed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        switch self.move.closed(id) {
        case .candidate?:
            self.upgrade = .none
            effects.log(.info, "connection \(id): the session stays with polling. \(self.redacted(reason))")
        case .replaced?:
            guard case .moving(let moving) = self.upgrade, let current = self.connection.connected else { return }
            // A loss of either connection is a loss of the session, which may have lost a message.
            guard reason == .requested else {
                effects.commands.append(.abandon(current))
                return self.closed(current, reason, now: now, &effects)
            }
            self.finishUpgrade(moving, on: current, now: now, &effects)
        case nil: break
        }
    }

    package mutating func unsent(_ id: ConnectionID, _ messages: [TransportMessage], now: Instant, _ effects: inout Effects<Self>) {
        guard id == self.movedConnection, case .moving(var moving) = self.upgrade else { return }
        moving.unsent += messages
        self.upgrade = .moving(moving)
    }

    private mutating func finishUpgrade(
        _ moving: Moving, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard case .engineIO(let version, _) = self.attempt.framing else { return }
        (self.upgrade, self.attempt.connectionKind, self.knowledge.connectionKind) = (.none, .webSocket, nil)
        // The connection before has none to send, and this one neither.
        (self.isWritingPaused, self.flushDeadline) = (false, nil)
        self.connection.suspendHeartbeat(id, false, now: now)
        self.send(EngineIOPacket(.upgrade).transportMessage(version), on: id, now: now, &effects)
        // They were reported when they were written.
        for message in moving.unsent { effects.commands.append(.send(id, message)) }
        for message in moving.held { self.send(message, on: id, now: now, &effects) }
        effects.log(.info, "connection \(id): the session has moved from polling to a WebSocket")
        // The server has taken the messages of these callers, or they have followed on the WebSocket, which doesn't tell.
        if let old = self.movedConnection {
            for waiter in self.answerCallers.takeAll(on: old) { effects.resume(waiter, .success(.none)) }
        }
        if self.drain != nil { return self.continueDraining(now: now, &effects) }
        self.publish(.transport(.webSockets), &effects)
        self.resumeWriting(on: id, now: now, &effects)
    }

    /// The number of messages at the beginning of the queue that its limit doesn't count.
    var exemptCount: Int {
        // The messages of a client that was ended are in a queue of their own.
        if self.drain == nil, case .moving(let moving) = self.upgrade { moving.exempt.count } else { 0 }
    }

    /// Exempts a message from the limit of the queue, as long as the connection would not have paused writing.
    ///
    /// - Returns: Whether it is exempt.
    mutating func exempt(_ bytes: Int) -> Bool {
        guard case .moving(var moving) = self.upgrade, !self.isWritingPaused, moving.exempt.bytes <= OutputGauge.mark,
            self.queue.count <= moving.exempt.count
        else { return false }
        moving.exempt = (moving.exempt.count + 1, moving.exempt.bytes + bytes)
        self.upgrade = .moving(moving)
        return true
    }

    /// Counts the messages that the limit of the queue doesn't count, after some were removed.
    ///
    /// - Parameter position: The position of the only one; `nil` if it isn't known.
    mutating func removedFromQueue(at position: Int? = nil) {
        guard case .moving(var moving) = self.upgrade else { return }
        if let position, position < moving.exempt.count { moving.exempt.count -= 1 }
        moving.exempt.count = min(moving.exempt.count, self.queue.count)
        self.upgrade = .moving(moving)
    }

    private mutating func abandonUpgrade(_ problem: String, _ effects: inout Effects<Self>) {
        guard let candidate = self.move.candidate else { return }
        self.upgrade = .none
        _ = self.move.closed(candidate)
        effects.commands.append(.abandon(candidate))
        effects.log(.info, "connection \(candidate): the session stays with polling: \(problem)")
    }

    var upgradeDeadline: Instant? { if case .probing(let limit) = self.upgrade { limit.deadline } else { nil } }

    mutating func upgradeTimeout(now: Instant, _ effects: inout Effects<Self>) {
        guard case .probing(var limit) = self.upgrade else { return }
        guard limit.hasPassed(now: now) else { return self.upgrade = .probing(limit) }
        self.abandonUpgrade("the server didn't answer the probe within \(self.options.probeTimeout)", &effects)
    }

    /// Remembers that a session was lost while it moved: the next ones stay with polling.
    mutating func lostWhileMoving(_ effects: inout Effects<Self>) {
        guard self.isMoving, self.drain == nil, !self.knowledge.failsToMove else { return }
        self.knowledge.failsToMove = true
        effects.log(.info, "the session was lost while it moved to a WebSocket, so the next ones stay with polling")
    }

    /// Abandons the connections of a move, because the session ends.
    mutating func endUpgrade(_ effects: inout Effects<Self>) {
        self.upgrade = .none
        self.move.abandon(&effects)
    }
}
