internal import RealtimeCore

/// A deadline that moves with every request, and asks the clock for a wake-up only when there is none that comes before.
struct CoalescedTimer: Sendable {
    private var wanted: Instant?
    private var armed: Instant?

    var isSet: Bool { self.wanted != nil }

    /// What the clock's wake-up means.
    enum Outcome: Sendable, Equatable {
        case due
        /// Not yet: wake up again at that time.
        case later(Instant)
        case nothing
    }

    /// Moves it. What it returns is to be asked of the clock; mostly nothing.
    mutating func move(to instant: Instant?) -> Instant? {
        self.wanted = instant
        guard let instant else { return nil }
        if let armed = self.armed, armed <= instant { return nil }
        self.armed = instant
        return instant
    }

    /// The clock woke its owner.
    mutating func wokenUp(now: Instant) -> Outcome {
        self.armed = nil
        guard let wanted = self.wanted else { return .nothing }
        guard wanted <= now else {
            self.armed = wanted
            return .later(wanted)
        }
        self.wanted = nil
        return .due
    }
}
