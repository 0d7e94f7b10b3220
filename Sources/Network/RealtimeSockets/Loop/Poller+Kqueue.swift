#if canImport(Darwin)
internal import RealtimeSystem
internal import RealtimeCore

/// kqueue, level triggered, with a user event and a timer that end a wait.
///
/// `@unchecked Sendable`: `wake()` and `wake(after:)` use only the number of a descriptor. Everything else, including the event buffer,
/// is accessed on the loop's thread only.
struct Poller: @unchecked Sendable {
    /// The largest number of events of one wait.
    static let capacity = 256
    private static let wakeToken = UInt64.max

    private let descriptor: Int32
    private let events: UnsafeMutablePointer<kevent64_s>

    init() throws(TransportError) {
        let descriptor = kqueue()
        guard descriptor >= 0 else { throw .system(errno, "create an event loop") }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        var event = kevent64_s()
        event.filter = Int16(EVFILT_USER)
        event.flags = UInt16(EV_ADD | EV_CLEAR)
        event.udata = Self.wakeToken
        guard kevent64(descriptor, &event, 1, nil, 0, 0, nil) == 0 else {
            let error = TransportError.system(errno, "create an event loop")
            SystemSocket.close(descriptor)
            throw error
        }
        self.descriptor = descriptor
        self.events = .allocate(capacity: Self.capacity)
    }

    func close() {
        SystemSocket.close(self.descriptor)
        self.events.deallocate()
    }

    /// Ends the current wait, or the next one. Called on any thread.
    func wake() {
        var event = kevent64_s()
        event.filter = Int16(EVFILT_USER)
        event.fflags = UInt32(NOTE_TRIGGER)
        _ = kevent64(self.descriptor, &event, 1, nil, 0, 0, nil)
    }

    /// Ends a wait after this time. Replaces an earlier time. Called on any thread.
    func wake(after nanoseconds: Int64) {
        var timer = kevent64_s()
        timer.filter = Int16(EVFILT_TIMER)
        timer.flags = UInt16(EV_ADD | EV_ONESHOT)
        timer.fflags = UInt32(NOTE_NSECONDS)
        timer.data = max(1, nanoseconds)
        timer.udata = Self.wakeToken
        _ = kevent64(self.descriptor, &timer, 1, nil, 0, 0, nil)
    }

    /// Changes the readiness to report for a descriptor. The poller removes a descriptor with an empty readiness.
    ///
    /// - Returns: `false` if the system call fails.
    func change(_ target: Int32, token: UInt64, from old: Readiness, to new: Readiness) -> Bool {
        for (part, filter) in [(Readiness.read, EVFILT_READ), (.write, EVFILT_WRITE)] where old.contains(part) != new.contains(part) {
            var event = kevent64_s()
            event.ident = UInt64(target)
            event.filter = Int16(filter)
            event.flags = UInt16(new.contains(part) ? EV_ADD : EV_DELETE)
            event.udata = token
            if kevent64(self.descriptor, &event, 1, nil, 0, 0, nil) != 0, new.contains(part) { return false }
        }
        return true
    }

    /// Waits for events, and at least as long as the limit if there are none.
    ///
    /// - Parameter nanoseconds: The limit; `nil` to wait without one.
    /// - Returns: The number of events.
    func wait(nanoseconds: Int64?) -> Int {
        let count = self.take(nanoseconds.map { min($0, 1_000_000_000_000_000) })
        // As with epoll, a signal has ended the wait.
        return count >= 0 ? count : max(0, self.take(0))
    }

    private func take(_ limit: Int64?) -> Int {
        guard let limit else { return Int(kevent64(self.descriptor, nil, 0, self.events, Int32(Self.capacity), 0, nil)) }
        var time = timespec(tv_sec: Int(limit / 1_000_000_000), tv_nsec: Int(limit % 1_000_000_000))
        return Int(kevent64(self.descriptor, nil, 0, self.events, Int32(Self.capacity), 0, &time))
    }

    /// Returns an event of the latest wait, or `nil` if it only ended the wait.
    @inline(__always)
    func event(_ index: Int) -> (token: UInt64, readiness: Readiness)? {
        let event = self.events[index]
        guard event.udata != Self.wakeToken else { return nil }
        return (event.udata, Int32(event.filter) == EVFILT_WRITE ? .write : .read)
    }
}
#endif
