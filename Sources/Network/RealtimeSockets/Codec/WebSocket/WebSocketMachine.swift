package import RealtimeCore

/// The life of one open WebSocket, above its bytes: open, closing, over.
///
/// It writes into the `output` that it is given, which the caller sends; it reads no clock and holds no socket.
/// Whatever happens, ``Step/closed`` comes once, and ``Step/socket`` says `drop` once.
package struct WebSocketMachine: Sendable {
    /// What to do next. Everything in `output` goes out first.
    package struct Step: Sendable, Hashable {
        /// The WebSocket is over: tell its user, once the messages of this read were delivered.
        package var closed: CloseReason?
        package var socket: SocketAction

        package init(closed: CloseReason?, socket: SocketAction) {
            self.closed = closed
            self.socket = socket
        }

        static let none = Step(closed: nil, socket: .keep)
    }

    package enum SocketAction: Sendable, Hashable {
        /// Go on reading; ``WebSocketMachine/received(_:into:output:keys:)`` ignores what is not wanted any more.
        case keep
        /// Send `output`, end this side of the connection, and go on reading until the peer has ended its own or the deadline
        /// has come: closing a socket with unread bytes in it would reset it, and the peer might never see the close frame.
        case finishWriting
        /// Close the socket.
        case drop
    }

    /// What became of a message.
    package enum SendOutcome: Sendable, Hashable {
        case appended
        /// A close frame was sent or received: nothing may follow it (RFC 6455 section 5.5.1).
        case closed
        /// A ping or pong of more than 125 bytes.
        case tooLong
    }

    private enum State: Sendable {
        case open
        /// Our close frame is out, the peer's is not here.
        case closing(deadline: Instant)
        /// The user knows that it is over; the socket waits for the peer to end it.
        case over(deadline: Instant)
        case dropped
    }

    /// A pong is not written behind more than this: a peer that pings and reads nothing would fill the memory.
    private static let pongBacklog = SocketStream.highWater

    private var role: WebSocketRole { self.decoder.role }
    private let closeTimeout: Int64
    private let lingerTimeout: Int64
    private var state = State.open
    private var heldPong: [UInt8]?
    private var decoder: FrameDecoder

    /// - Parameters:
    ///   - closeTimeout: how long the peer may take to answer a close frame.
    ///   - lingerTimeout: how long it may then take to end the connection.
    package init(
        role: WebSocketRole, messageLimit: Int, closeTimeout: Duration = .seconds(5), lingerTimeout: Duration = .seconds(1)
    ) {
        self.closeTimeout = closeTimeout.nanoseconds
        self.lingerTimeout = lingerTimeout.nanoseconds
        self.decoder = FrameDecoder(role: role, messageLimit: messageLimit)
    }

    /// Whether messages may be sent.
    package var isOpen: Bool {
        if case .open = self.state { true } else { false }
    }

    /// When ``timeout(now:)`` wants to be called.
    package var nextDeadline: Instant? {
        switch self.state {
        case .open, .dropped: nil
        case .closing(let deadline), .over(let deadline): deadline
        }
    }

    // MARK: Sending

    package mutating func send(_ message: WebSocketMessage, output: inout [UInt8], keys: inout MaskKeys) -> SendOutcome {
        guard self.isOpen else { return .closed }
        if message.kind == .ping || message.kind == .pong, message.bytes.count > 125 { return .tooLong }
        FrameEncoder.append(message.kind, message.bytes, mask: self.mask(&keys), to: &output)
        return .appended
    }

    /// Adds the close frame. The answer, or the deadline, ends the WebSocket. `false`: it was closing already.
    package mutating func close(
        _ code: CloseCode, reason: String, output: inout [UInt8], keys: inout MaskKeys, now: Instant
    ) -> Bool {
        guard self.isOpen else { return false }
        FrameEncoder.appendClose(code, reason: reason, mask: self.mask(&keys), to: &output)
        self.state = .closing(deadline: now + self.closeTimeout)
        return true
    }

    /// `output` was sent: writes the pong that had to wait for it.
    package mutating func drained(output: inout [UInt8], keys: inout MaskKeys) {
        guard self.isOpen, let payload = self.heldPong else { return }
        self.heldPong = nil
        FrameEncoder.append(.pong, payload, mask: self.mask(&keys), to: &output)
    }

    // MARK: Receiving

    /// What one read brought. Messages go into `batch`, answers to pings into `output`.
    ///
    /// When the peer has closed, or has sent what it must not, that is returned: ``conclude(_:output:keys:now:)`` is for
    /// after the owner has had the messages, so that what it answers to them still goes out before the close frame.
    /// Messages that come after our close frame and before the peer's are delivered: it may send them (RFC 6455 section 1.4).
    package mutating func received(
        _ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch, output: inout [UInt8], keys: inout MaskKeys
    ) -> FrameDecoder.End? {
        switch self.state {
        case .over, .dropped: return nil
        case .open, .closing: break
        }
        let first = batch.entries.count
        let outcome = self.decoder.decode(bytes, into: &batch)
        if outcome.latestPing != nil, self.isOpen {
            for index in first..<batch.entries.count where batch.entries[index].kind == .ping {
                self.answer(batch.entries[index].range, of: batch, output: &output, keys: &keys)
            }
        }
        return outcome.end
    }

    /// Acts on the end that ``received(_:into:output:keys:)`` has found.
    package mutating func conclude(
        _ end: FrameDecoder.End, output: inout [UInt8], keys: inout MaskKeys, now: Instant
    ) -> Step {
        switch self.state {
        case .over, .dropped: .none
        case .open, .closing:
            switch end {
            case .close(let code, let reason): self.peerClosed(code, reason, &output, &keys, now)
            case .failure(let error): self.peerFailed(error, &output, &keys, now)
            }
        }
    }

    /// The peer has ended its side of the connection.
    package mutating func endOfStream() -> Step {
        self.drop(.transport(TransportError(.closed, "The peer ended the connection without a close frame.")))
    }

    /// The socket failed.
    package mutating func failed(_ error: TransportError) -> Step { self.drop(.transport(error)) }

    /// Call it at ``nextDeadline``; earlier it does nothing.
    package mutating func timeout(now: Instant) -> Step {
        guard let deadline = self.nextDeadline, deadline <= now else { return .none }
        return self.drop(.requested)
    }

    // MARK: Ending

    private mutating func drop(_ reasonIfOpen: CloseReason) -> Step {
        let state = self.state
        self.state = .dropped
        self.heldPong = nil
        return switch state {
        case .open: Step(closed: reasonIfOpen, socket: .drop)
        case .closing: Step(closed: .requested, socket: .drop)
        case .over: Step(closed: nil, socket: .drop)
        case .dropped: .none
        }
    }

    private mutating func peerClosed(
        _ code: CloseCode, _ reason: String, _ output: inout [UInt8], _ keys: inout MaskKeys, _ now: Instant
    ) -> Step {
        var why = CloseReason.requested
        if self.isOpen {
            FrameEncoder.appendClose(code, reason: "", mask: self.mask(&keys), to: &output)
            why = .peer(code, reason)
        }
        self.finish(now)
        // RFC 6455 section 7.1.1: the server ends the TCP connection first; the client waits for that.
        return Step(closed: why, socket: self.role == .server ? .finishWriting : .keep)
    }

    private mutating func peerFailed(
        _ error: FrameError, _ output: inout [UInt8], _ keys: inout MaskKeys, _ now: Instant
    ) -> Step {
        guard self.isOpen else { return self.drop(.requested) }
        FrameEncoder.appendClose(error.code, reason: error.message, mask: self.mask(&keys), to: &output)
        self.finish(now)
        return Step(closed: .transport(error.transportError), socket: .finishWriting)
    }

    private mutating func finish(_ now: Instant) {
        self.state = .over(deadline: now + self.lingerTimeout)
        self.heldPong = nil
    }

    private mutating func answer(_ ping: Range<Int>, of batch: borrowing MessageBatch, output: inout [UInt8], keys: inout MaskKeys) {
        guard output.count <= Self.pongBacklog else {
            self.heldPong = Array(batch.bytes[ping])
            return
        }
        self.heldPong = nil
        let mask = self.mask(&keys)
        batch.bytes.withUnsafeBytes { FrameEncoder.append(.pong, UnsafeRawBufferPointer(rebasing: $0[ping]), mask: mask, to: &output) }
    }

    private func mask(_ keys: inout MaskKeys) -> UInt32? { self.role == .client ? keys.next() : nil }
}
