package import PrimusWire
package import RealtimeCore
import RealtimeSystem

/// The messages that the server sends.
extension PrimusSession {
    package mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        // A client that was ended only waits for its own messages.
        guard self.drain == nil else { return }
        if id == self.move.candidate { return self.candidateReceived(id, batch, now: now, &effects) }
        var current = id
        if id == self.move.replaced, let connected = self.connection.connected {
            // What the server sends on this connection precedes what it sends on the current one, and belongs to it.
            current = connected
        } else if !self.connection.isReceiving(id) {
            return
        }
        let framing = self.attempt.framing
        if self.connection.connected == nil, !framing.hasHandshake { self.becomeOpen(id, now: now, &effects) }
        // What can't be read may come from a proxy, and says nothing of the server.
        var (isAlive, isAnswered, hasMessage) = (false, false, false)
        defer {
            if !hasMessage, self.attempt.connectionKind != .webSocket, self.connection.current == id {
                effects.commands.append(.ignored(id))
            }
            if isAlive, current == id {
                _ = self.connection.received(id, now: now)
            } else if isAnswered, current == id {
                self.connection.answered(id, now: now)
            }
        }
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries {
                // A message may have ended the connection.
                guard self.connection.current == current, self.drain == nil else { return }
                switch entry.kind {
                case .ping:
                    isAlive = true
                    continue
                case .pong:
                    // That of a request says nothing of a stream.
                    if self.attempt.connectionKind == .streaming { isAnswered = true } else { isAlive = true }
                    self.measureLatency(now: now, &effects)
                    continue
                case .text, .binary: break
                }
                let message = UnsafeRawBufferPointer(rebasing: bytes[entry.range])
                self.trace(.received, entry.kind, Array(message)[...], &effects)
                if case .plain = framing {
                    (isAlive, hasMessage) = (true, true)
                    self.received(entry.kind, message, on: current, now: now, &effects)
                } else if self.connection.connected == current, let packet = framing.packet(entry.kind, message) {
                    (isAlive, hasMessage) = (true, true)
                    self.received(entry.kind, packet, on: current, now: now, &effects)
                } else if self.connection.connected == current,
                    framing.readSinglePacket(entry.kind, message, { self.received(.text, $0, on: current, now: now, &effects) })
                {
                    (isAlive, hasMessage) = (true, true)
                } else {
                    framing.read(entry.kind, message) { event in
                        switch event {
                        case .invalid: break
                        case .ping, .pong: isAlive = true
                        // Another handshake is ignored.
                        case .opened where self.connection.connected == current: break
                        case .opened, .packet, .closed, .fatal: (isAlive, hasMessage) = (true, true)
                        }
                        self.received(event, on: current, now: now, &effects)
                    }
                }
            }
        }
    }

    /// Ignores a message that the transformer of the application can't read.
    package mutating func received(
        unreadable message: TransportMessage, _ error: any Error, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.connection.received(id, now: now), self.drain == nil else { return }
        if self.connection.connected == nil { self.becomeOpen(id, now: now, &effects) }
        self.trace(.received, message.kind, message.bytes[...], &effects)
        effects.counters.messagesIgnored += 1
        let text =
            "The transformer \(self.excerpt(self.options.customTransformer?.name ?? "")) can't read a message of the server, which was ignored: it threw "
            + "an error of the type \(type(of: error))."
        self.report(PrimusError(.invalidMessage, text, cause: error), &effects)
    }

    private mutating func received(_ event: PrimusFraming.Event, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.current == id else { return }
        let isOpen = self.connection.connected == id
        switch event {
        case .packet(let kind, let bytes):
            guard isOpen else { return self.ignore("a packet before the handshake", &effects) }
            self.received(kind, bytes, on: id, now: now, &effects)
        case .opened(let handshake):
            if isOpen, case .sockJS = self.attempt.framing {
                // The server doesn't know the session of a request, and has opened another one with the same ID: `_open` in `main.js` of
                // sockjs-client.
                let lost = SockJSCloseCode.lostSession
                return self.received(closeWith: lost.rawValue, lost.reason, on: id, now: now, &effects)
            }
            guard !isOpen else { return self.ignore("another handshake", &effects) }
            self.attempt.handshake = handshake
            if case .engineIO(let version, _) = self.attempt.framing { self.knowledge.engineIO = version }
            self.becomeOpen(id, now: now, &effects)
        case .ping(let text):
            guard isOpen, case .engineIO = self.attempt.framing, let pong = self.attempt.framing.pong(text) else { return }
            self.send(pong, on: id, now: now, &effects)
        case .pong: self.measureLatency(now: now, &effects)
        case .closed(let code, let reason): self.received(closeWith: code, reason, on: id, now: now, &effects)
        case .invalid(let problem):
            let text = self.redacted(problem)
            if isOpen {
                effects.counters.messagesIgnored += 1
                return self.report(
                    PrimusError(.invalidMessage, "The server sent an invalid message, which was ignored: \(Excerpt.sentence(text))"),
                    &effects)
            }
            let isRefusal = problem.containsText(EngineIOError.Refusal.unsupportedVersion.message)
            let message = "The server's first message is invalid: \(Excerpt.sentence(text)) Check the URL and the transformer."
            let code = isRefusal ? PrimusCloseCode.engineIOUnsupportedVersion : nil
            self.close(id, PrimusError(.handshakeFailed, message, serverCode: code), .refused, now: now, &effects)
        case .fatal(_, let reason):
            let message = "The server sent an invalid message: \(Excerpt.sentence(self.redacted(reason)))"
            self.close(id, PrimusError(.invalidMessage, message), isOpen ? .lost : .refused, code: .protocolError, now: now, &effects)
        }
    }

    /// The server ends the session in its framing.
    private mutating func received(
        closeWith code: Int?, _ reason: String, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        let wasOpen = self.connection.connected == id
        let text = reason.isEmpty ? "" : ": \(self.redacted(reason))"
        let message = "The server ended the session\(code.map { " with the code \($0)" } ?? "")\(text)"
        let failure = PrimusError(
            code == Int(CloseCode.tooLarge.rawValue) ? .messageTooLarge : .connectionLost, Excerpt.sentence(message),
            serverMessage: reason.isEmpty ? nil : self.redacted(reason, isWhole: true),
            serverCode: code.map { PrimusCloseCode(.sockJS, $0) })
        if wasOpen, self.serverCloseDeadline != nil {
            effects.commands.append(.close(id, .normal, reason: ""))
            return self.end(
                id, Ending(reason: .peer(.normal, ""), kind: .closedByServer, failure: Self.closedByServer), now: now, &effects)
        }
        self.close(id, failure, wasOpen ? .lost : .refused, now: now, &effects)
    }

    /// Closes a connection whose peer is alive, and handles its end now.
    mutating func close(
        _ id: ConnectionID, _ failure: PrimusError, _ kind: Ending.Kind, code: CloseCode = .normal, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        effects.commands.append(.close(id, code, reason: ""))
        let reason = CloseReason.transport(TransportError(.closed, failure.message))
        self.end(id, self.explained(Ending(reason: reason, kind: kind, failure: failure)), now: now, &effects)
    }

    /// The encoding of Primus's own messages. With a parser of the application, the connection translates them, because its code isn't called
    /// under a lock.
    var protocolCoding: PrimusCoding {
        if case .custom? = self.coding { return .json }
        return self.coding ?? .json
    }

    private mutating func received(
        _ kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        if !effects.routes.isEmpty(self.traces) { self.trace(.incomingData(TransportMessage(kind, Array(bytes))), &effects) }
        if let message = PrimusProtocolMessage(bytes, kind, self.protocolCoding) {
            return self.received(message, on: id, now: now, &effects)
        }
        if !effects.routes.isEmpty(self.untransformed) {
            let message = PrimusMessage(TransportMessage(kind, Array(bytes)), self.coding ?? .json)
            return effects.deliver(.untransformed(self.incoming.begin(message, on: id)), on: self.untransformed)
        }
        if !self.plugins.isEmpty, self.receivedByPlugin(bytes, kind, on: id, now: now, &effects) { return }
        if !effects.routes.isEmpty(self.messages) {
            effects.deliver(.message(PrimusMessage(TransportMessage(kind, Array(bytes)), self.coding ?? .json)), on: self.messages)
        } else {
            self.ignore("a message, because there is no consumer of messages", &effects)
        }
    }

    private mutating func received(
        _ message: PrimusProtocolMessage, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch message {
        case .ping(let text):
            self.hasReceivedServerPing = true
            self.trace(.incomingPing(text), &effects)
            self.trace(.outgoingPong(text), &effects)
            self.send(self.framed(.pong(text)), on: id, now: now, &effects)
        case .pong(let text):
            self.trace(.incomingPong(text), &effects)
            self.measureLatency(now: now, &effects)
        case .id(let text):
            self.trace(.incomingID(text), &effects)
            if let sent = self.sparkIDRequestedAt.take() {
                self.setLatency(sent.duration(to: now), &effects)
            } else {
                self.measureLatency(now: now, &effects)
            }
            if self.sparkID != text {
                self.sparkID = text
                self.publish(.sparkID(text), &effects)
            }
            self.sparkIDCallers.resumeAll(.success(.sparkID(text)), &effects)
        case .serverClose:
            // The server closes the connection next. If it doesn't, the client does.
            self.serverCloseDeadline = now.advanced(by: .seconds(2))
        case .idRequest, .unknown:
            let text = self.excerpt(message.text)
            self.ignore("the message \(text)", &effects)
        }
    }

    mutating func ignore(_ what: @autoclosure () -> String, _ effects: inout Effects<Self>) {
        effects.counters.messagesIgnored += 1
        effects.log(.debug, "ignored \(what())")
    }

    // MARK: Transforms

    /// Delivers what the incoming transforms have made of a message, and the events that have waited for it.
    ///
    /// - Parameters:
    ///   - item: The message before the transforms.
    ///   - result: The message after them and its value; `nil` if they have discarded it.
    package mutating func transformed(
        _ item: PrimusIncoming, _ result: Result<(PrimusMessage, PrimusValue)?, PrimusError>, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch result {
        case .success(nil): break
        case .success(let (message, value)?):
            if self.plugins.isEmpty || !self.receivedByPlugin(value, on: item.connection, now: now, &effects) {
                effects.deliver(.message(message), on: self.messages)
            }
        case .failure(let error):
            self.log(error, &effects)
            // Not behind the messages that are still in the transforms.
            effects.deliver(.trace(.error(error)), on: self.traces)
        }
        let traces = self.traces
        self.incoming.end(item) { effects.deliver($0, on: traces) }
    }

    // MARK: Sending

    /// Returns a message of Primus itself as a message of the connection.
    func framed(_ message: PrimusProtocolMessage) -> TransportMessage {
        // The parsers of Primus encode each string.
        let packet = (try? message.message(self.protocolCoding)) ?? .text("\"\(message.text)\"")
        return self.framed(packet)
    }

    /// Returns a packet as a message of the connection.
    func framed(_ packet: TransportMessage) -> TransportMessage {
        var packet = packet
        // SockJS carries text only.
        if packet.kind == .binary, self.attempt.dialect.transformer == .sockjs, self.coding == .json {
            packet = .text(PrimusCoding.nodeBuffer(packet.bytes))
        }
        if case .plain = self.attempt.framing { return packet }
        return self.attempt.framing.messages([packet]).first ?? packet
    }

    /// Sends a packet now.
    package mutating func send(packet: TransportMessage, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.trace(.outgoingData(packet), &effects)
        self.send(self.framed(packet), on: id, now: now, &effects)
    }

    /// Sends a message, and delivers it to the consumers of messages.
    mutating func send(_ message: TransportMessage, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if case .moving(var moving) = self.upgrade {
            moving.held.append(message)
            return self.upgrade = .moving(moving)
        }
        effects.commands.append(.send(id, message))
        self.connection.sent(id, now: now)
        self.trace(.sent, message.kind, message.bytes[...], &effects)
    }
}
