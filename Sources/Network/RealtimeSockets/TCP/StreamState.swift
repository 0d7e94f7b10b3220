internal import RealtimeSystem
internal import RealtimeCore

/// What a stream's lock guards: where it stands, what is still to be sent, and whose turn it is.
///
/// Decisions only. The system calls and the events are the stream's, outside the lock.
struct StreamState: Sendable {
    enum Stage: UInt8, Sendable {
        case idle, connecting, handshaking, open, closed
    }

    /// A write to carry out. Until its outcome is told, no other one begins and the descriptor stays open.
    struct Write: Sendable {
        var bytes: [UInt8]
        var start: Int
        var descriptor: Int32
        var security: SecurityGate?
    }

    /// What the caller of ``SocketStream/flush()`` does next.
    enum SendStep: Sendable {
        case write(Write)
        case requestService
        /// The loop has to look after the stream then, and need not before.
        case requestServiceAt(Instant)
        case none
    }

    /// What the loop does next.
    enum LoopStep: Sendable {
        case write(Write)
        case read
        case drained
        case finish(Int32, SecurityGate?)
        case readRestAndFail(TransportError)
        case fail(TransportError)
        case tearDown
        case rest(Readiness)
    }

    /// Over this many bytes of backlog, the stream says when it has none left.
    static let highWater = 256 << 10
    /// An empty buffer as small as this is kept for the next message.
    static let keptCapacity = 128
    /// So many sends in one turn are a burst.
    static let burst: UInt32 = 8

    var descriptor: Int32 = -1
    var stage = Stage.idle
    /// TLS reads and writes each may wait for the other direction.
    var inputWantsWrite = false
    var outputWantsRead = false
    var handshakeWants = Readiness.read

    var isInputPaused = false
    var isInputEnded = false
    /// The loop has stopped to wait for input, and has to be told that it is wanted again.
    var isReadDisarmed = false
    /// There is more to read that no event will tell of.
    var mustReadAgain = false

    var isWriting = false
    /// What was read counts once the write that was going on has ended.
    var readAfterWrite = false
    /// The socket takes no more for now.
    var isBlocked = false
    /// There was a write in this turn of the loop: what comes now waits for its end.
    var isGathering = false
    /// Many sends gathered in the turn before. Such a sender is left to it until the turn ends: an earlier look would cost the loop
    /// some writes and a sleep more. For whoever sends two or three the loop is called at once.
    private var isBursty = false
    /// How many sends gathered in this turn.
    private var gathered: UInt32 = 0
    var isFlushWanted = false
    var isFinishWanted = false
    var isFinished = false
    var isOverHighWater = false
    var isDrainedDue = false
    var isServiceRequested = false
    /// TLS tells its peer that this is the end and no cut, once, and not when it is broken.
    var needsCloseNotify = false

    var writes: UInt32 = 0
    var security: SecurityGate?
    @Boxed var outputError: TransportError?
    var turnEnd = Instant(nanoseconds: 0)
    /// What was appended since `sending` began to go out.
    private var appended: [UInt8] = []
    private var sending: [UInt8] = []
    private var sent = 0

    var bufferedBytes: Int { self.sending.count - self.sent + self.appended.count }

    private var takesOutput: Bool { self.stage != .closed && !self.isFinishWanted && self.outputError == nil }

    mutating func append(_ fill: (inout [UInt8]) -> Void) {
        guard self.takesOutput else { return }
        fill(&self.appended)
        if self.bufferedBytes > Self.highWater { self.isOverHighWater = true }
    }

    // MARK: Sending

    /// - Parameter now: asked for only when it matters.
    mutating func flush(turnLimit: Int64, now: @autoclosure () -> Instant) -> SendStep {
        guard self.stage == .open, self.outputError == nil, self.bufferedBytes > 0 else { return .none }
        if self.isWriting || self.isBlocked || self.isFlushWanted {
            self.isFlushWanted = true
            self.gathered &+= 1
            return .none
        }
        let now = now()
        if self.isGathering, now < self.turnEnd {
            self.isFlushWanted = true
            self.gathered = 1
            return self.isBursty ? .requestServiceAt(self.turnEnd) : self.requestService()
        }
        self.isBursty = self.gathered >= Self.burst
        self.gathered = 0
        self.isGathering = true
        self.turnEnd = now + turnLimit
        return self.beginWrite().map { .write($0) } ?? .none
    }

    mutating func wrote(_ outcome: IOResult) -> SendStep {
        self.isWriting = false
        guard self.stage != .closed else {
            self.dropOutput()
            return self.requestService()
        }
        switch outcome {
        case .done(let count):
            self.sent += count
            // A plain socket that takes less than all is full, so the call that would only say so is saved.
            if self.sent < self.sending.count, self.security == nil {
                self.isBlocked = true
                return self.requestService()
            }
        case .wantWrite:
            self.isBlocked = true
            return self.requestService()
        case .wantRead:
            self.isBlocked = true
            self.outputWantsRead = true
            return self.requestService()
        case .closed:
            self.failOutput(.lost(EPIPE))
            return self.requestService()
        case .failed(let error):
            self.failOutput(error)
            return self.requestService()
        }
        if self.sent == self.sending.count { self.recycle() }
        if self.sent < self.sending.count || self.isFlushWanted, let write = self.beginWrite() { return .write(write) }
        if self.bufferedBytes == 0 {
            if self.isOverHighWater {
                self.isOverHighWater = false
                self.isDrainedDue = true
            }
            if self.isDrainedDue || self.isFinishWanted { return self.requestService() }
        }
        return self.readAfterWrite ? self.requestService() : .none
    }

    private mutating func beginWrite() -> Write? {
        guard !self.isWriting, !self.isBlocked else { return nil }
        // The rest of an earlier write leaves the wish standing: what was appended meanwhile goes out after it.
        if self.sent == self.sending.count {
            self.isFlushWanted = false
            guard !self.appended.isEmpty else { return nil }
            self.sent = 0
            swap(&self.sending, &self.appended)
            if !self.appended.isEmpty { self.appended = [] }
        } else if self.appended.isEmpty {
            // What was appended meanwhile has its own write to come, or nobody would send it.
            self.isFlushWanted = false
        }
        self.isWriting = true
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
        self.outputError = error
        self.needsCloseNotify = false
        self.dropOutput()
    }

    private mutating func dropOutput() {
        self.appended = []
        self.sending = []
        self.sent = 0
        self.isFlushWanted = false
    }

    mutating func requestService() -> SendStep {
        guard !self.isServiceRequested else { return .none }
        self.isServiceRequested = true
        return .requestService
    }

    // MARK: Wishes

    mutating func resumeInput() -> SendStep {
        self.isInputPaused = false
        return self.isReadDisarmed && self.stage == .open ? self.requestService() : .none
    }

    mutating func finish() -> SendStep {
        guard self.takesOutput else { return .none }
        self.isFinishWanted = true
        self.isFlushWanted = true
        return self.requestService()
    }

    mutating func close() -> SendStep {
        guard self.stage != .closed else { return .none }
        self.stage = .closed
        if !self.isWriting { self.dropOutput() }
        return self.requestService()
    }

    // MARK: The loop's side

    /// The descriptor is there. False when the stream was closed meanwhile.
    mutating func connected(_ descriptor: Int32, _ security: SecurityGate?) -> Bool {
        guard self.stage != .closed else { return false }
        self.descriptor = descriptor
        self.security = security
        self.stage = security == nil ? .open : .handshaking
        self.isFlushWanted = true
        return true
    }

    /// The socket can take bytes again, or TLS got what it waited for.
    mutating func unblock(_ readiness: Readiness) {
        guard self.isBlocked, readiness.contains(self.outputWantsRead ? .read : .write) else { return }
        self.isBlocked = false
        self.outputWantsRead = false
        self.isFlushWanted = true
    }

    /// A read brought something. False: the stream is closed, nobody is told.
    mutating func received() -> Bool {
        self.isGathering = false
        return self.stage == .open
    }

    var canRead: Bool { self.stage == .open && !self.isInputPaused && !self.isInputEnded }

    /// The peer sends no more. False: nobody is told, because the stream is closed.
    mutating func inputEnded() -> Bool {
        guard self.stage == .open else { return false }
        self.isInputEnded = true
        return true
    }

    /// The stream ends with an error. False: it has already ended.
    mutating func fail() -> Bool {
        guard self.stage != .closed else { return false }
        self.stage = .closed
        self.needsCloseNotify = false
        if !self.isWriting { self.dropOutput() }
        return true
    }

    /// Where the loop leaves off, called until it may rest.
    mutating func nextStep() -> LoopStep {
        self.isServiceRequested = false
        self.isGathering = false
        switch self.stage {
        case .closed: return .tearDown
        case .idle, .connecting: return .rest([])
        case .handshaking: return .rest(self.handshakeWants)
        case .open: break
        }
        if let error = self.outputError {
            // What the peer said before it cut us off still counts, unless nobody listens to it any more.
            return self.canRead ? .readRestAndFail(error) : .fail(error)
        }
        if self.isFlushWanted, let write = self.beginWrite() { return .write(write) }
        if self.isDrainedDue {
            self.isDrainedDue = false
            return .drained
        }
        if self.isFinishWanted, !self.isFinished, !self.isWriting, self.bufferedBytes == 0 {
            self.isFinished = true
            self.needsCloseNotify = false
            return .finish(self.descriptor, self.security)
        }
        if self.isFinished, self.isInputEnded {
            self.stage = .closed
            return .tearDown
        }
        if self.mustReadAgain || (self.isReadDisarmed && self.security != nil) || (self.readAfterWrite && !self.isWriting), self.canRead {
            self.mustReadAgain = false
            self.readAfterWrite = false
            self.isReadDisarmed = false
            return .read
        }
        return .rest(self.interest())
    }

    private mutating func interest() -> Readiness {
        var interest: Readiness = []
        self.isReadDisarmed = self.isInputPaused
        if self.canRead { interest.insert(self.inputWantsWrite ? .write : .read) }
        if self.isBlocked { interest.insert(self.outputWantsRead ? .read : .write) }
        return interest
    }
}
