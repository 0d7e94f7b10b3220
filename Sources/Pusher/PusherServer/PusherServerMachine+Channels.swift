import RealtimeJSON
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
        if self.isSilent(id) { return }
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries where entry.kind == .text {
                self.received(UnsafeRawBufferPointer(rebasing: bytes[entry.range]), from: id, now: now, &effects)
            }
        }
    }

    private mutating func received(_ text: UnsafeRawBufferPointer, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID = self.connections[id]?.socketID else { return }
        if !effects.routes.isEmpty(self.eventRoute) { self.deliver(.received(socketID: socketID, frame: String(decoding: text, as: UTF8.self)), &effects) }
        do throws(PusherFrameError) {
            let frame = try PusherFrame(scanning: text)
            switch frame.eventName {
            case EventName.ping: self.send(PusherFrames.pong, to: id, now: now, &effects)
            case EventName.pong: break
            case EventName.subscribe: try self.subscribe(id, try frame.dataValue(), now: now, &effects)
            case EventName.unsubscribe:
                guard let name = try frame.dataValue()["channel"]?.string else { throw .missing("channel") }
                self.unsubscribe(id, name, now: now, &effects)
            case let name where EventName.isClientEvent(name): self.clientEvent(id, name, frame, now: now, &effects)
            case let name: self.sendError(nil, "Clients cannot send the event \(name.prefix(80))", to: id, now: now, &effects)
            }
        } catch {
            effects.counters.messagesIgnored += 1
            self.sendError(4200, "Invalid message format: \(error)", to: id, now: now, &effects)
        }
    }

    // MARK: Subscribing

    private mutating func subscribe(
        _ id: ConnectionID, _ data: JSONValue, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) {
        guard let connection = self.connections[id] else { return }
        guard let name = data["channel"]?.string else { throw .missing("channel") }
        func reject(_ code: Int?, _ message: String) { self.rejectSubscription(id, name, code, message, now: now, &effects) }
        if let message = ChannelName.validationError(name) { return reject(nil, message) }
        guard connection.established?.subscriptions[name] == nil else { return reject(nil, "Existing subscription to channel \(name)") }
        let kind = ChannelName.kind(of: name)
        var user: PresenceUser?
        if kind.needsAuthorization {
            let channelData = data["channel_data"]?.string
            let expected = ChannelSignature.token(
                key: self.app.key, secret: self.app.secret, socketID: connection.socketID, channel: name,
                channelData: kind == .presence ? channelData : nil)
            guard let auth = data["auth"]?.string, ChannelSignature.isEqual(auth, expected) else {
                let code = Int(PusherCloseCode.unauthorized.rawValue)
                return reject(code, "The connection is not authorized to subscribe to \(name): missing or invalid signature")
            }
            if kind == .presence {
                guard let channelData, let json = try? JSONValue(parsing: channelData), let signedUser = try? PresenceUser(json) else {
                    return reject(nil, "Presence channels require channel_data with a user_id")
                }
                user = signedUser
            }
        }
        let attempt = SubscriptionAttempt(connection: id, channel: name, user: user)
        guard self.hooks.subscriptions else { return self.join(attempt, now: now, &effects) }
        let work = Work.subscription(PusherSubscriptionAttempt(socketID: connection.socketID, channel: name, userID: user?.id))
        let hook = self.run(work, for: .subscription(attempt), &effects)
        self.connections[id]!.established?.subscriptions[name] = .awaitingHook(hook)
    }

    mutating func decided(
        _ decision: PusherServerDecision, aboutSubscription attempt: SubscriptionAttempt, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.connections[attempt.connection]?.established?.subscriptions[attempt.channel] = nil
        switch decision {
        case .accept: self.join(attempt, now: now, &effects)
        case .reject(let code, let message):
            self.rejectSubscription(attempt.connection, attempt.channel, code, message, now: now, &effects)
        }
    }

    private mutating func rejectSubscription(
        _ id: ConnectionID, _ name: String, _ code: Int?, _ message: String, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let socketID = self.connections[id]?.socketID else { return }
        self.deliver(.subscriptionRejected(socketID: socketID, channel: name, message: message), &effects)
        self.sendError(code, message, channel: name, to: id, now: now, &effects)
    }

    private mutating func join(_ attempt: SubscriptionAttempt, now: Instant, _ effects: inout Effects<Self>) {
        let (id, name) = (attempt.connection, attempt.channel)
        guard let socketID = self.connections[id]?.socketID else { return }
        var channel = self.channels[name] ?? Channel()
        if let user = attempt.user {
            if let index = channel.members.firstIndex(where: { $0.user.id == user.id }) {
                channel.members[index].connections += 1
            } else {
                guard channel.members.count < self.app.memberLimit else {
                    let message = "The presence channel \(name) is full: it has \(self.app.memberLimit) members"
                    return self.rejectSubscription(id, name, nil, message, now: now, &effects)
                }
                channel.members.append((user, 1))
                let added = PusherFrames.memberAdded(name, id: user.id, info: user.info)
                for other in channel.subscribers { self.send(added, to: other, now: now, &effects) }
            }
        }
        channel.subscribers.append(id)
        self.channels[name] = channel
        self.connections[id]!.established?.subscriptions[name] = attempt.user.map { .member($0) } ?? .subscribed
        if attempt.user != nil {
            let members = channel.members.map { (id: $0.user.id, info: $0.user.info) }
            self.send(PusherFrames.subscriptionSucceeded(name, members: members), to: id, now: now, &effects)
        } else {
            self.send(PusherFrames.subscriptionSucceeded(name), to: id, now: now, &effects)
        }
        self.deliver(.subscribed(socketID: socketID, channel: name, userID: attempt.user?.id), &effects)
    }

    // MARK: Unsubscribing

    private mutating func unsubscribe(_ id: ConnectionID, _ name: String, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID = self.connections[id]?.socketID,
            let subscription = self.connections[id]!.established?.subscriptions.removeValue(forKey: name)
        else { return }
        self.end(subscription, to: name, of: id, socketID, now: now, &effects)
    }

    /// Ends a subscription that was removed from its connection.
    mutating func end(
        _ subscription: Subscription, to name: String, of id: ConnectionID, _ socketID: String, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch subscription {
        case .awaitingHook(let hook): return self.cancel(hook, &effects)
        case .subscribed: self.channels[name]?.subscribers.removeAll { $0 == id }
        case .member(let user):
            self.channels[name]?.subscribers.removeAll { $0 == id }
            self.leave(name, user, now: now, &effects)
        }
        if self.channels[name]?.subscribers.isEmpty == true { self.channels[name] = nil }
        self.deliver(.unsubscribed(socketID: socketID, channel: name), &effects)
    }

    private mutating func leave(_ name: String, _ user: PresenceUser, now: Instant, _ effects: inout Effects<Self>) {
        guard let index = self.channels[name]?.members.firstIndex(where: { $0.user.id == user.id }) else { return }
        self.channels[name]!.members[index].connections -= 1
        guard self.channels[name]!.members[index].connections == 0 else { return }
        self.channels[name]!.members.remove(at: index)
        let removed = PusherFrames.memberRemoved(name, id: user.id)
        for other in self.channels[name]!.subscribers { self.send(removed, to: other, now: now, &effects) }
    }

    // MARK: Publishing

    /// Sends an event to the subscribers of a channel, except to the connection with the given socket ID.
    mutating func publish(
        _ event: String, to name: String, data: String, except socketID: String? = nil, now: Instant, _ effects: inout Effects<Self>
    ) {
        let subscribers = self.channels[name]?.subscribers ?? []
        if !subscribers.isEmpty {
            let message = PusherFrames.event(event, channel: name, data: data)
            let excluded = socketID.flatMap { self.connectionIDs[$0] }
            for subscriber in subscribers where subscriber != excluded { self.send(message, to: subscriber, now: now, &effects) }
        }
        self.deliver(.published(channel: name, name: event, subscribers: subscribers.count), &effects)
    }
}
