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
            /// The close frame is sent, and only the end of the connection is of interest.
            case closing(Established, error: String?)
            /// The connection has ended. Its calls are cancelled and haven't ended all.
            case ended(Ended)
        }

        /// The state without its payload.
        enum Phase: Sendable { case handshaking, rejected, connected, closing, ended }

        let hub: HubID
        let connectionID: String
        let token: ByteString?
        let userID: String?
        let request: HTTPRequestHead
        var state: State
        var timer = CoalescedTimer()
        /// Whether the server injects silence, so that the client can't be blamed for it.
        var isSilent = false

        /// A copy of the state between the handshake and the end; `nil` in other states.
        var established: Established? {
            switch self.state {
            case .connected(let established), .closing(let established, _): established
            case .handshaking, .rejected, .ended: nil
            }
        }

        /// The format, if the connection is open.
        var format: HubFormat? {
            if case .connected(let established) = self.state { established.info.format } else { nil }
        }
    }

    struct Handshake: Sendable {
        let deadline: Instant
        /// The start of an incomplete handshake.
        var buffer = HubHandshake.Buffer()
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

        init(info: HubConnectionInfo, reader: HubMessageReader, heartbeat: Heartbeat) {
            (self.info, self.reader, self.heartbeat) = (info, reader, heartbeat)
        }

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
        case .closing: .closing
        case .ended: .ended
        }
    }

    // In each of these, consuming `self` lets the payload be changed without a copy of its collections.

    /// Changes the connection if it is open. Returns `nil` otherwise.
    @discardableResult
    mutating func updateConnected<Result>(_ change: (inout Established) -> Result?) -> Result? {
        guard case .connected = self else { return nil }
        guard case .connected(var established) = consume self else { preconditionFailure("The state has changed.") }
        defer { self = .connected(established) }
        return change(&established)
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
        case .connected:
            guard case .connected(var established) = consume self else { preconditionFailure("The state has changed.") }
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
        case .connected: self.updateConnected { $0.isWritingPaused ? nil : $0.calls.startNext(slots: slots) }
        case .ended: self.updateCalls { $0.startNext(slots: slots) }
        case .handshaking, .rejected, .closing: nil
        }
    }

    // MARK: Time

    var nextDeadline: Instant? {
        switch self {
        case .handshaking(let handshake): handshake.deadline
        case .connected(let established): established.heartbeat.nextDeadline
        case .rejected, .closing, .ended: nil
        }
    }

    enum TimeoutAction: Sendable {
        case rejectHandshake
        case declareDead
        case sendPing(HubFormat)
    }

    mutating func timeout(now: Instant) -> TimeoutAction? {
        switch self.phase {
        case .handshaking: self.nextDeadline.map { $0 <= now } == true ? .rejectHandshake : nil
        case .connected:
            self.updateConnected { established in
                switch established.heartbeat.timeout(now: now) {
                case .declareDead: .declareDead
                case .sendPing, .sendProbe: .sendPing(established.info.format)
                case .none: nil
                }
            }
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
        guard !self.results.isEmpty else { return nil }
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
        // Without a caller that waits for a result, reading pauses. What has been read already is processed.
        guard self.results.isEmpty || self.bufferedBytes + size <= Self.fourfold(max(0, limit)) else { return .exceedsLimit }
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
    /// Reading continues while a method waits for a result of the client, which may be behind what fills the buffers.
    ///
    /// - Returns: Whether reading is paused, or `nil` if nothing changes.
    mutating func updateReading(_ configuration: Configuration) -> Bool? {
        let share = self.isReadingPaused ? 2 : 1
        let isOverloaded =
            self.calls.queuedCount > max(0, configuration.pendingInvocationLimit) / share
            || self.calls.queuedBytes > max(0, configuration.invocationBufferLimit) / share
            || self.bufferedBytes > max(0, configuration.streamBufferLimit) / share
        let isPaused = isOverloaded && self.results.isEmpty
        guard isPaused != self.isReadingPaused else { return nil }
        self.isReadingPaused = isPaused
        return isPaused
    }
}
