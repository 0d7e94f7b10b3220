import RealtimeSystem
package import RealtimeCore

/// A session machine that reports the effects of each input to an inspector, before the driver performs them.
///
/// The driver tolerates some mistakes of a machine, such as a message on a connection that has ended. This way, a simulation finds them. It
/// forwards every requirement of `SessionMachine`, also those with a default implementation.
package struct InspectedMachine<Machine: SessionMachine>: SessionMachine {
    package typealias Event = Machine.Event
    package typealias WaiterResult = Machine.WaiterResult
    package typealias Failure = Machine.Failure
    package typealias Request = Machine.Request
    package typealias Work = Machine.Work
    package typealias WorkProgress = Machine.WorkProgress
    package typealias WorkResult = Machine.WorkResult

    package var machine: Machine
    let inspector: EffectInspector<Machine>

    package var nextDeadline: Instant? { self.machine.nextDeadline }

    package mutating func start(now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.start(now: now, &$1) }
    }

    package mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.stop(now: now, &$1) }
    }

    package mutating func release(now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.release(now: now, &$1) }
    }

    package mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.opened(id, head: head, now: now, &$1) }
    }

    package mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        // Not a closure, which can't capture the borrowed batch.
        let deadline = self.machine.nextDeadline
        var inner = self.begin(&effects)
        self.machine.received(id, batch, now: now, &inner)
        self.finish(inner, &effects, deadline)
    }

    package mutating func received(
        _ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int, now: Instant, _ effects: inout Effects<Self>
    ) -> Int {
        let deadline = self.machine.nextDeadline
        var inner = self.begin(&effects)
        let end = self.machine.received(id, batch, from: start, now: now, &inner)
        self.finish(inner, &effects, deadline)
        return end
    }

    package mutating func receivedPart(_ id: ConnectionID, byteCount: Int, now: Instant) {
        self.machine.receivedPart(id, byteCount: byteCount, now: now)
    }

    package mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {
        self.machine.reading(id, paused: paused, now: now)
    }

    package mutating func writing(_ id: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.writing(id, paused: paused, now: now, &$1) }
    }

    package mutating func unsent(_ id: ConnectionID, _ messages: [TransportMessage], now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.unsent(id, messages, now: now, &$1) }
    }

    package mutating func answered(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.answered(waiter, &$1) }
    }

    package mutating func unanswered(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.unanswered(waiter, &$1) }
    }

    package mutating func overflowed(_ consumer: ConsumerID, now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.overflowed(consumer, now: now, &$1) }
    }

    package mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.closed(id, reason, now: now, &$1) }
    }

    package mutating func workProgressed(_ id: WorkID, _ progress: WorkProgress, now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.workProgressed(id, progress, now: now, &$1) }
    }

    package mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        self.inspector.workFinished(id)
        self.step(&effects) { $0.workFinished(id, result, now: now, &$1) }
    }

    package mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.timeout(now: now, &$1) }
    }

    package mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        self.step(&effects) { $0.cancelled(waiter, now: now, &$1) }
    }

    package func cancellation(of waiter: WaiterID) -> Failure { self.machine.cancellation(of: waiter) }

    package func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> Failure { self.machine.timedOut(waiter, after: limit) }
    package var inactivity: String? { self.machine.inactivity }

    // MARK: Inspection

    /// Steps the machine with any input, and inspects the effects.
    package mutating func step(_ effects: inout Effects<Self>, _ input: (inout Machine, inout Effects<Machine>) -> Void) {
        let deadline = self.machine.nextDeadline
        var inner = self.begin(&effects)
        input(&self.machine, &inner)
        self.finish(inner, &effects, deadline)
    }

    private func begin(_ effects: inout Effects<Self>) -> Effects<Machine> {
        var inner = Effects<Machine>(logLevel: effects.logLevel)
        inner.counters = effects.counters
        // Moved instead of copied, so that the machine changes the routes in place.
        swap(&inner.routes, &effects.routes)
        return inner
    }

    private func finish(_ inner: Effects<Machine>, _ effects: inout Effects<Self>, _ deadline: Instant?) {
        self.inspector.inspect(inner, of: self.machine, previousDeadline: deadline)
        effects.counters = inner.counters
        effects.routes = inner.routes
        for command in inner.commands { effects.commands.append(Self.convert(command)) }
        var start = 0
        for run in inner.runs {
            for event in inner.deliveries[start..<run.end] { effects.deliver(event, on: run.route) }
            start = run.end
        }
    }

    private static func convert(_ command: Effects<Machine>.Command) -> Effects<Self>.Command {
        switch command {
        case .open(let id, let request): .open(id, request)
        case .send(let id, let message): .send(id, message)
        case .close(let id, let code, let reason): .close(id, code, reason: reason)
        case .abandon(let id): .abandon(id)
        case .reading(let id, let isPaused): .reading(id, paused: isPaused)
        case .work(let id, let work): .work(id, work)
        case .cancel(let id): .cancel(id)
        case .resume(let id, let result): .resume(id, result)
        case .awaitAnswer(let waiter, let id): .awaitAnswer(waiter, on: id)
        case .ignored(let id): .ignored(id)
        case .endConsumers(let ids, let reason): .endConsumers(ids, reason)
        case .finish(let reason): .finish(reason)
        case .log(let level, let text): .log(level, text)
        case .release(let value): .release(value)
        }
    }
}

/// The expectations of a client that differ from protocol to protocol.
package struct ClientRules: Sendable {
    /// The number of connections and attempts at a time, besides those that close. More than one is for protocols that probe a second
    /// connection.
    package var connectionLimit = 1
    /// Whether the client closes a connection only when the user calls it.
    package var closesOnlyForCaller = true
    /// Whether the client abandons a connection only when the user calls it or after a fault.
    package var abandonsOnlyAfterFaults = true

    package init() {}
}

/// Checks the effects of a session machine: the invariants that hold for every protocol.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class EffectInspector<Machine: SessionMachine>: @unchecked Sendable {
    let simulation: Simulation
    let rules: ClientRules
    /// The connections that the machine uses, and those that it has closed but that haven't ended.
    private(set) var current: Set<ConnectionID> = []
    private(set) var closing: Set<ConnectionID> = []
    private(set) var runningWorks: [WorkID: Machine.Work] = [:]
    private(set) var hasFinished = true
    var totals = ClientTotals()
    /// The client's end of a connection.
    var connection: (ConnectionID) -> (any SimulatedConnection)? = { _ in nil }
    /// The number of faults of HTTP requests on the network.
    var exchangeFaults: () -> Int = { 0 }
    /// That number at the start of the last work, and the connections before whose opening it has grown: a slow negotiation leaves an
    /// attempt less time.
    private var faultsBeforeWork = 0
    private var openedAfterFaults: Set<ConnectionID> = []
    /// Checks of the protocol, called before the driver performs an effect.
    var onCommand: (Effects<Machine>.Command) -> Void = { _ in }
    var onDelivery: (Machine.Event, [ConsumerID]) -> Void = { _, _ in }
    /// Called with work that was cancelled before it finished.
    var onCancel: (WorkID, Machine.Work) -> Void = { _, _ in }

    private var resumed: Set<WaiterID> = []
    private var startedWorks: Set<WorkID> = []
    private var lastOpened = ConnectionID(rawValue: 0)

    init(_ simulation: Simulation, _ rules: ClientRules) {
        self.simulation = simulation
        self.rules = rules
    }

    func ended(_ id: ConnectionID) {
        self.current.remove(id)
        self.closing.remove(id)
    }

    func workFinished(_ id: WorkID) { self.runningWorks[id] = nil }

    func inspect(_ effects: Effects<Machine>, of machine: Machine, previousDeadline: Instant?) {
        let simulation = self.simulation
        if simulation.cause == .lateEvent {
            let commands = effects.commands.filter { if case .log = $0 { false } else { true } }
            simulation.require(
                commands.isEmpty && effects.deliveries.isEmpty && machine.nextDeadline == previousDeadline,
                "a late event had an effect: \(commands) \(effects.deliveries)")
        }
        if self.hasFinished, simulation.cause != .caller {
            simulation.require(effects.deliveries.isEmpty, "events were delivered after the end: \(effects.deliveries)")
        }
        var start = 0
        for run in effects.runs {
            let consumers = effects.routes[run.route]
            simulation.require(!consumers.isEmpty, "an event was delivered to no consumer")
            for event in effects.deliveries[start..<run.end] {
                self.totals.events += 1
                self.onDelivery(event, consumers)
            }
            start = run.end
        }
        for command in effects.commands {
            self.inspect(command)
            self.onCommand(command)
        }
    }

    private func inspect(_ command: Effects<Machine>.Command) {
        let (simulation, cause) = (self.simulation, self.simulation.cause)
        switch command {
        case .open(let id, _):
            simulation.note("  open \(id)")
            simulation.require(id > self.lastOpened, "\(id) was opened after \(self.lastOpened)")
            let open = self.current.subtracting(self.closing)
            simulation.require(open.count < self.rules.connectionLimit, "\(id) was opened while \(open.sorted()) are open")
            simulation.require(!self.hasFinished || cause == .caller, "\(id) was opened after the end")
            self.lastOpened = id
            self.hasFinished = false
            self.current.insert(id)
            if self.exchangeFaults() > self.faultsBeforeWork { self.openedAfterFaults.insert(id) }
            self.totals.attempts += 1
            if cause == .arrival { self.totals.immediate += 1 }
        case .send(let id, _):
            let isOpen = self.current.contains(id) && !self.closing.contains(id) && self.connection(id)?.phase == .open
            simulation.require(isOpen, "a message was sent on \(id), which is not open")
        case .close(let id, _, _):
            simulation.require(self.current.contains(id), "\(id) was closed, which is not in use")
            simulation.require(
                cause == .caller || !self.rules.closesOnlyForCaller, "\(id) was closed without a call of the user")
            self.closing.insert(id)
        // A protocol that negotiates before it connects may give up before it has opened a connection.
        case .abandon(let id) where id > self.lastOpened: break
        case .abandon(let id):
            simulation.require(self.current.contains(id), "\(id) was abandoned, which is not in use")
            let isDisturbed = self.connection(id)?.isDisturbed == true || self.openedAfterFaults.contains(id)
            let isJustified = cause == .caller || self.closing.contains(id) || isDisturbed
            simulation.require(isJustified || !self.rules.abandonsOnlyAfterFaults, "\(id) was abandoned without a fault")
            self.ended(id)
        case .reading(let id, _):
            simulation.require(self.current.contains(id), "\(id) was paused or resumed, which is not in use")
        case .work(let id, let work):
            simulation.require(self.startedWorks.insert(id).inserted, "the work \(id.rawValue) was started twice")
            simulation.require(!self.hasFinished || cause == .caller, "the work \(id.rawValue) was started after the end")
            // A session may begin with work, such as a negotiation.
            self.hasFinished = false
            self.runningWorks[id] = work
            self.faultsBeforeWork = self.exchangeFaults()
            self.totals.works += 1
        case .cancel(let id):
            if let work = self.runningWorks.removeValue(forKey: id) { self.onCancel(id, work) }
        case .resume(let waiter, _):
            simulation.require(self.resumed.insert(waiter).inserted, "a waiter was resumed twice")
        case .finish(let reason):
            simulation.note("  the session ended: \(reason)")
            self.hasFinished = true
        case .awaitAnswer, .ignored, .endConsumers, .log, .release:
            break
        }
    }
}

/// The history of a client in a run.
package struct ClientTotals: Sendable {
    package var attempts = 0, immediate = 0, events = 0, works = 0, waits = 0, dropped = 0

    package init() {}

    package static func + (left: Self, right: Self) -> Self {
        var sum = left
        sum.attempts += right.attempts
        sum.immediate += right.immediate
        sum.events += right.events
        sum.works += right.works
        sum.waits += right.waits
        sum.dropped += right.dropped
        return sum
    }

    /// The totals for the counts of a run.
    package var counts: [String: Int] {
        [
            "attempts": self.attempts, "immediate": self.immediate, "events": self.events, "works": self.works, "waits": self.waits,
            "dropped": self.dropped,
        ]
    }
}
