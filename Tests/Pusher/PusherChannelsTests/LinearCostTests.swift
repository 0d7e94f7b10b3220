import PusherTestSupport
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import PusherChannels

/// Operations on many items, of which a user or a peer decides how many there are.
///
/// The tests run one after the other, because they compute without waiting.
@Suite(.requires(.completeRun), .computes, .serialized, .timeLimit(.minutes(10))) struct LinearCostTests {
    /// An application may read the members after each change, which must not copy all of them with the next change.
    @Test(arguments: [false, true])
    func `many members join and leave`(readsMembers: Bool) async throws {
        let raws = [1_250: try await RawPusher(), 20_000: try await RawPusher()]
        try await expectLinearCost { count in
            let raw = try #require(raws[count])
            raw.client.connect()
            let room = try raw.client.subscribe("presence-room")
            let frames = (0..<count).map { MemberFrames.joined("user-\($0)") } + (0..<count).map { MemberFrames.left("user-\($0)") }
            return {
                var kept = room.members
                for frame in frames {
                    raw.server.send(frame)
                    if readsMembers { kept = room.members }
                }
                expect(room.members.map(\.id) == ["me"] && kept.count <= 2)
            }
        }
    }

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
        expectEqual(session.waiterCount, count)
        return session
    }

    @Test(arguments: Wait.allCases)
    func `many waiting calls are cancelled`(wait: Wait) async throws {
        try await expectLinearCost { count in
            var session = self.session(count, wait)
            return {
                var effects = Effects<PusherSession>()
                for number in 0..<count {
                    session.cancelled(WaiterID(rawValue: UInt64(number)), now: Instant(nanoseconds: 0), &effects)
                }
                expect(session.waiterCount == 0 && effects.commands.isEmpty)
            }
        }
    }
}
