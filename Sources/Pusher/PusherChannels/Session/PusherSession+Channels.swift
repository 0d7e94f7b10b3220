import PusherWire
import RealtimeCoding
import RealtimeCore

/// Subscriptions, and their effects on the other parts.
extension PusherSession {
    // MARK: Subscribing

    /// Subscribes to a channel. A failed subscription is retried; otherwise, nothing changes for a channel of the client.
    ///
    /// - Parameter authorization: The authorization for the first attempt, if it was made already.
    @discardableResult
    mutating func subscribe(
        _ name: String, authorization: PusherChannelAuthorization? = nil, now: Instant, _ effects: inout Effects<Self>
    ) -> ChannelID {
        let id = self.addChannel(name)
        if let authorization { self.channels.give(authorization, to: id) }
        self.beginSubscription(id, now: now, &effects)
        self.sendBatches(now: now, &effects)
        return id
    }

    /// Subscribes to a channel with a filter, or changes the filter of a channel.
    mutating func subscribe(_ name: String, filter: PusherFilter?, now: Instant, _ effects: inout Effects<Self>) -> ChannelID {
        let id = self.addChannel(name)
        if self.channels.setFilter(filter, of: id) { self.replaceSubscription(id, since: .subscribed, now: now, &effects) }
        return self.subscribe(name, now: now, &effects)
    }

    private mutating func addChannel(_ name: String) -> ChannelID {
        if let id = self.channels.id(named: name) { return id }
        let id = self.channels.add(name)
        self.events.added(id, name)
        return id
    }

    mutating func unsubscribe(_ name: String, now: Instant, _ effects: inout Effects<Self>) {
        guard let (id, routes) = self.channels.remove(name, self.context(now), &self.work, &effects) else { return }
        self.channels.keyIsNotNeeded(id, self.keys.removed(id), &self.work, &effects)
        self.deltas.ended(id)
        self.clientEvents.drop(id)
        let allRoutes = routes + [self.recovery.removed(id)]
        let consumers = (self.events.removed(id, &effects.routes) + allRoutes.flatMap { effects.routes[$0] }).sorted()
        effects.commands.append(.endConsumers(consumers, .ended))
        // The routes aren't removed yet: they are used by the updates of this step.
        for route in allRoutes { effects.routes.retire(route) }
        self.beginWaitingAuthorizations(now: now, &effects)
    }

    /// Begins the subscriptions of all channels, on a new connection.
    mutating func beginSubscriptions(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.channels.ids { self.beginSubscription(id, now: now, &effects) }
        self.sendBatches(now: now, &effects)
    }

    private mutating func beginSubscription(_ id: ChannelID, now: Instant, _ effects: inout Effects<Self>) {
        switch self.channels.begin(id, self.context(now), &self.work, &effects) {
        case .begun: break
        case .authorized(let work, let authorization): self.authorized(id, work, authorization, now: now, &effects)
        case .failed(let error): self.subscriptionFailed(id, error, now: now, &effects)
        }
    }

    /// Subscribes again to a channel whose filter has changed. The server replaces the filter when it confirms the subscription, so that no
    /// event is missing in between.
    ///
    /// - Parameter before: The state of the subscription that was published last.
    private mutating func replaceSubscription(
        _ id: ChannelID, since before: PusherSubscriptionState, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.channels.replace(id, since: before, self.context(now), &effects) else { return }
        self.recovery.replacing(id)
        self.events.interrupted()
        self.stopReloadingKey(id, &effects)
        self.beginSubscription(id, now: now, &effects)
        self.sendBatches(now: now, &effects)
    }

    // MARK: Authorizations

    mutating func sendBatches(now: Instant, _ effects: inout Effects<Self>) {
        guard self.channels.hasBatches else { return }
        self.channels.sendBatches(self.context(now), &effects)
    }

    /// Starts waiting authorizations up to the limit.
    private mutating func beginWaitingAuthorizations(now: Instant, _ effects: inout Effects<Self>) {
        while let id = self.channels.popWaiting() {
            self.beginSubscription(id, now: now, &effects)
            self.reloadKey(id, now: now, &effects)
        }
        self.sendBatches(now: now, &effects)
    }

    mutating func authorizationsFinished(
        _ results: [(work: WorkID, result: Result<PusherChannelAuthorization, PusherError>)], now: Instant, _ effects: inout Effects<Self>
    ) {
        for (work, result) in results {
            guard let id = self.channels.authorizationFinished(work, &self.work) else { continue }
            switch result {
            case _ where self.keys.isReloading(id, work): self.keyReloaded(id, result, now: now, &effects)
            case .failure(let error): self.subscriptionFailed(id, error, now: now, &effects)
            case .success(let authorization): self.authorized(id, work, authorization, now: now, &effects)
            }
        }
        self.beginWaitingAuthorizations(now: now, &effects)
    }

    /// Continues with the authorization of a subscription, unless it waits for the user.
    mutating func authorized(
        _ id: ChannelID, _ work: WorkID, _ authorization: PusherChannelAuthorization, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let channel = self.channels.channel(id) else { return }
        var userID: String?
        do throws(PusherError) {
            if channel.kind.isPresence {
                userID = try self.user.member(of: channel, work, authorization)
                if userID == nil { return }
            }
            if channel.kind.isEncrypted {
                self.setKey(id, try ChannelKeys.key(in: authorization, of: channel.name), now: now, &effects)
            }
        } catch {
            return self.subscriptionFailed(id, error, now: now, &effects)
        }
        self.channels.authorized(id, work, authorization, userID: userID, self.context(now), &effects)
    }

    // MARK: Results

    /// Handles `pusher_internal:subscription_succeeded`.
    mutating func subscriptionSucceeded(
        _ channel: NamedChannel, _ received: ReceivedFrame, _ effects: inout Effects<Self>
    ) {
        let (frame, id, context) = (received.frame, channel.id, self.context(received.now))
        // An invalid list of members is reported, but must not withhold the events of the channel.
        var members: [PusherMember]?
        var invalidMembers: PusherFrameError?
        if channel.kind.isPresence {
            do throws(PusherFrameError) {
                members = try PresenceUser.list(try frame.dataValue()).map { PusherMember(id: $0.id, info: $0.info) }
            } catch {
                (members, invalidMembers) = ([], error)
            }
        }
        let wasInterrupted = self.recovery.isInterrupted(id)
        switch self.channels.confirmed(id, members: members, wasInterrupted: wasInterrupted, context, &effects) {
        case .unexpected: break
        case .repeated: self.deliver(self.recovery.confirmedAgain(channel, frame, context, &effects), now: context.now, &effects)
        case .outdated(let replaced):
            self.confirmed(channel, frame, replaced: replaced, context, &effects)
            self.replaceSubscription(id, since: .pending, now: context.now, &effects)
        case .subscribed(let replaced):
            self.confirmed(channel, frame, replaced: replaced, context, &effects)
            let waiting = self.clientEvents.subscribed(id, context.configuration.clientEventLimit, now: context.now)
            for message in waiting { context.send(message, &effects) }
            // An event that arrived before the confirmation may wait for another key, which is only loaded for a subscribed channel.
            self.reloadKey(id, now: context.now, &effects)
            self.sendBatches(now: context.now, &effects)
        }
        guard let invalidMembers else { return }
        let message = "The confirmation of \(channel.name) has no valid list of members, which is empty now: \(invalidMembers)."
        self.consumers.report(PusherError(.invalidFrame, message, channel: channel.name), &effects)
    }

    private mutating func confirmed(
        _ channel: NamedChannel, _ frame: PusherFrame, replaced: Bool, _ context: SessionContext, _ effects: inout Effects<Self>
    ) {
        if replaced { return self.recovery.replaced(channel, frame, now: context.now) }
        self.deliver(self.recovery.confirmed(channel, frame, context, &effects), now: context.now, &effects)
    }

    /// - Parameter isPresumed: Whether the server may still confirm the subscription, because the error names no channel.
    mutating func subscriptionFailed(
        _ id: ChannelID, _ error: PusherError, isPresumed: Bool = false, now: Instant, _ effects: inout Effects<Self>
    ) {
        let end = self.channels.failed(id, error, isPresumed: isPresumed, self.context(now), &self.work, &effects)
        guard let end else { return }
        self.clientEvents.drop(id)
        self.interrupted(id, end, since: now)
        self.recovery.subscriptionEnded(id)
        self.stopReloadingKey(id, &effects)
        self.keyFailed(id, nil, now: now, &effects)
        self.events.deliver(reserved: EventName.subscriptionError, on: id, &effects) {
            // As Pusher's client for JavaScript describes it.
            var data: JSONObject = ["type": .string(error.code == .authorizationFailed ? "AuthError" : "SubscriptionError")]
            data["error"] = .string(error.message)
            if let status = error.status { data["status"] = .number(JSONNumber(status)) }
            return JSONValue.object(data).description
        }
        self.beginWaitingAuthorizations(now: now, &effects)
    }

    /// Handles the deadlines of subscriptions.
    mutating func subscriptionTimeouts(now: Instant, _ effects: inout Effects<Self>) {
        guard let deadline = self.channels.nextDeadline, deadline <= now else { return }
        self.channels.sendDue(self.context(now), &effects)
        while let (id, timeout) = self.channels.timeout(self.context(now), &effects) {
            switch timeout {
            case .retry: self.beginSubscription(id, now: now, &effects)
            case .failed(let error): self.subscriptionFailed(id, error, now: now, &effects)
            case .keyFailed(let error):
                self.stopReloadingKey(id, &effects)
                self.keyFailed(id, error, now: now, &effects)
                self.beginWaitingAuthorizations(now: now, &effects)
            }
        }
    }

    /// Handles the loss of the connection.
    ///
    /// - Parameters:
    ///   - since: Since when events may be missing.
    ///   - isFinal: Whether the client doesn't reconnect.
    mutating func subscriptionsLost(since: Instant, isFinal: Bool, now: Instant, _ effects: inout Effects<Self>) {
        let context = self.context(now)
        self.events.interrupted()
        for id in self.channels.ids {
            guard let end = self.channels.connectionLost(id, isFinal: isFinal, context, &self.work, &effects) else { continue }
            self.interrupted(id, end, since: since)
            self.recovery.ended(id)
            self.deltas.ended(id)
            // Events that wait for a key wait for the authorization of the next subscription instead.
            self.stopReloadingKey(id, &effects)
            if isFinal { self.keyFailed(id, nil, now: now, &effects) }
        }
    }

    /// Records since when events may be missing, if the channel received some until now.
    private mutating func interrupted(_ id: ChannelID, _ end: ChannelSubscription.End, since: Instant) {
        guard end.wasReceiving else { return }
        self.events.interrupted()
        self.recovery.interrupted(id, since: since)
    }

    // MARK: Keys

    /// Decrypts and delivers an event, or lets it wait for a new key.
    mutating func deliverEncrypted(
        _ frame: PusherFrame, on id: ChannelID, now: Instant, _ writer: inout EventWriter, _ effects: inout Effects<Self>
    ) {
        guard let names = self.events.names(of: frame, on: id) else { return }
        switch self.keys.received(names, frame.dataBytes, on: id, now: now) {
        case .deliver(let text):
            self.events.deliver(text, names, on: id, and: self.consumers.receivedFrames, &writer, &effects)
        case .fail(let error): self.decodingFailed(error, &effects)
        case .wait: break
        case .ignore: effects.counters.messagesIgnored += 1
        case .reload:
            // A subscription that has failed gets no key.
            if self.channels.state(of: id)?.failure != nil { return self.keyFailed(id, nil, now: now, &effects) }
            self.reloadKey(id, now: now, &effects)
            self.sendBatches(now: now, &effects)
        }
    }

    /// Requests another authorization of the channel, if it must bring a new key.
    private mutating func reloadKey(_ id: ChannelID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.keys.mustReload(id) else { return }
        do throws(PusherError) {
            guard let work = try self.channels.authorizeAgain(id, self.context(now), &self.work, &effects) else { return }
            self.keys.started(id, work)
        } catch {
            self.keyFailed(id, error, now: now, &effects)
        }
    }

    private mutating func keyReloaded(
        _ id: ChannelID, _ result: Result<PusherChannelAuthorization, PusherError>, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.channels.keyAuthorized(id)
        guard let channel = self.channels.channel(id) else { return }
        do throws(PusherError) {
            self.setKey(id, try ChannelKeys.key(in: try result.get(), of: channel.name), now: now, &effects)
        } catch {
            self.keyFailed(id, error, now: now, &effects)
        }
    }

    /// Sets the key of a channel, and delivers the events that waited for it.
    private mutating func setKey(_ id: ChannelID, _ key: EncryptionKey, now: Instant, _ effects: inout Effects<Self>) {
        let events = self.keys.set(key, of: id, backoff: self.configuration.backoff, now: now)
        guard !events.isEmpty else { return }
        var writer = EventWriter(atMost: events.reduce(0) { if case .decrypted(_, let text) = $1 { $0 + text.utf8.count } else { $0 } })
        for event in events {
            switch event {
            case .decrypted(let names, let text):
                self.events.deliver(text, names, on: id, and: self.consumers.receivedFrames, &writer, &effects)
            case .failed(let error): self.decodingFailed(error, &effects)
            }
        }
    }

    /// Fails the events that wait for a key.
    ///
    /// - Parameter error: The reason to report, or `nil` if it is reported already.
    private mutating func keyFailed(_ id: ChannelID, _ error: PusherError?, now: Instant, _ effects: inout Effects<Self>) {
        if let error { self.consumers.report(error, &effects) }
        for error in self.keys.failed(id, backoff: self.configuration.backoff, now: now) { self.decodingFailed(error, &effects) }
    }

    private mutating func stopReloadingKey(_ id: ChannelID, _ effects: inout Effects<Self>) {
        self.channels.keyIsNotNeeded(id, self.keys.stopReloading(id), &self.work, &effects)
    }

    /// Forgets the keys of all channels, and fails the events that wait for one: the app that encrypted them isn't that of the next connection.
    mutating func forgetKeys(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.channels.ids where self.channels.kind(of: id)?.isEncrypted == true {
            self.stopReloadingKey(id, &effects)
            self.keyFailed(id, nil, now: now, &effects)
            self.keys.removed(id)
        }
    }

    // MARK: Waiting calls

    mutating func awaitSubscribed(_ waiter: WaiterID, channel name: String, _ effects: inout Effects<Self>) {
        self.channels.wait(waiter, channel: name, ended: self.endError, &effects)
    }
}
