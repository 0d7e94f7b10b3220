import PusherWire
import RealtimeCoding
import RealtimeCore

/// The gaps in the events of channels, and the recovery of the events that were missed.
///
/// A gap begins when a subscription is interrupted. It ends with the next confirmation, and is then reported; or, if the client recovers
/// events and the server has them, when the missed events have arrived; see ``ChannelRecovery``. Functions that end a gap return the texts of
/// the events that have waited for it, which the session delivers.
struct EventRecovery: Sendable {
    /// The server's answer to a request for missed events.
    enum Answer: Hashable, Sendable {
        /// All events up to a position were sent.
        case recovered(ChannelPosition?)
        case failed(PusherRecoveryFailure)
    }

    /// The decision about an event.
    enum Reception: Hashable, Sendable {
        case deliver, drop, wait
        /// Too many events wait. Call ``failed(_:_:_:_:_:)`` with these, which include the received one.
        case giveUp([[UInt8]])
    }

    private struct Interruption: Sendable {
        /// Since when events may be missing: from the loss of the subscription until it is restored.
        var since: Instant?
        /// Whether events arrive of a subscription that the client has given up.
        var receivesUnconfirmed = false
        /// When the server confirmed the subscription last.
        var confirmedAt: Instant?
        /// The consumers of gaps.
        var consumers = EventRoutes.none
    }

    /// Whether the client recovers missed events.
    private(set) var isOn: Bool
    private var interruptions = ChannelMap<Interruption>()
    /// The positions in the server's history of events, if the server supports it.
    private var recoveries = ChannelMap<ChannelRecovery>()
    /// When the client stops waiting for the missed events of a channel.
    private var deadlines = Deadlines<ChannelID, PatientLimit>()

    init(isOn: Bool) {
        self.isOn = isOn
    }

    var nextDeadline: Instant? { self.deadlines.earliest }

    /// The channel whose request the server answers next: it answers them in their order.
    var oldestRequest: ChannelID? { self.deadlines.earliestKey }

    /// Whether events of a channel may be missing, because its subscription was interrupted.
    func isInterrupted(_ id: ChannelID) -> Bool { self.interruptions[id]?.since != nil }

    mutating func addConsumer(_ id: ConsumerID, of channel: ChannelID, _ routes: inout EventRoutes) {
        routes.add(id, to: &self.interruptions[channel, default: Interruption()].consumers)
    }

    /// Removes a channel.
    ///
    /// - Returns: The route of the consumers of its gaps.
    mutating func removed(_ id: ChannelID) -> EventRoute {
        self.deadlines.set(id, nil)
        self.recoveries[id] = nil
        return self.interruptions[id].take()?.consumers ?? EventRoutes.none
    }

    /// Applies a change of the settings. The events since the last ones that were delivered remain missing if recovery ends.
    mutating func changed(isOn: Bool) {
        if self.isOn, !isOn { (self.recoveries, self.deadlines) = (ChannelMap(), Deadlines()) }
        self.isOn = isOn
    }

    // MARK: Interruptions

    /// Records since when events may be missing.
    mutating func interrupted(_ id: ChannelID, since: Instant) {
        if self.interruptions[id]?.since == nil { self.interruptions[id, default: Interruption()].since = since }
    }

    /// The connection was lost.
    mutating func ended(_ id: ChannelID) {
        self.interruptions[id]?.receivesUnconfirmed = false
        self.subscriptionEnded(id)
    }

    /// The subscription was lost or has failed. The events that wait will arrive again.
    mutating func subscriptionEnded(_ id: ChannelID) {
        guard self.isOn else { return }
        self.deadlines.set(id, nil)
        self.recoveries[id]?.lost()
    }

    /// The client has requested a subscription that replaces the current one, whose events aren't a reason to report a gap.
    mutating func replacing(_ id: ChannelID) { self.interruptions[id, default: Interruption()].receivesUnconfirmed = true }

    /// The server has sent a confirmation, perhaps for an earlier subscription: the events that follow belong to another one than before.
    mutating func anySubscriptionConfirmed(_ id: ChannelID) { self.interruptions[id]?.receivesUnconfirmed = false }

    /// An event arrived before the confirmation: one of a subscription that the client has given up. Others may be missing before it, and
    /// until the next confirmation.
    mutating func receivedUnconfirmed(_ channel: NamedChannel, _ context: SessionContext, _ effects: inout SessionEffects) {
        guard self.interruptions[channel.id]?.receivesUnconfirmed != true else { return }
        self.interruptions[channel.id, default: Interruption()].receivesUnconfirmed = true
        self.endGap(channel, failure: nil, context, &effects)
        self.interrupted(channel.id, since: context.now)
    }

    // MARK: Events

    /// Receives an event from a server that numbers its events.
    ///
    /// - Parameters:
    ///   - isCache: Whether the channel is a cache channel.
    ///   - isSubscribing: Whether the client is subscribed, or awaits the confirmation.
    mutating func received(_ frame: PusherFrame, on id: ChannelID, isCache: Bool, isSubscribing: Bool) -> Reception {
        if let position = FramePosition(frame) {
            switch self.recoveries[id]?.received(position, frame.bytes, isSubscribing: isSubscribing) {
            case .deliver: return .deliver
            case .drop: return .drop
            case .hold: return .wait
            case .giveUp(let events): return .giveUp(events)
            case nil:
                self.recoveries[id] = ChannelRecovery(delivered: position.position)
                return .deliver
            }
        }
        guard isCache else { return .deliver }
        switch self.recoveries[id]?.receivedCachedEvent(frame.bytes, isSubscribing: isSubscribing) {
        case .deliver, nil: return .deliver
        case .drop: return .drop
        case .hold: return .wait
        }
    }

    /// The server has no last event of a cache channel.
    mutating func cacheMissed(_ id: ChannelID) { self.recoveries[id]?.cacheMissed() }

    /// An event arrived that the client couldn't restore: requests it if the client recovers events, and otherwise reports a gap.
    mutating func dropped(_ channel: NamedChannel, _ context: SessionContext, _ effects: inout SessionEffects) {
        guard self.isOn, self.recoveries[channel.id] != nil else {
            self.interrupted(channel.id, since: context.now)
            return self.endGap(channel, failure: self.isOn ? .notSupported : nil, context, &effects)
        }
        // While missed events are on their way, the event is one of them: the server sent it before it received the request.
        guard let position = self.recoveries[channel.id]?.dropped() else { return }
        self.request(channel, after: position, missingSince: context.now, context, &effects)
    }

    // MARK: Confirmations

    /// Receives the confirmation of a subscription: requests the events that were missed, or reports that they are missing.
    mutating func confirmed(
        _ channel: NamedChannel, _ frame: PusherFrame, _ context: SessionContext, _ effects: inout SessionEffects
    ) -> [[UInt8]] {
        defer { self.interruptions[channel.id, default: Interruption()].confirmedAt = context.now }
        guard self.isOn else {
            self.endGap(channel, failure: nil, context, &effects)
            return []
        }
        self.deadlines.set(channel.id, nil)
        guard let position = FramePosition(frame)?.position else {
            let events = self.recoveries[channel.id]?.failed() ?? []
            self.recoveries[channel.id] = nil
            return self.failed(channel, .notSupported, events, context, &effects)
        }
        switch self.recoveries[channel.id]?.confirmed(at: position, isCache: channel.kind.isCache) {
        case nil:
            self.recoveries[channel.id] = ChannelRecovery(confirmed: position)
            self.endGap(channel, failure: .notSupported, context, &effects)
            return []
        case .complete(let events):
            self.interruptions[channel.id]?.since = nil
            return events
        case .reset(let events): return self.failed(channel, .streamReset, events, context, &effects)
        case .resume(let position):
            // The events since the first confirmation may be missing as well, if this is another one.
            let since = self.interruptions[channel.id]?.confirmedAt ?? context.now
            self.request(channel, after: position, missingSince: since, context, &effects)
            return []
        }
    }

    /// Receives another confirmation of a subscribed channel. The first one was for an earlier subscription, which the client has given
    /// up. Until this one, there was none.
    mutating func confirmedAgain(
        _ channel: NamedChannel, _ frame: PusherFrame, _ context: SessionContext, _ effects: inout SessionEffects
    ) -> [[UInt8]] {
        guard let since = self.interruptions[channel.id]?.confirmedAt else { return [] }
        self.interrupted(channel.id, since: since)
        return self.confirmed(channel, frame, context, &effects)
    }

    /// Receives the confirmation of another filter.
    mutating func replaced(_ channel: NamedChannel, _ frame: PusherFrame, now: Instant) {
        self.interruptions[channel.id, default: Interruption()].confirmedAt = now
        guard self.isOn, let position = FramePosition(frame)?.position else { return }
        self.recoveries[channel.id]?.filterReplaced(at: position, isCache: channel.kind.isCache)
    }

    // MARK: Answers

    /// Returns the answers in `resume_success`, which also lists the channels whose events are not available.
    static func answers(in data: JSONValue, redact: (String) -> String) throws(PusherFrameError) -> [(channel: String?, Answer)] {
        guard data["recovered"]?.array != nil || data["failed"]?.array != nil else { throw .missing("recovered") }
        let recovered = (data["recovered"]?.array ?? []).map { entry in
            var position: ChannelPosition?
            if let stream = entry["position"]?["stream_id"]?.string, let serial = entry["position"]?["serial"]?.int {
                position = UInt64(exactly: serial).map { ChannelPosition(streamID: stream, serial: $0) }
            }
            return (channel: entry["channel"]?.string, Answer.recovered(position))
        }
        return recovered + (data["failed"]?.array ?? []).map { (channel: $0["channel"]?.string, Self.failure(in: $0, redact: redact)) }
    }

    /// Returns the answer in `resume_failed`, which precedes `resume_success` for each channel whose events are not available.
    static func failure(in data: JSONValue, redact: (String) -> String) -> Answer {
        let code = data["code"]?.string ?? data["reason"]?.string ?? "the server gave no reason"
        return .failed(PusherRecoveryFailure(code: redact(code)))
    }

    /// Receives an answer. It has no effect if the client doesn't wait for one.
    mutating func answered(
        _ channel: NamedChannel, _ answer: Answer, _ context: SessionContext, _ effects: inout SessionEffects
    ) -> [[UInt8]] {
        guard self.recoveries[channel.id]?.state == .resuming else { return [] }
        switch answer {
        case .failed(let failure): return self.failed(channel, failure, context, &effects)
        case .recovered(let position):
            self.deadlines.set(channel.id, nil)
            self.interruptions[channel.id]?.since = nil
            return self.recoveries[channel.id]?.succeeded(at: position, isCache: channel.kind.isCache) ?? []
        }
    }

    /// Removes the first request whose time limit has expired.
    mutating func popTimedOut(_ now: Instant) -> ChannelID? { self.deadlines.popPassed(now: now) }

    /// Ends a recovery that has begun with a confirmation, or with an event that couldn't be restored.
    mutating func failed(
        _ channel: NamedChannel, _ failure: PusherRecoveryFailure, _ context: SessionContext, _ effects: inout SessionEffects
    ) -> [[UInt8]] {
        let events = self.recoveries[channel.id]?.failed() ?? []
        return self.failed(channel, failure, events, context, &effects)
    }

    /// Reports that events are missing.
    ///
    /// - Parameter events: The events that have waited.
    mutating func failed(
        _ channel: NamedChannel, _ failure: PusherRecoveryFailure, _ events: [[UInt8]], _ context: SessionContext,
        _ effects: inout SessionEffects
    ) -> [[UInt8]] {
        self.deadlines.set(channel.id, nil)
        if self.isInterrupted(channel.id) {
            effects.log(.info, "the missed events of \(channel.name) can't be recovered: \(failure)")
        }
        self.endGap(channel, failure: failure, context, &effects)
        return events
    }

    private mutating func request(
        _ channel: NamedChannel, after position: ChannelPosition, missingSince: Instant, _ context: SessionContext,
        _ effects: inout SessionEffects
    ) {
        guard context.connection != nil else { return }
        self.interrupted(channel.id, since: missingSince)
        effects.log(.debug, "recovering the events of \(channel.name) after \(position.serial)")
        context.send(PusherFrames.resume(channel.name, after: position), &effects)
        self.deadlines.set(channel.id, context.limit)
    }

    /// Reports that events may be missing, if the subscription was interrupted.
    ///
    /// - Parameter failure: Why they can't be recovered, if the client recovers events.
    private mutating func endGap(
        _ channel: NamedChannel, failure: PusherRecoveryFailure?, _ context: SessionContext,
        _ effects: inout SessionEffects
    ) {
        guard let interruption = self.interruptions[channel.id], let since = interruption.since else { return }
        self.interruptions[channel.id]?.since = nil
        let gap = PusherGap(channel: channel.name, duration: since.duration(to: context.now), recoveryFailure: failure)
        context.publish(.gap(gap), to: interruption.consumers, &effects)
    }
}
