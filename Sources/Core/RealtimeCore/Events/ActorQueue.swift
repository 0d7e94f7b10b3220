import RealtimeSystem

/// Runs closures on an actor, in the order in which they were scheduled. There is one queue for each actor.
///
/// Tasks that are created for an actor elsewhere reach it in any order, so the queue has one at a time.
final class ActorQueue: Sendable {
    private struct State: Sendable {
        var waiting: [@Sendable () -> Void] = []
        /// Whether there is a task, which takes what waits.
        var isRunning = false
    }

    private struct WeakQueue: Sendable {
        weak var queue: ActorQueue?
    }

    private static let queues = Lock<[ObjectIdentifier: WeakQueue]>([:])

    private let actor: any Actor
    private let state = Lock(State())

    private init(_ actor: any Actor) { self.actor = actor }

    deinit {
        let id = ObjectIdentifier(self.actor)
        // Another one may have taken its place.
        Self.queues.withLock { queues in if queues[id]?.queue == nil { queues[id] = nil } }
    }

    /// The queue of an actor, which keeps the actor alive.
    static func of(_ actor: any Actor) -> ActorQueue {
        self.queues.withLock { queues in
            let id = ObjectIdentifier(actor)
            if let queue = queues[id]?.queue { return queue }
            let queue = ActorQueue(actor)
            queues[id] = WeakQueue(queue: queue)
            return queue
        }
    }

    func schedule(_ closure: @escaping @Sendable () -> Void) {
        let begins = self.state.withLock { state in
            state.waiting.append(closure)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if begins { self.begin() }
    }

    private func begin() {
        // An unstructured task, since a callback has no caller. There is one at a time, which keeps the order, and it ends by itself: it runs what
        // waits, and nothing cancels or awaits it.
        Task { await self.runWaiting(on: self.actor) }
    }

    private func runWaiting(on actor: isolated any Actor) {
        let closures = self.state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        for closure in closures { closure() }
        let continues = self.state.withLock { state in
            state.isRunning = !state.waiting.isEmpty
            return state.isRunning
        }
        // In a task of its own, so that other work of the actor gets its turn.
        if continues { self.begin() }
    }
}
