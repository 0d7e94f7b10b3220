import RealtimeCoding
import RealtimeSystem
import PusherWire
import RealtimeCore

/// Version 2 of the protocol: the events that the server keeps, so that clients can recover those that they missed.
extension PusherServerMachine {
    /// The last events of a channel, for clients with version 2. It exists from the first subscription of one.
    struct History: Sendable {
        /// The position of the last event.
        private(set) var position: ChannelPosition
        /// The last events, oldest first: up to twice as many as the limit, so that removing the oldest ones is rare.
        private var events: [(message: TransportMessage, tags: EventTags?)] = []
        /// The bytes of the events.
        private(set) var bytes = 0
        /// When the events are no longer kept.
        var expiration: Instant

        init(streamID: String, expiration: Instant) {
            self.position = ChannelPosition(streamID: streamID, serial: 0)
            self.expiration = expiration
        }

        /// - Returns: The event with its position.
        mutating func append(_ message: TransportMessage, _ tags: EventTags?, limit: Int, expiration: Instant) -> TransportMessage {
            self.position.serial += 1
            let message = PusherFrames.positioned(message, at: self.position)
            if self.events.count - limit >= limit {
                let count = self.events.count - limit
                self.bytes -= self.events.prefix(count).reduce(0) { $0 + $1.message.bytes.count }
                self.events.removeFirst(count)
            }
            self.bytes += message.bytes.count
            self.events.append((message, tags))
            self.expiration = expiration
            return message
        }

        mutating func expire() { (self.events, self.bytes) = ([], 0) }

        /// Returns the events after a position in this history, or `nil` if some are no longer kept.
        func events(after serial: UInt64, limit: Int) -> ArraySlice<(message: TransportMessage, tags: EventTags?)>? {
            guard serial <= self.position.serial, let missing = Int(exactly: self.position.serial - serial),
                missing <= min(limit, self.events.count)
            else { return nil }
            return self.events.suffix(missing)
        }
    }

    /// The histories of the channels, limited in their number and their bytes. For another one, the least used one is forgotten, so that a
    /// client that subscribes to many channels doesn't take the histories of the others. Those without an event come first.
    struct Histories: Sendable {
        /// The bytes of all events.
        static let byteLimit = 128 << 20
        /// A history with an event counts as used this much later than one without.
        private static let advantage = Duration.seconds(1 << 30)
        /// How long the order may be outdated: each event would otherwise change it.
        private static let precision = Duration.seconds(1)

        private var histories: [ByteString: History] = [:]
        private var uses = Deadlines<ByteString, Void>()
        private var lastUses: [ByteString: Instant] = [:]
        private(set) var bytes = 0

        var count: Int { self.histories.count }

        subscript(name: ByteString) -> History? { self.histories[name] }

        /// Adds a history.
        mutating func insert(_ history: History, for name: ByteString, limit: Int, now: Instant) {
            while self.histories.count >= max(1, limit), let leastUsed = self.uses.earliestKey { self.remove(leastUsed) }
            self.histories[name] = history
            self.uses.set(name, now)
        }

        /// Adds an event to a history, if there is one.
        ///
        /// - Returns: The event with its position.
        mutating func append(
            _ message: TransportMessage, _ tags: EventTags?, to name: ByteString, limit: Int, expiration: Instant, now: Instant
        ) -> TransportMessage? {
            let before = self.histories[name]?.bytes ?? 0
            guard let message = self.histories[name]?.append(message, tags, limit: limit, expiration: expiration) else { return nil }
            self.bytes += (self.histories[name]?.bytes ?? 0) - before
            if self.lastUses[name].map({ now >= $0.advanced(by: Self.precision) }) ?? true {
                self.lastUses[name] = now
                self.uses.set(name, now.advanced(by: Self.advantage))
            }
            while self.bytes > Self.byteLimit, let leastUsed = self.uses.earliestKey, leastUsed != name { self.remove(leastUsed) }
            return message
        }

        /// Removes the events of a history, and keeps its position.
        mutating func expire(_ name: ByteString, expiration: Instant) {
            self.bytes -= self.histories[name]?.bytes ?? 0
            self.histories[name]?.expire()
            self.histories[name]?.expiration = expiration
        }

        mutating func remove(_ name: ByteString) {
            self.bytes -= self.histories.removeValue(forKey: name)?.bytes ?? 0
            self.uses.remove(name)
            self.lastUses[name] = nil
        }
    }

    var allowsRecovery: Bool { self.app.recoveryLimit > 0 }

    /// Whether clients may use version 2.
    var allowsVersion2: Bool { self.allowsRecovery || self.app.allowsFilters || self.app.allowsDeltaCompression }

    /// Whether the request asks for version 2.
    func isVersion2(_ version: String) -> Bool { self.allowsVersion2 && Int(version) == 2 }

    // MARK: Positions

    /// Adds the position to the confirmation of a subscription, for a client with version 2.
    mutating func positioned(
        _ message: TransportMessage, _ name: ByteString, for id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) -> TransportMessage {
        guard self.allowsRecovery, self.connections[id]?.isVersion2 == true, UserID.user(ofChannel: name.string) == nil else {
            return message
        }
        if self.histories[name] == nil { self.makeHistory(name, now: now, &effects) }
        return self.histories[name].map { PusherFrames.positioned(message, at: $0.position) } ?? message
    }

    private mutating func makeHistory(_ name: ByteString, now: Instant, _ effects: inout Effects<Self>) {
        let limit = self.app.cachedEventLimit
        guard limit > 0 else { return }
        if self.histories.count >= limit {
            effects.log(.info, "A channel exceeded the limit of \(limit) channels whose events are kept. The least used one is forgotten.")
        }
        let expiration = now.advanced(by: self.recoveryLifetime)
        self.histories.insert(History(streamID: self.makeStreamID(), expiration: expiration), for: name, limit: limit, now: now)
        self.timers.set(.history(name), expiration)
    }

    /// Sends an event to the subscribers of a channel, and keeps it for those that have lost their connection.
    ///
    /// - Parameters:
    ///   - event: The name of the event, if it may be sent as a delta.
    ///   - tags: The tags of the event, which filters refer to.
    ///   - except: The connection that doesn't receive it.
    mutating func broadcast(
        _ message: TransportMessage, event: String? = nil, to name: ByteString, tags: EventTags? = nil, except: ConnectionID?, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        let subscribers = self.channels[name]?.subscribers ?? SubscriberList()
        // Most servers have no clients with version 2, and there may be many subscribers.
        guard self.allowsVersion2 else {
            for subscriber in subscribers where subscriber != except { effects.commands.append(.send(subscriber, message)) }
            return
        }
        let expiration = now.advanced(by: self.recoveryLifetime)
        let limit = self.app.recoveryLimit
        let tagged = tags.map { PusherFrames.tagged(message, $0) } ?? message
        // It may have been forgotten since the subscriptions.
        if self.allowsRecovery, self.histories[name] == nil, UserID.user(ofChannel: name.string) == nil,
            subscribers.contains(where: { self.connections[$0]?.isVersion2 == true })
        {
            self.makeHistory(name, now: now, &effects)
        }
        let numbered = self.histories.append(tagged, tags, to: name, limit: limit, expiration: expiration, now: now) ?? tagged
        let version2 = PusherFrames.version2(numbered)
        var compressible: CompressibleEvent?
        if self.app.allowsDeltaCompression, let event, !ChannelName.kind(of: name.string).isEncrypted {
            compressible = CompressibleEvent(version2, event, on: name.string)
        }
        for subscriber in subscribers where subscriber != except {
            guard self.connections[subscriber]?.isVersion2 == true else {
                effects.commands.append(.send(subscriber, message))
                continue
            }
            guard self.passesFilter(of: subscriber, on: name, tags) else { continue }
            var frame: TransportMessage?
            if compressible != nil {
                self.updateEstablished(subscriber) { $0.withDeltas { frame = compressible?.frame(&$0) } }
            }
            effects.commands.append(.send(subscriber, frame ?? version2))
        }
    }

    private var recoveryLifetime: Duration { max(.milliseconds(1), self.app.recoveryLifetime) }

    private mutating func makeStreamID() -> String {
        let parts = [0, 0].map { _ in UInt64.random(in: .min ... .max, using: &self.generator) }
        return parts.map { String($0, radix: 16) }.joined(separator: "-")
    }

    /// The events of a channel may have expired. Without subscribers, the server also forgets the channel, and counts again later.
    mutating func historyExpired(_ name: ByteString, now: Instant) {
        guard let expiration = self.histories[name]?.expiration else { return }
        guard expiration <= now else { return self.timers.set(.history(name), expiration) }
        guard self.channels[name] != nil else { return self.histories.remove(name) }
        let next = now.advanced(by: self.recoveryLifetime)
        self.histories.expire(name, expiration: next)
        self.timers.set(.history(name), next)
    }

    /// The most bytes of events with which the server answers one request. Larger ones of later channels are not recovered, because one request
    /// with many channels could otherwise fill the memory.
    private static let replayLimit = 4 << 20

    // MARK: Requests

    /// Handles a request for missed events. The client has to be subscribed to the channels; sockudo doesn't require it.
    mutating func resume(_ id: ConnectionID, _ data: JSONValue, _ effects: inout Effects<Self>) throws(PusherFrameError) {
        guard self.allowsRecovery else { return self.sendError(4301, "Connection recovery is not enabled", to: id, &effects) }
        guard let positions = data["channel_positions"]?.object else { throw .missing("channel_positions") }
        var recovered: [(channel: String, replayed: Int, position: ChannelPosition)] = []
        var failed: [ResumeFailure] = []
        var replayed = 0
        for (channel, position) in positions {
            guard let serial = position["serial"]?.int.flatMap({ UInt64(exactly: $0) }) else { throw .missing("serial") }
            let (name, stream) = (ByteString(channel), position["stream_id"]?.string)
            func fail(_ code: String, _ reason: String) {
                let current = self.histories[name]?.position.streamID
                let failure = ResumeFailure(
                    channel: channel, code: code, reason: reason, expectedStreamID: stream, currentStreamID: current)
                failed.append(failure)
                self.send(PusherFrames.resumeFailed(failure), to: id, &effects)
            }
            guard self.isSubscribed(id, to: name), let history = self.histories[name] else {
                fail("position_expired", "channel_not_subscribed")
                continue
            }
            guard stream == nil || stream == history.position.streamID else {
                fail("stream_reset", "stream_id_mismatch")
                continue
            }
            guard let events = history.events(after: serial, limit: self.app.recoveryLimit) else {
                fail("position_expired", "hot_replay_expired")
                continue
            }
            let passing = events.filter { self.passesFilter(of: id, on: name, $0.tags) }
            replayed += passing.reduce(0) { $0 + $1.message.bytes.count }
            guard replayed <= Self.replayLimit else {
                fail("position_expired", "hot_replay_too_large")
                continue
            }
            for event in passing { self.send(event.message, to: id, &effects) }
            if !passing.isEmpty { self.replays &+= 1 }
            recovered.append((channel, passing.count, history.position))
        }
        self.send(PusherFrames.resumeSucceeded(recovered: recovered, failed: failed), to: id, &effects)
    }
}
