public import RealtimeSystem

/// Runs a session machine: connects it to a transport, a clock, callers and consumers.
///
/// Every input takes the lock, steps the machine, enqueues messages and events so that they keep their order, releases the lock, and then
/// performs the actions that call code outside the driver. The driver contains the only lock and the only timer of a session, and creates
/// no task. A connection retains the driver until it has ended, so the owner, such as a client, must call ``shutDown()`` when it is
/// released.
@usableFromInline
package final class SessionDriver<Machine: SessionMachine>: HTTPMessageEvents, PartialMessageEvents, TimerClient, EventSource,
    StandstillObserver
{
    /// The environment of a driver. Several drivers may share it.
    package final class Dependencies: Sendable {
        /// Creates a connection without performing I/O. Called under the driver's lock.
        ///
        /// The connection reports to the receiver of events. It may ask the driver for what its later requests need, but not in this call.
        package typealias Connect =
            @Sendable (Machine.Request, ConnectionID, any MessageEvents, SessionDriver) -> any MessageConnection

        /// Starts work, on any thread, and returns a closure that cancels it.
        ///
        /// The work calls ``SessionDriver/workProgressed(_:_:)`` any number of times and ``SessionDriver/workFinished(_:_:)`` once, on any
        /// thread. Calls have no effect after the work has finished or was cancelled.
        package typealias Perform = @Sendable (Machine.Work, WorkID, SessionDriver) -> (@Sendable () -> Void)?

        let connect: Connect
        let time: any TimeSource
        let log: LogSink
        let subsystem: String
        let perform: Perform

        /// Describes the messages of a connection in the log. It receives the request that opened the connection, whose secrets the peer may
        /// repeat.
        package typealias Describe = @Sendable (Machine.Request) -> DescribeMessage

        /// Creates an environment.
        ///
        /// - Parameters:
        ///   - connect: Creates a connection.
        ///   - time: The source of the time.
        ///   - log: The destination of log messages. If it asks for the level ``LogSink/Level/trace``, it receives what all connections do.
        ///   - describe: Describes messages for the level `trace`, by their size unless the protocol says more.
        ///   - subsystem: The part of the library that the log messages name.
        ///   - perform: Starts work.
        package init(
            connect: @escaping Connect, time: any TimeSource, log: LogSink = .standard,
            describe: @escaping Describe = { _ in messageSize }, subsystem: String, perform: @escaping Perform = { _, _, _ in nil }
        ) {
            if log.minimumLevel <= .trace {
                let trace = ConnectionLog(log: log, subsystem: subsystem)
                self.connect = { request, id, events, driver in
                    trace.connect(id, events, describe(request)) { connect(request, id, $0, driver) }
                }
            } else {
                // Connections that aren't traced do no work for it.
                self.connect = connect
            }
            self.time = time
            self.log = log
            self.subsystem = subsystem
            self.perform = perform
        }
    }

    fileprivate typealias CallerResult = Result<Machine.WaiterResult, Machine.Failure>

    fileprivate struct RegisteredWaiter: Sendable {
        var waiter: Waiter<CallerResult>
        /// Whether the result depends on messages of the peer.
        var awaitsPeer: Bool
    }

    fileprivate struct RegisteredConsumer: Sendable {
        var consumer: any EventConsumer<Machine.Event>
        var lifetime: ConsumerLifetime
        /// Whether the release of an active owner, which ends the consumer, is logged.
        var reportsRelease = false
    }

    @usableFromInline
    struct State: Sendable {
        var effects: Effects<Machine>
        @usableFromInline var connections = OpenConnections()
        fileprivate var consumers = SmallDictionary<ConsumerID, RegisteredConsumer>()
        /// The consumer for which a callback was scheduled last, of those whose callbacks have an order.
        var lastCallback: ConsumerID?
        /// Whether a thread schedules callbacks, and those that it finds afterwards: they are scheduled in the order of the steps.
        var isScheduling = false
        var turns: [CallbackTurn] = []
        /// The consumers whose task, when it waits for an event, waits for messages of the peer, like a caller. A client can have thousands
        /// of other consumers.
        var peerConsumers: Set<ConsumerID> = []
        var gate = ReadingGate()
        fileprivate var waiters = SequentialTable<RegisteredWaiter>()
        /// The deadlines of callers with a time limit, and these limits.
        var waiterDeadlines = Deadlines<WaiterID, Duration>()
        var works = StartedWork<Machine.Work>()
        var lastNumber: UInt64 = 0
        var timer = CoalescedTimer()
        /// Whether the machine's deadline has passed although the machine has just handled it.
        var isOverdue = false
        var hasLoggedOverdue = false
        var hasLoggedBlockedCallback = false
        var interceptor: (any ConnectionInterceptor)?
        // Last: in unspecialized code, members after one of generic type have no constant offset.
        @usableFromInline var machine: Machine

        mutating func nextNumber() -> UInt64 {
            self.lastNumber += 1
            return self.lastNumber
        }

        /// Returns whether the task of a consumer waits for messages of the peer. A copy, because the gate asks while it changes.
        var isReaderWaiting: () -> Bool {
            if self.peerConsumers.isEmpty { return { false } }
            return { [peerConsumers, consumers] in peerConsumers.contains { consumers[$0]?.consumer.hasWaitingReader == true } }
        }

        var nextDeadline: Instant? {
            .earliest(.earliest(self.machine.nextDeadline, self.waiterDeadlines.earliest), self.gate.nextDeadline)
        }

        /// The waiters in the order of their calls.
        fileprivate var waiterIDs: [WaiterID] { self.waiters.entries.map { WaiterID(rawValue: $0.key) } }

        fileprivate mutating func takeWaiter(_ id: WaiterID) -> Waiter<CallerResult>? {
            self.waiterDeadlines.remove(id)
            guard let registered = self.waiters.take(id.rawValue) else { return nil }
            if registered.awaitsPeer { self.gate.waiterEnded() }
            return registered.waiter
        }
    }

    @usableFromInline let state: Lock<State>
    private let dependencies: Dependencies
    private var time: any TimeSource { self.dependencies.time }
    package var now: Instant { self.time.now }

    package init(_ machine: Machine, in dependencies: Dependencies) {
        self.state = Lock(State(effects: Effects(logLevel: dependencies.log.minimumLevel), machine: machine))
        self.dependencies = dependencies
        dependencies.time.addStandstillObserver(self)
    }

    // MARK: Commands

    package func start() { self.step { $0.start(now: $1, &$2) } }

    package func stop() { self.step { $0.stop(now: $1, &$2) } }

    /// Steps the machine with any input.
    package func step(_ input: (inout Machine, Instant, inout Effects<Machine>) -> Void) {
        self.run { input(&$0.machine, $1, &$0.effects) }
    }

    /// Steps the machine with an input that sends at most one message, has no other effects and makes no deadline earlier. This is the fast
    /// path for sending. It is inlinable so that it is specialized in the machine's module.
    ///
    /// - Throws: The error that `input` throws.
    @inlinable
    package func send(_ input: (inout Machine) throws(Machine.Failure) -> (ConnectionID, TransportMessage)?) throws(Machine.Failure) {
        let connection = try self.state.withLock { state throws(Machine.Failure) -> (any MessageConnection)? in
            guard let (id, message) = try input(&state.machine) else { return nil }
            return state.connections.enqueue(message, on: id)
        }
        connection?.flush()
    }

    /// Reads the machine's state. It is inlinable so that it is specialized in the machine's module.
    @inlinable
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

    package var consumerCount: Int { self.state.withLock { $0.consumers.count } }

    package var nextDeadline: Instant? { self.state.withLock { $0.nextDeadline } }

    /// Steps the machine with a request and waits for its result. Every caller receives exactly one result, also when the connection is
    /// lost.
    ///
    /// - Parameters:
    ///   - limit: The maximum time to wait; `nil` to wait without a limit. If it is not positive, only a result that is available
    ///     immediately is returned.
    ///   - total: The limit that an error names, if a part of it has passed; `limit` by default.
    ///   - awaitsPeer: Whether the result depends on messages of the peer, so that reading isn't paused until there is one.
    ///   - request: Steps the machine, which resumes the waiter now or later.
    /// - Returns: The result.
    /// - Throws: The failure with which the machine resumed the waiter; `timedOut(_:after:)` when the limit is exceeded;
    ///   `cancellation(of:)` immediately when the task is cancelled.
    package func awaitResult(
        limit: Duration? = nil, of total: Duration? = nil, awaitsPeer: Bool = true,
        _ request: (inout Machine, WaiterID, Instant, inout Effects<Machine>) -> Void
    ) async throws(Machine.Failure) -> Machine.WaiterResult {
        let waiter = Waiter<CallerResult>()
        var newID = WaiterID(rawValue: 0)
        self.run { state, now, actions in
            newID = WaiterID(rawValue: state.nextNumber())
            state.waiters[newID.rawValue] = RegisteredWaiter(waiter: waiter, awaitsPeer: awaitsPeer)
            if awaitsPeer { self.resumeReading(state.gate.waiterBegan(), &state, now, &actions) }
            if let limit { state.waiterDeadlines.set(newID, now.advanced(by: limit), total ?? limit) }
            request(&state.machine, newID, now, &state.effects)
            // Uses no timer, so that it works the same with a manual clock. A result that the request yielded comes first.
            if let limit, limit <= .zero {
                state.effects.commands.append(.resume(newID, .failure(state.machine.timedOut(newID, after: .time(total ?? limit)))))
                state.machine.cancelled(newID, now: now, &state.effects)
            }
        }
        let id = newID
        return try await waiter.value { self.cancel(id) }.get()
    }

    /// Returns a sequence of events that starts now.
    ///
    /// - Parameters:
    ///   - policy: What happens when the sequence's buffer is full.
    ///   - byteLimit: When the buffer is full because of the size of the elements.
    ///   - lifetime: When the sequence finishes.
    ///   - awaitsPeer: Whether reading isn't paused while a task waits for an event, because of the buffers of other consumers.
    ///   - reportsRelease: Whether it is logged when the sequence finishes because an active owner is released: who loops over messages expects
    ///     more of them.
    ///   - first: Returns the first element of the sequence, or `nil` if it starts with the next event. Called under the driver's lock, so
    ///     that no event is lost or repeated between the first element and the next one.
    ///   - convert: Appends the elements for a batch of events. Called under the driver's lock.
    ///   - register: Registers the consumer with the machine.
    package func makeSequence<Element: Sendable>(
        _ policy: BufferPolicy, byteLimit: ByteLimit<Element>? = nil, lifetime: ConsumerLifetime, awaitsPeer: Bool = false,
        reportsRelease: Bool = false, startingWith first: (borrowing Machine) -> Element? = { _ in nil },
        convert: @escaping EventConversion<Machine.Event, Element>,
        register: (inout Machine, ConsumerID, inout Effects<Machine>) -> Void
    ) -> EventSequence<Element> {
        let buffer = EventBuffer<Element>(policy, byteLimit: byteLimit)
        let consumer = ConvertingConsumer<Machine.Event, Element>(buffer: buffer, convert: convert)
        var id = ConsumerID(rawValue: 0)
        self.run { state, _ in
            id = ConsumerID(rawValue: state.nextNumber())
            if let element = first(state.machine), buffer.append({ $0.append(element) }).becameFull { state.gate.becameFull(id) }
            state.consumers[id] = RegisteredConsumer(consumer: consumer, lifetime: lifetime, reportsRelease: reportsRelease)
            if awaitsPeer { state.peerConsumers.insert(id) }
            register(&state.machine, id, &state.effects)
        }
        return EventSequence(EventSequence<Element>.Consumer(buffer, id, of: self, awaitsPeer: awaitsPeer))
    }

    /// Calls a closure with the events from now on, in order and one at a time.
    ///
    /// - Parameters:
    ///   - policy: What happens when events arrive faster than the callback handles them.
    ///   - lifetime: When the callback receives no more events.
    ///   - name: What the log calls the callback if it doesn't begin for seconds, such as `The callback of news`.
    ///   - executor: Runs the deliveries. Called without a lock.
    ///   - convert: Appends the elements for a batch of events. Called under the driver's lock.
    ///   - register: Registers the consumer with the machine.
    ///   - calls: Calls the closure with each element. Create it where the type of the elements is known.
    /// - Returns: The registration. Releasing it cancels the callback.
    package func observe<Element: Sendable>(
        _ policy: BufferPolicy, lifetime: ConsumerLifetime, named name: String = "A callback", on executor: CallbackExecutor,
        convert: @escaping EventConversion<Machine.Event, Element>, calls: CallbackCalls<Element>,
        register: (inout Machine, ConsumerID, inout Effects<Machine>) -> Void
    ) -> CallbackObservation {
        let followed = self.makeCallbackWatch(.notBegun).following(executor.schedule, name)
        let queue = CallbackQueue(policy, keepsOrder: executor.keepsOrder, schedule: followed, calls: calls)
        return self.observe(into: queue, lifetime: lifetime, convert: convert, register: register)
    }

    /// Calls a closure with the events from now on, in order and one at a time, where few are expected.
    package func observe<Element: Sendable>(
        _ policy: BufferPolicy, lifetime: ConsumerLifetime, named name: String = "A callback", schedule: @escaping CallbackSchedule,
        convert: @escaping EventConversion<Machine.Event, Element>,
        register: (inout Machine, ConsumerID, inout Effects<Machine>) -> Void, callback: @escaping @Sendable (Element) -> Void
    ) -> CallbackObservation {
        self.observe(
            policy, lifetime: lifetime, named: name, on: CallbackExecutor(schedule), convert: convert, calls: CallbackCalls(callback),
            register: register)
    }

    /// Appends the events from now on to a queue. A queue observes one driver, once.
    ///
    /// - Parameters:
    ///   - queue: The queue.
    ///   - lifetime: When the queue receives no more events.
    ///   - convert: Appends the elements for a batch of events. Called under the driver's lock.
    ///   - register: Registers the consumer with the machine.
    /// - Returns: The registration. Releasing it cancels the queue's callback.
    package func observe<Element: Sendable>(
        into queue: CallbackQueue<Element>, lifetime: ConsumerLifetime, convert: @escaping EventConversion<Machine.Event, Element>,
        register: (inout Machine, ConsumerID, inout Effects<Machine>) -> Void
    ) -> CallbackObservation {
        let id = ConsumerID(rawValue: self.state.withLock { $0.nextNumber() })
        queue.setSource(id, self)
        self.run { state, _ in
            state.consumers[id] = RegisteredConsumer(
                consumer: CallbackConsumer<Machine.Event, Element>(queue: queue, convert: convert), lifetime: lifetime)
            register(&state.machine, id, &state.effects)
        }
        return CallbackObservation(queue)
    }

    /// Returns a watch of waits for the application's code. Of all watches of this driver, the first wait that is too long is logged.
    package func makeCallbackWatch(_ sign: CallbackWatch.Sign) -> CallbackWatch {
        CallbackWatch(self.time, sign) { [weak self] message in
            self?.run { state, _ in
                guard !state.hasLoggedBlockedCallback else { return }
                state.hasLoggedBlockedCallback = true
                state.effects.log(.warning, message)
            }
        }
    }

    /// Takes over a connection that a listener accepted. Its events are handled like the events of a connection that the driver opened.
    ///
    /// - Parameters:
    ///   - connection: The connection.
    ///   - id: The ID of the connection.
    ///   - input: Steps the machine.
    ///   - intercepted: Changes the machine afterwards, if the driver's connections are intercepted.
    package func adopt(
        _ connection: any MessageConnection, id: ConnectionID, _ input: (inout Machine, Instant, inout Effects<Machine>) -> Void,
        intercepted: (inout Machine, Instant) -> Void = { _, _ in }
    ) {
        self.run { state, now in
            state.connections[id] = state.interceptor?.intercept(connection, id: id) ?? connection
            input(&state.machine, now, &state.effects)
            if state.interceptor != nil { intercepted(&state.machine, now) }
        }
    }

    /// Intercepts the driver's connections from now on, also those that are open already, and steps the machine.
    ///
    /// - Parameters:
    ///   - interceptor: The interceptor, always the same one.
    ///   - input: Steps the machine.
    package func intercept(
        _ interceptor: any ConnectionInterceptor, _ input: (inout Machine, Instant, inout Effects<Machine>) -> Void
    ) {
        self.run { state, now in
            if state.interceptor == nil {
                state.interceptor = interceptor
                state.connections.replaceAll { interceptor.intercept($1, id: $0) }
            }
            input(&state.machine, now, &state.effects)
        }
    }

    /// Returns the connection that the machine names, or `nil` if it has ended.
    package func connection(_ id: (borrowing Machine) -> ConnectionID?) -> (any MessageConnection)? {
        self.state.withLock { state in id(state.machine).flatMap { state.connections[$0] } }
    }

    /// Stops the machine and finishes the sequences of all consumers. Called when the owner is released.
    package func shutDown() {
        self.run { state, now in
            if state.machine.inactivity == nil, state.consumers.entries.contains(where: { $0.value.reportsRelease }) {
                state.effects.log(
                    .warning,
                    "The client was released, which ends its connection and the loops over its events. Keep a reference to it for as long as it is "
                        + "needed.")
            }
            state.machine.release(now: now, &state.effects)
            // The reason of all sequences is the release, not the end of the connection that it causes.
            state.effects.commands.removeAll { if case .finish = $0 { true } else { false } }
            let all = state.consumers.keys.sorted()
            state.effects.commands.append(.endConsumers(all, .ended))
        }
    }

    // MARK: Events of the transport, the clock, the work and the consumers

    @usableFromInline
    package func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.step { $0.opened(id, head: head, now: $1, &$2) }
    }

    @usableFromInline
    package func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        var next = 0
        while next < batch.entries.count { next = self.received(id, batch, from: next) }
    }

    @usableFromInline
    package func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int) -> Int {
        var actions = ActionsAfterUnlock()
        let count = batch.entries.count
        var end = count
        self.state.withLock { state in
            if let interceptor = state.interceptor, interceptor.ignoresMessages(of: id) { return }
            let now = self.time.now
            // Doesn't reserve for few messages: an idle connection would keep the memory.
            if count - start > 16 { state.effects.deliveries.reserveCapacity(count - start) }
            end = state.machine.received(id, batch, from: start, now: now, &state.effects)
            let firstByte = start == 0 ? 0 : batch.entries[start].range.lowerBound
            let lastByte = end < count ? batch.entries[end].range.lowerBound : batch.bytes.count
            state.effects.counters.messagesReceived += end - start
            state.effects.counters.bytesReceived += lastByte - firstByte
            self.finishStep(&state, reading: id, now, &actions)
        }
        self.run(actions)
        return end
    }

    package func receivedPart(_ id: ConnectionID, byteCount: Int) {
        self.run { state, now in
            if let interceptor = state.interceptor, interceptor.ignoresMessages(of: id) { return }
            state.machine.receivedPart(id, byteCount: byteCount, now: now)
        }
    }

    @usableFromInline
    package func writing(_ id: ConnectionID, paused: Bool) {
        self.run { state, now in
            guard state.connections[id] != nil else { return }
            state.machine.writing(id, paused: paused, now: now, &state.effects)
        }
    }

    package func answered(_ id: ConnectionID, _ count: Int) {
        self.run { state, _ in
            for waiter in state.connections.unanswered.answered(count, on: id) { state.machine.answered(waiter, &state.effects) }
        }
    }

    package func unsent(_ id: ConnectionID, _ messages: [TransportMessage]) {
        self.run { state, now in
            state.connections.discount(messages)
            state.machine.unsent(id, messages, now: now, &state.effects)
        }
    }

    @usableFromInline
    package func closed(_ id: ConnectionID, _ reason: CloseReason) {
        self.run { state, now, actions in
            _ = self.remove(id, &state, now, &actions)
            let unanswered = state.connections.unanswered.remove(id)
            state.machine.closed(id, reason, now: now, &state.effects)
            for waiter in unanswered { state.machine.unanswered(waiter, &state.effects) }
        }
    }

    package func timerFired() {
        self.run { state, now in
            switch state.timer.fired(now: now) {
            case .idle: return
            case .early(let instant): return self.time.schedule(self, at: instant)
            case .due: break
            }
            while let due = state.waiterDeadlines.popDue(now) {
                state.effects.commands.append(.resume(due.key, .failure(state.machine.timedOut(due.key, after: .time(due.companion)))))
                state.machine.cancelled(due.key, now: now, &state.effects)
            }
            while let overdue = state.gate.popOverdue(now: now) {
                guard let registered = state.consumers[overdue], registered.consumer.isFull,
                    state.gate.awaitsPeer(state.isReaderWaiting)
                else { continue }
                state.machine.overflowed(overdue, now: now, &state.effects)
            }
            guard let deadline = state.machine.nextDeadline, deadline <= now else { return }
            state.machine.timeout(now: now, &state.effects)
            guard let deadline = state.machine.nextDeadline, deadline <= now else { return }
            // The timer would fire without end. It fires a thousand times a second instead.
            state.isOverdue = true
            guard !state.hasLoggedOverdue else { return }
            state.hasLoggedOverdue = true
            state.effects.log(.error, "A deadline remained in the past after its timeout was handled; please report this error.")
        }
    }

    /// Ends the waits that would never end: the waits of callers with a time limit and, if no events can occur, for events.
    package func timeStoodStill(for duration: Duration) -> String? {
        let limit = WaitLimit.standstill(duration)
        var message: String?
        self.run { state, now in
            for id in state.waiterIDs where state.waiterDeadlines.contains(id) {
                state.effects.commands.append(.resume(id, .failure(state.machine.timedOut(id, after: limit))))
                state.machine.cancelled(id, now: now, &state.effects)
            }
            guard let inactivity = state.machine.inactivity else { return }
            let waiting = state.consumers.entries.filter { $0.value.consumer.hasWaitingReader }.map(\.key)
            guard !waiting.isEmpty else { return }
            let text = "\(limit). \(inactivity)"
            let reason = EndReason.closed(.transport(TransportError(.timedOut, text)))
            state.effects.commands.append(.endConsumers(waiting.sorted(), reason))
            message = text
        }
        return message
    }

    private func cancel(_ id: WaiterID) {
        self.run { state, now in
            guard state.waiters[id.rawValue] != nil else { return }
            state.effects.commands.append(.resume(id, .failure(state.machine.cancellation(of: id))))
            state.machine.cancelled(id, now: now, &state.effects)
        }
    }

    /// Begins the work that this thread has to begin, and the work that follows before it returns.
    private func beginWork() {
        let thread = ThreadID.current
        while let (id, work, isCancelled) = self.state.withLock({ $0.works.next(on: thread) }) {
            guard !isCancelled else { continue }
            let cancel = self.dependencies.perform(work, id, self)
            // The work may have finished or been cancelled before `perform` returned.
            if !self.state.withLock({ $0.works.began(id, cancel: cancel) }) { cancel?() }
        }
    }

    /// Reports an intermediate result of work. Has no effect after the work has finished or was cancelled.
    package func workProgressed(_ id: WorkID, _ progress: Machine.WorkProgress) {
        self.run { state, now in
            guard state.works.contains(id) else { return }
            state.machine.workProgressed(id, progress, now: now, &state.effects)
        }
    }

    /// Reports the result of work. Only the first call for the same work has an effect, and none if the work was cancelled.
    package func workFinished(_ id: WorkID, _ result: Machine.WorkResult) {
        self.run { state, now, actions in
            guard let cancel = state.works.remove(id) else { return }
            if let cancel { actions.release(cancel) }
            state.machine.workFinished(id, result, now: now, &state.effects)
        }
    }

    package func drained(_ id: ConsumerID) {
        self.run { state, now, actions in
            // The buffer may have filled up again in the meantime, and will be drained again.
            guard let registered = state.consumers[id], !registered.consumer.isFull else { return }
            self.resumeReading(state.gate.isNotFull(id, isReaderWaiting: state.isReaderWaiting), &state, now, &actions)
        }
    }

    package func readerWaits(_ id: ConsumerID) {
        // If reading is paused later, it is known that the task waits.
        guard self.state.withLock({ !$0.gate.isOpen }) else { return }
        self.run { state, now, actions in self.resumeReading(state.gate.readerWaits(), &state, now, &actions) }
    }

    package func consumerRemoved(_ id: ConsumerID) {
        self.run { state, now, actions in self.removeConsumer(id, &state, now, &actions) }
    }

    package func iteratorReplaced(_ id: ConsumerID) {
        self.dependencies.log.log(
            .warning, self.dependencies.subsystem,
            "A second iterator of an event sequence took over from the first, which ends. For two consumers, use two sequences.")
    }

    // MARK: Running a step

    private func run(_ input: (inout State, Instant) -> Void) {
        self.run { state, now, _ in input(&state, now) }
    }

    private func run(_ input: (inout State, Instant, inout ActionsAfterUnlock) -> Void) {
        var actions = ActionsAfterUnlock()
        self.state.withLock { state in
            // Read under the lock, so that time never goes backwards for the machine.
            let now = self.time.now
            input(&state, now, &actions)
            self.finishStep(&state, reading: nil, now, &actions)
        }
        self.run(actions)
    }

    private func run(_ actions: ActionsAfterUnlock) {
        actions.run()
        guard actions.schedulesCallbacks else { return }
        while true {
            let turns = self.state.withLock { state in
                var turns: [CallbackTurn] = []
                swap(&turns, &state.turns)
                state.isScheduling = !turns.isEmpty
                return turns
            }
            guard !turns.isEmpty else { return }
            for turn in turns { turn.schedule() }
        }
    }

    private func finishStep(_ state: inout State, reading id: ConnectionID?, _ now: Instant, _ actions: inout ActionsAfterUnlock) {
        if !state.effects.deliveries.isEmpty { self.deliver(&state, reading: id, now, &actions) }
        state.effects.routes.removeRetired()
        var hasFinished = false
        while !state.effects.commands.isEmpty { self.run(commandsOf: &state, now, &actions, &hasFinished) }
        assert(
            !hasFinished
                || state.waiterIDs.allSatisfy { state.waiterDeadlines.contains($0) || state.connections.unanswered.contains($0) },
            "a caller without a time limit still waits after the end of the connection")
        self.updateTimer(&state, now)
    }

    private func deliver(_ state: inout State, reading id: ConnectionID?, _ now: Instant, _ actions: inout ActionsAfterUnlock) {
        var start = 0
        var isFull = false
        var overflowing: [ConsumerID] = []
        for run in state.effects.runs {
            for id in state.effects.routes[run.route] {
                guard let registered = state.consumers[id] else { continue }
                let appended = registered.consumer.append(
                    state.effects.deliveries[start..<run.end], joinsLast: state.lastCallback.map { $0 == id } ?? true)
                actions.resume(appended.wakeUp)
                if appended.keepsOrder { state.lastCallback = id }
                if let turn = appended.turn {
                    if state.isScheduling { state.turns.append(turn) } else { actions.schedule(turn) }
                }
                if let released = appended.released { actions.release(released) }
                state.effects.counters.eventsDropped += appended.dropped
                if appended.becameFull { state.gate.becameFull(id) }
                isFull = isFull || appended.isFull
                if appended.isOverflowing { overflowing.append(id) }
            }
            start = run.end
        }
        if actions.schedulesCallbacks { state.isScheduling = true }
        // A consumer on another thread may have released its copies of the events already.
        actions.release(state.effects.deliveries)
        state.effects.deliveries = []
        state.effects.runs.removeAll(keepingCapacity: true)
        guard isFull || !overflowing.isEmpty else { return }
        let connection = id.flatMap { state.connections[$0] == nil ? nil : $0 }
        let isPaused = state.gate.delivered(
            on: connection, isFull: isFull, overflowing: overflowing, now: now, isReaderWaiting: state.isReaderWaiting)
        if isPaused, let connection { self.pauseReading(connection, &state, now) }
    }

    /// - Parameter hasFinished: Set if the connection has ended until the next start.
    @inline(__always)  // A call takes 2 % of the instructions of a message with its answer.
    private func run(commandsOf state: inout State, _ now: Instant, _ actions: inout ActionsAfterUnlock, _ hasFinished: inout Bool) {
        let commands = state.effects.commands
        state.effects.commands = []
        for command in commands {
            switch command {
            case .open(let id, let request):
                let connection = self.dependencies.connect(request, id, self, self)
                state.connections[id] = connection
                if connection.undecorated is any ConnectionOverHTTP { state.connections.unanswered.add(id) }
                actions.add(.open(connection))
            case .send(let id, let message):
                if let connection = state.connections.enqueue(message, on: id) { actions.flush(connection) }
            case .close(let id, let code, let reason):
                guard let connection = state.connections[id] else { continue }
                actions.forgetFlushes()
                actions.add(.close(connection, code, reason))
            case .abandon(let id):
                if let connection = self.remove(id, &state, now, &actions) { actions.add(.abandon(connection)) }
                for waiter in state.connections.unanswered.remove(id) { state.machine.unanswered(waiter, &state.effects) }
            case .work(let id, let work):
                if state.works.add(id, work, on: .current) { actions.add(.run { self.beginWork() }) }
            case .cancel(let id):
                if case .some(let cancel?) = state.works.remove(id) { actions.add(.run(cancel)) }
            case .reading(let id, let isPaused):
                guard state.connections[id] != nil, state.gate.setPaused(isPaused, id) else { continue }
                if isPaused { self.pauseReading(id, &state, now) } else { self.resumeReading([id], &state, now, &actions) }
            case .resume(let id, let result):
                actions.resume(state.takeWaiter(id)?.fulfill(result))
            case .awaitAnswer(let waiter, let id):
                guard state.waiters[waiter.rawValue] != nil, !state.connections.unanswered.addWaiter(waiter, on: id) else { continue }
                state.machine.answered(waiter, &state.effects)
            case .ignored(let id):
                guard let connection = state.connections[id]?.undecorated as? any ConnectionOverHTTP else { continue }
                actions.add(.run { connection.receivedNoMessage() })
            case .endConsumers(let ids, let reason):
                for id in ids { self.end(id, reason, &state, now, &actions) }
            case .finish(let reason):
                let ending = state.consumers.entries.filter { $0.value.lifetime == .connection }.map(\.key)
                for id in ending.sorted() { self.end(id, .closed(reason), &state, now, &actions) }
                hasFinished = true
            case .log(let level, let message):
                actions.add(.run { [dependencies] in dependencies.log.log(level, dependencies.subsystem, message) })
            case .release: break
            }
        }
        // The values to release, and the results of callers that have received one already, are contained in the commands alone.
        actions.release(commands)
    }

    /// Removes a connection that has ended or is abandoned.
    private func remove(
        _ id: ConnectionID, _ state: inout State, _ now: Instant, _ actions: inout ActionsAfterUnlock
    ) -> (any MessageConnection)? {
        state.interceptor?.ended(id)
        self.resumeReading(state.gate.removed(id, isReaderWaiting: state.isReaderWaiting), &state, now, &actions)
        return state.connections.remove(id)
    }

    private func end(_ id: ConsumerID, _ reason: EndReason, _ state: inout State, _ now: Instant, _ actions: inout ActionsAfterUnlock) {
        actions.resume(self.removeConsumer(id, &state, now, &actions)?.finish(reason))
    }

    @discardableResult
    private func removeConsumer(
        _ id: ConsumerID, _ state: inout State, _ now: Instant, _ actions: inout ActionsAfterUnlock
    ) -> (any EventConsumer<Machine.Event>)? {
        guard let registered = state.consumers.removeValue(forKey: id) else { return nil }
        state.peerConsumers.remove(id)
        state.effects.routes.remove(id)
        self.resumeReading(state.gate.isNotFull(id, isReaderWaiting: state.isReaderWaiting), &state, now, &actions)
        actions.release(registered.consumer)
        return registered.consumer
    }

    private func pauseReading(_ id: ConnectionID, _ state: inout State, _ now: Instant) {
        state.connections[id]?.pauseReading()
        state.machine.reading(id, paused: true, now: now)
    }

    /// Resumes connections. Called under the lock, so that pausing and resuming keep their order. The flush performs it.
    private func resumeReading(_ ids: [ConnectionID], _ state: inout State, _ now: Instant, _ actions: inout ActionsAfterUnlock) {
        for id in ids {
            guard let connection = state.connections[id] else { continue }
            connection.resumeReading()
            actions.flush(connection)
            state.machine.reading(id, paused: false, now: now)
        }
    }

    /// Schedules the timer for the next deadline. Called under the lock: otherwise, of two threads, the one with the later deadline could
    /// schedule last.
    private func updateTimer(_ state: inout State, _ now: Instant) {
        if var deadline = state.nextDeadline {
            if state.isOverdue { deadline = max(deadline, now.advanced(by: .milliseconds(1))) }
            if let instant = state.timer.setDeadline(deadline) { self.time.schedule(self, at: instant) }
        } else if state.timer.cancel() {
            self.time.schedule(self, at: nil)
        }
        state.isOverdue = false
    }
}

extension SessionDriver.Dependencies where Machine.Request == WebSocketRequest {
    /// Creates the environment of a client whose connections are WebSockets.
    package convenience init(
        transport: any WebSocketTransport, time: any TimeSource, log: LogSink = .standard,
        describe: @escaping Describe = { _ in messageSize }, subsystem: String, perform: @escaping Perform = { _, _, _ in nil }
    ) {
        self.init(
            connect: { request, id, events, _ in transport.makeConnection(request, id: id, events: events) }, time: time, log: log,
            describe: describe,
            subsystem: subsystem, perform: perform)
    }
}

extension SessionDriver.Dependencies where Machine.Request == Never {
    /// Creates the environment of a server, which adopts connections and opens none.
    package convenience init(
        time: any TimeSource, log: LogSink = .standard, subsystem: String, perform: @escaping Perform = { _, _, _ in nil }
    ) {
        self.init(connect: Self.connect, time: time, log: log, subsystem: subsystem, perform: perform)
    }

    private static func connect(
        _ request: Never, _ id: ConnectionID, _ events: any MessageEvents, _ driver: SessionDriver<Machine>
    ) -> any MessageConnection {}
}

/// The connections of a driver and the messages sent on them. It isn't generic, so that it is compiled only once.
@usableFromInline
struct OpenConnections: Sendable {
    private var connections = SmallDictionary<ConnectionID, any MessageConnection>()
    private(set) var messagesSent = 0
    private(set) var bytesSent = 0
    var unanswered = UnansweredMessages()

    subscript(id: ConnectionID) -> (any MessageConnection)? {
        get { self.connections[id] }
        set { self.connections[id] = newValue }
    }

    mutating func remove(_ id: ConnectionID) -> (any MessageConnection)? { self.connections.removeValue(forKey: id) }

    /// Forgets that messages were sent, which follow on another connection.
    mutating func discount(_ messages: [TransportMessage]) {
        self.messagesSent -= messages.count
        self.bytesSent -= messages.reduce(0) { $0 + $1.bytes.count }
    }

    /// Replaces the connections, in the order of their IDs.
    mutating func replaceAll(_ replacement: (ConnectionID, any MessageConnection) -> any MessageConnection) {
        for (id, connection) in self.connections.entries.sorted(by: { $0.key < $1.key }) {
            self.connections[id] = replacement(id, connection)
        }
    }

    /// Enqueues a message on a connection.
    ///
    /// - Returns: The connection, to be flushed after the lock is released; `nil` if it has ended.
    @usableFromInline
    mutating func enqueue(_ message: TransportMessage, on id: ConnectionID) -> (any MessageConnection)? {
        guard let connection = self.connections[id] else { return nil }
        self.messagesSent += 1
        self.bytesSent += message.bytes.count
        self.unanswered.sent(on: id)
        connection.enqueue(message)
        return connection
    }
}
