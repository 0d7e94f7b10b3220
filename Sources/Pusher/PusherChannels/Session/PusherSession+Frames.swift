import RealtimeJSON
import RealtimeSystem
import PusherWire
import RealtimeCore

/// The frames that the server sends.
extension PusherSession {
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.received(id, now: now) else { return }
        self.receivedAt = now
        var writer = EventWriter(atMost: batch.bytes.count)
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries {
                switch entry.kind {
                case .text:
                    let text = UnsafeRawBufferPointer(rebasing: bytes[entry.range])
                    guard self.received(text, on: id, now: now, &writer, &effects) else { return }
                // The protocol has no binary messages.
                case .binary: effects.counters.messagesIgnored += 1
                case .ping, .pong: break
                }
            }
        }
    }

    /// - Parameter isRestored: Whether the text is the result of a delta.
    /// - Returns: `false` if the connection was abandoned because of the frame. The messages that follow are ignored.
    private mutating func received(
        _ text: UnsafeRawBufferPointer, isRestored: Bool = false, on id: ConnectionID, now: Instant, _ writer: inout EventWriter,
        _ effects: inout Effects<Self>
    ) -> Bool {
        if self.clientRoutes.hasFrameConsumers, !isRestored { self.traceReceived(text, &effects) }
        do throws(PusherFrameError) {
            let frame = try PusherFrame(scanning: text)
            guard !self.usesVersion2 else {
                if self.deltaSupport == .on, !isRestored {
                    if frame.isEvent("sockudo:delta") || frame.isEvent(EventName.delta) {
                        return try self.received(delta: frame, on: id, now: now, &effects)
                    }
                    self.keepBase(frame)
                }
                if frame.isReservedInVersion2 { return try self.received(reserved: frame, on: id, now: now, &writer, &effects) }
                if self.recoversEvents {
                    self.receivedRecoverable(frame, now: now, &writer, &effects)
                } else {
                    self.deliver(frame, now: now, &writer, &effects)
                }
                return true
            }
            guard frame.isReserved else {
                self.deliver(frame, now: now, &writer, &effects)
                return true
            }
            return try self.received(reserved: frame, on: id, now: now, &writer, &effects)
        } catch {
            effects.counters.messagesIgnored += 1
            let message = "The server sent an invalid frame of \(text.count) bytes, which was dropped: \(error)."
            effects.log(.warning, message)
            self.publish(.error(PusherError(.invalidFrame, message)), to: self.clientRoutes.errors, &effects)
            return true
        }
    }

    /// Handles an event that arrives as a delta, like the complete event.
    ///
    /// - Returns: `false` if the connection was abandoned because of the frame.
    private mutating func received(
        delta frame: PusherFrame, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) -> Bool {
        guard let text = try self.restored(frame, on: id, now: now, &effects) else { return self.connection.connected == id }
        var writer = EventWriter(atMost: text.count)
        return text.withUnsafeBytes { self.received($0, isRestored: true, on: id, now: now, &writer, &effects) }
    }

    // MARK: Events

    /// Delivers an event to the consumers of its channel and of all channels. This is the path of most frames.
    mutating func deliver(
        _ frame: PusherFrame, now: Instant, _ writer: inout EventWriter, _ effects: inout Effects<Self>
    ) {
        if !self.isCached(frame), !self.cacheRoute(of: frame) {
            if self.isUserChannel(frame) {
                self.deliverToUser(frame, &writer, &effects)
            } else if let id = frame.channelName.flatMap({ self.channels.id(named: $0) }) {
                self.deliverUncached(id, frame, now: now, &writer, &effects)
            } else if frame.channel.kind.isString {
                // Valid: events may arrive after the client has unsubscribed.
                effects.counters.messagesIgnored += 1
            } else if self.watchlistEvent(frame, &effects) {
                return
            } else if let routes = self.clientRoutes.events {
                let name = frame.eventName
                effects.deliver(.event(writer.event(EventNames(name, channel: nil), frame)), on: routes.route(name))
            }
            return
        }
        guard let (event, route, clientRoute) = self.cachedEvent(frame, &writer, effects.routes) else { return }
        guard clientRoute != EventRoutes.none else { return effects.deliver(.event(event), on: route) }
        effects.deliver(.event(event), on: route)
        effects.deliver(.event(event), on: clientRoute)
    }

    /// Whether the cached route is the event's. Consecutive events often have the same name and channel: comparing with the last ones
    /// avoids two lookups and two strings.
    private func isCached(_ frame: PusherFrame) -> Bool { self.cachedRoute?.names.areNames(of: frame) ?? false }

    /// Returns the event of a frame and its cached routes, or `nil` if there are no consumers.
    ///
    /// It is a method that doesn't change the session, so that the compiler need not copy what is cached.
    private func cachedEvent(
        _ frame: PusherFrame, _ writer: inout EventWriter, _ routes: borrowing EventRoutes
    ) -> (PusherEvent, route: EventRoute, clientRoute: EventRoute)? {
        guard let cached = self.cachedRoute, !routes.isEmpty(cached.route) || !routes.isEmpty(cached.clientRoute) else { return nil }
        return (writer.event(cached.names, frame), cached.route, cached.clientRoute)
    }

    /// Caches the routes of an event.
    ///
    /// - Returns: `false` if the channel is not one of the client's, is encrypted, or its subscription isn't confirmed.
    private mutating func cacheRoute(of frame: PusherFrame) -> Bool {
        guard let channel = frame.channelName, let id = self.channels.id(named: channel), self.channels.kind(of: id)?.isEncrypted == false,
            self.channels.state(of: id) == .subscribed, let names = self.channels[id]?.eventNames(of: frame),
            let route = self.channels[id]?.events.routeInPlace(names.event)
        else { return false }
        let clientRoute = self.clientRoutes.events?.route(names.event) ?? EventRoutes.none
        self.cachedRoute = CachedRoute(names: names, route: route, clientRoute: clientRoute)
        return true
    }

    /// Delivers an event whose routes can't be cached: that of an encrypted channel, or one before the confirmation of the subscription.
    private mutating func deliverUncached(
        _ id: ChannelID, _ frame: PusherFrame, now: Instant, _ writer: inout EventWriter, _ effects: inout Effects<Self>
    ) {
        if self.channels.state(of: id) != .subscribed, self.channels[id]?.receivesUnconfirmed == false {
            // The event is one of a subscription that the client has given up. Others may be missing before it, and until the next
            // confirmation.
            self.channels[id]?.receivesUnconfirmed = true
            self.endInterruption(id, now: now, &effects)
            self.interrupted(id, since: now)
        }
        guard self.channels.kind(of: id)?.isEncrypted == false else {
            return self.deliverEncrypted(id, frame, now: now, &writer, &effects)
        }
        guard let names = self.channels[id]?.eventNames(of: frame), let route = self.channels[id]?.events.routeInPlace(names.event) else {
            return
        }
        let event = writer.event(names, frame)
        for route in [route, self.clientRoutes.events?.route(names.event) ?? EventRoutes.none] { effects.deliver(.event(event), on: route) }
    }

    // MARK: Events of the protocol

    /// Delivers an event of the protocol to the consumers that ask for it by name.
    func deliver(_ name: String, on id: ChannelID?, _ effects: inout Effects<Self>, data: () -> String?) {
        let record = id.flatMap { self.channels[$0] }
        let routes = [record?.events.reservedRoute(name), self.clientRoutes.events?.reservedRoute(name)].compactMap { $0 }
        guard routes.contains(where: { !effects.routes.isEmpty($0) }) else { return }
        let event = PusherEvent(name: name, channel: record?.name, data: data())
        for route in routes { effects.deliver(.event(event), on: route) }
    }

    /// Delivers an event of the protocol to the consumers of all events.
    private func deliverToAll(_ frame: PusherFrame, _ writer: inout EventWriter, _ effects: inout Effects<Self>) {
        let name = frame.channelName
        let record = name.flatMap { self.channels[$0] }
        guard name == nil || record != nil else {
            effects.counters.messagesIgnored += 1
            return
        }
        let event = writer.event(EventNames(EventName.version7(frame.eventName), channel: name), frame)
        for route in [record?.events.others, self.clientRoutes.events?.others].compactMap({ $0 }) {
            effects.deliver(.event(event), on: route)
        }
    }

    /// - Returns: `false` if the connection was abandoned because of the frame.
    private mutating func received(
        reserved frame: PusherFrame, on id: ConnectionID, now: Instant, _ writer: inout EventWriter, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) -> Bool {
        let eventName = EventName.version7(frame.eventName)
        switch eventName {
        case EventName.connectionEstablished:
            do throws(PusherFrameError) {
                try self.established(id, try frame.dataValue(), now: now, &effects)
            } catch {
                guard self.connection.connected != id else { throw error }
                // The connection cannot be used without a socket ID. It is reported as lost, and another attempt is made.
                effects.counters.messagesIgnored += 1
                effects.commands.append(.abandon(id))
                let message = "The server sent an invalid \(EventName.connectionEstablished) event: \(error)."
                self.closed(id, .transport(TransportError(.protocolViolation, message)), now: now, &effects)
                return false
            }
        case EventName.ping:
            self.send(PusherFrames.pong, on: id, &effects)
        case EventName.pong:
            if let pingedAt { effects.counters.lastRoundTrip = pingedAt.duration(to: now) }
            self.pingedAt = nil
        case EventName.error:
            self.receivedError(ServerError(frame), channel: frame.channelName, now: now, &effects)
        case EventName.signInSucceeded:
            try self.signedIn(try frame.dataValue(), now: now, &effects)
        case EventName.watchlistEvents:
            try self.watchlistEvents(try frame.dataValue(), &effects)
        case EventName.subscriptionSucceeded where self.isUserChannel(frame): return true
        case EventName.subscriptionSucceeded:
            // Also a confirmation that is ignored, because it begins another subscription.
            if let id = frame.channelName.flatMap({ self.channels.id(named: $0) }) { self.channels[id]?.receivesUnconfirmed = false }
            guard let channel = try self.channel(frame, &effects) else { return true }
            try self.subscriptionSucceeded(channel, frame, on: id, now: now, &effects)
        case EventName.subscriptionError, EventName.internalSubscriptionError:
            guard let channel = try self.channel(frame, &effects) else { return true }
            let data = (try? frame.dataValue()) ?? .null
            let reason = self.redacted(data["error"]?.string ?? data["message"]?.string ?? "no reason was given")
            let error = PusherError.subscriptionRejected(
                frame.channelName ?? "", reason, serverCode: data["code"]?.int, status: data["status"]?.int)
            self.subscriptionFailed(channel, error, now: now, &effects)
        case EventName.memberAdded:
            guard let channel = try self.presenceChannel(frame, &effects) else { return true }
            let user = try PresenceUser(try frame.dataValue())
            self.memberAdded(channel, PusherMember(id: user.id, info: user.info), &effects)
        case EventName.memberRemoved:
            guard let channel = try self.presenceChannel(frame, &effects) else { return true }
            self.memberRemoved(channel, userID: try PresenceUser(try frame.dataValue()).id, &effects)
        case EventName.subscriptionCount:
            guard let channel = try self.channel(frame, &effects) else { return true }
            guard let count = try frame.dataValue()["subscription_count"]?.int else { throw .missing("subscription_count") }
            self.channels[channel]?.subscriptionCount = count
            if let record = self.channels[channel] {
                self.publish(.subscriptionCount(channel: record.name, count), to: record.notices.counts, &effects)
            }
        case EventName.deltaCompressionEnabled where self.deltaSupport == .on:
            guard self.deltaCompressionEnabled(try frame.dataValue(), now: now, &effects) else { return false }
        case EventName.deltaCacheSync where self.deltaSupport == .on: self.receivedBases(frame.channelName, try frame.dataValue())
        case EventName.resumeSucceeded where self.recoversEvents:
            try self.resumeSucceeded(try frame.dataValue(), now: now, &effects)
        case EventName.resumeFailed where self.recoversEvents:
            self.resumeFailed(frame.channelName, (try? frame.dataValue()) ?? .null, now: now, &effects)
        case let name where EventName.publicName(of: name) != nil:
            if name == EventName.cacheMiss, let id = frame.channelName.flatMap({ self.channels.id(named: $0) }) {
                self.channels[id]?.recovery?.cacheMissed()
            }
            // Other events of the server are for users, such as pusher:cache_miss.
            self.deliverToAll(frame, &writer, &effects)
        default:
            effects.counters.messagesIgnored += 1
        }
        let channel = frame.channelName
        let channelID = channel.flatMap { self.channels.id(named: $0) }
        // Events of channels that the client isn't subscribed to are ignored.
        guard channel == nil || channelID != nil, let name = EventName.publicName(of: eventName) else { return true }
        // A failed subscription is delivered with the reason that the client found.
        if name != EventName.subscriptionError { self.deliver(name, on: channelID, &effects) { frame.dataText } }
        return true
    }

    /// Returns the channel of a frame, or `nil` if the client has not sent a subscription for it.
    private mutating func channel(_ frame: PusherFrame, _ effects: inout Effects<Self>) throws(PusherFrameError) -> ChannelID? {
        guard let name = frame.channelName else { throw .missing("channel") }
        if let id = self.channels.id(named: name), self.channels[id]?.machine.isKnownToServer == true { return id }
        effects.counters.messagesIgnored += 1
        return nil
    }

    /// Returns the presence channel of a frame about a member. Before the subscription is confirmed, such frames are ignored: the list
    /// of members, which follows, includes them.
    private mutating func presenceChannel(_ frame: PusherFrame, _ effects: inout Effects<Self>) throws(PusherFrameError) -> ChannelID? {
        guard let id = try self.channel(frame, &effects) else { return nil }
        if let record = self.channels[id], record.kind.isPresence, record.machine.state == .subscribed { return id }
        effects.counters.messagesIgnored += 1
        return nil
    }

    /// Handles `pusher:error`, which either rejects a subscription or reports an unrelated error.
    private mutating func receivedError(_ server: ServerError, channel: String?, now: Instant, _ effects: inout Effects<Self>) {
        var server = server
        if !server.text.isEmpty { server.message = self.redacted(server.text) }
        if let id = self.subscription(rejectedBy: server, channel: channel), let record = self.channels[id] {
            let error = PusherError.subscriptionRejected(record.name, server.message, serverCode: server.code)
            return self.subscriptionFailed(id, error, now: now, &effects)
        }
        // Such an error has no code either, and isn't about the user.
        let isDuplicate = server.text.hasPrefix("Existing subscription")
        if self.user?.state == .signingIn, channel == nil, !isDuplicate, server.code == nil || server.code == 4009 {
            let error = PusherError(
                .authorizationFailed, "The server rejected the user: \(server.message)", serverCode: server.code)
            return self.signInFailed(error, now: now, &effects)
        }
        if self.rejectsResume(server, channel: channel) { return self.resumeRejected(server, now: now, &effects) }
        if server.code == Int(PusherCloseCode.clientEventRejected.rawValue) {
            let error = self.clientEventRejected(server, channel: channel)
            effects.log(.warning, error.message)
            return self.publish(.error(error), to: self.clientRoutes.errors, &effects)
        }
        // It may be the reason why the server closes the connection next.
        if !isDuplicate { self.lastServerError = (server, now) }
        // Before the connection is established, it is the reason why the attempt fails, and is reported with its end.
        if self.socketID == nil, let code = server.code, (4000...4299).contains(code) { return }
        let error = PusherError(.server, "The server reported an error: \(server.message)", channel: channel, serverCode: server.code)
        effects.log(.warning, error.message)
        self.publish(.error(error), to: self.clientRoutes.errors, &effects)
    }

    /// Whether an error event is the answer to a request for missed events.
    ///
    /// Such an error names no channel, and has a code that other errors have as well.
    private func rejectsResume(_ error: ServerError, channel: String?) -> Bool {
        guard channel == nil, self.recoveryDeadlines?.isEmpty == false else { return false }
        // It is the code of a rejected client event, and the client hasn't sent any.
        if error.code == Int(PusherCloseCode.clientEventRejected.rawValue), self.clientEventSender == .none { return true }
        guard error.text.containsText("recovery") || error.text.containsText("resume") else { return false }
        return !self.channels.records.contains { ChannelName.isNamed($0.name, in: error.text) }
    }

    /// Returns the subscription that an error event rejects, if any.
    ///
    /// Most servers do not name the channel. The error then belongs to the subscription whose channel appears in the text, or to the only
    /// one that awaits the result of a signature.
    private func subscription(rejectedBy error: ServerError, channel: String?) -> ChannelID? {
        if error.text.hasPrefix("Existing subscription") { return nil }
        // Some servers name the channel of a rejected client event, which may have been subscribed again in the meantime.
        if error.code == Int(PusherCloseCode.clientEventRejected.rawValue) { return nil }
        let pending = self.channels.records.filter { $0.machine.state == .subscribing }
        if let named = pending.first(where: { $0.name == channel }) { return named.id }
        // Not public channels, whose names may be ordinary words.
        let signed = pending.filter(\.kind.needsAuthorization)
        // sockudo doesn't name the channel of an invalid filter.
        let filtered = pending.filter { $0.filter?.filter != nil }
        if filtered.count == 1, error.text.containsText("filter") { return filtered.first?.id }
        if let named = signed.first(where: { ChannelName.isNamed($0.name, in: error.text) }) { return named.id }
        // An error about the user, who is signing in, has the same codes.
        return signed.count == 1 && self.user?.state != .signingIn && (error.code == nil || error.code == 4009) ? signed.first?.id : nil
    }
}
