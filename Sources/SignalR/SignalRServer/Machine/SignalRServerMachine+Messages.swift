import RealtimeCore
import RealtimeSystem
import SignalRWire

/// Received bytes: the handshake and the messages after it.
extension SignalRServerMachine {
    mutating func received(_ socket: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.sockets.owner(of: socket) else { return }
        self.updateEstablished(id) { $0.heartbeat.received(now: now) }
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries where entry.kind == .text || entry.kind == .binary {
                self.received(UnsafeRawBufferPointer(rebasing: bytes[entry.range]), entry.kind, from: id, now: now, &effects)
            }
        }
    }

    mutating func receivedPart(_ socket: ConnectionID, byteCount: Int, now: Instant) {
        guard let id = self.sockets.owner(of: socket) else { return }
        self.updateEstablished(id) { $0.heartbeat.receivedPart(byteCount: byteCount, now: now) }
    }

    private mutating func received(
        _ bytes: UnsafeRawBufferPointer, _ kind: TransportMessage.Kind, from id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        switch self.connections[id]?.state.phase {
        case .handshaking:
            self.reportReceived(bytes, kind, from: id, &effects)
            self.receivedHandshake(bytes, kind, from: id, now: now, &effects)
        case .connected:
            self.reportReceived(bytes, kind, from: id, &effects)
            self.receivedMessages(bytes, kind, from: id, now: now, &effects)
        case .rejected, .interrupted, .closing, .ended: effects.counters.messagesIgnored += 1
        case nil: break
        }
    }

    private func reportReceived(
        _ bytes: UnsafeRawBufferPointer, _ kind: TransportMessage.Kind, from id: ConnectionID, _ effects: inout Effects<Self>
    ) {
        guard !effects.routes.isEmpty(self.eventRoute), let connection = self.connections[id] else { return }
        let excerpt = bytes.prefix(max(0, self.configuration.messageLimit))
        // The body of a request doesn't say what it is: only the format does.
        let isText = kind == .text || connection.transport != .webSockets && connection.format != .messagePack
        let message = isText ? TransportMessage.text(String(decoding: excerpt, as: UTF8.self)) : .binary(Array(excerpt))
        effects.deliver(.received(connectionID: connection.connectionID, message), on: self.eventRoute)
    }

    // MARK: Handshake

    private mutating func receivedHandshake(
        _ bytes: UnsafeRawBufferPointer, _ kind: TransportMessage.Kind, from id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        guard case .handshaking(var handshake)? = self.connections[id]?.state else { return }
        do throws(HubMessageError) {
            guard let consumed = try handshake.buffer.append(bytes), let request = try Self.parse(handshake.buffer.bytes) else {
                self.connections.update(id) { $0.state = .handshaking(handshake) }
                return
            }
            guard let format = HubFormat(protocolName: request.protocolName) else {
                let name = Excerpt.of(request.protocolName, limit: 80)
                return self.rejectHandshake(id, "The protocol '\(name)' is not supported.", kind, &effects)
            }
            // As in ASP.NET Core, version 2 is accepted although only stateful reconnect needs it, also if that wasn't negotiated.
            guard request.version <= Self.newestVersion else {
                let text = "The server does not support version \(request.version) of the '\(format.protocolName)' protocol."
                return self.rejectHandshake(id, text, kind, &effects)
            }
            guard let transport = self.connections[id]?.transport, HubTransportOffer(transport).supports(format) else {
                let text =
                    "Cannot use the '\(format.protocolName)' protocol on the current transport. The transport does not support "
                    + "'\(format.transferFormat)' transfer format."
                return self.rejectHandshake(id, text, kind, &effects)
            }
            effects.commands.append(.send(id, TransportMessage(format.messageKind, HubHandshake.response(error: nil))))
            self.establish(id, format, version: request.version, now: now, &effects)
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
    mutating func rejectHandshake(_ id: ConnectionID, _ error: String, _ kind: TransportMessage.Kind, _ effects: inout Effects<Self>) {
        effects.commands.append(.send(id, TransportMessage(kind, HubHandshake.response(error: error))))
        self.closeFrame(id, error: error, .normal, &effects)
    }

    // MARK: Messages

    private mutating func receivedMessages(
        _ bytes: UnsafeRawBufferPointer, _ kind: TransportMessage.Kind, from id: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        // Taken out, so that the messages can change the machine while the reader reads.
        guard var reader = self.updateConnected(id, { $0.reader.take() }) else { return }
        do throws(HubFramingError) {
            try reader.read(bytes, isUTF8: kind == .text) { self.received($0, from: id, now: now, &effects) }
            self.updateConnected(id) {
                $0.reader = reader
                $0.buffer?.received(byteCount: bytes.count, now: now)
            }
        } catch {
            let advice = error.isTooLarge ? " Send smaller messages, or increase `SignalRServerConfiguration.messageLimit`." : ""
            self.closeInvalid(error.problem + advice, id, now: now, &effects)
        }
        self.startCalls(id, &effects)
        self.updateReading(id, now: now, &effects)
    }

    private mutating func received(
        _ output: HubMessageReader.Output, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.passes(output, from: id, now: now, &effects) else { return }
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
            self.updateConnected(id) { $0.isClosedByClient = true }
            self.close(id, error: nil, allowReconnect: false, now: now, &effects)
        // Only stateful reconnect uses these, which the connection doesn't have.
        case .ack, .sequence: effects.counters.messagesIgnored += 1
        }
    }

    /// A message is invalid. As in ASP.NET Core, that ends the connection: a caller whose invocation can't be read would wait forever.
    private mutating func receivedInvalid(
        _ error: HubMessageError, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        effects.counters.messagesIgnored += 1
        self.closeInvalid(error.problem, id, now: now, &effects)
    }

    private mutating func closeInvalid(_ problem: String, _ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let text = "Connection closed with an error. InvalidDataException: \(problem)"
        self.close(id, error: text, allowReconnect: true, now: now, &effects)
    }

    // MARK: Streams and results of clients

    private mutating func receivedItem(
        _ payload: HubPayload, of stream: ByteString, from id: ConnectionID, _ effects: inout Effects<Self>
    ) {
        let limit = self.configuration.streamBufferLimit
        switch self.updateConnected(id, { $0.received(payload, of: stream, limit: limit) }) {
        case .passed(to: let reader): self.resume(reader, .success(.items([payload], end: nil)), &effects)
        case .buffered: break
        case .exceedsLimit:
            self.logLimit("\(limit) bytes in streams", id, &effects)
            self.endUpload(stream, .failed("The client sends items faster than the method reads them."), of: id, &effects)
        case .ignored, nil: effects.counters.messagesIgnored += 1
        }
    }

    /// The memory for an item beside its bytes, so that empty items also count.
    static let itemOverhead = 64

    private mutating func receivedCompletion(
        _ completion: HubCompletion, of invocation: ByteString, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard !self.isUpload(invocation, id) else {
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
        guard let waiter = self.updateConnected(id, { $0.results.removeValue(forKey: invocation) }) else {
            effects.counters.messagesIgnored += 1
            return effects.log(.debug, "Ignoring a result for which no caller waits any more.")
        }
        self.resume(waiter, result, &effects)
        self.updateReading(id, now: now, &effects)
    }

    private mutating func isUpload(_ stream: ByteString, _ id: ConnectionID) -> Bool {
        self.updateConnected(id) { $0.uploads[stream] != nil } ?? false
    }

    /// Ends a stream from a client.
    private mutating func endUpload(_ stream: ByteString, _ end: StreamEnd, of id: ConnectionID, _ effects: inout Effects<Self>) {
        for reader in self.updateConnected(id, { $0.endUpload(stream, end) }) ?? [] {
            self.resume(reader, .success(.items([], end: end)), &effects)
        }
    }

    /// Passes the items of a stream that have arrived to a caller, or lets it wait for the next one.
    mutating func readItems(
        of stream: ByteString, _ id: ConnectionID, _ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch self.updateEstablished(id, { $0.readItems(of: stream, waiter) }) {
        case .items(let items, let end):
            effects.resume(waiter, .success(.items(items, end: end)))
            self.updateReading(id, now: now, &effects)
        case .waits: self.waiting[waiter] = .items(id, stream)
        case nil: effects.resume(waiter, .failure(.disconnected))
        }
    }

    static func size(of item: HubPayload) -> Int { item.bytes.count + Self.itemOverhead }

    static func size(of items: [HubPayload]) -> Int { items.reduce(0) { $0 + Self.size(of: $1) } }

    /// Calls a method of a client and lets a caller wait for the result.
    mutating func invoke(
        _ method: String, _ arguments: HubPayload, on connectionID: String, of hub: HubID, _ waiter: WaiterID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        guard let id = self.hubs[hub.rawValue].connections[ByteString(connectionID)],
            let (invocation, format) = self.updateConnected(id, { ($0.awaitResult(waiter), $0.info.format) })
        else { return effects.resume(waiter, .failure(.unknownConnection)) }
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
