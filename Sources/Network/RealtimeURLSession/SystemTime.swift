internal import RealtimeSystem
internal import Dispatch
package import RealtimeCore

/// The device's clock, with one system timer for all timers.
///
/// The clock continues while the device sleeps. The system timer uses the wall clock for the same reason: when the device wakes up, a
/// connection that has been silent for an hour is detected immediately. If the wall clock is changed, the system timer fires early and is
/// set again, or fires late.
///
/// `@unchecked Sendable`: a dispatch source may be used from any thread, and everything else is behind the lock.
package final class SystemTime: TimeSource, @unchecked Sendable {
    package static let shared = SystemTime()

    private struct State: Sendable {
        var queue = TimerQueue()
        var timer = CoalescedTimer()
    }

    private let state = Lock(State())
    private let queue = DispatchQueue(label: "realtime.time", qos: .userInitiated)
    private let source: any DispatchSourceTimer

    package init() {
        self.source = DispatchSource.makeTimerSource(queue: self.queue)
        self.source.setEventHandler { [weak self] in self?.fireTimers() }
        self.source.activate()
    }

    deinit { self.source.cancel() }

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
            state.queue.set(client, instant)
            self.update(&state)
        }
    }

    package func performLater(_ job: @escaping @Sendable () -> Void) -> Bool {
        self.queue.async(execute: job)
        return true
    }

    private func fireTimers() {
        let now = self.now
        self.state.withLock { state in
            if case .early(let instant) = state.timer.fired(now: now) { self.set(instant) }
        }
        while let due = self.state.withLock({ $0.queue.popDue(now) }) { due.client?.timerFired() }
        self.state.withLock { self.update(&$0) }
    }

    /// Called under the lock: otherwise two threads could leave the later of two instants set.
    private func update(_ state: inout State) {
        if let instant = state.timer.setDeadline(state.queue.earliest) { self.set(instant) }
    }

    /// Setting a dispatch timer calls nothing back, so this is safe under the lock.
    private func set(_ instant: Instant) {
        let nanoseconds = max(0, min(self.now.duration(to: instant).nanoseconds, 1_000_000_000_000_000))
        // In two parts: `Int` has 32 bits on some watches, and would hold two seconds of nanoseconds.
        let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        self.source.schedule(wallDeadline: .now() + .seconds(Int(seconds)) + .nanoseconds(Int(rest)), leeway: .milliseconds(1))
    }
}
