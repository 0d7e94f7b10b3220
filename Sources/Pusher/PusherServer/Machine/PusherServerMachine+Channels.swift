import RealtimeCoding
import RealtimeSystem
import PusherWire
import RealtimeCore

/// Received frames, subscriptions and publishing.
extension PusherServerMachine {
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        self.receivedInParts(id, batch, now: now, &effects)
    }

    mutating func received(
        _ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int, now: Instant, _ effects: inout Effects<Self>
    ) -> Int {
        let count = batch.entries.count
        switch self.activity(on: id, now: now) {
        case .established: break
        case .establishing:
            effects.counters.messagesIgnored += count - start
            return count
        case .rejected, nil: return count
        }
        var budget = OutputBudget(effects)
        let replays = self.replays
        return batch.bytes.withUnsafeBytes { bytes in
            for index in start..<count where batch.entries[index].kind == .text {
                let text = UnsafeRawBufferPointer(rebasing: bytes[batch.entries[index].range])
                self.received(text, from: id, now: now, &effects)
                // The next request for missed events waits until these have been sent, because its answer may be many times as large.
                if self.replays != replays || budget.isSpent(by: effects, for: id) { return index + 1 }
            }
            return count
        }
    }

    /// Limits the output that the messages of one read cause, because many small requests may have large answers, or answers for many
    /// clients.
    private struct OutputBudget {
        /// The bytes of answers to the client. WebSockets stop reading when more of them wait to be sent.
        private static let answerLimit = 256 << 10
        /// The bytes to all clients, so that the other ones don't wait for long.
        private static let totalLimit = 1 << 20
        /// A small message takes about as long as this many bytes.
        private static let messageOverhead = 64

        /// The number of commands that are counted.
        private var counted: Int
        private var answers = 0
        private var total = 0

        init(_ effects: borrowing Effects<PusherServerMachine>) {
            self.counted = effects.commands.count
        }

        mutating func isSpent(by effects: borrowing Effects<PusherServerMachine>, for id: ConnectionID) -> Bool {
            while self.counted < effects.commands.count {
                if case .send(let receiver, let message) = effects.commands[self.counted] {
                    self.total += message.bytes.count + Self.messageOverhead
                    if receiver == id { self.answers += message.bytes.count }
                }
                self.counted += 1
            }
            return self.answers > Self.answerLimit || self.total > Self.totalLimit
        }
    }

    private mutating func received(_ text: UnsafeRawBufferPointer, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID = self.connections[id]?.socketID else { return }
        self.deliver(.received(socketID: socketID, frame: Excerpt.of(bytes: text, limit: self.app.messageLimit)), &effects)
        guard text.count <= self.app.messageLimit else {
            effects.counters.messagesIgnored += 1
            self.logLimit("\(self.app.messageLimit) bytes of a message: \(text.count)", id, &effects)
            let message = "The message has \(text.count) bytes; a message can have at most \(self.app.messageLimit)"
            return self.sendError(nil, message, to: id, &effects)
        }
        do throws(PusherFrameError) {
            try self.received(try PusherFrame(scanning: text), from: id, now: now, &effects)
        } catch {
            effects.counters.messagesIgnored += 1
            self.sendError(4200, "Invalid message format: \(error)", to: id, &effects)
        }
    }

    private mutating func received(
        _ frame: PusherFrame, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) {
        let event = self.allowsVersion2 ? EventName.version7(frame.eventName) : frame.eventName
        switch ByteString(event) {
        case ClientRequest.ping: self.send(self.pong, to: id, &effects)
        case ClientRequest.pong: break
        case ClientRequest.subscribe: self.subscribe(id, try SubscriptionRequest(try frame.dataValue()), now: now, &effects)
        case ClientRequest.unsubscribe:
            guard let name = try frame.dataValue()["channel"]?.string else { throw .missing("channel") }
            self.unsubscribe(id, ByteString(name), now: now, &effects)
        case ClientRequest.signIn where self.profile.allowsSignIn: try self.signIn(id, try frame.dataValue(), &effects)
        case ClientRequest.resume where self.allowsRecovery: try self.resume(id, try frame.dataValue(), &effects)
        case ClientRequest.enableDeltaCompression where self.app.allowsDeltaCompression: self.enableDeltaCompression(id, &effects)
        case ClientRequest.deltaSyncError where self.app.allowsDeltaCompression:
            guard let name = try frame.dataValue()["channel"]?.string else { throw .missing("channel") }
            self.updateEstablished(id) { $0.withDeltas { $0.remove(group: name) } }
        case _ where EventName.isClientEvent(event): self.clientEvent(id, event, frame, now: now, &effects)
        default: self.sendError(nil, "Clients cannot send the event \(Excerpt.of(event, limit: 80))", to: id, &effects)
        }
    }

    /// The names of the events with which a client makes requests.
    private enum ClientRequest {
        static let ping = ByteString(EventName.ping)
        static let pong = ByteString(EventName.pong)
        static let subscribe = ByteString(EventName.subscribe)
        static let unsubscribe = ByteString(EventName.unsubscribe)
        static let signIn = ByteString(EventName.signIn)
        static let resume = ByteString(EventName.resume)
        static let enableDeltaCompression = ByteString(EventName.enableDeltaCompression)
        static let deltaSyncError = ByteString(EventName.deltaSyncError)
    }

    // MARK: Subscribing

    private mutating func subscribe(
        _ id: ConnectionID, _ request: SubscriptionRequest, now: Instant, _ effects: inout Effects<Self>
    ) {
        do throws(SubscriptionRequest.Rejection) {
            guard let client = self.client(id, for: request) else { return }
            try self.begin(try request.validated(for: client, self.app), now: now, &effects)
        } catch {
            self.reject(error, id, request.channel, &effects)
        }
    }

    private func client(_ id: ConnectionID, for request: SubscriptionRequest) -> SubscriptionRequest.Client? {
        guard let connection = self.connections[id], case .established(let established) = connection.state else { return nil }
        return SubscriptionRequest.Client(
            connection: id, socketID: connection.socketID, isVersion2: connection.isVersion2,
            subscriptionCount: established.subscriptions.count, existing: established.subscriptions[ByteString(request.channel)],
            user: self.signIns[id]?.user)
    }

    /// Begins a subscription: asks the hook, if there is one, and otherwise joins the channel. Confirms one that exists.
    private mutating func begin(
        _ attempt: SubscriptionRequest.Attempt, now: Instant, _ effects: inout Effects<Self>
    ) throws(SubscriptionRequest.Rejection) {
        let (id, channel) = (attempt.connection, attempt.channel)
        if let existing = attempt.existing {
            if case .member = existing {} else { self.setSubscription(id, channel, attempt.filter, number: existing.number) }
            return self.confirm(id, channel, now: now, &effects)
        }
        guard self.hooks.subscriptions, let socketID = self.connections[id]?.socketID else {
            return self.join(attempt, now: now, &effects)
        }
        if self.isPendingLimitReached(id, &effects) {
            throw SubscriptionRequest.Rejection("Too many subscriptions and client events of the connection await a decision")
        }
        let work = Work.subscription(PusherSubscriptionAttempt(socketID: socketID, channel: channel.string, userID: attempt.user?.id))
        let hook = self.run(work, about: .subscription(attempt), now: now, &effects)
        self.updateEstablished(id) { established in
            established.subscriptions[channel] = .awaitingHook(hook)
            established.pendingSubscriptions += 1
        }
    }

    /// Returns a message that says why a user cannot be a member, or `nil` if it can.
    func validationError(_ user: PresenceUser, _ id: ConnectionID, _ effects: inout Effects<Self>) -> String? {
        guard let rejection = SubscriptionRequest.rejection(of: user, self.app) else { return nil }
        if let limit = rejection.limit { self.logLimit(limit, id, &effects) }
        return rejection.message
    }

    mutating func decided(
        _ decision: PusherServerDecision, aboutSubscription attempt: SubscriptionRequest.Attempt, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        self.removeSubscription(of: attempt.connection, to: attempt.channel)
        switch decision {
        case .accept: self.join(attempt, now: now, &effects)
        case .reject(let code, let message):
            var rejection = SubscriptionRequest.Rejection(message)
            rejection.code = code
            self.reject(rejection, attempt.connection, attempt.channel.string, &effects)
        }
    }

    private func reject(
        _ rejection: SubscriptionRequest.Rejection, _ id: ConnectionID, _ name: String, _ effects: inout Effects<Self>
    ) {
        guard let socketID = self.connections[id]?.socketID else { return }
        if let limit = rejection.limit { self.logLimit(limit, id, &effects) }
        let excerpt = Excerpt.of(name, limit: self.app.channelNameLimit)
        self.deliver(.subscriptionRejected(socketID: socketID, channel: excerpt, message: rejection.message), &effects)
        let (code, text) = rejection.quotation.map { (nil, $0) } ?? (rejection.code, rejection.message)
        self.send(self.subscriptionErrorFrame(code, text, channel: self.repeatable(name)), to: id, &effects)
    }

    /// Returns a channel's name for an error, or `nil` if it is too long to be one.
    func repeatable(_ name: String) -> String? { name.utf8.count <= self.app.channelNameLimit ? name : nil }

    private mutating func join(_ attempt: SubscriptionRequest.Attempt, now: Instant, _ effects: inout Effects<Self>) {
        let (id, name) = (attempt.connection, attempt.channel)
        guard let socketID = self.connections[id]?.socketID else { return }
        let number = self.nextSubscription()
        if let user = attempt.user {
            guard self.addMember(user, number, to: name, &effects) else {
                let message = "The presence channel \(name) is full: it has \(self.app.memberLimit) members"
                return self.reject(SubscriptionRequest.Rejection(message), id, name.string, &effects)
            }
        }
        self.channels[name, default: Channel()].subscribers.append(id, number: number)
        if let user = attempt.user {
            self.updateEstablished(id) { $0.subscriptions[name] = .member(user, number: number) }
        } else {
            self.setSubscription(id, name, attempt.filter, number: number)
        }
        if ChannelName.kind(of: name.string).needsAuthorization { self.endAuthorizationTimeout(of: id) }
        self.deliver(.subscribed(socketID: socketID, channel: name.string, userID: attempt.user?.id), &effects)
        self.confirm(id, name, now: now, &effects)
        self.subscriptionCountChanged(name, now: now, &effects)
    }

    /// Confirms a subscription with the members of a presence channel, and delivers the last event of a cache channel.
    private mutating func confirm(_ id: ConnectionID, _ name: ByteString, now: Instant, _ effects: inout Effects<Self>) {
        let message: TransportMessage
        switch self.connections[id]?.subscription(to: name) {
        case .member:
            let members = self.channels[name]!.users.map { (id: $0.id, info: $0.info) }
            message = PusherFrames.subscriptionSucceeded(
                name.string, members: members, listsIDs: self.profile.listsMemberIDs, hasNumericIDs: self.profile.sendsNumericUserIDs)
        case .subscribed, .filtered: message = PusherFrames.subscriptionSucceeded(name.string, as: self.profile.subscriptionData)
        case .awaitingHook, nil: return
        }
        self.send(self.positioned(message, name, for: id, now: now, &effects), to: id, &effects)
        self.sendCachedEvent(name, to: id, now: now, &effects)
    }

    /// Adds a connection of a user to a presence channel, and notifies the subscribers of a new member.
    ///
    /// - Returns: False if the channel is full.
    private mutating func addMember(
        _ user: PresenceUser, _ number: UInt64, to name: ByteString, _ effects: inout Effects<Self>
    ) -> Bool {
        let userID = ByteString(user.id)
        if self.channels[name]?.members[userID] != nil {
            self.channels[name]!.members[userID]!.connections += 1
            guard self.profile.notifiesOfEachConnection else { return true }
        } else {
            guard self.channels[name]?.members.count ?? 0 < self.app.memberLimit else { return false }
            self.channels[name, default: Channel()].members[userID] = Member(user: user, connections: 1, number: number)
        }
        let added = PusherFrames.memberAdded(
            name.string, id: user.id, info: user.info, hasNumericIDs: self.profile.sendsNumericUserIDs, as: self.profile.memberData)
        for other in self.channels[name]!.subscribers { self.send(added, to: other, &effects) }
        return true
    }

    // MARK: Unsubscribing

    private mutating func unsubscribe(_ id: ConnectionID, _ name: ByteString, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID = self.connections[id]?.socketID, let subscription = self.removeSubscription(of: id, to: name) else { return }
        self.updateEstablished(id) { $0.withDeltas { $0.remove(group: name.string) } }
        self.end(subscription, to: name, socketID, now: now, &effects)
    }

    @discardableResult
    private mutating func removeSubscription(of id: ConnectionID, to name: ByteString) -> Subscription? {
        self.updateEstablished(id) { established in
            let subscription = established.subscriptions.removeValue(forKey: name)
            if case .awaitingHook = subscription { established.pendingSubscriptions -= 1 }
            return subscription
        }
    }

    /// Ends a subscription that was removed from its connection.
    mutating func end(
        _ subscription: Subscription, to name: ByteString, _ socketID: String, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch subscription {
        case .awaitingHook(let hook): return self.decisions.cancel(hook, &effects)
        case .subscribed(let number), .filtered(_, let number): self.channels[name]?.subscribers.remove(number: number)
        case .member(let user, let number):
            self.channels[name]?.subscribers.remove(number: number)
            self.leave(name, user, &effects)
        }
        if self.channels[name]?.subscribers.isEmpty == true { self.channels[name] = nil }
        self.deliver(.unsubscribed(socketID: socketID, channel: name.string), &effects)
        self.subscriptionCountChanged(name, now: now, &effects)
    }

    private mutating func leave(_ name: ByteString, _ user: PresenceUser, _ effects: inout Effects<Self>) {
        let userID = ByteString(user.id)
        guard let connections = self.channels[name]?.members[userID]?.connections else { return }
        if connections > 1 {
            self.channels[name]!.members[userID]!.connections = connections - 1
            guard self.profile.notifiesOfEachConnection else { return }
        } else {
            self.channels[name]!.members[userID] = nil
        }
        let removed = PusherFrames.memberRemoved(
            name.string, id: user.id, info: self.profile.removalsContainUserInfo ? user.info : nil,
            hasNumericIDs: self.profile.sendsNumericUserIDs, as: self.profile.memberData)
        for other in self.channels[name]!.subscribers { self.send(removed, to: other, &effects) }
    }

    // MARK: Publishing

    /// Sends an event to the subscribers of a channel, except to the connection with the given socket ID.
    mutating func publish(
        _ event: String, to name: String, data: String, tags: EventTags? = nil, except socketID: String? = nil, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        let channel = ByteString(name)
        let subscribers = self.channels[channel]?.subscribers ?? SubscriberList()
        let isCached = self.profile.cachesEvents && ChannelName.kind(of: name).isCache
        if isCached || !subscribers.isEmpty || self.histories[channel] != nil {
            let message = PusherFrames.event(event, channel: name, data: data)
            if isCached { self.cache(message, data: data, on: channel, now: now, &effects) }
            let excluded = socketID.flatMap { self.connectionIDs[ByteString($0)] }
            self.broadcast(message, event: event, to: channel, tags: tags, except: excluded, now: now, &effects)
        }
        self.deliver(.published(channel: name, name: event, subscribers: subscribers.count), &effects)
    }
}
