/// The last event of a cache channel, which the server repeats after a confirmation, without its position.
///
/// Whether the repeated event was delivered already, and whether it may be delivered before others have arrived, follows from the
/// confirmations and from the events with positions.
struct CachedEvent: Hashable, Sendable {
    /// The decision about the event.
    enum Action: Hashable, Sendable { case deliver, drop, hold }

    /// Whether the next event without a position was delivered already, with its position.
    private var isRepeated = false
    /// Whether the last event wasn't delivered, although its position isn't a new one: from a confirmation that begins a position until the
    /// event, or a newer one, arrives.
    private var isMissing: Bool
    /// The text of the event that waits for missed ones.
    private var held: [UInt8]?

    init(isMissing: Bool) {
        self.isMissing = isMissing
    }

    /// Whether an event waits.
    var isHeld: Bool { self.held != nil }

    /// Receives the event.
    ///
    /// - Parameter mustWait: Whether earlier events are missing, which come first.
    mutating func received(_ text: UnsafeRawBufferPointer, mustWait: Bool) -> Action {
        if self.isRepeated {
            self.isRepeated = false
            return .drop
        }
        guard mustWait else {
            self.isMissing = false
            return .deliver
        }
        self.held = Array(text)
        return .hold
    }

    /// A newer event was delivered, or waits to be.
    mutating func superseded() { self.isMissing = false }

    /// A position begins with a confirmation, without its events.
    mutating func begun() { self.isMissing = true }

    /// The server has no last event.
    mutating func missed() { (self.isRepeated, self.isMissing) = (false, false) }

    /// The server repeats the event next, if the channel is a cache channel.
    ///
    /// - Parameter isDelivered: Whether the event was delivered in any case.
    mutating func confirmed(isCache: Bool, isDelivered: Bool = false) { self.isRepeated = isCache && (isDelivered || !self.isMissing) }

    /// The subscription was lost. The event will be repeated.
    mutating func lost() { (self.isRepeated, self.held) = (false, nil) }

    /// Drops the event that waits.
    mutating func dropHeld() { self.held = nil }

    /// Removes the event that waits.
    ///
    /// - Returns: The event, unless it was delivered with its position.
    mutating func takeHeld() -> [UInt8]? {
        defer { self.held = nil }
        guard self.isMissing, let held else { return nil }
        self.isMissing = false
        return held
    }
}
