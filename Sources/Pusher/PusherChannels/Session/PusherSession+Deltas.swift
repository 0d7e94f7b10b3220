import PusherWire
import RealtimeCore
import RealtimeEncoding
import RealtimeJSON
import RealtimeSystem

/// Events that arrive as deltas from earlier ones.
extension PusherSession {
    /// Whether the client requests deltas.
    enum DeltaSupport: Hashable, Sendable {
        case off, on
        /// The server uses an algorithm that the client doesn't have.
        case refused
    }

    /// Applies a change of the settings.
    mutating func deltaCompressionChanged(_ compression: PusherDeltaCompression?, isOtherServer: Bool) {
        if compression == nil {
            self.deltaSupport = .off
        } else if self.deltaSupport == .off || isOtherServer {
            self.deltaSupport = .on
        }
    }

    /// Whose events a delta refers to.
    private enum BaseOwner {
        case channel(ChannelID)
        /// The user who is signed in, and has a channel that isn't one of the application.
        case user
    }

    private func baseOwner(_ channel: String?) -> BaseOwner? {
        guard let channel else { return nil }
        if let id = self.channels.id(named: channel) { return .channel(id) }
        return self.user?.channel.map { ByteString($0) } == ByteString(channel) ? .user : nil
    }

    private subscript(bases owner: BaseOwner) -> DeltaBases? {
        get {
            switch owner {
            case .channel(let id): self.channels[id]?.deltaBases
            case .user: self.user?.deltaBases
            }
        }
        set {
            switch owner {
            case .channel(let id): self.channels[id]?.deltaBases = newValue
            case .user: self.user?.deltaBases = newValue
            }
        }
    }

    /// Keeps the text of a complete event, if later deltas refer to it.
    mutating func keepBase(_ frame: PusherFrame) {
        guard frame.channel.kind.isString, let sequence = FrameSequence(frame), let owner = self.baseOwner(frame.channelName) else {
            return
        }
        self.setBase(owner, DeltaBases.Base(frame.eventName, group: sequence.group, sequence: sequence.number, text: sequence.text))
    }

    private mutating func setBase(_ owner: BaseOwner, _ base: DeltaBases.Base) {
        var bases = self[bases: owner] ?? DeltaBases()
        // The owner doesn't share them meanwhile, so that they aren't copied.
        self[bases: owner] = nil
        bases.set(base)
        self[bases: owner] = bases
    }

    /// Handles `delta_compression_enabled`.
    ///
    /// - Returns: `false` if the connection was abandoned.
    mutating func deltaCompressionEnabled(_ data: JSONValue, now: Instant, _ effects: inout Effects<Self>) -> Bool {
        guard let algorithm = data["algorithm"]?.string, algorithm != DeltaPayload.fossil else { return true }
        self.refuseDeltas(algorithm, now: now, &effects)
        return false
    }

    /// Reconnects without compression. A server has no request that ends it on a connection.
    private mutating func refuseDeltas(_ algorithm: String, now: Instant, _ effects: inout Effects<Self>) {
        self.deltaSupport = .refused
        let name = Excerpt.of(algorithm, limit: 40)
        let message = "The server compresses events with \(name), which the client doesn't support. It reconnects without deltaCompression."
        effects.log(.warning, message)
        self.publish(.error(PusherError(.deltaFailed, message)), to: self.clientRoutes.errors, &effects)
        self.reconnect(now: now, &effects)
    }

    /// Handles `delta_cache_sync`: the last events of a channel, to which the first deltas refer.
    mutating func receivedBases(_ channel: String?, _ data: JSONValue) {
        guard let owner = self.baseOwner(channel) else { return }
        let hasGroups = data["conflation_key"]?.string != nil
        for (key, events) in data["states"]?.object ?? JSONObject() {
            guard let last = events.array?.last, let sequence = last["seq"]?.int, let text = last["content"]?.string,
                let event = (try? JSONValue(parsing: text))?["event"]?.string
            else { continue }
            self.setBase(owner, DeltaBases.Base(event, group: hasGroups ? key : nil, sequence: sequence, text: Array(text.utf8)))
        }
    }

    /// Handles an event that arrives as a delta.
    ///
    /// - Returns: The text of the frame of the complete event, or `nil` if it can't be restored.
    mutating func restored(
        _ frame: PusherFrame, on connection: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) -> [UInt8]? {
        let delta = try DeltaPayload(try frame.dataValue())
        // Valid: events may arrive after the client has unsubscribed.
        guard let owner = self.baseOwner(frame.channelName) else {
            effects.counters.messagesIgnored += 1
            return nil
        }
        guard delta.algorithm == DeltaPayload.fossil else {
            self.refuseDeltas(delta.algorithm, now: now, &effects)
            return nil
        }
        let base = self[bases: owner]?.base(delta.event, group: delta.group)
        guard let base, let text = base.text, delta.base == nil || delta.base == base.sequence else {
            let reason = "the event that it refers to is unknown"
            self.deltaFailed(owner, delta, reason, isRequested: base != nil && base?.text == nil, on: connection, now: now, &effects)
            return nil
        }
        var reason = "the result isn't valid UTF-8"
        do throws(FossilDeltaError) {
            let result = try FossilDelta.apply(delta.delta, to: text, limit: self.configuration.messageLimit)
            if String(validUTF8: result) != nil {
                self.setBase(owner, DeltaBases.Base(delta.event, group: delta.group, sequence: delta.sequence, text: result))
                return result
            }
        } catch {
            reason = "\(error)"
        }
        self.deltaFailed(owner, delta, reason, isRequested: false, on: connection, now: now, &effects)
        return nil
    }

    /// Drops an event, and requests what is missing.
    ///
    /// - Parameter isRequested: Whether the server has been asked for a complete event already.
    private mutating func deltaFailed(
        _ owner: BaseOwner, _ delta: DeltaPayload, _ reason: String, isRequested: Bool, on connection: ConnectionID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        effects.counters.messagesIgnored += 1
        let record: ChannelRecord?
        let channel: String
        switch owner {
        case .channel(let id):
            // Otherwise, the event belongs to a subscription that the client has given up.
            guard let found = self.channels[id], found.machine.state == .subscribed || found.filter?.isReplacing == true else { return }
            (record, channel) = (found, found.name)
        case .user: (record, channel) = (nil, self.user?.channel ?? "")
        }
        self.setBase(owner, DeltaBases.Base(delta.event, group: delta.group, sequence: delta.sequence, text: nil))
        if !isRequested {
            let event = Excerpt.of(delta.event, limit: 200)
            let message =
                "Cannot restore the event \"\(event)\" of \(channel) from a delta: \(reason). The client requests complete events."
            effects.log(.warning, message)
            self.publish(.error(PusherError(.deltaFailed, message, channel: channel)), to: self.clientRoutes.errors, &effects)
            self.send(PusherFrames.deltaSyncError(channel), on: connection, &effects)
        }
        // Gaps are those of channels; the events of the user can't be recovered.
        guard let record else { return }
        // While missed events are on their way, the event is one of them: the server sent it before it received the request.
        if self.recoversEvents, record.recovery != nil { return self.requestDroppedEvent(record, now: now, &effects) }
        self.interrupted(record.id, since: now)
        self.endInterruption(record.id, failure: self.recoversEvents ? .notSupported : nil, now: now, &effects)
    }
}
