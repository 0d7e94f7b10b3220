import RealtimeJSON
import PusherWire
import RealtimeCore

/// The recovery of events that were missed while a subscription was interrupted.
extension PusherSession {
    /// Receives an event from a server that numbers its events: delivers it, lets it wait for missed ones, or drops one that was delivered
    /// already.
    mutating func receivedRecoverable(
        _ frame: PusherFrame, now: Instant, _ writer: inout EventWriter, _ effects: inout Effects<Self>
    ) {
        guard let id = frame.channelName.flatMap({ self.channels.id(named: $0) }), let state = self.channels.state(of: id) else {
            return self.deliver(frame, now: now, &writer, &effects)
        }
        let isSubscribing = state == .subscribing || state == .subscribed
        var action: ChannelRecovery.Action?
        if let position = FramePosition(frame) {
            action = self.withRecovery(id) { $0.received(position, frame.bytes, isSubscribing: isSubscribing) }
            if action == nil { self.channels[id]?.recovery = ChannelRecovery(delivered: position.position) }
        } else if self.channels.kind(of: id)?.isCache == true {
            action = self.withRecovery(id) { $0.receivedCachedEvent(frame.bytes, isSubscribing: isSubscribing) }
        }
        switch action {
        case .deliver, nil: self.deliver(frame, now: now, &writer, &effects)
        case .hold: break
        case .drop: effects.counters.messagesIgnored += 1
        case .giveUp(let events): self.recoveryFailed(id, .tooManyEvents, events, now: now, &effects)
        }
    }

    /// Changes the recovery of a channel. The record doesn't share it meanwhile, so that the events that wait aren't copied.
    private mutating func withRecovery<Result>(_ id: ChannelID, _ change: (inout ChannelRecovery) -> Result) -> Result? {
        guard var recovery = self.channels[id]?.recovery else { return nil }
        self.channels[id]?.recovery = nil
        defer { self.channels[id]?.recovery = recovery }
        return change(&recovery)
    }

    /// Handles the position in a confirmation: requests the events that were missed, or reports that they are missing.
    mutating func confirmPosition(_ id: ChannelID, _ frame: PusherFrame, now: Instant, _ effects: inout Effects<Self>) {
        guard self.recoversEvents, let record = self.channels[id] else {
            return self.endInterruption(id, now: now, &effects)
        }
        self.recoveryDeadlines?.set(id, nil)
        guard let position = FramePosition(frame)?.position else {
            let events = self.channels[id]?.recovery?.failed() ?? []
            self.channels[id]?.recovery = nil
            return self.recoveryFailed(id, .notSupported, events, now: now, &effects)
        }
        switch self.channels[id]?.recovery?.confirmed(at: position, isCache: record.kind.isCache) {
        case nil:
            self.channels[id]?.recovery = ChannelRecovery(confirmed: position)
            self.endInterruption(id, failure: .notSupported, now: now, &effects)
        case .complete(let events): self.recoverySucceeded(id, events, now: now, &effects)
        case .reset(let events): self.recoveryFailed(id, .streamReset, events, now: now, &effects)
        case .resume(let position):
            // The events since the first confirmation may be missing as well, if this is another one.
            self.requestEvents(record, after: position, missingSince: record.confirmedAt ?? now, now: now, &effects)
        }
    }

    private mutating func requestEvents(
        _ record: ChannelRecord, after position: ChannelPosition, missingSince: Instant, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connection.connected else { return }
        self.interrupted(record.id, since: missingSince)
        effects.log(.debug, "recovering the events of \(record.name) after \(position.serial)")
        self.send(PusherFrames.resume(record.name, after: position), on: connection, &effects)
        let deadline = now.advanced(by: self.configuration.subscriptionTimeout)
        if self.recoveryDeadlines == nil { self.recoveryDeadlines = Deadlines() }
        self.recoveryDeadlines?.set(record.id, deadline)
    }

    /// Requests an event that arrived and was dropped, unless the missed events are requested already.
    mutating func requestDroppedEvent(_ record: ChannelRecord, now: Instant, _ effects: inout Effects<Self>) {
        guard let position = self.withRecovery(record.id, { $0.dropped() }) ?? nil else { return }
        self.requestEvents(record, after: position, missingSince: now, now: now, &effects)
    }

    /// Handles the position in the confirmation of another filter.
    mutating func filterReplaced(_ id: ChannelID, _ frame: PusherFrame) {
        guard self.recoversEvents, let position = FramePosition(frame)?.position else { return }
        let isCache = self.channels.kind(of: id)?.isCache == true
        self.channels[id]?.recovery?.filterReplaced(at: position, isCache: isCache)
    }

    /// Handles `resume_success`, which also lists the channels whose events are not available.
    mutating func resumeSucceeded(_ data: JSONValue, now: Instant, _ effects: inout Effects<Self>) throws(PusherFrameError) {
        guard data["recovered"]?.array != nil || data["failed"]?.array != nil else { throw .missing("recovered") }
        for entry in data["recovered"]?.array ?? [] {
            guard let id = self.recoveringChannel(entry["channel"]?.string) else { continue }
            var position: ChannelPosition?
            if let stream = entry["position"]?["stream_id"]?.string, let serial = entry["position"]?["serial"]?.int {
                position = UInt64(exactly: serial).map { ChannelPosition(streamID: stream, serial: $0) }
            }
            let isCache = self.channels.kind(of: id)?.isCache == true
            let events = self.channels[id]?.recovery?.succeeded(at: position, isCache: isCache) ?? []
            self.recoverySucceeded(id, events, now: now, &effects)
        }
        for entry in data["failed"]?.array ?? [] { self.resumeFailed(entry["channel"]?.string, entry, now: now, &effects) }
    }

    /// Handles `resume_failed`, which precedes `resume_success` for each channel whose events are not available.
    mutating func resumeFailed(_ channel: String?, _ data: JSONValue, now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.recoveringChannel(channel) else { return }
        let code = data["code"]?.string ?? data["reason"]?.string ?? "the server gave no reason"
        self.recoveryFailed(id, PusherRecoveryFailure(code: self.redacted(code)), now: now, &effects)
    }

    /// Fails the oldest of the requests that the server hasn't answered: it answers them in their order, and each on its own.
    mutating func resumeRejected(_ server: ServerError, now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.recoveryDeadlines?.earliestKey, let name = self.channels[id]?.name else { return }
        let isTurnedOff = server.code == Int(PusherCloseCode.clientEventRejected.rawValue)
        self.recoveryFailed(id, isTurnedOff ? .notSupported : .other(server.message), now: now, &effects)
        let message = "The server rejected the request for the missed events of \(name): \(server.message)"
        effects.log(.warning, message)
        self.publish(.error(PusherError(.server, message, channel: name, serverCode: server.code)), to: self.clientRoutes.errors, &effects)
    }

    mutating func recoveryTimeouts(now: Instant, _ effects: inout Effects<Self>) {
        while let due = self.recoveryDeadlines?.popDue(now) { self.recoveryFailed(due.key, .timedOut, now: now, &effects) }
    }

    /// The subscription was lost or has failed.
    mutating func recoveryLost(_ id: ChannelID) {
        guard self.recoversEvents else { return }
        self.recoveryDeadlines?.set(id, nil)
        self.channels[id]?.recovery?.lost()
    }

    /// Applies a change of the settings. The events since the last ones that were delivered remain missing if recovery ends.
    mutating func recoveryChanged(isOn: Bool) {
        if self.recoversEvents, !isOn {
            self.recoveryDeadlines = nil
            for id in self.channels.ids { self.channels[id]?.recovery = nil }
        }
        self.recoversEvents = isOn
    }

    private func recoveringChannel(_ name: String?) -> ChannelID? {
        guard let id = name.flatMap({ self.channels.id(named: $0) }), self.channels[id]?.recovery?.state == .resuming else { return nil }
        return id
    }

    private mutating func recoverySucceeded(_ id: ChannelID, _ events: [[UInt8]], now: Instant, _ effects: inout Effects<Self>) {
        self.recoveryDeadlines?.set(id, nil)
        self.channels[id]?.lostSince = nil
        self.deliver(events, now: now, &effects)
    }

    /// Ends a recovery that has begun with a confirmation, or with an event that couldn't be restored.
    private mutating func recoveryFailed(
        _ id: ChannelID, _ failure: PusherRecoveryFailure, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let record = self.channels[id] else { return }
        let events = self.channels[id]?.recovery?.failed() ?? []
        // No event is missing since the confirmation: newer ones have waited. The confirmation can precede an event that couldn't be restored.
        var gapEnd = record.confirmedAt
        if let since = record.lostSince, let confirmed = gapEnd, confirmed < since { gapEnd = nil }
        self.recoveryFailed(id, failure, events, gapEnd: gapEnd, now: now, &effects)
    }

    /// Reports that events are missing, and delivers those that have waited.
    ///
    /// - Parameter gapEnd: Until when events may be missing, if it isn't now.
    private mutating func recoveryFailed(
        _ id: ChannelID, _ failure: PusherRecoveryFailure, _ events: [[UInt8]], gapEnd: Instant? = nil, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        self.recoveryDeadlines?.set(id, nil)
        if let record = self.channels[id], record.lostSince != nil {
            effects.log(.info, "the missed events of \(record.name) can't be recovered: \(failure)")
        }
        self.endInterruption(id, failure: failure, now: gapEnd ?? now, &effects)
        self.deliver(events, now: now, &effects)
    }

    /// Delivers events that have waited.
    private mutating func deliver(_ events: [[UInt8]], now: Instant, _ effects: inout Effects<Self>) {
        for text in events {
            var writer = EventWriter(atMost: text.count)
            text.withUnsafeBytes { bytes in
                // They were scanned before.
                guard let frame = try? PusherFrame(scanning: bytes) else { return }
                self.deliver(frame, now: now, &writer, &effects)
            }
        }
    }
}
