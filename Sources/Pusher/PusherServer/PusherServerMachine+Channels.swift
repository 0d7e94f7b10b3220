import RealtimeJSON
import RealtimeSystem
import PusherWire
import RealtimeCore

/// Received frames, subscriptions and publishing.
extension PusherServerMachine {
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        switch self.connections[id]?.state {
        case .rejected, nil: return
        case .opening, .awaitingHook:
            effects.counters.messagesIgnored += batch.entries.count
            return
        case .established: break
        }
        self.resetHeartbeat(id, now: now)
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries where entry.kind == .text {
                self.received(UnsafeRawBufferPointer(rebasing: bytes[entry.range]), from: id, now: now, &effects)
            }
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
        case ClientRequest.subscribe: try self.subscribe(id, try frame.dataValue(), now: now, &effects)
        case ClientRequest.unsubscribe:
            guard let name = try frame.dataValue()["channel"]?.string else { throw .missing("channel") }
            self.unsubscribe(id, ByteString(name), now: now, &effects)
        case ClientRequest.signIn where self.profile.allowsSignIn: try self.signIn(id, try frame.dataValue(), &effects)
        case ClientRequest.resume where self.allowsRecovery: try self.resume(id, try frame.dataValue(), &effects)
        case ClientRequest.enableDeltaCompression where self.app.allowsDeltaCompression: self.enableDeltaCompression(id, &effects)
        case ClientRequest.deltaSyncError where self.app.allowsDeltaCompression:
            guard let name = try frame.dataValue()["channel"]?.string else { throw .missing("channel") }
            self.connections[id]?.established?.withDeltas { $0.remove(group: name) }
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
        _ id: ConnectionID, _ data: JSONValue, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) {
        guard let socketID = self.connections[id]?.socketID else { return }
        guard let name = data["channel"]?.string else { throw .missing("channel") }
        func reject(_ code: Int?, _ message: String) { self.rejectSubscription(id, name, code, message, &effects) }
        if let message = ChannelName.validationError(name, limit: self.app.channelNameLimit, allowsUsers: true) {
            if self.repeatable(name) == nil { self.logLimit("\(self.app.channelNameLimit) bytes of a channel's name", id, &effects) }
            return reject(nil, message)
        }
        let channel = ByteString(name)
        let existing = self.connections[id]?.established?.subscriptions[channel]
        // With version 2, another subscription replaces the filter, as sockudo does it.
        let isVersion2 = self.connections[id]?.isVersion2 == true
        switch existing {
        case .subscribed, .filtered, .member:
            guard self.profile.confirmsRepeatedSubscriptions || isVersion2 else { fallthrough }
        case .awaitingHook: return reject(nil, "Existing subscription to channel \(name)")
        case nil: break
        }
        guard existing != nil || self.connections[id]?.established?.subscriptions.count ?? 0 < self.app.channelLimit else {
            self.logLimit("\(self.app.channelLimit) channels", id, &effects)
            return reject(nil, "The connection has \(self.app.channelLimit) channels, which is the limit; unsubscribe from one first")
        }
        let kind = ChannelName.kind(of: name)
        var user: PresenceUser?
        if kind.needsAuthorization {
            let channelData = kind.isPresence ? data["channel_data"]?.string : nil
            let expected = ChannelSignature.token(
                key: self.app.key, secret: self.app.secret, socketID: socketID, channel: name, channelData: channelData)
            let auth = data["auth"]?.string
            guard let auth, ChannelSignature.isEqual(auth, expected) else {
                let signed = "\(socketID):\(name)" + (channelData.map { ":\($0)" } ?? "")
                let quotation =
                    self.profile.quotesSignatures
                    ? "Invalid signature: Expected HMAC SHA256 hex digest of \(signed), but got \(auth ?? "")" : nil
                let purpose = self.profile.errorsNameChannel ? " to subscribe to \(name)" : ""
                let message = "The connection is not authorized\(purpose): missing or invalid signature"
                return self.rejectSubscription(id, name, Int(PusherCloseCode.unauthorized.rawValue), message, quoting: quotation, &effects)
            }
            if kind.isPresence, channelData == nil, let signIn = self.signIns[id] {
                user = signIn.user
            } else if kind.isPresence {
                guard let channelData, let json = try? JSONValue(parsing: channelData), let signedUser = try? PresenceUser(json) else {
                    return reject(nil, "Presence channels require channel_data with a user_id")
                }
                if let message = self.validationError(signedUser, id, &effects) { return reject(nil, message) }
                user = signedUser
            }
        }
        if let userID = UserID.user(ofChannel: name), self.signIns[id]?.userID != ByteString(userID) {
            let code = Int(PusherCloseCode.unauthorized.rawValue)
            return reject(code, "The connection is not signed in as \(userID), so it cannot subscribe to the user's events")
        }
        var filter: PusherFilter?
        if isVersion2, let json = data["filter"] ?? data["tags_filter"], json != .null {
            guard self.app.allowsFilters else { return reject(nil, "Filters are not enabled") }
            guard !kind.isPresence else { return reject(nil, "Presence channels have no filters") }
            do throws(PusherFilter.Invalid) {
                filter = try PusherFilter(json)
            } catch {
                return reject(nil, "Invalid tags filter: \(error.message)")
            }
        }
        if let existing {
            if case .member = existing {} else { self.setSubscription(id, channel, filter, number: existing.number) }
            return self.confirm(id, channel, now: now, &effects)
        }
        let attempt = SubscriptionAttempt(connection: id, channel: channel, user: user, filter: filter)
        guard self.hooks.subscriptions else { return self.join(attempt, now: now, &effects) }
        if self.isPendingLimitReached(id, &effects) {
            return reject(nil, "Too many subscriptions and client events of the connection await a decision")
        }
        let work = Work.subscription(PusherSubscriptionAttempt(socketID: socketID, channel: name, userID: user?.id))
        let hook = self.run(work, for: .subscription(attempt), now: now, &effects)
        self.connections[id]!.established?.subscriptions[channel] = .awaitingHook(hook)
        self.connections[id]!.established?.pendingSubscriptions += 1
    }

    /// Returns a message that says why a user cannot be a member, or `nil` if it can.
    func validationError(_ user: PresenceUser, _ id: ConnectionID, _ effects: inout Effects<Self>) -> String? {
        // Most IDs are so short that their characters need not be counted.
        if user.id.utf8.count > self.app.userIDLimit, user.id.unicodeScalars.count > self.app.userIDLimit {
            self.logLimit("\(self.app.userIDLimit) characters of a user ID", id, &effects)
            return "The user_id has \(user.id.unicodeScalars.count) characters; it can have at most \(self.app.userIDLimit)"
        }
        guard let info = user.info else { return nil }
        var json = JSONWriter()
        json.value(info)
        guard json.bytes.count > self.app.userInfoLimit else { return nil }
        self.logLimit("\(self.app.userInfoLimit) bytes of a user_info", id, &effects)
        return "The user_info has \(json.bytes.count) bytes; it can have at most \(self.app.userInfoLimit)"
    }

    mutating func decided(
        _ decision: PusherServerDecision, aboutSubscription attempt: SubscriptionAttempt, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.removeSubscription(of: attempt.connection, to: attempt.channel)
        switch decision {
        case .accept: self.join(attempt, now: now, &effects)
        case .reject(let code, let message):
            self.rejectSubscription(attempt.connection, attempt.channel.string, code, message, &effects)
        }
    }

    /// - Parameter quotation: A message about an invalid signature that repeats it, for a profile that does so.
    private func rejectSubscription(
        _ id: ConnectionID, _ name: String, _ code: Int?, _ message: String, quoting quotation: String? = nil,
        _ effects: inout Effects<Self>
    ) {
        guard let socketID = self.connections[id]?.socketID else { return }
        let excerpt = Excerpt.of(name, limit: self.app.channelNameLimit)
        self.deliver(.subscriptionRejected(socketID: socketID, channel: excerpt, message: message), &effects)
        let (code, text) = quotation.map { (nil, $0) } ?? (code, message)
        self.send(self.subscriptionErrorFrame(code, text, channel: self.repeatable(name)), to: id, &effects)
    }

    /// Returns a channel's name for an error, or `nil` if it is too long to be one.
    func repeatable(_ name: String) -> String? { name.utf8.count <= self.app.channelNameLimit ? name : nil }

    private mutating func join(_ attempt: SubscriptionAttempt, now: Instant, _ effects: inout Effects<Self>) {
        let (id, name) = (attempt.connection, attempt.channel)
        guard let socketID = self.connections[id]?.socketID else { return }
        let number = self.nextSubscription()
        if let user = attempt.user {
            guard self.addMember(user, number, to: name, &effects) else {
                let message = "The presence channel \(name) is full: it has \(self.app.memberLimit) members"
                return self.rejectSubscription(id, name.string, nil, message, &effects)
            }
        }
        self.channels[name, default: Channel()].subscribers.append(id, number: number)
        if let user = attempt.user {
            self.connections[id]!.established?.subscriptions[name] = .member(user, number: number)
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
        let message: WebSocketMessage
        switch self.connections[id]?.established?.subscriptions[name] {
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
        guard let subscription = self.removeSubscription(of: id, to: name) else { return }
        self.connections[id]!.established?.withDeltas { $0.remove(group: name.string) }
        self.end(subscription, to: name, self.connections[id]!.socketID, now: now, &effects)
    }

    @discardableResult
    private mutating func removeSubscription(of id: ConnectionID, to name: ByteString) -> Subscription? {
        let subscription = self.connections[id]?.established?.subscriptions.removeValue(forKey: name)
        if case .awaitingHook = subscription { self.connections[id]!.established?.pendingSubscriptions -= 1 }
        return subscription
    }

    /// Ends a subscription that was removed from its connection.
    mutating func end(
        _ subscription: Subscription, to name: ByteString, _ socketID: String, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch subscription {
        case .awaitingHook(let hook): return self.cancel(hook, &effects)
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
