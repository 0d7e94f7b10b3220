/// A monotonic clock with one timer per client: an event loop, the system's timers, or a manual clock in tests.
package protocol TimeSource: AnyObject, Sendable {
    var now: Instant { get }

    /// Schedules the client's timer. Replaces its pending timer, if any; `nil` cancels it.
    ///
    /// Never calls the client synchronously, so that it can be called under a lock. The client is referenced weakly. A timer may fire
    /// late, but never early.
    func schedule(_ client: any TimerClient, at instant: Instant?)

    /// Performs a job on the time source's own thread, after the work that waits there already.
    ///
    /// - Returns: `false` if there is no such thread, which is the default. The job isn't performed then.
    func performLater(_ job: @escaping @Sendable () -> Void) -> Bool

    /// Registers an object whose tasks would wait forever if the time did not advance. The observer is referenced weakly.
    ///
    /// Only the clocks of tests can stand still. Does nothing by default.
    func addStandstillObserver(_ observer: any StandstillObserver)
}

extension TimeSource {
    package func performLater(_ job: @escaping @Sendable () -> Void) -> Bool { false }
    package func addStandstillObserver(_ observer: any StandstillObserver) {}
}

/// An object for whose results or events tasks wait.
package protocol StandstillObserver: AnyObject, Sendable {
    /// The time did not advance for this duration of real time. Called without a lock held.
    ///
    /// - Returns: A message for the developer of the test, unless the tasks that waited have received one.
    func timeStoodStill(for duration: Duration) -> String?
}

/// An object with a timer.
package protocol TimerClient: AnyObject, Sendable {
    /// Whether the timer only observes. A manual clock fires it like any other, but it isn't the next deadline to which a test advances the
    /// clock.
    var onlyObserves: Bool { get }

    /// The timer has fired. Called on the time source's own thread, without a lock held.
    func timerFired()
}

extension TimerClient {
    package var onlyObserves: Bool { false }
}

/// The pending timers of a time source, ordered by time.
package struct TimerQueue: Sendable {
    private struct Reference: Sendable {
        weak var client: (any TimerClient)?
    }

    private var deadlines = Deadlines<ObjectIdentifier, Reference>()

    package init() {}

    package var isEmpty: Bool { self.deadlines.isEmpty }

    /// The number of pending timers.
    package var count: Int { self.deadlines.count }

    package var earliest: Instant? { self.deadlines.earliest }

    /// Sets the client's timer; `nil` removes it.
    package mutating func set(_ client: any TimerClient, _ instant: Instant?) {
        let key = ObjectIdentifier(client)
        if let instant {
            self.deadlines.set(key, instant, Reference(client: client))
        } else {
            self.deadlines.remove(key)
        }
    }

    /// Removes the first timer that is due. The client is `nil` if it was deallocated.
    package mutating func popDue(_ now: Instant) -> (instant: Instant, client: (any TimerClient)?)? {
        self.deadlines.popDue(now).map { ($0.instant, $0.companion.client) }
    }
}
