import PusherWire

/// The position of a channel in the server's history of its events, and the events that wait until the missed ones have arrived.
///
/// ```
///   live ──the subscription is lost──▶ interrupted ──confirmed, at a later position──▶ resuming
///     ▲                                   ▲                                               │  │
///     │                                   └──────────── the subscription is lost ─────────┘  │
///     └────────────── succeeded, failed, timed out, or too many events wait ─────────────────┘
/// ```
/// An event that arrives and can't be restored leads from `live` to `resuming` as well.
/// If nothing was missed, or the history is a different one, the confirmation leads from `interrupted` to `live`.
///
/// The serial of an event is larger than all earlier ones, but serials need not be consecutive: a server may not send some events to
/// some subscribers. Live events can therefore have any larger serial. While events are missing, an event is only delivered
/// immediately if it is the next one. All others wait, because a live event can arrive before the missed ones.
struct ChannelRecovery: Sendable {
    enum State: Hashable, Sendable { case live, interrupted, resuming }

    /// The decision about an event.
    enum Action: Hashable, Sendable {
        case deliver, drop, hold
        /// Too many events wait. Report that events are missing, and deliver these, which include the received one.
        case giveUp([[UInt8]])
    }

    /// The decision after the server has confirmed the subscription.
    enum Confirmation: Hashable, Sendable {
        /// Nothing was missed. Deliver these events.
        case complete([[UInt8]])
        /// Request the events after this position.
        case resume(after: ChannelPosition)
        /// The server has begun to count again. Report that events are missing, and deliver these.
        case reset([[UInt8]])
    }

    /// The limits of what waits for missed events.
    static let countLimit = 1_000, byteLimit = 1 << 20

    private(set) var state = State.live
    /// Events up to this position have arrived, or have been reported as missing, or precede the first subscription.
    private(set) var position: ChannelPosition
    /// The serial of the last event that was delivered, if any. Until then, events up to `position` are delivered as well: the serial in a
    /// confirmation can belong to an event that arrives after it.
    private var delivered: UInt64?
    /// The position in the last confirmation.
    private var confirmed: ChannelPosition?
    /// The texts of the events that wait, by serial, and the history that they belong to.
    private var held: [UInt64: [UInt8]] = [:]
    private var heldBytes = 0
    private var heldStreamID: String?
    private var cachedEvent: CachedEvent

    /// Begins with the confirmation of a subscription.
    init(confirmed position: ChannelPosition) {
        self.position = position
        self.confirmed = position
        self.cachedEvent = CachedEvent(isMissing: true)
    }

    /// Begins with an event that arrived before the confirmation, and is delivered.
    init(delivered position: ChannelPosition) {
        self.position = position
        self.delivered = position.serial
        self.cachedEvent = CachedEvent(isMissing: false)
    }

    /// Receives an event with a position.
    ///
    /// - Parameters:
    ///   - text: The text of the event.
    ///   - isSubscribing: Whether the client is subscribed, or awaits the confirmation. If not, the event belongs to a subscription that the
    ///     client has given up.
    mutating func received(_ event: FramePosition, _ text: UnsafeRawBufferPointer, isSubscribing: Bool) -> Action {
        let isInStream = event.isIn(self.position.streamID)
        if isInStream, let delivered, event.serial <= delivered { return .drop }
        switch self.state {
        case .live: break
        case .interrupted where !isSubscribing:
            self.removeHeld()
            self.cachedEvent.dropHeld()
            self.state = .live
        case .resuming where isInStream && event.serial == self.position.serial &+ 1: break
        case .interrupted, .resuming:
            guard self.held.updateValue(Array(text), forKey: event.serial) == nil else { return .drop }
            self.heldBytes += text.count
            if !isInStream || self.heldStreamID == nil { self.heldStreamID = event.streamID }
            if self.held.count <= Self.countLimit, self.heldBytes <= Self.byteLimit { return .hold }
            return .giveUp(self.failed())
        }
        if isInStream {
            self.position.serial = max(self.position.serial, event.serial)
        } else {
            self.position = event.position
        }
        self.delivered = event.serial
        self.cachedEvent.superseded()
        return .deliver
    }

    /// Receives an event of a cache channel without a position.
    mutating func receivedCachedEvent(_ text: UnsafeRawBufferPointer, isSubscribing: Bool) -> CachedEvent.Action {
        self.cachedEvent.received(text, mustWait: self.state != .live && isSubscribing)
    }

    /// The server has no last event of a cache channel.
    mutating func cacheMissed() { self.cachedEvent.missed() }

    /// The subscription was lost. The events that wait will arrive again.
    mutating func lost() {
        self.removeHeld()
        self.cachedEvent.lost()
        self.state = .interrupted
    }

    /// Receives the confirmation of another filter, while no event is missing. Events up to its position are not recovered later: they were
    /// published before the change.
    ///
    /// - Parameter isCache: Whether the server repeats the last event after it.
    mutating func filterReplaced(at position: ChannelPosition, isCache: Bool) {
        guard self.state == .live, position.streamID == self.position.streamID else { return }
        self.position.serial = max(self.position.serial, position.serial)
        self.cachedEvent.confirmed(isCache: isCache, isDelivered: true)
    }

    /// An event was dropped that the client couldn't restore.
    ///
    /// - Returns: The position after which to request events, or `nil` if they are on their way.
    mutating func dropped() -> ChannelPosition? {
        guard self.state == .live else { return nil }
        self.state = .resuming
        self.delivered = self.delivered ?? self.position.serial
        // No confirmation is on its way, after which the server would repeat the last event of a cache channel.
        self.confirmed = nil
        return self.position
    }

    /// Receives a confirmation.
    ///
    /// - Parameter isCache: Whether the server repeats the last event after it.
    mutating func confirmed(at position: ChannelPosition, isCache: Bool) -> Confirmation {
        self.confirmed = position
        if position.streamID != self.position.streamID || position.serial < self.position.serial {
            (self.position, self.delivered) = (position, nil)
            self.cachedEvent.begun()
            return .reset(self.failed())
        }
        if position.serial == self.position.serial {
            let events = self.takeHeld()
            if !events.isEmpty { self.cachedEvent.superseded() }
            self.cachedEvent.dropHeld()
            self.cachedEvent.confirmed(isCache: isCache)
            return .complete(events)
        }
        self.state = .resuming
        self.delivered = self.delivered ?? self.position.serial
        return .resume(after: self.position)
    }

    /// The server has sent all missed events.
    ///
    /// - Returns: The events to deliver now.
    mutating func succeeded(at position: ChannelPosition?, isCache: Bool) -> [[UInt8]] {
        for position in [self.confirmed, position].compactMap({ $0 }) where position.streamID == self.position.streamID {
            self.position.serial = max(self.position.serial, position.serial)
        }
        if self.held.keys.contains(where: { $0 <= self.position.serial }) { self.cachedEvent.superseded() }
        let isRepeated = self.confirmed != nil && !self.cachedEvent.isHeld
        let events = self.takeHeldWithCachedEvent()
        self.cachedEvent.confirmed(isCache: isCache && isRepeated)
        return events
    }

    /// The missed events are not available.
    ///
    /// - Returns: The events to deliver after reporting that others are missing.
    mutating func failed() -> [[UInt8]] {
        if let confirmed, confirmed.streamID == self.position.streamID, confirmed.serial > self.position.serial {
            self.position.serial = confirmed.serial
            self.cachedEvent.begun()
        }
        // Some of the missed events have arrived, among them perhaps the last one.
        if let confirmed, self.held.keys.contains(where: { $0 <= confirmed.serial }) { self.cachedEvent.superseded() }
        return self.takeHeldWithCachedEvent()
    }

    /// Returns the events that wait, after the last event of a cache channel if it wasn't delivered.
    private mutating func takeHeldWithCachedEvent() -> [[UInt8]] {
        let cachedEvent = self.cachedEvent.takeHeld()
        let events = (cachedEvent.map { [$0] } ?? []) + self.takeHeld()
        if !events.isEmpty { self.cachedEvent.superseded() }
        return events
    }

    /// Returns the events that wait, in the order of their serials, and continues after them.
    private mutating func takeHeld() -> [[UInt8]] {
        if let heldStreamID, heldStreamID != self.position.streamID {
            self.position = ChannelPosition(streamID: heldStreamID, serial: 0)
            self.delivered = nil
        }
        let events = self.held.sorted { $0.key < $1.key }.filter { event in self.delivered.map { event.key > $0 } ?? true }
        if let last = events.last?.key {
            self.delivered = last
            self.position.serial = max(self.position.serial, last)
        }
        self.removeHeld()
        self.state = .live
        return events.map(\.value)
    }

    private mutating func removeHeld() {
        (self.held, self.heldBytes, self.heldStreamID) = ([:], 0, nil)
    }
}
