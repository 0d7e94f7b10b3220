import RealtimeCore
import RealtimeSystem
import SignalRWire

/// Received bytes: the handshake and the messages after it.
extension SignalRServerMachine {
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connections[id] != nil else { return }
        self.connections[id]?.established?.heartbeat.received(now: now)
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries where entry.kind == .text || entry.kind == .binary {
                self.received(UnsafeRawBufferPointer(rebasing: bytes[entry.range]), entry.kind, from: id, now: now, &effects)
            }
        }
    }

    private mutating func received(
        _ bytes: UnsafeRawBufferPointer, _ kind: WebSocketMessage.Kind, from id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        switch self.connections[id]?.stage {
        case .handshaking:
            self.reportReceived(bytes, kind, from: id, &effects)
            self.receivedHandshake(bytes, kind, from: id, now: now, &effects)
        case .connected:
            self.reportReceived(bytes, kind, from: id, &effects)
            self.receivedMessages(bytes, kind, from: id, now: now, &effects)
        case .closing, .ended, nil: effects.counters.messagesIgnored += 1
        }
    }

    private func reportReceived(
        _ bytes: UnsafeRawBufferPointer, _ kind: WebSocketMessage.Kind, from id: ConnectionID, _ effects: inout Effects<Self>
    ) {
        guard !effects.routes.isEmpty(self.eventRoute), let connectionID = self.connections[id]?.connectionID else { return }
        let message = WebSocketMessage(kind, Array(bytes.prefix(max(0, self.configuration.messageLimit))))
        effects.deliver(.received(connectionID: connectionID, message), on: self.eventRoute)
    }

    // MARK: Handshake

    private mutating func receivedHandshake(
        _ bytes: UnsafeRawBufferPointer, _ kind: WebSocketMessage.Kind, from id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        guard var handshake = self.connections[id]?.handshake else { return }
        do throws(HubMessageError) {
            guard let consumed = try handshake.append(bytes), let request = try Self.parse(handshake.bytes) else {
                self.connections[id]?.handshake = handshake
                return
            }
            self.connections[id]?.handshake = HubHandshake.Buffer()
            guard let format = HubFormat(protocolName: request.protocolName) else {
                let name = Excerpt.of(request.protocolName, limit: 80)
                return self.rejectHandshake(id, "The protocol '\(name)' is not supported.", kind, &effects)
            }
            // As in ASP.NET Core, version 2 is accepted although only stateful reconnect needs it, which the negotiation doesn't offer.
            guard request.version <= Self.newestVersion else {
                let text = "The server does not support version \(request.version) of the '\(format.protocolName)' protocol."
                return self.rejectHandshake(id, text, kind, &effects)
            }
            effects.commands.append(.send(id, WebSocketMessage(format.messageKind, HubHandshake.response(error: nil))))
            self.establish(id, format, now: now, &effects)
            guard consumed < bytes.count else { return }
            self.receivedMessages(UnsafeRawBufferPointer(rebasing: bytes[consumed...]), kind, from: id, now: now, &effects)
        } catch {
            effects.log(.info, "Invalid handshake: \(error)")
            let details = self.configuration.sendsDetailedErrors ? " InvalidDataException: \(error.problem)" : ""
            self.rejectHandshake(id, "An unexpected error occurred during connection handshake.\(details)", kind, &effects)
        }
    }

    /// The newest version of the hub protocol. The messages that are new in it are ignored.
    private static let newestVersion = 2

    private static func parse(
        _ handshake: [UInt8]
    ) throws(HubMessageError) -> (protocolName: String, version: Int, consumed: Int)? {
        // `withUnsafeBytes` of arrays doesn't pass on the type of errors.
        let result = handshake.withUnsafeBytes { bytes in
            Result { () throws(HubMessageError) in try HubHandshake.parseRequest(bytes) }
        }
        return try result.get()
    }

    /// - Parameter kind: The kind of the client's message, which the client also understands as a response.
    mutating func rejectHandshake(_ id: ConnectionID, _ error: String, _ kind: WebSocketMessage.Kind, _ effects: inout Effects<Self>) {
        effects.commands.append(.send(id, WebSocketMessage(kind, HubHandshake.response(error: error))))
        self.connections[id]?.handshake = HubHandshake.Buffer()
        self.closeFrame(id, error: error, .normal, &effects)
    }

    // MARK: Messages

    private mutating func receivedMessages(
        _ bytes: UnsafeRawBufferPointer, _ kind: WebSocketMessage.Kind, from id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        // Taken out, so that the messages can change the machine while the reader reads.
        guard var reader = self.connections[id]?.established?.reader.take() else { return }
        do throws(HubFramingError) {
            try reader.read(bytes, isUTF8: kind == .text) { self.received($0, from: id, now: now, &effects) }
            self.connections[id]?.established?.reader = reader
        } catch {
            let text = "Connection closed with an error. InvalidDataException: \(error.problem)"
            self.close(id, error: text, allowReconnect: true, now: now, &effects)
        }
        self.startCalls(id, &effects)
        self.updateReading(id, now: now, &effects)
    }

    private mutating func received(
        _ output: HubMessageReader.Output, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        // An earlier message may have closed the connection.
        guard case .connected = self.connections[id]?.stage else { return }
        switch output {
        case .message(let message): self.received(message, from: id, now: now, &effects)
        case .invalid(let error): self.receivedInvalid(error, from: id, now: now, &effects)
        case .unknown(let type): effects.log(.debug, "Ignoring a message of the unknown type \(type).")
        }
    }

    private mutating func received(_ message: HubMessage, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        switch message {
        case .invocation(let invocation): self.enqueue(invocation, isStreaming: false, from: id, now: now, &effects)
        case .streamInvocation(let invocation): self.enqueue(invocation, isStreaming: true, from: id, now: now, &effects)
        case .streamItem(let stream, let payload): self.receivedItem(payload, of: ByteString(stream), from: id, &effects)
        case .completion(let invocation, let completion):
            self.receivedCompletion(completion, of: ByteString(invocation), from: id, now: now, &effects)
        case .cancelInvocation(let invocation): self.cancelCall(ByteString(invocation), of: id, now: now, &effects)
        case .ping: break
        case .close(let error, _):
            if let error { effects.log(.info, "A client closes its connection with the error: \(Excerpt.of(error, limit: 200))") }
            self.connections[id]?.established?.isClosedByClient = true
            self.close(id, error: nil, allowReconnect: false, now: now, &effects)
        // Only stateful reconnect uses these, which the negotiation doesn't offer.
        case .ack, .sequence: effects.counters.messagesIgnored += 1
        }
    }

    /// A message is invalid. Only what it is about fails.
    private mutating func receivedInvalid(
        _ error: HubMessageError, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connections[id] else { return }
        effects.counters.messagesIgnored += 1
        self.deliver(.error(connectionID: connection.connectionID, message: error.problem), &effects)
        guard let text = error.invocationID else { return }
        let invocation = ByteString(text)
        switch error.type {
        case 1, 4: self.complete(text, .error("Failed to read the invocation: \(error.problem)"), to: id, now: now, &effects)
        case 2, 3:
            if connection.established?.uploads[invocation] != nil {
                self.endUpload(invocation, .failed(error.problem), of: id, &effects)
            } else {
                self.endResult(invocation, .failure(.failed(error.problem)), of: id, now: now, &effects)
            }
        default: break
        }
    }

    // MARK: Streams and results of clients

    private mutating func receivedItem(
        _ payload: HubPayload, of stream: ByteString, from id: ConnectionID, _ effects: inout Effects<Self>
    ) {
        // Unknown if the method has returned already. The client stops when it receives the completion.
        guard let upload = self.uploadState(stream, id), !upload.hasEnded else { return effects.counters.messagesIgnored += 1 }
        if let reader = upload.reader {
            self.connections[id]?.established?.uploads[stream]?.readers.removeFirst()
            return self.resume(reader, .success(.items([payload], end: nil)), &effects)
        }
        let buffered = self.connections[id]?.established?.bufferedBytes ?? 0
        let size = payload.bytes.count + Self.itemOverhead
        let limit = max(0, self.configuration.streamBufferLimit).multipliedReportingOverflow(by: 4)
        // Without a caller that waits for a result, reading pauses. What has been read already is processed.
        let isReadingPausable = self.connections[id]?.established?.results.isEmpty ?? true
        guard isReadingPausable || limit.overflow || buffered + size <= limit.partialValue else {
            self.logLimit("\(self.configuration.streamBufferLimit) bytes in streams", id, &effects)
            return self.endUpload(stream, .failed("The client sends items faster than the method reads them."), of: id, &effects)
        }
        self.connections[id]?.established?.bufferedBytes = buffered + size
        self.connections[id]?.established?.uploads[stream]?.items.append(payload)
    }

    /// Without the items: while a copy of them exists, appending to them would copy all.
    private func uploadState(_ stream: ByteString, _ id: ConnectionID) -> (hasEnded: Bool, reader: WaiterID?)? {
        self.connections[id]?.established?.uploads[stream].map { ($0.end != nil, $0.readers.first) }
    }

    /// The memory for an item beside its bytes, so that empty items also count.
    static let itemOverhead = 64

    private mutating func receivedCompletion(
        _ completion: HubCompletion, of invocation: ByteString, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.connections[id]?.established?.uploads[invocation] == nil else {
            let end: StreamEnd = if case .error(let text) = completion { .failed(text) } else { .completed }
            return self.endUpload(invocation, end, of: id, &effects)
        }
        let result: Result<WaiterResult, Failure> =
            switch completion {
            case .void: .success(.result(nil))
            case .result(let payload): .success(.result(payload))
            case .error(let text): .failure(.failed(text))
            }
        self.endResult(invocation, result, of: id, now: now, &effects)
    }

    private mutating func endResult(
        _ invocation: ByteString, _ result: Result<WaiterResult, Failure>, of id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        guard let waiter = self.connections[id]?.established?.results.removeValue(forKey: invocation) else {
            effects.counters.messagesIgnored += 1
            return effects.log(.debug, "Ignoring a result for which no caller waits any more.")
        }
        self.resume(waiter, result, &effects)
        self.updateReading(id, now: now, &effects)
    }

    /// Ends a stream from a client. What has arrived can still be read.
    private mutating func endUpload(_ stream: ByteString, _ end: StreamEnd, of id: ConnectionID, _ effects: inout Effects<Self>) {
        guard let upload = self.connections[id]?.established?.uploads[stream], upload.end == nil else { return }
        self.connections[id]?.established?.uploads[stream]?.end = end
        self.connections[id]?.established?.uploads[stream]?.readers = []
        // If there are readers, no items wait.
        for reader in upload.readers { self.resume(reader, .success(.items([], end: end)), &effects) }
    }

    /// Passes the items of a stream that have arrived to a caller, or lets it wait for the next one.
    mutating func readItems(
        of stream: ByteString, _ id: ConnectionID, _ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let upload = self.connections[id]?.established?.uploads[stream] else {
            effects.commands.append(.resume(waiter, .failure(.disconnected)))
            return
        }
        guard !upload.items.isEmpty || upload.end != nil else {
            self.waiting[waiter] = .items(id, stream)
            self.connections[id]?.established?.uploads[stream]?.readers.append(waiter)
            return
        }
        self.connections[id]?.established?.uploads[stream]?.items = []
        self.connections[id]?.established?.bufferedBytes -= Self.size(of: upload.items)
        effects.commands.append(.resume(waiter, .success(.items(upload.items, end: upload.end))))
        self.updateReading(id, now: now, &effects)
    }

    static func size(of items: [HubPayload]) -> Int { items.reduce(0) { $0 + $1.bytes.count + Self.itemOverhead } }

    /// Calls a method of a client and lets a caller wait for the result.
    mutating func invoke(
        _ method: String, _ arguments: HubPayload, on connectionID: String, of hub: HubID, _ waiter: WaiterID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        guard let id = self.hubs[hub.rawValue].connections[ByteString(connectionID)], case .connected = self.connections[id]?.stage,
            let format = self.connections[id]?.established?.info.format, let last = self.connections[id]?.established?.lastResult
        else {
            effects.commands.append(.resume(waiter, .failure(.unknownConnection)))
            return
        }
        // The letter distinguishes the ID from those of the client's streams, which usually are numbers.
        let invocation = "s\(last + 1)"
        self.connections[id]?.established?.lastResult += 1
        self.connections[id]?.established?.results[ByteString(invocation)] = waiter
        self.waiting[waiter] = .result(id, ByteString(invocation))
        let message = HubMessage.invocation(HubInvocation(id: invocation, target: method, arguments: arguments))
        self.send(HubMessageWriter.message(message, format), to: id, now: now, &effects)
        self.updateReading(id, now: now, &effects)
    }

    /// Logs that a client has exceeded a limit.
    func logLimit(_ limit: @autoclosure () -> String, _ id: ConnectionID, _ effects: inout Effects<Self>) {
        effects.log(.info, "\(self.connections[id]?.connectionID ?? "A client") exceeded the limit of \(limit()).")
    }
}
