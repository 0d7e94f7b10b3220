import RealtimeSystem
import RealtimeCore
import RealtimeTesting

/// A line-based protocol for tests. It shows that the driver doesn't depend on a real protocol.
///
/// ```
/// server:  hello              completes the handshake
///          = KEY text         the response to a request
///          @ TOPIC text       an event
///          end TOPIC          the last event of a topic
///          do WORK            starts asynchronous work; its result "then WORK" starts further work
///          undo               cancels the last work
///          pause, resume      pauses or resumes the reading of the connection
/// client:  ? KEY              a request
///          .                  a ping
///          done RESULT        the result of work
/// ```
struct ToySession: ReconnectingSession {
    enum Failure: Error, Hashable { case cancelled, timedOut(WaitLimit), ended(CloseReason) }

    typealias Event = String
    typealias WaiterResult = String
    typealias Work = String
    typealias WorkProgress = String
    typealias WorkResult = String

    var connection: ConnectionStateMachine
    let request = WebSocketRequest(Endpoint(scheme: "ws", host: "toy", port: 80))
    let heartbeat: HeartbeatPolicy
    private(set) var requests: [String: WaiterID] = [:]
    private var topics: [String: EventRoute] = [:]
    private(set) var results: [String] = []
    private(set) var readings: [Bool] = []
    private(set) var nextAttempts: [NextAttempt] = []
    private(set) var overflows: [ConsumerID] = []
    private var works = PendingWork<Void>()
    private(set) var lastWorkID = WorkID(rawValue: 0)
    /// Connections in addition to the current one.
    private var additional: Set<ConnectionID> = []

    init(_ change: (inout ConnectionPolicy) -> Void = { _ in }) {
        var policy = ConnectionPolicy()
        change(&policy)
        self.connection = ConnectionStateMachine(policy: policy, generator: SplitMix64(seed: 1))
        self.heartbeat = HeartbeatPolicy(probeAfterSilence: .seconds(60), deadAfterSilence: .seconds(90))
    }

    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> Failure { .timedOut(limit) }

    var isConnected: Bool { self.connection.connected != nil }

    func ping(now: Instant) -> TransportMessage { .text(".") }
    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) { effects.log(.debug, "opening \(id)") }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        _ = self.connection.opened(id, now: now)
    }

    func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision {
        switch reason {
        case .peer(.policyViolation, _): .never
        case .peer(.goingAway, _): .immediately
        default: .afterBackoff()
        }
    }

    mutating func lost(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        self.nextAttempts.append(next)
        for waiter in self.requests.values.sorted() { effects.resume(waiter, .failure(.ended(reason))) }
        self.requests = [:]
    }

    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.received(id, now: now) || self.additional.contains(id) else { return }
        for message in batch.messages where message.kind == .text {
            let fields = String(decoding: message.bytes, as: UTF8.self).split(separator: " ", maxSplits: 2).map(String.init)
            switch (fields.first, fields.count) {
            case ("hello", 1): _ = self.connection.ready(id, self.heartbeat, now: now)
            case ("=", 3):
                if let waiter = self.requests.removeValue(forKey: fields[1]) {
                    effects.commands.append(.resume(waiter, .success(fields[2])))
                }
            case ("@", 3): self.deliver(fields[2], fields[1], &effects)
            case ("end", 2): effects.commands.append(.endConsumers(effects.routes[self.topics[fields[1]] ?? EventRoutes.none], .ended))
            case ("do", 2): self.lastWorkID = self.works.start(fields[1], for: (), &effects)
            case ("undo", 1): effects.commands.append(.cancel(self.lastWorkID))
            case ("pause", 1), ("resume", 1): effects.commands.append(.reading(id, paused: fields[0] == "pause"))
            default: effects.counters.messagesIgnored += 1
            }
        }
    }

    private func deliver(_ event: String, _ topic: String, _ effects: inout Effects<Self>) {
        effects.deliver(event, on: self.topics[topic] ?? EventRoutes.none)
    }

    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {
        self.connection.reading(id, paused: paused, now: now)
        self.readings.append(paused)
    }

    mutating func overflowed(_ consumer: ConsumerID, now: Instant, _ effects: inout Effects<Self>) { self.overflows.append(consumer) }

    mutating func workFinished(_ id: WorkID, _ result: String, now: Instant, _ effects: inout Effects<Self>) {
        self.results.append(result)
        if result.hasPrefix("then ") {
            self.lastWorkID = self.works.start(String(result.dropFirst(5)), for: (), &effects)
        } else if let id = self.connection.connected {
            effects.commands.append(.send(id, .text("done \(result)")))
        }
    }

    mutating func workProgressed(_ id: WorkID, _ progress: String, now: Instant, _ effects: inout Effects<Self>) {
        self.results.append("...\(progress)")
    }

    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        for (key, other) in self.requests where other == waiter { self.requests[key] = nil }
    }

    // MARK: Callers

    mutating func openAdditional(_ effects: inout Effects<Self>) {
        let id = self.connection.additionalConnection()
        self.additional.insert(id)
        effects.commands.append(.open(id, self.request))
    }

    func publish(_ event: String, _ topic: String, _ effects: inout Effects<Self>) { self.deliver(event, topic, &effects) }

    mutating func subscribe(_ id: ConsumerID, to topic: String, _ effects: inout Effects<Self>) {
        effects.routes.add(id, to: &self.topics[topic, default: EventRoutes.none])
    }

    mutating func request(_ key: String, _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        guard let id = self.connection.connected else { return effects.commands.append(.resume(waiter, .failure(.ended(.requested)))) }
        self.requests[key] = waiter
        effects.commands.append(.send(id, .text("? \(key)")))
    }

    func send(_ line: String, _ effects: inout Effects<Self>) {
        if let id = self.connection.connected { effects.commands.append(.send(id, .text(line))) }
    }
}

/// A transport whose connections are controlled by the test and record the calls to their methods.
final class ManualTransport: WebSocketTransport {
    let made = EventRecorder<ManualConnection>()
    private let whenFlushed: @Sendable (ManualConnection) -> Void

    init(whenFlushed: @escaping @Sendable (ManualConnection) -> Void = { _ in }) {
        self.whenFlushed = whenFlushed
    }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        let connection = ManualConnection(id, events, self.whenFlushed)
        self.made.record(connection)
        return connection
    }
}

final class ManualConnection: MessageConnection {
    enum Call: Hashable, Sendable {
        case open, flush, pause, resume, abandon
        case enqueue(String)
        case close(CloseCode)
    }

    let id: ConnectionID
    let calls = EventRecorder<Call>()
    private let events: Lock<(any MessageEvents)?>
    private let whenFlushed: @Sendable (ManualConnection) -> Void

    init(_ id: ConnectionID, _ events: any MessageEvents, _ whenFlushed: @escaping @Sendable (ManualConnection) -> Void) {
        self.id = id
        self.events = Lock(events)
        self.whenFlushed = whenFlushed
    }

    func open() { self.calls.record(.open) }
    func enqueue(_ message: TransportMessage) { self.calls.record(.enqueue(String(decoding: message.bytes, as: UTF8.self))) }
    func pauseReading() { self.calls.record(.pause) }
    func resumeReading() { self.calls.record(.resume) }
    func close(_ code: CloseCode, reason: String) { self.calls.record(.close(code)) }
    func abandon() { self.calls.record(.abandon) }

    func flush() {
        self.calls.record(.flush)
        self.whenFlushed(self)
    }

    // MARK: Control by the test

    /// Opens the connection and completes the handshake.
    func connect() {
        self.events.withLock { $0 }?.opened(self.id, head: HTTPResponseHead(status: 101))
        self.receive("hello")
    }

    /// Delivers lines that arrived in one read.
    func receive(_ lines: String...) { self.receive(lines) }

    func receive(_ lines: [String]) {
        self.events.withLock { $0 }?.received(self.id, MessageBatch(lines.map { TransportMessage.text($0) }))
    }

    /// Releases the receiver of events.
    func releaseEvents() { self.events.withLock { $0 = nil } }

    func end(_ reason: CloseReason) { self.events.withLock { $0.take() }?.closed(self.id, reason) }
}

/// A manual clock that records the calls to `schedule`.
final class RecordingTime: TimeSource {
    let clock = ManualClock()
    let scheduled = EventRecorder<Instant?>()

    var now: Instant { self.clock.time.now }

    func schedule(_ client: any TimerClient, at instant: Instant?) {
        self.scheduled.record(instant)
        self.clock.time.schedule(client, at: instant)
    }
}

/// A driver that runs the toy protocol, in an environment controlled by the test.
final class Toy: Sendable {
    let time = RecordingTime()
    let transport: ManualTransport
    let driver: SessionDriver<ToySession>

    init(
        log: LogSink = .none, whenFlushed: @escaping @Sendable (ManualConnection) -> Void = { _ in },
        policy: (inout ConnectionPolicy) -> Void = { _ in },
        perform: @escaping SessionDriver<ToySession>.Dependencies.Perform = { _, _, _ in nil }
    ) {
        self.transport = ManualTransport(whenFlushed: whenFlushed)
        self.driver = SessionDriver(
            ToySession(policy), in: .init(transport: self.transport, time: self.time, log: log, subsystem: "toy", perform: perform))
    }

    /// An open connection and the driver retain each other.
    deinit {
        for connection in self.transport.made.all { connection.releaseEvents() }
    }

    var clock: ManualClock { self.time.clock }
    var connection: ManualConnection { self.transport.made.all.last! }

    /// Starts the driver, connects it, and discards the recorded calls.
    func connect() -> ManualConnection {
        self.driver.start()
        let connection = self.connection
        connection.connect()
        _ = connection.calls.take()
        return connection
    }

    /// Opens a connection in addition to the current one, and discards the recorded calls.
    func addConnection() -> ManualConnection {
        self.driver.step { machine, _, effects in machine.openAdditional(&effects) }
        _ = self.connection.calls.take()
        return self.connection
    }

    func events(
        _ topic: String, _ policy: BufferPolicy = .standard, _ lifetime: ConsumerLifetime = .connection, reportsRelease: Bool = false
    ) -> EventSequence<String> {
        self.driver.makeSequence(policy, lifetime: lifetime, reportsRelease: reportsRelease) {
            $1.append(contentsOf: $0)
        } register: { machine, id, effects in
            machine.subscribe(id, to: topic, &effects)
        }
    }

    /// Sends a request in a separate task, and returns when the machine has received the request.
    func request(
        _ key: String, limit: Duration? = nil, awaitsPeer: Bool = true
    ) async -> Task<Result<String, ToySession.Failure>, Never> {
        let task = Task { [driver] () -> Result<String, ToySession.Failure> in
            do throws(ToySession.Failure) {
                return .success(try await driver.awaitResult(limit: limit, awaitsPeer: awaitsPeer) { $0.request(key, $1, &$3) })
            } catch {
                return .failure(error)
            }
        }
        while self.driver.read({ $0.requests[key] == nil }) { await Task.yield() }
        return task
    }
}
