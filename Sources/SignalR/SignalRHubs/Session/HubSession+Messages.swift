package import RealtimeCore
import SignalRWire

/// The messages that the server sends.
extension HubSession {
    package mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        // What isn't a message may come from a proxy, and says nothing of the server.
        let countsMessages = self.connection.established == id && self.attempt.transport != .webSockets
        guard countsMessages || self.connection.received(id, now: now) else { return }
        self.found = .nothing
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries {
                // A message may have ended the connection.
                guard self.connection.current == id else { return }
                guard entry.kind == .text || entry.kind == .binary else {
                    // The answer to a check.
                    self.found = max(self.found, .life)
                    continue
                }
                let message = UnsafeRawBufferPointer(rebasing: bytes[entry.range])
                // The kind of the format is a copy of the coder.
                if !effects.routes.isEmpty(self.frames) {
                    self.trace(.received, self.options.format.messageKind, Array(message)[...], &effects)
                }
                if self.connection.established == id {
                    self.readMessages(message, isUTF8: entry.kind == .text, on: id, now: now, &effects)
                } else {
                    self.readHandshake(message, isUTF8: entry.kind == .text, on: id, now: now, &effects)
                }
            }
        }
        if countsMessages, self.connection.current == id { self.countMessages(batch.bytes.count, on: id, now: now, &effects) }
        guard self.resumable != nil, self.connection.current == id else { return }
        self.resumable?.buffer.received(byteCount: batch.bytes.count, now: now)
        self.acknowledge(now: now, &effects)
    }

    /// Records what was received over HTTP.
    private mutating func countMessages(_ byteCount: Int, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if self.found >= .life { _ = self.connection.received(id, now: now) }
        if self.found == .nothing, self.reader?.hasPart == true {
            self.connection.receivedPart(id, byteCount: byteCount, now: now)
        } else if self.found != .message {
            effects.commands.append(.ignored(id))
        }
    }

    private mutating func readHandshake(
        _ bytes: UnsafeRawBufferPointer, isUTF8: Bool, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        do throws(HubMessageError) {
            guard let consumed = try self.handshakeBuffer.append(bytes) else { return }
            // `withUnsafeBytes` of arrays doesn't pass on the type of errors.
            let response = self.handshakeBuffer.bytes.withUnsafeBytes { bytes in
                Result { () throws(HubMessageError) in try HubHandshake.parseResponse(bytes) }
            }
            if let error = try response.get()?.error {
                let message = "The server rejected the handshake: \(self.redacted(error))"
                let failure = HubError(.handshakeFailed, message, serverMessage: self.redacted(error, isWhole: true))
                return self.close(id, failure, now: now, &effects)
            }
            self.handshakeCompleted(id, now: now, &effects)
            // Messages may follow in the same frame.
            guard consumed < bytes.count else { return }
            self.readMessages(UnsafeRawBufferPointer(rebasing: bytes[consumed...]), isUTF8: isUTF8, on: id, now: now, &effects)
        } catch {
            let message =
                "The server's response to the handshake is invalid: \(Excerpt.sentence(self.redacted(error.problem))) "
                + "Check that the URL is that of a hub."
            self.close(id, HubError(.handshakeFailed, message), now: now, &effects)
        }
    }

    private mutating func readMessages(
        _ bytes: UnsafeRawBufferPointer, isUTF8: Bool, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard var reader = self.reader.take() else { return }
        do throws(HubFramingError) {
            try reader.read(bytes, isUTF8: isUTF8) { output in
                guard self.connection.isEstablished(id) else { return }
                self.received(output, on: id, now: now, &effects)
            }
            if self.unreadableAnswer != nil { self.failCallsAfterUnreadableAnswer(now: now, &effects) }
            // Last, so that the reader is moved and not copied.
            if self.connection.isEstablished(id) { self.reader = reader }
        } catch {
            // All calls end with the connection.
            self.unreadableAnswer = nil
            guard self.connection.established == id else { return }
            let problem = Excerpt.sentence(error.problem)
            let advice = error.isTooLarge ? " Increase `HubConfiguration.messageLimit` to accept it." : ""
            let message = "The server sent data that isn't a sequence of messages: \(problem)\(advice) The connection was closed."
            self.close(id, HubError(.invalidMessage, message), code: .protocolError, now: now, &effects)
        }
    }

    /// Closes a connection whose peer is alive, and handles its end now.
    mutating func close(
        _ id: ConnectionID, _ failure: HubError, code: CloseCode = .normal, now: Instant, _ effects: inout Effects<Self>
    ) {
        effects.commands.append(.close(id, code, reason: ""))
        self.end(id, .transport(TransportError(.protocolViolation, failure.message)), failure, now: now, &effects)
    }

    // Consuming, because copying and releasing an invocation takes longer than reading it.
    private mutating func received(
        _ output: consuming HubMessageReader.Output, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch consume output {
        case .message(let message):
            if case .ping = message { self.found = max(self.found, .life) } else { self.found = .message }
            if self.admits(message, on: id, now: now, &effects) { self.received(message, on: id, now: now, &effects) }
        case .invalid(let error):
            self.found = max(self.found, .unreadable)
            guard self.resumable?.buffer.receivedInvalid(type: error.type, now: now) ?? true else { return }
            self.received(error, now: now, &effects)
        case .unknown(let type):
            self.found = max(self.found, .life)
            self.ignore("a message of the unknown type \(type)", &effects)
        }
    }

    private mutating func received(
        _ message: consuming HubMessage, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch consume message {
        case .invocation(let invocation):
            // The calls for whose result the server waits have a consumer of their own, which doesn't wait for the handlers of others.
            let route = invocation.id == nil ? self.invocations : self.awaitedInvocations
            if effects.routes.isEmpty(route) {
                self.ignore("an invocation of \(self.excerpt(invocation.target)), for which there is no handler", &effects)
                guard let call = invocation.id else { return }
                self.send(.completion(id: call, .error(Self.noResult)), on: id, now: now, &effects)
            } else {
                effects.deliver(.invocation(HubCallback(connection: id, invocation: invocation)), on: route)
            }
        case .streamInvocation(let invocation):
            self.ignore("a stream invocation of \(self.excerpt(invocation.target)), which clients don't support", &effects)
            guard let call = invocation.id else { return }
            self.send(.completion(id: call, .error("The client doesn't support streams from its methods.")), on: id, now: now, &effects)
        case .streamItem(let call, let item): self.received(item: item, for: call, &effects)
        case .completion(let call, let completion): self.received(completion, for: call, &effects)
        case .ping: break
        case .close(let error, let allowsReconnect): self.received(closeWith: error, allowsReconnect, on: id, now: now, &effects)
        // The client handles invocations in order and has nothing to cancel.
        case .cancelInvocation(let call): self.ignore("the cancellation of the call \(self.excerpt(call))", &effects)
        // Only for stateful reconnect, which wasn't negotiated.
        case .ack, .sequence: self.ignore("a message for stateful reconnect, which isn't in use", &effects)
        }
    }

    private mutating func received(
        closeWith error: String?, _ allowsReconnect: Bool, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        let text = error.map { self.redacted($0) }
        let message = "The server closed the connection\(text.map { ": \($0)" } ?? ".")"
        let failure = HubError(.closedByServer, message, serverMessage: error.map { self.redacted($0, isWhole: true) })
        effects.commands.append(.close(id, .normal, reason: ""))
        // A close without an error is an orderly end, unless the client is to come back: then it is the reason of a loss.
        let isOrderly = text == nil && !self.reconnects(allowsReconnect)
        let ending = Ending(
            reason: .peer(.normal, text ?? ""), failure: failure, reported: isOrderly ? nil : failure, allowsReconnect: allowsReconnect)
        self.end(id, ending, now: now, &effects)
    }

    private func reconnects(_ isAllowed: Bool) -> Bool {
        if case .none = self.options.retry { false } else { isAllowed }
    }

    /// Handles a message that is invalid. The others on the connection aren't affected.
    private mutating func received(_ error: HubMessageError, now: Instant, _ effects: inout Effects<Self>) {
        effects.counters.messagesIgnored += 1
        let problem = self.redacted(error.problem)
        let failure = HubError(.invalidMessage, "The server sent an invalid message, which was ignored: \(problem).")
        self.report(failure, &effects)
        guard let id = error.invocationID else {
            // It may have been the answer to any call, or an item of any stream. Those that are answered with it aren't affected.
            if error.type == nil || error.type == 2 || error.type == 3 { self.unreadableAnswer = problem }
            return
        }
        switch error.type {
        // The server or a caller waits for an answer.
        case 1, 4:
            guard let connection = self.connection.established else { return }
            self.send(.completion(id: id, .error("The client can't read the invocation: \(problem).")), on: connection, now: now, &effects)
        case 2, 3, nil: self.failCall(id, HubError(.invalidMessage, "The server's answer is invalid: \(problem)."), now: now, &effects)
        default: break
        }
    }

    /// Fails the calls that wait after a message that can't be read: one of them may wait for it, and would do so without end.
    private mutating func failCallsAfterUnreadableAnswer(now: Instant, _ effects: inout Effects<Self>) {
        guard let problem = self.unreadableAnswer.take(), self.connection.established != nil else { return }
        let message = "The server sent a message that can't be read, which may have been the answer: \(problem)."
        for (number, _) in self.calls.entries { self.failCall("\(number)", HubError(.invalidMessage, message), now: now, &effects) }
    }

    mutating func ignore(_ what: String, _ effects: inout Effects<Self>) {
        effects.counters.messagesIgnored += 1
        effects.log(.debug, "ignored \(what)")
    }
}
