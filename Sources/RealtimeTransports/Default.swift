public import RealtimeCore

extension Transports {
    /// What the platform does best.
    public static var standard: Transports { InMemoryNetwork(time: NoTime()).transports() }
}
private final class NoTime: TimeSource { var now: Instant { Instant(nanoseconds: 0) }
  func wake(_ sleeper: any Sleeper, at instant: Instant?) {} }
