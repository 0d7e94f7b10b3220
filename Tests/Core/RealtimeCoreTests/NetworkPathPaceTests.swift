import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite struct NetworkPathPaceTests {
    @Test func `a client reacts to a path that keeps changing once a second, and to the last change`() {
        let (clock, monitor, times) = (ManualClock(), NetworkPathMonitor(), EventRecorder<Duration>())
        let start = clock.time.now
        let observation = monitor.observe(pacedBy: clock.time) { times.record(start.duration(to: clock.time.now)) }
        for _ in 0..<60 {
            monitor.pathChanged()
            clock.advance(by: .milliseconds(50))
        }
        clock.advance(by: .seconds(10))
        expectEqual(times.take(), [.zero, .seconds(1), .seconds(2), .seconds(3)])
        // After a while, immediately again.
        monitor.pathChanged()
        expectEqual(times.take().count, 1)
        monitor.pathChanged()
        withExtendedLifetime(observation) {}
    }

    @Test func `a change that waits isn't reported after the observation has ended`() {
        let (clock, monitor, times) = (ManualClock(), NetworkPathMonitor(), EventRecorder<Int>())
        var observation: NetworkPathObservation? = monitor.observe(pacedBy: clock.time) { times.record(1) }
        monitor.pathChanged()
        monitor.pathChanged()
        withExtendedLifetime(observation) {}
        observation = nil
        clock.advance(by: .seconds(2))
        expectEqual(times.all, [1])
    }
}
