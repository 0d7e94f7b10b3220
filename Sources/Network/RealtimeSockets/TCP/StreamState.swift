internal import RealtimeCore
internal import RealtimeSystem

/// The state of a stream, protected by the stream's lock: its stage, what it reads, and what remains to be sent.
///
/// It only makes decisions. ``SocketStream`` makes the system calls and delivers the events, without the lock.
struct StreamState: Sendable {
    /// The default of ``mark``.
    static let highWater = 256 << 10
    /// The number of bytes to read before the loop services other streams.
    static let readBudget = 256 << 10
    /// The maximum number of bytes to read of what a peer sent before it reset the connection.
    static let unreadLimit = 8 << 20
    /// The capacity up to which an empty buffer is kept for the next message.
    private static let keptCapacity = 128

    // In the order that needs the least memory.
    private(set) var descriptor: Int32 = -1
    private var shortMark = UInt32(Self.highWater)
    private(set) var writes: UInt32 = 0
    /// The number of bytes of `sending` that were sent.
    private var shortSent: UInt32 = 0
    private(set) var security: SecurityGate?
    /// The bytes that were appended since the write of `sending` began.
    private var appended: [UInt8] = []
    private var sending: [UInt8] = []
    /// The bytes that are sent after `sending` and before `appended`, if shared ones wait.
    @Boxed private var queue: Queue?
    private(set) var output = Output.open(.ready)
    private(set) var stage = Stage.idle
    private(set) var input = Input.waiting(for: .read)
    private var pauseReasons: PauseReasons = []
    private var backlog = Backlog.normal
    /// The owner knows that the backlog is above the mark.
    private var isBacklogReported = false
    /// A write has moved bytes since the last ``takeProgress()``.
    private var hasProgressed = false
    private var batching = WriteBatching()
    /// The stream has received bytes that it delivers again.
    private var keepsInput = false
    /// The budget of this turn is spent. The loop reads again when its next turn has begun, whatever services the stream before.
    private var isYielding = false
    /// The stream is closed without an error, so TLS sends a `close_notify` before the descriptor is closed.
    private var needsCloseNotify = false

    /// Bytes that are shared with other streams, and those that were appended before them, in order.
    private struct Queue: Sendable {
        var buffers: [[UInt8]] = []
        var byteCount = 0

        mutating func append(_ buffer: [UInt8]) {
            self.buffers.append(buffer)
            self.byteCount += buffer.count
        }
    }

    /// A stream with a backlog of more bytes than this notifies its owner, and again when all of them have been sent.
    var mark: Int { Int(self.shortMark) }

    private var sent: Int {
        get { Int(self.shortSent) }
        set { self.shortSent = UInt32(newValue) }
    }

    var bufferedBytes: Int {
        let bytes = self.sending.count - self.sent + self.appended.count
        return self.queue.map { bytes + $0.byteCount } ?? bytes
    }

    var isWriting: Bool { self.progress == .writing }

    /// Whether the stream is open in both directions and nothing waits to be sent.
    var hasSentAll: Bool {
        guard self.stage == .open, self.bufferedBytes == 0, self.input != .ended, case .open(.ready) = self.output else { return false }
        return true
    }

    /// The size of output that a socket usually takes in one write.
    private static let singleWrite = 16 << 10

    /// Whether the stream is open in both directions, and nothing waits to be sent except for the last bytes, which another thread is writing.
    var isSendingLast: Bool {
        guard self.stage == .open, self.input != .ended, case .open(.writing) = self.output else { return self.hasSentAll }
        return self.appended.isEmpty && self.bufferedBytes <= Self.singleWrite
    }

    /// Whether the loop has read everything that it knows of.
    var hasReadAll: Bool { self.input == .waiting(for: .read) && !self.keepsInput }

    /// The progress of output that has not ended.
    private var progress: Progress? {
        get {
            switch self.output {
            case .open(let progress), .finishing(let progress): progress
            case .finished, .failed: nil
            }
        }
        set {
            guard let newValue else { return }
            switch self.output {
            case .open: self.output = .open(newValue)
            case .finishing: self.output = .finishing(newValue)
            case .finished, .failed: break
            }
        }
    }

    private var acceptsOutput: Bool {
        guard self.stage != .closed, case .open = self.output else { return false }
        return true
    }

    // MARK: Sending

    /// Appends bytes, unless more than the limit wait already.
    ///
    /// As long as the owner hasn't been notified that output waits, four times as many may wait: when other programs use the processors, a
    /// sender can exceed the limit before the loop has notified it.
    ///
    /// - Returns: `false` if more bytes wait. Nothing is appended then.
    @discardableResult
    mutating func append(limit: Int = .max, _ fill: (inout [UInt8]) -> Void) -> Bool {
        guard self.acceptsOutput else { return true }
        guard self.bufferedBytes <= limit || !self.isBacklogReported && self.bufferedBytes / 4 <= limit else { return false }
        fill(&self.appended)
        if self.bufferedBytes > self.mark { self.backlog = .high }
        return true
    }

    /// Appends bytes, and then others that are kept without a copy, because many streams send them. Unless more than the limit wait already.
    ///
    /// - Parameter fill: Appends bytes, and returns whether the shared ones follow.
    /// - Returns: `false` if more bytes wait. Nothing is appended then.
    mutating func append(limit: Int, shared: [UInt8], _ fill: (inout [UInt8]) -> Bool) -> Bool {
        var isFollowed = false
        guard self.append(limit: limit, { isFollowed = fill(&$0) }) else { return false }
        guard isFollowed else { return true }
        // Taken, so that it is changed in place.
        var queue = self.queue.take() ?? Queue()
        if !self.appended.isEmpty { queue.append(self.appended) }
        self.appended = []
        queue.append(shared)
        self.queue = queue
        if self.bufferedBytes > self.mark { self.backlog = .high }
        return true
    }

    private var hasQueue: Bool { if case .absent = self._queue { false } else { true } }

    private mutating func takeQueued() -> [UInt8]? {
        guard var queue = self.queue.take() else { return nil }
        let buffer = queue.buffers.removeFirst()
        queue.byteCount -= buffer.count
        if !queue.buffers.isEmpty { self.queue = queue }
        return buffer
    }

    /// Changes the mark, and reports a backlog anew to another owner.
    mutating func setMark(_ mark: Int) {
        self.shortMark = UInt32(clamping: mark)
        self.isBacklogReported = false
        if self.bufferedBytes > mark { self.backlog = .high }
    }

    /// The owner waits until all bytes have been sent, however few they are.
    ///
    /// - Returns: `false` if nothing waits to be sent, and so the owner won't be notified.
    mutating func awaitDrain() -> Bool {
        guard self.bufferedBytes > 0 else { return false }
        self.backlog = .high
        return true
    }

    /// Returns whether a write has moved bytes since the last call.
    mutating func takeProgress() -> Bool {
        defer { self.hasProgressed = false }
        return self.hasProgressed
    }

    /// - Parameter now: Evaluated only if it is needed.
    mutating func flush(turnLimit: Int64, now: @autoclosure () -> Instant) -> CallerAction {
        guard self.stage == .open, self.bufferedBytes > 0, let progress = self.progress else { return .none }
        switch self.batching.send(canWrite: progress == .ready, turnLimit: turnLimit, now: now()) {
        case .write: return self.beginWrite().map { .write($0) } ?? .none
        case .gather: return self.mustReportBacklog ? self.requestService() : .none
        case .requestService: return self.requestService()
        case .requestServiceAt(let instant): return .requestServiceAt(instant)
        }
    }

    /// A write has returned.
    mutating func wrote(_ result: IOResult) -> CallerAction {
        self.progress = .ready
        guard self.stage != .closed else {
            if case .failed = result { self.needsCloseNotify = false }
            self.dropOutput()
            return self.requestService()
        }
        switch result {
        case .done(let count):
            // A single write is shorter than 2 GiB.
            if self.sent >= 1 << 31 {
                self.sending.removeFirst(self.sent)
                self.sent = 0
            }
            self.sent += count
            self.hasProgressed = true
            // A plain socket that accepts only a part is full. Assuming so saves a call that would return `EAGAIN`.
            if self.sent < self.sending.count, self.security == nil {
                self.progress = .blocked(until: .write)
                return self.requestService()
            }
        case .wantWrite:
            self.progress = .blocked(until: .write)
            return self.requestService()
        case .wantRead:
            self.progress = .blocked(until: .read)
            return self.requestService()
        case .closed:
            self.failOutput(.lost(EPIPE))
            return self.requestService()
        case .failed(let error):
            self.failOutput(error)
            return self.requestService()
        }
        if self.sent == self.sending.count { self.recycle() }
        if self.sent < self.sending.count || self.batching.isPending, let write = self.beginWrite() { return .write(write) }
        if self.bufferedBytes == 0 {
            if self.backlog == .high { self.backlog = .drained }
            if self.backlog == .drained { return self.requestService() }
            if case .finishing = self.output { return self.requestService() }
        }
        return self.input == .endPending ? self.requestService() : .none
    }

    /// Whether the owner must be notified that the socket is full and the backlog above the mark.
    private var mustReportBacklog: Bool {
        guard self.backlog == .high, !self.isBacklogReported, case .blocked = self.progress else { return false }
        return self.bufferedBytes > self.mark
    }

    private mutating func beginWrite() -> Write? {
        guard self.progress == .ready else { return nil }
        if self.sent == self.sending.count, let next = self.takeQueued() {
            self.sent = 0
            self.sending = next
            // The flush that began with an earlier buffer is for the following ones, too.
            if self.hasQueue || !self.appended.isEmpty { self.batching.setPending() } else { self.batching.clearPending() }
        } else if self.sent == self.sending.count {
            self.batching.clearPending()
            guard !self.appended.isEmpty else { return nil }
            self.sent = 0
            swap(&self.sending, &self.appended)
            if !self.appended.isEmpty { self.appended = [] }
        } else if self.appended.isEmpty, !self.hasQueue {
            // This continues an earlier write. If bytes were appended since, the flush stays pending for the write after it.
            self.batching.clearPending()
        }
        self.progress = .writing
        self.writes &+= 1
        return Write(bytes: self.sending, start: self.sent, descriptor: self.descriptor, security: self.security)
    }

    private mutating func recycle() {
        self.sent = 0
        guard self.sending.capacity <= Self.keptCapacity else {
            self.sending = []
            return
        }
        self.sending.removeAll(keepingCapacity: true)
        if self.appended.capacity == 0 { swap(&self.sending, &self.appended) }
    }

    private mutating func failOutput(_ error: TransportError) {
        self.output = .failed(error, unreadLimit: Self.unreadLimit)
        self.needsCloseNotify = false
        self.dropOutput()
    }

    private mutating func dropOutput() {
        self.appended = []
        self.sending = []
        self.queue = nil
        self.sent = 0
        self.batching.clearPending()
    }

    private mutating func requestService() -> CallerAction {
        self.batching.requestService() ? .requestService : .none
    }

    // MARK: Calls of the owner

    /// Begins to connect.
    ///
    /// - Returns: `false` if the stream has been used already.
    mutating func connect() -> Bool {
        guard self.stage == .idle else { return false }
        self.stage = .connecting
        return true
    }

    mutating func pauseInput(_ reason: PauseReasons = .owner) {
        self.pauseReasons.formUnion(reason)
        switch self.input {
        case .waiting, .unread, .endPending: self.input = .paused(isDisarmed: false)
        case .paused, .ended: break
        }
    }

    mutating func resumeInput(_ reason: PauseReasons = .owner) -> CallerAction {
        self.pauseReasons.subtract(reason)
        guard case .paused(let isDisarmed) = self.input, self.pauseReasons.isEmpty else { return .none }
        // While reading was paused, TLS may have kept data that it had already read from the socket.
        self.input = self.security == nil && !self.keepsInput ? .waiting(for: .read) : .unread
        return isDisarmed && self.stage == .open ? self.requestService() : .none
    }

    mutating func finish() -> CallerAction {
        guard self.acceptsOutput, let progress = self.progress else { return .none }
        self.output = .finishing(progress)
        self.batching.setPending()
        return self.requestService()
    }

    mutating func close() -> CallerAction {
        guard self.stage != .closed else { return .none }
        self.stage = .closed
        if !self.isWriting { self.dropOutput() }
        return self.requestService()
    }

    // MARK: Calls of the loop

    /// The descriptor has been connected.
    ///
    /// - Returns: `false` if the stream has been closed.
    mutating func connected(_ descriptor: Int32, _ security: SecurityGate?) -> Bool {
        guard self.stage != .closed else { return false }
        self.descriptor = descriptor
        self.security = security
        self.stage = security == nil ? .open : .handshaking(waitsFor: .read)
        self.batching.setPending()
        return true
    }

    /// The TLS handshake continues when the descriptor is ready.
    mutating func handshakeBlocked(until readiness: Readiness) {
        if case .handshaking = self.stage { self.stage = .handshaking(waitsFor: readiness) }
    }

    /// The TLS handshake is complete.
    ///
    /// - Returns: `false` if the stream has been closed.
    mutating func handshakeCompleted() -> Bool {
        guard case .handshaking = self.stage else { return false }
        self.stage = .open
        self.needsCloseNotify = true
        // The last read of the handshake may have brought data.
        if case .waiting = self.input { self.input = .unread }
        return true
    }

    /// The descriptor is ready.
    ///
    /// - Returns: Whether to read.
    mutating func ready(_ readiness: Readiness) -> Bool {
        if case .blocked(let until) = self.progress, readiness.contains(until) {
            self.progress = .ready
            self.batching.setPending()
        }
        guard self.canRead, !self.isYielding else { return false }
        if case .waiting(let expected) = self.input { return readiness.contains(expected) }
        return readiness.contains(.read)
    }

    /// The loop begins to read from TLS, or to deliver kept bytes again.
    mutating func readBegins() {
        self.keepsInput = false
        if self.canRead { self.input = .waiting(for: .read) }
    }

    /// The owner does not use all bytes of a read yet. The loop delivers the others when its next turn has begun.
    mutating func keepInput() {
        self.keepsInput = true
        self.isYielding = true
        if self.canRead { self.input = .unread }
    }

    /// The turn in which the budget was spent has ended.
    mutating func turnBegan() { self.isYielding = false }

    /// A read has returned bytes.
    ///
    /// - Returns: Whether to deliver them; `false` if the stream is closed.
    mutating func received() -> Bool {
        // The owner is likely to send a reply, which must not be gathered.
        self.batching.endTurn()
        return self.stage == .open
    }

    /// The bytes of a read have been delivered.
    ///
    /// - Parameters:
    ///   - isBudgetSpent: Whether the loop must service other streams first.
    ///   - isFinal: The connection is lost, and the poller reports nothing more.
    mutating func readsOn(isBudgetSpent: Bool, isFinal: Bool = false) -> ReadStep {
        guard self.canRead else { return .stop }
        guard isBudgetSpent else { return .readAgain }
        // The poller reports an event again if a plain socket is not empty, but none for data that TLS has already read from the socket.
        guard self.security != nil || isFinal else { return .stop }
        self.input = .unread
        self.isYielding = true
        return .yield
    }

    /// TLS must write before it can read.
    mutating func readBlockedUntilWritable() {
        if self.canRead { self.input = .waiting(for: .write) }
    }

    var canRead: Bool {
        guard self.stage == .open else { return false }
        switch self.input {
        case .waiting, .unread, .endPending: return true
        case .paused, .ended: return false
        }
    }

    var isInputPaused: Bool {
        if case .paused = self.input { true } else { false }
    }

    /// The effect of an end of the input.
    enum InputEnd: Sendable {
        /// The reason is not known until a write has returned. The loop reads again then.
        case deferred
        case failed(TransportError)
        /// Notify the owner.
        case ended
        /// The stream is closed.
        case none
    }

    /// A read has found the end of the stream, or with TLS an end without `close_notify`.
    ///
    /// A failing write takes the error from the socket, so that a read finds only an end. Therefore the write's error takes precedence.
    mutating func inputEnded(_ error: TransportError?) -> InputEnd {
        if self.isWriting {
            if self.canRead { self.input = .endPending }
            return .deferred
        }
        if case .failed(let outputError, _) = self.output { return .failed(outputError) }
        if let error { return .failed(error) }
        guard self.stage == .open else { return .none }
        self.input = .ended
        return .ended
    }

    /// The stream ends with an error.
    ///
    /// - Returns: `false` if it has ended already.
    mutating func fail() -> Bool {
        guard self.stage != .closed else { return false }
        self.stage = .closed
        self.needsCloseNotify = false
        if !self.isWriting { self.dropOutput() }
        return true
    }

    /// Returns what the loop does next. The loop repeats the call until it is to poll or to tear down.
    mutating func nextAction() -> LoopAction {
        self.batching.serviceBegan()
        switch self.stage {
        case .closed: return .tearDown
        case .idle, .connecting: return .poll([])
        case .handshaking(let readiness): return .poll(readiness)
        case .open: break
        }
        if case .failed(let error, let unreadLimit) = self.output {
            // The bytes that the peer sent before it reset the connection are delivered, unless reading is paused.
            guard self.canRead, unreadLimit > 0 || self.keepsInput else { return .fail(error) }
            if self.isYielding { return .poll([]) }
            if !self.keepsInput { self.output = .failed(error, unreadLimit: unreadLimit - Self.readBudget) }
            return .readRemaining(error)
        }
        if self.batching.isPending, let write = self.beginWrite() { return .write(write) }
        if self.mustReportBacklog {
            self.isBacklogReported = true
            return .notifyBacklogged
        }
        if self.backlog == .drained {
            self.backlog = .normal
            self.isBacklogReported = false
            return .notifyDrained
        }
        switch self.output {
        case .finishing(let progress) where progress != .writing && self.bufferedBytes == 0:
            self.output = .finished
            self.needsCloseNotify = false
            return .shutDownWriting(self.descriptor, self.security)
        case .finished where self.input == .ended:
            self.stage = .closed
            return .tearDown
        default: break
        }
        switch self.input {
        case .unread where !self.isYielding:
            self.input = .waiting(for: .read)
            return .read
        case .endPending where !self.isWriting:
            self.input = .waiting(for: .read)
            return .read
        default:
            return .poll(self.interest())
        }
    }

    private mutating func interest() -> Readiness {
        var interest: Readiness = []
        switch self.input {
        case .waiting(let readiness): interest = readiness
        case .unread, .endPending: interest = .read
        case .paused: self.input = .paused(isDisarmed: true)
        case .ended: break
        }
        if case .blocked(let readiness) = self.progress { interest.insert(readiness) }
        return interest
    }

    /// Takes the descriptor in order to close it, unless a write is in progress: as soon as it is closed, its number may be used again.
    ///
    /// - Returns: The descriptor, and the TLS session that must send a `close_notify`.
    mutating func takeDescriptor() -> (Int32, SecurityGate?)? {
        guard self.descriptor >= 0, !self.isWriting else { return nil }
        defer {
            self.descriptor = -1
            self.security = nil
        }
        return (self.descriptor, self.needsCloseNotify ? self.security : nil)
    }
}
