/// A time limit for what a peer does.
///
/// If the limit passed during a standstill, it begins anew: what the peer sent meanwhile may not have arrived yet. This happens once, so that a busy
/// process still finds a dead peer.
package struct PatientLimit: Sendable {
    package private(set) var deadline: Instant
    private var hasBeenPatient = false

    package init(until deadline: Instant) {
        self.deadline = deadline
    }

    /// Returns whether the limit has passed, or begins it anew.
    ///
    /// - Parameter nanoseconds: The length of the limit.
    package mutating func hasPassed(after nanoseconds: Int64, now: Instant) -> Bool {
        guard self.deadline <= now else { return false }
        guard !self.hasBeenPatient, self.deadline.passedDuringStandstill(now: now) else { return true }
        self.hasBeenPatient = true
        self.deadline = now + nanoseconds
        return false
    }
}
