import PusherWire
import RealtimeCore
import RealtimeSystem

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
        if self.consumers.receiveFrames, !isRestored { self.consumers.received(text, self.configuration.trace, &effects) }
        do throws(PusherFrameError) {
            let frame = try PusherFrame(scanning: text)
            guard !self.usesVersion2 else {
                if self.deltas.support == .on, !isRestored {
                    if frame.isEvent("sockudo:delta") || frame.isEvent(EventName.delta) {
                        return try self.received(delta: ReceivedFrame(frame, id, now), &effects)
                    }
                    self.keepBase(frame)
                }
                if frame.isReservedInVersion2 { return try self.received(reserved: ReceivedFrame(frame, id, now), &writer, &effects) }
                if self.recovery.isOn {
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
            return try self.received(reserved: ReceivedFrame(frame, id, now), &writer, &effects)
        } catch {
            effects.counters.messagesIgnored += 1
            let message = "The server sent an invalid frame of \(text.count) bytes, which was dropped: \(error)."
            self.consumers.report(PusherError(.invalidFrame, message), &effects)
            return true
        }
    }

    /// Handles an event that arrives as a delta, like the complete event.
    ///
    /// - Returns: `false` if the connection was abandoned because of the frame.
    private mutating func received(delta received: ReceivedFrame, _ effects: inout Effects<Self>) throws(PusherFrameError) -> Bool {
        guard let text = try self.restored(received, &effects) else { return self.connection.connected == received.connection }
        var writer = EventWriter(atMost: text.count)
        return text.withUnsafeBytes {
            self.received($0, isRestored: true, on: received.connection, now: received.now, &writer, &effects)
        }
    }

    // MARK: Events

    /// Delivers an event to the consumers of its channel and of all channels. This is the path of most frames.
    mutating func deliver(_ frame: PusherFrame, now: Instant, _ writer: inout EventWriter, _ effects: inout Effects<Self>) {
        if self.events.isCached(frame) || self.cacheRoute(of: frame) {
            self.events.deliverCached(frame, &writer, &effects)
        } else {
            self.deliverUncached(frame, now: now, &writer, &effects)
        }
    }

    /// Caches the routes of an event.
    ///
    /// - Returns: `false` if the channel is not one of the client's, is encrypted, or its subscription isn't confirmed.
    private mutating func cacheRoute(of frame: PusherFrame) -> Bool {
        guard let channel = frame.channelName, let id = self.channels.id(named: channel), self.channels.kind(of: id)?.isEncrypted == false,
            self.channels.state(of: id) == .subscribed
        else { return false }
        self.events.cache(id, frame)
        return true
    }

    private mutating func deliverUncached(_ frame: PusherFrame, now: Instant, _ writer: inout EventWriter, _ effects: inout Effects<Self>) {
        if let channel = self.user.channel, frame.isChannel(channel) {
            self.events.deliver(frame, toUserOf: channel, &writer, &effects)
        } else if let name = frame.channelName {
            guard let id = self.channels.id(named: name), let kind = self.channels.kind(of: id) else {
                // Valid: events may arrive after the client has unsubscribed.
                effects.counters.messagesIgnored += 1
                return
            }
            if self.channels.state(of: id) != .subscribed, let channel = self.channels.channel(id) {
                self.recovery.receivedUnconfirmed(channel, self.context(now), &effects)
            }
            if kind.isEncrypted {
                self.deliverEncrypted(frame, on: id, now: now, &writer, &effects)
            } else {
                self.events.deliver(frame, on: id, &writer, &effects)
            }
        } else if !self.receivedWatchlistEvent(frame, now: now, &effects) {
            self.events.deliver(withoutChannel: frame, &writer, &effects)
        }
    }

    /// - Returns: `false` if the event isn't about the watchlist, in the form without a channel.
    private func receivedWatchlistEvent(_ frame: PusherFrame, now: Instant, _ effects: inout Effects<Self>) -> Bool {
        guard self.user.receivesWatchlist, frame.isEvent("online") || frame.isEvent("offline"), let data = try? frame.dataValue() else {
            return false
        }
        return self.user.watchlistEvent(frame.eventName, data, self.context(now), &effects)
    }

    // MARK: Events of the protocol

    /// A frame of the protocol.
    struct ReceivedFrame {
        let frame: PusherFrame
        let connection: ConnectionID
        let now: Instant

        init(_ frame: PusherFrame, _ connection: ConnectionID, _ now: Instant) {
            (self.frame, self.connection, self.now) = (frame, connection, now)
        }
    }

    /// The result of a handler.
    enum Handled {
        /// The event is delivered to the consumers that ask for it by name.
        case deliver
        /// The event is delivered to them and, if applications know its name, to the consumers of all events.
        case deliverToAll
        case ignore
        /// The connection was abandoned because of the frame.
        case abandoned
    }

    typealias Handler = @Sendable (inout PusherSession, ReceivedFrame, inout Effects<PusherSession>) throws(PusherFrameError) -> Handled

    /// The handlers of the protocol's events, by their names in version 7.
    private static let handlers: [String: Handler] = [
        EventName.connectionEstablished: { session, received, effects throws(PusherFrameError) in
            try session.receivedConnectionEstablished(received, &effects)
        },
        EventName.ping: { session, received, effects throws(PusherFrameError) in
            session.send(PusherFrames.pong, on: received.connection, &effects)
            return .deliver
        },
        EventName.pong: { session, received, effects throws(PusherFrameError) in
            session.receivedPong(now: received.now, &effects)
            return .deliver
        },
        EventName.error: { session, received, effects throws(PusherFrameError) in
            session.receivedError(received, &effects)
            return .deliver
        },
        EventName.signInSucceeded: { session, received, effects throws(PusherFrameError) in
            try session.signedIn(received, &effects)
            return .deliver
        },
        EventName.watchlistEvents: { session, received, effects throws(PusherFrameError) in
            try session.user.watchlistEvents(try received.frame.dataValue(), session.context(received.now), &effects)
            return .deliver
        },
        EventName.subscriptionSucceeded: { session, received, effects throws(PusherFrameError) in
            try session.receivedSubscriptionSucceeded(received, &effects)
        },
        EventName.subscriptionError: { session, received, effects throws(PusherFrameError) in
            try session.receivedSubscriptionError(received, &effects)
        },
        EventName.internalSubscriptionError: { session, received, effects throws(PusherFrameError) in
            try session.receivedSubscriptionError(received, &effects)
        },
        EventName.memberAdded: { session, received, effects throws(PusherFrameError) in
            guard let channel = try session.presenceChannel(received.frame, &effects) else { return .ignore }
            let user = try PresenceUser(try received.frame.dataValue())
            session.channels.memberAdded(
                channel.id, PusherMember(id: user.id, info: user.info), session.context(received.now), &effects)
            return .deliver
        },
        EventName.memberRemoved: { session, received, effects throws(PusherFrameError) in
            guard let channel = try session.presenceChannel(received.frame, &effects) else { return .ignore }
            let user = try PresenceUser(try received.frame.dataValue())
            session.channels.memberRemoved(channel.id, userID: user.id, session.context(received.now), &effects)
            return .deliver
        },
        EventName.subscriptionCount: { session, received, effects throws(PusherFrameError) in
            guard let channel = try session.channel(received.frame, &effects) else { return .ignore }
            guard let count = try received.frame.dataValue()["subscription_count"]?.int else { throw .missing("subscription_count") }
            session.channels.counted(channel.id, count, session.context(received.now), &effects)
            return .deliver
        },
        EventName.cacheMiss: { session, received, effects throws(PusherFrameError) in
            if let channel = session.channels.channel(named: received.frame.channelName) { session.recovery.cacheMissed(channel.id) }
            return .deliverToAll
        },
        EventName.deltaCompressionEnabled: { session, received, effects throws(PusherFrameError) in
            guard session.deltas.support == .on else { return .deliverToAll }
            guard let algorithm = EventDeltas.unsupportedAlgorithm(in: try received.frame.dataValue()) else { return .deliver }
            session.refuseDeltas(algorithm, now: received.now, &effects)
            return .abandoned
        },
        EventName.deltaCacheSync: { session, received, effects throws(PusherFrameError) in
            guard session.deltas.support == .on else { return .deliverToAll }
            let data = try received.frame.dataValue()
            if let owner = session.deltaOwner(received.frame.channelName) { session.deltas.keep(data, of: owner) }
            return .deliver
        },
        EventName.resumeSucceeded: { session, received, effects throws(PusherFrameError) in
            guard session.recovery.isOn else { return .deliverToAll }
            let configuration = session.configuration
            let answers = try EventRecovery.answers(in: try received.frame.dataValue(), redact: configuration.redacted)
            session.recoveryAnswered(answers, now: received.now, &effects)
            return .deliver
        },
        EventName.resumeFailed: { session, received, effects throws(PusherFrameError) in
            guard session.recovery.isOn else { return .deliverToAll }
            let data = (try? received.frame.dataValue()) ?? .null
            let answer = EventRecovery.failure(in: data, redact: session.configuration.redacted)
            session.recoveryAnswered([(received.frame.channelName, answer)], now: received.now, &effects)
            return .deliver
        },
    ]

    /// - Returns: `false` if the connection was abandoned because of the frame.
    private mutating func received(
        reserved received: ReceivedFrame, _ writer: inout EventWriter, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) -> Bool {
        let frame = received.frame
        let name = EventName.version7(frame.eventName)
        let handled = try Self.handlers[name]?(&self, received, &effects) ?? .deliverToAll
        switch handled {
        case .ignore: return true
        case .abandoned: return false
        case .deliver, .deliverToAll: break
        }
        let channel = frame.channelName
        let id = channel.flatMap { self.channels.id(named: $0) }
        // Events of channels that the client isn't subscribed to are ignored, and events that applications don't know.
        guard channel == nil || id != nil, let publicName = EventName.publicName(of: name) else {
            if case .deliverToAll = handled { effects.counters.messagesIgnored += 1 }
            return true
        }
        if case .deliverToAll = handled { self.events.deliverToAll(frame, on: id, &writer, &effects) }
        // A failed subscription is delivered with the reason that the client found.
        if publicName != EventName.subscriptionError { self.events.deliver(reserved: publicName, on: id, &effects) { frame.dataText } }
        // An error in place of the greeting has ended the connection.
        return self.connection.current == received.connection
    }

    private mutating func receivedConnectionEstablished(
        _ received: ReceivedFrame, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) -> Handled {
        let id = received.connection
        do throws(PusherFrameError) {
            try self.established(id, try received.frame.dataValue(), now: received.now, &effects)
            return .deliver
        } catch {
            guard self.connection.connected != id else { throw error }
            // The connection cannot be used without a socket ID. It is reported as lost, and another attempt is made.
            effects.counters.messagesIgnored += 1
            effects.commands.append(.abandon(id))
            let message = "The server sent an invalid \(EventName.connectionEstablished) event: \(error)."
            self.closed(id, .transport(TransportError(.protocolViolation, message)), now: received.now, &effects)
            return .abandoned
        }
    }

    private mutating func receivedSubscriptionSucceeded(
        _ received: ReceivedFrame, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) -> Handled {
        if let channel = self.user.channel, received.frame.isChannel(channel) { return .ignore }
        // Also a confirmation that is ignored, because it begins another subscription.
        if let channel = self.channels.channel(named: received.frame.channelName) { self.recovery.anySubscriptionConfirmed(channel.id) }
        guard let channel = try self.channel(received.frame, &effects) else { return .ignore }
        self.subscriptionSucceeded(channel, received, &effects)
        return .deliver
    }

    private mutating func receivedSubscriptionError(
        _ received: ReceivedFrame, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) -> Handled {
        let data = (try? received.frame.dataValue()) ?? .null
        func rejection(of name: String) -> PusherError {
            let reason = self.configuration.redacted(data["error"]?.string ?? data["message"]?.string ?? "no reason was given")
            return .subscriptionRejected(name, reason, serverCode: data["code"]?.int, status: data["status"]?.int)
        }
        // The application has no channel whose state could tell it, and its user would be signed in without ever receiving an event.
        if let channel = self.user.channel, received.frame.isChannel(channel) {
            self.consumers.report(rejection(of: channel), &effects)
            return .ignore
        }
        guard let channel = try self.channel(received.frame, &effects) else { return .ignore }
        self.subscriptionFailed(channel.id, rejection(of: channel.name), now: received.now, &effects)
        return .deliver
    }

    /// Returns the channel of a frame, or `nil` if the client has not sent a subscription for it.
    private func channel(_ frame: PusherFrame, _ effects: inout Effects<Self>) throws(PusherFrameError) -> NamedChannel? {
        guard let name = frame.channelName else { throw .missing("channel") }
        if let record = self.channels[name], record.subscription.isKnownToServer { return record.channel }
        effects.counters.messagesIgnored += 1
        return nil
    }

    /// Returns the presence channel of a frame about a member. Before the subscription is confirmed, such frames are ignored: the list
    /// of members, which follows, includes them.
    private func presenceChannel(_ frame: PusherFrame, _ effects: inout Effects<Self>) throws(PusherFrameError) -> NamedChannel? {
        guard let channel = try self.channel(frame, &effects) else { return nil }
        if channel.kind.isPresence, self.channels.state(of: channel.id) == .subscribed { return channel }
        effects.counters.messagesIgnored += 1
        return nil
    }

    /// Handles `pusher:error`, which rejects a subscription, the user, a request or a client event, or reports an unrelated error.
    private mutating func receivedError(_ received: ReceivedFrame, _ effects: inout Effects<Self>) {
        let (channel, now) = (received.frame.channelName, received.now)
        var server = ServerError(received.frame)
        if !server.text.isEmpty { server.message = self.configuration.redacted(server.text) }
        // Such an error has no code, and isn't about the user.
        let isDuplicate = server.text.hasPrefix("Existing subscription")
        // Some servers name the channel of a rejected client event, which may have been subscribed again in the meantime.
        let isAboutClientEvent = server.code == Int(PusherCloseCode.clientEventRejected.rawValue)
        let isSigningIn = self.user.state == .signingIn
        if self.isRateLimit(server, channel: channel), self.rateLimited(server, channel: channel, now: now, &effects) { return }
        if !isDuplicate, !isAboutClientEvent,
            let rejected = self.channels.subscription(rejectedBy: server, channel: channel, isSigningIn: isSigningIn)
        {
            let error = PusherError.subscriptionRejected(rejected.channel.name, server.message, serverCode: server.code)
            return self.subscriptionFailed(rejected.channel.id, error, isPresumed: rejected.isPresumed, now: now, &effects)
        }
        if isSigningIn, channel == nil, !isDuplicate, server.code == nil || server.code == 4009 {
            let message = "The server rejected the user: \(server.message)"
            return self.signInFailed(PusherError(.authorizationFailed, message, serverCode: server.code), now: now, &effects)
        }
        if self.rejectsRecovery(server, channel: channel) { return self.recoveryRejected(server, now: now, &effects) }
        if isAboutClientEvent, self.clientEvents.wereSent {
            return self.clientEventRejected(server, channel: channel, now: now, &effects)
        }
        // It may be the reason why the server closes the connection next.
        if !isDuplicate { self.lastServerError = (server, now) }
        // In place of the greeting, it is the reason why the attempt fails. Some servers leave the socket open.
        if self.socketID == nil, let code = server.code, (4000...4299).contains(code) {
            effects.commands.append(.abandon(received.connection))
            return self.closed(received.connection, .peer(CloseCode(rawValue: UInt16(code)), server.message), now: now, &effects)
        }
        let message = "The server reported an error: \(server.message)"
        self.consumers.report(PusherError(.server, message, channel: channel, serverCode: server.code), &effects)
    }
    /// Whether an error is about the rate of messages, and not about a client event.
    ///
    /// - Source: Reverb (`RateLimitExceeded.php`) has the code of a rejected client event, and says "Rate limit exceeded".
    private func isRateLimit(_ server: ServerError, channel: String?) -> Bool {
        if let code = server.code, (4000...4299).contains(code) { return false }
        let text = server.text.lowercased()
        if text.containsText("client event") || text.containsText("client messag") || self.rejectsRecovery(server, channel: channel) {
            return false
        }
        if ["rate limit", "too many messages", "too many requests"].contains(where: { text.containsText($0) }) { return true }
        return server.code == Int(PusherCloseCode.clientEventRejected.rawValue) && !self.clientEvents.wereSent
    }

    /// Slows down after the server has rejected a subscription, or the user, because of the rate of messages.
    ///
    /// - Returns: `false` if neither awaits an answer.
    private mutating func rateLimited(
        _ server: ServerError, channel: String?, now: Instant, _ effects: inout Effects<Self>
    ) -> Bool {
        if let isFirst = self.channels.rateLimited(channel: channel, now: now) {
            guard isFirst else { return true }
            let message = "The server's rate limit rejected subscriptions, which the client sends again more slowly: \(server.message)"
            self.consumers.report(PusherError(.rateLimited, message, serverCode: server.code), &effects)
            return true
        }
        guard self.user.state == .signingIn, channel == nil else { return false }
        let message = "The server's rate limit rejected the user: \(server.message)"
        self.signInFailed(PusherError(.rateLimited, message, serverCode: server.code), now: now, &effects)
        return true
    }
}
