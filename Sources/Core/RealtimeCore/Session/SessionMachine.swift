/// Identifies a caller that waits for a result. The numbers ascend in the order of the calls.
@usableFromInline
package struct WaiterID: Hashable, Comparable, Sendable {
    package var rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
    @usableFromInline
    package static func < (first: Self, second: Self) -> Bool { first.rawValue < second.rawValue }
}

/// Identifies asynchronous work that a session machine requested, such as an authorization or a negotiation.
@usableFromInline
package struct WorkID: Hashable, Comparable, Sendable {
    package var rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
    @usableFromInline
    package static func < (first: Self, second: Self) -> Bool { first.rawValue < second.rawValue }
}

/// The output of a session machine: commands for the driver and events for consumers. Every command names its connection, so that the
/// driver needs no knowledge of the protocol.
@usableFromInline
package struct Effects<Machine: SessionMachine>: Sendable {
    package enum Command: Sendable {
        case open(ConnectionID, Machine.Request)
        case send(ConnectionID, TransportMessage)
        /// Send a close frame. Only the end of the connection is of interest from now on.
        case close(ConnectionID, CloseCode, reason: String)
        /// Drop the socket. Its events are ignored from now on.
        case abandon(ConnectionID)
        /// Pause or resume the reading of a connection. It is read when neither the machine nor a full consumer prevents it. The machine
        /// receives ``SessionMachine/reading(_:paused:now:)`` when that changes.
        case reading(ConnectionID, paused: Bool)
        case work(WorkID, Machine.Work)
        /// Cancel the work. Its result is ignored.
        case cancel(WorkID)
        /// Return a result to a waiting caller.
        case resume(WaiterID, Result<Machine.WaiterResult, Machine.Failure>)
        /// Call ``SessionMachine/answered(_:_:)`` when the server has taken everything that was sent so far on a connection over HTTP, or
        /// ``SessionMachine/unanswered(_:_:)`` when the connection has ended before that.
        ///
        /// A connection that is being closed still sends what waits, so that this may follow the end of a session.
        case awaitAnswer(WaiterID, on: ConnectionID)
        /// Tell a connection over HTTP that it has received no message last, although that looks like one, so that it asks for more with pauses.
        case ignored(ConnectionID)
        /// Finish the sequences of these consumers.
        case endConsumers([ConsumerID], EndReason)
        /// The connection has ended until the next `start`: finish the sequences of all consumers with the lifetime of the connection.
        case finish(CloseReason)
        case log(LogSink.Level, String)
        /// Release a value after the lock: it may own objects of the application, whose deinitializers may call the driver.
        case release(any Sendable)
    }

    /// Consecutive events for the same route. They end before the index `end` of `deliveries`.
    @usableFromInline
    package struct Run: Sendable {
        @usableFromInline package var route: EventRoute
        @usableFromInline package var end: Int

        @inlinable
        package init(_ route: EventRoute, end: Int) {
            self.route = route
            self.end = end
        }
    }

    package var commands: [Command] = []
    /// Events for consumers, separate from the commands because there are many of them: a run is delivered at a time.
    @usableFromInline package internal(set) var deliveries: [Machine.Event] = []
    @usableFromInline package internal(set) var runs: [Run] = []
    /// The consumers of each route. The machine adds consumers, and the driver removes them.
    @usableFromInline package var routes = EventRoutes()
    package var counters = Counters()
    package let logLevel: LogSink.Level

    package init(logLevel: LogSink.Level = .error) {
        self.logLevel = logLevel
    }

    /// Delivers an event to the consumers of a route.
    ///
    /// It is inlinable so that it is specialized in the machine's module, where the compiler knows the type of the events.
    @inlinable
    package mutating func deliver(_ event: consuming Machine.Event, on route: EventRoute) {
        guard !self.routes.isEmpty(route) else { return }
        self.deliveries.append(event)
        let end = self.deliveries.count
        if let last = self.runs.indices.last, self.runs[last].route == route {
            self.runs[last].end = end
        } else {
            self.runs.append(Run(route, end: end))
        }
    }

    /// Returns a result to a caller that waits.
    package mutating func resume(_ waiter: WaiterID, _ result: Result<Machine.WaiterResult, Machine.Failure>) {
        self.commands.append(.resume(waiter, result))
    }

    /// Logs a message. Evaluates `message` only if its level is logged.
    package mutating func log(_ level: LogSink.Level, _ message: @autoclosure () -> String) {
        guard level >= self.logLevel else { return }
        self.commands.append(.log(level, Excerpt.message(message())))
    }

    package mutating func removeAll() {
        self.commands.removeAll(keepingCapacity: true)
        self.deliveries.removeAll(keepingCapacity: true)
        self.runs.removeAll(keepingCapacity: true)
    }
}

/// The complete behavior of a protocol as a value: it turns inputs into ``Effects``, without I/O, tasks or a clock.
///
/// All methods are called under the driver's lock. `received` takes all messages of one read because the loop over messages must be in
/// the machine's module: a call per message into another module isn't specialized, and takes ten times as long as the work itself.
///
/// A machine stores no object of the application, such as an error that it threw: an object's deinitializer, if it ran under the lock,
/// could call the client and wait for the same lock. A machine may put such an object into its effects, whose values the driver releases
/// after the lock.
@usableFromInline
package protocol SessionMachine: Sendable {
    associatedtype Event: Sendable
    associatedtype WaiterResult: Sendable
    associatedtype Failure: Error
    /// The parameters of a connection to open. `Never` for a server, which adopts connections.
    associatedtype Request: Sendable = WebSocketRequest
    associatedtype Work: Sendable
    /// An intermediate result of work.
    associatedtype WorkProgress: Sendable = Never
    associatedtype WorkResult: Sendable

    /// When to call ``timeout(now:_:)``. After that call, it must be later than `now`.
    var nextDeadline: Instant? { get }

    mutating func start(now: Instant, _ effects: inout Effects<Self>)
    mutating func stop(now: Instant, _ effects: inout Effects<Self>)
    /// The owner was released: stops, with that reason. The same as ``stop(now:_:)`` by default.
    mutating func release(now: Instant, _ effects: inout Effects<Self>)
    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>)
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>)
    /// Takes messages of a batch, beginning with one that hasn't been taken, and stops after a message whose output, with that of the messages
    /// before it, exceeds a limit. Takes all of them by default.
    ///
    /// - Returns: The index of the next message to take.
    mutating func received(
        _ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int, now: Instant, _ effects: inout Effects<Self>
    ) -> Int
    /// A part of a message was received that isn't complete yet. Does nothing by default.
    mutating func receivedPart(_ id: ConnectionID, byteCount: Int, now: Instant)
    /// The driver paused or resumed reading, because of a full consumer or the command of the machine.
    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant)
    /// Much output waits for a peer that reads slowly, or it has been sent. Does nothing by default.
    mutating func writing(_ id: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>)
    /// A connection that closes because another one replaces it has accepted messages that the other one sends. Does nothing by default.
    mutating func unsent(_ id: ConnectionID, _ messages: [TransportMessage], now: Instant, _ effects: inout Effects<Self>)
    /// A consumer that pauses reading has fallen far behind and doesn't catch up, while someone waits for the peer: perhaps the task that
    /// should read it. Does nothing by default.
    mutating func overflowed(_ consumer: ConsumerID, now: Instant, _ effects: inout Effects<Self>)
    /// The server has taken the messages for which a caller waits; see ``Effects/Command/awaitAnswer(_:on:)``. Does nothing by default.
    mutating func answered(_ waiter: WaiterID, _ effects: inout Effects<Self>)
    /// The connection has ended, or was abandoned, before the server has answered. Called after ``closed(_:_:now:_:)`` or the command
    /// ``Effects/Command/abandon(_:)``. Does nothing by default.
    mutating func unanswered(_ waiter: WaiterID, _ effects: inout Effects<Self>)
    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>)
    /// Work reports an intermediate result. Does nothing by default.
    mutating func workProgressed(_ id: WorkID, _ progress: WorkProgress, now: Instant, _ effects: inout Effects<Self>)
    mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>)
    mutating func timeout(now: Instant, _ effects: inout Effects<Self>)

    /// The caller no longer waits, because its task was cancelled or its time limit exceeded. It has received its result already.
    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>)

    /// The result of a caller whose task was cancelled. Called before ``cancelled(_:now:_:)``.
    func cancellation(of waiter: WaiterID) -> Failure
    /// The result of a caller that has waited for too long.
    func timedOut(_ waiter: WaiterID, after: WaitLimit) -> Failure
    /// Why no events can occur until the application does something, such as connecting; `nil`, the default, if some can.
    var inactivity: String? { get }
}

extension SessionMachine {
    package mutating func received(
        _ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int, now: Instant, _ effects: inout Effects<Self>
    ) -> Int {
        self.received(id, batch, now: now, &effects)
        return batch.entries.count
    }

    /// Takes all messages of a batch, for a machine that takes a part of them in one step.
    package mutating func receivedInParts(
        _ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>
    ) {
        var next = 0
        while next < batch.entries.count { next = self.received(id, batch, from: next, now: now, &effects) }
    }

    package mutating func receivedPart(_ id: ConnectionID, byteCount: Int, now: Instant) {}
    package mutating func release(now: Instant, _ effects: inout Effects<Self>) { self.stop(now: now, &effects) }
    package mutating func writing(_ id: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>) {}
    package mutating func unsent(_ id: ConnectionID, _ messages: [TransportMessage], now: Instant, _ effects: inout Effects<Self>) {}
    package mutating func answered(_ waiter: WaiterID, _ effects: inout Effects<Self>) {}
    package mutating func unanswered(_ waiter: WaiterID, _ effects: inout Effects<Self>) {}
    package mutating func overflowed(_ consumer: ConsumerID, now: Instant, _ effects: inout Effects<Self>) {}
    package mutating func workProgressed(_ id: WorkID, _ progress: WorkProgress, now: Instant, _ effects: inout Effects<Self>) {}
    package var inactivity: String? { nil }
}
