import PusherWire
import RealtimeCoding
import RealtimeCore
import RealtimeSystem

/// The channels of a client: their names, subscriptions, authorizations and members, and the calls that wait for them.
///
/// The session reports what happens to the connection and what the server sends. The functions publish the changes of the channels, and
/// return what concerns the other parts of the session.
struct ChannelSubscriptions: Sendable {
    private var table = ChannelTable()
    /// When a subscription or the request for a key times out, or when a failed subscription is retried.
    private var deadlines = Deadlines<ChannelID, PatientLimit>()
    private var authorizations = AuthorizationQueue()
    /// The authorizations that were passed with a subscription, until its first attempt.
    private var givenAuthorizations: [ChannelID: PusherChannelAuthorization] = [:]
    /// The subscriptions that were sent and await their results, or wait to be sent.
    private var queue = SubscriptionQueue()
    /// Draws the delays between attempts.
    private var generator: SplitMix64

    init(seed: UInt64) {
        self.generator = SplitMix64(seed: seed)
    }

    // MARK: Lookup

    var nextDeadline: Instant? { .earliest(self.deadlines.earliest, self.queue.nextDeadline) }
    var waiterCount: Int { self.table.waiterCount }
    /// The channels, oldest slot first.
    var ids: [ChannelID] { self.table.ids }
    var names: [String] { self.table.names }
    /// The number of channels that wait to start an authorization.
    var waitingAuthorizationCount: Int { self.authorizations.waitingCount }
    /// The number of authorizations that were passed and not used yet.
    var givenAuthorizationCount: Int { self.givenAuthorizations.count }

    subscript(name: String) -> ChannelRecord? { self.table[name] }
    subscript(id: ChannelID) -> ChannelRecord? { self.table[id] }

    @inline(__always)
    func id(named name: String) -> ChannelID? { self.table.id(named: name) }

    /// Returns the ID of a channel, trying an earlier ID of the channel before its name.
    @inline(__always)
    func id(_ id: ChannelID, named name: String) -> ChannelID? { self.table.id(id, named: name) }

    /// Returns the state of a channel without copying its record.
    @inline(__always)
    func state(of id: ChannelID) -> PusherChannelStateMachine.State? { self.table.state(of: id) }

    /// Returns the kind of a channel without copying its record.
    @inline(__always)
    func kind(of id: ChannelID) -> PusherChannelKind? { self.table.kind(of: id) }

    func channel(_ id: ChannelID) -> NamedChannel? { self.table[id]?.channel }

    func channel(named name: String?) -> NamedChannel? { name.flatMap { self.table[$0]?.channel } }

    /// Whether the deadline of a subscription, or of its retry, is set.
    func hasDeadline(_ id: ChannelID) -> Bool { self.deadlines.contains(id) }

    /// A subscription that an error event rejects.
    struct Rejection: Sendable {
        var channel: NamedChannel
        /// Whether neither the event nor its text names the channel, so that the error may be about something else.
        var isPresumed = false
    }

    /// Returns the subscription that an error event rejects, if any.
    ///
    /// Most servers do not name the channel. The error then belongs to the subscription whose channel appears in the text, or probably to the
    /// oldest one that awaits the result of a signature, because servers answer in order.
    ///
    /// - Parameter isSigningIn: Whether the error may be about the user instead, because it has the same codes.
    func subscription(rejectedBy error: ServerError, channel: String?, isSigningIn: Bool) -> Rejection? {
        let pending = self.table.records.filter { $0.subscription.state == .subscribing }
        if let named = pending.first(where: { $0.name == channel }) { return Rejection(channel: named.channel) }
        // Excludes public channels, whose names may be ordinary words.
        let signed = pending.filter(\.kind.needsAuthorization)
        // sockudo doesn't name the channel of an invalid filter.
        let filtered = pending.filter { $0.subscription.filter != nil }
        if filtered.count == 1, error.text.containsText("filter") { return filtered.first.map { Rejection(channel: $0.channel) } }
        if let named = signed.first(where: { ChannelName.isNamed($0.name, in: error.text) }) { return Rejection(channel: named.channel) }
        guard channel == nil, !isSigningIn, error.code == nil || error.code == 4009 else { return nil }
        let sent = signed.compactMap { record in self.queue.number(of: record.id).map { (record, number: $0) } }
        return sent.min { $0.number < $1.number }.map { Rejection(channel: $0.0.channel, isPresumed: true) }
    }

    /// Whether a text contains the name of a channel.
    func areNamed(in text: String) -> Bool { self.table.records.contains { ChannelName.isNamed($0.name, in: text) } }

    // MARK: Consumers

    /// - Returns: `false` if there is no such channel.
    mutating func addConsumer(
        _ id: ConsumerID, of channel: ChannelID, to route: WritableKeyPath<ChannelRecord.Consumers, EventRoute>, _ routes: inout EventRoutes
    ) {
        guard var consumers = self.table[channel]?.consumers else { return }
        routes.add(id, to: &consumers[keyPath: route])
        self.table[channel]?.consumers = consumers
    }

    // MARK: Adding and removing

    /// Adds a channel that isn't one of the client's.
    mutating func add(_ name: String) -> ChannelID { self.table.add(name) }

    /// Keeps an authorization for the first attempt to subscribe, if the channel needs one and an attempt can begin.
    mutating func give(_ authorization: PusherChannelAuthorization, to id: ChannelID) {
        guard let record = self.table[id], record.kind.needsAuthorization, record.subscription.canBegin else { return }
        self.givenAuthorizations[id] = authorization
    }

    /// Changes the filter of a channel.
    ///
    /// - Returns: Whether to call ``replace(_:_:_:)``.
    mutating func setFilter(_ filter: PusherFilter?, of id: ChannelID) -> Bool {
        self.table[id]?.subscription.change(to: filter) ?? false
    }

    /// Removes a channel. Its routes remain until the updates of this step have been delivered.
    ///
    /// - Returns: The channel and the consumers of its updates, or `nil` if there is none.
    mutating func remove(
        _ name: String, _ context: SessionContext, _ work: inout SessionWork,
        _ effects: inout SessionEffects
    ) -> (id: ChannelID, consumers: [EventRoute])? {
        let waiters = self.table.id(named: name).map { self.table.takeWaiters(of: $0) } ?? []
        guard let record = self.table.remove(name) else { return nil }
        let end = record.subscription.unsubscribe(isSent: !self.queue.isWaiting(record.id))
        if end.needsUnsubscribe { context.send(PusherFrames.unsubscribe(name), &effects) }
        self.authorizations.remove(record.id)
        self.cancel(end.cancelled, &work, &effects)
        self.deadlines.set(record.id, nil)
        _ = self.givenAuthorizations.take(record.id)
        self.queue.remove(record.id)
        context.publish(.subscription(channel: name, .unsubscribed), to: record.consumers.states, &effects)
        if !record.members.isEmpty {
            effects.deliver(.members(channel: name, .subscribed(PusherMembers())), on: record.consumers.memberLists)
        }
        let error = PusherError(.disconnected, "The channel \(name) was unsubscribed.", channel: name)
        for waiter in waiters { effects.resume(waiter, .failure(error)) }
        return (record.id, record.consumers.all)
    }

    // MARK: Subscribing

    /// The beginning of a subscription.
    enum Beginning: Sendable {
        /// It has begun, or waits for the connection or its turn.
        case begun
        /// It has begun with an authorization that was passed.
        case authorized(WorkID, PusherChannelAuthorization)
        /// It can't be sent to the server.
        case failed(PusherError)
    }

    /// Begins to subscribe, if the client is connected and the subscription hasn't begun yet.
    mutating func begin(
        _ id: ChannelID, _ context: SessionContext, _ work: inout SessionWork,
        _ effects: inout SessionEffects
    ) -> Beginning {
        guard let socketID = context.socketID, let record = self.table[id], record.subscription.canBegin else { return .begun }
        if record.subscription.filter != nil, !context.configuration.allowsFilters {
            return self.reject(record, .filtersNotAllowed(record.name))
        }
        if let authorization = self.givenAuthorizations.take(id) {
            // The channel may have been waiting for its turn.
            self.authorizations.remove(id)
            let authorized = work.reserve(for: .authorization(id))
            // It has finished already.
            _ = work.take(authorized)
            _ = self.table[id]?.subscription.begin(authorizing: authorized)
            self.begun(record, context, &effects)
            return .authorized(authorized, authorization)
        }
        guard record.kind.needsAuthorization else {
            let action = self.table[id]?.subscription.begin(authorizing: nil)
            self.begun(record, context, &effects)
            if action == .subscribe {
                self.send(id, PusherFrames.subscribe(record.name, filter: record.subscription.filter), context, &effects)
            }
            return .begun
        }
        guard let authorizer = context.configuration.authorizer else {
            let message = "\(record.name) requires authorization: set `PusherConfiguration.authorizer`."
            return self.reject(record, PusherError(.authorizationMissing, message, channel: record.name))
        }
        guard let authorization = self.authorize(record, authorizer, socketID, context, &work, &effects) else { return .begun }
        _ = self.table[id]?.subscription.begin(authorizing: authorization)
        self.begun(record, context, &effects)
        return .begun
    }

    /// - Parameter record: The record before the beginning.
    private mutating func begun(_ record: ChannelRecord, _ context: SessionContext, _ effects: inout SessionEffects) {
        self.deadlines.set(record.id, context.limit)
        self.publishState(record.id, since: record.subscription.publicState, context, &effects)
    }

    private mutating func reject(_ record: ChannelRecord, _ error: PusherError) -> Beginning {
        guard case .waiting = record.subscription.state else { return .begun }
        _ = self.table[record.id]?.subscription.begin(authorizing: nil)
        return .failed(error)
    }

    /// Begins again, so that the server receives another filter.
    ///
    /// - Parameter before: The state of the subscription that was published last.
    /// - Returns: Whether to call ``begin(_:_:_:_:)``.
    mutating func replace(
        _ id: ChannelID, since before: PusherSubscriptionState, _ context: SessionContext, _ effects: inout SessionEffects
    ) -> Bool {
        guard self.table[id]?.subscription.replace() == true else { return false }
        self.publishState(id, since: before, context, &effects)
        return true
    }

    // MARK: Authorizations

    /// Starts an authorization.
    ///
    /// - Returns: Its ID, or `nil` if the channel has to wait for its turn.
    private mutating func authorize(
        _ record: ChannelRecord, _ authorizer: PusherAuthorizer, _ socketID: String, _ context: SessionContext,
        _ work: inout SessionWork, _ effects: inout SessionEffects
    ) -> WorkID? {
        let id = self.authorizations.start(record.id, isBatched: authorizer.isBatched, isLimited: authorizer.isLimited, &work)
        guard let id else { return nil }
        if !authorizer.isBatched {
            let request = PusherAuthorizationRequest(channel: record.name, socketID: socketID)
            effects.commands.append(.work(id, .channel(request, authorizer, context.configuration)))
        }
        return id
    }

    /// Starts another authorization of a subscribed channel, whose only use is the key.
    ///
    /// - Returns: Its ID, or `nil` if the channel isn't subscribed, or has to wait for its turn.
    /// - Throws: The reason why there is no key.
    mutating func authorizeAgain(
        _ id: ChannelID, _ context: SessionContext, _ work: inout SessionWork,
        _ effects: inout SessionEffects
    ) throws(PusherError) -> WorkID? {
        guard let record = self.table[id], record.subscription.state == .subscribed, let socketID = context.socketID else { return nil }
        guard let authorizer = context.configuration.authorizer else {
            let message = "Loading a new key for \(record.name) requires authorization: set `PusherConfiguration.authorizer`."
            throw PusherError(.authorizationMissing, message, channel: record.name)
        }
        guard let authorization = self.authorize(record, authorizer, socketID, context, &work, &effects) else { return nil }
        effects.log(.info, "loading a new key for \(record.name)")
        self.deadlines.set(id, context.limit)
        return authorization
    }

    /// Whether authorizations were collected within this step.
    var hasBatches: Bool { self.authorizations.hasBatches }

    /// Requests the authorizations that were collected within this step.
    mutating func sendBatches(_ context: SessionContext, _ effects: inout SessionEffects) {
        let batches = self.authorizations.takeBatches()
        guard let socketID = context.socketID, case .batchEndpoint(let endpoint)? = context.configuration.authorizer?.kind else { return }
        for batch in batches {
            let members = batch.members.compactMap { member in
                self.table[member.channel].map { record in
                    PusherSession.BatchMember(
                        work: member.work, request: PusherAuthorizationRequest(channel: record.name, socketID: socketID))
                }
            }
            effects.commands.append(.work(batch.id, .batch(members, endpoint, context.configuration)))
        }
    }

    /// Removes the next channel that waits to start an authorization, if it can start.
    mutating func popWaiting() -> ChannelID? { self.authorizations.dequeue() }

    /// An authorization has finished.
    ///
    /// - Returns: The channel that it is for, or `nil` if it was cancelled.
    mutating func authorizationFinished(_ id: WorkID, _ work: inout SessionWork) -> ChannelID? {
        self.authorizations.finish(id, &work)
    }

    /// The authorization of ``authorizeAgain(_:_:_:_:)`` has finished.
    mutating func keyAuthorized(_ id: ChannelID) { self.deadlines.set(id, nil) }

    /// The authorization of ``authorizeAgain(_:_:_:_:)`` isn't needed.
    ///
    /// - Parameter authorization: Its ID, or `nil` if it hasn't started.
    mutating func keyIsNotNeeded(_ id: ChannelID, _ authorization: WorkID?, _ work: inout SessionWork, _ effects: inout SessionEffects) {
        // Otherwise, a failed subscription would begin again when it is the channel's turn.
        self.authorizations.remove(id)
        self.cancel(authorization, &work, &effects)
    }

    /// Sends a subscription that was authorized, unless the authorization is an earlier one.
    ///
    /// - Parameter userID: The client's user on a presence channel.
    mutating func authorized(
        _ id: ChannelID, _ work: WorkID, _ authorization: PusherChannelAuthorization, userID: String?, _ context: SessionContext,
        _ effects: inout SessionEffects
    ) {
        if let userID { self.table[id]?.userID = userID }
        guard self.table[id]?.subscription.authorized(work) == true, let record = self.table[id] else { return }
        let (auth, channelData) = (authorization.auth, authorization.channelData)
        let filter = record.subscription.filter
        self.send(id, PusherFrames.subscribe(record.name, auth: auth, channelData: channelData, filter: filter), context, &effects)
    }

    // MARK: Sending

    /// Sends a subscription, now or when the server's limit of messages allows it. The time limit doesn't include that wait.
    private mutating func send(
        _ id: ChannelID, _ message: TransportMessage, _ context: SessionContext, _ effects: inout SessionEffects
    ) {
        if self.queue.add(id, message, now: context.now) {
            context.send(message, &effects)
        } else {
            self.deadlines.set(id, nil)
        }
    }

    /// Sends the subscriptions that waited for the server's limit of messages, as far as it allows it now.
    mutating func sendDue(_ context: SessionContext, _ effects: inout SessionEffects) {
        while let due = self.queue.takeDue(now: context.now) {
            self.deadlines.set(due.channel, context.limit)
            context.send(due.message, &effects)
        }
    }

    /// The server has rejected a message because of its limit. If it was a subscription, it is sent again later.
    ///
    /// - Parameter channel: The channel that the server has named, if any.
    /// - Returns: Whether it was the first one since the client last slowed down; `nil` if no subscription awaits its result.
    mutating func rateLimited(channel: String?, now: Instant) -> Bool? {
        let named = channel.flatMap { self.table.id(named: $0) }
        guard let rejected = self.queue.rejected(named, now: now) else { return nil }
        self.deadlines.set(rejected.channel, nil)
        return rejected.pauseBegins
    }

    /// The limit of another server isn't known.
    mutating func forgetRateLimit() { self.queue.forgetLimit() }

    private mutating func cancel(_ authorization: WorkID?, _ work: inout SessionWork, _ effects: inout SessionEffects) {
        guard let authorization, let request = self.authorizations.cancel(authorization, &work) else { return }
        effects.commands.append(.cancel(request))
    }

    // MARK: Results

    /// Handles the server's confirmation.
    ///
    /// - Parameters:
    ///   - members: The members of a presence channel.
    ///   - wasInterrupted: Whether the client was subscribed before.
    mutating func confirmed(
        _ id: ChannelID, members: [PusherMember]?, wasInterrupted: Bool, _ context: SessionContext,
        _ effects: inout SessionEffects
    ) -> ChannelSubscription.Confirmation {
        guard let record = self.table[id] else { return .unexpected }
        if let members {
            let list = PusherMembers(members, myID: record.userID)
            self.setMembers(id, list, &effects)
            let changes = record.members.changes(to: list)
            let change =
                wasInterrupted
                ? PusherMemberChange.resubscribed(list, joined: changes.joined, left: changes.left)
                : .subscribed(list)
            context.publish(.members(channel: record.name, change), to: record.consumers.memberChanges, &effects)
        }
        let confirmation = self.table[id]?.subscription.confirmed() ?? .unexpected
        switch confirmation {
        case .repeated, .unexpected: return confirmation
        case .subscribed:
            self.publishState(id, since: .pending, context, &effects)
            self.resumeWaiters(of: id, .success(.none), &effects)
        // The state stays pending until the server has the current filter.
        case .outdated: break
        }
        self.deadlines.set(id, nil)
        if let other = self.queue.confirmed(id, now: context.now) { self.deadlines.set(other, nil) }
        self.table[id]?.failures = 0
        effects.log(.debug, "subscribed to \(record.name)")
        return confirmation
    }

    /// Fails a subscription, and retries it later if the failure may be temporary.
    ///
    /// - Parameter isPresumed: Whether the server may still confirm the subscription, because the error names no channel.
    /// - Returns: The end of the subscription, or `nil` if it hadn't begun.
    mutating func failed(
        _ id: ChannelID, _ error: PusherError, isPresumed: Bool = false, _ context: SessionContext, _ work: inout SessionWork,
        _ effects: inout SessionEffects
    ) -> ChannelSubscription.End? {
        // The subscription keeps the error, which must not keep an object of the application.
        guard let before = self.table[id],
            let end = self.table[id]?.subscription.failed(error.forStorage, isPresumed: isPresumed)
        else { return nil }
        self.queue.remove(id)
        self.cancel(end.cancelled, &work, &effects)
        if end.needsUnsubscribe { context.send(PusherFrames.unsubscribe(before.name), &effects) }
        let retry = error.isTransient ? context.now + self.retryDelay(id, context.configuration.backoff) : nil
        self.deadlines.set(id, retry.map { .wait(until: $0) })
        effects.log(.warning, error.message)
        self.publishState(id, since: before.subscription.publicState, context, &effects)
        context.consumers.publish(error, &effects)
        self.resumeWaiters(of: id, .failure(error), &effects)
        if !error.isTransient { self.setMembers(id, PusherMembers(), &effects) }
        return end
    }

    /// Returns the delay before the next attempt in nanoseconds, drawn like the delay before an attempt to connect.
    private mutating func retryDelay(_ id: ChannelID, _ backoff: Backoff) -> Int64 {
        let failures = min(self.table[id]?.failures ?? 0, .max - 1) + 1
        self.table[id]?.failures = failures
        return backoff.delay(failures: Int(failures), minimum: .zero, using: &self.generator).nanoseconds
    }

    /// The meaning of a deadline.
    enum Timeout: Sendable {
        /// A failed subscription is retried: call ``begin(_:_:_:_:)``.
        case retry
        /// The subscription was not confirmed in time: call ``failed(_:_:_:_:_:)``.
        case failed(PusherError)
        /// The authorization for a key has not finished in time.
        case keyFailed(PusherError)
    }

    /// Handles the first deadline that is due.
    mutating func timeout(_ context: SessionContext, _ effects: inout SessionEffects) -> (id: ChannelID, Timeout)? {
        // Each deadline belongs to a channel in the table.
        guard let id = self.deadlines.popPassed(now: context.now), let record = self.table[id] else { return nil }
        let limit = context.configuration.subscriptionTimeout
        switch record.subscription.state {
        case .failed, .presumedFailed: return (id, .retry)
        case .subscribed:
            let message = "Loading a new key for \(record.name) timed out after \(limit)."
            return (id, .keyFailed(PusherError(.timedOut, message, channel: record.name)))
        case .waiting, .authorizing, .subscribing:
            if record.subscription.awaitsFirstConfirmation { context.send(PusherFrames.unsubscribe(record.name), &effects) }
            let message = "The subscription to \(record.name) timed out after \(limit)."
            return (id, .failed(PusherError(.timedOut, message, channel: record.name)))
        }
    }

    // MARK: The connection

    /// The connection has ended, so that no authorization is needed. Call ``connectionLost(_:isFinal:_:_:_:)`` for each channel next.
    ///
    /// - Parameter isByPeer: Whether the server has ended it, and named no other reason than a limit of messages.
    mutating func ended(isByPeer: Bool, now: Instant, _ effects: inout SessionEffects) {
        self.authorizations.removeAllWaiting()
        guard self.queue.connectionEnded(isByPeer: isByPeer, now: now) else { return }
        let reason = "The server ended the connection before it had confirmed all subscriptions, probably because of a rate limit."
        effects.log(.warning, "\(reason) The client sends them more slowly on the next one.")
    }

    /// Handles the loss of the connection for one channel.
    ///
    /// - Parameter isFinal: Whether the client doesn't reconnect. Otherwise, the members stay until the new list arrives.
    mutating func connectionLost(
        _ id: ChannelID, isFinal: Bool, _ context: SessionContext, _ work: inout SessionWork,
        _ effects: inout SessionEffects
    ) -> ChannelSubscription.End? {
        guard let before = self.table[id]?.subscription.publicState, let end = self.table[id]?.subscription.connectionLost() else {
            return nil
        }
        self.deadlines.set(id, nil)
        self.publishState(id, since: before, context, &effects)
        self.cancel(end.cancelled, &work, &effects)
        if isFinal { self.setMembers(id, PusherMembers(), &effects) }
        return end
    }

    private func publishState(
        _ id: ChannelID, since before: PusherSubscriptionState, _ context: SessionContext, _ effects: inout SessionEffects
    ) {
        guard let record = self.table[id], record.subscription.publicState != before else { return }
        context.publish(.subscription(channel: record.name, record.subscription.publicState), to: record.consumers.states, &effects)
    }

    // MARK: Members

    mutating func memberAdded(_ id: ChannelID, _ member: PusherMember, _ context: SessionContext, _ effects: inout SessionEffects) {
        guard self.table[id]?.members.add(member) == true, let record = self.table[id] else { return }
        context.publish(.members(channel: record.name, .joined(member)), to: record.consumers.memberChanges, &effects)
        self.deliverMembers(record, &effects)
    }

    mutating func memberRemoved(_ id: ChannelID, userID: String, _ context: SessionContext, _ effects: inout SessionEffects) {
        guard let member = self.table[id]?.members.remove(id: userID), let record = self.table[id] else { return }
        context.publish(.members(channel: record.name, .left(member)), to: record.consumers.memberChanges, &effects)
        self.deliverMembers(record, &effects)
    }

    private mutating func setMembers(_ id: ChannelID, _ members: PusherMembers, _ effects: inout SessionEffects) {
        guard let before = self.table[id]?.members, !before.isEmpty || !members.isEmpty else { return }
        self.table[id]?.members = members
        if let record = self.table[id] { self.deliverMembers(record, &effects) }
    }

    /// Delivers the list of members to the consumers of lists. Without consumers, no copy of the list is made.
    private func deliverMembers(_ record: ChannelRecord, _ effects: inout SessionEffects) {
        guard !effects.routes.isEmpty(record.consumers.memberLists) else { return }
        effects.deliver(.members(channel: record.name, .subscribed(record.members)), on: record.consumers.memberLists)
    }

    /// The server has reported the number of subscribed connections.
    mutating func counted(_ id: ChannelID, _ count: Int, _ context: SessionContext, _ effects: inout SessionEffects) {
        self.table[id]?.subscriptionCount = count
        guard let record = self.table[id] else { return }
        context.publish(.subscriptionCount(channel: record.name, count), to: record.consumers.counts, &effects)
    }

    // MARK: Waiting calls

    /// Resumes a call when a channel is subscribed, or with the error of the subscription.
    ///
    /// - Parameter ended: Why the client doesn't connect, if it has given up.
    mutating func wait(_ waiter: WaiterID, channel name: String, ended: PusherError?, _ effects: inout SessionEffects) {
        guard let id = self.table.id(named: name), let state = self.table.state(of: id) else {
            return effects.resume(waiter, .failure(.notSubscribed(name)))
        }
        switch state {
        case .subscribed: effects.resume(waiter, .success(.none))
        case .failed(let error), .presumedFailed(let error): effects.resume(waiter, .failure(error))
        case .waiting, .authorizing, .subscribing:
            if let ended { effects.resume(waiter, .failure(ended)) } else { self.table.addWaiter(waiter, to: id) }
        }
    }

    /// Returns the name of the channel that a call waits for, if it waits for one.
    func name(awaitedBy waiter: WaiterID) -> String? { self.table.name(awaitedBy: waiter) }

    mutating func cancelled(_ waiter: WaiterID) { self.table.removeWaiter(waiter) }

    /// Fails all calls that wait.
    mutating func failWaiters(_ error: PusherError, _ effects: inout SessionEffects) {
        for id in self.table.ids { self.resumeWaiters(of: id, .failure(error), &effects) }
    }

    private mutating func resumeWaiters(
        of id: ChannelID, _ result: Result<PusherSession.WaiterResult, PusherError>, _ effects: inout SessionEffects
    ) {
        for waiter in self.table.takeWaiters(of: id) { effects.resume(waiter, result) }
    }
}

extension PusherError {
    /// The error of a channel with a filter on a connection without them.
    fileprivate static func filtersNotAllowed(_ channel: String) -> PusherError {
        let message =
            "\(channel) has a filter, which the server of this connection would ignore: set `PusherConfiguration.allowsFilters`, and reconnect."
        return PusherError(.filterNotAllowed, message, channel: channel)
    }
}
