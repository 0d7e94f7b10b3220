internal import RealtimeCore

/// The batch that the WebSockets of one loop decode into, one after another, and the frames of a turn that they share. An idle WebSocket
/// has no batch.
final class SharedBatch: Sendable {
    // `nonisolated(unsafe)`: see `LoopBound`.
    nonisolated(unsafe) private var batch: LoopBound<MessageBatch>
    // `nonisolated(unsafe)`: used on the loop's thread only, which `LoopBound` checks in debug builds.
    nonisolated(unsafe) private var share: LoopBound<TurnShare>

    private init(_ loop: EventLoop) {
        self.batch = LoopBound(MessageBatch(), of: loop)
        self.share = LoopBound(TurnShare(), of: loop)
    }

    static func of(_ loop: EventLoop) -> SharedBatch { loop.resource(SharedBatch.self) { SharedBatch(loop) } }

    /// Returns an empty batch with the memory of the previous one.
    func take() -> MessageBatch {
        var batch = MessageBatch()
        swap(&batch, &self.batch.value)
        return batch
    }

    func putBack(_ batch: inout MessageBatch) {
        batch.removeAll()
        swap(&batch, &self.batch.value)
    }

    /// Returns the number of frames that a WebSocket may decode in a turn of the loop.
    func framesPerTurn(_ turn: Int) -> Int { self.share.value.frames(in: turn) }

    /// A WebSocket has decoded as many frames as it may in a turn of the loop, and has more.
    func exceededBudget(_ turn: Int) { self.share.value.exceeded(in: turn) }
}

/// Divides the frames of a turn of the loop among the WebSockets that receive more than they may decode in it.
struct TurnShare: Sendable {
    private var turn = 0
    /// The number of WebSockets that have reached their share in this turn.
    private var count = 0
    /// The same in the turn before.
    private var previousCount = 0

    mutating func frames(in turn: Int) -> Int {
        self.begin(turn)
        return max(Delivery.leastFramesPerTurn, Delivery.framesPerTurn / max(1, self.count, self.previousCount))
    }

    mutating func exceeded(in turn: Int) {
        self.begin(turn)
        self.count += 1
    }

    private mutating func begin(_ turn: Int) {
        guard turn != self.turn else { return }
        (self.previousCount, self.count) = (turn == self.turn &+ 1 ? self.count : 0, 0)
        self.turn = turn
    }
}
