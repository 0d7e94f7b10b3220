import RealtimeSystem
package import RealtimeCore

/// What happens on a stream. Called on the loop's thread, one call at a time.
package protocol StreamEvents: AnyObject, Sendable {
    /// It is connected and, with TLS, the peer is who it should be.
    func opened(_ stream: SocketStream)
    /// What one read brought: never empty, and gone after the call.
    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer)
    /// More than ``SocketStream/highWater`` bytes had been waiting to be sent, and none are left.
    func drained(_ stream: SocketStream)
    /// The last call. With an error, the stream could not be opened or broke, and is closed.
    ///
    /// With `nil`, the peer sends no more. It may still be sent to: the stream stays until ``SocketStream/close()``, or
    /// until what ``SocketStream/finishWriting()`` waits for has gone.
    func ended(_ stream: SocketStream, _ error: TransportError?)
}

/// A byte stream over TCP, plain or with TLS, on a loop.
///
/// Its calls may come from any thread. `enqueue`, `pauseReading`, `resumeReading`, `finishWriting` and `close` only take
/// note and never call back from within, so they may be made under a lock. It holds its events until it has ended.
package final class SocketStream: Sendable, PollHandler {
    /// See ``StreamEvents/drained(_:)``.
    package static var highWater: Int { StreamState.highWater }
    /// So much is read for one stream before the others have their turn.
    static let readBudget = 256 << 10
    /// What is read at the most of what a peer had said before it cut the connection.
    private static let restBudget = 8 << 20

    package let loop: EventLoop
    private let state = Lock(StreamState())

    // `nonisolated(unsafe)`: these belong to the loop's thread. Before the stream is known to the loop, they belong to
    // the one who makes it, and the loop's lock hands them over.
    nonisolated(unsafe) private var events: (any StreamEvents)?
    nonisolated(unsafe) private var owner: (any StreamOwner)?
    nonisolated(unsafe) private var connecting: ConnectAttempt?
    nonisolated(unsafe) private var token: UInt64?
    nonisolated(unsafe) private var polled: Readiness = []
    nonisolated(unsafe) private var descriptor: Int32 = -1
    nonisolated(unsafe) private var security: SecurityGate?

    /// A stream that leads nowhere yet; ``connect(to:port:_:)`` follows.
    package init(loop: EventLoop = .shared, events: any StreamEvents) {
        self.loop = loop
        self.events = events
    }

    /// An accepted one, made on its loop's thread.
    init(loop: EventLoop, owner: any StreamOwner) {
        self.loop = loop
        self.owner = owner
    }

    // MARK: Calls from any thread

    /// Connects, to be called once. `opened` or `ended` follows, unless ``close()`` is called before.
    ///
    /// When the loop was shut down there is no thread left for events: `ended` is called from within.
    package func connect(to host: String, port: Int, _ options: ConnectOptions = ConnectOptions()) {
        let begins = self.state.withLock { state -> Bool in
            guard state.stage == .idle else { return false }
            state.stage = .connecting
            return true
        }
        guard begins else { return }
        let isRunning = self.loop.execute {
            guard self.state.withLock({ $0.stage == .connecting }) else { return self.tearDown() }
            let attempt = ConnectAttempt(self, host, port, options)
            self.connecting = attempt
            self.token = self.loop.register(self)
            attempt.start()
        }
        guard !isRunning, self.state.withLock({ $0.fail() }) else { return }
        let events = self.events
        self.events = nil
        events?.ended(self, TransportError(.closed, "The event loop was shut down: connect with another one."))
    }

    /// Adds bytes to what the next ``flush()`` sends. They are kept while the stream is not open yet.
    ///
    /// `fill` appends to the buffer, is called under the stream's lock, and calls nothing else. It is not called when
    /// the stream is closed or about to finish.
    package func enqueue(_ fill: (inout [UInt8]) -> Void) {
        self.state.withLock { $0.append(fill) }
    }

    /// Sends what was enqueued, without waiting.
    ///
    /// If there was no write in this turn of the loop, it is made here. Else the bytes gather and go out together: soon, or, from
    /// a sender of bursts, when the turn ends.
    package func flush() {
        self.continueWriting(self.state.withLock { $0.flush(turnLimit: self.loop.turnLimit, now: self.loop.now) })
    }

    /// Stops to read soon: at most what is being read still comes, nothing more when called in `received`.
    package func pauseReading() {
        self.state.withLock { $0.isInputPaused = true }
    }

    /// Reads on.
    package func resumeReading() {
        self.continueWriting(self.state.withLock { $0.resumeInput() })
    }

    /// Sends what was enqueued and then the end of the stream. What is enqueued after it is dropped.
    ///
    /// `ended` comes when the peer has sent its own end; a peer that never does has to be given a time limit.
    package func finishWriting() {
        self.continueWriting(self.state.withLock { $0.finish() })
    }

    /// Drops the connection at once, and what was not sent. No event follows, apart from one that is being delivered.
    package func close() {
        self.continueWriting(self.state.withLock { $0.close() })
    }

    /// What waits to be sent, in bytes.
    package var bufferedBytes: Int { self.state.withLock { $0.bufferedBytes } }

    /// How often it wrote to the socket: for tests and measurements.
    package var writes: Int { self.state.withLock { Int($0.writes) } }

    /// Where the peer is, while connected.
    package var peerAddress: SocketAddress? {
        self.state.withLock { $0.stage == .open ? SocketAddress(peerOf: $0.descriptor) : nil }
    }

    private func continueWriting(_ first: StreamState.SendStep) {
        var step = first
        while case .write(let write) = step {
            step = .none
            let outcome = Self.perform(write)
            step = self.state.withLock { $0.wrote(outcome) }
        }
        let isRunning =
            switch step {
            case .write, .none: true
            case .requestService: self.loop.service(to: self)
            case .requestServiceAt(let instant): self.loop.service(to: self, at: instant)
            }
        // The thread is gone, and with it everybody else who could close the descriptor.
        if !isRunning { self.closeDescriptor() }
    }

    private static func perform(_ write: consuming StreamState.Write) -> IOResult {
        let (start, descriptor, security) = (write.start, write.descriptor, write.security)
        return write.bytes.withUnsafeBytes { bytes in
            let rest = UnsafeRawBufferPointer(rebasing: bytes[start...])
            return security?.write(rest) ?? SystemSocket.send(descriptor, rest)
        }
    }

    // MARK: On the loop's thread

    /// An accepted descriptor. Takes it over, whatever happens.
    func start(_ descriptor: Int32, _ security: StreamSecurityFactory?, events: any StreamEvents) {
        self.events = events
        self.token = self.loop.register(self)
        self.connected(descriptor, security)
    }

    /// The connection is there. Takes the descriptor over, whatever happens.
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
        (self.descriptor, self.security) = (descriptor, gate)
        if gate == nil { self.opened() } else { self.handshake() }
        self.service()
    }

    /// The connection could not be made.
    func connectFailed(_ error: TransportError) { self.fail(error) }

    private func opened() {
        self.connecting?.end()
        self.connecting = nil
        self.events?.opened(self)
    }

    func ready(_ readiness: Readiness) {
        if readiness == .read, self.security == nil {
            self.read()
        } else {
            let (stage, reads) = self.state.withLock { state -> (StreamState.Stage, Bool) in
                state.unblock(readiness)
                return (state.stage, state.canRead && readiness.contains(state.inputWantsWrite ? .write : .read))
            }
            if stage == .handshaking { self.handshake() }
            if reads { self.read() }
        }
        self.service()
    }

    /// Does what is due, and then waits for what is wanted.
    func service() {
        while true {
            switch self.state.withLock({ $0.nextStep() }) {
            case .write(let write):
                let outcome = Self.perform(write)
                var step = self.state.withLock { $0.wrote(outcome) }
                while case .write(let next) = step {
                    step = .none
                    let outcome = Self.perform(next)
                    step = self.state.withLock { $0.wrote(outcome) }
                }
            case .read:
                self.read()
            case .drained:
                self.events?.drained(self)
            case .finish(let descriptor, let security):
                _ = security?.shutdown()
                SystemSocket.finish(descriptor)
            case .readRestAndFail(let error):
                self.read(untilDry: true)
                if self.state.withLock({ $0.canRead }) { self.fail(error) }
            case .fail(let error):
                self.fail(error)
            case .tearDown:
                return self.tearDown()
            case .rest(let interest):
                return self.wait(for: interest)
            }
        }
    }

    private func wait(for interest: Readiness) {
        guard interest != self.polled, let token = self.token else { return }
        guard self.loop.poll(self.descriptor, token, from: self.polled, to: interest) else {
            return self.fail(.system(SystemError.last.number, "watch a socket"))
        }
        self.polled = interest
    }

    private func handshake() {
        guard let security = self.security else { return }
        switch security.handshake() {
        case .done:
            let isOpen = self.state.withLock { state -> Bool in
                guard state.stage == .handshaking else { return false }
                state.stage = .open
                state.needsCloseNotify = true
                // The last record of the handshake may have brought data with it.
                state.mustReadAgain = true
                return true
            }
            if isOpen { self.opened() }
        case .wantRead: self.state.withLock { $0.handshakeWants = .read }
        case .wantWrite: self.state.withLock { $0.handshakeWants = .write }
        case .closed: self.fail(TransportError(.tlsFailed, "The peer closed the connection during the TLS handshake."))
        case .failed(let error): self.fail(error)
        }
    }

    private func read(untilDry: Bool = false) {
        let (descriptor, security) = (self.descriptor, self.security)
        if security != nil { self.state.withLock { $0.inputWantsWrite = false } }
        var budget = untilDry ? Self.restBudget : Self.readBudget
        let buffer = self.loop.readBuffer
        while true {
            switch security?.read(into: buffer) ?? SystemSocket.receive(descriptor, into: buffer) {
            case .done(let count):
                guard self.state.withLock({ $0.received() }) else { return }
                self.events?.received(self, UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]))
                // A socket that had less than asked for is empty; TLS hands over a record at a time.
                if security == nil, count < buffer.count, !untilDry { return }
                budget -= count
                let goesOn = self.state.withLock { state -> Bool in
                    // No event will tell of what TLS has read from the socket already.
                    if budget <= 0, state.security != nil { state.mustReadAgain = true }
                    return state.canRead && budget > 0
                }
                if !goesOn { return }
            case .wantRead:
                return
            case .wantWrite:
                return self.state.withLock { $0.inputWantsWrite = true }
            case .closed:
                return self.inputEnded(nil)
            case .failed(let error):
                return self.inputEnded(error)
            }
        }
    }

    /// A write that fails takes the socket's error with it, and a read finds no more than an end: then the write's error counts.
    /// While one is being made it is not known, and its end brings the loop here again.
    private func inputEnded(_ error: TransportError?) {
        if let error, error.code != .closed { return self.fail(error) }
        let (isWriting, outputError) = self.state.withLock { state in
            state.readAfterWrite = state.isWriting
            return (state.isWriting, state.outputError)
        }
        if isWriting { return }
        if let error = outputError ?? error { return self.fail(error) }
        guard self.state.withLock({ $0.inputEnded() }) else { return }
        let events = self.events
        self.events = nil
        events?.ended(self, nil)
    }

    /// Ends the stream for a reason of the loop's side.
    func fail(_ error: TransportError) {
        guard self.state.withLock({ $0.fail() }) else { return }
        let events = self.events
        self.tearDown()
        events?.ended(self, error)
    }

    func loopDidShutDown() {
        self.fail(TransportError(.closed, "The event loop was shut down."))
        self.tearDown()
    }

    private func tearDown() {
        self.connecting?.end()
        self.connecting = nil
        self.events = nil
        if let token = self.token {
            self.token = nil
            if !self.polled.isEmpty { _ = self.loop.poll(self.descriptor, token, from: self.polled, to: []) }
            self.polled = []
            self.loop.deregister(token)
        }
        self.security = nil
        self.closeDescriptor()
        let owner = self.owner
        self.owner = nil
        owner?.closed(self)
    }

    /// Once nobody writes: the number may belong to somebody else the moment it is closed. A write that is going on
    /// has the loop called again.
    private func closeDescriptor() {
        let taken = self.state.withLock { state -> (Int32, SecurityGate?)? in
            guard state.descriptor >= 0, !state.isWriting else { return nil }
            defer {
                state.descriptor = -1
                state.security = nil
            }
            return (state.descriptor, state.needsCloseNotify ? state.security : nil)
        }
        guard let (descriptor, security) = taken else { return }
        _ = security?.shutdown()
        SystemSocket.close(descriptor)
    }
}

/// Who counts the streams it accepted. Called on the stream's loop.
protocol StreamOwner: AnyObject, Sendable {
    func closed(_ stream: SocketStream)
}
