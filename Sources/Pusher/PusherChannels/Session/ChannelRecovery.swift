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
/// If nothing was missed, or the history is another one, the confirmation leads from `interrupted` to `live`.
///
/// The serial of an event is larger than those of all earlier ones, but they need not be consecutive: a server may not send some events to
/// some subscribers. Live events can therefore have any larger serial. While events are missing, an event is only delivered
/// immediately if it is the next one. All others wait, because a live event can arrive before the missed ones.
struct ChannelRecovery: Sendable {
    enum State: Hashable, Sendable { case live, interrupted, resuming }

    /// What to do with an event.
    enum Action: Hashable, Sendable {
        case deliver, drop, hold
        /// Too many events wait. Report that events are missing, and deliver these, which include the received one.
        case giveUp([[UInt8]])
    }

    /// What to do when the server has confirmed the subscription.
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
    /// confirmation can be that of an event that arrives after it.
    private var delivered: UInt64?
    /// The position in the last confirmation.
    private var confirmed: ChannelPosition?
    /// The texts of the events that wait, by serial, and the history that they belong to.
    private var held: [UInt64: [UInt8]] = [:]
    private var heldBytes = 0
    private var heldStreamID: String?
    /// The last event of a cache channel, which the server repeats after a confirmation, without its position.
    private var heldCachedEvent: [UInt8]?
    /// Whether the next event without a position is the last one of a cache channel, which was delivered already.
    private var skipsCachedEvent = false
    /// Whether the last event of a cache channel wasn't delivered, although its serial isn't larger than that of the position. It is so from
    /// a confirmation that begins a position until the event arrives, or a newer one.
    private var missesCachedEvent: Bool

    /// Begins with the confirmation of a subscription.
    init(confirmed position: ChannelPosition) {
        self.position = position
        self.confirmed = position
        self.missesCachedEvent = true
    }

    /// Begins with an event that arrived before the confirmation, and is delivered.
    init(delivered position: ChannelPosition) {
        self.position = position
        self.delivered = position.serial
        self.missesCachedEvent = false
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
        self.missesCachedEvent = false
        return .deliver
    }

    /// Receives an event of a cache channel without a position.
    mutating func receivedCachedEvent(_ text: UnsafeRawBufferPointer, isSubscribing: Bool) -> Action {
        if self.skipsCachedEvent {
            self.skipsCachedEvent = false
            return .drop
        }
        guard self.state != .live, isSubscribing else {
            self.missesCachedEvent = false
            return .deliver
        }
        self.heldCachedEvent = Array(text)
        return .hold
    }

    /// The server has no last event of a cache channel.
    mutating func cacheMissed() { (self.skipsCachedEvent, self.missesCachedEvent) = (false, false) }

    /// The subscription was lost. The events that wait will arrive again.
    mutating func lost() {
        self.removeHeld()
        self.skipsCachedEvent = false
        self.state = .interrupted
    }

    /// Receives the confirmation of another filter, while no event is missing. Events up to its position are not recovered later: they were
    /// published before the change.
    ///
    /// - Parameter isCache: Whether the server repeats the last event after it.
    mutating func filterReplaced(at position: ChannelPosition, isCache: Bool) {
        guard self.state == .live, position.streamID == self.position.streamID else { return }
        self.position.serial = max(self.position.serial, position.serial)
        self.skipsCachedEvent = isCache
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
            (self.position, self.delivered, self.missesCachedEvent) = (position, nil, true)
            return .reset(self.failed())
        }
        if position.serial == self.position.serial {
            let events = self.takeHeld()
            if !events.isEmpty { self.missesCachedEvent = false }
            self.skipsCachedEvent = isCache && !self.missesCachedEvent
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
        if self.held.keys.contains(where: { $0 <= self.position.serial }) { self.missesCachedEvent = false }
        let isCachedEventHeld = self.heldCachedEvent != nil
        let events = self.takeHeldWithCachedEvent()
        self.skipsCachedEvent = isCache && self.confirmed != nil && !isCachedEventHeld && !self.missesCachedEvent
        return events
    }

    /// The missed events are not available.
    ///
    /// - Returns: The events to deliver after reporting that others are missing.
    mutating func failed() -> [[UInt8]] {
        if let confirmed, confirmed.streamID == self.position.streamID, confirmed.serial > self.position.serial {
            self.position.serial = confirmed.serial
            self.missesCachedEvent = true
        }
        // Some of the missed events have arrived, among them perhaps the last one.
        if let confirmed, self.held.keys.contains(where: { $0 <= confirmed.serial }) { self.missesCachedEvent = false }
        return self.takeHeldWithCachedEvent()
    }

    /// Returns the events that wait, after the last event of a cache channel if it wasn't delivered.
    private mutating func takeHeldWithCachedEvent() -> [[UInt8]] {
        let cachedEvent = self.missesCachedEvent ? self.heldCachedEvent.map { [$0] } ?? [] : []
        let events = cachedEvent + self.takeHeld()
        if !events.isEmpty { self.missesCachedEvent = false }
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
        (self.held, self.heldBytes, self.heldStreamID, self.heldCachedEvent) = ([:], 0, nil, nil)
    }
}
