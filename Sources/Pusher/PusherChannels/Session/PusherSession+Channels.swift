import RealtimeJSON
import PusherWire
import RealtimeCore

/// The channels that are wanted.
extension PusherSession {
    func name(_ index: Int) -> String { self.channels[index]?.name ?? "" }

    func record(_ name: String) -> ChannelRecord? { self.indices[name].flatMap { self.channels[$0] } }

    /// Wants the channel from now on, and returns its place. One that was refused is tried again; for any other nothing changes.
    @discardableResult
    mutating func subscribe(_ name: String, now: Instant, _ effects: inout Effects<Self>) -> Int {
        let index = self.indices[name] ?? self.makeChannel(name)
        self.beginSubscription(index, now: now, &effects)
        return index
    }

    private mutating func makeChannel(_ name: String) -> Int {
        self.reuseRoutes()
        let record = ChannelRecord(name: name, kind: ChannelName.kind(of: name))
        let index: Int
        if let free = self.freeChannels.popLast() {
            index = free
            self.channels[index] = record
        } else {
            index = self.channels.count
            self.channels.append(record)
        }
        self.indices[name] = index
        return index
    }

    mutating func unsubscribe(_ name: String, now: Instant, _ effects: inout Effects<Self>) {
        guard let index = self.indices.removeValue(forKey: name), let record = self.channels[index] else { return }
        switch record.machine.unsubscribe() {
        case .none: break
        case .send: self.send(PusherFrames.unsubscribe(name), &effects)
        case .cancel(let work): self.cancel(work, &effects)
        }
        self.subscriptionDeadlines.set(index, nil)
        self.tell(.subscription(channel: name, .unsubscribed), record.states, &effects)
        self.answerWaiters(index, .failure(PusherError(.disconnected, "The channel \(name) was unsubscribed.")), &effects)
        let listeners = record.events.ids + self.routes[record.states] + self.routes[record.memberChanges]
        effects.commands.append(.endConsumers(listeners, .ended))
        self.lastPlace = nil
        self.channels[index] = nil
        self.freeChannels.append(index)
        self.retired.append(record)
        self.beginQueuedAuthorizations(now: now, &effects)
    }

    /// Gives the routes of channels that are gone to others: not before what was delivered on them has gone out.
    private mutating func reuseRoutes() {
        for var record in self.retired {
            record.events.drop(&self.routes)
            self.routes.drop(record.states)
            self.routes.drop(record.memberChanges)
        }
        self.retired.removeAll()
    }

    mutating func beginSubscription(_ index: Int, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID, let record = self.channels[index] else { return }
        if record.kind == .encrypted {
            let error = PusherError(.unsupportedChannel, "\(record.name) is an encrypted channel, which this version cannot read.")
            return self.refuse(index, error, now: now, &effects)
        }
        if record.kind.needsAuthorization, self.configuration.authorizer == nil {
            let hint = "set the configuration's authorizer, to the application's endpoint for example."
            let error = PusherError(.authorizationMissing, "\(record.name) needs an authorisation: \(hint)")
            return self.refuse(index, error, now: now, &effects)
        }
        if record.kind.needsAuthorization, self.works.count >= Self.authorizationsAtOnce { return self.queueAuthorization(index) }
        let before = record.machine.publicState
        let work = self.nextWork()
        switch self.channels[index]!.machine.begin(authorizing: record.kind.needsAuthorization ? work : nil) {
        case .none: return
        case .subscribe: self.send(PusherFrames.subscribe(record.name), &effects)
        case .authorize:
            self.works[work] = index
            let request = PusherAuthorizationRequest(channel: record.name, socketID: socketID)
            effects.commands.append(.work(work, Work(request: request, configuration: self.configuration)))
        }
        self.subscriptionDeadlines.set(index, now.advanced(by: self.configuration.subscriptionTimeout))
        self.announce(index, since: before, &effects)
    }

    private mutating func queueAuthorization(_ index: Int) {
        guard !self.channels[index]!.isQueued else { return }
        self.channels[index]!.isQueued = true
        self.authorizationQueue.append(index)
    }

    /// As many as there is room for, now that one is over.
    private mutating func beginQueuedAuthorizations(now: Instant, _ effects: inout Effects<Self>) {
        while self.works.count < Self.authorizationsAtOnce, let index = self.authorizationQueue.popFirst() {
            // It may have been unsubscribed meanwhile, or be another channel's place.
            guard self.channels[index]?.isQueued == true else { continue }
            self.channels[index]!.isQueued = false
            self.beginSubscription(index, now: now, &effects)
        }
        if self.authorizationQueue.isEmpty { self.authorizationQueue = [] }
    }

    /// A subscription that cannot even be asked for.
    private mutating func refuse(_ index: Int, _ error: PusherError, now: Instant, _ effects: inout Effects<Self>) {
        if case .failed = self.channels[index]?.machine.state {
            return self.answerWaiters(index, .failure(error), &effects)
        }
        _ = self.channels[index]?.machine.begin(authorizing: nil)
        self.subscriptionFailed(index, error, now: now, &effects)
    }

    mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        guard let index = self.works.take(id), let record = self.channels[index] else { return }
        defer { self.beginQueuedAuthorizations(now: now, &effects) }
        switch result {
        case .failure(let error): self.subscriptionFailed(index, error, now: now, &effects)
        case .success(let authorization):
            if record.kind == .presence {
                guard let data = authorization.channelData, let user = try? PresenceUser(try JSONValue(parsing: data)) else {
                    let why = "its \"channel_data\" is no JSON object with a \"user_id\", which a presence channel needs."
                    let error = PusherError(.authorizationFailed, "The authorisation of \(record.name) cannot be used: \(why)")
                    return self.subscriptionFailed(index, error, now: now, &effects)
                }
                self.channels[index]!.userID = user.id
            }
            guard self.channels[index]!.machine.authorized(id) else { return }
            self.send(PusherFrames.subscribe(record.name, auth: authorization.auth, channelData: authorization.channelData), &effects)
        }
    }

    mutating func subscriptionSucceeded(
        _ index: Int, _ frame: PusherFrame, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) {
        guard let record = self.channels[index] else { return }
        // Whatever the data is worth, the channel is subscribed: a bad list of members must not hold up its events.
        var problem: PusherFrameError?
        if record.kind == .presence {
            do throws(PusherFrameError) {
                let members = try PresenceUser.list(try frame.dataValue()).map { PusherMember(id: $0.id, info: $0.info) }
                self.channels[index]!.members = PusherMembers(members, myID: record.userID)
            } catch {
                problem = error
                self.channels[index]!.members = PusherMembers([], myID: record.userID)
            }
            let members = self.channels[index]!.members
            self.tell(.members(channel: record.name, .subscribed(members)), record.memberChanges, &effects)
        }
        if self.channels[index]!.machine.succeeded() {
            self.subscriptionDeadlines.set(index, nil)
            self.channels[index]!.failures = 0
            effects.log(.debug, "subscribed to \(record.name)")
            self.announce(index, since: .pending, &effects)
            self.answerWaiters(index, .success(.none), &effects)
            for message in record.unsent { effects.commands.append(.send(id, message)) }
            self.channels[index]!.unsent = []
        }
        if let problem { throw problem }
    }

    mutating func subscriptionFailed(_ index: Int, _ error: PusherError, now: Instant, _ effects: inout Effects<Self>) {
        guard self.channels[index] != nil else { return }
        let before = self.channels[index]!.machine.publicState
        switch self.channels[index]!.machine.failed(error) {
        case .none: return
        case .announce: break
        case .announceAndCancel(let work): self.cancel(work, &effects)
        }
        self.subscriptionDeadlines.set(index, error.isTransient ? now + self.retryDelay(index) : nil)
        effects.log(.warning, error.message)
        self.announce(index, since: before, &effects)
        self.tell(.error(error), self.errorRoute, &effects)
        self.answerWaiters(index, .failure(error), &effects)
        self.channels[index]!.unsent = []
        self.channels[index]!.members = PusherMembers()
        self.beginQueuedAuthorizations(now: now, &effects)
    }

    /// In nanoseconds; as between attempts to connect.
    private mutating func retryDelay(_ index: Int) -> Int64 {
        self.channels[index]!.failures += 1
        let failures = self.channels[index]!.failures
        return self.configuration.backoff.delay(failures: failures, minimum: .zero, using: &self.generator).nanoseconds
    }

    /// An answer is late, or it is time to try again.
    mutating func subscriptionDue(_ index: Int, now: Instant, _ effects: inout Effects<Self>) {
        guard let record = self.channels[index] else { return }
        if case .failed = record.machine.state { return self.beginSubscription(index, now: now, &effects) }
        // Should the answer still come, it finds a channel that is not wanted, on both sides.
        if case .subscribing = record.machine.state { self.send(PusherFrames.unsubscribe(record.name), &effects) }
        let limit = self.configuration.subscriptionTimeout
        let error = PusherError(.timedOut, "The subscription to \(record.name) was not answered within \(limit).")
        self.subscriptionFailed(index, error, now: now, &effects)
    }

    mutating func subscriptionLost(_ index: Int, _ effects: inout Effects<Self>) {
        guard let before = self.channels[index]?.machine.publicState else { return }
        self.subscriptionDeadlines.set(index, nil)
        switch self.channels[index]!.machine.connectionLost() {
        case .none: break
        case .announce: self.announce(index, since: before, &effects)
        case .cancel(let work): self.cancel(work, &effects)
        }
        self.channels[index]!.members = PusherMembers()
        self.channels[index]!.isQueued = false
    }

    // MARK: Presence

    mutating func memberAdded(_ index: Int, _ member: PusherMember, _ effects: inout Effects<Self>) {
        guard let record = self.channels[index], self.channels[index]!.members.add(member) else { return }
        self.tell(.members(channel: record.name, .joined(member)), record.memberChanges, &effects)
    }

    mutating func memberRemoved(_ index: Int, id: String, _ effects: inout Effects<Self>) {
        guard let record = self.channels[index], let member = self.channels[index]!.members.remove(id: id) else { return }
        self.tell(.members(channel: record.name, .left(member)), record.memberChanges, &effects)
    }

    // MARK: Client events

    /// Where the channel is. A handle knows where it was when it was made, which saves most look-ups.
    @inline(__always)
    private func index(of name: String, hint: Int) -> Int? {
        guard hint < self.channels.count, self.channels[hint]?.name == name else { return self.indices[name] }
        return hint
    }

    /// Sends the event's message, or keeps it until the channel is subscribed.
    mutating func trigger(
        _ message: WebSocketMessage, channel name: String, hint: Int
    ) throws(PusherError) -> (ConnectionID, WebSocketMessage)? {
        guard let index = self.index(of: name, hint: hint), self.channels[index] != nil else {
            throw PusherError(.notSubscribed, "The channel \(name) is not subscribed; subscribe to it before sending events.")
        }
        if self.channels[index]!.machine.isSubscribed { return self.connection.connected.map { ($0, message) } }
        if case .failed(let error) = self.channels[index]!.machine.state { throw error }
        let count = self.channels[index]!.unsent.count
        guard count < self.configuration.clientEventQueueLimit else {
            let hint = "wait for subscribed(), or raise the configuration's clientEventQueueLimit."
            throw PusherError(.queueFull, "\(count) events wait for the subscription to \(name) already: \(hint)")
        }
        self.channels[index]!.unsent.append(message)
        return nil
    }

    // MARK: Callers and listeners

    mutating func awaitSubscribed(_ waiter: WaiterID, channel name: String, _ effects: inout Effects<Self>) {
        guard let index = self.indices[name], let record = self.channels[index] else {
            let error = PusherError(.notSubscribed, "The channel \(name) is not subscribed.")
            return effects.commands.append(.resume(waiter, .failure(error)))
        }
        switch record.machine.state {
        case .subscribed: effects.commands.append(.resume(waiter, .success(.none)))
        case .failed(let error): effects.commands.append(.resume(waiter, .failure(error)))
        case .waiting, .authorizing, .subscribing:
            switch self.state {
            case .failed(let error), .disconnected(let error?): effects.commands.append(.resume(waiter, .failure(error)))
            default: self.channels[index]!.waiters.append(waiter)
            }
        }
    }

    mutating func answerWaiters(_ index: Int, _ answer: Result<WaiterResult, PusherError>, _ effects: inout Effects<Self>) {
        guard let waiters = self.channels[index]?.waiters, !waiters.isEmpty else { return }
        for waiter in waiters { effects.commands.append(.resume(waiter, answer)) }
        self.channels[index]!.waiters = []
    }

    private mutating func listenToAllChannels(_ id: ConsumerID, _ name: String?) {
        var routes = self.globalEvents ?? ChannelRoutes()
        routes.add(id, name, &self.routes)
        self.globalEvents = routes
    }

    private mutating func leaveAllChannels(_ id: ConsumerID) {
        var routes = self.globalEvents
        routes?.remove(id, &self.routes)
        self.globalEvents = routes
    }

    mutating func listen(_ id: ConsumerID, to topic: Topic, _ effects: inout Effects<Self>) {
        self.lastPlace = nil
        switch topic {
        case .states:
            self.routes.add(id, to: &self.stateRoute)
            self.places[id] = .states
        case .connectingIn:
            self.routes.add(id, to: &self.connectingInRoute)
            self.places[id] = .connectingIn
        case .errors:
            self.routes.add(id, to: &self.errorRoute)
            self.places[id] = .errors
        case .everything:
            self.routes.add(id, to: &self.everythingRoute)
            self.listenToAllChannels(id, nil)
            self.places[id] = .everything
        case .events(nil, let name):
            self.listenToAllChannels(id, name)
            self.places[id] = .globalEvents
        case .events(let channel?, let name):
            guard let index = self.indices[channel] else { return self.endAtOnce(id, &effects) }
            self.channels[index]!.events.add(id, name, &self.routes)
            self.places[id] = .events(index)
        case .subscription(let channel):
            guard let index = self.indices[channel] else { return self.endAtOnce(id, &effects) }
            self.routes.add(id, to: &self.channels[index]!.states)
            self.places[id] = .subscription(index)
        case .members(let channel):
            guard let index = self.indices[channel] else { return self.endAtOnce(id, &effects) }
            self.routes.add(id, to: &self.channels[index]!.memberChanges)
            self.places[id] = .members(index)
        }
    }

    private func endAtOnce(_ id: ConsumerID, _ effects: inout Effects<Self>) {
        effects.commands.append(.endConsumers([id], .ended))
    }

    func consumers(on route: EventRoute) -> [ConsumerID] { self.routes[route] }

    /// The channel may be gone, and its place another's, who does not know the listener.
    mutating func consumerGone(_ listener: ConsumerID) {
        guard let place = self.places.removeValue(forKey: listener) else { return }
        self.lastPlace = nil
        switch place {
        case .states: self.routes.remove(listener, from: self.stateRoute)
        case .connectingIn: self.routes.remove(listener, from: self.connectingInRoute)
        case .errors: self.routes.remove(listener, from: self.errorRoute)
        case .everything:
            self.routes.remove(listener, from: self.everythingRoute)
            self.leaveAllChannels(listener)
        case .globalEvents: self.leaveAllChannels(listener)
        case .events(let index):
            self.channels[index]?.events.remove(listener, &self.routes)
        case .subscription(let index):
            if let record = self.channels[index] { self.routes.remove(listener, from: record.states) }
        case .members(let index):
            if let record = self.channels[index] { self.routes.remove(listener, from: record.memberChanges) }
        }
    }

    // MARK: Small things

    private mutating func send(_ message: WebSocketMessage, _ effects: inout Effects<Self>) {
        if let id = self.connection.connected { effects.commands.append(.send(id, message)) }
    }

    private mutating func cancel(_ work: WorkID, _ effects: inout Effects<Self>) {
        _ = self.works.take(work)
        effects.commands.append(.cancel(work))
    }

    private mutating func announce(_ index: Int, since before: PusherSubscriptionState, _ effects: inout Effects<Self>) {
        guard let record = self.channels[index], record.machine.publicState != before else { return }
        self.tell(.subscription(channel: record.name, record.machine.publicState), record.states, &effects)
    }
}
