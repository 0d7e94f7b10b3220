internal import RealtimeSystem
internal import CRealtimeSystem
package import RealtimeCore

/// What a descriptor is waited for, and what came.
struct Readiness: OptionSet, Sendable {
    let rawValue: UInt8

    static let read = Readiness(rawValue: 1)
    static let write = Readiness(rawValue: 2)
}

/// Somebody with a descriptor on a loop. Called on the loop's thread.
protocol PollHandler: AnyObject, Sendable {
    func ready(_ readiness: Readiness)
    /// The loop shuts down: close the descriptor and say so to whoever waits.
    func loopDidShutDown()
}

/// One thread that waits for many sockets and for one timer.
///
/// It is the ``TimeSource`` of everything on it. A loop holds itself until ``shutdown()``.
package final class EventLoop: TimeSource {
    /// The loop of all clients, started by whoever comes first. It is never shut down.
    ///
    /// It ends the process when the system refuses the descriptors or the thread: nothing could be done without.
    package static let shared: EventLoop = {
        do throws(TransportError) {
            return try EventLoop("realtime")
        } catch {
            fatalError(error.message)
        }
    }()

    /// The loop whose thread this is.
    static var current: EventLoop? {
        realtime_loop_of_thread().map { Unmanaged<EventLoop>.fromOpaque($0).takeUnretainedValue() }
    }

    /// For tests and measurements.
    package struct Counters: Sendable {
        /// How often the loop waited for something to happen.
        package var turns = 0
        /// How often another thread had to wake it.
        package var wakeUps = 0
    }

    private enum Stage: Sendable {
        case running, stopping, stopped
    }

    private struct Shared: Sendable {
        var stage = Stage.running
        var thread: PosixThread?
        var jobs: [@Sendable () -> Void] = []
        var streams: [SocketStream] = []
        /// Those to look after at `laterDue`, which is when the first of them is due.
        var laterStreams: [SocketStream] = []
        var laterDue: Instant?
        /// The poller wakes the loop then.
        var isTimerSet = false
        var wakes = TimerQueue()
        /// It waits, and nobody has woken it yet. Until then whatever is noted here is seen without a wake-up.
        var isAsleep = false
        var sleepsUntil: Instant?
        var counters = Counters()

        mutating func needsWakeUp(for instant: Instant? = nil) -> Bool {
            guard self.isAsleep else { return false }
            if let instant, let until = self.sleepsUntil, instant >= until { return false }
            self.isAsleep = false
            self.counters.wakeUps += 1
            return true
        }

        /// The streams whose time has come go to those that are looked after.
        mutating func takeLaterStreams() {
            self.streams += self.laterStreams
            self.laterStreams.removeAll(keepingCapacity: self.laterStreams.count < 1024)
            (self.laterDue, self.isTimerSet) = (nil, false)
        }
    }

    private struct Slot {
        var generation: UInt32
        var handler: (any PollHandler)?
    }

    private let shared = Lock(Shared())
    private let poller: Poller
    /// How long sends gather at the most when the loop has nothing to do with their stream.
    let turnLimit: Int64

    // `nonisolated(unsafe)`: these belong to the loop's thread, and are touched on no other after `init`.
    nonisolated(unsafe) let readBuffer: UnsafeMutableRawBufferPointer
    /// What WebSockets decode into, one after the other.
    nonisolated(unsafe) private var batch = MessageBatch()
    nonisolated(unsafe) private var slots: [Slot] = []
    nonisolated(unsafe) private var freeSlots: [UInt32] = []
    nonisolated(unsafe) private var runningJobs: [@Sendable () -> Void] = []
    nonisolated(unsafe) private var runningStreams: [SocketStream] = []

    /// Starts the thread.
    ///
    /// - Parameter turnLimit: a stream's first send is written at once and the next ones gather until the loop has
    ///   dealt with the stream, or until this has passed since. It is called for that at once, and for bursts at the end.
    package init(_ name: String = "realtime-loop", turnLimit: Duration = .microseconds(100)) throws(TransportError) {
        self.poller = try Poller()
        self.turnLimit = turnLimit.nanoseconds
        self.readBuffer = .allocate(byteCount: 64 << 10, alignment: 16)
        guard let thread = PosixThread(name, { self.run() }) else {
            self.poller.close()
            throw .system(EAGAIN, "start a thread")
        }
        self.shared.withLock { $0.thread = thread }
    }

    deinit {
        self.readBuffer.deallocate()
    }

    /// On the loop's thread: an empty batch with the memory of the last one.
    func takeBatch() -> MessageBatch {
        var batch = MessageBatch()
        swap(&batch, &self.batch)
        return batch
    }

    func giveBack(_ batch: inout MessageBatch) {
        batch.removeAll()
        swap(&batch, &self.batch)
    }

    package var isOnLoop: Bool { EventLoop.current === self }

    /// How many wait to be woken: for tests and measurements.
    package var sleepers: Int { self.shared.withLock { $0.wakes.count } }

    package var counters: Counters { self.shared.withLock { $0.counters } }

    /// Runs `job` on the loop's thread, after the events that are being dealt with. Jobs run in order.
    ///
    /// - Returns: false when the loop was shut down: then the job never runs.
    @discardableResult
    package func execute(_ job: @escaping @Sendable () -> Void) -> Bool {
        self.shared.withLock { shared in
            guard shared.stage == .running else { return false }
            shared.jobs.append(job)
            // Under the lock, so that the number of the bell is still ours.
            if shared.needsWakeUp() { self.poller.wake() }
            return true
        }
    }

    /// Has the loop look after a stream once. False when its thread is gone.
    func service(to stream: SocketStream) -> Bool {
        self.shared.withLock { shared in
            guard shared.stage != .stopped else { return false }
            shared.streams.append(stream)
            if shared.needsWakeUp() { self.poller.wake() }
            return true
        }
    }

    /// The same, not before `instant`, unless it has something to do with the stream anyway.
    ///
    /// It is for times that are too short for ``wake(_:at:)``. They are all alike, so the first to come is the first to be due.
    func service(to stream: SocketStream, at instant: Instant) -> Bool {
        self.shared.withLock { shared in
            guard shared.stage != .stopped else { return false }
            shared.laterStreams.append(stream)
            if shared.laterDue == nil { shared.laterDue = instant }
            if shared.isAsleep, !shared.isTimerSet {
                shared.isTimerSet = true
                shared.counters.wakeUps += 1
                self.poller.wake(after: self.now.nanosecondsUntil(instant))
            }
            return true
        }
    }

    /// Ends every connection, runs the jobs that were there before, and returns when the thread is gone and its
    /// descriptors are closed. Called on the loop's own thread it cannot wait for that.
    package func shutdown() {
        let thread = self.shared.withLock { shared -> PosixThread? in
            guard shared.stage == .running else { return nil }
            shared.stage = .stopping
            if shared.needsWakeUp() { self.poller.wake() }
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
            shared.wakes.set(client, instant)
            if let instant, shared.needsWakeUp(for: instant) { self.poller.wake() }
        }
    }

    // MARK: Residents, on the loop's thread

    /// A place on the loop, for a descriptor that may come later. The token names this resident and no later one.
    func register(_ handler: any PollHandler) -> UInt64 {
        assert(self.isOnLoop)
        let index: UInt32
        if let free = self.freeSlots.popLast() {
            index = free
            self.slots[Int(index)].handler = handler
        } else {
            index = UInt32(self.slots.count)
            self.slots.append(Slot(generation: 0, handler: handler))
        }
        return UInt64(self.slots[Int(index)].generation) << 32 | UInt64(index)
    }

    /// Events that were fetched already and carry the token are dropped from here on.
    func deregister(_ token: UInt64) {
        assert(self.isOnLoop)
        let index = UInt32(truncatingIfNeeded: token)
        self.slots[Int(index)].handler = nil
        self.slots[Int(index)].generation &+= 1
        self.freeSlots.append(index)
    }

    /// Changes what is waited for. Nothing at all takes the descriptor out, since an error or a hang-up would else be
    /// reported for ever; it has to be taken out so before it is closed, in case a child process still holds a copy.
    func poll(_ descriptor: Int32, _ token: UInt64, from old: Readiness, to new: Readiness) -> Bool {
        self.poller.change(descriptor, token: token, from: old, to: new)
    }

    @inline(__always)
    private func handler(_ token: UInt64) -> (any PollHandler)? {
        let slot = self.slots[Int(UInt32(truncatingIfNeeded: token))]
        return slot.generation == UInt32(token >> 32) ? slot.handler : nil
    }

    // MARK: The thread

    private func run() {
        realtime_set_loop_of_thread(Unmanaged.passUnretained(self).toOpaque())
        blockBrokenPipeSignal()
        while let limit = self.fallAsleep() {
            let count = self.poller.wait(nanoseconds: limit < 0 ? nil : limit)
            self.shared.withLock { shared in
                shared.isAsleep = false
                // It may have gone off, and by another clock than ours a little too early: it is set again where it is still wanted.
                shared.isTimerSet = false
            }
            for index in 0..<count {
                guard let event = self.poller.event(index) else { continue }
                self.handler(event.token)?.ready(event.readiness)
            }
            self.runJobs()
            self.fireTimers()
        }
        self.runLastTurn()
        realtime_set_loop_of_thread(nil)
    }

    /// How long to wait: negative for ever, `nil` to stop.
    private func fallAsleep() -> Int64? {
        self.shared.withLock { shared -> Int64? in
            guard shared.stage == .running else { return nil }
            shared.counters.turns += 1
            guard shared.jobs.isEmpty, shared.streams.isEmpty else { return 0 }
            if let due = shared.laterDue, !shared.isTimerSet {
                let wait = self.now.nanosecondsUntil(due)
                guard wait > 0 else { return 0 }
                shared.isTimerSet = true
                self.poller.wake(after: wait)
            }
            shared.sleepsUntil = shared.wakes.earliest
            let limit = shared.sleepsUntil.map { max(0, self.now.nanosecondsUntil($0)) } ?? -1
            shared.isAsleep = limit != 0
            return limit
        }
    }

    /// Those that are there now: what they add has to wait until the sockets had their turn.
    private func runJobs() {
        let any = self.shared.withLock { shared -> Bool in
            if let due = shared.laterDue, due <= self.now { shared.takeLaterStreams() }
            guard !(shared.jobs.isEmpty && shared.streams.isEmpty) else { return false }
            swap(&shared.jobs, &self.runningJobs)
            swap(&shared.streams, &self.runningStreams)
            return true
        }
        guard any else { return }
        for job in self.runningJobs { job() }
        for stream in self.runningStreams { stream.service() }
        self.runningJobs.removeAll(keepingCapacity: self.runningJobs.count < 1024)
        self.runningStreams.removeAll(keepingCapacity: self.runningStreams.count < 1024)
    }

    private func fireTimers() {
        // One look at the clock for all: those that fall due meanwhile come with the next turn.
        var now: Instant?
        while true {
            let client = self.shared.withLock { shared -> (any TimerClient)?? in
                guard !shared.wakes.isEmpty else { return .none }
                if now == nil { now = self.now }
                return shared.wakes.popDue(now!).map(\.client)
            }
            guard case .some(let due) = client else { return }
            due?.timerFired()
        }
    }

    /// The last turn.
    private func runLastTurn() {
        self.runJobs()
        var isInhabited = true
        while isInhabited {
            isInhabited = false
            // Those who are told may bring in others.
            for index in self.slots.indices {
                guard let handler = self.slots[index].handler else { continue }
                isInhabited = true
                handler.loopDidShutDown()
            }
        }
        self.runJobs()
        let rest = self.shared.withLock { shared -> Shared in
            shared.stage = .stopped
            shared.takeLaterStreams()
            self.poller.close()
            defer {
                shared.jobs = []
                shared.streams = []
                shared.wakes = TimerQueue()
            }
            return shared
        }
        // What they hold is let go outside the lock, and streams whose last write has just ended are closed.
        for stream in rest.streams { stream.service() }
    }
}

extension Instant {
    fileprivate func nanosecondsUntil(_ other: Instant) -> Int64 {
        let (difference, overflow) = other.nanoseconds.subtractingReportingOverflow(self.nanoseconds)
        return overflow ? .max : difference
    }
}
