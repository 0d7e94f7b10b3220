import RealtimeJSON
import PusherWire
import RealtimeCore

/// What the server sends.
extension PusherSession {
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.received(id, now: now) else { return }
        var texts = EventTextWriter(atMost: batch.bytes.count)
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries {
                switch entry.kind {
                case .text:
                    let text = UnsafeRawBufferPointer(rebasing: bytes[entry.range])
                    guard self.received(text, on: id, now: now, &texts, &effects) else { return }
                // The protocol has no binary messages: a receiver ignores them.
                case .binary: effects.counters.messagesIgnored += 1
                case .ping, .pong: break
                }
            }
        }
    }

    /// False: the connection was given up for it, and what follows on it is not read.
    private mutating func received(
        _ text: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant, _ texts: inout EventTextWriter, _ effects: inout Effects<Self>
    ) -> Bool {
        do throws(PusherFrameError) {
            let frame = try PusherFrame(scanning: text)
            if frame.isReserved {
                try self.received(reserved: frame, on: id, now: now, &texts, &effects)
            } else {
                self.deliver(frame, &texts, &effects)
            }
            return true
        } catch {
            effects.counters.messagesIgnored += 1
            let what = "The server sent a frame of \(text.count) bytes that was dropped: \(error)."
            effects.log(.warning, what)
            self.tell(.error(PusherError(.invalidFrame, what)), self.errorRoute, &effects)
            return self.connection.current == id
        }
    }

    /// The hot path: an event on a channel.
    private mutating func deliver(_ frame: PusherFrame, _ texts: inout EventTextWriter, _ effects: inout Effects<Self>) {
        guard let place = self.place(of: frame) else {
            if frame.channel.kind.isString {
                // An event that was under way when its channel was left is no fault.
                effects.counters.messagesIgnored += 1
            } else if let globalEvents, !globalEvents.isEmpty {
                let name = frame.eventName
                self.deliver(.event(Self.event(name, nil, frame, &texts)), globalEvents.route(name), &effects)
            }
            return
        }
        let isWanted = !self.routes.isEmpty(place.route)
        guard isWanted || place.globalRoute != nil else { return }
        let event = Self.event(place.name, place.channel, frame, &texts)
        guard let globalRoute = place.globalRoute else { return self.deliver(.event(event), place.route, &effects) }
        if isWanted { self.deliver(.event(event), place.route, &effects) }
        self.deliver(.event(event), globalRoute, &effects)
    }

    private static func event(_ name: String, _ channel: String?, _ frame: PusherFrame, _ texts: inout EventTextWriter) -> PusherEvent {
        let raw = frame.dataRaw
        return PusherEvent(
            name: name, channel: channel, userID: frame.userID.kind == .missing ? nil : frame.user, data: raw.map { texts.add($0) },
            count: raw?.count ?? 0, isEscaped: frame.dataIsEscaped)
    }

    /// Where an event on a channel goes. Events come in runs, and two comparisons are cheaper than two look-ups and two strings.
    private mutating func place(of frame: PusherFrame) -> EventPlace? {
        if let last = self.lastPlace, frame.isEvent(last.name), frame.isChannel(last.channel) { return last }
        guard let channel = frame.channelName, let index = self.indices[channel] else { return nil }
        let name = frame.eventName
        // Through `!` and a mutating call, or the whole record would be copied.
        let route = self.channels[index]!.events.find(name)
        let globalRoute = self.globalEvents.flatMap { $0.isEmpty ? nil : $0.route(name) }
        let place = EventPlace(name: name, channel: channel, route: route, globalRoute: globalRoute)
        self.lastPlace = place
        return place
    }

    private mutating func received(
        reserved frame: PusherFrame, on id: ConnectionID, now: Instant, _ texts: inout EventTextWriter, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) {
        switch frame.eventName {
        case EventName.connectionEstablished:
            do throws(PusherFrameError) {
                try self.established(id, try frame.dataValue(), now: now, &effects)
            } catch {
                guard self.connection.connected != id else { throw error }
                // Without a socket ID this connection is of no use: another attempt may do better.
                effects.commands.append(.abandon(id))
                self.closed(
                    id, .transport(TransportError(.protocolViolation, "The server's greeting cannot be used: \(error).")), now: now,
                    &effects)
                throw error
            }
        case EventName.ping:
            effects.commands.append(.send(id, PusherFrames.pong))
        case EventName.pong:
            if let pingedAt { effects.counters.lastRoundTrip = pingedAt.duration(to: now) }
            self.pingedAt = nil
        case EventName.error:
            self.serverReported(ServerError(frame), channel: frame.channelName, now: now, &effects)
        case EventName.subscriptionSucceeded:
            guard let index = try self.channel(frame, &effects) else { return }
            try self.subscriptionSucceeded(index, frame, on: id, now: now, &effects)
        case EventName.subscriptionError, EventName.internalSubscriptionError:
            guard let index = try self.channel(frame, &effects) else { return }
            let data = (try? frame.dataValue()) ?? .null
            let words = self.redacted(data["error"]?.string ?? data["message"]?.string ?? "no reason was given")
            self.subscriptionFailed(
                index,
                PusherError(
                    .subscriptionRefused, "The service refused the subscription to \(self.name(index)): \(words).",
                    serverCode: data["code"]?.int, status: data["status"]?.int), now: now, &effects)
        case EventName.memberAdded:
            guard let index = try self.presenceChannel(frame, &effects) else { return }
            let user = try PresenceUser(try frame.dataValue())
            self.memberAdded(index, PusherMember(id: user.id, info: user.info), &effects)
        case EventName.memberRemoved:
            guard let index = try self.presenceChannel(frame, &effects) else { return }
            self.memberRemoved(index, id: try PresenceUser(try frame.dataValue()).id, &effects)
        case let name where name.hasPrefix("pusher:"):
            // Events of the service that are for users, such as pusher:cache_miss.
            self.deliver(frame, &texts, &effects)
        default:
            effects.counters.messagesIgnored += 1
        }
    }

    /// The channel that a frame is about; `nil` when nobody asked for it, or nobody wants it any more.
    private mutating func channel(_ frame: PusherFrame, _ effects: inout Effects<Self>) throws(PusherFrameError) -> Int? {
        guard let name = frame.channelName else { throw .missing("channel") }
        if let index = self.indices[name], self.channels[index]?.machine.isAsked == true { return index }
        effects.counters.messagesIgnored += 1
        return nil
    }

    /// The same for news of members. Those that come before the list of members are in it.
    private mutating func presenceChannel(_ frame: PusherFrame, _ effects: inout Effects<Self>) throws(PusherFrameError) -> Int? {
        guard let index = try self.channel(frame, &effects) else { return nil }
        if let record = self.channels[index], record.kind == .presence, record.machine.publicState == .subscribed { return index }
        effects.counters.messagesIgnored += 1
        return nil
    }

    private mutating func serverReported(_ server: ServerError, channel: String?, now: Instant, _ effects: inout Effects<Self>) {
        var server = server
        server.message = self.redacted(server.message)
        let error = PusherError(.server, "The service reported an error: \(server.message)", serverCode: server.code)
        effects.log(.warning, error.message)
        self.tell(.error(error), self.errorRoute, &effects)
        // It does not say for which subscription it is meant, so it is given to the one it names, or to the only one
        // that waits for an answer with a signature.
        if server.text.hasPrefix("Existing subscription") { return }
        let waiting = self.channels.indices.filter { index in
            guard let record = self.channels[index], case .subscribing = record.machine.state else { return false }
            return true
        }
        let signed = waiting.filter { self.channels[$0]?.kind.needsAuthorization == true }
        // A public channel may be called "the".
        let named = waiting.first { self.name($0) == channel } ?? signed.first { ChannelName.isNamed(self.name($0), in: server.text) }
        let only = signed.count == 1 && (server.code == nil || server.code == 4009) ? signed.first : nil
        guard let index = named ?? only else {
            // What is said of no subscription may be why the connection ends.
            self.lastServerError = (server, now)
            return
        }
        let refused = "The service refused the subscription to \(self.name(index)): \(server.message)"
        self.subscriptionFailed(index, PusherError(.subscriptionRefused, refused, serverCode: server.code), now: now, &effects)
    }
}
