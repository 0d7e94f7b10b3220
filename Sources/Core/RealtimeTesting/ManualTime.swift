package import RealtimeCore
import RealtimeSystem

/// The time of a ``ManualClock`` as clients, servers and the network see it.
package final class ManualTime: TimeSource {
    private struct WeakObserver: Sendable {
        weak var value: (any StandstillObserver)?
    }

    private struct WeakNetwork: Sendable {
        weak var value: InMemoryNetwork?
    }

    private struct State: Sendable {
        var now = Instant(nanoseconds: 0)
        var timers = TimerQueue()
        /// The timers of clients that only observe.
        var observing = TimerQueue()
        /// The tasks that sleep, which are also in `timers`.
        var sleeping: Set<ObjectIdentifier> = []
        /// The networks whose clients and servers use this time.
        var networks: [WeakNetwork] = []
        var observers: [WeakObserver] = []
        /// The number of observers at which the released ones are removed.
        var observerLimit = 64
        var isWatched = false
        /// The real time that has elapsed since the last change of the time or of a timer.
        var standstill = Duration.zero

        /// Removes the first timer that is due.
        mutating func popDue(_ now: Instant) -> (instant: Instant, client: (any TimerClient)?)? {
            let observes = self.observing.earliest.map { $0 < self.timers.earliest ?? .max } ?? false
            return observes ? self.observing.popDue(now) : self.timers.popDue(now)
        }
    }

    private let state = Lock(State())
    private let standstillLimit: Duration?

    /// - Parameter standstillLimit: How much real time may pass while the clock stands still and a task waits; `nil` for no limit.
    init(standstillLimit: Duration?) {
        self.standstillLimit = standstillLimit
    }

    package var now: Instant { self.state.withLock { $0.now } }

    var nextDeadline: Instant? { self.state.withLock { $0.timers.earliest } }

    package func schedule(_ client: any TimerClient, at instant: Instant?) {
        self.state.withLock { state in
            if client.onlyObserves { return state.observing.set(client, instant) }
            state.standstill = .zero
            state.timers.set(client, instant)
        }
    }

    package func advance(to instant: Instant) {
        let networks = self.state.withLock { $0.networks }
        // Other threads may be processing events that set timers.
        for network in networks { network.value?.waitUntilIdle() }
        while let due = self.next(until: instant) { due.timerFired() }
        self.state.withLock { state in
            state.standstill = .zero
            state.now = max(state.now, instant)
        }
        for network in networks { network.value?.waitUntilIdle() }
    }

    /// Advances the time without firing timers, and then fires those that are due, late.
    func standStill(until instant: Instant) {
        let networks = self.state.withLock { $0.networks }
        for network in networks { network.value?.waitUntilIdle() }
        self.state.withLock { $0.now = max($0.now, instant) }
        self.advance(to: instant)
    }

    func add(_ network: InMemoryNetwork) {
        self.state.withLock { $0.networks.append(WeakNetwork(value: network)) }
    }

    private func next(until instant: Instant) -> (any TimerClient)? {
        self.state.withLock { state in
            while let due = state.popDue(instant) {
                state.now = max(state.now, due.instant)
                guard let client = due.client else { continue }
                state.sleeping.remove(ObjectIdentifier(client))
                return client
            }
            return nil
        }
    }

    // MARK: Sleeping

    var sleepingTaskCount: Int { self.state.withLock { $0.sleeping.count } }

    /// Sets the timer of a sleeping task.
    ///
    /// - Returns: `false` if the instant isn't later than now.
    func sleep(_ sleeper: any TimerClient, until instant: Instant) -> Bool {
        self.state.withLock { state in
            guard instant > state.now else { return false }
            state.timers.set(sleeper, instant)
            state.sleeping.insert(ObjectIdentifier(sleeper))
            return true
        }
    }

    /// Removes the timer of a sleeping task that was cancelled.
    func cancelSleep(_ sleeper: any TimerClient) {
        self.state.withLock { state in
            state.timers.set(sleeper, nil)
            state.sleeping.remove(ObjectIdentifier(sleeper))
        }
    }

    // MARK: Standstill

    package func addStandstillObserver(_ observer: any StandstillObserver) {
        guard self.standstillLimit != nil else { return }
        let (isFirst, observers) = self.state.withLock { state in
            state.observers.append(WeakObserver(value: observer))
            var full: [WeakObserver] = []
            if state.observers.count > state.observerLimit { swap(&full, &state.observers) }
            defer { state.isWatched = true }
            return (!state.isWatched, full)
        }
        if isFirst { StandstillWatch.shared.add(self) }
        guard !observers.isEmpty else { return }
        // Runs without the lock: a reference may become the last one, whose release runs deinitializers.
        let remaining = observers.filter { $0.value != nil }
        self.state.withLock { state in
            state.observers += remaining
            state.observerLimit = max(64, 2 * state.observers.count)
        }
    }

    /// Real time has elapsed. Notifies the observers if the time of the clock has stood still for too long.
    package func elapsedInRealTime(_ duration: Duration) {
        guard let limit = self.standstillLimit else { return }
        let observers = self.state.withLock { state -> [WeakObserver] in
            state.standstill += duration
            guard state.standstill >= limit else { return [] }
            state.standstill = .zero
            return state.observers
        }
        for observer in observers {
            guard let message = observer.value?.timeStoodStill(for: limit) else { continue }
            LogSink.standard.log(.error, "manual-clock", message)
        }
    }
}

/// Tells all manual clocks of the process how much real time elapses.
///
/// The time is counted in short steps, so that a process that was suspended, for example by a debugger, or that has no processor time, has
/// the opportunity to continue before a limit is reached.
private final class StandstillWatch: Sendable {
    static let shared = StandstillWatch()

    private struct WeakTime: Sendable {
        weak var value: ManualTime?
    }

    private static let step = Duration.milliseconds(500)

    private let times = Lock<[WeakTime]>([])

    /// Watches the time of a clock until the clock is released.
    func add(_ time: ManualTime) {
        let isFirst = self.times.withLock { times in
            defer { times.append(WeakTime(value: time)) }
            return times.isEmpty
        }
        guard isFirst else { return }
        // No call waits for the watch, so it runs in a separate task. It ends when there are no more clocks.
        Task.detached { [self] in
            repeat { try? await Task.sleep(for: Self.step) } while self.notify()
        }
    }

    /// - Returns: Whether there are more clocks.
    private func notify() -> Bool {
        let times = self.times.withLock { times in
            times.removeAll { $0.value == nil }
            return times
        }
        for time in times { time.value?.elapsedInRealTime(Self.step) }
        return !times.isEmpty
    }
}
