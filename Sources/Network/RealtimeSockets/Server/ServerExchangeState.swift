internal import RealtimeCore

extension HTTPServerExchange {
    enum Stage: Sendable {
        case waiting
        case streaming(ResponseFraming.Body)
        case ended
    }

    /// What becomes of a piece that waits for its reader.
    enum SendOutcome: Sendable {
        case write(ResponseFraming.Body)
        case wait
        case refuse(TransportError)
    }

    /// How far one answer is.
    struct State: Sendable {
        var stage = Stage.waiting
        /// Let go with the end: a handler may keep its responders for ever, and they keep nothing.
        var connection: HTTPServerConnection?
        var request: ResponseFraming.Request
        var hasClientGone = false
        var onDisconnect: (@Sendable () -> Void)?
        /// What this answer has put on the stream, in bytes.
        var enqueued = 0
        /// The connection looks whether the client reads.
        var isWatched = false
        var senders = WaitingTasks()

        var unsent: Int { self.connection?.stream.bufferedBytes ?? 0 }

        var sendOutcome: SendOutcome {
            switch self.stage {
            case .waiting: .refuse(TransportError(.unsupported, "The answer has no head yet: call begin before send."))
            case .ended: .refuse(TransportError(.closed, "The answer has ended: nothing can be sent after that."))
            case .streaming where self.connection == nil || self.hasClientGone:
                .refuse(TransportError(.closed, "The client has gone before the end of the answer."))
            case .streaming(let form): self.unsent > SocketStream.highWater ? .wait : .write(form)
            }
        }
    }

    /// What follows a step, outside the lock.
    struct Outcome: Sendable {
        var connection: HTTPServerConnection?
        var isOver = false
        var needsWatch = false
        var keepsAlive = false
        var released: (@Sendable () -> Void)?
        var senders: [WakeUp] = []
    }
}
