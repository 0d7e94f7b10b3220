import RealtimeCore
import RealtimeSystem

/// A one-shot signal that tasks of a test wait for. As a timer's client, it is sent when the timer fires.
package final class Signal: TimerClient {
    private struct State: Sendable {
        var isSent = false
        var waiters: [Waiter<Void>] = []
    }
    private let state = Lock(State())

    package init() {}

    package func send() {
        let waiters = self.state.withLock { state in
            defer { state.waiters = [] }
            state.isSent = true
            return state.waiters
        }
        for waiter in waiters { waiter.fulfill(())?.resume() }
    }

    package func timerFired() { self.send() }

    /// Waits for ``send()``. The test's time limit ends the wait.
    package func wait() async {
        let waiter = Waiter<Void>()
        let isSent = self.state.withLock { state in
            if !state.isSent { state.waiters.append(waiter) }
            return state.isSent
        }
        if !isSent { await waiter.value { self.send() } }
    }
}
