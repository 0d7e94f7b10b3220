@testable import PusherChannels
@testable import PusherServer
import PusherWire
import RealtimeCore

/// A broken invariant: something happened that must never happen, or a required event did not happen.
struct Violation: Error, CustomStringConvertible {
    var description: String
}

/// The client's and the server's machine on an unreliable network, with random calls by the user and random results of the authorizer.
///
/// Runs in virtual time as one synchronous loop. The seed determines everything that happens. After 20 minutes of faults, the network
/// is reliable, and client and server must recover within 400 seconds.
struct PusherSimulation {
    struct Totals {
        var attempts = 0, connects = 0, events = 0, late = 0, waits = 0, authorizations = 0, immediate = 0, steps = 0
    }

    /// Something that arrives over the network, or from the authorizer.
    private enum Arrival {
        case opened
        case toClient([WebSocketMessage])
        case toServer([WebSocketMessage])
        case closed(CloseReason)
        case closedByClient(CloseReason)
        case authorized(WorkID, Result<PusherChannelAuthorization, PusherError>)
    }

    /// Something that is scheduled to happen.
    private enum Occurrence {
        case arrival(ConnectionID, Arrival)
        case userCall
        case publish
        case restart
        case reconnect
    }

    /// What causes an input of the client's machine. A late input belongs to a connection that the client has abandoned.
    private enum Cause { case arrival, late, timeout, user }

    /// The network's state of one connection.
    private struct Link {
        var isOpen = false, isAccepted = false, isClosing = false
        /// The network injected a fault, so the client may abandon the connection.
        var isFaulty = false
        /// Half-open: messages are lost and neither side is notified.
        var isSilent = false
        /// When the last message to the server and to the client arrives. Messages keep their order.
        var lastUp = Instant(nanoseconds: 0), lastDown = Instant(nanoseconds: 0)
    }

    private static let start = Instant(nanoseconds: 0)
    private static let endOfFaults = start.advanced(by: .seconds(1200))
    /// A rejection that was in transit when the faults ended has arrived.
    private static let recovery = endOfFaults.advanced(by: .seconds(5))
    private static let recovered = endOfFaults.advanced(by: .seconds(400))
    private static let end = recovered.advanced(by: .seconds(60))
    private static let names = ["public", "private-a", "presence-b"]
    private static let app = PusherApp(id: "1", key: "key", secret: "secret")

    private(set) var totals = Totals()
    private let seed: UInt64
    private let isTracing: Bool
    private var random: SplitMix64
    private var now = Self.start
    private var occurrences: [Int: Occurrence] = [:]
    private var queue = Deadlines<Int, Void>()
    private var lastNumber = 0

    private var client: PusherSession
    private var clientEffects = Effects<PusherSession>()
    private var server: PusherServerMachine
    private var serverEffects = Effects<PusherServerMachine>()
    private var links: [ConnectionID: Link] = [:]
    /// The connection that the client uses.
    private var current: ConnectionID?
    private var connectedSince: Instant?
    private var immediateInARow = 0
    private var isFinished = true
    private var waiters: [WaiterID: String] = [:]
    private var lastWaiter: UInt64 = 0
    /// The authorizations that are running.
    private var works: Set<WorkID> = []
    private var published = 0
    private var lastSeen: [String: Int] = [:]
    private var lastEvent: [String: Instant] = [:]
    private let stateConsumer = ConsumerID(rawValue: 1), errorConsumer = ConsumerID(rawValue: 2)
    private var channelConsumers: [ConsumerID: String] = [:]
    /// The ID of each channel's first subscription, which its handles keep.
    private var handles: [String: ChannelID] = [:]
    private var lastConsumer: UInt64 = 10

    init(seed: UInt64, isTracing: Bool = false) {
        self.seed = seed
        self.isTracing = isTracing
        self.random = SplitMix64(seed: seed)
        var configuration = PusherConfiguration(key: "key", host: "simulated", port: 80, useTLS: false)
        configuration.authorizer = .callback { _ in PusherChannelAuthorization(auth: "") }
        self.client = PusherSession(configuration, seed: seed)
        self.server = PusherServerMachine(Self.app, hooks: .init(), seed: seed &+ 1)
        self.client.addConsumer(self.stateConsumer, to: .states, &self.clientEffects)
        self.client.addConsumer(self.errorConsumer, to: .errors, &self.clientEffects)
    }

    mutating func run() throws(Violation) {
        for _ in 0..<3 { self.schedule(0...5_000, .userCall) }
        self.schedule(0...1_000, .publish)
        self.schedule(60_000...900_000, .restart)
        try self.run(until: Self.recovery)
        // The network is reliable from here on, and the client is to be connected and subscribed to every channel.
        try self.user("start") { $0.start(now: $1, &$2) }
        for name in Self.names { try self.subscribe(name) }
        try self.run(until: Self.recovered)
        guard self.client.connection.connected != nil else { throw Violation(description: "not connected after the recovery") }
        for name in Self.names {
            let state = self.client.channels[name]?.machine.state
            guard case .subscribed? = state else {
                throw Violation(description: "\(name) is not subscribed after the recovery: \(String(describing: state))")
            }
            guard let last = self.lastEvent[name], last > Self.recovered.advanced(by: .seconds(-120)) else {
                throw Violation(description: "\(name) is subscribed, but receives no events")
            }
        }
        let members = self.client.channels["presence-b"]?.members.map(\.id) ?? []
        guard members == ["me"] else { throw Violation(description: "the members are \(members)") }
        try self.user("stop") { $0.stop(now: $1, &$2) }
        guard self.isFinished else { throw Violation(description: "stopping did not finish the session immediately") }
        try self.run(until: Self.end)
        guard self.current == nil else { throw Violation(description: "a connection is still open a minute after stopping") }
        guard self.waiters.isEmpty else { throw Violation(description: "callers are still waiting: \(self.waiters.values)") }
        guard self.client.nextDeadline == nil else { throw Violation(description: "a deadline is left after stopping") }
    }

    private mutating func run(until end: Instant) throws(Violation) {
        while true {
            let timers = Instant.earliest(self.client.nextDeadline, self.server.nextDeadline)
            guard let at = Instant.earliest(self.queue.earliest, timers), at < end else { break }
            self.now = max(self.now, at)
            self.totals.steps += 1
            if self.queue.earliest == at, let next = self.queue.popDue(at), let occurrence = self.occurrences.removeValue(forKey: next.key)
            {
                try self.process(occurrence)
            } else if self.client.nextDeadline == at {
                try self.step(.timeout, "timeout") { $0.timeout(now: $1, &$2) }
            } else {
                self.server.timeout(now: self.now, &self.serverEffects)
                self.runServerCommands()
            }
        }
        self.now = end
    }

    // MARK: The client and its invariants

    private mutating func step(
        _ cause: Cause, _ what: @autoclosure () -> String, _ input: (inout PusherSession, Instant, inout Effects<PusherSession>) -> Void
    ) throws(Violation) {
        self.trace("\(cause): \(what())")
        let (deadline, attempt) = (self.client.nextDeadline, self.current)
        input(&self.client, self.now, &self.clientEffects)
        if let next = self.client.nextDeadline, cause == .timeout ? next <= self.now : next < self.now {
            throw Violation(description: "a deadline has passed: the driver would call timeout forever")
        }
        if cause == .late {
            self.totals.late += 1
            guard self.clientEffects.commands.isEmpty, self.clientEffects.deliveries.isEmpty, self.client.nextDeadline == deadline else {
                throw Violation(
                    description: "a late event affected \(attempt.map { "\($0)" } ?? "no connection"): \(self.clientEffects.commands)")
            }
        }
        var start = 0
        for run in self.clientEffects.runs {
            for event in self.clientEffects.deliveries[start..<run.end] { try self.delivered(event, on: run.route) }
            start = run.end
        }
        self.clientEffects.routes.removeRetired()
        let commands = self.clientEffects.commands
        self.clientEffects.removeAll()
        for command in commands { try self.run(command, cause) }
    }

    private mutating func delivered(_ event: PusherSession.Event, on route: EventRoute) throws(Violation) {
        switch event {
        case .state(let state):
            self.trace("  state \(state.name)")
            if case .connected = state {
                self.totals.connects += 1
                self.connectedSince = self.now
            } else {
                if let since = self.connectedSince, since.advanced(by: .seconds(30)) <= self.now { self.immediateInARow = 0 }
                self.connectedSince = nil
            }
        case .event(let event):
            guard let name = event.channel, let number = event.data.flatMap(Int.init) else {
                throw Violation(description: "an event that was never published")
            }
            self.totals.events += 1
            let consumers = self.clientEffects.routes[route]
            guard !consumers.isEmpty, consumers.allSatisfy({ self.channelConsumers[$0] == name }) else {
                throw Violation(description: "an event of \(name) was delivered to a consumer of another channel")
            }
            guard number > self.lastSeen[name, default: 0] else {
                throw Violation(description: "event \(number) of \(name) was delivered twice or out of order")
            }
            self.lastSeen[name] = number
            self.lastEvent[name] = self.now
        case .error(let error):
            if error.message.contains("Existing subscription") { throw Violation(description: "the same channel was subscribed twice") }
            if error.code == .invalidFrame {
                throw Violation(description: "the client reported a frame of the server as invalid: \(error)")
            }
            if error.serverCode == 4009 { throw Violation(description: "a signature for another connection was used") }
        case .connectingIn, .subscription, .members, .attempt, .frame: break
        }
    }

    private mutating func run(_ command: Effects<PusherSession>.Command, _ cause: Cause) throws(Violation) {
        switch command {
        case .open(let id, _):
            self.trace("  open \(id)")
            if let current = self.current { throw Violation(description: "\(id) was opened while \(current) is open") }
            self.totals.attempts += 1
            self.isFinished = false
            if cause == .arrival {
                self.immediateInARow += 1
                self.totals.immediate += 1
                if self.immediateInARow > 3 { throw Violation(description: "\(self.immediateInARow) immediate reconnects in a row") }
            }
            self.current = id
            self.links[id] = Link()
            self.respondToOpening(id)
        case .send(let id, let message):
            guard id == self.current, let link = self.links[id], link.isOpen, !link.isClosing else {
                throw Violation(description: "a message was sent on \(id), which is not open")
            }
            self.trace("  send \(String(decoding: message.bytes, as: UTF8.self).prefix(120))")
            self.up(id, .toServer([message]))
        case .close(let id, _, _):
            guard id == self.current, cause == .user else { throw Violation(description: "\(id) was closed without a call of the user") }
            self.links[id]!.isClosing = true
            // Also on a reliable network: stopping must end even if the peer does not respond.
            if Bool.random(using: &self.random) { self.links[id]!.isSilent = true }
            self.up(id, .closedByClient(.peer(.normal, "")))
        case .abandon(let id):
            guard id == self.current, let link = self.links[id] else {
                throw Violation(description: "\(id) was abandoned, which is not the current connection")
            }
            if cause != .user, !link.isFaulty, !link.isSilent, !link.isClosing {
                throw Violation(description: "\(id) was abandoned without a fault")
            }
            self.current = nil
            self.up(id, .closedByClient(.transport(TransportError(.reset, "abandoned"))))
            self.schedule(0...90_000, .arrival(id, .closed(.transport(TransportError(.reset, "closed late")))))
        case .work(let id, let work):
            self.totals.authorizations += 1
            self.works.insert(id)
            let request = work.request
            let channelData = ChannelName.kind(of: request.channel) == .presence ? #"{"user_id":"me"}"# : nil
            let token = ChannelSignature.token(
                key: Self.app.key, secret: Self.app.secret, socketID: request.socketID, channel: request.channel, channelData: channelData)
            var result = Result<PusherChannelAuthorization, PusherError>.success(
                PusherChannelAuthorization(auth: token, channelData: channelData))
            if self.chance(10) { result = .failure(PusherError(.authorizationFailed, "not today")) }
            if !self.chance(5) {
                self.schedule(
                    self.now < Self.endOfFaults ? 1...40_000 : 1...2_000,
                    .arrival(self.current ?? ConnectionID(rawValue: 0), .authorized(id, result)))
            }
        case .cancel(let id):
            self.works.remove(id)
        case .resume(let waiter, _):
            guard self.waiters.removeValue(forKey: waiter) != nil else { throw Violation(description: "a waiter was resumed twice") }
        case .endConsumers(let ids, _):
            for id in ids { self.end(id) }
        case .finish(let reason):
            self.isFinished = true
            // After a rejection, the user connects again some time later.
            if reason != .requested { self.schedule(0...60_000, .reconnect) }
            for id in self.channelConsumers.keys.sorted(by: { $0.rawValue < $1.rawValue }) { self.end(id) }
        case .log:
            break
        }
    }

    private mutating func end(_ consumer: ConsumerID) {
        self.clientEffects.routes.remove(consumer)
        self.channelConsumers[consumer] = nil
    }

    // MARK: The user

    private mutating func user(
        _ what: String, _ input: (inout PusherSession, Instant, inout Effects<PusherSession>) -> Void
    ) throws(Violation) {
        if case .backingOff = self.client.connection.state {} else { self.immediateInARow = 0 }
        try self.step(.user, what, input)
    }

    private mutating func subscribe(_ name: String) throws(Violation) {
        var id = ChannelID.none
        try self.user("subscribe \(name)") { id = $0.subscribe(name, now: $1, &$2) }
        if self.handles[name] == nil { self.handles[name] = id }
        guard !self.channelConsumers.values.contains(name) else { return }
        self.lastConsumer += 1
        let consumer = ConsumerID(rawValue: self.lastConsumer)
        self.channelConsumers[consumer] = name
        try self.user("consume \(name)") { session, _, effects in
            session.addConsumer(consumer, to: .events(channel: name, name: nil), &effects)
        }
    }

    private mutating func callRandomMethod() throws(Violation) {
        self.schedule(0...60_000, .userCall)
        let name = Self.names.randomElement(using: &self.random)!
        switch Int.random(in: 0..<12, using: &self.random) {
        case 0: try self.user("stop") { $0.stop(now: $1, &$2) }
        case 1, 2, 3: try self.user("start") { $0.start(now: $1, &$2) }
        case 4: try self.user("unsubscribe \(name)") { $0.unsubscribe(name, now: $1, &$2) }
        case 5, 6, 7: try self.subscribe(name)
        case 8: try self.wait("connected") { $0.awaitConnected($1, &$2) }
        case 9: try self.wait("subscribed to \(name)") { $0.awaitSubscribed($1, channel: name, &$2) }
        case 10:
            guard let waiter = self.waiters.keys.min(by: { $0.rawValue < $1.rawValue }) else { return }
            self.waiters[waiter] = nil
            try self.user("cancel a wait") { $0.cancelled(waiter, now: $1, &$2) }
        default:
            let handle = self.handles[name] ?? .none
            try self.user("trigger on \(name)") { session, _, effects in
                // Throws if the channel is not subscribed or too many messages are queued, as it should.
                let message = PusherFrames.clientEvent("client-a", channel: name, data: Array("1".utf8))
                let sent = try? session.trigger(message, channel: name, id: handle)
                if let (id, message) = sent { effects.commands.append(.send(id, message)) }
            }
        }
    }

    private mutating func wait(
        _ what: String, _ register: (inout PusherSession, WaiterID, inout Effects<PusherSession>) -> Void
    ) throws(Violation) {
        self.lastWaiter += 1
        self.totals.waits += 1
        let waiter = WaiterID(rawValue: self.lastWaiter)
        self.waiters[waiter] = what
        try self.user("wait: \(what)") { session, _, effects in register(&session, waiter, &effects) }
    }

    // MARK: The network and the server

    private mutating func process(_ occurrence: Occurrence) throws(Violation) {
        switch occurrence {
        case .userCall:
            if self.now < Self.endOfFaults { try self.callRandomMethod() }
        case .reconnect:
            try self.user("connect after a rejection") { $0.start(now: $1, &$2) }
        case .publish:
            self.schedule(1_000...100_000, .publish)
            self.published += 1
            for name in Self.names { self.server.publish("tick", to: name, data: "\(self.published)", now: self.now, &self.serverEffects) }
            self.runServerCommands()
        case .restart:
            guard self.now < Self.endOfFaults else { return }
            self.trace("server: restart")
            self.server.stop(now: self.now, &self.serverEffects)
            self.runServerCommands()
            self.schedule(60_000...900_000, .restart)
        case .arrival(let id, let arrival):
            try self.process(arrival, on: id)
        }
    }

    private mutating func process(_ arrival: Arrival, on id: ConnectionID) throws(Violation) {
        let link = self.links[id] ?? Link()
        let cause = id == self.current ? Cause.arrival : .late
        switch arrival {
        case .toServer(let messages):
            guard !link.isSilent, self.links[id]?.isAccepted == true else { return }
            self.server.received(id, MessageBatch(messages), now: self.now, &self.serverEffects)
            self.runServerCommands()
            self.injectFault(id)
        case .closedByClient(let reason):
            if link.isAccepted {
                self.links[id]!.isAccepted = false
                self.server.closed(id, reason, now: self.now, &self.serverEffects)
                self.runServerCommands()
            }
            if link.isClosing, !link.isSilent { self.down(id, .closed(.requested)) }
        case .authorized(let work, let result):
            if self.works.remove(work) != nil {
                try self.step(.arrival, "authorized") { $0.workFinished(work, result, now: $1, &$2) }
            } else {
                try self.step(.late, "authorized late") { $0.workFinished(work, result, now: $1, &$2) }
            }
        case .opened:
            if link.isSilent { return }
            guard cause == .arrival else {
                return try self.step(.late, "opened late") { $0.opened(id, head: HTTPResponseHead(status: 101), now: $1, &$2) }
            }
            self.links[id]!.isOpen = true
            self.links[id]!.isAccepted = true
            self.server.accepted(id, HTTPRequestHead(method: "GET", target: "/app/key?protocol=7"), now: self.now, &self.serverEffects)
            self.server.opened(id, head: HTTPResponseHead(status: 101), now: self.now, &self.serverEffects)
            try self.step(cause, "\(id) opened") { $0.opened(id, head: HTTPResponseHead(status: 101), now: $1, &$2) }
            self.runServerCommands()
            self.injectFault(id)
        case .toClient(let messages):
            if link.isSilent, cause == .arrival { return }
            try self.step(cause, "\(id) received") { $0.received(id, MessageBatch(messages), now: $1, &$2) }
        case .closed(let reason):
            if link.isSilent, cause == .arrival { return }
            if cause == .arrival { self.current = nil }
            try self.step(cause, "\(id) closed: \(reason)") { $0.closed(id, reason, now: $1, &$2) }
        }
    }

    private mutating func respondToOpening(_ id: ConnectionID) {
        if self.chance(20) {
            self.links[id]!.isFaulty = true
            self.down(id, .closed(.transport(TransportError(.refused, "refused"))), 0...4_000)
        } else if self.chance(10) {
            self.links[id]!.isSilent = true
        } else {
            self.down(id, .opened, 5...2_000)
        }
    }

    /// May silence or close an accepted connection.
    private mutating func injectFault(_ id: ConnectionID) {
        guard self.links[id]?.isAccepted == true else { return }
        if self.chance(4) { self.links[id]!.isSilent = true }
        if self.chance(4) { self.closeByServer(id, .transport(TransportError(.reset, "reset"))) }
        if self.chance(8) {
            self.closeByServer(id, .peer(CloseCode(rawValue: [4200, 4100, 4201, 1001, 4001].randomElement(using: &self.random)!), ""))
        }
    }

    private mutating func closeByServer(_ id: ConnectionID, _ reason: CloseReason) {
        guard self.links[id]?.isAccepted == true else { return }
        self.links[id]!.isAccepted = false
        self.server.closed(id, reason, now: self.now, &self.serverEffects)
        self.runServerCommands()
        self.down(id, .closed(reason))
        self.links[id]!.isFaulty = true
    }

    private mutating func runServerCommands() {
        let commands = self.serverEffects.commands
        self.serverEffects.removeAll()
        for command in commands {
            switch command {
            case .send(let id, let message): self.down(id, .toClient([message]))
            case .close(let id, let code, let reason):
                if self.links[id]?.isAccepted == true {
                    self.links[id]!.isAccepted = false
                    self.server.closed(id, .requested, now: self.now, &self.serverEffects)
                    self.down(id, .closed(.peer(code, reason)))
                    self.links[id]!.isFaulty = true
                }
            default: break
            }
        }
        if !self.serverEffects.commands.isEmpty { self.runServerCommands() }
    }

    private mutating func up(_ id: ConnectionID, _ arrival: Arrival) {
        let at = max(self.links[id]!.lastUp, self.instant(in: 1...300))
        self.links[id]!.lastUp = at
        self.enqueue(at, .arrival(id, arrival))
    }

    /// As with TCP, messages keep their order, and nothing arrives after the end.
    private mutating func down(_ id: ConnectionID, _ arrival: Arrival, _ milliseconds: ClosedRange<Int64> = 1...300) {
        if self.links[id]!.isFaulty { return }
        let at = max(self.links[id]!.lastDown, self.instant(in: milliseconds))
        self.links[id]!.lastDown = at
        self.enqueue(at, .arrival(id, arrival))
    }

    private mutating func schedule(_ milliseconds: ClosedRange<Int64>, _ occurrence: Occurrence) {
        self.enqueue(self.instant(in: milliseconds), occurrence)
    }

    private mutating func enqueue(_ at: Instant, _ occurrence: Occurrence) {
        self.lastNumber += 1
        self.occurrences[self.lastNumber] = occurrence
        self.queue.set(self.lastNumber, at)
    }

    private mutating func instant(in milliseconds: ClosedRange<Int64>) -> Instant {
        self.now + Int64.random(in: milliseconds, using: &self.random) * 1_000_000
    }

    private mutating func chance(_ percent: Int) -> Bool {
        self.now < Self.endOfFaults && Int.random(in: 0..<100, using: &self.random) < percent
    }

    private func trace(_ text: @autoclosure () -> String) {
        if self.isTracing { print("\(Double(self.now.nanoseconds / 1_000_000) / 1000) s  \(text())") }
    }
}
