package import RealtimeCore
import RealtimeSystem

/// The events of a stream. Called on the loop's thread, one at a time.
package protocol StreamEvents: AnyObject, Sendable {
    /// The stream is connected. With TLS, the peer's certificate has been verified.
    func opened(_ stream: SocketStream)
    /// The bytes of one read, at least one, or those that ``SocketStream/keep(_:)`` has kept. They are valid during the call only.
    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer)
    /// The socket accepts no more bytes at the moment, and the backlog is above the mark. Called once until ``drained(_:)``.
    func backlogged(_ stream: SocketStream)
    /// There was a backlog above the mark, which is ``SocketStream/highWater`` bytes by default, and all of it has been sent.
    func drained(_ stream: SocketStream)
    /// The stream has ended. The last call.
    ///
    /// With an error, the stream could not be opened or was lost, and is closed. With `nil`, the peer sends no more. Bytes can still be
    /// sent to it: the stream stays open until ``SocketStream/close()``, or until ``SocketStream/finishWriting()`` has sent everything.
    func ended(_ stream: SocketStream, _ error: TransportError?)
}

extension StreamEvents {
    /// Does nothing.
    package func backlogged(_ stream: SocketStream) {}
}

/// Creates the TLS session of a descriptor that has just been connected or accepted.
package typealias StreamSecurityFactory = @Sendable (_ descriptor: Int32) throws(TransportError) -> any StreamSecurity

/// The owner of accepted streams. Called on the stream's loop.
protocol StreamOwner: AnyObject, Sendable {
    func closed(_ stream: SocketStream)
}

/// A byte stream over TCP on an event loop, with or without TLS.
///
/// Its methods can be called on any thread. `enqueue`, `pauseReading`, `resumeReading`, `finishWriting` and `close` never call back, so
/// they can be called with a lock held. The stream retains its events until it has ended.
package final class SocketStream: Sendable, PollHandler, LoopServiced {
    /// See ``StreamEvents/drained(_:)``.
    package static var highWater: Int { StreamState.highWater }
    /// The size from which bytes are worth to be kept without a copy until they are sent; see ``enqueue(limit:shared:_:)``.
    static var sharedSize: Int { SharedBody.largeSize }
    /// The number of bytes to read before the loop services other streams.
    static var readBudget: Int { StreamState.readBudget }

    /// The state of the loop's thread.
    private struct LoopState {
        var events: (any StreamEvents)?
        var owner: (any StreamOwner)?
        var connecting: ConnectAttempt?
        var token: UInt64?
        var polled: Readiness = []
        var descriptor: Int32 = -1
        var security: SecurityGate?
        /// The end of the array contains the bytes that ``keep(_:)`` was called with, if anything is kept.
        var kept: [UInt8] = []
        /// The number of kept bytes; negative if nothing is kept. It may be 0: the owner keeps what it has decoded.
        var keptCount: Int32 = -1

        var isKeeping: Bool { self.keptCount >= 0 }
    }

    package let loop: EventLoop
    private let state = Lock(StreamState())
    // See LoopBound.
    nonisolated(unsafe) private var onLoop: LoopBound<LoopState>

    /// Creates a stream to connect with ``connect(to:port:_:events:)``.
    ///
    /// - Parameters:
    ///   - loop: The loop that calls the events.
    ///   - events: The receiver of events, unless it is passed to ``connect(to:port:_:events:)``.
    package init(loop: EventLoop = .shared, events: (any StreamEvents)? = nil) {
        self.loop = loop
        self.onLoop = LoopBound(LoopState(events: events))
    }

    /// Creates an accepted stream. Called on its loop's thread.
    init(loop: EventLoop, owner: any StreamOwner) {
        self.loop = loop
        self.onLoop = LoopBound(LoopState(owner: owner))
    }

    // MARK: Calls on any thread

    /// Connects. Only the first call has an effect.
    ///
    /// `opened` or `ended` follows, unless ``close()`` is called before. If the loop has been shut down there is no thread for events, so
    /// `ended` is called before this method returns.
    ///
    /// - Parameters:
    ///   - host: A host name or a numeric IP address.
    ///   - port: The port.
    ///   - options: The timeout, the resolver and TLS.
    ///   - events: The receiver of events, if none was passed to the initializer.
    package func connect(
        to host: String, port: Int, _ options: ConnectOptions = ConnectOptions(), events: (any StreamEvents)? = nil
    ) {
        guard self.state.withLock({ $0.connect() }) else { return }
        let isRunning = self.loop.execute {
            self.onLoop.bind()
            guard self.state.withLock({ $0.stage == .connecting }) else { return self.tearDown() }
            if let events { self.onLoop.value.events = events }
            let attempt = ConnectAttempt(self, host, port, options)
            self.onLoop.value.connecting = attempt
            self.onLoop.value.token = self.loop.register(self)
            attempt.start()
        }
        guard !isRunning, self.state.withLock({ $0.fail() }) else { return }
        let receiver = events ?? self.onLoop.value.events
        self.onLoop.value.events = nil
        receiver?.ended(self, self.loop.unavailable)
    }

    /// Appends bytes that the next ``flush()`` sends. Before the stream is open they are kept.
    ///
    /// - Parameter fill: Appends to the buffer. It is called with the stream's lock held, and must not call the stream. It is
    ///   not called if the stream is closed or ``finishWriting()`` was called.
    package func enqueue(_ fill: (inout [UInt8]) -> Void) {
        _ = self.state.withLock { $0.append(fill) }
    }

    /// Appends bytes like ``enqueue(_:)``, unless more than `limit` bytes wait to be sent.
    ///
    /// - Returns: `false` if more bytes wait. `fill` is not called then.
    func enqueue(limit: Int, _ fill: (inout [UInt8]) -> Void) -> Bool {
        self.state.withLock { $0.append(limit: limit, fill) }
    }

    /// Appends bytes, and then others that are kept without a copy until they are sent, unless more than `limit` bytes wait to be sent.
    ///
    /// - Parameters:
    ///   - limit: The limit.
    ///   - shared: The other bytes, which many streams send.
    ///   - fill: Appends the first bytes, and returns whether the others follow. Like that of ``enqueue(_:)``.
    /// - Returns: `false` if more bytes wait. `fill` is not called then.
    func enqueue(limit: Int, shared: [UInt8], _ fill: (inout [UInt8]) -> Bool) -> Bool {
        self.state.withLock { $0.append(limit: limit, shared: shared, fill) }
    }

    /// Sends the enqueued bytes without blocking.
    ///
    /// The first flush in a turn of the loop writes on the calling thread. The bytes of the following ones are gathered and written
    /// together: soon, or, for a sender of bursts, when the turn ends.
    package func flush() {
        self.perform(self.state.withLock { $0.flush(turnLimit: self.loop.turnLimit, now: self.loop.now) })
    }

    /// Pauses reading. A read in progress may still deliver bytes. After a call within `received`, nothing more is delivered.
    package func pauseReading() { self.pauseReading(.owner) }

    /// Pauses reading for a reason.
    func pauseReading(_ reason: StreamState.PauseReasons) {
        self.state.withLock { $0.pauseInput(reason) }
    }

    /// Resumes reading.
    package func resumeReading() { self.resumeReading(.owner) }

    /// Removes a reason to pause reading, and resumes it if there is no other one.
    func resumeReading(_ reason: StreamState.PauseReasons) {
        self.perform(self.state.withLock { $0.resumeInput(reason) })
    }

    /// Sends the enqueued bytes and then the end of the stream. Bytes that are enqueued later are dropped.
    ///
    /// `ended` is called when the peer has sent its own end. The owner needs a time limit for peers that never do.
    package func finishWriting() {
        self.perform(self.state.withLock { $0.finish() })
    }

    /// Closes the connection and drops unsent bytes. No event follows, except for one that is being delivered.
    package func close() {
        self.perform(self.state.withLock { $0.close() })
    }

    /// The number of bytes that wait to be sent.
    package var bufferedBytes: Int { self.state.withLock { $0.bufferedBytes } }

    var isReadingPaused: Bool { self.state.withLock { $0.isInputPaused } }

    /// Whether the stream is open in both directions, and nothing waits to be sent except for what another thread is writing.
    var isSendingLast: Bool { self.state.withLock { $0.isSendingLast } }

    /// Whether the stream is open in both directions, and nothing waits to be sent or read. Called on the loop's thread.
    ///
    /// It asks the socket, because the loop may not have noticed yet what the peer has sent.
    var isQuiet: Bool {
        guard self.state.withLock({ $0.hasSentAll && $0.hasReadAll }), !self.onLoop.value.isKeeping else { return false }
        return withUnsafeTemporaryAllocation(byteCount: 1, alignment: 1) { buffer in
            switch SystemSocket.receive(self.onLoop.value.descriptor, into: buffer, flags: SystemSocket.peekFlags) {
            case .wantRead: true
            case .done, .wantWrite, .closed, .failed: false
            }
        }
    }

    /// Returns whether the socket has accepted bytes since the last call.
    func takeProgress() -> Bool { self.state.withLock { $0.takeProgress() } }

    /// Sets the number of unsent bytes above which `backlogged` and `drained` are called.
    func setMark(_ mark: Int) { self.state.withLock { $0.setMark(mark) } }

    /// Calls `drained` when all bytes have been sent, even if they are fewer than the mark.
    ///
    /// - Returns: `false` if nothing waits to be sent.
    func awaitDrain() -> Bool { self.state.withLock { $0.awaitDrain() } }

    /// The number of writes to the socket, for tests and measurements.
    package var writes: Int { self.state.withLock { Int($0.writes) } }

    private func perform(_ first: StreamState.CallerAction) {
        var action = first
        while case .write(let write) = action {
            // Releases the buffer, so that the state can modify it in place.
            action = .none
            let result = Self.perform(write)
            action = self.state.withLock { $0.wrote(result) }
        }
        let isRunning =
            switch action {
            case .write, .none: true
            case .requestService: self.loop.requestService(of: self)
            case .requestServiceAt(let instant): self.loop.requestService(of: self, at: instant)
            }
        // The loop's thread has ended, so nothing else closes the descriptor.
        if !isRunning { self.closeDescriptor() }
    }

    private static func perform(_ write: consuming StreamState.Write) -> IOResult {
        let (start, descriptor, security) = (write.start, write.descriptor, write.security)
        return write.bytes.withUnsafeBytes { bytes in
            let remaining = UnsafeRawBufferPointer(rebasing: bytes[start...])
            return security?.write(remaining) ?? SystemSocket.send(descriptor, remaining)
        }
    }

    // MARK: Calls on the loop's thread

    /// Starts an accepted stream. Takes ownership of the descriptor.
    func start(_ descriptor: Int32, _ security: StreamSecurityFactory?, events: any StreamEvents) {
        self.onLoop.bind()
        self.onLoop.value.events = events
        self.onLoop.value.token = self.loop.register(self)
        self.connected(descriptor, security)
    }

    /// The descriptor has been connected. Takes ownership of it.
    func connected(_ descriptor: Int32, _ security: StreamSecurityFactory?) {
        let gate: SecurityGate?
        do throws(TransportError) {
            gate = try security.map { make throws(TransportError) in SecurityGate(try make(descriptor)) }
        } catch {
            SystemSocket.close(descriptor)
            return self.fail(error)
        }
        guard self.state.withLock({ $0.connected(descriptor, gate) }) else {
            SystemSocket.close(descriptor)
            return self.service()
        }
        self.onLoop.value.descriptor = descriptor
        self.onLoop.value.security = gate
        if gate == nil { self.opened() } else { self.handshake() }
        self.service()
    }

    /// The connection could not be made.
    func connectFailed(_ error: TransportError) { self.fail(error) }

    private func opened() {
        self.onLoop.value.connecting?.end()
        self.onLoop.value.connecting = nil
        self.onLoop.value.events?.opened(self)
    }

    func ready(_ readiness: Readiness) {
        if readiness == .read, self.onLoop.value.security == nil, !self.onLoop.value.isKeeping {
            self.read()
        } else {
            let (isHandshaking, reads) = self.state.withLock { state -> (Bool, Bool) in
                let reads = state.ready(readiness)
                if case .handshaking = state.stage { return (true, false) }
                return (false, reads)
            }
            if isHandshaking { self.handshake() }
            if reads { self.read() }
        }
        self.service()
    }

    /// Does the pending work, and then polls for what the stream waits for.
    package func service() {
        while true {
            switch self.state.withLock({ $0.nextAction() }) {
            case .write(let write):
                let result = Self.perform(write)
                var action = self.state.withLock { $0.wrote(result) }
                while case .write(let next) = action {
                    action = .none
                    let result = Self.perform(next)
                    action = self.state.withLock { $0.wrote(result) }
                }
            case .read:
                self.read()
            case .notifyBacklogged:
                self.onLoop.value.events?.backlogged(self)
            case .notifyDrained:
                self.onLoop.value.events?.drained(self)
            case .shutDownWriting(let descriptor, let security):
                _ = security?.shutdown()
                SystemSocket.shutDownWriting(descriptor)
            case .readRemaining(let error):
                let hasMore = self.read(isFinal: true)
                if !hasMore, self.state.withLock({ $0.canRead }) { self.fail(error) }
            case .fail(let error):
                self.fail(error)
            case .tearDown:
                return self.tearDown()
            case .poll(let interest):
                return self.poll(for: interest)
            }
        }
    }

    private func poll(for interest: Readiness) {
        let polled = self.onLoop.value.polled
        guard interest != polled, let token = self.onLoop.value.token else { return }
        guard self.loop.poll(self.onLoop.value.descriptor, token, from: polled, to: interest) else {
            return self.fail(.system(SystemError.last.number, "poll a socket"))
        }
        self.onLoop.value.polled = interest
    }

    private func handshake() {
        guard let security = self.onLoop.value.security else { return }
        switch security.handshake() {
        case .done:
            if self.state.withLock({ $0.handshakeCompleted() }) { self.opened() }
        case .wantRead: self.state.withLock { $0.handshakeBlocked(until: .read) }
        case .wantWrite: self.state.withLock { $0.handshakeBlocked(until: .write) }
        case .closed: self.fail(TransportError(.tlsFailed, "The peer closed the connection during the TLS handshake."))
        case .failed(let error): self.fail(error)
        }
    }

    /// Reads until the socket is empty or the budget of a turn is spent.
    ///
    /// - Parameter isFinal: The connection is lost. Reads until an attempt finds nothing.
    /// - Returns: Whether the loop reads again in its next turn.
    @discardableResult
    private func read(isFinal: Bool = false) -> Bool {
        if self.onLoop.value.isKeeping { return self.deliverKept(isFinal: isFinal) }
        let (descriptor, security) = (self.onLoop.value.descriptor, self.onLoop.value.security)
        if security != nil { self.state.withLock { $0.readBegins() } }
        var budget = Self.readBudget
        let buffer = self.loop.readBuffer
        while true {
            switch security?.read(into: buffer) ?? SystemSocket.receive(descriptor, into: buffer) {
            case .done(let count):
                guard self.state.withLock({ $0.received() }) else { return false }
                self.onLoop.value.events?.received(self, UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]))
                if self.onLoop.value.isKeeping { return true }
                // A socket that returns less than the buffer holds is empty. TLS returns one record at a time.
                if security == nil, count < buffer.count, !isFinal { return false }
                budget -= count
                switch self.readsOn(isBudgetSpent: budget <= 0, isFinal: isFinal) {
                case .readAgain: break
                case .stop: return false
                case .yield: return true
                }
            case .wantRead:
                return false
            case .wantWrite:
                self.state.withLock { $0.readBlockedUntilWritable() }
                return false
            case .closed:
                self.inputEnded(nil)
                return false
            case .failed(let error):
                self.inputEnded(error)
                return false
            }
        }
    }

    /// Keeps bytes that the owner does not use yet. They are delivered again when the loop's next turn has begun, before other bytes.
    ///
    /// Called on the loop's thread. The bytes are the rest of the bytes that `received` was called with, or follow them. If there are none,
    /// `received` is called without bytes.
    func keep(_ bytes: UnsafeRawBufferPointer) {
        self.onLoop.value.keptCount = Int32(clamping: bytes.count)
        // The rest of bytes that were kept before isn't copied: a small budget would copy it many times.
        if !self.isRest(bytes) { self.onLoop.value.kept = Array(bytes) }
        self.state.withLock { $0.keepInput() }
        self.readInNextTurn()
    }

    /// Whether the bytes are at the end of those that are being delivered again.
    private func isRest(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = bytes.baseAddress else { return false }
        return self.onLoop.value.kept.withUnsafeBytes { kept in
            guard let first = kept.baseAddress else { return false }
            return start >= first && start + bytes.count == first + kept.count
        }
    }

    private func deliverKept(isFinal: Bool) -> Bool {
        // A copy of the reference: `keep` compares the bytes with those of the array that stays in place.
        let (bytes, count) = (self.onLoop.value.kept, Int(self.onLoop.value.keptCount))
        self.onLoop.value.keptCount = -1
        self.state.withLock { $0.readBegins() }
        guard self.state.withLock({ $0.received() }) else { return false }
        bytes.withUnsafeBytes { bytes in
            self.onLoop.value.events?.received(self, UnsafeRawBufferPointer(rebasing: bytes.suffix(count)))
        }
        if self.onLoop.value.isKeeping { return true }
        self.onLoop.value.kept = []
        return self.readsOn(isBudgetSpent: true, isFinal: isFinal) == .yield
    }

    private func readsOn(isBudgetSpent: Bool, isFinal: Bool) -> StreamState.ReadStep {
        let step = self.state.withLock { $0.readsOn(isBudgetSpent: isBudgetSpent, isFinal: isFinal) }
        if step == .yield { self.readInNextTurn() }
        return step
    }

    /// Requests service after the other streams that are ready now. A loop that stops ends the stream instead.
    private func readInNextTurn() {
        self.loop.execute {
            self.state.withLock { $0.turnBegan() }
            self.service()
        }
    }

    private func inputEnded(_ error: TransportError?) {
        if let error, error.code != .closed { return self.fail(error) }
        switch self.state.withLock({ $0.inputEnded(error) }) {
        case .deferred, .none: break
        case .failed(let error): self.fail(error)
        case .ended:
            let events = self.onLoop.value.events
            self.onLoop.value.events = nil
            events?.ended(self, nil)
        }
    }

    /// Ends the stream with an error.
    func fail(_ error: TransportError) {
        guard self.state.withLock({ $0.fail() }) else { return }
        let events = self.onLoop.value.events
        self.tearDown()
        events?.ended(self, error)
    }

    func loopDidShutDown() {
        self.fail(TransportError(.closed, "The event loop was shut down."))
        self.tearDown()
    }

    private func tearDown() {
        self.onLoop.value.connecting?.end()
        self.onLoop.value.connecting = nil
        self.onLoop.value.events = nil
        if let token = self.onLoop.value.token {
            self.onLoop.value.token = nil
            let polled = self.onLoop.value.polled
            if !polled.isEmpty { _ = self.loop.poll(self.onLoop.value.descriptor, token, from: polled, to: []) }
            self.onLoop.value.polled = []
            self.loop.deregister(token)
        }
        self.onLoop.value.security = nil
        (self.onLoop.value.kept, self.onLoop.value.keptCount) = ([], -1)
        self.closeDescriptor()
        let owner = self.onLoop.value.owner
        self.onLoop.value.owner = nil
        owner?.closed(self)
    }

    /// If another thread is writing, it requests service when it has finished, and the descriptor is closed then.
    private func closeDescriptor() {
        guard let (descriptor, security) = self.state.withLock({ $0.takeDescriptor() }) else { return }
        _ = security?.shutdown()
        SystemSocket.close(descriptor)
    }
}
