import RealtimeJSON
import PusherWire
import RealtimeCore

/// The channels, their subscriptions and their members.
extension PusherSession {
    // MARK: Subscribing

    /// Subscribes to a channel. A failed subscription is retried; otherwise, nothing changes for a channel in the table.
    ///
    /// - Parameter authorization: The authorization for the first attempt, if it was made already.
    @discardableResult
    mutating func subscribe(
        _ name: String, authorization: PusherChannelAuthorization? = nil, now: Instant, _ effects: inout Effects<Self>
    ) -> ChannelID {
        let id = self.channels.id(named: name) ?? self.addChannel(name)
        if let authorization, let record = self.channels[id], record.kind.needsAuthorization, record.machine.canBegin {
            self.givenAuthorizations[id] = authorization
        }
        self.beginSubscription(id, now: now, &effects)
        self.sendBatches(&effects)
        return id
    }

    mutating func addChannel(_ name: String) -> ChannelID {
        self.cachedRoute = nil
        return self.channels.add(name)
    }

    mutating func unsubscribe(_ name: String, now: Instant, _ effects: inout Effects<Self>) {
        let waiters = self.channels.id(named: name).map { self.channels.takeWaiters(of: $0) } ?? []
        guard let record = self.channels.remove(name) else { return }
        let action = record.machine.unsubscribe()
        if action == .send || record.filter?.isReplacing == true { self.send(PusherFrames.unsubscribe(name), &effects) }
        switch action {
        case .none: self.authorizations.remove(record.id)
        case .send: break
        case .cancel(let work): self.cancel(work, &effects)
        }
        if case .reloading(let work) = record.decryption?.state {
            self.authorizations.remove(record.id)
            if let work { self.cancel(work, &effects) }
        }
        self.subscriptionDeadlines.set(record.id, nil)
        self.recoveryDeadlines?.set(record.id, nil)
        self.clientEvents.remove(record.id)
        _ = self.givenAuthorizations.take(record.id)
        self.publish(.subscription(channel: name, .unsubscribed), to: record.states, &effects)
        if !record.members.isEmpty { effects.deliver(.members(channel: name, .subscribed(PusherMembers())), on: record.memberLists) }
        let error = PusherError(.disconnected, "The channel \(name) was unsubscribed.", channel: name)
        for waiter in waiters { effects.resume(waiter, .failure(error)) }
        let consumers = record.events.consumers(in: effects.routes) + record.updateRoutes.flatMap { effects.routes[$0] }
        effects.commands.append(.endConsumers(consumers, .ended))
        self.cachedRoute = nil
        // Not removed yet: the routes are used by the updates of this step.
        record.events.retire(in: &effects.routes)
        for route in record.updateRoutes { effects.routes.retire(route) }
        self.beginWaitingAuthorizations(now: now, &effects)
    }

    mutating func beginSubscription(_ id: ChannelID, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID, let record = self.channels[id], record.machine.canBegin else { return }
        if record.filter?.filter != nil, !self.configuration.allowsFilters {
            return self.reject(record, self.filtersNotAllowed(record.name), now: now, &effects)
        }
        if let authorization = self.givenAuthorizations.take(id) {
            return self.beginSubscription(record, with: authorization, now: now, &effects)
        }
        var work: (id: WorkID, authorizer: PusherAuthorizer)?
        if record.kind.needsAuthorization {
            guard let authorizer = self.configuration.authorizer else {
                let error = PusherError(
                    .authorizationMissing, "\(record.name) requires authorization: set the authorizer of the configuration.",
                    channel: record.name)
                return self.reject(record, error, now: now, &effects)
            }
            guard let id = self.authorizations.start(id, isBatched: authorizer.isBatched) else { return }
            work = (id, authorizer)
        }
        if self.channels[id]?.machine.begin(authorizing: work?.id) == .subscribe {
            self.send(PusherFrames.subscribe(record.name, filter: record.filter?.filter), &effects)
        }
        if let work, !work.authorizer.isBatched {
            let request = PusherAuthorizationRequest(channel: record.name, socketID: socketID)
            effects.commands.append(.work(work.id, .channel(request, work.authorizer, self.configuration)))
        }
        self.subscriptionDeadlines.set(id, now.advanced(by: self.configuration.subscriptionTimeout))
        self.publishState(id, since: record.machine.publicState, &effects)
    }

    /// Subscribes with an authorization that was passed by the user.
    private mutating func beginSubscription(
        _ record: ChannelRecord, with authorization: PusherChannelAuthorization, now: Instant, _ effects: inout Effects<Self>
    ) {
        // The channel may have been waiting for its turn.
        self.authorizations.remove(record.id)
        let work = self.authorizations.makeWork()
        _ = self.channels[record.id]?.machine.begin(authorizing: work)
        self.subscriptionDeadlines.set(record.id, now.advanced(by: self.configuration.subscriptionTimeout))
        self.publishState(record.id, since: record.machine.publicState, &effects)
        self.authorized(record.id, work, authorization, now: now, &effects)
    }

    /// Requests the authorizations that were collected within this step.
    mutating func sendBatches(_ effects: inout Effects<Self>) {
        for batch in self.authorizations.takeBatches() {
            guard let socketID, case .batchEndpoint(let endpoint)? = self.configuration.authorizer?.kind else { return }
            let members = batch.members.compactMap { member in
                self.channels[member.channel].map { record in
                    BatchMember(work: member.work, request: PusherAuthorizationRequest(channel: record.name, socketID: socketID))
                }
            }
            effects.commands.append(.work(batch.id, .batch(members, endpoint, self.configuration)))
        }
    }

    /// Fails a subscription that cannot be sent to the server.
    private mutating func reject(_ record: ChannelRecord, _ error: PusherError, now: Instant, _ effects: inout Effects<Self>) {
        guard case .waiting = record.machine.state else { return }
        _ = self.channels[record.id]?.machine.begin(authorizing: nil)
        self.subscriptionFailed(record.id, error, now: now, &effects)
    }

    /// Starts waiting authorizations up to the limit.
    private mutating func beginWaitingAuthorizations(now: Instant, _ effects: inout Effects<Self>) {
        while let id = self.authorizations.dequeue() {
            self.beginSubscription(id, now: now, &effects)
            self.reloadKey(id, now: now, &effects)
        }
        self.sendBatches(&effects)
    }

    mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        switch result {
        case .user(let result): return self.userAuthenticated(id, result, now: now, &effects)
        case .retryDelay(let delay): return self.delayDecided(id, delay, now: now, &effects)
        case .channel(let result): self.authorizationFinished(id, result, now: now, &effects)
        case .batch(let results):
            for (work, result) in results { self.authorizationFinished(work, result, now: now, &effects) }
        }
        self.beginWaitingAuthorizations(now: now, &effects)
    }

    private mutating func authorizationFinished(
        _ id: WorkID, _ authorization: Result<PusherChannelAuthorization, PusherError>, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let channel = self.authorizations.finish(id) else { return }
        switch authorization {
        case _ where self.isReloading(channel, id): self.keyReloaded(channel, authorization, now: now, &effects)
        case .failure(let error): self.subscriptionFailed(channel, error, now: now, &effects)
        case .success(let authorization): self.authorized(channel, id, authorization, now: now, &effects)
        }
    }

    mutating func authorized(
        _ id: ChannelID, _ work: WorkID, _ authorization: PusherChannelAuthorization, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let record = self.channels[id] else { return }
        if record.kind.isPresence {
            // The server takes a missing member from the sign-in.
            if authorization.channelData == nil, self.user?.state.isPending == true {
                self.user?.subscriptions.append(.init(channel: id, work: work, authorization: authorization))
                return
            }
            if authorization.channelData == nil, case .failed(let error) = self.user?.state {
                // The error that is stored has lost the cause that made it transient.
                let isRetried = self.user?.deadline != nil
                return self.subscriptionFailed(id, .userMissing(record.name, error, isRetried: isRetried), now: now, &effects)
            }
            if authorization.channelData == nil, case .signedIn(let user) = self.user?.state {
                self.channels[id]?.userID = user.id
            } else if let data = authorization.channelData, let user = try? PresenceUser(try JSONValue(parsing: data)) {
                self.channels[id]?.userID = user.id
            } else {
                let reason =
                    "\"channel_data\" of a presence channel must be a JSON object with a \"user_id\", unless the user is signed in."
                return self.subscriptionFailed(id, .authorizationFailed(record.name, "", reason), now: now, &effects)
            }
        }
        if record.kind.isEncrypted {
            do throws(PusherError) {
                self.setKey(id, try Self.key(in: authorization, of: record.name), now: now, &effects)
            } catch {
                return self.subscriptionFailed(id, error, now: now, &effects)
            }
        }
        guard self.channels[id]?.machine.authorized(work) == true else { return }
        let (auth, channelData) = (authorization.auth, authorization.channelData)
        let filter = record.filter?.filter
        self.send(PusherFrames.subscribe(record.name, auth: auth, channelData: channelData, filter: filter), &effects)
    }

    /// Handles `pusher_internal:subscription_succeeded`.
    mutating func subscriptionSucceeded(
        _ id: ChannelID, _ frame: PusherFrame, on connection: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) {
        guard let record = self.channels[id] else { return }
        // An invalid list of members is reported, but must not withhold the events of the channel.
        var invalidMembers: PusherFrameError?
        if record.kind.isPresence {
            var members: [PusherMember] = []
            do throws(PusherFrameError) {
                members = try PresenceUser.list(try frame.dataValue()).map { PusherMember(id: $0.id, info: $0.info) }
            } catch {
                invalidMembers = error
            }
            let list = PusherMembers(members, myID: record.userID)
            self.setMembers(id, list, &effects)
            let changes = record.members.changes(to: list)
            let change =
                record.lostSince == nil
                ? PusherMemberChange.subscribed(list)
                : .resubscribed(list, joined: changes.joined, left: changes.left)
            self.publish(.members(channel: record.name, change), to: record.memberChanges, &effects)
        }
        if self.channels[id]?.machine.succeeded() == true {
            self.subscriptionDeadlines.set(id, nil)
            self.channels[id]?.failures = 0
            effects.log(.debug, "subscribed to \(record.name)")
            // The state stays pending until the server has the current filter.
            let isCurrent = record.filter?.isOutdated != true
            if isCurrent {
                self.publishState(id, since: .pending, &effects)
                self.resumeWaiters(id, .success(.none), &effects)
            }
            if record.filter?.isReplacing == true {
                self.filterReplaced(id, frame)
            } else {
                self.confirmPosition(id, frame, now: now, &effects)
            }
            self.channels[id]?.filter?.state = .settled
            guard isCurrent else {
                self.channels[id]?.confirmedAt = now
                return self.replaceSubscription(id, since: .pending, now: now, &effects)
            }
            self.channels[id]?.queuedMessages = []
            self.sendQueuedMessages(record.queuedMessages, from: id, on: connection, now: now, &effects)
            // An event that arrived before the confirmation may wait for another key, which is only loaded for a subscribed channel.
            self.reloadKey(id, now: now, &effects)
            self.sendBatches(&effects)
        } else if record.machine.state == .subscribed, let since = record.confirmedAt {
            // The first confirmation was that of an earlier subscription, which the client has given up. Until this one, there was none.
            self.interrupted(id, since: since)
            self.confirmPosition(id, frame, now: now, &effects)
        }
        self.channels[id]?.confirmedAt = now
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
        let wasReplacing = self.channels[id]?.filter?.isReplacing == true
        if wasReplacing, let name = self.channels[id]?.name { self.send(PusherFrames.unsubscribe(name), &effects) }
        self.channels[id]?.filter?.state = .settled
        self.subscriptionDeadlines.set(id, error.isTransient ? now + self.retryDelay(id) : nil)
        effects.log(.warning, error.message)
        self.publishState(id, since: before, &effects)
        self.publish(.error(error), to: self.clientRoutes.errors, &effects)
        self.resumeWaiters(id, .failure(error), &effects)
        self.dropClientEvents(id)
        if before == .subscribed || wasReplacing { self.interrupted(id, since: now) }
        self.recoveryLost(id)
        if !error.isTransient { self.setMembers(id, PusherMembers(), &effects) }
        self.cancelReload(id, &effects)
        self.keyFailed(id, nil, now: now, &effects)
        self.deliver(EventName.subscriptionError, on: id, &effects) {
            // As Pusher's client for JavaScript describes it.
            var data: JSONObject = ["type": .string(error.code == .authorizationFailed ? "AuthError" : "SubscriptionError")]
            data["error"] = .string(error.message)
            if let status = error.status { data["status"] = .number(JSONNumber(status)) }
            return JSONValue.object(data).description
        }
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
        if case .subscribed = record.machine.state {
            self.cancelReload(id, &effects)
            let message = "Loading a new key for \(record.name) timed out after \(self.configuration.subscriptionTimeout)."
            self.keyFailed(id, PusherError(.timedOut, message, channel: record.name), now: now, &effects)
            return self.beginWaitingAuthorizations(now: now, &effects)
        }
        if case .failed = record.machine.state { return self.beginSubscription(id, now: now, &effects) }
        // Otherwise, a late confirmation would leave the client subscribed on the server only.
        if case .subscribing = record.machine.state, record.filter?.isReplacing != true {
            self.send(PusherFrames.unsubscribe(record.name), &effects)
        }
        let limit = self.configuration.subscriptionTimeout
        let error = PusherError(.timedOut, "The subscription to \(record.name) timed out after \(limit).", channel: record.name)
        self.subscriptionFailed(id, error, now: now, &effects)
    }

    /// Handles the loss of the connection.
    ///
    /// - Parameters:
    ///   - since: Since when events may be missing.
    ///   - isFinal: Whether the client doesn't reconnect.
    mutating func subscriptionLost(
        _ id: ChannelID, since: Instant, isFinal: Bool, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let before = self.channels[id]?.machine.publicState, let action = self.channels[id]?.machine.connectionLost() else { return }
        if before == .subscribed || self.channels[id]?.filter?.isReplacing == true { self.interrupted(id, since: since) }
        self.recoveryLost(id)
        self.channels[id]?.filter?.state = .settled
        self.channels[id]?.deltaBases = nil
        self.channels[id]?.receivesUnconfirmed = false
        self.subscriptionDeadlines.set(id, nil)
        switch action {
        case .none: break
        case .publish: self.publishState(id, since: before, &effects)
        case .cancel(let work): self.cancel(work, &effects)
        }
        // Events that wait for a key wait for the authorization of the next subscription instead, and the members stay until the new list
        // arrives.
        self.cancelReload(id, &effects)
        guard isFinal else { return }
        self.keyFailed(id, nil, now: now, &effects)
        self.setMembers(id, PusherMembers(), &effects)
    }

    /// Reports that events may be missing, if the subscription was interrupted.
    ///
    /// - Parameter failure: Why they can't be recovered, if the client recovers events.
    mutating func endInterruption(
        _ id: ChannelID, failure: PusherRecoveryFailure? = nil, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let record = self.channels[id], let since = record.lostSince else { return }
        self.channels[id]?.lostSince = nil
        let gap = PusherGap(channel: record.name, duration: since.duration(to: now), recoveryFailure: failure)
        self.publish(.gap(gap), to: record.notices.gaps, &effects)
    }

    /// Records since when events may be missing.
    mutating func interrupted(_ id: ChannelID, since: Instant) {
        self.cachedRoute = nil
        if self.channels[id]?.lostSince == nil { self.channels[id]?.lostSince = since }
    }

    private mutating func send(_ message: WebSocketMessage, _ effects: inout Effects<Self>) {
        if let id = self.connection.connected { self.send(message, on: id, &effects) }
    }

    mutating func cancelReload(_ id: ChannelID, _ effects: inout Effects<Self>) {
        // Otherwise, a failed subscription would begin again when it is the channel's turn.
        self.authorizations.remove(id)
        if let work = self.channels[id]?.decryption?.stopLoading() { self.cancel(work, &effects) }
    }

    private mutating func cancel(_ work: WorkID, _ effects: inout Effects<Self>) {
        if let request = self.authorizations.cancel(work) { effects.commands.append(.cancel(request)) }
    }

    mutating func publishState(_ id: ChannelID, since before: PusherSubscriptionState, _ effects: inout Effects<Self>) {
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
