import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The state of one connection.
extension SignalRServerMachine {
    struct Connection: Sendable {
        enum State: Sendable {
            case handshaking(Handshake)
            /// The handshake was rejected. The close frame is sent, and only the end of the connection is of interest.
            case rejected
            case connected(Established)
            /// The socket of a connection with stateful reconnect was lost. The connection continues, and its client can resume it on another
            /// socket.
            case interrupted(Established, Interruption)
            /// The close frame is sent, and only the end of the connection is of interest.
            case closing(Established, error: String?)
            /// The connection has ended. Its calls are cancelled and haven't ended all.
            case ended(Ended)
        }

        /// The state without its payload.
        enum Phase: Sendable { case handshaking, rejected, connected, interrupted, closing, ended }

        let hub: HubID
        let connectionID: String
        let transport: HubTransport
        let token: ByteString?
        let userID: String?
        let request: HTTPRequestHead
        /// Whether stateful reconnect was negotiated. The version in the handshake decides whether the connection has it.
        let allowsResuming: Bool
        var state: State
        var timer = CoalescedTimer()
        /// Whether the server injects silence, so that the client can't be blamed for it.
        var isSilent = false

        /// Replaces the reason of an end that is the usual one: a client ends a stream of events to leave.
        func orderly(_ reason: CloseReason) -> CloseReason {
            guard self.transport == .serverSentEvents, case .transport(let error) = reason, error.code == .closed else { return reason }
            return .peer(.normal, "")
        }

        struct ReadingStep: Sendable {
            /// Whether reading is paused from now on; `nil` if nothing changes.
            var isPaused: Bool?
            var acknowledgment: (HubMessage, HubFormat)?
            /// The new instant of the timer, if that moves.
            var timer: Instant?
        }

        /// Decides whether reading pauses, and whether an acknowledgment is sent, which may be withheld while it pauses.
        mutating func updateReading(_ configuration: SignalRServerConfiguration, now: Instant) -> ReadingStep {
            var step = ReadingStep()
            let deadline = self.state.updateConnected { established -> Instant? in
                step.isPaused = established.updateReading(configuration)
                guard established.buffer != nil else { return nil }
                step.acknowledgment = established.takeAck(now: now).map { ($0, established.info.format) }
                return established.nextDeadline
            }
            if let deadline, self.state.phase == .connected { step.timer = self.timer.setDeadline(deadline) }
            return step
        }

        /// A copy of the state between the handshake and the end; `nil` in other states.
        var established: Established? {
            switch self.state {
            case .connected(let established), .interrupted(let established, _), .closing(let established, _): established
            case .handshaking, .rejected, .ended: nil
            }
        }

        /// The format, if the connection is open.
        var format: HubFormat? {
            switch self.state {
            case .connected(let established), .interrupted(let established, _): established.info.format
            case .handshaking, .rejected, .closing, .ended: nil
            }
        }

        /// Whether another socket can take the place of the one that was lost, or that seems to be alive.
        var isResumable: Bool {
            switch self.state {
            case .connected(let established), .interrupted(let established, _): established.buffer != nil
            case .handshaking, .rejected, .closing, .ended: false
            }
        }
    }

    struct Handshake: Sendable {
        var limit: PatientLimit
        /// The start of an incomplete handshake.
        var buffer = HubHandshake.Buffer()
    }

    /// The time without a socket.
    struct Interruption: Sendable {
        /// When the connection ends, unless its client resumes it.
        var limit: PatientLimit
        /// Why the socket was lost.
        let reason: CloseReason
    }

    struct Ended: Sendable {
        let info: HubConnectionInfo
        var calls: HubCalls
        let error: String?
    }

    /// The state between the handshake and the end of a connection.
    struct Established: Sendable {
        let info: HubConnectionInfo
        /// Absent while it reads.
        var reader: HubMessageReader?
        var heartbeat: Heartbeat
        /// The messages that the client hasn't acknowledged; `nil` without stateful reconnect.
        var buffer: HubMessageBuffer?
        var groups: Set<ByteString> = []
        /// Whether the client has sent a close message.
        var isClosedByClient = false
        var calls = HubCalls()
        /// The streams from the client, by their IDs.
        var uploads: [ByteString: Upload] = [:]
        /// The bytes of all items in ``uploads``.
        var bufferedBytes = 0
        /// The callers that wait for results of the client, by the IDs of the invocations.
        var results: [ByteString: WaiterID] = [:]
        private var lastResult: UInt64 = 0
        /// The callers that wait until writing can continue.
        var writers = WaitingCalls()
        var isWritingPaused = false
        var isReadingPaused = false
        /// Whether so much of what was read waits for the application's code that the client has to wait.
        private var isOverloaded = false

        init(info: HubConnectionInfo, reader: HubMessageReader, heartbeat: Heartbeat, buffer: HubMessageBuffer?) {
            (self.info, self.reader, self.heartbeat, self.buffer) = (info, reader, heartbeat, buffer)
        }

        /// Whether a caller has to wait before it sends, because much output waits for the client or isn't acknowledged.
        var mustWait: Bool { self.isWritingPaused || self.buffer?.isFull == true }

        /// Whether reading continues although much of what was read waits: a result or an acknowledgment, without which the application's code
        /// can't continue, may be behind it.
        var mustRead: Bool { !self.results.isEmpty || self.buffer?.isFull == true }

        var nextDeadline: Instant? {
            .earliest(self.heartbeat.nextDeadline, self.isOverloaded ? nil : self.buffer?.nextDeadline)
        }

        /// Returns the acknowledgment to send, if it is due. A client to which none is sent stops sending when its buffer is full.
        mutating func takeAck(now: Instant) -> HubMessage? { self.isOverloaded ? nil : self.buffer?.takeAck(now: now) }

        /// All callers that wait for the client.
        var waiters: [WaiterID] {
            var writers = self.writers
            return (self.results.values + writers.takeAll() + self.uploads.values.flatMap(\.readers)).sorted()
        }
    }

    /// A stream from a client.
    struct Upload: Sendable {
        let call: UInt64
        var items: [HubPayload] = []
        var end: StreamEnd?
        /// The callers that wait for items, in order.
        var readers: [WaiterID] = []
    }
}

// MARK: Changing a state in place

extension SignalRServerMachine.Connection.State {
    typealias Established = SignalRServerMachine.Established

    var phase: SignalRServerMachine.Connection.Phase {
        switch self {
        case .handshaking: .handshaking
        case .rejected: .rejected
        case .connected: .connected
        case .interrupted: .interrupted
        case .closing: .closing
        case .ended: .ended
        }
    }

    // In each of these, consuming `self` lets the payload be changed without a copy of its collections.

    /// Changes the connection if it is open, with or without a socket. Returns `nil` otherwise.
    @discardableResult
    mutating func updateConnected<Result>(_ change: (inout Established) -> Result?) -> Result? {
        guard case .connected = self else { return self.updateInterrupted(change) }
        guard case .connected(var established) = consume self else { preconditionFailure("The state has changed.") }
        defer { self = .connected(established) }
        return change(&established)
    }

    private mutating func updateInterrupted<Result>(_ change: (inout Established) -> Result?) -> Result? {
        guard case .interrupted = self else { return nil }
        guard case .interrupted(var established, let interruption) = consume self else { preconditionFailure("The state has changed.") }
        defer { self = .interrupted(established, interruption) }
        return change(&established)
    }

    /// The socket was lost.
    ///
    /// - Returns: `false` if the connection ends with its socket.
    mutating func interrupt(_ interruption: SignalRServerMachine.Interruption) -> Bool {
        guard case .connected(var established) = self, established.buffer != nil, !established.isClosedByClient else { return false }
        established.buffer?.interrupt()
        // The next socket has room.
        established.isWritingPaused = false
        self = .interrupted(established, interruption)
        return true
    }

    /// Another socket was opened.
    ///
    /// - Parameter messageLimit: The limit of a new reader: an incomplete message follows again.
    /// - Returns: The message that the client needs first, and the messages that it may not have received; `nil` if the connection can't
    ///   continue.
    mutating func resume(messageLimit: Int, now: Instant) -> (sequence: HubMessage, messages: [TransportMessage])? {
        guard var established = self.updateConnected({ $0 }), let (sequence, messages) = established.buffer?.resume() else { return nil }
        established.reader = HubMessageReader(established.info.format, messageLimit: messageLimit)
        established.isWritingPaused = false
        established.heartbeat.sent(now: now)
        established.heartbeat.reading(paused: established.isReadingPaused, now: now)
        self = .connected(established)
        return (sequence, messages)
    }

    /// Passes a message of an open connection with a socket to the buffer of stateful reconnect, if there is one.
    ///
    /// - Returns: What to do with the message; `nil` in other states, in which it is ignored.
    mutating func reception(
        of output: HubMessageReader.Output, now: Instant
    ) -> Result<HubMessageBuffer.Reception, HubSequenceError>? {
        guard case .connected = self else { return nil }
        return self.updateConnected { established in
            do throws(HubSequenceError) {
                switch output {
                case .message(let message): return .success(try established.buffer?.received(message, now: now) ?? .handle)
                case .invalid(let error):
                    let isHandled = established.buffer?.receivedInvalid(type: error.type, now: now) ?? true
                    return .success(isHandled ? .handle : .ignore)
                case .unknown: return .success(.handle)
                }
            } catch {
                return .failure(error)
            }
        }
    }

    /// Changes the connection if it is open or closing. Returns `nil` otherwise.
    @discardableResult
    mutating func updateEstablished<Result>(_ change: (inout Established) -> Result?) -> Result? {
        guard case .closing = self else { return self.updateConnected(change) }
        guard case .closing(var established, let error) = consume self else { preconditionFailure("The state has changed.") }
        defer { self = .closing(established, error: error) }
        return change(&established)
    }

    /// Changes the calls of the connection, which may have ended. Returns `nil` before the handshake.
    @discardableResult
    mutating func updateCalls<Result>(_ change: (inout HubCalls) -> Result?) -> Result? {
        guard case .ended = self else { return self.updateEstablished { change(&$0.calls) } }
        guard case .ended(var ended) = consume self else { preconditionFailure("The state has changed.") }
        defer { self = .ended(ended) }
        return change(&ended.calls)
    }

    /// The close frame is sent.
    mutating func close(error: String?) {
        switch self.phase {
        case .handshaking: self = .rejected
        case .connected, .interrupted:
            guard var established = self.updateConnected({ $0 }) else { return }
            // The driver reads until the close frame of the client.
            established.isReadingPaused = false
            self = .closing(established, error: error)
        case .rejected, .closing, .ended: break
        }
    }

    /// Starts the next call, if it can start.
    mutating func startNextCall(slots: Int) -> PendingCall? {
        switch self.phase {
        // Results can't wait for a client that reads slowly, as items of streams do, so no call starts that would add one.
        case .connected, .interrupted: self.updateConnected { $0.mustWait ? nil : $0.calls.startNext(slots: slots) }
        case .ended: self.updateCalls { $0.startNext(slots: slots) }
        case .handshaking, .rejected, .closing: nil
        }
    }

    // MARK: Time

    var nextDeadline: Instant? {
        switch self {
        case .handshaking(let handshake): handshake.limit.deadline
        case .connected(let established): established.nextDeadline
        case .interrupted(_, let interruption): interruption.limit.deadline
        case .rejected, .closing, .ended: nil
        }
    }

    enum TimeoutAction: Sendable {
        case rejectHandshake
        case declareDead
        case sendPing(HubFormat)
        case acknowledge(HubMessage, HubFormat)
        /// The client hasn't resumed the connection in time.
        case end(CloseReason)
    }

    /// Whether the time for the handshake, or for another socket, has passed. It begins anew if that happened during a standstill.
    private mutating func limitHasPassed(now: Instant) -> Bool {
        switch consume self {
        case .handshaking(var handshake):
            defer { self = .handshaking(handshake) }
            return handshake.limit.hasPassed(now: now)
        case .interrupted(let established, var interruption):
            defer { self = .interrupted(established, interruption) }
            return interruption.limit.hasPassed(now: now)
        case let other:
            self = other
            return false
        }
    }

    mutating func timeout(now: Instant) -> TimeoutAction? {
        switch self.phase {
        case .handshaking: self.limitHasPassed(now: now) ? .rejectHandshake : nil
        case .connected:
            self.updateConnected { established in
                if let acknowledgment = established.takeAck(now: now) {
                    return .acknowledge(acknowledgment, established.info.format)
                }
                return switch established.heartbeat.timeout(now: now) {
                case .declareDead: .declareDead
                case .sendPing, .sendProbe: .sendPing(established.info.format)
                case .none: nil
                }
            }
        case .interrupted:
            if self.limitHasPassed(now: now), case .interrupted(_, let interruption) = self { .end(interruption.reason) } else { nil }
        case .rejected, .closing, .ended: nil
        }
    }
}

// MARK: Invocations, streams and results

extension SignalRServerMachine.Established {
    typealias Configuration = SignalRServerConfiguration

    /// The reason for the rejection of an invocation.
    struct Rejection: Sendable, Hashable {
        let text: String
        /// The limit that the client has exceeded, for the log.
        var limit: String?
    }

    /// Returns why an invocation can't be called, or `nil` if it can.
    func rejection(of invocation: HubInvocation, isStreaming: Bool, _ configuration: Configuration) -> Rejection? {
        if let text = invocation.id, self.calls.isInUse(ByteString(text)) {
            return Rejection(text: "Invocation ID '\(Excerpt.of(text, limit: 80))' is already in use.")
        }
        var streams: Set<ByteString> = []
        for text in invocation.streamIDs {
            let stream = ByteString(text)
            guard self.uploads[stream] == nil, streams.insert(stream).inserted else {
                return Rejection(text: "Stream ID '\(Excerpt.of(text, limit: 80))' is already in use.")
            }
        }
        let limit = configuration.streamLimit
        guard self.calls.streamingCount + self.uploads.count + streams.count + (isStreaming ? 1 : 0) <= max(0, limit) else {
            return Rejection(
                text: "The connection would have more than \(limit) streams, which is the limit.", limit: "\(limit) streams")
        }
        // Otherwise, reading pauses. What has been read already is processed.
        guard self.mustRead else { return nil }
        guard self.calls.queuedCount < Self.fourfold(max(1, configuration.pendingInvocationLimit)) else {
            return Rejection(
                text: "Too many invocations of the connection wait for earlier ones.",
                limit: "\(configuration.pendingInvocationLimit) pending invocations")
        }
        guard self.calls.queuedBytes <= Self.fourfold(max(0, configuration.invocationBufferLimit)) else {
            return Rejection(
                text: "The invocations of the connection that wait for earlier ones are too large.",
                limit: "\(configuration.invocationBufferLimit) bytes in pending invocations")
        }
        return nil
    }

    private static func fourfold(_ limit: Int) -> Int {
        let product = limit.multipliedReportingOverflow(by: 4)
        return product.overflow ? .max : product.partialValue
    }

    enum SendStep: Sendable {
        /// - Parameter resumesReading: Whether reading was paused, and has to continue because the message fills the buffer.
        case send(resumesReading: Bool)
        /// The message is sent when the client resumes the connection.
        case store
        /// The client has acknowledged too little. The message isn't sent, and the connection ends.
        case exceedsLimit
    }

    /// Records that a message is sent, which stateful reconnect counts.
    ///
    /// - Parameter limit: The number of stored bytes that ends the connection: callers that send to this client alone wait earlier.
    mutating func send(_ message: TransportMessage, limit: Int, now: Instant) -> SendStep {
        if let byteCount = self.buffer?.byteCount {
            guard byteCount <= limit else { return .exceedsLimit }
            guard self.buffer?.append(message) != false else { return .store }
        }
        // The pending timer fires earlier than the new deadline, and is set again then.
        self.heartbeat.sent(now: now)
        return .send(resumesReading: self.isReadingPaused && self.mustRead)
    }

    /// Adds an invocation to those that wait.
    mutating func enqueue(_ pending: PendingCall) {
        // From now on, because items of the streams may follow before the call starts.
        for stream in pending.invocation.streamIDs {
            self.uploads[ByteString(stream)] = SignalRServerMachine.Upload(call: pending.call.number)
        }
        self.calls.append(pending)
    }

    enum ReceivedItem: Sendable {
        /// The method has returned already. The client stops when it receives the completion.
        case ignored
        case passed(to: WaiterID)
        case buffered
        /// The stream can't continue, because the client sends items faster than the method reads them.
        case exceedsLimit
    }

    mutating func received(_ payload: HubPayload, of stream: ByteString, limit: Int) -> ReceivedItem {
        guard let index = self.uploads.index(forKey: stream), self.uploads.values[index].end == nil else { return .ignored }
        if !self.uploads.values[index].readers.isEmpty { return .passed(to: self.uploads.values[index].readers.removeFirst()) }
        let size = SignalRServerMachine.size(of: payload)
        // Otherwise, reading pauses. What has been read already is processed.
        guard !self.mustRead || self.bufferedBytes + size <= Self.fourfold(max(0, limit)) else { return .exceedsLimit }
        self.bufferedBytes += size
        self.uploads.values[index].items.append(payload)
        return .buffered
    }

    /// Ends a stream. What has arrived can still be read.
    ///
    /// - Returns: The callers that wait for items, in order. If there are any, no items wait.
    mutating func endUpload(_ stream: ByteString, _ end: SignalRServerMachine.StreamEnd) -> [WaiterID] {
        guard let index = self.uploads.index(forKey: stream), self.uploads.values[index].end == nil else { return [] }
        self.uploads.values[index].end = end
        defer { self.uploads.values[index].readers = [] }
        return self.uploads.values[index].readers
    }

    enum ReadItems: Sendable {
        case items([HubPayload], end: SignalRServerMachine.StreamEnd?)
        case waits
    }

    /// Takes the items of a stream that have arrived, or adds a caller to those that wait for the next one. Returns `nil` if there is no
    /// such stream.
    mutating func readItems(of stream: ByteString, _ waiter: WaiterID) -> ReadItems? {
        guard let index = self.uploads.index(forKey: stream) else { return nil }
        let upload = self.uploads.values[index]
        guard !upload.items.isEmpty || upload.end != nil else {
            self.uploads.values[index].readers.append(waiter)
            return .waits
        }
        self.uploads.values[index].items = []
        self.bufferedBytes -= SignalRServerMachine.size(of: upload.items)
        return .items(upload.items, end: upload.end)
    }

    /// Removes the streams of a call that has ended. Further items are ignored.
    ///
    /// - Returns: The callers that wait for items. A task of the application may still read.
    mutating func removeUploads(_ streamIDs: [String]) -> [WaiterID] {
        var readers: [WaiterID] = []
        for stream in streamIDs {
            guard let upload = self.uploads.removeValue(forKey: ByteString(stream)) else { continue }
            self.bufferedBytes -= SignalRServerMachine.size(of: upload.items)
            readers += upload.readers
        }
        return readers
    }

    /// Adds a caller to those that wait for a result of the client.
    ///
    /// - Returns: The ID of the invocation.
    mutating func awaitResult(_ waiter: WaiterID) -> String {
        self.lastResult += 1
        // The letter distinguishes the ID from the IDs of the client's streams, which usually are numbers.
        let invocation = "s\(self.lastResult)"
        self.results[ByteString(invocation)] = waiter
        return invocation
    }

    /// Decides whether reading pauses, depending on how much of what was read waits for the application's code.
    ///
    /// - Returns: Whether reading is paused, or `nil` if nothing changes.
    mutating func updateReading(_ configuration: Configuration) -> Bool? {
        let share = self.isOverloaded ? 2 : 1
        let exceedsLimit =
            self.calls.queuedCount > max(0, configuration.pendingInvocationLimit) / share
            || self.calls.queuedBytes > max(0, configuration.invocationBufferLimit) / share
            || self.bufferedBytes > max(0, configuration.streamBufferLimit) / share
        // The result that a method waits for counts like any other message.
        self.isOverloaded = exceedsLimit && self.results.isEmpty
        let isPaused = self.isOverloaded && !self.mustRead
        guard isPaused != self.isReadingPaused else { return nil }
        self.isReadingPaused = isPaused
        return isPaused
    }
}
