public import RealtimeSystem

/// Lock, step the machine, put what must stay in order on its queues, unlock, then do what may run foreign code.
///
/// It is the only place with a lock and a timer, it runs any session machine, and it owns no task. The connection
/// holds the driver until it has ended, so its owner, the public client, stops it when it is dropped.
@usableFromInline
package final class SessionDriver<Machine: SessionMachine>: WebSocketEvents, TimerClient, EventSource {
    /// What a driver needs of the world around it. Drivers may share it.
    package final class Dependencies: Sendable {
        /// Begins the work on any thread and returns how to cancel it. `finished` may be called on any thread, once.
        package typealias Perform =
            @Sendable (
                Machine.Work, _ finished: @escaping @Sendable (Machine.WorkResult) -> Void
            ) -> (@Sendable () -> Void)?

        let transport: any WebSocketTransport
        let time: any TimeSource
        let log: LogSink
        let subsystem: String
        let perform: Perform

        package init(
            transport: any WebSocketTransport, time: any TimeSource, log: LogSink = .standard, subsystem: String,
            perform: @escaping Perform = { _, _ in nil }
        ) {
            self.transport = transport
            self.time = time
            self.log = log
            self.subsystem = subsystem
            self.perform = perform
        }
    }

    fileprivate typealias Outcome = Result<Machine.WaiterResult, Machine.Failure>

    fileprivate enum WorkState: Sendable {
        case starting
        case running(cancel: (@Sendable () -> Void)?)
    }

    fileprivate struct Registered: Sendable {
        var listener: any EventConsumer<Machine.Event>
        var lifetime: ConsumerLifetime
    }

    @usableFromInline
    struct State: Sendable {
        var effects: Effects<Machine>
        @usableFromInline var connections = OpenConnections()
        fileprivate var listeners = SmallDictionary<ConsumerID, Registered>()
        /// By number, not as a count: a listener may end between its consumer's taking a batch and saying so.
        var fullConsumers: Set<ConsumerID> = []
        var paused: ConnectionID?
        fileprivate var waiters: [WaiterID: Waiter<Outcome>] = [:]
        var waiterDeadlines = Deadlines<WaiterID, Void>()
        fileprivate var works: [WorkID: WorkState] = [:]
        var lastNumber: UInt64 = 0
        var armed: Instant?
        // Last: in unspecialised code what follows a value of generic type has no fixed offset.
        @usableFromInline var machine: Machine

        mutating func nextNumber() -> UInt64 {
            self.lastNumber += 1
            return self.lastNumber
        }

        var nextDeadline: Instant? { .earliest(self.machine.nextDeadline, self.waiterDeadlines.earliest) }
    }

    @usableFromInline let state: Lock<State>
    private let dependencies: Dependencies
    private var time: any TimeSource { self.dependencies.time }

    package init(_ machine: Machine, in dependencies: Dependencies) {
        self.state = Lock(State(effects: Effects(logLevel: dependencies.log.minimumLevel), machine: machine))
        self.dependencies = dependencies
    }

    // MARK: From the user

    package func start() { self.step { $0.start(now: $1, &$2) } }

    package func stop() { self.step { $0.stop(now: $1, &$2) } }

    /// Any command of the machine's own.
    package func step(_ input: (inout Machine, Instant, inout Effects<Machine>) -> Void) {
        self.run { input(&$0.machine, $1, &$0.effects) }
    }

    /// A command that sends one message at most, and has no other effect and moves no deadline: the short way for what
    /// programs do most. Inlinable, so that it is specialised for the machine where that is known.
    @inlinable
    package func send(_ input: (inout Machine) throws(Machine.Failure) -> (ConnectionID, WebSocketMessage)?) throws(Machine.Failure) {
        let connection = try self.state.withLock { state throws(Machine.Failure) -> (any WebSocketConnection)? in
            guard let (id, message) = try input(&state.machine) else { return nil }
            return state.connections.enqueue(message, on: id)
        }
        connection?.flush()
    }

    /// A look at the machine.
    package func read<Result>(_ body: (borrowing Machine) -> Result) -> Result {
        self.state.withLock { body($0.machine) }
    }

    package var counters: Counters {
        self.state.withLock { state in
            var counters = state.effects.counters
            (counters.messagesSent, counters.bytesSent) = (state.connections.messagesSent, state.connections.bytesSent)
            return counters
        }
    }

    package var nextDeadline: Instant? { self.state.withLock { $0.nextDeadline } }

    /// A command that is answered exactly once, whatever becomes of the connection or of the caller.
    ///
    /// - Parameter limit: how long the caller waits; `nil` for as long as it takes.
    package func awaitResult(
        limit: Duration? = nil, _ question: (inout Machine, WaiterID, Instant, inout Effects<Machine>) -> Void
    ) async throws(Machine.Failure) -> Machine.WaiterResult {
        let waiter = Waiter<Outcome>(limit: limit)
        var id = WaiterID(rawValue: 0)
        self.run { state, now in
            id = WaiterID(rawValue: state.nextNumber())
            state.waiters[id] = waiter
            if let limit { state.waiterDeadlines.set(id, now.advanced(by: limit)) }
            question(&state.machine, id, now, &state.effects)
            // Who has no time to wait hears at once what there is, also where a test holds the clock.
            if let limit, limit <= .zero {
                state.effects.commands.append(.resume(id, .failure(state.machine.timedOut(after: limit))))
                state.machine.cancelled(id, now: now, &state.effects)
            }
        }
        let asked = id
        return try await waiter.value { self.withdraw(asked) }.get()
    }

    /// A listener from now on. `register` tells the machine what it listens to; `convert` runs under the driver's lock.
    package func makeSequence<Element: Sendable>(
        _ policy: BufferPolicy, lifetime: ConsumerLifetime,
        convert: @escaping @Sendable (ArraySlice<Machine.Event>, inout [Element]) -> Void,
        register: (inout Machine, ConsumerID, inout Effects<Machine>) -> Void
    ) -> EventSequence<Element> {
        let buffer = EventBuffer<Element>(policy)
        let listener = ConvertingConsumer<Machine.Event, Element>(buffer: buffer, convert: convert)
        var id = ConsumerID(rawValue: 0)
        self.run { state, _ in
            id = ConsumerID(rawValue: state.nextNumber())
            state.listeners[id] = Registered(listener: listener, lifetime: lifetime)
            register(&state.machine, id, &state.effects)
        }
        let registered = id
        return EventSequence(EventSequence<Element>.Listener(buffer, registered, of: self))
    }

    /// A connection that somebody else made, as a listener does. What it brings comes as for any other.
    package func adopt(
        _ connection: any WebSocketConnection, id: ConnectionID, _ input: (inout Machine, Instant, inout Effects<Machine>) -> Void
    ) {
        self.run { state, now in
            state.connections[id] = connection
            input(&state.machine, now, &state.effects)
        }
    }

    /// The owner is gone: stops, and finishes every listener.
    package func shutDown() {
        self.run { state, now in
            state.machine.stop(now: now, &state.effects)
            let everybody = state.listeners.keys.sorted { $0.rawValue < $1.rawValue }
            state.effects.commands.append(.endConsumers(everybody, .ended))
        }
    }

    // MARK: From the transport, the clock, the workers and the listeners

    @usableFromInline
    package func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.step { $0.opened(id, head: head, now: $1, &$2) }
    }

    @usableFromInline
    package func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        var deferred = ActionsAfterUnlock()
        self.state.withLock { state in
            let now = self.time.now
            state.effects.counters.messagesReceived += batch.entries.count
            state.effects.counters.bytesReceived += batch.bytes.count
            state.machine.received(id, batch, now: now, &state.effects)
            self.finishStep(&state, reading: id, now, &deferred)
        }
        deferred.run()
    }

    @usableFromInline
    package func closed(_ id: ConnectionID, _ reason: CloseReason) {
        self.run {
            $0.connections[id] = nil
            if $0.paused == id { $0.paused = nil }
            $0.machine.closed(id, reason, now: $1, &$0.effects)
        }
    }

    package func timerFired() {
        self.run { state, now in
            state.armed = nil
            while let due = state.waiterDeadlines.popDue(now) {
                let limit = state.waiters[due.key]?.limit ?? .zero
                state.effects.commands.append(.resume(due.key, .failure(state.machine.timedOut(after: limit))))
                state.machine.cancelled(due.key, now: now, &state.effects)
            }
            if let deadline = state.machine.nextDeadline, deadline <= now { state.machine.timeout(now: now, &state.effects) }
            assert(state.machine.nextDeadline.map { $0 > now } ?? true, "a deadline that stays in the past would wake us for ever")
        }
    }

    private func withdraw(_ id: WaiterID) {
        self.run { state, now in
            guard state.waiters[id] != nil else { return }
            state.effects.commands.append(.resume(id, .failure(Machine.cancelled)))
            state.machine.cancelled(id, now: now, &state.effects)
        }
    }

    private func begin(_ id: WorkID, _ work: Machine.Work) {
        guard self.state.withLock({ $0.works[id] != nil }) else { return }
        let cancel = self.dependencies.perform(work) { [weak self] result in
            self?.run { state, now in
                guard state.works.take(id) != nil else { return }
                state.machine.workFinished(id, result, now: now, &state.effects)
            }
        }
        let isWanted = self.state.withLock { state in
            guard state.works[id] != nil else { return false }
            state.works[id] = .running(cancel: cancel)
            return true
        }
        if !isWanted { cancel?() }
    }

    package func drained(_ id: ConsumerID) {
        self.run { state, now, deferred in
            // It may have filled up again meanwhile, and will be drained again.
            guard let registered = state.listeners[id], !registered.listener.isFull else { return }
            self.isFullNoLonger(id, &state, now, &deferred)
        }
    }

    package func consumerGone(_ id: ConsumerID) {
        self.run { state, now, deferred in
            guard state.listeners.removeValue(forKey: id) != nil else { return }
            state.machine.consumerGone(id)
            self.isFullNoLonger(id, &state, now, &deferred)
        }
    }

    // MARK: The one way in

    private func run(_ input: (inout State, Instant) -> Void) {
        self.run { state, now, _ in input(&state, now) }
    }

    private func run(_ input: (inout State, Instant, inout ActionsAfterUnlock) -> Void) {
        var deferred = ActionsAfterUnlock()
        self.state.withLock { state in
            // Read under the lock: for a machine, time never runs back.
            let now = self.time.now
            input(&state, now, &deferred)
            self.finishStep(&state, reading: nil, now, &deferred)
        }
        deferred.run()
    }

    private func finishStep(_ state: inout State, reading id: ConnectionID?, _ now: Instant, _ deferred: inout ActionsAfterUnlock) {
        if !state.effects.deliveries.isEmpty { self.deliver(&state, reading: id, now, &deferred) }
        if !state.effects.commands.isEmpty { self.obey(&state, now, &deferred) }
        self.arm(&state)
    }

    private func deliver(_ state: inout State, reading id: ConnectionID?, _ now: Instant, _ deferred: inout ActionsAfterUnlock) {
        var start = 0
        var isFull = false
        for run in state.effects.runs {
            for id in state.machine.consumers(on: run.route) {
                guard let registered = state.listeners[id] else { continue }
                let appended = registered.listener.append(state.effects.deliveries[start..<run.end])
                deferred.wake(appended.wakeUp)
                state.effects.counters.eventsDropped += appended.dropped
                if appended.becameFull { state.fullConsumers.insert(id) }
                isFull = isFull || appended.isFull
            }
            start = run.end
        }
        state.effects.deliveries.removeAll(keepingCapacity: true)
        state.effects.runs.removeAll(keepingCapacity: true)
        // By delivery and not by state: a new connection's handshake must get through to a full listener's client.
        guard isFull, let id, state.paused != id, let connection = state.connections[id] else { return }
        state.paused = id
        connection.pauseReading()
        state.machine.reading(id, paused: true, now: now)
    }

    private func obey(_ state: inout State, _ now: Instant, _ deferred: inout ActionsAfterUnlock) {
        for command in state.effects.commands {
            switch command {
            case .open(let id, let request):
                let connection = self.dependencies.transport.makeConnection(request, id: id, events: self)
                state.connections[id] = connection
                deferred.add(.open(connection))
            case .send(let id, let message):
                if let connection = state.connections.enqueue(message, on: id) { deferred.flush(connection) }
            case .close(let id, let code, let reason):
                guard let connection = state.connections[id] else { continue }
                deferred.forgetFlushes()
                deferred.add(.close(connection, code, reason))
            case .abandon(let id):
                if state.paused == id { state.paused = nil }
                if let connection = state.connections.remove(id) { deferred.add(.abandon(connection)) }
            case .work(let id, let work):
                state.works[id] = .starting
                deferred.add(.run { self.begin(id, work) })
            case .cancel(let id):
                if case .running(let cancel?) = state.works.take(id) { deferred.add(.run(cancel)) }
            case .resume(let id, let outcome):
                state.waiterDeadlines.set(id, nil)
                deferred.wake(state.waiters.take(id)?.fulfill(outcome))
            case .endConsumers(let ids, let reason):
                for id in ids { self.end(id, reason, &state, now, &deferred) }
            case .finish(let reason):
                let ending = state.listeners.entries.filter { $0.value.lifetime == .connection }.map(\.key)
                for id in ending.sorted(by: { $0.rawValue < $1.rawValue }) { self.end(id, .closed(reason), &state, now, &deferred) }
            case .log(let level, let message):
                deferred.add(.run { [dependencies] in dependencies.log.log(level, dependencies.subsystem, message) })
            }
        }
        // A server's many are worth their memory; a client's few are not, and it has none for most of the time.
        state.effects.commands.removeAll(keepingCapacity: state.effects.commands.count > 16)
    }

    private func end(_ id: ConsumerID, _ reason: EndReason, _ state: inout State, _ now: Instant, _ deferred: inout ActionsAfterUnlock) {
        guard let registered = state.listeners.removeValue(forKey: id) else { return }
        state.machine.consumerGone(id)
        deferred.wake(registered.listener.finish(reason))
        self.isFullNoLonger(id, &state, now, &deferred)
    }

    private func isFullNoLonger(_ id: ConsumerID, _ state: inout State, _ now: Instant, _ deferred: inout ActionsAfterUnlock) {
        guard state.fullConsumers.remove(id) != nil, state.fullConsumers.isEmpty, let paused = state.paused.take() else { return }
        self.resume(paused, &state, now, &deferred)
    }

    /// The wish is noted under the lock, so that it keeps its order with the wish to pause; the flush carries it out.
    private func resume(_ id: ConnectionID, _ state: inout State, _ now: Instant, _ deferred: inout ActionsAfterUnlock) {
        guard let connection = state.connections[id] else { return }
        connection.resumeReading()
        deferred.flush(connection)
        state.machine.reading(id, paused: false, now: now)
    }

    /// Lazy: a deadline that moves later, as with every message received, costs nothing. The old wake-up comes,
    /// finds nothing due and arms again. Under the lock, or two threads could leave the later of two wishes standing.
    private func arm(_ state: inout State) {
        guard let next = state.nextDeadline else {
            // At the end nothing is left behind.
            if state.armed.take() != nil { self.time.schedule(self, at: nil) }
            return
        }
        guard state.armed.map({ next < $0 }) ?? true else { return }
        state.armed = next
        self.time.schedule(self, at: next)
    }
}
