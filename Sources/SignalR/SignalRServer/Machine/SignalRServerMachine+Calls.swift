import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The calls of the application's methods, and their completions.
extension SignalRServerMachine {
    /// Adds an invocation to those that wait, or rejects it.
    mutating func enqueue(
        _ invocation: HubInvocation, isStreaming: Bool, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        let (number, configuration) = (self.nextNumber(), self.configuration)
        let rejection = self.updateConnected(id) { established -> Established.Rejection? in
            if let rejection = established.rejection(of: invocation, isStreaming: isStreaming, configuration) { return rejection }
            let call = HubCall(number, of: established.info, .invocation(invocation, isStreaming: isStreaming))
            established.enqueue(PendingCall(call: call, invocation: invocation, isStreaming: isStreaming))
            return nil
        }
        guard let rejection else { return }
        if let limit = rejection.limit { self.logLimit(limit, id, &effects) }
        self.deliver(.error(connectionID: self.connections[id]?.connectionID ?? "", message: rejection.text), &effects)
        if let invocationID = invocation.id { self.complete(invocationID, .error(rejection.text), to: id, now: now, &effects) }
    }

    /// Starts the calls that can start, in the order of their messages.
    mutating func startCalls(_ id: ConnectionID, _ effects: inout Effects<Self>) {
        let slots = max(1, self.configuration.parallelInvocations)
        while let next = self.connections.update(id, { $0.state.startNextCall(slots: slots) }) {
            self.deliver(.invoked(connectionID: next.call.connection.connectionID, method: next.invocation.target), &effects)
            self.run(.start(next.call), &effects)
            // As for the calls that had started before.
            if self.connections[id]?.state.phase == .ended { self.cancel([next.call], &effects) }
        }
    }

    /// The client cancels an invocation. It still receives a completion.
    mutating func cancelCall(_ invocationID: ByteString, of id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        switch self.updateCalls(id, { $0.cancel(invocationID) }) {
        case .running(let call): self.cancel([call], &effects)
        case .waiting(let waiting):
            self.removeUploads(waiting.invocation.streamIDs, of: id, &effects)
            let completion: HubCompletion = waiting.isStreaming ? .void : .error(Self.cancellationText)
            self.complete(invocationID.string, completion, to: id, now: now, &effects)
        case nil: effects.counters.messagesIgnored += 1
        }
    }

    static let cancellationText = "The invocation was canceled by the client."

    /// The application's code has returned.
    mutating func ended(_ call: HubCall, _ completion: HubCompletion, now: Instant, _ effects: inout Effects<Self>) {
        let id = call.connection.id
        guard let running = self.updateCalls(id, { $0.ended(call.number) }) else { return }
        self.removeUploads(running.streamIDs, of: id, &effects)
        let error: String? = if case .error(let text) = completion { text } else { nil }
        switch call.operation {
        case .connected:
            if let error {
                self.updateCalls(id) { $0.removeWaiting() }
                self.close(id, error: error, allowReconnect: false, now: now, &effects)
            } else {
                self.updateCalls(id) { $0.becomeReady() }
            }
        case .disconnected: break
        case .invocation:
            self.deliver(
                .completed(connectionID: call.connection.connectionID, method: running.target, error: error), &effects)
            if let invocationID = running.invocationID { self.complete(invocationID.string, completion, to: id, now: now, &effects) }
        }
        self.startCalls(id, &effects)
        self.updateReading(id, now: now, &effects)
        self.removeIfCallsEnded(id, &effects)
    }

    mutating func complete(
        _ invocationID: String, _ completion: HubCompletion, to id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let format = self.connections[id]?.format else { return }
        self.send(HubMessageWriter.message(.completion(id: invocationID, completion), format), to: id, now: now, &effects)
    }

    private mutating func removeUploads(_ streamIDs: [String], of id: ConnectionID, _ effects: inout Effects<Self>) {
        guard !streamIDs.isEmpty else { return }
        for reader in self.updateEstablished(id, { $0.removeUploads(streamIDs) }) ?? [] {
            self.resume(reader, .failure(.disconnected), &effects)
        }
    }

    // MARK: Items

    enum SendResult: Sendable {
        case sent
        /// The message wasn't sent, because much output waits for the client. Wait before sending it.
        case paused
        /// The connection or the call has ended.
        case ended
    }

    /// Sends a message of a running call.
    mutating func send(
        _ message: TransportMessage, of call: HubCall, now: Instant, _ effects: inout Effects<Self>
    ) -> SendResult {
        let (id, limit) = (call.connection.id, self.storedByteLimit)
        var step: Established.SendStep?
        let result = self.updateConnected(id) { established -> SendResult in
            guard established.calls.isRunning(call.number) else { return .ended }
            guard !established.mustWait else { return .paused }
            step = established.send(message, limit: limit, now: now)
            return .sent
        }
        if let step { self.perform(step, message, id, now: now, &effects) }
        return result ?? .ended
    }
}
