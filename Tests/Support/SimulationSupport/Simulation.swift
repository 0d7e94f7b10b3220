import RealtimeSystem
package import RealtimeCore

/// A broken invariant: something happened that must never happen, or a required event did not happen.
package struct Violation: Error, CustomStringConvertible {
    package let time: Instant
    package let text: String

    package var description: String { "\(Simulation.format(self.time)): \(self.text)" }
}

/// One run of a simulation: virtual time, a random number generator, what is scheduled, the tasks, a trace and the first violation.
///
/// A run is a loop on one thread. It takes the next timer or occurrence, advances the time to it, and then runs all tasks that are ready,
/// until a violation occurs or the given time is reached. The seed determines everything that happens: the same seed yields the same
/// trace. It knows neither a network nor a protocol; see ``VirtualNetwork`` and ``SimulatedClient``.
///
/// `@unchecked Sendable`: it is used only on the thread that created it, on which its tasks run as well. ``schedule(in:_:)`` checks that.
package final class Simulation: TimeSource, @unchecked Sendable {
    /// The cause of the current step.
    package enum Cause: Sendable {
        /// A call of the user.
        case caller
        /// Something that arrived over the network, or the result of work.
        case arrival
        /// An event of a connection that was abandoned, or the result of work that was cancelled. It must have no effect.
        case lateEvent
        case timer
    }

    /// How many steps may happen without the time advancing.
    private static let stepLimit = 20_000

    package let seed: UInt64
    package let isTracing: Bool
    /// The source of all random decisions of the network, the user and the servers.
    package var random: SplitMix64
    package private(set) var now = Instant(nanoseconds: 0)
    package private(set) var cause = Cause.caller
    /// The first violation. The run stops at it.
    package private(set) var violation: Violation?
    package private(set) var steps = 0
    /// One line for each step, if `isTracing` is set.
    package private(set) var trace: [String] = []
    /// Invariants that are checked after each step, when all tasks that were ready have run.
    package var invariants: [@Sendable () -> Void] = []

    private var scheduled = Schedule()
    private var timers = TimerQueue()
    private var firing: ObjectIdentifier?
    private var stepsAtThisTime = 0
    /// When the process continued after it had stood still. Timers that passed meanwhile fire now.
    private var continued: Instant?
    private var isStepping = false
    private var sleeping: [Int: @Sendable () -> Void] = [:]
    private var lastSleep = 0
    private var isAwake = false
    private var releases: [() -> Void] = []
    private let tasks: any TaskRunner
    private let thread: pthread_t = pthread_self()

    package init(seed: UInt64, isTracing: Bool = false) {
        self.seed = seed
        self.isTracing = isTracing
        self.random = SplitMix64(seed: seed)
        self.tasks = makeTaskRunner()
    }

    // MARK: Randomness

    /// Returns true with a probability in percent.
    package func chance(_ percent: Int) -> Bool { percent > 0 && Int.random(in: 0..<100, using: &self.random) < percent }

    package func random(in range: ClosedRange<Int64>) -> Int64 {
        range.lowerBound == range.upperBound ? range.lowerBound : Int64.random(in: range, using: &self.random)
    }

    package func choose<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &self.random)! }

    // MARK: Time

    /// Schedules an action after a random number of milliseconds.
    package func schedule(in milliseconds: ClosedRange<Int64>, _ action: @escaping @Sendable () -> Void) {
        self.schedule(at: self.now + self.random(in: milliseconds) * 1_000_000, action)
    }

    /// Schedules an action. Actions for the same time keep their order.
    package func schedule(at instant: Instant, _ action: @escaping @Sendable () -> Void) {
        precondition(pthread_equal(self.thread, pthread_self()) != 0, "a simulation is used on one thread; start tasks with task(_:)")
        self.scheduled.add(max(instant, self.now), action)
    }

    /// Suspends the current task for a duration of virtual time, or until it is cancelled.
    package func sleep(in milliseconds: ClosedRange<Int64>) async {
        guard !self.isAwake else { return }
        self.lastSleep += 1
        let (number, waiter) = (self.lastSleep, Waiter<Void>())
        let wakeUp: @Sendable () -> Void = { [self] in
            self.sleeping[number] = nil
            waiter.fulfill(())?.resume()
        }
        self.sleeping[number] = wakeUp
        self.schedule(in: milliseconds, wakeUp)
        await waiter.value(onCancel: wakeUp)
    }

    /// Wakes all tasks that sleep, and makes further sleeps return immediately: slow consumers are fast from now on.
    package func endSleeps() {
        self.isAwake = true
        self.cause = .arrival
        for (_, wakeUp) in self.sleeping.sorted(by: { $0.key < $1.key }) { wakeUp() }
        self.runTasks()
    }

    package func schedule(_ client: any TimerClient, at instant: Instant?) {
        if let instant {
            if instant < self.now, !self.hasLateTimers { self.fail("a timer was set for \(Self.format(instant)), which has passed") }
            if instant == self.now, self.firing == ObjectIdentifier(client) {
                self.fail("a timer that fired was set for the same time again: it would fire forever")
            }
        }
        self.timers.set(client, instant.map { max($0, self.now) })
    }

    /// Whether the current step is the firing of a client's timer.
    func isFiring(_ client: any TimerClient) -> Bool { self.firing == ObjectIdentifier(client) }

    /// Lets the process of all clients and servers stand still for a duration, as one that is suspended. What arrives in the meantime is read when it
    /// continues, before the timers that have passed fire.
    package func standStill(for duration: Duration) {
        self.note("the process stands still for \(duration)")
        self.now = self.now.advanced(by: duration)
        self.continued = self.now
    }

    /// Whether timers may wait that passed while the process stood still.
    var hasLateTimers: Bool { self.continued == self.now }

    // MARK: Tasks

    /// Starts a task that runs on the thread of the simulation, after the current step. Asynchronous code that a simulation calls must run
    /// in such a task, and must not start others.
    @discardableResult
    package func task(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> { self.tasks.start(body) }

    // MARK: Running

    /// Runs until a time, or until the first violation.
    package func run(until end: Instant) {
        self.runTasks()
        while self.violation == nil {
            guard let earliest = Instant.earliest(self.scheduled.earliest, self.timers.earliest), earliest < end else { break }
            let next = max(earliest, self.now)
            self.stepsAtThisTime = next == self.now ? self.stepsAtThisTime + 1 : 0
            if self.stepsAtThisTime > Self.stepLimit { self.fail("\(Self.stepLimit) steps without an advance of time") }
            self.now = next
            if let arrival = self.scheduled.earliest, arrival <= next {
                self.cause = .arrival
                self.scheduled.removeFirst()()
                self.runTasks()
            } else if let due = self.timers.popDue(next), let client = due.client {
                self.firing = ObjectIdentifier(client)
                self.step(.timer, "timer of \(type(of: client))") { client.timerFired() }
                self.firing = nil
            }
        }
        self.now = max(self.now, end)
    }

    /// Runs one step: an input of a client or a server, the tasks that it resumes, and then the invariants.
    package func step(_ cause: Cause, _ what: @autoclosure () -> String, _ body: () -> Void) {
        self.note("\(cause): \(what())")
        self.steps += 1
        let outer = (cause: self.cause, isStepping: self.isStepping)
        (self.cause, self.isStepping) = (cause, true)
        body()
        if outer.isStepping {
            // A step within another one, such as a call of a task.
            self.cause = outer.cause
            return
        }
        self.tasks.runAll()
        self.isStepping = false
        for invariant in self.invariants { invariant() }
    }

    private func runTasks() {
        self.isStepping = true
        let hasRun = self.tasks.runAll()
        self.isStepping = false
        guard hasRun else { return }
        for invariant in self.invariants { invariant() }
    }

    /// Records a violation. The first one ends the run.
    package func fail(_ text: String) {
        guard self.violation == nil else { return }
        self.note("VIOLATION: \(text)")
        self.violation = Violation(time: self.now, text: text)
    }

    /// Records a violation if a condition is false.
    package func require(_ condition: Bool, _ text: @autoclosure () -> String) {
        if !condition { self.fail(text()) }
    }

    /// Adds a line to the trace, which ends with the violation.
    package func note(_ text: @autoclosure () -> String) {
        if self.isTracing, self.violation == nil { self.trace.append("\(Self.format(self.now))  \(text())") }
    }

    /// Registers an action for the end of the run. The actions are performed in reverse order.
    package func atRelease(_ action: @escaping () -> Void) { self.releases.append(action) }

    /// Releases everything that belongs to the run. Required at its end, because what a run consists of refers to each other.
    package func release() {
        self.endSleeps()
        while let action = self.releases.popLast() { action() }
        self.runTasks()
        // What is released here may set a timer when it is deallocated, so it is released after the assignment.
        let released = (self.scheduled, self.invariants)
        (self.scheduled, self.invariants) = (Schedule(), [])
        _ = released
    }

    static func format(_ instant: Instant) -> String {
        let milliseconds = instant.nanoseconds / 1_000_000
        let fraction = String(milliseconds % 1000)
        return "\(milliseconds / 1000).\(String(repeating: "0", count: 3 - fraction.count))\(fraction) s"
    }
}
