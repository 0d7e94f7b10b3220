package import RealtimeCore
package import Testing

/// A session machine without a driver, sockets or a peer: every input returns the effects that it caused, in comparable form.
///
/// A protocol's tests conform a struct to it and add the inputs of the protocol. The struct stores a ``MachineTrial`` and describes
/// commands and events; most protocols describe them as text, see ``TextHarness``.
package protocol MachineHarness {
    associatedtype Machine: SessionMachine
    /// An effect in comparable form.
    associatedtype Line = String

    var trial: MachineTrial<Machine> { get set }

    /// Describes a command. Returns no lines to leave it out. Called once for each command, so that a harness can record commands.
    mutating func lines(of command: Effects<Machine>.Command) -> [Line]
    /// Describes an event. Returns no lines, which is the default, to leave it out.
    func lines(of event: Machine.Event) -> [Line]
}

/// The state of a ``MachineHarness``.
package struct MachineTrial<Machine: SessionMachine> {
    /// The consumer whose events are among the lines that an input returns.
    package static var observer: ConsumerID { ConsumerID(rawValue: 1) }

    package fileprivate(set) var machine: Machine
    package fileprivate(set) var effects: Effects<Machine>
    package fileprivate(set) var now = Instant(nanoseconds: 0)
    /// The events since the last call of ``MachineHarness/takeEvents(of:)``.
    fileprivate var events: [ConsumerID: [Machine.Event]] = [:]
    package fileprivate(set) var logged: [String] = []

    /// - Parameters:
    ///   - machine: The machine.
    ///   - logLevel: The lowest level of the messages to record in ``logged``.
    ///   - observe: Adds the consumer whose events are among the lines. Without it, no events are.
    package init(
        _ machine: Machine, logLevel: LogSink.Level = .error,
        observe: (inout Machine, ConsumerID, inout Effects<Machine>) -> Void = { _, _, _ in }
    ) {
        self.machine = machine
        self.effects = Effects(logLevel: logLevel)
        observe(&self.machine, Self.observer, &self.effects)
    }

    fileprivate mutating func step(_ input: (inout Machine, Instant, inout Effects<Machine>) -> Void) {
        input(&self.machine, self.now, &self.effects)
    }

    /// Does with the effects what the driver does, except for the commands.
    fileprivate mutating func takeEffects() -> (observed: ArraySlice<Machine.Event>, commands: [Effects<Machine>.Command]) {
        let observed = self.events[Self.observer]?.count ?? 0
        var start = 0
        for run in self.effects.runs {
            for consumer in self.effects.routes[run.route] {
                self.events[consumer, default: []] += self.effects.deliveries[start..<run.end]
            }
            start = run.end
        }
        let commands = self.effects.commands
        self.effects.removeAll()
        self.effects.routes.removeRetired()
        for command in commands {
            switch command {
            case .endConsumers(let ids, _): for id in ids { self.effects.routes.remove(id) }
            case .log(_, let message): self.logged.append(message)
            default: break
            }
        }
        return (self.events[Self.observer]?[observed...] ?? [], commands)
    }
}

extension MachineHarness {
    package var machine: Machine { self.trial.machine }
    package var now: Instant { self.trial.now }
    package var counters: Counters { self.trial.effects.counters }
    /// The log messages of the level of the trial.
    package var logged: [String] { self.trial.logged }
    /// The events of the observer that haven't been taken.
    package var events: [Machine.Event] { self.trial.events[MachineTrial<Machine>.observer] ?? [] }

    package func lines(of event: Machine.Event) -> [Line] { [] }

    /// Makes any input.
    ///
    /// - Returns: The lines of the events that the observer receives, and then those of the commands.
    @discardableResult
    package mutating func step(_ input: (inout Machine, Instant, inout Effects<Machine>) -> Void) -> [Line] {
        self.trial.step(input)
        return self.takeLines()
    }

    private mutating func takeLines() -> [Line] {
        let (observed, commands) = self.trial.takeEffects()
        var lines = observed.flatMap { self.lines(of: $0) }
        for command in commands { lines += self.lines(of: command) }
        return lines
    }

    /// Removes and returns the events that a consumer received.
    package mutating func takeEvents(of consumer: ConsumerID = MachineTrial<Machine>.observer) -> [Machine.Event] {
        self.trial.events.removeValue(forKey: consumer) ?? []
    }

    /// Removes and returns the lines of the events that consumers other than the observer received.
    package mutating func take() -> [UInt64: [Line]] {
        var lines: [UInt64: [Line]] = [:]
        for consumer in self.trial.events.keys where consumer != MachineTrial<Machine>.observer {
            lines[consumer.rawValue] = self.takeEvents(of: consumer).flatMap { self.lines(of: $0) }
        }
        return lines
    }

    // MARK: Inputs

    @discardableResult
    package mutating func start() -> [Line] { self.step { $0.start(now: $1, &$2) } }

    @discardableResult
    package mutating func stop() -> [Line] { self.step { $0.stop(now: $1, &$2) } }

    @discardableResult
    package mutating func opened(_ id: ConnectionID, head: HTTPResponseHead = HTTPResponseHead(status: 101)) -> [Line] {
        self.step { $0.opened(id, head: head, now: $1, &$2) }
    }

    /// Receives messages that arrive together.
    @discardableResult
    package mutating func received(_ id: ConnectionID, _ messages: [TransportMessage]) -> [Line] {
        self.step { $0.received(id, MessageBatch(messages), now: $1, &$2) }
    }

    @discardableResult
    package mutating func closed(_ id: ConnectionID, _ reason: CloseReason) -> [Line] {
        self.step { $0.closed(id, reason, now: $1, &$2) }
    }

    @discardableResult
    package mutating func finish(_ work: UInt64, _ result: Machine.WorkResult) -> [Line] {
        self.step { $0.workFinished(WorkID(rawValue: work), result, now: $1, &$2) }
    }

    /// Cancels a caller that waits.
    @discardableResult
    package mutating func cancel(waiter: UInt64) -> [Line] { self.step { $0.cancelled(WaiterID(rawValue: waiter), now: $1, &$2) } }

    /// Moves the clock, and handles the deadlines on the way, as the driver does.
    @discardableResult
    package mutating func advance(by duration: Duration, sourceLocation: SourceLocation = #_sourceLocation) -> [Line] {
        let end = self.trial.now.advanced(by: duration)
        var lines: [Line] = []
        while let next = self.trial.machine.nextDeadline, next <= end {
            self.trial.now = max(self.trial.now, next)
            lines += self.step { $0.timeout(now: $1, &$2) }
            guard let following = self.trial.machine.nextDeadline, following <= self.trial.now else { continue }
            Issue.record(
                "after a timeout, the deadline must be later: the driver would call timeout forever", sourceLocation: sourceLocation)
            break
        }
        self.trial.now = end
        return lines
    }
}

extension MachineHarness {
    /// Moves the clock, and handles the deadlines that have passed late, as the driver does after the process stood still.
    @discardableResult
    package mutating func standStill(for duration: Duration) -> [Line] {
        self.trial.now = self.trial.now.advanced(by: duration)
        return self.advance(by: .zero)
    }
}

extension MachineHarness where Machine: ReconnectingSession {
    /// The current connection.
    package var connection: ConnectionID { self.trial.machine.connection.current ?? ConnectionID(rawValue: 0) }

    /// The current connection, or another one, receives texts that arrive together.
    @discardableResult
    package mutating func receive(_ texts: String..., on id: ConnectionID? = nil) -> [Line] {
        self.received(id ?? self.connection, texts.map { .text($0) })
    }

    /// The current connection ends.
    @discardableResult
    package mutating func close(_ reason: CloseReason) -> [Line] { self.closed(self.connection, reason) }
}

/// A harness whose lines are text.
///
/// A harness describes what its protocol defines: messages, requests, work, results, failures and events. The defaults describe them as
/// Swift does. The commands themselves look the same for all protocols:
/// ```
/// open #1 ws://host/path          resume 3 RESULT      cancel 2
/// #1 MESSAGE                      fail 3 FAILURE       end 1,2
/// close #1 1000                   work 2 WORK          finish
/// abandon #1                      pause #1             resume #1
/// ```
/// Log messages are left out.
package protocol TextHarness: MachineHarness where Line == String {
    func text(of message: TransportMessage) -> String
    func text(of request: Machine.Request) -> String
    /// Describes the beginning of work.
    func text(of work: Machine.Work, _ id: WorkID) -> String
    /// Describes a result. Empty for a result without a value.
    func text(of result: Machine.WaiterResult) -> String
    func text(of failure: Machine.Failure) -> String
    /// Describes an event. Empty to leave it out.
    func text(of event: Machine.Event) -> String
}

extension TextHarness {
    package func text(of message: TransportMessage) -> String {
        switch message.kind {
        case .text: String(decoding: message.bytes, as: UTF8.self)
        case .binary: "\(message.bytes.count) bytes"
        case .ping: "ping"
        case .pong: "pong"
        }
    }

    package func text(of request: Machine.Request) -> String {
        if let request = request as? WebSocketRequest { "\(request.endpoint)" } else { "\(request)" }
    }

    package func text(of work: Machine.Work, _ id: WorkID) -> String { "work \(id.rawValue) \(work)" }
    package func text(of result: Machine.WaiterResult) -> String { "\(result)" }
    package func text(of failure: Machine.Failure) -> String { "\(failure)" }
    package func text(of event: Machine.Event) -> String { "\(event)" }

    package func lines(of event: Machine.Event) -> [String] {
        let text = self.text(of: event)
        return text.isEmpty ? [] : [text]
    }

    package func lines(of command: Effects<Machine>.Command) -> [String] {
        switch command {
        case .open(let id, let request): return ["open \(id) \(self.text(of: request))"]
        case .send(let id, let message): return ["\(id) \(self.text(of: message))"]
        case .close(let id, let code, _): return ["close \(id) \(code)"]
        case .abandon(let id): return ["abandon \(id)"]
        case .reading(let id, let isPaused): return ["\(isPaused ? "pause" : "resume") \(id)"]
        case .work(let id, let work): return [self.text(of: work, id)]
        case .cancel(let id): return ["cancel \(id.rawValue)"]
        case .resume(let waiter, .success(let result)):
            let text = self.text(of: result)
            return [text.isEmpty ? "resume \(waiter.rawValue)" : "resume \(waiter.rawValue) \(text)"]
        case .resume(let waiter, .failure(let error)): return ["fail \(waiter.rawValue) \(self.text(of: error))"]
        case .awaitAnswer(let waiter, let id): return ["await \(waiter.rawValue) \(id)"]
        case .endConsumers(let ids, _): return ids.isEmpty ? [] : ["end \(ids.map { "\($0.rawValue)" }.joined(separator: ","))"]
        case .finish: return ["finish"]
        case .ignored(let id): return ["ignored \(id)"]
        case .log, .release: return []
        }
    }
}
