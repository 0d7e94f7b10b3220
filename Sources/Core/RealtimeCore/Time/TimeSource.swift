/// The clock, and one wake-up per sleeper: the socket loop's timer, or a manual clock in tests.
package protocol TimeSource: AnyObject, Sendable {
    var now: Instant { get }

    /// Replaces the sleeper's earlier wish; `nil` takes it back.
    ///
    /// It only takes note and never calls back from within, so it may be called under a lock.
    /// It holds the sleeper weakly. It may wake it late, never early.
    func schedule(_ client: any TimerClient, at instant: Instant?)
}

package protocol TimerClient: AnyObject, Sendable {
    /// Called on the time source's own thread.
    func timerFired()
}

/// Who wants to be woken when.
package struct TimerQueue: Sendable {
    private struct Reference: Sendable {
        weak var client: (any TimerClient)?
    }

    private var deadlines = Deadlines<ObjectIdentifier, Reference>()

    package init() {}

    package var isEmpty: Bool { self.deadlines.isEmpty }

    /// How many wishes there are.
    package var count: Int { self.deadlines.count }

    package var earliest: Instant? { self.deadlines.earliest }

    package mutating func set(_ client: any TimerClient, _ instant: Instant?) {
        let key = ObjectIdentifier(client)
        if let instant {
            self.deadlines.set(key, instant, Reference(client: client))
        } else {
            self.deadlines.remove(key)
        }
    }

    /// Takes out the first wish that is due. The sleeper is `nil` when it is gone.
    package mutating func popDue(_ now: Instant) -> (instant: Instant, client: (any TimerClient)?)? {
        self.deadlines.popDue(now).map { ($0.instant, $0.companion.client) }
    }
}
