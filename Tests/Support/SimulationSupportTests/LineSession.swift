import RealtimeCore

/// The machine of a minimal protocol, with mistakes that a simulation must find.
///
/// The server sends `hello` when a connection opens, answers `? KEY` with `= KEY`, and sends other lines as events.
struct LineSession: ReconnectingSession {
    enum Failure: Error { case cancelled, timedOut, ended }

    enum Mistake: Sendable, CaseIterable {
        case none
        /// A message of an abandoned connection is delivered.
        case deliversLateMessages
        /// Waiters are lost with the connection.
        case losesWaiters
        case resumesWaitersTwice
        case neverAnswersWaiters
        /// Reconnects on another connection without abandoning the current one.
        case opensTwoConnections
        case sendsBeforeOpened
        case sendsAfterStop
        case leavesDeadline
        case setsDeadlineInThePast
        case deliversAfterStop
        case countsMessagesTwice
        case abandonsWithoutReason
        case closesWithoutCall
        case isRandom
    }

    typealias Event = String
    typealias WaiterResult = String
    typealias Work = Never
    typealias WorkResult = Never

    var connection: ConnectionStateMachine
    let request = WebSocketRequest(Endpoint(scheme: "ws", host: "line", port: 80))
    private let mistake: Mistake
    private(set) var waiters: [String: WaiterID] = [:]
    private var route = EventRoutes.none
    private var extraDeadline: Instant?
    private var received = 0

    init(_ mistake: Mistake, seed: UInt64) {
        self.mistake = mistake
        var policy = ConnectionPolicy()
        policy.openTimeout = .seconds(10)
        self.connection = ConnectionStateMachine(policy: policy, generator: SplitMix64(seed: seed))
    }

    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> Failure { .timedOut }

    var nextDeadline: Instant? { .earliest(self.connection.nextDeadline, self.extraDeadline) }

    func ping(now: Instant) -> TransportMessage { .text(".") }
    func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision { .afterBackoff() }

    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if self.mistake == .sendsBeforeOpened { effects.commands.append(.send(id, .text("early"))) }
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        _ = self.connection.opened(id, now: now)
    }

    mutating func lost(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        if self.mistake != .losesWaiters {
            for (_, waiter) in self.waiters.sorted(by: { $0.key < $1.key }) { effects.commands.append(.resume(waiter, .failure(.ended))) }
        }
        if self.mistake == .sendsAfterStop, next == .never { effects.commands.append(.send(ConnectionID(rawValue: 1), .text("late"))) }
        if self.mistake == .leavesDeadline, next == .never { self.extraDeadline = now.advanced(by: .seconds(3600)) }
        self.waiters = [:]
    }

    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        let isCurrent = self.connection.received(id, now: now)
        let isStopped = if case .closing(id, _) = self.connection.state { true } else { false }
        guard isCurrent || self.mistake == .deliversLateMessages || (self.mistake == .deliversAfterStop && isStopped) else { return }
        if self.mistake == .countsMessagesTwice { effects.counters.messagesReceived += 1 }
        for message in batch.messages where message.kind == .text {
            self.received += 1
            let fields = String(decoding: message.bytes, as: UTF8.self).split(separator: " ").map(String.init)
            switch fields.first {
            case "hello":
                _ = self.connection.ready(id, HeartbeatPolicy(probeAfterSilence: .seconds(60), deadAfterSilence: .seconds(90)), now: now)
            case "=": if let waiter = self.waiters.removeValue(forKey: fields[1]) { self.answer(waiter, fields[1], &effects) }
            default: self.deliver(fields[0], &effects)
            }
        }
        self.makeMistake(id, now: now, &effects)
    }

    private func answer(_ waiter: WaiterID, _ text: String, _ effects: inout Effects<Self>) {
        if self.mistake == .neverAnswersWaiters { return }
        effects.commands.append(.resume(waiter, .success(text)))
        if self.mistake == .resumesWaitersTwice { effects.commands.append(.resume(waiter, .success(text))) }
    }

    private mutating func deliver(_ event: String, _ effects: inout Effects<Self>) { effects.deliver(event, on: self.route) }

    private mutating func makeMistake(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.received == 5 else { return }
        switch self.mistake {
        case .opensTwoConnections: effects.commands.append(.open(ConnectionID(rawValue: id.rawValue + 100), self.request))
        case .setsDeadlineInThePast: self.extraDeadline = Instant(nanoseconds: now.nanoseconds - 1)
        case .abandonsWithoutReason: effects.commands.append(.abandon(id))
        case .closesWithoutCall: effects.commands.append(.close(id, .normal, reason: ""))
        case .isRandom: effects.commands.append(.send(id, .text("\(UInt64.random(in: 0...UInt64.max))")))
        default: break
        }
    }

    mutating func workFinished(_ id: WorkID, _ result: Never, now: Instant, _ effects: inout Effects<Self>) {}

    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        self.waiters = self.waiters.filter { $0.value != waiter }
    }

    // MARK: Callers

    mutating func subscribe(_ id: ConsumerID, _ effects: inout Effects<Self>) { effects.routes.add(id, to: &self.route) }

    mutating func request(_ key: String, _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        guard let id = self.connection.connected else { return effects.commands.append(.resume(waiter, .failure(.ended))) }
        self.waiters[key] = waiter
        effects.commands.append(.send(id, .text("? \(key)")))
    }
}
