#if os(Linux)
internal import CRealtimeSystem
internal import RealtimeCore

/// epoll, level triggered, and an eventfd and a timerfd that wake it.
///
/// `@unchecked Sendable`: `wake` and `wake(after:)` need a number only; everything else, the event buffer too, belongs to the loop's thread.
struct Poller: @unchecked Sendable {
    private static let wakeToken = UInt64.max

    private let descriptor: Int32
    private let bell: Int32
    private let timer: Int32
    private let events: UnsafeMutablePointer<realtime_event>

    init() throws(TransportError) {
        let descriptor = realtime_epoll_create()
        guard descriptor >= 0 else { throw .system(SystemError.last.number, "make an event loop") }
        let bell = realtime_bell_create(descriptor, Self.wakeToken)
        let timer = bell < 0 ? -1 : realtime_timer_create(descriptor, Self.wakeToken)
        guard timer >= 0 else {
            let number = SystemError.last.number
            if bell >= 0 { SystemSocket.close(bell) }
            SystemSocket.close(descriptor)
            throw .system(number, "make an event loop")
        }
        self.descriptor = descriptor
        self.bell = bell
        self.timer = timer
        self.events = .allocate(capacity: Int(realtime_events_per_wait))
    }

    func close() {
        SystemSocket.close(self.timer)
        SystemSocket.close(self.bell)
        SystemSocket.close(self.descriptor)
        self.events.deallocate()
    }

    /// Ends the wait that is going on, or the next one. From any thread.
    func wake() { realtime_bell_ring(self.bell) }

    /// As `wake()`, in a while that may be shorter than what `wait` can count. The latest call counts. From any thread.
    func wake(after nanoseconds: Int64) { realtime_timer_set(self.timer, nanoseconds) }

    /// Changes what is waited for; nothing means the poller forgets the descriptor.
    func change(_ target: Int32, token: UInt64, from old: Readiness, to new: Readiness) -> Bool {
        old == new || realtime_epoll_change(self.descriptor, target, token, UInt32(old.rawValue), UInt32(new.rawValue)) == 0
    }

    /// Waits, for ever if there is no limit, and never shorter than the limit unless something happened.
    func wait(nanoseconds: Int64?) -> Int {
        let milliseconds = nanoseconds.map { min($0 / 1_000_000 + ($0 % 1_000_000 > 0 ? 1 : 0), 1 << 30) } ?? -1
        return max(0, Int(realtime_epoll_wait(self.descriptor, self.events, Int32(milliseconds))))
    }

    /// `nil` when it was only the bell or the timer.
    @inline(__always)
    func event(_ index: Int) -> (token: UInt64, readiness: Readiness)? {
        let event = self.events[index]
        guard event.token != Self.wakeToken else { return nil }
        return (event.token, Readiness(rawValue: UInt8(truncatingIfNeeded: event.readiness)))
    }
}
#endif
