import RealtimeJSON
import PusherWire
import RealtimeCore

/// The channels, their subscriptions and their members.
extension PusherSession {
    // MARK: Subscribing

    /// Subscribes to a channel. A failed subscription is retried; otherwise, nothing changes for a channel in the table.
    @discardableResult
    mutating func subscribe(_ name: String, now: Instant, _ effects: inout Effects<Self>) -> ChannelID {
        let id = self.channels.id(named: name) ?? self.addChannel(name)
        self.beginSubscription(id, now: now, &effects)
        return id
    }

    private mutating func addChannel(_ name: String) -> ChannelID {
        self.cachedRoute = nil
        return self.channels.add(name)
    }

    mutating func unsubscribe(_ name: String, now: Instant, _ effects: inout Effects<Self>) {
        let waiters = self.channels.id(named: name).map { self.channels.takeWaiters(of: $0) } ?? []
        guard let record = self.channels.remove(name) else { return }
        switch record.machine.unsubscribe() {
        case .none: self.authorizations.remove(record.id)
        case .send: self.send(PusherFrames.unsubscribe(name), &effects)
        case .cancel(let work): self.cancel(work, &effects)
        }
        self.subscriptionDeadlines.set(record.id, nil)
        self.publish(.subscription(channel: name, .unsubscribed), to: record.states, &effects)
        if !record.members.isEmpty { effects.deliver(.members(channel: name, .subscribed(PusherMembers())), on: record.memberLists) }
        let error = PusherError(.disconnected, "The channel \(name) was unsubscribed.", channel: name)
        for waiter in waiters { effects.resume(waiter, .failure(error)) }
        let consumers =
            record.events.consumers(in: effects.routes)
            + [record.states, record.memberChanges, record.memberLists].flatMap { effects.routes[$0] }
        effects.commands.append(.endConsumers(consumers, .ended))
        self.cachedRoute = nil
        // Not removed yet: the routes are used by the updates of this step.
        record.events.retire(in: &effects.routes)
        effects.routes.retire(record.states)
        effects.routes.retire(record.memberChanges)
        effects.routes.retire(record.memberLists)
        self.beginWaitingAuthorizations(now: now, &effects)
    }

    mutating func beginSubscription(_ id: ChannelID, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID, let record = self.channels[id], record.machine.canBegin else { return }
        if record.kind == .encrypted {
            let error = PusherError(
                .unsupportedChannel, "Cannot subscribe to \(record.name): encrypted channels are not supported by this version.",
                channel: record.name)
            return self.reject(record, error, now: now, &effects)
        }
        var work: (id: WorkID, authorizer: PusherAuthorizer)?
        if record.kind.needsAuthorization {
            guard let authorizer = self.configuration.authorizer else {
                let error = PusherError(
                    .authorizationMissing, "\(record.name) requires authorization: set the authorizer of the configuration.",
                    channel: record.name)
                return self.reject(record, error, now: now, &effects)
            }
            guard let id = self.authorizations.start(id) else { return }
            work = (id, authorizer)
        }
        if self.channels[id]?.machine.begin(authorizing: work?.id) == .subscribe {
            self.send(PusherFrames.subscribe(record.name), &effects)
        }
        if let work {
            let request = PusherAuthorizationRequest(channel: record.name, socketID: socketID)
            effects.commands.append(
                .work(work.id, Work(request: request, authorizer: work.authorizer, configuration: self.configuration)))
        }
        self.subscriptionDeadlines.set(id, now.advanced(by: self.configuration.subscriptionTimeout))
        self.publishState(id, since: record.machine.publicState, &effects)
    }

    /// Fails a subscription that cannot be sent to the server.
    private mutating func reject(_ record: ChannelRecord, _ error: PusherError, now: Instant, _ effects: inout Effects<Self>) {
        guard case .waiting = record.machine.state else { return }
        _ = self.channels[record.id]?.machine.begin(authorizing: nil)
        self.subscriptionFailed(record.id, error, now: now, &effects)
    }

    /// Starts waiting authorizations up to the limit.
    private mutating func beginWaitingAuthorizations(now: Instant, _ effects: inout Effects<Self>) {
        while let id = self.authorizations.dequeue() { self.beginSubscription(id, now: now, &effects) }
    }

    mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        guard let channel = self.authorizations.finish(id) else { return }
        switch result {
        case .failure(let error): self.subscriptionFailed(channel, error, now: now, &effects)
        case .success(let authorization): self.authorized(channel, id, authorization, now: now, &effects)
        }
        self.beginWaitingAuthorizations(now: now, &effects)
    }

    private mutating func authorized(
        _ id: ChannelID, _ work: WorkID, _ authorization: PusherChannelAuthorization, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let record = self.channels[id] else { return }
        if record.kind == .presence {
            guard let data = authorization.channelData, let user = try? PresenceUser(try JSONValue(parsing: data)) else {
                let reason = "\"channel_data\" of a presence channel must be a JSON object with a \"user_id\"."
                return self.subscriptionFailed(id, .authorizationFailed(record.name, "", reason), now: now, &effects)
            }
            self.channels[id]?.userID = user.id
        }
        guard self.channels[id]?.machine.authorized(work) == true else { return }
        self.send(PusherFrames.subscribe(record.name, auth: authorization.auth, channelData: authorization.channelData), &effects)
    }

    /// Handles `pusher_internal:subscription_succeeded`.
    mutating func subscriptionSucceeded(
        _ id: ChannelID, _ frame: PusherFrame, on connection: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) {
        guard let record = self.channels[id] else { return }
        // An invalid list of members is reported, but must not withhold the events of the channel.
        var invalidMembers: PusherFrameError?
        if record.kind == .presence {
            var members: [PusherMember] = []
            do throws(PusherFrameError) {
                members = try PresenceUser.list(try frame.dataValue()).map { PusherMember(id: $0.id, info: $0.info) }
            } catch {
                invalidMembers = error
            }
            let list = PusherMembers(members, myID: record.userID)
            self.setMembers(id, list, &effects)
            self.publish(.members(channel: record.name, .subscribed(list)), to: record.memberChanges, &effects)
        }
        if self.channels[id]?.machine.succeeded() == true {
            self.subscriptionDeadlines.set(id, nil)
            self.channels[id]?.failures = 0
            effects.log(.debug, "subscribed to \(record.name)")
            self.publishState(id, since: .pending, &effects)
            self.resumeWaiters(id, .success(.none), &effects)
            for message in record.queuedMessages { effects.commands.append(.send(connection, message)) }
            self.channels[id]?.queuedMessages = []
        }
        if let invalidMembers { throw invalidMembers }
    }

    mutating func subscriptionFailed(_ id: ChannelID, _ error: PusherError, now: Instant, _ effects: inout Effects<Self>) {
        guard let before = self.channels[id]?.machine.publicState,
            // The machine keeps the error, which must not keep an object of the application.
            let action = self.channels[id]?.machine.failed(error.forStorage)
        else { return }
        switch action {
        case .none: return
        case .publish: break
        case .publishAndCancel(let work): self.cancel(work, &effects)
        }
        self.subscriptionDeadlines.set(id, error.isTransient ? now + self.retryDelay(id) : nil)
        effects.log(.warning, error.message)
        self.publishState(id, since: before, &effects)
        self.publish(.error(error), to: self.clientRoutes.errors, &effects)
        self.resumeWaiters(id, .failure(error), &effects)
        self.channels[id]?.queuedMessages = []
        self.setMembers(id, PusherMembers(), &effects)
        self.beginWaitingAuthorizations(now: now, &effects)
    }

    /// Returns the delay before the next attempt in nanoseconds, drawn like the delay before an attempt to connect.
    private mutating func retryDelay(_ id: ChannelID) -> Int64 {
        let failures = min(self.channels[id]?.failures ?? 0, .max - 1) + 1
        self.channels[id]?.failures = failures
        return self.configuration.backoff.delay(failures: Int(failures), minimum: .zero, using: &self.generator).nanoseconds
    }

    /// Handles the deadline of a subscription: retries a failed one, and fails one that was not confirmed in time.
    mutating func subscriptionTimeout(_ id: ChannelID, now: Instant, _ effects: inout Effects<Self>) {
        guard let record = self.channels[id] else { return }
        if case .failed = record.machine.state { return self.beginSubscription(id, now: now, &effects) }
        // Otherwise, a late confirmation would leave the client subscribed on the server only.
        if case .subscribing = record.machine.state { self.send(PusherFrames.unsubscribe(record.name), &effects) }
        let limit = self.configuration.subscriptionTimeout
        let error = PusherError(.timedOut, "The subscription to \(record.name) timed out after \(limit).", channel: record.name)
        self.subscriptionFailed(id, error, now: now, &effects)
    }

    mutating func subscriptionLost(_ id: ChannelID, _ effects: inout Effects<Self>) {
        guard let before = self.channels[id]?.machine.publicState, let action = self.channels[id]?.machine.connectionLost() else { return }
        self.subscriptionDeadlines.set(id, nil)
        switch action {
        case .none: break
        case .publish: self.publishState(id, since: before, &effects)
        case .cancel(let work): self.cancel(work, &effects)
        }
        self.setMembers(id, PusherMembers(), &effects)
    }

    private mutating func send(_ message: WebSocketMessage, _ effects: inout Effects<Self>) {
        if let id = self.connection.connected { effects.commands.append(.send(id, message)) }
    }

    private mutating func cancel(_ work: WorkID, _ effects: inout Effects<Self>) {
        if self.authorizations.finish(work) != nil { effects.commands.append(.cancel(work)) }
    }

    private mutating func publishState(_ id: ChannelID, since before: PusherSubscriptionState, _ effects: inout Effects<Self>) {
        guard let record = self.channels[id], record.machine.publicState != before else { return }
        self.publish(.subscription(channel: record.name, record.machine.publicState), to: record.states, &effects)
    }

    // MARK: Members

    mutating func memberAdded(_ id: ChannelID, _ member: PusherMember, _ effects: inout Effects<Self>) {
        guard self.channels[id]?.members.add(member) == true, let record = self.channels[id] else { return }
        self.publish(.members(channel: record.name, .joined(member)), to: record.memberChanges, &effects)
        self.deliverMembers(record, &effects)
    }

    mutating func memberRemoved(_ id: ChannelID, userID: String, _ effects: inout Effects<Self>) {
        guard let member = self.channels[id]?.members.remove(id: userID), let record = self.channels[id] else { return }
        self.publish(.members(channel: record.name, .left(member)), to: record.memberChanges, &effects)
        self.deliverMembers(record, &effects)
    }

    private mutating func setMembers(_ id: ChannelID, _ members: PusherMembers, _ effects: inout Effects<Self>) {
        guard let before = self.channels[id]?.members, !before.isEmpty || !members.isEmpty else { return }
        self.channels[id]?.members = members
        if let record = self.channels[id] { self.deliverMembers(record, &effects) }
    }

    /// Delivers the list of members to the consumers of lists. Without consumers, no copy of the list is made.
    private func deliverMembers(_ record: ChannelRecord, _ effects: inout Effects<Self>) {
        guard !effects.routes.isEmpty(record.memberLists) else { return }
        effects.deliver(.members(channel: record.name, .subscribed(record.members)), on: record.memberLists)
    }

    // MARK: Client events

    /// Returns the message to send, or queues it until the channel is subscribed.
    ///
    /// - Parameter id: The ID that the caller's handle has, which may be outdated.
    mutating func trigger(
        _ message: WebSocketMessage, channel name: String, id: ChannelID
    ) throws(PusherError) -> (ConnectionID, WebSocketMessage)? {
        guard let id = self.channels.id(id, named: name), let state = self.channels.state(of: id) else { throw .notSubscribed(name) }
        switch state {
        case .subscribed: return self.connection.connected.map { ($0, message) }
        case .failed(let error): throw error
        case .waiting, .authorizing, .subscribing:
            let count = self.channels[id]?.queuedMessages.count ?? 0
            guard count < self.configuration.clientEventQueueLimit else {
                let hint = "Await subscribed(), or increase clientEventQueueLimit."
                throw PusherError(
                    .queueFull, "\(count) client events are already waiting for the subscription to \(name). \(hint)", channel: name)
            }
            self.channels[id]?.queuedMessages.append(message)
            return nil
        }
    }

    // MARK: Waiting calls

    mutating func awaitSubscribed(_ waiter: WaiterID, channel name: String, _ effects: inout Effects<Self>) {
        guard let id = self.channels.id(named: name), let state = self.channels.state(of: id) else {
            return effects.resume(waiter, .failure(.notSubscribed(name)))
        }
        switch state {
        case .subscribed: effects.resume(waiter, .success(.none))
        case .failed(let error): effects.resume(waiter, .failure(error))
        case .waiting, .authorizing, .subscribing:
            switch self.state {
            case .failed(let error), .disconnected(let error?): effects.resume(waiter, .failure(error))
            case .initialized, .connecting, .connected, .unavailable, .disconnected(nil): self.channels.addWaiter(waiter, to: id)
            }
        }
    }

    mutating func resumeWaiters(_ id: ChannelID, _ result: Result<WaiterResult, PusherError>, _ effects: inout Effects<Self>) {
        for waiter in self.channels.takeWaiters(of: id) { effects.resume(waiter, result) }
    }
}
