#if os(Linux)
internal import CRealtimeSystem
internal import RealtimeCore

/// epoll, level triggered, with an eventfd and a timerfd that end a wait.
///
/// `@unchecked Sendable`: `wake()` and `wake(after:)` use only the number of a descriptor. Everything else, including the event buffer,
/// is accessed on the loop's thread only.
struct Poller: @unchecked Sendable {
    /// The largest number of events of one wait.
    static let capacity = Int(realtime_events_per_wait)
    private static let wakeToken = UInt64.max

    private let descriptor: Int32
    private let eventfd: Int32
    private let timerfd: Int32
    private let events: UnsafeMutablePointer<realtime_event>

    init() throws(TransportError) {
        let descriptor = realtime_epoll_create()
        guard descriptor >= 0 else { throw .system(SystemError.last.number, "create an event loop") }
        let eventfd = realtime_eventfd_create(descriptor, Self.wakeToken)
        let timerfd = eventfd < 0 ? -1 : realtime_timerfd_create(descriptor, Self.wakeToken)
        guard timerfd >= 0 else {
            let number = SystemError.last.number
            if eventfd >= 0 { SystemSocket.close(eventfd) }
            SystemSocket.close(descriptor)
            throw .system(number, "create an event loop")
        }
        self.descriptor = descriptor
        self.eventfd = eventfd
        self.timerfd = timerfd
        self.events = .allocate(capacity: Self.capacity)
    }

    func close() {
        SystemSocket.close(self.timerfd)
        SystemSocket.close(self.eventfd)
        SystemSocket.close(self.descriptor)
        self.events.deallocate()
    }

    /// Ends the current wait, or the next one. Called on any thread.
    func wake() { realtime_eventfd_signal(self.eventfd) }

    /// Ends a wait after a time that may be shorter than the resolution of ``wait(nanoseconds:)``. Replaces an earlier time. Called on
    /// any thread.
    func wake(after nanoseconds: Int64) { realtime_timerfd_set(self.timerfd, nanoseconds) }

    /// Changes the readiness to report for a descriptor. The poller removes a descriptor with an empty readiness.
    ///
    /// - Returns: `false` if the system call fails.
    func change(_ target: Int32, token: UInt64, from old: Readiness, to new: Readiness) -> Bool {
        old == new || realtime_epoll_change(self.descriptor, target, token, UInt32(old.rawValue), UInt32(new.rawValue)) == 0
    }

    /// Waits for events, and at least as long as the limit if there are none.
    ///
    /// - Parameter nanoseconds: The limit; `nil` to wait without one.
    /// - Returns: The number of events.
    func wait(nanoseconds: Int64?) -> Int {
        let milliseconds = nanoseconds.map { min($0 / 1_000_000 + ($0 % 1_000_000 > 0 ? 1 : 0), 1 << 30) } ?? -1
        let count = realtime_epoll_wait(self.descriptor, self.events, Int32(milliseconds))
        if count >= 0 { return Int(count) }
        // A signal has ended the wait, perhaps the one that continues a process that was stopped: the timers that have become due must find what
        // the sockets have received meanwhile.
        return max(0, Int(realtime_epoll_wait(self.descriptor, self.events, 0)))
    }

    /// Returns an event of the latest wait, or `nil` if it only ended the wait.
    @inline(__always)
    func event(_ index: Int) -> (token: UInt64, readiness: Readiness)? {
        let event = self.events[index]
        guard event.token != Self.wakeToken else { return nil }
        return (event.token, Readiness(rawValue: UInt8(truncatingIfNeeded: event.readiness)))
    }
}
#endif
