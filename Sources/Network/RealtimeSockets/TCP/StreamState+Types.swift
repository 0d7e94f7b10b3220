internal import RealtimeCore
internal import RealtimeSystem

extension StreamState {
    enum Stage: Equatable, Sendable {
        case idle, connecting
        /// The TLS handshake continues when the descriptor is ready.
        case handshaking(waitsFor: Readiness)
        case open, closed
    }

    /// The state of reading.
    ///
    /// ```
    ///             ┌── TLS or the stream may hold data ─▶ unread ─── the loop reads ───┐
    ///   waiting ──┤                                                                  ├──▶ waiting
    ///             └── end during a write ──────────────▶ endPending ─ write completes ┘
    ///
    ///   waiting, unread, endPending ── pause() ──▶ paused ── resume() ──▶ waiting (unread if there may be data)
    ///   waiting, unread, endPending, paused ── the peer shut down its side ──▶ ended
    /// ```
    enum Input: Equatable, Sendable {
        /// The loop reads when the descriptor is ready. TLS may need to write before it can read.
        case waiting(for: Readiness)
        /// There may be data for which the poller reports no event. The loop reads without waiting, once a turn.
        case unread
        /// An end was read during a write. If the write fails, its error is the reason for the end, so the loop reads again after it.
        case endPending
        /// Reading is paused. Disarmed: the loop has stopped polling for input, and must be notified when reading resumes.
        case paused(isDisarmed: Bool)
        /// The peer sends no more.
        case ended
    }

    /// The state of writing.
    ///
    /// ```
    ///   open(ready | writing | blocked) ── finish() ──▶ finishing(ready | writing | blocked) ── all sent ──▶ finished
    ///     └───────────── a write fails ─────────────────────┴──────────────────────────────▶ failed
    /// ```
    enum Output: Sendable {
        case open(Progress)
        /// The end of the stream follows the buffered bytes. No more bytes are accepted.
        case finishing(Progress)
        /// The end of the stream has been sent.
        case finished
        /// The bytes that the peer sent before are still read, up to a limit.
        indirect case failed(TransportError, unreadLimit: Int)
    }

    /// ```
    ///   ready ── a write begins ──▶ writing ── it moved all bytes ──▶ ready
    ///                                  └── the socket is full ──▶ blocked ── the descriptor is ready ──▶ ready
    /// ```
    enum Progress: Equatable, Sendable {
        case ready
        /// A thread is writing. Until it reports the result no other write begins, and the descriptor stays open.
        case writing
        /// The socket accepts no more bytes at the moment. TLS may need to read before it can write.
        case blocked(until: Readiness)
    }

    enum Backlog: Sendable {
        case normal
        /// There were more bytes than the mark.
        case high
        /// All of them have been sent, and the owner has not been notified yet.
        case drained
    }

    /// A write to perform. Its result is passed to ``wrote(_:)``.
    struct Write: Sendable {
        var bytes: [UInt8]
        var start: Int
        var descriptor: Int32
        var security: SecurityGate?
    }

    /// The next step for the caller of a method of ``SocketStream``.
    enum CallerAction: Sendable {
        case write(Write)
        case requestService
        /// Request service at this instant. The stream needs none before.
        case requestServiceAt(Instant)
        case none
    }

    /// The next step of the loop.
    enum LoopAction: Sendable {
        case write(Write)
        case read
        case notifyBacklogged
        case notifyDrained
        case shutDownWriting(Int32, SecurityGate?)
        /// Read one budget of what the peer sent before the connection was lost, and fail if that was all.
        case readRemaining(TransportError)
        case fail(TransportError)
        case tearDown
        case poll(Readiness)
    }

    /// The reasons for which reading is paused. It resumes when there are none.
    struct PauseReasons: OptionSet, Sendable {
        let rawValue: UInt8

        /// The owner of the connection has paused reading.
        static let owner = PauseReasons(rawValue: 1)
        /// The peer doesn't take the answers to what it sent.
        static let answers = PauseReasons(rawValue: 2)
        static let all: PauseReasons = [.owner, .answers]
    }

    /// The next step of the loop after it has delivered the bytes of a read.
    enum ReadStep: Sendable {
        case readAgain
        case stop
        /// Read again in the next turn of the loop, after the other streams.
        case yield
    }
}
