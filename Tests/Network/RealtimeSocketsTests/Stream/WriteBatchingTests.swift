import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// The decisions about sends, counted as the rows of `realtime bench send` count them.
@Suite struct WriteBatchingTests {
    /// The writes to the socket and the wake-ups of the loop that a turn takes.
    struct Cost: Equatable {
        var writes = 0
        var wakeUps = 0
        /// When the loop writes the gathered sends, in nanoseconds since the first send.
        var delay: Int64?
    }

    private static let turnLimit: Int64 = 100

    /// Sends messages at the same time. The loop services the stream when it is requested, after all of them.
    private static func turn(_ batching: inout WriteBatching, sends: Int, at start: Int64) -> Cost {
        var cost = Cost()
        for index in 0..<sends {
            let now = Instant(nanoseconds: start + (index == 0 ? 0 : 1))
            switch batching.send(canWrite: true, turnLimit: Self.turnLimit, now: now) {
            case .write: cost.writes += 1
            case .gather: break
            case .requestService:
                if batching.requestService() { cost.wakeUps += 1 }
                cost.delay = 1
            case .requestServiceAt(let instant):
                cost.wakeUps += 1
                cost.delay = instant.nanoseconds - start
            }
        }
        guard cost.wakeUps > 0 else { return cost }
        batching.serviceBegan()
        if batching.isPending { cost.writes += 1 }
        batching.clearPending()
        return cost
    }

    @Test func `64 sends in a turn take two writes and one wake-up, when the turn ends`() {
        var batching = WriteBatching()
        let first = Self.turn(&batching, sends: 64, at: 0)
        expectEqual(first, Cost(writes: 2, wakeUps: 1, delay: 1))
        for turn in 1...5 {
            let cost = Self.turn(&batching, sends: 64, at: Int64(turn) * 1000)
            expectEqual(cost, Cost(writes: 2, wakeUps: 1, delay: Self.turnLimit), "turn \(turn)")
        }
    }

    @Test(arguments: [(1, Cost(writes: 1)), (2, Cost(writes: 2, wakeUps: 1, delay: 1)), (3, Cost(writes: 2, wakeUps: 1, delay: 1))])
    func `a few sends in a turn don't wait for its end`(sends: Int, expected: Cost) {
        var batching = WriteBatching()
        for turn in 0..<5 {
            let cost = Self.turn(&batching, sends: sends, at: Int64(turn) * 1000)
            expectEqual(cost, expected, "turn \(turn)")
        }
    }

    @Test func `a send is gathered while the socket accepts no bytes, and until they are written`() {
        var batching = WriteBatching()
        let now = Instant(nanoseconds: 0)
        let blocked = batching.send(canWrite: false, turnLimit: Self.turnLimit, now: now)
        let pending = batching.send(canWrite: true, turnLimit: Self.turnLimit, now: now)
        expect(blocked == .gather && pending == .gather && batching.isPending)
        batching.clearPending()
        let next = batching.send(canWrite: true, turnLimit: Self.turnLimit, now: now)
        expectEqual(next, .write)
    }

    @Test func `service is requested once, until the loop services the stream`() {
        var batching = WriteBatching()
        var requests = [batching.requestService(), batching.requestService()]
        batching.serviceBegan()
        requests.append(batching.requestService())
        expectEqual(requests, [true, false, true])
    }

    @Test func `hundreds of gathered sends are one burst`() {
        var batching = WriteBatching()
        _ = Self.turn(&batching, sends: 1000, at: 0)
        let next = Self.turn(&batching, sends: 2, at: 1000)
        expectEqual(next.delay, Self.turnLimit)
    }
}
