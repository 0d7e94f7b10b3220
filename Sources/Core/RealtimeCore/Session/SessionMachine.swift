/// A caller that waits for an answer.
@usableFromInline
package struct WaiterID: Hashable, Sendable {
    package var rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// A listener that was asked for.
@usableFromInline
package struct ConsumerID: Hashable, Sendable {
    package var rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// Where an event goes: a number under which the machine knows a set of listeners.
@usableFromInline
package struct EventRoute: Hashable, Sendable {
    /// Half a word: a channel has several.
    @usableFromInline let number: UInt32

    @inlinable package var rawValue: Int { Int(self.number) }
    @inlinable package init(rawValue: Int) { self.number = UInt32(rawValue) }
}

/// Work that the machine asked for and that takes its time: an authorisation, a negotiation.
@usableFromInline
package struct WorkID: Hashable, Sendable {
    package var rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// What a machine wants done. Every command names its connection, so the driver never guesses.
@usableFromInline
package struct Effects<Machine: SessionMachine>: Sendable {
    package enum Command: Sendable {
        case open(ConnectionID, WebSocketRequest)
        case send(ConnectionID, WebSocketMessage)
        /// Say goodbye. What the connection says from here on is of no interest, apart from its end.
        case close(ConnectionID, CloseCode, reason: String)
        /// Drop the socket; nothing it says counts from here on.
        case abandon(ConnectionID)
        case work(WorkID, Machine.Work)
        /// The result is not wanted any more.
        case cancel(WorkID)
        case resume(WaiterID, Result<Machine.WaiterResult, Machine.Failure>)
        /// These listeners have nothing more to expect.
        case endConsumers([ConsumerID], EndReason)
        /// Over until the next `start`: the listeners that live as long as the connection are finished.
        case finish(CloseReason)
        case log(LogSink.Level, String)
    }

    /// Events for one route, up to a place in `deliveries`.
    package struct Run: Sendable {
        package var route: EventRoute
        package var end: Int

        package init(_ route: EventRoute, end: Int) {
            self.route = route
            self.end = end
        }
    }

    package var commands: [Command] = []
    /// Apart from the commands, because these are many: they go to the listeners a run at a time. They are filled in
    /// the machine's own module, where the compiler knows their type.
    package var deliveries: [Machine.Event] = []
    package var runs: [Run] = []
    package var counters = Counters()
    package let logLevel: LogSink.Level

    package init(logLevel: LogSink.Level = .error) {
        self.logLevel = logLevel
    }

    package mutating func log(_ level: LogSink.Level, _ message: @autoclosure () -> String) {
        guard level >= self.logLevel else { return }
        self.commands.append(.log(level, message()))
    }

    package mutating func removeAll() {
        self.commands.removeAll(keepingCapacity: true)
        self.deliveries.removeAll(keepingCapacity: true)
        self.runs.removeAll(keepingCapacity: true)
    }
}

/// A protocol's whole behaviour as a value: what comes in, what is to be done about it.
///
/// `received` takes what one read brought: the loop over messages lies in the machine's module, because a call per
/// message into another module is not specialised and costs ten times the work itself.
@usableFromInline
package protocol SessionMachine: Sendable {
    associatedtype Event: Sendable
    associatedtype WaiterResult: Sendable
    associatedtype Failure: Error
    associatedtype Work: Sendable
    associatedtype WorkResult: Sendable

    /// When ``timeout(now:_:)`` wants to be called.
    var nextDeadline: Instant? { get }

    mutating func start(now: Instant, _ effects: inout Effects<Self>)
    mutating func stop(now: Instant, _ effects: inout Effects<Self>)
    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>)
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>)
    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant)
    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>)
    mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>)
    mutating func timeout(now: Instant, _ effects: inout Effects<Self>)

    /// The caller has gone and has had its answer: its task was cancelled, or its time was up.
    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>)

    /// Who listens on a route now.
    func consumers(on route: EventRoute) -> [ConsumerID]
    /// The listener has gone.
    mutating func consumerGone(_ listener: ConsumerID)

    static var cancelled: Failure { get }
    func timedOut(after: Duration) -> Failure
}
