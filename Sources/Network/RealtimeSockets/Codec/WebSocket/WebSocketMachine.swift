package import RealtimeCore

/// The state machine of one open WebSocket.
///
/// ```
///          close()                the peer's close frame
///   open ──────────▶ closing ─────────────────────────────▶ closed ──end of stream, deadline──▶ dropped
///     ├────────────── the peer's close frame, a violation ────▶│                                   ▲
///     └──────────────── end of stream, socket error; in closing also the deadline ─────────────────┘
/// ```
/// It appends frames to the `output` it is given, which the caller sends. It has no clock and no socket. ``Step/closed`` is reported
/// exactly once, and so is ``SocketAction/drop``.
package struct WebSocketMachine: Sendable {
    /// The next step, after sending everything in `output`.
    package struct Step: Sendable, Hashable {
        /// The WebSocket has closed: notify its owner, after delivering the messages of this read.
        package var closed: CloseReason?
        package var socket: SocketAction

        package init(closed: CloseReason?, socket: SocketAction) {
            self.closed = closed
            self.socket = socket
        }

        static let none = Step(closed: nil, socket: .keep)
    }

    package enum SocketAction: Sendable, Hashable {
        /// Continue reading. ``WebSocketMachine/receive(_:into:)`` ignores bytes that no longer matter.
        case keep
        /// Send `output`, shut down writing, and continue reading until the peer closes the connection or the deadline passes. Closing
        /// a socket with unread bytes would reset the connection, and the peer might never receive the close frame.
        case finishWriting
        /// Close the socket.
        case drop
    }

    /// The result of sending a message.
    package enum SendResult: Sendable, Hashable {
        case appended
        /// A close frame was sent or received. No message may follow it (RFC 6455 section 5.5.1).
        case closed
        /// The message is a ping or pong of more than 125 bytes.
        case tooLong
    }

    private enum State: Sendable {
        case open
        /// Our close frame was sent, the peer's was not received yet.
        case closing(deadline: Instant)
        /// The owner knows that the WebSocket has closed. The socket waits for the peer to close the connection.
        case closed(deadline: Instant)
        case dropped
    }

    /// Holds back a pong if more bytes than this wait to be sent. Otherwise a peer that pings and reads nothing would exhaust memory.
    ///
    /// At least as much as a stream buffers before it reports that it has drained, because ``drained(output:)`` sends the pong.
    package static let pongBacklogLimit = 256 << 10

    package var role: WebSocketRole { self.decoder.role }
    private let closeTimeout: Int64
    private let lingerTimeout: Int64
    private var state = State.open
    private var heldPong: [UInt8]?
    private var decoder: FrameDecoder

    /// - Parameters:
    ///   - role: Which endpoint of the WebSocket this is.
    ///   - messageLimit: The largest message accepted, in bytes.
    ///   - closeTimeout: How long the peer may take to respond to a close frame.
    ///   - lingerTimeout: How long the peer may take to close the connection after the close frames.
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

    /// When to call ``timeout(now:)``.
    package var nextDeadline: Instant? {
        switch self.state {
        case .open, .dropped: nil
        case .closing(let deadline), .closed(let deadline): deadline
        }
    }

    // MARK: Sending

    /// Appends a message to `output`.
    package mutating func send(_ message: TransportMessage, output: inout [UInt8]) -> SendResult {
        guard self.isOpen else { return .closed }
        if message.kind == .ping || message.kind == .pong, message.bytes.count > 125 { return .tooLong }
        FrameEncoder.append(message.kind, message.bytes, mask: self.makeMask(), to: &output)
        return .appended
    }

    /// Appends the header of a message to `output`, for a server whose stream sends the content without a copy.
    ///
    /// - Returns: Whether the content follows.
    package mutating func sendHeader(of message: TransportMessage, output: inout [UInt8]) -> Bool {
        guard self.isOpen else { return false }
        FrameEncoder.appendHeader(message.kind, count: message.bytes.count, to: &output)
        return true
    }

    /// Appends a close frame to `output`. The peer's response or the deadline then closes the WebSocket.
    ///
    /// - Returns: `false` if the WebSocket was closing already.
    package mutating func close(_ code: CloseCode, reason: String, output: inout [UInt8], now: Instant) -> Bool {
        guard self.isOpen else { return false }
        FrameEncoder.appendClose(code, reason: reason, mask: self.makeMask(), to: &output)
        self.state = .closing(deadline: now + self.closeTimeout)
        return true
    }

    /// Appends the pong that was held back, once `output` has been sent.
    package mutating func drained(output: inout [UInt8]) {
        guard self.isOpen, let payload = self.heldPong else { return }
        self.heldPong = nil
        FrameEncoder.append(.pong, payload, mask: self.makeMask(), to: &output)
    }

    // MARK: Receiving

    /// Decodes the bytes of one read.
    ///
    /// The result says what to do, in this order: If there are pings, call ``appendPongs(for:output:)``. Deliver the messages. If there is
    /// an end, call ``conclude(_:output:now:)``, so that what the owner sends in response to the messages precedes the close frame.
    ///
    /// Messages that arrive after our close frame and before the peer's are delivered: the peer may send them (RFC 6455 section 1.4).
    package mutating func receive(
        _ bytes: UnsafeRawBufferPointer, frameLimit: Int = .max, into batch: inout MessageBatch
    ) -> FrameDecoder.DecodeResult {
        switch self.state {
        case .closed, .dropped: FrameDecoder.DecodeResult()
        case .open, .closing: self.decoder.decode(bytes, frameLimit: frameLimit, into: &batch)
        }
    }

    /// Appends a pong for every ping of a batch to `output`.
    ///
    /// RFC 6455 section 5.5.3 requires a response to the latest ping only. But every ping gets a pong as long as the peer reads: some peers
    /// count.
    package mutating func appendPongs(for batch: borrowing MessageBatch, output: inout [UInt8]) {
        guard self.isOpen else { return }
        for index in batch.entries.indices where batch.entries[index].kind == .ping {
            self.appendPong(for: batch.entries[index].range, of: batch, output: &output)
        }
    }

    /// Reacts to the end that ``receive(_:into:)`` returned.
    package mutating func conclude(_ end: FrameDecoder.End, output: inout [UInt8], now: Instant) -> Step {
        switch self.state {
        case .closed, .dropped: .none
        case .open, .closing:
            switch end {
            case .close(let code, let reason): self.peerClosed(code, reason, &output, now)
            case .failure(let error): self.peerFailed(error, &output, now)
            }
        }
    }

    /// The peer has shut down its side of the connection.
    package mutating func endOfStream() -> Step {
        self.drop(.transport(TransportError(.closed, "The peer closed the connection without a close frame.")))
    }

    /// The socket failed.
    package mutating func failed(_ error: TransportError) -> Step { self.drop(.transport(error)) }

    /// Call it at ``nextDeadline``. Earlier calls have no effect.
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
        case .closed: Step(closed: nil, socket: .drop)
        case .dropped: .none
        }
    }

    private mutating func peerClosed(_ code: CloseCode, _ reason: String, _ output: inout [UInt8], _ now: Instant) -> Step {
        var closeReason = CloseReason.requested
        if self.isOpen {
            FrameEncoder.appendClose(code, reason: "", mask: self.makeMask(), to: &output)
            closeReason = .peer(code, reason)
        }
        self.linger(now)
        // RFC 6455 section 7.1.1: the server closes the TCP connection first, and the client waits for that.
        return Step(closed: closeReason, socket: self.role == .server ? .finishWriting : .keep)
    }

    private mutating func peerFailed(_ error: FrameError, _ output: inout [UInt8], _ now: Instant) -> Step {
        guard self.isOpen else { return self.drop(.requested) }
        FrameEncoder.appendClose(error.code, reason: error.reason, mask: self.makeMask(), to: &output)
        self.linger(now)
        return Step(closed: .transport(error.transportError), socket: .finishWriting)
    }

    private mutating func linger(_ now: Instant) {
        self.state = .closed(deadline: now + self.lingerTimeout)
        self.heldPong = nil
    }

    private mutating func appendPong(for ping: Range<Int>, of batch: borrowing MessageBatch, output: inout [UInt8]) {
        guard output.count <= Self.pongBacklogLimit else {
            // Only the latest: that is enough for the protocol.
            self.heldPong = Array(batch.bytes[ping])
            return
        }
        self.heldPong = nil
        let mask = self.makeMask()
        batch.bytes.withUnsafeBytes { FrameEncoder.append(.pong, UnsafeRawBufferPointer(rebasing: $0[ping]), mask: mask, to: &output) }
    }

    @inline(__always)
    private func makeMask() -> UInt32? { self.role == .client ? Mask.randomKey() : nil }
}
