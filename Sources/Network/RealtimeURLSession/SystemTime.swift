internal import RealtimeSystem
internal import Dispatch
package import RealtimeCore

/// The device's clock, and one timer for all that sleep.
///
/// Its time goes on while the device sleeps, and its timer looks at the wall clock for the same reason: on waking, a
/// connection that was silent for an hour is found out at once. A wall clock that is set makes the timer early, and then
/// it is set again, or late.
///
/// `@unchecked Sendable`: a dispatch source may be used from any thread, and everything else is behind the lock.
package final class SystemTime: TimeSource, @unchecked Sendable {
    package static let shared = SystemTime()

    private struct State: Sendable {
        var wishes = TimerQueue()
        var armed: Instant?
    }

    private let state = Lock(State())
    private let timer: any DispatchSourceTimer

    package init() {
        let queue = DispatchQueue(label: "realtime.time", qos: .userInitiated)
        self.timer = DispatchSource.makeTimerSource(queue: queue)
        self.timer.setEventHandler { [weak self] in self?.wakeDue() }
        self.timer.activate()
    }

    deinit { self.timer.cancel() }

    package var now: Instant {
        #if canImport(Darwin)
        return Instant(nanoseconds: Int64(clamping: clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW)))
        #else
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
        #endif
    }

    package func schedule(_ client: any TimerClient, at instant: Instant?) {
        self.state.withLock { state in
            state.wishes.set(client, instant)
            self.arm(&state)
        }
    }

    private func wakeDue() {
        self.state.withLock { $0.armed = nil }
        let now = self.now
        while let due = self.state.withLock({ $0.wishes.popDue(now) }) { due.client?.timerFired() }
        self.state.withLock { self.arm(&$0) }
    }

    /// Under the lock, or two threads could leave the later of two wishes standing. Setting a timer calls nobody back.
    private func arm(_ state: inout State) {
        guard let earliest = state.wishes.earliest, state.armed.map({ earliest < $0 }) ?? true else { return }
        state.armed = earliest
        let nanoseconds = max(0, min(self.now.duration(to: earliest).nanoseconds, 1_000_000_000_000_000))
        self.timer.schedule(wallDeadline: .now() + .nanoseconds(Int(nanoseconds)), leeway: .milliseconds(1))
    }
}
