import RealtimeCore
import TestSupport
import Testing

@testable import PusherChannels

/// Calls that wait, of which many end together: their time limits expire, or their tasks are cancelled.
@Suite struct WaitingCallTests {
    enum Wait: CaseIterable {
        case connection, end, oneChannel, manyChannels
    }

    /// A session in which a number of calls wait.
    private func session(_ count: Int, _ wait: Wait) -> PusherSession {
        var session = PusherSession(PusherConfiguration(key: "key", host: "host", useTLS: false), seed: 1)
        var effects = Effects<PusherSession>()
        let now = Instant(nanoseconds: 0)
        if wait == .oneChannel { session.subscribe("one", now: now, &effects) }
        for number in 0..<count {
            let waiter = WaiterID(rawValue: UInt64(number))
            switch wait {
            case .connection: session.awaitConnected(waiter, &effects)
            case .end: session.awaitEnd(waiter, &effects)
            case .oneChannel: session.awaitSubscribed(waiter, channel: "one", &effects)
            case .manyChannels:
                session.subscribe("channel-\(number)", now: now, &effects)
                session.awaitSubscribed(waiter, channel: "channel-\(number)", &effects)
            }
        }
        #expect(session.waiterCount == count)
        return session
    }

    /// A search for each call would cost four times as much. The limit leaves room for other processes on the machine.
    @Test(.timeLimit(.minutes(5)), arguments: Wait.allCases)
    func `twice as many calls are cancelled at twice the cost`(wait: Wait) throws {
        let (small, large) = (scaled(10_000), scaled(20_000))
        let sessions = [small: self.session(small, wait), large: self.session(large, wait)]
        let ratio = try costRatio(small, large, limit: 2.8) { count in
            guard var session = sessions[count] else { return {} }
            return {
                var effects = Effects<PusherSession>()
                for number in 0..<count {
                    session.cancelled(WaiterID(rawValue: UInt64(number)), now: Instant(nanoseconds: 0), &effects)
                }
                #expect(session.waiterCount == 0 && effects.commands.isEmpty)
            }
        }
        #expect(ratio <= 2.8)
    }
}
