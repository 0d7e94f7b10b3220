import RealtimeJSON
import PusherWire
import RealtimeCore

/// What clients ask for: channels, and events to each other.
extension PusherServerMachine {
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id], !connection.isRefused else { return }
        guard connection.isGreeted else {
            // It speaks before it knows whether it may.
            effects.counters.messagesIgnored += batch.entries.count
            return
        }
        self.connections[id]!.lastReceived = now
        self.connections[id]!.pingedAt = nil
        if self.isSilent(id) { return }
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries where entry.kind == .text {
                self.received(UnsafeRawBufferPointer(rebasing: bytes[entry.range]), from: id, now: now, &effects)
            }
        }
    }

    private mutating func received(_ text: UnsafeRawBufferPointer, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID = self.connections[id]?.socketID else { return }
        if !self.listening.isEmpty { self.deliver(.received(socketID: socketID, frame: String(decoding: text, as: UTF8.self)), &effects) }
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
            default: self.complain(id, nil, "Event \(frame.eventName.prefix(80)) is not one that clients send", now: now, &effects)
            }
        } catch {
            effects.counters.messagesIgnored += 1
            self.complain(id, 4200, "Invalid message format: \(error)", now: now, &effects)
        }
    }

    mutating func complain(
        _ id: ConnectionID, _ code: Int?, _ why: String, channel: String? = nil, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.send(PusherFrames.error(code, why, channel: channel), to: id, now: now, &effects)
    }

    // MARK: Channels

    private mutating func subscribe(
        _ id: ConnectionID, _ data: JSONValue, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) {
        guard let connection = self.connections[id] else { return }
        guard let name = data["channel"]?.string else { throw .missing("channel") }
        func refuse(_ code: Int?, _ why: String) {
            self.deliver(.refused(socketID: connection.socketID, channel: name, why: why), &effects)
            self.complain(id, code, why, channel: name, now: now, &effects)
        }
        if let problem = ChannelName.problem(name) { return refuse(nil, problem) }
        if connection.channels.contains(name) || connection.pending[name] != nil {
            return refuse(nil, "Existing subscription to channel \(name)")
        }
        let kind = ChannelName.kind(of: name)
        var user: PresenceUser?
        if kind.needsAuthorization {
            let channelData = data["channel_data"]?.string
            let expected = ChannelSignature.token(
                key: self.app.key, secret: self.app.secret, socketID: connection.socketID, channel: name,
                channelData: kind == .presence ? channelData : nil)
            guard let auth = data["auth"]?.string, ChannelSignature.isEqual(auth, expected) else {
                return refuse(4009, "The connection is not authorised for \(name): the signature is missing or wrong")
            }
            if kind == .presence {
                guard let channelData, let json = try? JSONValue(parsing: channelData), let known = try? PresenceUser(json) else {
                    return refuse(nil, "Presence channels need channel_data with a user_id")
                }
                user = known
            }
        }
        let attempt = Attempt(connection: id, channel: name, user: user)
        guard self.questions.subscriptions else { return self.admit(attempt, now: now, &effects) }
        let question = PusherSubscriptionAttempt(socketID: connection.socketID, channel: name, userID: user?.id)
        self.connections[id]!.pending[name] = self.ask(.subscription(question), .subscription(attempt), &effects)
    }

    mutating func admit(_ attempt: Attempt, now: Instant, _ effects: inout Effects<Self>) {
        let (id, name) = (attempt.connection, attempt.channel)
        guard let socketID = self.connections[id]?.socketID else { return }
        var channel = self.channels[name] ?? PusherChannel()
        if let user = attempt.user {
            if let index = channel.users.firstIndex(where: { $0.user.id == user.id }) {
                channel.users[index].connections += 1
            } else {
                guard channel.users.count < self.app.memberLimit else {
                    let why = "The presence channel \(name) is full: it has \(self.app.memberLimit) members"
                    self.deliver(.refused(socketID: socketID, channel: name, why: why), &effects)
                    return self.complain(id, nil, why, channel: name, now: now, &effects)
                }
                channel.users.append((user, 1))
                let announcement = PusherFrames.memberAdded(name, id: user.id, info: user.info)
                for other in channel.subscribers { self.send(announcement, to: other, now: now, &effects) }
            }
            self.connections[id]!.users[name] = user
        }
        channel.subscribers.append(id)
        self.channels[name] = channel
        self.connections[id]!.channels.insert(name)
        if attempt.user != nil {
            let members = channel.users.map { (id: $0.user.id, info: $0.user.info) }
            self.send(PusherFrames.subscriptionSucceeded(name, members: members), to: id, now: now, &effects)
        } else {
            self.send(PusherFrames.subscriptionSucceeded(name), to: id, now: now, &effects)
        }
        self.deliver(.subscribed(socketID: socketID, channel: name, userID: attempt.user?.id), &effects)
    }

    private mutating func unsubscribe(_ id: ConnectionID, _ name: String, now: Instant, _ effects: inout Effects<Self>) {
        if let work = self.connections[id]?.pending.removeValue(forKey: name) {
            self.withdraw(work, &effects)
        }
        guard let connection = self.connections[id], self.connections[id]!.channels.remove(name) != nil else { return }
        self.connections[id]!.users[name] = nil
        self.leave(name, id, connection, now: now, &effects)
    }

    mutating func leave(_ name: String, _ id: ConnectionID, _ connection: Connection, now: Instant, _ effects: inout Effects<Self>) {
        guard var channel = self.channels[name] else { return }
        channel.subscribers.removeAll { $0 == id }
        if let user = connection.users[name], let index = channel.users.firstIndex(where: { $0.user.id == user.id }) {
            channel.users[index].connections -= 1
            if channel.users[index].connections == 0 {
                channel.users.remove(at: index)
                let announcement = PusherFrames.memberRemoved(name, id: user.id)
                for other in channel.subscribers { self.send(announcement, to: other, now: now, &effects) }
            }
        }
        self.channels[name] = channel.subscribers.isEmpty ? nil : channel
        self.deliver(.unsubscribed(socketID: connection.socketID, channel: name), &effects)
    }

    private mutating func clientEvent(
        _ id: ConnectionID, _ event: String, _ frame: PusherFrame, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connections[id] else { return }
        let code = Int(PusherCloseCode.clientEventRejected.rawValue)
        guard self.app.allowsClientEvents else {
            return self.complain(id, code, "The app does not have client messaging enabled.", now: now, &effects)
        }
        guard let name = frame.channelName else { return self.complain(id, code, "A client event needs a channel", now: now, &effects) }
        func reject(_ why: String) { self.complain(id, code, why, channel: name, now: now, &effects) }
        guard ChannelName.kind(of: name).allowsClientEvents else { return reject("Client events are for private and presence channels") }
        guard connection.channels.contains(name) else {
            return reject("Client event rejected: the connection is not subscribed to \(name)")
        }
        if let problem = EventName.problem(event) { return reject(problem) }
        // An escape has up to six bytes for one.
        guard frame.data.length <= 6 * EventName.maximumDataSize, frame.dataBytes.count <= EventName.maximumDataSize else {
            return reject("The data of a client event has at most \(EventName.maximumDataSize) bytes")
        }
        let second = now.nanoseconds / 1_000_000_000
        let count = connection.clientEvents.second == second ? connection.clientEvents.count : 0
        guard count < self.app.clientEventsPerSecond else {
            return reject("The rate limit for sending client events exceeded the quota.")
        }
        self.connections[id]!.clientEvents = (second, count + 1)
        let attempt = PusherClientEventAttempt(socketID: connection.socketID, channel: name, name: event, data: frame.dataText ?? "")
        guard self.questions.clientEvents else { return self.pass(attempt, from: id, now: now, &effects) }
        self.connections[id]!.clientEventsToAsk.append(attempt)
        self.askAboutClientEvent(of: id, &effects)
    }

    mutating func pass(_ event: PusherClientEventAttempt, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        // It may have left while somebody was asked.
        guard let connection = self.connections[id], connection.channels.contains(event.channel) else { return }
        let userID = connection.users[event.channel]?.id
        let message = PusherFrames.event(event.name, channel: event.channel, data: event.data, userID: userID)
        for other in self.channels[event.channel]?.subscribers ?? [] where other != id { self.send(message, to: other, now: now, &effects) }
        self.deliver(.clientEvent(socketID: event.socketID, channel: event.channel, name: event.name, data: event.data), &effects)
    }

    /// An event for everybody on the channel, apart from one connection.
    mutating func publish(
        _ event: String, to name: String, data: String, except socketID: String? = nil, now: Instant, _ effects: inout Effects<Self>
    ) {
        let subscribers = self.channels[name]?.subscribers ?? []
        if !subscribers.isEmpty {
            let message = PusherFrames.event(event, channel: name, data: data)
            let excluded = socketID.flatMap { self.bySocketID[$0] }
            for subscriber in subscribers where subscriber != excluded { self.send(message, to: subscriber, now: now, &effects) }
        }
        self.deliver(.published(channel: name, name: event, subscribers: subscribers.count), &effects)
    }

}
