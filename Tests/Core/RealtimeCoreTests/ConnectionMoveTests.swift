import RealtimeCore
import TestSupport
import Testing

@Suite struct ConnectionMoveTests {
    private static let now = Instant(nanoseconds: 0)
    private static let (first, second, third) = (ConnectionID(rawValue: 1), ConnectionID(rawValue: 2), ConnectionID(rawValue: 3))
    private var connection = ConnectionStateMachine(generator: SplitMix64(seed: 1))
    private var move = ConnectionMove()

    /// Establishes the first connection.
    private mutating func connect() {
        _ = self.connection.start(now: Self.now)
        _ = self.connection.opened(Self.first, now: Self.now)
        let heartbeat = HeartbeatPolicy(probeAfterSilence: .seconds(60), deadAfterSilence: .seconds(90))
        _ = self.connection.ready(Self.first, heartbeat, now: Self.now)
    }

    @Test mutating func `a candidate replaces the connection, which stays until it has ended`() {
        self.connect()
        let candidate = self.move.begin(&self.connection)
        expect(candidate == Self.second && self.move.contains(Self.second) && !self.move.contains(Self.first))
        let replaced = self.move.complete(&self.connection, now: Self.now)
        expect(replaced == Self.first && self.connection.connected == Self.second)
        expect(self.move.candidate == nil && self.move.replaced == Self.first && self.move.contains(Self.first))
        let role = self.move.closed(Self.first)
        expect(role == .replaced && !self.move.contains(Self.first))
    }

    @Test mutating func `one move follows the other`() {
        self.connect()
        _ = self.move.begin(&self.connection)
        let during = self.move.begin(&self.connection)
        _ = self.move.complete(&self.connection, now: Self.now)
        let beforeTheEnd = self.move.begin(&self.connection)
        _ = self.move.closed(Self.first)
        let afterwards = self.move.begin(&self.connection)
        expect(during == nil && beforeTheEnd == nil && afterwards == Self.third)
    }

    @Test mutating func `nothing moves without an established connection or a candidate`() {
        let early = self.move.begin(&self.connection)
        self.connect()
        let incomplete = self.move.complete(&self.connection, now: Self.now)
        expect(early == nil && incomplete == nil && self.connection.connected == Self.first)
    }

    @Test mutating func `a candidate that has ended can't replace the connection`() {
        self.connect()
        _ = self.move.begin(&self.connection)
        let roles = [self.move.closed(Self.second), self.move.closed(Self.second)]
        let replaced = self.move.complete(&self.connection, now: Self.now)
        expect(roles == [.candidate, nil] && replaced == nil && self.connection.connected == Self.first)
    }
}
