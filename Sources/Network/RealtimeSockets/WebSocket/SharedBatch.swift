internal import RealtimeCore

/// The batch that the WebSockets of one loop decode into, one after another. An idle WebSocket has none.
final class SharedBatch: Sendable {
    // `nonisolated(unsafe)`: see `LoopBound`.
    nonisolated(unsafe) private var batch: LoopBound<MessageBatch>

    private init(_ loop: EventLoop) {
        self.batch = LoopBound(MessageBatch(), of: loop)
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
}
