import RealtimeCore

/// A one-shot signal that one task of a test waits for. As a timer's client, it is sent when the timer fires.
package final class Signal: TimerClient {
    private let waiter = Waiter<Void>()

    package init() {}

    package func send() { self.waiter.fulfill(())?.resume() }

    package func timerFired() { self.send() }

    /// Waits for ``send()``. The test's time limit ends the wait.
    package func wait() async { await self.waiter.value { self.send() } }
}
