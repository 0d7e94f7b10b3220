package import RealtimeCore
import SignalRWire

/// Stateful reconnect: the connection is resumed on another WebSocket, and nothing is lost.
///
/// Source: HubProtocol.md of ASP.NET Core, "Ack Message" and "Sequence Message", and the clients of .NET and JavaScript. They try once, and
/// this client for as long as the server keeps the connection.
extension HubSession {
    /// An established connection that can be resumed.
    struct Resumable: Sendable {
        var buffer: HubMessageBuffer
        /// The number with which the connection was established. Each attempt to resume it has another one.
        let first: ConnectionID
        /// Why its socket was lost, while it is being resumed.
        @Boxed var loss: Ending?
    }

    /// Whether the client asks the server for stateful reconnect. It is possible over WebSockets only, and only with a negotiation.
    var asksForStatefulReconnect: Bool {
        self.options.statefulReconnect != nil && self.options.allowedTransports.contains(.webSockets)
    }

    /// The version of the protocol for the handshake.
    var protocolVersion: Int { self.attempt.usesStatefulReconnect && self.attempt.transport == .webSockets ? 2 : 1 }

    /// The handshake is complete.
    mutating func beginStatefulReconnect(on id: ConnectionID) {
        guard self.protocolVersion == 2, let settings = self.options.statefulReconnect else { return }
        self.resumable = Resumable(buffer: HubMessageBuffer(byteLimit: settings.bufferBytes), first: id)
    }

    /// Whether a call of the server arrived on the established connection, possibly before that was resumed.
    func arrivedOnPresentConnection(_ callback: HubCallback) -> Bool {
        guard let established = self.connection.established else { return false }
        return callback.connection >= (self.resumable?.first ?? established)
    }

    // MARK: Losing the socket

    /// Whether a connection can be continued after this end of its socket, or of an attempt to resume it.
    private static func canResume(after ending: Ending) -> Bool {
        guard ending.isLossOfSocket else { return false }
        switch ending.reason {
        case .openTimeout, .heartbeatTimeout: return true
        // Only a close message is the end of the connection, as in Microsoft's client for JavaScript.
        case .peer(let code, _): return ![.protocolError, .unsupportedData, .invalidPayload, .tooLarge].contains(code)
        case .transport(let error):
            // The message that was too large or invalid would be repeated.
            if error.code.isPermanent || [.tooLarge, .protocolViolation, .certificateRejected].contains(error.code) { return false }
            // Such as 404, if the server doesn't know the connection any more. With 5xx, a proxy says that it can't reach the server now.
            return error.status.map { $0 >= 500 } ?? true
        case .requested: return false
        }
    }

    /// Returns the decision to resume the connection; `nil` if it can't be resumed.
    func resumeDecision(on ending: Ending, now: Instant) -> ReconnectDecision? {
        guard self.resumable != nil, let settings = self.options.statefulReconnect, Self.canResume(after: ending),
            self.connection.canResume(now: now)
        else { return nil }
        return .resume(within: settings.timeLimit)
    }

    package mutating func resuming(_ ending: Ending, now: Instant, _ effects: inout Effects<Self>) {
        let isFirst = self.resumable?.loss == nil
        effects.log(isFirst ? .info : .debug, "\(isFirst ? "resuming the connection" : "a resume failed"): \(ending.failure.message)")
        if isFirst { self.resumable?.loss = ending.forStorage }
        self.resumable?.buffer.interrupt()
        self.reader = nil
        self.isWritingPaused = false
        self.resumeWritingCallers(&effects)
    }

    package func loss(afterFailedResume ending: Ending) -> Ending {
        // What the server says, or does wrong, is of more interest than the loss of the socket.
        ending.isLossOfSocket ? self.resumable?.loss ?? ending : ending
    }

    // MARK: Resuming

    /// The next socket is open.
    mutating func synchronize(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let (sequence, messages) = self.resumable?.buffer.resume() else { return }
        self.reader = HubMessageReader(self.options.format, messageLimit: self.options.messageLimit)
        self.send(sequence, on: id, now: now, &effects)
        for message in messages { self.send(message, on: id, &effects) }
        self.resumeWritingCallers(&effects)
    }

    /// Passes a message to the buffer, if there is one.
    ///
    /// - Returns: Whether to handle the message.
    mutating func admits(_ message: HubMessage, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) -> Bool {
        guard self.resumable != nil else { return true }
        do throws(HubSequenceError) {
            switch try self.resumable?.buffer.received(message, now: now) {
            case .handle, nil: return true
            case .resumeSending: self.resumeWritingCallers(&effects)
            case .ignore: if case .sequence = message { self.resumed(id, now: now, &effects) }
            }
        } catch {
            let message = "The connection can't be resumed. \(error.problem)"
            self.close(id, HubError(.connectionLost, message), code: .protocolError, now: now, &effects)
        }
        return false
    }

    /// The server has said with which message it continues.
    private mutating func resumed(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.resumed(id, self.heartbeat, now: now) else { return }
        self.resumable?.loss = nil
        effects.counters.resumes += 1
        effects.log(.info, "connection \(id): resumed")
        self.publish(.resumed, &effects)
    }

    // MARK: Sending

    /// Numbers and stores a message until the server has acknowledged it, if the connection can be resumed.
    ///
    /// - Returns: Whether to send the message. Otherwise, it is sent when the connection is resumed.
    package mutating func store(_ message: TransportMessage) -> Bool { self.resumable?.buffer.append(message) ?? true }

    /// Sends a message that counts, now or when the connection is resumed.
    package mutating func sendCounted(_ message: TransportMessage, on id: ConnectionID, _ effects: inout Effects<Self>) {
        if self.store(message) { self.send(message, on: id, &effects) }
    }

    /// Whether senders wait: for a server that reads slowly, or that hasn't acknowledged enough.
    var mustWaitToWrite: Bool { self.isWritingPaused || self.resumable?.buffer.isFull == true }

    mutating func resumeWritingCallers(_ effects: inout Effects<Self>) {
        if !self.mustWaitToWrite { self.writingCallers.resumeAll(.success(.none), &effects) }
    }

    /// Whether too much is stored for another message that doesn't wait. The one that is permitted after a resume is sent in any case.
    var exceedsBacklogLimit: Bool {
        guard let buffer = self.resumable?.buffer, buffer.isFull, let settings = self.options.statefulReconnect else { return false }
        let limit = settings.bufferBytes.addingReportingOverflow(settings.backlogLimit)
        return !limit.overflow && buffer.byteCount > limit.partialValue
    }

    /// Ends the connection, also while it is resumed: a message that isn't stored is missing in what would be repeated.
    mutating func endAtBacklogLimit(on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let message =
            "The server doesn't acknowledge messages: \(self.resumable?.buffer.byteCount ?? 0) bytes are stored for it. Check the "
            + "server, or increase the backlogLimit of statefulReconnect."
        let failure = HubError(.bufferOverflow, message)
        guard self.connection.isResuming else { return self.close(id, failure, now: now, &effects) }
        if let attempt = self.connection.current {
            effects.commands.append(.abandon(attempt))
        } else {
            // Ends the pause with an attempt that isn't begun: only the end of an attempt can be the end of the connection.
            _ = self.connection.check(timeout: .zero, now: now)
        }
        guard let attempt = self.connection.current else { return }
        self.end(attempt, .transport(TransportError(.tooLarge, message)), failure, now: now, &effects)
    }

    // MARK: Acknowledging

    var acknowledgmentDeadline: Instant? { self.resumable?.buffer.nextDeadline }

    /// Sends the acknowledgment that is due, if there is one.
    mutating func acknowledge(now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.connection.established, let ack = self.resumable?.buffer.takeAck(now: now) else { return }
        self.send(ack, on: id, now: now, &effects)
    }
}

extension HubSession.Ending {
    /// The same ending as a machine may keep it.
    var forStorage: Self {
        var ending = self
        ending.reason = ending.reason.withoutCause
        ending.failure = ending.failure.forStorage
        ending.reported = ending.reported?.forStorage
        return ending
    }
}
