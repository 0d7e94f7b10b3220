import PusherWire
import RealtimeCoding
import RealtimeCore
import RealtimeSystem

/// The user, client events, and the features of version 2 of the protocol.
extension PusherSession {
    // MARK: The user

    /// Signs in, now or as soon as the client is connected. A failed sign-in is retried; otherwise, nothing changes.
    mutating func signIn(now: Instant, _ effects: inout Effects<Self>) {
        self.user.signIn(self.context(now), &effects)
        self.beginSignIn(now: now, &effects)
    }

    mutating func beginSignIn(now: Instant, _ effects: inout Effects<Self>) {
        do throws(PusherError) {
            try self.user.begin(self.context(now), &self.work, &effects)
        } catch {
            self.signInFailed(error, now: now, &effects)
        }
    }

    mutating func userAuthenticated(
        _ work: WorkID, _ result: Result<PusherUserAuthentication, PusherError>, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard self.work.take(work) != nil, self.user.isAuthenticating(work) else { return }
        switch result {
        case .success(let authentication): self.user.authenticated(work, authentication, self.context(now), &effects)
        case .failure(let error): self.signInFailed(error, now: now, &effects)
        }
    }

    /// Handles `pusher:signin_success`.
    mutating func signedIn(_ received: ReceivedFrame, _ effects: inout Effects<Self>) throws(PusherFrameError) {
        let subscriptions = try self.user.confirmed(try received.frame.dataValue(), self.context(received.now), &effects)
        for waiting in subscriptions {
            self.authorized(waiting.channel.id, waiting.work, waiting.authorization, now: received.now, &effects)
        }
    }

    mutating func signInFailed(_ error: PusherError, now: Instant, _ effects: inout Effects<Self>) {
        for waiting in self.user.failed(error, self.context(now), &effects) {
            // The attempt that waited may have timed out, and another one may have succeeded since.
            guard self.channels.state(of: waiting.channel.id) == .authorizing(waiting.work) else { continue }
            let failure = PusherError.userMissing(waiting.channel.name, error, isRetried: error.isTransient)
            self.subscriptionFailed(waiting.channel.id, failure, now: now, &effects)
        }
    }

    mutating func signInTimeout(now: Instant, _ effects: inout Effects<Self>) {
        guard let deadline = self.user.nextDeadline, deadline <= now else { return }
        switch self.user.timeout(self.context(now), &self.work, &effects) {
        case nil: break
        case .retry: self.beginSignIn(now: now, &effects)
        case .failed(let error): self.signInFailed(error, now: now, &effects)
        }
    }

    mutating func awaitSignedIn(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        self.user.wait(waiter, ended: self.endError, &effects)
    }

    // MARK: Client events

    /// Checks the name and the size of an event.
    ///
    /// - Parameter size: The size of the data in bytes.
    @inline(__always)
    func checkSize(of event: String, data size: Int, channel: String) throws(PusherError) {
        guard size <= self.configuration.eventDataLimit, event.utf8.count <= self.configuration.eventNameLimit else {
            throw self.sizeError(of: event, data: size, channel: channel)
        }
    }

    @inline(never)
    private func sizeError(of event: String, data size: Int, channel: String) -> PusherError {
        if let error = EventName.validationError(event, limit: self.configuration.eventNameLimit) {
            return PusherError(.invalidEventName, error, channel: channel)
        }
        return .dataTooLarge(
            event, size, limit: self.configuration.eventDataLimit, setting: "PusherConfiguration.eventDataLimit", channel: channel)
    }

    /// Whether a message may have to be reported or to wait, for which the fast path of sending has no means.
    var sendsWithEffects: Bool { self.configuration.clientEventLimit != nil || self.consumers.traceFrames }

    /// Returns the message to send, or queues it until the channel is subscribed. It doesn't apply the limit of the configuration: this is
    /// the fast path of clients without one.
    ///
    /// - Parameter id: The ID that the caller's handle has, which may be outdated.
    mutating func trigger(
        _ message: TransportMessage, channel name: String, id: ChannelID
    ) throws(PusherError) -> (ConnectionID, TransportMessage)? {
        guard let id = self.channels.id(id, named: name), let state = self.channels.state(of: id) else { throw .notSubscribed(name) }
        switch state {
        case .subscribed:
            guard let connection = self.connection.connected else { return nil }
            self.clientEvents.sent(from: id)
            return (connection, message)
        case .failed(let error), .presumedFailed(let error): throw error
        case .waiting, .authorizing, .subscribing:
            if self.state == .disconnected(nil) {
                let message = "The client was disconnected, so the event on \(name) wasn't sent. Call connect() first."
                throw PusherError(.disconnected, message, channel: name)
            }
            try self.clientEvents.enqueue(message, on: id, name, limit: self.configuration.clientEventQueueLimit)
            return nil
        }
    }

    /// Sends an event, or queues it until the channel is subscribed and the limit of the configuration allows it.
    ///
    /// - Parameter id: The ID that the caller's handle has, which may be outdated.
    mutating func trigger(
        _ message: TransportMessage, channel name: String, id: ChannelID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherError) {
        guard let limit = self.configuration.clientEventLimit, let id = self.channels.id(id, named: name),
            self.channels.state(of: id) == .subscribed
        else {
            if let (id, message) = try self.trigger(message, channel: name, id: id) { self.send(message, on: id, &effects) }
            return
        }
        self.sendWaitingClientEvents(now: now, &effects)
        guard let connection = self.connection.connected else { return }
        let queueLimit = self.configuration.clientEventQueueLimit
        if try self.clientEvents.admit(message, on: id, name, limit, queueLimit: queueLimit, now: now) {
            self.send(message, on: connection, &effects)
        }
    }

    /// Sends the events that waited for the limit, as far as it allows it now.
    mutating func sendWaitingClientEvents(now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connection.connected else { return }
        for message in self.clientEvents.takeDue(self.configuration.clientEventLimit, now: now) {
            self.send(message, on: connection, &effects)
        }
    }

    /// The only channel that has sent client events on the connection, if there is one.
    var clientEventSender: String? { self.channels.channel(self.clientEvents.sender)?.name }

    /// Reports that the server rejected an event.
    ///
    /// - Parameter channel: The channel that the server named, if any.
    mutating func clientEventRejected(_ server: ServerError, channel: String?, now: Instant, _ effects: inout Effects<Self>) {
        let channel = channel ?? self.clientEventSender
        let errors = self.clientEvents.rejected(server, channel: channel, self.configuration.clientEventLimit, now: now)
        for error in errors { self.consumers.report(error, &effects) }
    }

    mutating func reportRejectedClientEvents(now: Instant, _ effects: inout Effects<Self>) {
        if let error = self.clientEvents.takeDueRejections(now: now) { self.consumers.report(error, &effects) }
    }

    // MARK: Recovery

    /// Receives an event from a server that numbers its events: delivers it, lets it wait for missed ones, or drops one that was delivered
    /// already.
    mutating func receivedRecoverable(_ frame: PusherFrame, now: Instant, _ writer: inout EventWriter, _ effects: inout Effects<Self>) {
        guard let id = frame.channelName.flatMap({ self.channels.id(named: $0) }), let state = self.channels.state(of: id),
            let kind = self.channels.kind(of: id)
        else { return self.deliver(frame, now: now, &writer, &effects) }
        let isSubscribing = state == .subscribing || state == .subscribed
        switch self.recovery.received(frame, on: id, isCache: kind.isCache, isSubscribing: isSubscribing) {
        case .deliver: self.deliver(frame, now: now, &writer, &effects)
        case .wait: break
        case .drop: effects.counters.messagesIgnored += 1
        case .giveUp(let events):
            guard let channel = self.channels.channel(id) else { return }
            self.deliver(self.recovery.failed(channel, .tooManyEvents, events, self.context(now), &effects), now: now, &effects)
        }
    }

    /// Handles the server's answers to requests for missed events.
    mutating func recoveryAnswered(_ answers: [(channel: String?, EventRecovery.Answer)], now: Instant, _ effects: inout Effects<Self>) {
        for (name, answer) in answers {
            guard let channel = self.channels.channel(named: name) else { continue }
            self.deliver(self.recovery.answered(channel, answer, self.context(now), &effects), now: now, &effects)
        }
    }

    /// Whether an error event is the answer to a request for missed events.
    ///
    /// Such an error names no channel, and has a code that other errors have as well.
    func rejectsRecovery(_ error: ServerError, channel: String?) -> Bool {
        guard channel == nil, self.recovery.oldestRequest != nil else { return false }
        // It is the code of a rejected client event, and the client hasn't sent any.
        if error.code == Int(PusherCloseCode.clientEventRejected.rawValue), !self.clientEvents.wereSent { return true }
        guard error.text.containsText("recovery") || error.text.containsText("resume") else { return false }
        return !self.channels.areNamed(in: error.text)
    }

    /// Fails the oldest of the requests that the server hasn't answered.
    mutating func recoveryRejected(_ server: ServerError, now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.recovery.oldestRequest, let channel = self.channels.channel(id) else { return }
        let isTurnedOff = server.code == Int(PusherCloseCode.clientEventRejected.rawValue)
        let failure = isTurnedOff ? PusherRecoveryFailure.notSupported : .other(server.message)
        self.deliver(self.recovery.failed(channel, failure, self.context(now), &effects), now: now, &effects)
        let message = "The server rejected the request for the missed events of \(channel.name): \(server.message)"
        self.consumers.report(PusherError(.server, message, channel: channel.name, serverCode: server.code), &effects)
    }

    mutating func recoveryTimeouts(now: Instant, _ effects: inout Effects<Self>) {
        while let id = self.recovery.popTimedOut(now) {
            guard let channel = self.channels.channel(id) else { continue }
            self.deliver(self.recovery.failed(channel, .timedOut, self.context(now), &effects), now: now, &effects)
        }
    }

    /// Delivers events that have waited.
    mutating func deliver(_ events: [[UInt8]], now: Instant, _ effects: inout Effects<Self>) {
        for text in events {
            var writer = EventWriter(atMost: text.count)
            text.withUnsafeBytes { bytes in
                // They were scanned before.
                guard let frame = try? PusherFrame(scanning: bytes) else { return }
                self.deliver(frame, now: now, &writer, &effects)
            }
        }
    }

    // MARK: Deltas

    /// Keeps the text of a complete event, if later deltas refer to it.
    mutating func keepBase(_ frame: PusherFrame) {
        guard frame.channel.kind.isString, let sequence = FrameSequence(frame), let owner = self.deltaOwner(frame.channelName) else {
            return
        }
        self.deltas.keep(frame.eventName, sequence, of: owner)
    }

    func deltaOwner(_ channel: String?) -> EventDeltas.Owner? {
        guard let channel else { return nil }
        if let id = self.channels.id(named: channel) { return .channel(id) }
        return self.user.isChannel(channel) ? .user : nil
    }

    /// Reconnects without compression. A server has no request that ends it on a connection.
    mutating func refuseDeltas(_ algorithm: String, now: Instant, _ effects: inout Effects<Self>) {
        self.consumers.report(self.deltas.refuse(algorithm), &effects)
        self.reconnect(now: now, &effects)
    }

    /// Handles an event that arrives as a delta.
    ///
    /// - Returns: The text of the frame of the complete event, or `nil` if it can't be restored.
    mutating func restored(_ received: ReceivedFrame, _ effects: inout Effects<Self>) throws(PusherFrameError) -> [UInt8]? {
        let delta = try DeltaPayload(try received.frame.dataValue())
        // Valid: events may arrive after the client has unsubscribed.
        guard let owner = self.deltaOwner(received.frame.channelName) else {
            effects.counters.messagesIgnored += 1
            return nil
        }
        switch self.deltas.restore(delta, of: owner, limit: self.configuration.messageLimit) {
        case .restored(let text): return text
        case .unsupported(let algorithm): self.refuseDeltas(algorithm, now: received.now, &effects)
        case .failed(let reason): self.deltaFailed(delta, reason, of: owner, self.context(received.now), &effects)
        }
        return nil
    }

    /// Drops an event, and requests what is missing.
    private mutating func deltaFailed(
        _ delta: DeltaPayload, _ reason: String, of owner: EventDeltas.Owner, _ context: SessionContext, _ effects: inout Effects<Self>
    ) {
        effects.counters.messagesIgnored += 1
        var channel: NamedChannel?
        if case .channel(let id) = owner {
            // Otherwise, the event belongs to a subscription that the client has given up.
            guard let record = self.channels[id], record.subscription.isReceiving else { return }
            channel = record.channel
        }
        if self.deltas.failed(delta, of: owner) {
            let name = channel?.name ?? self.user.channel ?? ""
            let event = Excerpt.of(delta.event, limit: 200)
            let message = "Cannot restore the event \"\(event)\" of \(name) from a delta: \(reason). The client requests complete events."
            context.report(PusherError(.deltaFailed, message, channel: name), &effects)
            context.send(PusherFrames.deltaSyncError(name), &effects)
        }
        // Only channels have gaps; the events of the user can't be recovered.
        if let channel { self.recovery.dropped(channel, context, &effects) }
    }
}
