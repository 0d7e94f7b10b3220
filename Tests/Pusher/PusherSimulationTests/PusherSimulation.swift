@testable import PusherChannels
@testable import PusherServer
import PusherWire
import RealtimeCore

/// Something that must never happen, or did not happen and must.
struct Violation: Error, CustomStringConvertible {
    var description: String
}

/// The client's machine and the server's machine on a network that fails them, with users and application servers
/// that do as they please, in virtual time: one synchronous loop, and one number that decides everything.
///
/// Twenty minutes of storm are followed by six of calm, in which everything has to come right.
struct PusherSimulation {
    struct Totals {
        var opens = 0, connects = 0, events = 0, stale = 0, questions = 0, authorizations = 0, immediate = 0, steps = 0
    }

    private enum News {
        case opened
        case toClient([WebSocketMessage])
        case toServer([WebSocketMessage])
        case closed(CloseReason)
        case closedByClient(CloseReason)
        case authorized(WorkID, Result<PusherChannelAuthorization, PusherError>)
    }

    private enum Happening {
        case news(ConnectionID, News)
        case wish
        case publish
        case restart
        case comeBack
    }

    private enum Cause { case news, stale, timeout, user }

    /// The network's idea of one attempt.
    private struct Link {
        var isOpen = false, isAccepted = false, isClosing = false
        /// Something was done to it: the client may give it up.
        var isFaulty = false
        /// Half-open: the way is gone and nobody says so.
        var isSilent = false
        var lastUp = Instant(nanoseconds: 0), lastDown = Instant(nanoseconds: 0)
    }

    private static let start = Instant(nanoseconds: 0)
    private static let storm = start.advanced(by: .seconds(1200))
    /// A refusal that was on its way when the storm ended has arrived.
    private static let peace = storm.advanced(by: .seconds(5))
    private static let calm = storm.advanced(by: .seconds(400))
    private static let end = calm.advanced(by: .seconds(60))
    private static let names = ["public", "private-a", "presence-b"]
    private static let app = PusherApp(id: "1", key: "key", secret: "secret")

    private(set) var totals = Totals()
    private let seed: UInt64
    private let isTracing: Bool
    private var random: SplitMix64
    private var now = Self.start
    private var updates: [Int: Happening] = [:]
    private var queue = Deadlines<Int, Void>()
    private var lastNumber = 0

    private var client: PusherSession
    private var clientEffects = Effects<PusherSession>()
    private var server: PusherServerMachine
    private var serverEffects = Effects<PusherServerMachine>()
    private var links: [ConnectionID: Link] = [:]
    private var live: ConnectionID?
    private var connectedSince: Instant?
    private var immediateInARow = 0
    private var isFinished = true
    private var unanswered: [WaiterID: String] = [:]
    private var lastWaiter: UInt64 = 0
    private var works: Set<WorkID> = []
    private var published = 0
    private var lastSeen: [String: Int] = [:]
    private var lastEvent: [String: Instant] = [:]
    private let stateListener = ConsumerID(rawValue: 1), errorListener = ConsumerID(rawValue: 2)
    private var channelListeners: [ConsumerID: String] = [:]
    private var lastListener: UInt64 = 10

    init(seed: UInt64, isTracing: Bool = false) {
        self.seed = seed
        self.isTracing = isTracing
        self.random = SplitMix64(seed: seed)
        var configuration = PusherConfiguration(key: "key", host: "simulated", port: 80, useTLS: false)
        configuration.authorizer = .callback { _ in PusherChannelAuthorization(auth: "") }
        self.client = PusherSession(configuration, seed: seed)
        self.server = PusherServerMachine(Self.app, asks: .init(), seed: seed &+ 1)
        self.client.listen(self.stateListener, to: .states, &self.clientEffects)
        self.client.listen(self.errorListener, to: .errors, &self.clientEffects)
    }

    mutating func run() throws(Violation) {
        for _ in 0..<3 { self.later(0...5_000, .wish) }
        self.later(0...1_000, .publish)
        self.later(60_000...900_000, .restart)
        try self.run(until: Self.peace)
        // Peace: everything is wanted, and nothing is in the way any more.
        try self.user("peace") { $0.start(now: $1, &$2) }
        for name in Self.names { try self.subscribe(name) }
        try self.run(until: Self.calm)
        guard self.client.connection.connected != nil else { throw Violation(description: "not connected after the calm") }
        for name in Self.names {
            guard case .subscribed? = self.client.record(name)?.machine.publicState else {
                throw Violation(
                    description: "\(name) is not subscribed after the calm: \(String(describing: self.client.record(name)?.machine.state))")
            }
            guard let last = self.lastEvent[name], last > Self.calm.advanced(by: .seconds(-120)) else {
                throw Violation(description: "\(name) is subscribed, but no events come")
            }
        }
        let members = self.client.record("presence-b")?.members.map(\.id) ?? []
        guard members == ["me"] else { throw Violation(description: "the members are \(members)") }
        try self.user("stop") { $0.stop(now: $1, &$2) }
        guard self.isFinished else { throw Violation(description: "stopping did not end it at once") }
        try self.run(until: Self.end)
        guard self.live == nil else { throw Violation(description: "a minute after stopping a socket is left") }
        guard self.unanswered.isEmpty else { throw Violation(description: "callers were never answered: \(self.unanswered.values)") }
        guard self.client.nextDeadline == nil else { throw Violation(description: "a timer is left after stopping") }
    }

    private mutating func run(until end: Instant) throws(Violation) {
        while true {
            let timers = Instant.earliest(self.client.nextDeadline, self.server.nextDeadline)
            guard let at = Instant.earliest(self.queue.earliest, timers), at < end else { break }
            self.now = max(self.now, at)
            self.totals.steps += 1
            if self.queue.earliest == at, let next = self.queue.popDue(at), let happening = self.updates.removeValue(forKey: next.key) {
                try self.happen(happening)
            } else if self.client.nextDeadline == at {
                try self.step(.timeout, "timeout") { $0.timeout(now: $1, &$2) }
            } else {
                self.server.timeout(now: self.now, &self.serverEffects)
                self.obeyServer()
            }
        }
        self.now = end
    }

    // MARK: The client's side, and what must never happen

    private mutating func step(
        _ cause: Cause, _ what: @autoclosure () -> String, _ input: (inout PusherSession, Instant, inout Effects<PusherSession>) -> Void
    ) throws(Violation) {
        self.trace("\(cause): \(what())")
        let (deadline, attempt) = (self.client.nextDeadline, self.live)
        input(&self.client, self.now, &self.clientEffects)
        if let next = self.client.nextDeadline, cause == .timeout ? next <= self.now : next < self.now {
            throw Violation(description: "a deadline that has passed: the driver would spin")
        }
        if cause == .stale {
            self.totals.stale += 1
            guard self.clientEffects.commands.isEmpty, self.clientEffects.deliveries.isEmpty, self.client.nextDeadline == deadline else {
                throw Violation(
                    description: "late news did something to \(attempt.map { "\($0)" } ?? "nobody"): \(self.clientEffects.commands)")
            }
        }
        var start = 0
        for run in self.clientEffects.runs {
            for event in self.clientEffects.deliveries[start..<run.end] { try self.delivered(event, on: run.route) }
            start = run.end
        }
        let commands = self.clientEffects.commands
        self.clientEffects.removeAll()
        for command in commands { try self.obey(command, cause) }
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
                throw Violation(description: "an event out of nowhere")
            }
            self.totals.events += 1
            let listeners = self.client.consumers(on: route)
            guard !listeners.isEmpty, listeners.allSatisfy({ self.channelListeners[$0] == name }) else {
                throw Violation(description: "an event of \(name) for somebody who did not ask for it")
            }
            guard number > self.lastSeen[name, default: 0] else {
                throw Violation(description: "event \(number) of \(name) came twice, or late")
            }
            self.lastSeen[name] = number
            self.lastEvent[name] = self.now
        case .error(let error):
            if error.message.contains("Existing subscription") { throw Violation(description: "the same channel was subscribed twice") }
            if error.code == .invalidFrame { throw Violation(description: "a frame of our own server was not understood: \(error)") }
            if error.serverCode == 4009 { throw Violation(description: "a signature for another connection was used") }
        case .connectingIn, .subscription, .members: break
        }
    }

    private mutating func obey(_ command: Effects<PusherSession>.Command, _ cause: Cause) throws(Violation) {
        switch command {
        case .open(let id, _):
            self.trace("  open \(id)")
            if let live = self.live { throw Violation(description: "\(id) was opened while \(live) lives") }
            self.totals.opens += 1
            self.isFinished = false
            if cause == .news {
                self.immediateInARow += 1
                self.totals.immediate += 1
                if self.immediateInARow > 3 { throw Violation(description: "\(self.immediateInARow) immediate reconnects in a row") }
            }
            self.live = id
            self.links[id] = Link()
            self.answerOpening(id)
        case .send(let id, let message):
            guard id == self.live, let link = self.links[id], link.isOpen, !link.isClosing else {
                throw Violation(description: "something was sent on \(id), which is not open")
            }
            self.trace("  send \(String(decoding: message.bytes, as: UTF8.self).prefix(120))")
            self.up(id, .toServer([message]))
        case .close(let id, _, _):
            guard id == self.live, cause == .user else { throw Violation(description: "goodbye was said to \(id) unasked") }
            self.links[id]!.isClosing = true
            // In the calm too: stopping has to end against a peer that says nothing.
            if Bool.random(using: &self.random) { self.links[id]!.isSilent = true }
            self.up(id, .closedByClient(.peer(.normal, "")))
        case .abandon(let id):
            guard id == self.live, let link = self.links[id] else { throw Violation(description: "\(id) was abandoned, which is not live") }
            if cause != .user, !link.isFaulty, !link.isSilent, !link.isClosing {
                throw Violation(description: "\(id) was torn down, which was healthy")
            }
            self.live = nil
            self.up(id, .closedByClient(.transport(TransportError(.reset, "abandoned"))))
            self.later(0...90_000, .news(id, .closed(.transport(TransportError(.reset, "late goodbye")))))
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
                self.later(
                    self.now < Self.storm ? 1...40_000 : 1...2_000, .news(self.live ?? ConnectionID(rawValue: 0), .authorized(id, result)))
            }
        case .cancel(let id):
            self.works.remove(id)
        case .resume(let waiter, _):
            guard self.unanswered.removeValue(forKey: waiter) != nil else { throw Violation(description: "a caller was answered twice") }
        case .endConsumers(let ids, _):
            for id in ids { self.end(id) }
        case .finish(let reason):
            self.isFinished = true
            // A user who is refused tries again some time.
            if reason != .requested { self.later(0...60_000, .comeBack) }
            for id in self.channelListeners.keys.sorted(by: { $0.rawValue < $1.rawValue }) { self.end(id) }
        case .log:
            break
        }
    }

    private mutating func end(_ listener: ConsumerID) {
        self.client.consumerGone(listener)
        self.channelListeners[listener] = nil
    }

    // MARK: The user

    private mutating func user(
        _ what: String, _ input: (inout PusherSession, Instant, inout Effects<PusherSession>) -> Void
    ) throws(Violation) {
        if case .backingOff = self.client.connection.state {} else { self.immediateInARow = 0 }
        try self.step(.user, what, input)
    }

    private mutating func subscribe(_ name: String) throws(Violation) {
        try self.user("subscribe \(name)") { $0.subscribe(name, now: $1, &$2) }
        guard !self.channelListeners.values.contains(name) else { return }
        self.lastListener += 1
        let listener = ConsumerID(rawValue: self.lastListener)
        self.channelListeners[listener] = name
        try self.user("listen to \(name)") { session, _, effects in
            session.listen(listener, to: .events(channel: name, name: nil), &effects)
        }
    }

    private mutating func wish() throws(Violation) {
        self.later(0...60_000, .wish)
        let name = Self.names.randomElement(using: &self.random)!
        switch Int.random(in: 0..<12, using: &self.random) {
        case 0: try self.user("stop") { $0.stop(now: $1, &$2) }
        case 1, 2, 3: try self.user("start") { $0.start(now: $1, &$2) }
        case 4: try self.user("unsubscribe \(name)") { $0.unsubscribe(name, now: $1, &$2) }
        case 5, 6, 7: try self.subscribe(name)
        case 8: try self.ask("connected") { $0.awaitConnected($1, &$2) }
        case 9: try self.ask("subscribed to \(name)") { $0.awaitSubscribed($1, channel: name, &$2) }
        case 10:
            guard let waiter = self.unanswered.keys.min(by: { $0.rawValue < $1.rawValue }) else { return }
            self.unanswered[waiter] = nil
            try self.user("withdraw") { $0.cancelled(waiter, now: $1, &$2) }
        default:
            try self.user("trigger on \(name)") { session, _, effects in
                // What is not subscribed or over its queue's limit throws, as it should.
                let message = PusherFrames.clientEvent("client-a", channel: name, data: Array("1".utf8))
                let sent = try? session.trigger(message, channel: name, hint: Self.names.count / 2)
                if let (id, message) = sent { effects.commands.append(.send(id, message)) }
            }
        }
    }

    private mutating func ask(
        _ what: String, _ question: (inout PusherSession, WaiterID, inout Effects<PusherSession>) -> Void
    ) throws(Violation) {
        self.lastWaiter += 1
        self.totals.questions += 1
        let waiter = WaiterID(rawValue: self.lastWaiter)
        self.unanswered[waiter] = what
        try self.user("ask: \(what)") { session, _, effects in question(&session, waiter, &effects) }
    }

    // MARK: The network and the server

    private mutating func happen(_ happening: Happening) throws(Violation) {
        switch happening {
        case .wish:
            if self.now < Self.storm { try self.wish() }
        case .comeBack:
            try self.user("come back") { $0.start(now: $1, &$2) }
        case .publish:
            self.later(1_000...100_000, .publish)
            self.published += 1
            for name in Self.names { self.server.publish("tick", to: name, data: "\(self.published)", now: self.now, &self.serverEffects) }
            self.obeyServer()
        case .restart:
            guard self.now < Self.storm else { return }
            self.trace("server: restart")
            self.server.stop(now: self.now, &self.serverEffects)
            self.obeyServer()
            self.later(60_000...900_000, .restart)
        case .news(let id, let news):
            try self.arrived(id, news)
        }
    }

    private mutating func arrived(_ id: ConnectionID, _ news: News) throws(Violation) {
        let link = self.links[id] ?? Link()
        let cause = id == self.live ? Cause.news : .stale
        switch news {
        case .toServer(let messages):
            guard !link.isSilent, self.links[id]?.isAccepted == true else { return }
            self.server.received(id, MessageBatch(messages), now: self.now, &self.serverEffects)
            self.obeyServer()
            self.misbehave(id)
        case .closedByClient(let reason):
            if link.isAccepted {
                self.links[id]!.isAccepted = false
                self.server.closed(id, reason, now: self.now, &self.serverEffects)
                self.obeyServer()
            }
            if link.isClosing, !link.isSilent { self.down(id, .closed(.requested)) }
        case .authorized(let work, let result):
            let isWanted = self.works.remove(work) != nil
            if isWanted {
                try self.step(.news, "authorized") { $0.workFinished(work, result, now: $1, &$2) }
            } else {
                try self.step(.stale, "authorized late") { $0.workFinished(work, result, now: $1, &$2) }
            }
        case .opened:
            if link.isSilent { return }
            guard cause == .news else {
                return try self.step(.stale, "opened late") { $0.opened(id, head: HTTPResponseHead(status: 101), now: $1, &$2) }
            }
            self.links[id]!.isOpen = true
            self.links[id]!.isAccepted = true
            self.server.accepted(id, HTTPRequestHead(method: "GET", target: "/app/key?protocol=7"), now: self.now, &self.serverEffects)
            self.server.opened(id, head: HTTPResponseHead(status: 101), now: self.now, &self.serverEffects)
            try self.step(cause, "\(id) opened") { $0.opened(id, head: HTTPResponseHead(status: 101), now: $1, &$2) }
            self.obeyServer()
            self.misbehave(id)
        case .toClient(let messages):
            if link.isSilent, cause == .news { return }
            try self.step(cause, "\(id) received") { $0.received(id, MessageBatch(messages), now: $1, &$2) }
        case .closed(let reason):
            if link.isSilent, cause == .news { return }
            if cause == .news { self.live = nil }
            try self.step(cause, "\(id) closed: \(reason)") { $0.closed(id, reason, now: $1, &$2) }
        }
    }

    private mutating func answerOpening(_ id: ConnectionID) {
        if self.chance(20) {
            self.links[id]!.isFaulty = true
            self.down(id, .closed(.transport(TransportError(.refused, "refused"))), 0...4_000)
        } else if self.chance(10) {
            self.links[id]!.isSilent = true
        } else {
            self.down(id, .opened, 5...2_000)
        }
    }

    /// What may befall a connection.
    private mutating func misbehave(_ id: ConnectionID) {
        guard self.links[id]?.isAccepted == true else { return }
        if self.chance(4) { self.links[id]!.isSilent = true }
        if self.chance(4) { self.hangUp(id, .transport(TransportError(.reset, "cut"))) }
        if self.chance(8) {
            self.hangUp(id, .peer(CloseCode(rawValue: [4200, 4100, 4201, 1001, 4001].randomElement(using: &self.random)!), ""))
        }
    }

    private mutating func hangUp(_ id: ConnectionID, _ reason: CloseReason) {
        guard self.links[id]?.isAccepted == true else { return }
        self.links[id]!.isAccepted = false
        self.server.closed(id, reason, now: self.now, &self.serverEffects)
        self.obeyServer()
        self.down(id, .closed(reason))
        self.links[id]!.isFaulty = true
    }

    private mutating func obeyServer() {
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
        if !self.serverEffects.commands.isEmpty { self.obeyServer() }
    }

    private mutating func up(_ id: ConnectionID, _ news: News) {
        let at = max(self.links[id]!.lastUp, self.inSome(1...300))
        self.links[id]!.lastUp = at
        self.enqueue(at, .news(id, news))
    }

    /// As in TCP, nothing overtakes, and nothing comes after the end.
    private mutating func down(_ id: ConnectionID, _ news: News, _ milliseconds: ClosedRange<Int64> = 1...300) {
        if self.links[id]!.isFaulty { return }
        let at = max(self.links[id]!.lastDown, self.inSome(milliseconds))
        self.links[id]!.lastDown = at
        self.enqueue(at, .news(id, news))
    }

    private mutating func later(_ milliseconds: ClosedRange<Int64>, _ happening: Happening) {
        self.enqueue(self.inSome(milliseconds), happening)
    }

    private mutating func enqueue(_ at: Instant, _ happening: Happening) {
        self.lastNumber += 1
        self.updates[self.lastNumber] = happening
        self.queue.set(self.lastNumber, at)
    }

    private mutating func inSome(_ milliseconds: ClosedRange<Int64>) -> Instant {
        self.now + Int64.random(in: milliseconds, using: &self.random) * 1_000_000
    }

    private mutating func chance(_ percent: Int) -> Bool {
        self.now < Self.storm && Int.random(in: 0..<100, using: &self.random) < percent
    }

    private func trace(_ text: @autoclosure () -> String) {
        if self.isTracing { print("\(Double(self.now.nanoseconds / 1_000_000) / 1000) s  \(text())") }
    }
}
