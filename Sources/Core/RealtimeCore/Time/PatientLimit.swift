/// A time limit for what a peer does.
///
/// If the limit passed during a standstill, it begins anew: what the peer sent meanwhile may not have arrived yet. This happens once, so that a busy
/// process still finds a dead peer.
package struct PatientLimit: Hashable, Sendable {
    /// A limit that never passes.
    package static var none: PatientLimit { PatientLimit(deadline: .max, nanoseconds: 0) }

    package private(set) var deadline: Instant
    /// The length of the limit; 0 if it doesn't begin anew any more.
    private var nanoseconds: Int64

    private init(deadline: Instant, nanoseconds: Int64) { (self.deadline, self.nanoseconds) = (deadline, nanoseconds) }

    /// A wait that no peer can end earlier, which doesn't begin anew.
    package static func wait(until deadline: Instant) -> PatientLimit { PatientLimit(deadline: deadline, nanoseconds: 0) }

    package init(_ length: Duration, now: Instant) { self.init(length.nanoseconds, now: now) }

    /// - Parameter nanoseconds: The length of the limit.
    package init(_ nanoseconds: Int64, now: Instant) { self.init(deadline: now + nanoseconds, nanoseconds: nanoseconds) }

    /// Returns whether the limit has passed, or begins it anew.
    package mutating func hasPassed(now: Instant) -> Bool {
        guard self.deadline <= now else { return false }
        guard self.nanoseconds > 0, self.deadline.passedDuringStandstill(now: now) else { return true }
        self = PatientLimit(deadline: now + self.nanoseconds, nanoseconds: 0)
        return false
    }
}
