internal import RealtimeCore
internal import RealtimeSystem

/// The limits of what a WebSocket keeps for a peer that reads slowly or not at all.
struct OutputLimits: Sendable {
    /// The number of unsent bytes above which messages are not accepted. The answers to received messages are, because reading pauses.
    var backlogBytes: Int
    /// In nanoseconds, which takes half the memory of a `Duration`.
    private let stallNanoseconds: Int64
    /// How long the peer may take no bytes while reading or writing is paused because of it.
    var stallTimeout: Duration { .nanoseconds(self.stallNanoseconds) }

    init(backlogBytes: Int, stallTimeout: Duration) {
        self.backlogBytes = backlogBytes
        self.stallNanoseconds = stallTimeout.nanoseconds
    }

    /// A mobile network may be unavailable for most of a minute.
    static let client = OutputLimits(backlogBytes: OutputGauge.clientLimit, stallTimeout: .seconds(60))

    /// The number of unsent bytes above which the owner is asked to pause writing, and above which answers pause reading.
    var mark: Int { min(SocketStream.highWater, self.backlogBytes) }

    var backlogError: TransportError {
        TransportError(
            .tooLarge,
            "The peer reads too slowly: more than \(self.backlogBytes) bytes wait to be sent. "
                + "Send less while writing is paused, or increase the backlog limit.")
    }

    /// - Parameter buffered: The number of unsent bytes.
    func stallError(buffered: Int) -> TransportError {
        TransportError(
            .timedOut,
            "The peer read nothing for \(self.stallTimeout) while \(buffered) bytes waited to be sent. "
                + "Increase the stall timeout if it may take longer.")
    }
}

/// Decoded frames that the owner of a WebSocket has not taken yet, because of the answers to the frames before them.
final class LeftFrames: Sendable {
    let batch: MessageBatch
    /// The index of the first frame that was not taken.
    let start: Int
    /// The end that follows the frames.
    let end: FrameDecoder.End?

    init(_ batch: MessageBatch, from start: Int, _ end: FrameDecoder.End?) {
        (self.batch, self.start, self.end) = (batch, start, end)
    }
}

/// Decides how many received frames a WebSocket delivers together, and counts the answers to them. Used on the loop's thread only.
///
/// Answers are what is sent during a delivery.
struct Delivery: Sendable {
    /// The number of frames that are decoded in one turn of the loop, so that small ones don't delay other connections. An event of
    /// 128 bytes or more never reaches it, because a turn reads at most 256 KiB. The WebSockets of a loop that reach it share it.
    static let framesPerTurn = 2048
    /// The number of frames for each of many WebSockets that share the frames of a turn.
    static let leastFramesPerTurn = 32
    /// The number of frames of a server's first delivery. It grows while the answers are small.
    private static let firstWindow: UInt16 = 64

    private(set) var isInProgress = false
    private var leftFrames: LeftFrames?
    /// The number of frames to deliver together, so that their answers exceed the mark by little.
    private var window: UInt16
    /// The bytes of answers in this delivery.
    private var answers = 0

    init(role: WebSocketRole) {
        self.window = role == .server ? Self.firstWindow : UInt16(Self.framesPerTurn)
    }

    /// Begins a delivery.
    ///
    /// - Parameter budget: The number of frames left in this turn.
    /// - Returns: The number of frames to decode.
    mutating func begin(budget: Int) -> Int {
        (self.isInProgress, self.answers) = (true, 0)
        return min(budget, Int(self.window))
    }

    /// The owner left frames, which are delivered before other ones.
    mutating func leave(_ frames: LeftFrames) { self.leftFrames = frames }

    mutating func takeLeftFrames() -> LeftFrames? { self.leftFrames.take() }

    /// An answer was appended to the output.
    mutating func answered(_ count: Int) { self.answers += count }

    /// Ends a delivery.
    ///
    /// - Parameters:
    ///   - frames: The number of delivered frames.
    ///   - mark: The number of bytes that answers should not exceed.
    /// - Returns: The bytes of answers. Whether they have been sent doesn't matter for the next delivery, because the system's buffers may
    ///   be full by then.
    mutating func end(frames: Int, mark: Int) -> Int {
        self.isInProgress = false
        if self.answers > mark {
            self.window = UInt16(clamping: max(1, frames * mark / self.answers))
        } else if self.answers < mark / 4, frames >= self.window {
            self.window = min(self.window * 2, UInt16(Self.framesPerTurn))
        }
        return self.answers
    }
}

/// Decides whether a WebSocket reads from a peer, depending on whether the peer takes the answers, and when the peer has stalled.
///
/// A peer that sends requests but reads no answers could otherwise fill the memory. Other output doesn't pause reading: two peers that
/// send to each other before they read would wait for each other.
struct BackPressure: Sendable {
    // In the order that needs the least memory.
    /// The bytes of answers that may not have been sent.
    private(set) var answers = 0
    /// When to call ``hasStalled(now:timeout:hasProgressed:)``.
    private(set) var stallDeadline: Instant?
    /// Whether ``drained()`` is to resume reading.
    private(set) var isReadingPaused = false
    /// Whether the owner is asked to pause writing.
    private(set) var isWritingPaused = false
    /// Whether the peer was given time because of a standstill, and has taken no bytes since.
    private var hasBeenPatient = false

    /// Answers were appended to the output.
    ///
    /// - Parameters:
    ///   - count: The number of bytes.
    ///   - buffered: The number of unsent bytes of all output.
    ///   - leftFrames: Whether the owner left frames because of the answers. It takes them when all answers have been sent.
    ///   - now: Evaluated only if reading pauses.
    /// - Returns: Whether to pause reading.
    mutating func answered(
        _ count: Int, buffered: Int, leftFrames: Bool = false, limits: OutputLimits, now: @autoclosure () -> Instant
    ) -> Bool {
        self.answers = min(self.answers + count, buffered)
        guard self.answers > (leftFrames ? 0 : limits.mark), !self.isReadingPaused else { return false }
        self.isReadingPaused = true
        self.stallDeadline = self.stallDeadline ?? now().advanced(by: limits.stallTimeout)
        return true
    }

    /// The socket accepts no more bytes, and the backlog is above the mark.
    mutating func backlogged(now: Instant, limits: OutputLimits) {
        self.isWritingPaused = true
        self.stallDeadline = self.stallDeadline ?? now.advanced(by: limits.stallTimeout)
    }

    /// All bytes have been sent.
    ///
    /// - Returns: Which of the two to resume.
    mutating func drained() -> (reading: Bool, writing: Bool) {
        defer { self = BackPressure() }
        return (self.isReadingPaused, self.isWritingPaused)
    }

    /// Returns whether the peer took no bytes for the stall timeout. Call it at ``stallDeadline``. Earlier calls have no effect.
    ///
    /// If the timeout passed while the process stood still, it begins anew once: a system that was suspended has sent nothing meanwhile.
    ///
    /// - Parameter hasProgressed: Whether bytes were sent since the last call. Evaluated at the deadline only.
    mutating func hasStalled(now: Instant, timeout: Duration, hasProgressed: @autoclosure () -> Bool) -> Bool {
        guard let deadline = self.stallDeadline, deadline <= now else { return false }
        self.stallDeadline = now.advanced(by: timeout)
        if hasProgressed() {
            self.hasBeenPatient = false
            return false
        }
        guard !self.hasBeenPatient, deadline.passedDuringStandstill(now: now) else { return true }
        self.hasBeenPatient = true
        return false
    }

    /// The WebSocket is closing. Nothing is sent any more, and the peer's close frame must be read.
    mutating func close() { self.isReadingPaused = false }
}
