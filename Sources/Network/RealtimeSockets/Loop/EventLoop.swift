internal import CRealtimeSystem
package import RealtimeCore
internal import RealtimeSystem

/// A thread that polls descriptors and fires timers.
///
/// A loop retains itself until ``shutdown()``.
package final class EventLoop: TimeSource {
    /// The loop of all clients. It is started on first use and never shut down.
    ///
    /// If the system is out of threads then, connections fail, and the next use tries again. If it is out of descriptors, the loop runs
    /// without a poller: connections fail too, jobs and timers run a little late, and the loop tries to create the poller until it succeeds.
    package static let shared = EventLoop(startingLater: "realtime")

    /// The loop that runs on the calling thread.
    static var current: EventLoop? {
        realtime_loop_of_thread().map { Unmanaged<EventLoop>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Statistics for tests and measurements.
    package struct Counters: Sendable {
        /// The number of waits for events.
        package var turns = 0
        /// The number of waits that another thread ended.
        package var wakeUps = 0
    }

    private enum Stage: Sendable {
        case unstarted, running, stopping, stopped
    }

    /// The time between two turns of a loop without a poller, in nanoseconds.
    private static let turnWithoutPoller: Int64 = 10_000_000

    /// The state that other threads access.
    private struct Shared: Sendable {
        var stage = Stage.unstarted
        var thread: PosixThread?
        /// The loop's poller, to end its wait. See `LoopState.poller`.
        var poller: Poller?
        var jobs: [@Sendable () -> Void] = []
        var serviceRequests: [any LoopServiced] = []
        /// Requests to serve at `delayedDue`, the instant of the first of them.
        var delayedRequests: [any LoopServiced] = []
        var delayedDue: Instant?
        /// The poller's timer is set for `delayedDue`.
        var isPollerTimerSet = false
        var timers = TimerQueue()
        /// The loop waits and nothing has ended the wait yet. While it does not wait, it notices changes without a wake-up.
        var isAsleep = false
        var sleepsUntil: Instant?
        var resources: [ObjectIdentifier: any AnyObject & Sendable] = [:]
        var counters = Counters()

        mutating func needsWakeUp(for instant: Instant? = nil) -> Bool {
            guard self.isAsleep else { return false }
            if let instant, let until = self.sleepsUntil, instant >= until { return false }
            self.isAsleep = false
            self.counters.wakeUps += 1
            return true
        }

        mutating func promoteDelayedRequests() {
            self.serviceRequests += self.delayedRequests
            self.delayedRequests.removeAll(keepingCapacity: self.delayedRequests.count < 1024)
            (self.delayedDue, self.isPollerTimerSet) = (nil, false)
        }
    }

    private struct Slot {
        var generation: UInt32
        var handler: (any PollHandler)?
    }

    /// The state of the loop's thread.
    private struct LoopState {
        /// `nil` while the system is out of descriptors.
        var poller: Poller?
        var slots: [Slot] = []
        var freeSlots: [UInt32] = []
        var runningJobs: [@Sendable () -> Void] = []
        var runningRequests: [any LoopServiced] = []
        var turn = 0
    }

    private let name: String
    private let shared: Lock<Shared>
    /// The longest time that sends are gathered if the loop has no other work for their stream, in nanoseconds.
    let turnLimit: Int64

    /// The buffer for all reads on the loop.
    ///
    /// `nonisolated(unsafe)`: the pointer never changes, and only the loop's thread accesses the memory until the loop is deinitialized.
    nonisolated(unsafe) let readBuffer: UnsafeMutableRawBufferPointer
    // See LoopBound.
    nonisolated(unsafe) private var onLoop = LoopBound(LoopState())

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - name: The thread's name.
    ///   - turnLimit: The longest time that a stream gathers sends. The first send is written immediately. The following ones are
    ///     gathered until the loop has serviced the stream or this time has passed. The stream requests service immediately, or, if it
    ///     is sent bursts, when the time has passed.
    /// - Throws: `TransportError` with the code `system` if the system cannot create a descriptor or the thread.
    package convenience init(_ name: String = "realtime-loop", turnLimit: Duration = .microseconds(100)) throws(TransportError) {
        let poller = try Poller()
        self.init(name, turnLimit, poller)
        guard self.shared.withLock({ self.start(&$0) }) else {
            poller.close()
            throw self.unavailable
        }
    }

    /// Creates a loop whose thread starts with the first job or timer.
    private convenience init(startingLater name: String) { self.init(name, .microseconds(100), nil) }

    private init(_ name: String, _ turnLimit: Duration, _ poller: Poller?) {
        self.name = name
        self.turnLimit = turnLimit.nanoseconds
        // A consumer is resumed once for each read: in a burst, fewer and larger reads cost less.
        self.readBuffer = .allocate(byteCount: 256 << 10, alignment: 16)
        var shared = Shared()
        shared.poller = poller
        self.shared = Lock(shared)
    }

    /// Starts the thread of a loop that has not been started.
    ///
    /// - Returns: Whether the loop is running.
    private func start(_ shared: inout Shared) -> Bool {
        if shared.stage == .unstarted, let thread = PosixThread(self.name, { self.run() }) {
            shared.stage = .running
            shared.thread = thread
        }
        return shared.stage == .running
    }

    /// The reason why the loop runs no jobs.
    var unavailable: TransportError {
        switch self.shared.withLock({ $0.stage }) {
        case .unstarted: .system(EAGAIN, "start a thread")
        case .running, .stopping, .stopped: TransportError(.closed, "The event loop was shut down. Use another one.")
        }
    }

    deinit {
        self.readBuffer.deallocate()
    }

    package var isOnLoop: Bool { realtime_loop_of_thread() == UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque()) }

    /// The number of scheduled timers, for tests and measurements.
    package var timerCount: Int { self.shared.withLock { $0.timers.count } }

    package var counters: Counters { self.shared.withLock { $0.counters } }

    /// Runs `job` on the loop's thread, after the events that are being handled. Jobs run in order.
    ///
    /// - Returns: `false` if the loop was shut down or cannot start. The job never runs then.
    @discardableResult
    package func execute(_ job: @escaping @Sendable () -> Void) -> Bool {
        self.shared.withLock { shared in
            guard self.start(&shared) else { return false }
            shared.jobs.append(job)
            // Under the lock, because the poller's descriptors are closed under it.
            if shared.needsWakeUp() { shared.poller?.wake() }
            return true
        }
    }

    /// Runs a closure in place of the loop's thread if that waits for events. It handles no event before the closure returns.
    ///
    /// The closure may use what belongs to the loop's thread. It must return soon, must not call the loop, and must not take a lock that is
    /// held while the loop is called.
    ///
    /// - Returns: `nil` if the thread doesn't wait. The closure isn't called then.
    func whileAsleep<Value>(_ body: () -> Value) -> Value? {
        self.shared.withLock { shared in
            guard shared.isAsleep else { return nil }
            let loop = realtime_loop_of_thread()
            realtime_set_loop_of_thread(Unmanaged.passUnretained(self).toOpaque())
            defer { realtime_set_loop_of_thread(loop) }
            return body()
        }
    }

    /// Calls `service()` of an object once, on the loop's thread.
    ///
    /// - Returns: `false` if the loop's thread has ended. The object is not serviced then.
    func requestService(of object: any LoopServiced) -> Bool {
        self.shared.withLock { shared in
            guard self.start(&shared) || shared.stage == .stopping else { return false }
            shared.serviceRequests.append(object)
            if shared.needsWakeUp() { shared.poller?.wake() }
            return true
        }
    }

    /// Calls `service()` of an object once, on the loop's thread, when `instant` has passed.
    ///
    /// For delays that are too short for ``schedule(_:at:)``. All delays have the same length, so the first request is the first one due.
    ///
    /// - Returns: `false` if the loop's thread has ended. The object is not serviced then.
    func requestService(of object: any LoopServiced, at instant: Instant) -> Bool {
        self.shared.withLock { shared in
            guard self.start(&shared) || shared.stage == .stopping else { return false }
            shared.delayedRequests.append(object)
            if shared.delayedDue == nil { shared.delayedDue = instant }
            if shared.isAsleep, !shared.isPollerTimerSet {
                shared.isPollerTimerSet = true
                shared.counters.wakeUps += 1
                shared.poller?.wake(after: self.now.nanosecondsUntil(instant))
            }
            return true
        }
    }

    /// Returns an object that the users of the loop share, one for each type. It lives as long as the loop. Called on any thread.
    func resource<Resource: AnyObject & Sendable>(_ type: Resource.Type, make: () -> Resource) -> Resource {
        self.shared.withLock { shared in
            if let resource = shared.resources[ObjectIdentifier(type)] as? Resource { return resource }
            let resource = make()
            shared.resources[ObjectIdentifier(type)] = resource
            return resource
        }
    }

    /// Ends all connections, runs the jobs that were enqueued before, and returns when the thread has ended and its descriptors are
    /// closed. On the loop's own thread it returns immediately.
    package func shutdown() {
        let thread = self.shared.withLock { shared -> PosixThread? in
            guard shared.stage == .running else { return nil }
            shared.stage = .stopping
            if shared.needsWakeUp() { shared.poller?.wake() }
            defer { shared.thread = nil }
            return shared.thread
        }
        if self.isOnLoop { thread?.detach() } else { thread?.join() }
    }

    // MARK: TimeSource

    package var now: Instant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    package func schedule(_ client: any TimerClient, at instant: Instant?) {
        self.shared.withLock { shared in
            guard shared.stage != .stopped else { return }
            shared.timers.set(client, instant)
            guard let instant else { return }
            _ = self.start(&shared)
            if shared.needsWakeUp(for: instant) { shared.poller?.wake() }
        }
    }

    package func performLater(_ job: @escaping @Sendable () -> Void) -> Bool { self.execute(job) }

    /// The number of the turn. Used on the loop's thread.
    var turn: Int { self.onLoop.value.turn }

    // MARK: Poll handlers, on the loop's thread

    /// Registers a handler. It need not have a descriptor yet.
    ///
    /// - Returns: A token that names this handler and no later one.
    func register(_ handler: any PollHandler) -> UInt64 {
        assert(self.isOnLoop)
        let index: UInt32
        if let free = self.onLoop.value.freeSlots.popLast() {
            index = free
            self.onLoop.value.slots[Int(index)].handler = handler
        } else {
            index = UInt32(self.onLoop.value.slots.count)
            self.onLoop.value.slots.append(Slot(generation: 0, handler: handler))
        }
        return UInt64(self.onLoop.value.slots[Int(index)].generation) << 32 | UInt64(index)
    }

    /// Deregisters a handler. Drops the events with its token that have been fetched already.
    func deregister(_ token: UInt64) {
        assert(self.isOnLoop)
        let index = UInt32(truncatingIfNeeded: token)
        self.onLoop.value.slots[Int(index)].handler = nil
        self.onLoop.value.slots[Int(index)].generation &+= 1
        self.onLoop.value.freeSlots.append(index)
    }

    /// Changes the readiness to poll for. An empty readiness removes the descriptor from the poller.
    ///
    /// A descriptor that is not removed reports errors and hang-ups for as long as it exists. So it must be removed before it is closed
    /// as well, because a child process may have a copy.
    ///
    /// - Returns: `false` if the system call fails.
    func poll(_ descriptor: Int32, _ token: UInt64, from old: Readiness, to new: Readiness) -> Bool {
        self.existingOrNewPoller()?.change(descriptor, token: token, from: old, to: new) ?? false
    }

    @inline(__always)
    private func handler(_ token: UInt64) -> (any PollHandler)? {
        let slot = self.onLoop.value.slots[Int(UInt32(truncatingIfNeeded: token))]
        return slot.generation == UInt32(token >> 32) ? slot.handler : nil
    }

    // MARK: The thread

    private func run() {
        realtime_set_loop_of_thread(Unmanaged.passUnretained(self).toOpaque())
        self.onLoop.bind()
        self.onLoop.value.poller = self.shared.withLock { $0.poller }
        PosixThread.blockBrokenPipeSignal()
        while let limit = self.fallAsleep() {
            let poller = self.onLoop.value.poller
            let count = poller?.wait(nanoseconds: limit < 0 ? nil : limit) ?? self.waitWithoutPoller(limit)
            self.shared.withLock { shared in
                shared.isAsleep = false
                // The poller's timer may have expired, perhaps a little early by the loop's clock: `fallAsleep` sets it again if needed.
                shared.isPollerTimerSet = false
            }
            // Timers that become due later fire in the next turn, after the descriptors: if the thread is late, what happened in time counts
            // as in time.
            let turnStart = self.now
            self.handle(count, of: poller)
            if let poller, count == Poller.capacity { self.handleEventsBeforeLateTimers(poller, turnStart) }
            self.runJobs()
            self.fireTimers(due: turnStart)
        }
        self.runLastTurn()
        realtime_set_loop_of_thread(nil)
    }

    /// Handles the events of the latest wait.
    private func handle(_ count: Int, of poller: Poller?) {
        self.onLoop.value.turn &+= 1
        for index in 0..<count {
            guard let event = poller?.event(index) else { continue }
            self.handler(event.token)?.ready(event.readiness)
        }
    }

    /// Handles the events that didn't fit into the latest wait, if timers passed during a standstill: they must find what all descriptors have
    /// received meanwhile, not only the first ones.
    ///
    /// Timers that are less late fire after one wait, as always. Late ones can't starve, however busy the loop is: the poller reports ready
    /// descriptors in turn, so each one that was ready has been reported after as many events as there may be, at most two for each handler, and
    /// then the timers fire, whatever has arrived since. Of a process that is late because it is busy, this handles the events that the next turns
    /// would, and delays timers that are late by more than a second already by one pass over the descriptors at most.
    private func handleEventsBeforeLateTimers(_ poller: Poller, _ turnStart: Instant) {
        let earliest = self.shared.withLock { $0.timers.earliest }
        guard let earliest, earliest.passedDuringStandstill(now: turnStart) else { return }
        var waits = 2 * self.onLoop.value.slots.count / Poller.capacity + 1
        var count = Poller.capacity
        while count == Poller.capacity, waits > 0 {
            waits -= 1
            count = poller.wait(nanoseconds: 0)
            self.handle(count, of: poller)
        }
    }

    /// Tries to create the poller, and otherwise waits a short time, because nothing can end the wait.
    ///
    /// - Returns: 0, the number of events. The next turn uses the poller: its thread may have been asked to wake up before it had one.
    private func waitWithoutPoller(_ limit: Int64) -> Int {
        guard self.existingOrNewPoller() == nil else { return 0 }
        let wait = limit < 0 ? Self.turnWithoutPoller : min(limit, Self.turnWithoutPoller)
        var time = timespec(tv_sec: 0, tv_nsec: Int(wait))
        nanosleep(&time, nil)
        return 0
    }

    /// - Returns: `nil` if the system is out of descriptors.
    private func existingOrNewPoller() -> Poller? {
        if let poller = self.onLoop.value.poller { return poller }
        guard let poller = try? Poller() else { return nil }
        self.onLoop.value.poller = poller
        self.shared.withLock { $0.poller = poller }
        return poller
    }

    /// Returns how long to wait in nanoseconds: a negative number to wait without a limit, `nil` to stop.
    private func fallAsleep() -> Int64? {
        self.shared.withLock { shared -> Int64? in
            guard shared.stage == .running else { return nil }
            shared.counters.turns += 1
            guard shared.jobs.isEmpty, shared.serviceRequests.isEmpty else { return 0 }
            if let due = shared.delayedDue, !shared.isPollerTimerSet {
                let wait = self.now.nanosecondsUntil(due)
                guard wait > 0 else { return 0 }
                shared.isPollerTimerSet = true
                shared.poller?.wake(after: wait)
            }
            shared.sleepsUntil = shared.timers.earliest
            let limit = shared.sleepsUntil.map { max(0, self.now.nanosecondsUntil($0)) } ?? -1
            shared.isAsleep = limit != 0
            return limit
        }
    }

    /// Runs the jobs and service requests of this turn. Those that they add run in the next turn, after the descriptors.
    private func runJobs() {
        let isAnyPending = self.shared.withLock { shared -> Bool in
            if let due = shared.delayedDue, due <= self.now { shared.promoteDelayedRequests() }
            guard !(shared.jobs.isEmpty && shared.serviceRequests.isEmpty) else { return false }
            swap(&shared.jobs, &self.onLoop.value.runningJobs)
            swap(&shared.serviceRequests, &self.onLoop.value.runningRequests)
            return true
        }
        guard isAnyPending else { return }
        for job in self.onLoop.value.runningJobs { job() }
        for object in self.onLoop.value.runningRequests { object.service() }
        self.onLoop.value.runningJobs.removeAll(keepingCapacity: self.onLoop.value.runningJobs.count < 1024)
        self.onLoop.value.runningRequests.removeAll(keepingCapacity: self.onLoop.value.runningRequests.count < 1024)
    }

    private func fireTimers(due now: Instant) {
        while true {
            let client = self.shared.withLock { shared -> (any TimerClient)?? in shared.timers.popDue(now).map(\.client) }
            guard case .some(let due) = client else { return }
            due?.timerFired()
        }
    }

    private func runLastTurn() {
        self.runJobs()
        var hasHandlers = true
        while hasHandlers {
            hasHandlers = false
            // A handler that is notified may register others.
            for index in self.onLoop.value.slots.indices {
                guard let handler = self.onLoop.value.slots[index].handler else { continue }
                hasHandlers = true
                handler.loopDidShutDown()
            }
        }
        self.runJobs()
        let remaining = self.shared.withLock { shared -> Shared in
            shared.stage = .stopped
            shared.promoteDelayedRequests()
            shared.poller.take()?.close()
            defer {
                shared.jobs = []
                shared.serviceRequests = []
                shared.timers = TimerQueue()
            }
            return shared
        }
        // Releases what they hold outside the lock. Streams close whose last write has just ended.
        for object in remaining.serviceRequests { object.service() }
    }
}

extension Instant {
    fileprivate func nanosecondsUntil(_ other: Instant) -> Int64 {
        let (difference, overflow) = other.nanoseconds.subtractingReportingOverflow(self.nanoseconds)
        return overflow ? .max : difference
    }
}
