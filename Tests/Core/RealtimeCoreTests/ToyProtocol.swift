import RealtimeSystem
import RealtimeCore
import RealtimeTesting

/// A protocol of lines, made up for these tests: if the driver runs it, the driver knows nothing of any other.
///
/// ```
/// server:  hello              the greeting
///          = KEY words        an answer
///          @ TOPIC words      an event
///          end TOPIC          nothing more on this topic
///          do WORK            something that takes its time
///          undo               …is not wanted any more
/// client:  ? KEY  ask KEY's answer;  .  a ping;  done RESULT
/// ```
struct ToySession: ReconnectingSession {
    enum Failure: Error, Hashable { case cancelled, timedOut(Duration), ended(CloseReason) }

    typealias Event = String
    typealias WaiterResult = String
    typealias Work = String
    typealias WorkResult = String

    var connection: ConnectionStateMachine
    let request = WebSocketRequest(Endpoint(scheme: "ws", host: "toy", port: 80))
    let heartbeat: HeartbeatPolicy
    private(set) var questions: [String: WaiterID] = [:]
    private var topics: [String: Int] = [:]
    private var listeners: [[ConsumerID]] = []
    private(set) var results: [String] = []
    private(set) var readings: [Bool] = []
    private var lastWork: UInt64 = 0

    init(_ change: (inout ConnectionPolicy) -> Void = { _ in }) {
        var policy = ConnectionPolicy()
        change(&policy)
        self.connection = ConnectionStateMachine(policy: policy, generator: SplitMix64(seed: 1))
        self.heartbeat = HeartbeatPolicy(probeAfterSilence: .seconds(60), deadAfterSilence: .seconds(90))
    }

    static let cancelled = Failure.cancelled
    func timedOut(after limit: Duration) -> Failure { .timedOut(limit) }

    var nextDeadline: Instant? { self.connection.nextDeadline }
    var isConnected: Bool { self.connection.connected != nil }
    var lastWorkID: WorkID { WorkID(rawValue: self.lastWork) }

    func ping(now: Instant) -> WebSocketMessage { .text(".") }
    mutating func pinged(now: Instant) {}
    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) { effects.log(.debug, "opening \(id)") }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        _ = self.connection.opened(id)
    }

    func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision {
        switch reason {
        case .peer(.policyViolation, _): .never
        case .peer(.goingAway, _): .immediately
        default: .afterBackoff()
        }
    }

    mutating func lost(_ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        for waiter in self.questions.values.sorted(by: { $0.rawValue < $1.rawValue }) {
            effects.commands.append(.resume(waiter, .failure(.ended(reason))))
        }
        self.questions = [:]
    }

    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.received(id, now: now) else { return }
        for message in batch.messages where message.kind == .text {
            let words = String(decoding: message.bytes, as: UTF8.self).split(separator: " ", maxSplits: 2).map(String.init)
            switch (words.first, words.count) {
            case ("hello", 1): _ = self.connection.ready(id, self.heartbeat, now: now)
            case ("=", 3):
                if let waiter = self.questions.removeValue(forKey: words[1]) {
                    effects.commands.append(.resume(waiter, .success(words[2])))
                }
            case ("@", 3): self.deliver(words[2], words[1], &effects)
            case ("end", 2): effects.commands.append(.endConsumers(self.topics[words[1]].map { self.listeners[$0] } ?? [], .ended))
            case ("do", 2):
                self.lastWork += 1
                effects.commands.append(.work(self.lastWorkID, words[1]))
            case ("undo", 1): effects.commands.append(.cancel(self.lastWorkID))
            default: effects.counters.messagesIgnored += 1
            }
        }
    }

    private func deliver(_ event: String, _ topic: String, _ effects: inout Effects<Self>) {
        guard let index = self.topics[topic], !self.listeners[index].isEmpty else { return }
        effects.deliveries.append(event)
        effects.runs.append(Effects<Self>.Run(EventRoute(rawValue: index), end: effects.deliveries.count))
    }

    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {
        self.connection.reading(id, paused: paused, now: now)
        self.readings.append(paused)
    }

    mutating func workFinished(_ id: WorkID, _ result: String, now: Instant, _ effects: inout Effects<Self>) {
        self.results.append(result)
        if let id = self.connection.connected { effects.commands.append(.send(id, .text("done \(result)"))) }
    }

    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) { self.connectionTimeout(now: now, &effects) }

    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        for (key, other) in self.questions where other == waiter { self.questions[key] = nil }
    }

    func consumers(on route: EventRoute) -> [ConsumerID] { self.listeners[route.rawValue] }

    mutating func consumerGone(_ listener: ConsumerID) {
        for index in self.listeners.indices { self.listeners[index].removeAll { $0 == listener } }
    }

    // MARK: Its users

    mutating func listen(_ id: ConsumerID, to topic: String) {
        if self.topics[topic] == nil {
            self.topics[topic] = self.listeners.count
            self.listeners.append([])
        }
        self.listeners[self.topics[topic]!].append(id)
    }

    mutating func ask(_ key: String, _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        guard let id = self.connection.connected else { return effects.commands.append(.resume(waiter, .failure(.ended(.requested)))) }
        self.questions[key] = waiter
        effects.commands.append(.send(id, .text("? \(key)")))
    }

    func say(_ line: String, _ effects: inout Effects<Self>) {
        if let id = self.connection.connected { effects.commands.append(.send(id, .text(line))) }
    }

    var listenerCount: Int { self.listeners.reduce(0) { $0 + $1.count } }
}

/// A transport whose every connection is moved by the test, and which notes what it was told.
final class HandTransport: WebSocketTransport {
    let made = EventRecorder<HandConnection>()
    private let whenFlushed: @Sendable (HandConnection) -> Void

    init(whenFlushed: @escaping @Sendable (HandConnection) -> Void = { _ in }) {
        self.whenFlushed = whenFlushed
    }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        let connection = HandConnection(id, events, self.whenFlushed)
        self.made.record(connection)
        return connection
    }
}

final class HandConnection: WebSocketConnection {
    enum Call: Hashable, Sendable {
        case open, flush, pause, resume, abandon
        case enqueue(String)
        case close(CloseCode)
    }

    let id: ConnectionID
    let calls = EventRecorder<Call>()
    private let events: Lock<(any WebSocketEvents)?>
    private let whenFlushed: @Sendable (HandConnection) -> Void

    init(_ id: ConnectionID, _ events: any WebSocketEvents, _ whenFlushed: @escaping @Sendable (HandConnection) -> Void) {
        self.id = id
        self.events = Lock(events)
        self.whenFlushed = whenFlushed
    }

    func open() { self.calls.record(.open) }
    func enqueue(_ message: WebSocketMessage) { self.calls.record(.enqueue(String(decoding: message.bytes, as: UTF8.self))) }
    func pauseReading() { self.calls.record(.pause) }
    func resumeReading() { self.calls.record(.resume) }
    func close(_ code: CloseCode, reason: String) { self.calls.record(.close(code)) }
    func abandon() { self.calls.record(.abandon) }

    func flush() {
        self.calls.record(.flush)
        self.whenFlushed(self)
    }

    // MARK: What the test makes of it

    /// Open, and greeted.
    func connect() {
        self.events.withLock { $0 }?.opened(self.id, head: HTTPResponseHead(status: 101))
        self.receive("hello")
    }

    /// One read that brought these lines.
    func receive(_ lines: String...) { self.receive(lines) }

    func receive(_ lines: [String]) {
        self.events.withLock { $0 }?.received(self.id, MessageBatch(lines.map { WebSocketMessage.text($0) }))
    }

    /// Nothing more comes.
    func forget() { self.events.withLock { $0 = nil } }

    func end(_ reason: CloseReason) { self.events.withLock { $0.take() }?.closed(self.id, reason) }
}

/// A clock that counts how often it was asked to wake somebody.
final class CountingTime: TimeSource {
    let clock = ManualClock()
    let wishes = EventRecorder<Instant?>()

    var now: Instant { self.clock.now }

    func schedule(_ client: any TimerClient, at instant: Instant?) {
        self.wishes.record(instant)
        self.clock.schedule(client, at: instant)
    }
}

/// A driver that runs the toy protocol, with everything around it in the test's hand.
final class Toy: Sendable {
    let time = CountingTime()
    let transport: HandTransport
    let driver: SessionDriver<ToySession>

    init(
        log: LogSink = .none, whenFlushed: @escaping @Sendable (HandConnection) -> Void = { _ in },
        policy: (inout ConnectionPolicy) -> Void = { _ in },
        perform: @escaping SessionDriver<ToySession>.Dependencies.Perform = { _, _ in nil }
    ) {
        self.transport = HandTransport(whenFlushed: whenFlushed)
        self.driver = SessionDriver(
            ToySession(policy), in: .init(transport: self.transport, time: self.time, log: log, subsystem: "toy", perform: perform))
    }

    /// A connection that is left open would keep the driver, and the driver it.
    deinit {
        for connection in self.transport.made.all { connection.forget() }
    }

    var clock: ManualClock { self.time.clock }
    var connection: HandConnection { self.transport.made.all.last! }

    /// Started, open and greeted; what the connection was told until then is forgotten.
    func connect() -> HandConnection {
        self.driver.start()
        let connection = self.connection
        connection.connect()
        _ = connection.calls.take()
        return connection
    }

    func listen(_ topic: String, _ policy: BufferPolicy = .standard, _ lifetime: ConsumerLifetime = .connection) -> EventSequence<String> {
        self.driver.makeSequence(policy, lifetime: lifetime) {
            $1.append(contentsOf: $0)
        } register: { machine, id, _ in
            machine.listen(id, to: topic)
        }
    }

    /// Asks in a task of its own, and returns once the question is in the machine's hands.
    func ask(_ key: String, limit: Duration? = nil) async -> Task<Result<String, ToySession.Failure>, Never> {
        let task = Task { [driver] () -> Result<String, ToySession.Failure> in
            do throws(ToySession.Failure) {
                return .success(try await driver.awaitResult(limit: limit) { $0.ask(key, $1, &$3) })
            } catch {
                return .failure(error)
            }
        }
        while self.driver.read({ $0.questions[key] == nil }) { await Task.yield() }
        return task
    }
}
