import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The calls of the user's methods: which wait, which run, and what they respond.
extension SignalRServerMachine {
    /// Adds an invocation to those that wait, or rejects it.
    mutating func enqueue(
        _ invocation: HubInvocation, isStreaming: Bool, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let info = self.connections[id]?.established?.info else { return }
        if let error = self.rejection(of: invocation, isStreaming: isStreaming, from: id, &effects) {
            self.deliver(.error(connectionID: info.connectionID, message: error), &effects)
            guard let invocationID = invocation.id else { return }
            return self.complete(invocationID, .error(error), to: id, now: now, &effects)
        }
        let call = HubCall(self.nextNumber(), of: info, .invocation(invocation, isStreaming: isStreaming))
        // From now on, because items of the streams may follow before the call starts.
        for stream in invocation.streamIDs {
            self.connections[id]?.established?.uploads[ByteString(stream)] = Upload(call: call.number)
        }
        if let invocationID = invocation.id { self.connections[id]?.established?.invocationIDs[ByteString(invocationID)] = call.number }
        if isStreaming { self.connections[id]?.established?.streamingCalls += 1 }
        let pending = PendingCall(call: call, invocation: invocation, isStreaming: isStreaming)
        self.connections[id]?.established?.queue.append(pending)
        self.connections[id]?.established?.queuedBytes += pending.size
    }

    private func rejection(
        of invocation: HubInvocation, isStreaming: Bool, from id: ConnectionID, _ effects: inout Effects<Self>
    ) -> String? {
        guard let established = self.connections[id]?.established else { return nil }
        if let text = invocation.id {
            let invocationID = ByteString(text)
            guard established.invocationIDs[invocationID] == nil else {
                return "Invocation ID '\(Excerpt.of(text, limit: 80))' is already in use."
            }
        }
        var streams: Set<ByteString> = []
        for text in invocation.streamIDs {
            let stream = ByteString(text)
            guard established.uploads[stream] == nil, streams.insert(stream).inserted else {
                return "Stream ID '\(Excerpt.of(text, limit: 80))' is already in use."
            }
        }
        let limit = self.configuration.streamLimit
        guard established.streamingCalls + established.uploads.count + streams.count + (isStreaming ? 1 : 0) <= max(0, limit) else {
            self.logLimit("\(limit) streams", id, &effects)
            return "The connection would have more than \(limit) streams, which is the limit."
        }
        // Otherwise, reading pauses. What has been read already is processed.
        let pendingLimit = max(1, self.configuration.pendingInvocationLimit).multipliedReportingOverflow(by: 4)
        guard established.results.isEmpty || pendingLimit.overflow || established.queue.count < pendingLimit.partialValue else {
            self.logLimit("\(self.configuration.pendingInvocationLimit) pending invocations", id, &effects)
            return "Too many invocations of the connection wait for earlier ones."
        }
        let byteLimit = max(0, self.configuration.invocationBufferLimit).multipliedReportingOverflow(by: 4)
        guard established.results.isEmpty || byteLimit.overflow || established.queuedBytes <= byteLimit.partialValue else {
            self.logLimit("\(self.configuration.invocationBufferLimit) bytes in pending invocations", id, &effects)
            return "The invocations of the connection that wait for earlier ones are too large."
        }
        return nil
    }

    /// Starts the calls that can start, in the order of their messages.
    mutating func startCalls(_ id: ConnectionID, _ effects: inout Effects<Self>) {
        while let next = self.startableCall(id) {
            _ = self.connections[id]?.established?.queue.popFirst()
            self.connections[id]?.established?.queuedBytes -= next.size
            self.start(
                next.call, invocation: next.invocation, isStreaming: next.isStreaming, occupiesSlot: !next.isConcurrent, &effects)
        }
    }

    private func startableCall(_ id: ConnectionID) -> PendingCall? {
        switch self.connections[id]?.stage {
        // Results can't wait for a client that reads slowly, as items of streams do, so no call starts that would add one.
        case .connected: guard self.connections[id]?.established?.isWritingPaused == false else { return nil }
        case .ended: break
        case .handshaking, .closing, nil: return nil
        }
        guard let established = self.connections[id]?.established, established.isReady, let next = established.queue.first,
            next.isConcurrent || established.occupiedSlots < max(1, self.configuration.parallelInvocations)
        else { return nil }
        return next
    }

    mutating func start(
        _ call: HubCall, invocation: HubInvocation?, isStreaming: Bool, occupiesSlot: Bool, _ effects: inout Effects<Self>
    ) {
        let id = call.connection.id
        self.connections[id]?.established?.calls[call.number] = RunningCall(
            call: call, invocationID: invocation?.id.map { ByteString($0) }, target: invocation?.target ?? "",
            streamIDs: invocation?.streamIDs ?? [], isStreaming: isStreaming, occupiesSlot: occupiesSlot)
        if occupiesSlot { self.connections[id]?.established?.occupiedSlots += 1 }
        if let invocation {
            self.deliver(.invoked(connectionID: call.connection.connectionID, method: invocation.target), &effects)
        }
        self.run(.start(call), &effects)
        // As for the calls that had started before.
        if case .ended = self.connections[id]?.stage { self.cancel([call], &effects) }
    }

    /// The client cancels an invocation. It still receives a completion.
    mutating func cancelCall(_ invocationID: ByteString, of id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let number = self.connections[id]?.established?.invocationIDs[invocationID] else {
            return effects.counters.messagesIgnored += 1
        }
        if let running = self.connections[id]?.established?.calls[number] { return self.cancel([running.call], &effects) }
        let waiting = self.connections[id]?.established?.queue.removeFirst { $0.call.number == number }
        if let waiting {
            self.connections[id]?.established?.queuedBytes -= waiting.size
            self.connections[id]?.established?.invocationIDs[invocationID] = nil
            if waiting.isStreaming { self.connections[id]?.established?.streamingCalls -= 1 }
            self.removeUploads(waiting.invocation.streamIDs, of: id, &effects)
            let completion: HubCompletion = waiting.isStreaming ? .void : .error(Self.cancellationText)
            self.complete(invocationID.string, completion, to: id, now: now, &effects)
        }
    }

    static let cancellationText = "The invocation was canceled by the client."

    /// The user's code has returned.
    mutating func ended(_ call: HubCall, _ completion: HubCompletion, now: Instant, _ effects: inout Effects<Self>) {
        let id = call.connection.id
        guard let running = self.connections[id]?.established?.calls.removeValue(forKey: call.number) else { return }
        if running.occupiesSlot { self.connections[id]?.established?.occupiedSlots -= 1 }
        if running.isStreaming { self.connections[id]?.established?.streamingCalls -= 1 }
        if let invocationID = running.invocationID { self.connections[id]?.established?.invocationIDs[invocationID] = nil }
        self.removeUploads(running.streamIDs, of: id, &effects)
        let error: String? = if case .error(let text) = completion { text } else { nil }
        switch call.operation {
        case .connected:
            if let error {
                self.connections[id]?.established?.queue = HubQueue()
                self.connections[id]?.established?.queuedBytes = 0
                self.close(id, error: error, allowReconnect: false, now: now, &effects)
            } else {
                self.connections[id]?.established?.isReady = true
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
        guard let format = self.connections[id]?.established?.info.format else { return }
        self.send(HubMessageWriter.message(.completion(id: invocationID, completion), format), to: id, now: now, &effects)
    }

    /// Removes the streams of a call that has ended. Further items are ignored.
    private mutating func removeUploads(_ streamIDs: [String], of id: ConnectionID, _ effects: inout Effects<Self>) {
        for stream in streamIDs {
            guard let upload = self.connections[id]?.established?.uploads.removeValue(forKey: ByteString(stream)) else { continue }
            self.connections[id]?.established?.bufferedBytes -= Self.size(of: upload.items)
            // A task of the user's may still read.
            for reader in upload.readers { self.resume(reader, .failure(.disconnected), &effects) }
        }
    }

    // MARK: Items

    enum SendResult: Sendable {
        case sent
        /// It wasn't sent, because much output waits for the client. Wait before sending it.
        case paused
        /// The connection or the call has ended.
        case ended
    }

    /// Sends a message of a running call.
    mutating func send(
        _ message: WebSocketMessage, of call: HubCall, now: Instant, _ effects: inout Effects<Self>
    ) -> SendResult {
        let id = call.connection.id
        guard case .connected = self.connections[id]?.stage, self.connections[id]?.established?.calls[call.number] != nil else {
            return .ended
        }
        if self.connections[id]?.established?.isWritingPaused == true { return .paused }
        self.send(message, to: id, now: now, &effects)
        return .sent
    }
}
