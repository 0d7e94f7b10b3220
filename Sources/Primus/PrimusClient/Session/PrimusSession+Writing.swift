package import PrimusWire
package import RealtimeCore

/// The messages of the application.
extension PrimusSession {
    /// Whether a message can only be sent with effects: it passes transforms, or is reported.
    package var sendsWithEffects: Bool {
        self.frames != EventRoutes.none || self.traces != EventRoutes.none
    }

    /// Whether messages pass transforms before they are sent.
    package func transformsOutgoing(_ effects: borrowing Effects<Self>) -> Bool { !effects.routes.isEmpty(self.outgoing) }
    package var mayTransformOutgoing: Bool { self.outgoing != EventRoutes.none }

    /// Returns the message of a packet that can be sent now, on the fast path without effects.
    ///
    /// - Parameter awaitsAnswer: Whether the caller waits until the server has taken the message, if the connection tells that.
    /// - Returns: The connection and the message; `nil` if the packet must take the other path.
    /// - Throws: ``PrimusError/Code/messageTooLarge``.
    package mutating func direct(
        _ packet: TransportMessage, _ coding: PrimusCoding, awaitsAnswer: Bool, now: Instant
    ) throws(PrimusError) -> (ConnectionID, TransportMessage)? {
        if awaitsAnswer, self.isOverHTTP { return nil }
        guard let id = self.writableConnection, !self.sendsWithEffects, !self.mayTransformOutgoing, coding == self.coding else {
            return nil
        }
        let message = try self.checked(packet)
        self.connection.sent(id, now: now)
        return (id, message)
    }

    /// Returns a packet as a message of the connection, if that can carry it.
    private func checked(_ packet: TransportMessage) throws(PrimusError) -> TransportMessage {
        if packet.kind == .binary, self.attempt.dialect.transformer == .sockjs, self.coding != .json {
            let message = "SockJS carries text only, and the parser has encoded the message as bytes. Use a parser that encodes as text."
            throw PrimusError(.encodingFailed, message)
        }
        let message = self.framed(packet)
        var (size, limit) = (message.bytes.count, self.options.sentMessageLimit)
        if size <= limit, let payload = self.attempt.handshake?.maxPayload {
            limit = payload
            // In requests, bytes are sent in Base64.
            if self.attempt.connectionKind == .polling, case .engineIO(let version, _) = self.attempt.framing {
                size = EngineIOPayload.size(of: message, version)
            }
        }
        guard size > limit else { return message }
        throw PrimusError(
            .messageTooLarge, "The message has \(size) bytes, and the server accepts \(limit). Send less, or raise the limit on both sides."
        )
    }

    /// Sends a message, or adds it to the queue.
    ///
    /// - Parameters:
    ///   - content: The message.
    ///   - mode: What happens without a connection.
    ///   - waiter: The caller that waits until the message is sent.
    ///   - pluginCaller: The caller that waits for the answer to the message.
    /// - Returns: The error, if the message is neither sent nor queued.
    @discardableResult
    package mutating func write(
        _ content: PrimusContent, _ mode: PrimusWriteMode, _ waiter: WaiterID? = nil, pluginCaller: WaiterID? = nil, now: Instant,
        _ effects: inout Effects<Self>
    ) -> PrimusError? {
        let error = self.add(content, mode, waiter, pluginCaller, now: now, &effects)
        if let error, let waiter { effects.resume(waiter, .failure(error)) }
        return error
    }

    private mutating func add(
        _ content: PrimusContent, _ mode: PrimusWriteMode, _ waiter: WaiterID?, _ pluginCaller: WaiterID?, now: Instant,
        _ effects: inout Effects<Self>
    ) -> PrimusError? {
        if let id = self.writableConnection {
            do throws(PrimusError) {
                try self.send(content, on: id, now: now, &effects)
                if let waiter { self.sent(for: waiter, on: id, &effects) }
                return nil
            } catch {
                return error
            }
        }
        if self.openConnection == nil {
            guard mode == .queue else { return self.notOpen }
            // Nothing would end the wait.
            if self.refusesCallers, waiter != nil { return self.notOpen }
        }
        var entry = PrimusWriteQueue.Entry(
            content: content, waiter: waiter, isBound: mode == .failIfNotOpen, pluginCaller: pluginCaller)
        if self.openConnection != nil, self.isMoving {
            do throws(PrimusError) {
                let packet = try self.packet(content)
                entry.content = .packet(packet, self.coding ?? .json)
                if self.exempt(packet.bytes.count) {
                    // A queue that keeps no message keeps none for another connection.
                    entry.isBound = entry.isBound || self.options.queue.limit <= 0
                    self.queue.append(entry)
                    return nil
                }
            } catch {
                return error
            }
        }
        switch self.queue.add(entry, self.options.queue, exempt: self.exemptCount) {
        case .added: return nil
        case .refused(let error): return error
        case .dropped(let entry):
            let message = "The message was dropped in favor of a later one: \(self.options.queue.limit) messages wait for a connection."
            if let waiter = entry.waiter { effects.resume(waiter, .failure(PrimusError(.dropped, message))) }
            if let waiter = entry.pluginCaller, self.plugins.isCaller(waiter) {
                self.failCall(of: waiter, PrimusError(.dropped, message), &effects)
            }
            effects.log(.debug, "the oldest message of the queue was dropped")
            return nil
        }
    }

    /// The connection of a client that is open and can send a message now, because none that was written before waits.
    private var writableConnection: ConnectionID? {
        mutating get { self.queue.isEmpty && !self.isWritingHeld ? self.openConnection : nil }
    }

    /// Whether much output waits for a server that reads slowly, or the session moves to a WebSocket.
    var isWritingHeld: Bool { self.isWritingPaused || self.isMoving || self.flushDeadline != nil }

    /// Whether a message waits until what was written before is sent. For tests.
    package var mustWaitToWrite: Bool { self.isWritingHeld && self.connection.connected != nil }

    package var notOpen: PrimusError {
        switch self.state {
        case .closed(let error):
            PrimusError(.notOpen, "The client is closed. Call open() first.\(error.map { " \($0.message)" } ?? "")", cause: error?.cause)
        case .opening, .open:
            PrimusError(
                .notOpen,
                "The client isn't open yet. Wait with opened(within:), or let the message wait in the queue."
                    + (self.knownFailure.map { " \($0.message)" } ?? ""))
        case .reconnecting(let error):
            PrimusError(.notOpen, "The client isn't open: it reconnects after a loss. \(error.message)", cause: error.cause)
        }
    }

    /// Sends a message now.
    ///
    /// - Returns: Its size.
    @discardableResult
    mutating func send(
        _ content: PrimusContent, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PrimusError) -> Int {
        let packet = try self.packet(content)
        let message = try self.checked(packet)
        self.trace(.outgoingData(packet), &effects)
        self.send(message, on: id, now: now, &effects)
        return message.bytes.count
    }

    /// Whether messages are sent in requests, whose answers tell what the server has taken.
    private var isOverHTTP: Bool { self.attempt.connectionKind.transport != .webSockets }

    /// The message of a caller is sent. Over HTTP, the caller waits until the server has taken it.
    private mutating func sent(for waiter: WaiterID, on id: ConnectionID, _ effects: inout Effects<Self>) {
        guard self.isOverHTTP else { return effects.resume(waiter, .success(.none)) }
        self.answerCallers.insert(waiter, on: id)
        effects.commands.append(.awaitAnswer(waiter, on: id))
    }

    package mutating func answered(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        if self.answerCallers.remove(waiter) { effects.resume(waiter, .success(.none)) }
    }

    package mutating func unanswered(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        let other = self.notOpen
        if let failure = self.answerCallers.takeFailure(waiter, else: other) { effects.resume(waiter, .failure(failure)) }
    }

    private func packet(_ content: PrimusContent) throws(PrimusError) -> TransportMessage {
        let coding = self.coding ?? .json
        do {
            switch content {
            case .packet(let packet, coding): return packet
            // The server has another parser than when the message was written.
            case .packet(let packet, let earlier): return try coding.message(try earlier.value(of: packet))
            case .value(let value): return try coding.message(value)
            }
        } catch {
            throw .encoding(error)
        }
    }

    /// The number of bytes that are sent in one step. A connection tells that much output waits only afterwards, and has a limit.
    private static let flushSize = OutputGauge.clientLimit / 4
    /// The time in which a connection tells that much output waits.
    private static let flushPause = Duration.milliseconds(10)

    /// Sends the messages that wait.
    mutating func flush(on id: ConnectionID, ignoresPause: Bool = false, now: Instant, _ effects: inout Effects<Self>) {
        var size = 0
        while ignoresPause || !self.isWritingHeld, let entry = self.queue.popFirst() {
            size += self.send(entry, on: id, now: now, &effects)
            if !ignoresPause, size > Self.flushSize, !self.queue.isEmpty { self.flushDeadline = now.advanced(by: Self.flushPause) }
        }
    }

    /// Sends the next messages of a long queue, unless the connection has told meanwhile that much output waits.
    mutating func continueFlushing(now: Instant, _ effects: inout Effects<Self>) {
        self.flushDeadline = nil
        guard !self.isWritingHeld, let id = self.openConnection else { return }
        self.resumeWriting(on: id, now: now, &effects)
    }

    mutating func resumeWriting(on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.flush(on: id, now: now, &effects)
        if !self.isWritingHeld { self.writingCallers.resumeAll(.success(.none), &effects) }
    }

    /// Sends the message of a queue, and tells the caller that waits for it.
    ///
    /// - Returns: The size of the message; zero if it isn't sent.
    @discardableResult
    mutating func send(_ entry: PrimusWriteQueue.Entry, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) -> Int {
        do throws(PrimusError) {
            let size = try self.send(entry.content, on: id, now: now, &effects)
            if let waiter = entry.waiter { self.sent(for: waiter, on: id, &effects) }
            return size
        } catch {
            if let waiter = entry.waiter {
                effects.resume(waiter, .failure(error))
            } else if let caller = entry.pluginCaller, self.plugins.isCaller(caller) {
                self.failCall(of: caller, error, &effects)
            } else {
                self.report(error, &effects)
            }
            return 0
        }
    }

    package mutating func writing(_ id: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>) {
        // Ignores a connection that closes: the next one starts with no pending output.
        guard id == self.openConnection else { return }
        (self.isWritingPaused, self.flushDeadline) = (paused, nil)
        if !paused { self.resumeWriting(on: id, now: now, &effects) }
    }

    // MARK: Transforms

    /// Passes a value to the outgoing transforms. One that doesn't wait for a connection isn't sent on another one.
    ///
    /// - Returns: The error, if the value isn't accepted.
    @discardableResult
    package mutating func transform(
        _ value: PrimusValue, _ mode: PrimusWriteMode, _ waiter: WaiterID?, now: Instant, _ effects: inout Effects<Self>
    ) -> PrimusError? {
        guard self.transformsOutgoing(effects) else { return self.write(.value(value), mode, waiter, now: now, &effects) }
        var error: PrimusError?
        if self.openConnection == nil, mode == .failIfNotOpen { error = self.notOpen }
        if self.refusesCallers, waiter != nil { error = self.notOpen }
        if self.transforming.count >= max(1, self.options.queue.limit) {
            error = PrimusError(
                .queueFull,
                "The message wasn't sent: \(self.transforming.count) messages wait for the transforms already. Write more slowly.")
        }
        if let error {
            if let waiter { effects.resume(waiter, .failure(error)) }
            return error
        }
        self.startTransforming(value, mode, waiter, &effects)
        return nil
    }

    private mutating func startTransforming(
        _ value: PrimusValue, _ mode: PrimusWriteMode, _ waiter: WaiterID?, _ effects: inout Effects<Self>
    ) {
        self.lastTransformed += 1
        let origin = mode == .failIfNotOpen ? self.openConnection : nil
        let item = PrimusOutgoing(number: self.lastTransformed, value: value, mode: mode, waiter: waiter, origin: origin)
        self.transforming.append(item)
        if let waiter { self.transformCallers.insert(waiter) }
        effects.deliver(.outgoing(item), on: self.outgoing)
    }

    /// Whether a value is next in the outgoing transforms. If it isn't, it was moved to another client.
    package func isTransforming(_ item: PrimusOutgoing) -> Bool { self.transforming.first?.number == item.number }

    /// Fails the calls whose message is in the transforms, and isn't sent on another connection than the one that has ended.
    mutating func failBoundTransforms(_ error: PrimusError, _ effects: inout Effects<Self>) {
        // The messages of a client that was ended are still sent.
        guard self.drain == nil else { return }
        for item in self.transforming.all where item.origin != nil {
            if let waiter = item.waiter, self.transformCallers.remove(waiter) { effects.resume(waiter, .failure(error)) }
        }
    }

    /// Removes the messages that wait for a connection, and those that are in the outgoing transforms, of a client that is closed.
    package mutating func takeMessages(
        now: Instant, _ effects: inout Effects<Self>
    ) -> (queue: PrimusWriteQueue, values: [PrimusValue]) {
        if self.drain != nil { self.finishDraining(now: now, &effects) }
        // The callers that wait were told that their messages aren't sent.
        let values = self.transforming.all.filter { $0.waiter == nil }.map(\.value)
        self.transforming.removeAll()
        return (self.queue.takeAll(), values)
    }

    /// Sends a message that another client has accepted, or adds it to the queue.
    package mutating func takeOver(_ entry: PrimusWriteQueue.Entry, now: Instant, _ effects: inout Effects<Self>) {
        if let id = self.writableConnection {
            self.send(entry, on: id, now: now, &effects)
        } else {
            self.queue.append(entry)
        }
    }

    /// Passes a value that another client has accepted to the outgoing transforms.
    ///
    /// - Parameter content: The value for the parser, if there are no transforms any more.
    package mutating func takeOver(_ value: PrimusValue, as content: PrimusContent, now: Instant, _ effects: inout Effects<Self>) {
        if self.transformsOutgoing(effects) {
            self.startTransforming(value, .queue, nil, &effects)
        } else {
            self.takeOver(PrimusWriteQueue.Entry(content: content), now: now, &effects)
        }
    }

    private static let vetoed = PrimusError(.vetoed, "A transform has discarded the message, which wasn't sent.")

    /// Takes the result of the outgoing transforms.
    ///
    /// - Parameter result: The message; `nil` if a transform has discarded it.
    package mutating func transformed(
        _ item: PrimusOutgoing, _ result: Result<PrimusContent?, PrimusError>, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.isTransforming(item) else { return }
        _ = self.transforming.popFirst()
        defer { self.continueDraining(now: now, &effects) }
        // A caller that doesn't wait any more was told that its message isn't sent.
        if let waiter = item.waiter, !self.transformCallers.remove(waiter) { return }
        // The connection has ended, and the caller was told.
        if let origin = item.origin, !self.belongsToDrain(item), !self.isCurrent(origin) { return }
        // The caller of a plugin waits for the answer, not for the sending.
        if let waiter = item.waiter, self.plugins.isCaller(waiter) {
            switch result {
            case .success(let content?):
                if let error = self.write(content, of: item, nil, pluginCaller: waiter, now: now, &effects) {
                    self.failCall(of: waiter, error, &effects)
                }
            case .success(nil): self.failCall(of: waiter, Self.vetoed, &effects)
            case .failure(let error): self.failCall(of: waiter, error, &effects)
            }
            return
        }
        switch result {
        case .success(let content?):
            if let error = self.write(content, of: item, item.waiter, now: now, &effects), item.waiter == nil {
                self.report(error, &effects)
            }
        case .success(nil):
            guard let waiter = item.waiter else { return }
            effects.resume(waiter, .failure(Self.vetoed))
        case .failure(let error):
            if let waiter = item.waiter { effects.resume(waiter, .failure(error)) } else { self.report(error, &effects) }
        }
    }

    /// Sends a message that has passed the transforms, or adds it to the queue.
    private mutating func write(
        _ content: PrimusContent, of item: PrimusOutgoing, _ waiter: WaiterID?, pluginCaller: WaiterID? = nil, now: Instant,
        _ effects: inout Effects<Self>
    ) -> PrimusError? {
        guard self.belongsToDrain(item) else {
            return self.write(content, item.mode, waiter, pluginCaller: pluginCaller, now: now, &effects)
        }
        self.drain?.queue.append(PrimusWriteQueue.Entry(content: content, waiter: waiter, isBound: item.mode == .failIfNotOpen))
        return nil
    }

    /// Whether a value was written before the client was ended, and is sent on its last connection.
    private func belongsToDrain(_ item: PrimusOutgoing) -> Bool { self.drain.map { item.number <= $0.lastTransformed } ?? false }
}
