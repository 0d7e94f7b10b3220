import RealtimeSystem
package import RealtimeCore

/// A client of any protocol in a simulation: a session machine in a real driver, connected to a ``VirtualNetwork`` with any kind of
/// connection.
///
/// It checks what holds for every protocol:
/// - every call that waits receives exactly one result,
/// - a late event of an abandoned connection, and the result of cancelled work, have no effect,
/// - connections have increasing numbers, no more are open than ``ClientRules`` allow, and messages are sent only while they are open,
/// - no event is delivered and no connection is opened after the end,
/// - every consumer receives its events and then the end,
/// - no deadline is in the past, and no timer remains after the end,
/// - the counters agree with the network.
///
/// The protocol adds calls with ``step(_:_:)``, ``wait(_:limit:_:_:)`` and ``consume(_:_:pause:convert:register:body:)``, and checks of its
/// own in ``onCommand``, ``onDelivery`` and the simulation's `invariants`.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
package final class SimulatedClient<Machine: SessionMachine>: @unchecked Sendable {
    package typealias Driver = SessionDriver<InspectedMachine<Machine>>
    package typealias Perform = Driver.Dependencies.Perform

    package let simulation: Simulation
    package let network: VirtualNetwork
    private let inspector: EffectInspector<Machine>
    private let connections = Connections()
    private var driverOrNil: Driver?
    private var waiting: [Int: (what: String, task: Task<Void, Never>)] = [:]
    private var lastWait = 0
    private var consuming = 0
    /// Returns the number of waiters that the machine knows, if it keeps them; compared with the calls that wait.
    package var waiterCount: ((Machine) -> Int)?

    /// Called with each command before the driver performs it, and with each event and its consumers before it is delivered.
    package var onCommand: (Effects<Machine>.Command) -> Void {
        get { self.inspector.onCommand }
        set { self.inspector.onCommand = newValue }
    }
    package var onDelivery: (Machine.Event, [ConsumerID]) -> Void {
        get { self.inspector.onDelivery }
        set { self.inspector.onDelivery = newValue }
    }

    /// Returns a result of work that was cancelled. It arrives some time later, and must have no effect. `nil` for no late result.
    package var lateResult: (Machine.Work) -> Machine.WorkResult? = { _ in nil }

    package var totals: ClientTotals { self.inspector.totals }
    package var driver: Driver { self.driverOrNil! }
    /// Whether the session has ended, or was never started.
    package var hasFinished: Bool { self.inspector.hasFinished }
    package var hasConnection: Bool { !self.inspector.current.isEmpty }
    /// The calls that wait for a result, oldest first.
    package var pendingWaits: [Int] { self.waiting.keys.sorted() }

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - machine: The machine of the protocol.
    ///   - network: The network on which it opens connections.
    ///   - rules: What the client may do.
    ///   - connect: Creates a connection over the network for a machine's request, for example an `HTTPMessageConnection` over
    ///     ``VirtualNetwork/http``.
    ///   - perform: Performs the machine's work, for example with ``VirtualNetwork/http`` in a task of the simulation.
    package init(
        _ machine: Machine, on network: VirtualNetwork, rules: ClientRules = ClientRules(),
        connect: @escaping Driver.Dependencies.Connect, perform: @escaping Perform = { _, _, _ in nil }
    ) {
        let simulation = network.simulation
        self.simulation = simulation
        self.network = network
        self.inspector = EffectInspector(simulation, rules)
        self.connections.network = network
        let log = LogSink(minimumLevel: simulation.isTracing ? .debug : .error) { level, _, text in simulation.note("  \(level): \(text)") }
        self.driverOrNil = SessionDriver(
            InspectedMachine(machine: machine, inspector: self.inspector),
            in: .init(
                connect: { [connections] request, id, events, driver in
                    connections.connect(id, events: events) { connect(request, id, $0, driver) }
                },
                time: simulation, log: log, subsystem: "simulation", perform: perform))
        let (inspector, connections) = (self.inspector, self.connections)
        inspector.connection = { connections.all[$0] }
        inspector.exchangeFaults = { network.totals.exchangeFaults }
        // The inspector refers to the connections.
        connections.inspector = { [weak inspector] in inspector?.ended($0) }
        inspector.onCancel = { [unowned self] id, work in
            guard let result = self.lateResult(work) else { return }
            simulation.schedule(in: 0...40_000) { [self] in self.finishLate(id, result) }
        }
        simulation.invariants.append { [unowned self] in self.checkAfterStep() }
        simulation.atRelease { self.shutDown() }
    }

    // MARK: Calls

    package func start() { self.call("start") { self.driver.start() } }

    package func stop() { self.call("stop") { self.driver.stop() } }

    /// Steps the machine with a call of the user.
    package func step(_ what: @autoclosure () -> String, _ input: (inout Machine, Instant, inout Effects<Machine>) -> Void) {
        self.call(what()) {
            self.driver.step { machine, now, effects in machine.step(&effects) { input(&$0, now, &$1) } }
        }
    }

    /// Makes any call of the user.
    package func call(_ what: @autoclosure () -> String, _ body: () -> Void) { self.simulation.step(.caller, what(), body) }

    package func read<Result>(_ body: (borrowing Machine) -> Result) -> Result { self.driver.read { body($0.machine) } }

    /// Makes a call that waits for a result.
    ///
    /// - Parameters:
    ///   - what: A name for the trace.
    ///   - limit: The time limit of the call.
    ///   - request: Registers the waiter with the machine, which resumes it now or later.
    ///   - completion: Receives the result.
    package func wait(
        _ what: String, limit: Duration? = nil,
        _ request: @escaping @Sendable (inout Machine, WaiterID, Instant, inout Effects<Machine>) -> Void,
        _ completion: @escaping @Sendable (Result<Machine.WaiterResult, Machine.Failure>) -> Void = { _ in }
    ) {
        self.lastWait += 1
        self.inspector.totals.waits += 1
        let (number, driver) = (self.lastWait, self.driver)
        let begin = self.simulation.now
        let task = self.simulation.task { [self] in
            var result: Result<Machine.WaiterResult, Machine.Failure>
            do throws(Machine.Failure) {
                result = .success(
                    try await driver.awaitResult(limit: limit) { machine, waiter, now, effects in
                        machine.step(&effects) { request(&$0, waiter, now, &$1) }
                    })
            } catch {
                result = .failure(error)
            }
            self.simulation.require(self.waiting.removeValue(forKey: number) != nil, "the call '\(what)' returned twice")
            if let limit, self.simulation.now > begin.advanced(by: limit) {
                self.simulation.fail("the call '\(what)' waited longer than its limit of \(limit)")
            }
            self.simulation.note("  returned from '\(what)': \(result)")
            completion(result)
        }
        self.waiting[number] = (what, task)
        self.call(limit.map { "wait: \(what), at most \($0)" } ?? "wait: \(what)") {}
    }

    /// Cancels the task of a call that waits.
    package func cancelWait(_ number: Int) {
        guard let wait = self.waiting[number] else { return }
        self.call("cancel the wait '\(wait.what)'") { wait.task.cancel() }
        self.simulation.require(self.waiting[number] == nil, "the cancelled call '\(wait.what)' did not return immediately")
    }

    /// Consumes a sequence of events in a task.
    ///
    /// - Parameters:
    ///   - policy: The policy of the buffer.
    ///   - lifetime: When the sequence ends.
    ///   - pause: A range of milliseconds for which the consumer pauses after each element; `nil` for a fast consumer.
    ///   - convert: Converts a batch of events to elements. Called under the driver's lock.
    ///   - register: Registers the consumer with the machine.
    ///   - body: Receives each element, and `nil` at the end.
    package func consume<Element: Sendable>(
        _ policy: BufferPolicy = .standard, _ lifetime: ConsumerLifetime = .connection, pause: ClosedRange<Int64>? = nil,
        convert: @escaping @Sendable (ArraySlice<Machine.Event>, inout [Element]) -> Void,
        register: (inout Machine, ConsumerID, inout Effects<Machine>) -> Void,
        body: @escaping @Sendable (Element?) -> Void
    ) {
        self.call("consume") {
            let sequence = self.driver.makeSequence(policy, lifetime: lifetime, convert: convert) { machine, id, effects in
                machine.step(&effects) { register(&$0, id, &$1) }
            }
            self.consuming += 1
            self.simulation.task { [self] in
                for await element in sequence {
                    body(element)
                    if let pause { await self.simulation.sleep(in: pause) }
                }
                self.inspector.totals.dropped += sequence.dropped
                self.consuming -= 1
                body(nil)
            }
        }
    }

    // MARK: Work

    /// Delivers the result of work that was cancelled directly to the machine, since the driver ignores it.
    private func finishLate(_ id: WorkID, _ result: Machine.WorkResult) {
        self.simulation.step(.lateEvent, "late result of work \(id.rawValue)") {
            self.driver.step { machine, now, effects in machine.workFinished(id, result, now: now, &effects) }
        }
    }

    // MARK: Invariants

    private func checkAfterStep() {
        guard let driver = self.driverOrNil else { return }
        if let deadline = driver.nextDeadline, !self.simulation.hasLateTimers {
            let isPast = self.simulation.isFiring(driver) ? deadline <= self.simulation.now : deadline < self.simulation.now
            self.simulation.require(!isPast, "a deadline has passed: the driver would call timeout forever")
        }
        if let waiterCount {
            let known = driver.read { waiterCount($0.machine) }
            self.simulation.require(
                known == self.waiting.count,
                "\(self.waiting.count) calls wait, but the machine knows \(known): \(self.waiting.values.map(\.what).sorted())")
        }
    }

    /// Checks a client that was stopped some time ago: everything has ended.
    package func checkEnd() {
        let simulation = self.simulation
        simulation.require(self.hasFinished, "the session has not ended after stopping")
        simulation.require(self.inspector.current.isEmpty, "connections are still open: \(self.inspector.current.sorted())")
        simulation.require(self.waiting.isEmpty, "calls are still waiting: \(self.waiting.values.map(\.what).sorted())")
        simulation.require(self.inspector.runningWorks.isEmpty, "work is still running: \(self.inspector.runningWorks.values)")
        simulation.require(self.driver.nextDeadline == nil, "a deadline is left after stopping")
        let counters = self.driver.counters
        let ends = self.connections.all.values
        let open = ends.filter { $0.phase != .abandoned && $0.phase != .ended }.map(\.id).sorted()
        simulation.require(open.isEmpty, "the driver has neither closed nor abandoned the connections \(open)")
        simulation.require(
            counters.messagesSent == ends.reduce(0) { $0 + $1.messagesSent } && counters.bytesSent == ends.reduce(0) { $0 + $1.bytesSent },
            "the counts of sent messages don't agree with the network: \(counters)")
        simulation.require(
            counters.messagesReceived == ends.reduce(0) { $0 + $1.messagesReceived }
                && counters.bytesReceived == ends.reduce(0) { $0 + $1.bytesReceived },
            "the counts of received messages don't agree with the network: \(counters)")
    }

    /// Shuts the driver down, as the owner of a client does, and checks that all sequences have ended. Called at the end of the run, unless
    /// it was called before.
    package func shutDown() {
        guard let driver = self.driverOrNil else { return }
        self.call("shut down") { driver.shutDown() }
        self.simulation.endSleeps()
        self.simulation.require(self.consuming == 0, "\(self.consuming) sequences have not ended")
        self.simulation.require(
            driver.counters.eventsDropped == self.totals.dropped, "the counts of dropped events don't agree with the sequences")
        self.simulation.require(self.waiting.isEmpty, "calls are still waiting: \(self.waiting.values.map(\.what).sorted())")
        // The task of a call that a faulty machine never answers would keep the whole run.
        for wait in self.waiting.values { wait.task.cancel() }
        self.inspector.onCancel = { _, _ in }
        self.driverOrNil = nil
    }
}

extension SimulatedClient {
    /// Creates a client that only opens WebSockets.
    ///
    /// - Parameter webSocket: Returns the WebSocket on the network for a machine's request.
    package convenience init(
        _ machine: Machine, on network: VirtualNetwork, rules: ClientRules = ClientRules(),
        webSocket: @escaping @Sendable (Machine.Request) -> WebSocketRequest, perform: @escaping Perform = { _, _, _ in nil }
    ) {
        self.init(
            machine, on: network, rules: rules,
            connect: { request, id, events, _ in network.connect(webSocket(request), id: id, events: events) },
            perform: perform)
    }
}

extension SimulatedClient where Machine.Request == WebSocketRequest {
    /// Creates a client that only opens WebSockets.
    package convenience init(
        _ machine: Machine, on network: VirtualNetwork, rules: ClientRules = ClientRules(),
        perform: @escaping Perform = { _, _, _ in nil }
    ) {
        self.init(machine, on: network, rules: rules, webSocket: { $0 }, perform: perform)
    }
}

/// The connections of a client.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
private final class Connections: @unchecked Sendable {
    var network: VirtualNetwork?
    var all: [ConnectionID: any SimulatedConnection] = [:]
    var inspector: (ConnectionID) -> Void = { _ in }

    func connect(
        _ id: ConnectionID, events: any MessageEvents, over connect: (any MessageEvents) -> any MessageConnection
    ) -> any MessageConnection {
        let observed = ObservedConnection(id, on: self.network!, events)
        let connection = connect(observed)
        let result: any SimulatedConnection
        if let connection = connection as? VirtualConnection {
            // It has the counts, and what arrives late is part of them.
            connection.replaceEvents(events)
            connection.onEnd = { [unowned self] in self.inspector(id) }
            result = connection
        } else {
            observed.begin(connection)
            observed.onEnd = { [unowned self] in self.inspector(id) }
            result = observed
        }
        self.all[id] = result
        return result
    }
}
