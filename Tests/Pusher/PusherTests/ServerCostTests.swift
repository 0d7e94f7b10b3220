@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeSystem
import Testing

/// The server's machine runs under one lock, so its cost must grow no faster than what clients ask for.
///
/// The tests run one after the other, because they compute without suspending.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ServerCostTests {
    /// Returns the processor time of this thread that `body` takes, in nanoseconds.
    private static func cost(_ body: () -> Void) -> Int64 {
        func now() -> Int64 {
            var time = timespec()
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
        }
        let start = now()
        body()
        return now() - start
    }

    /// Expects a limit for the cost of 20,000 operations, in relation to that of 10,000: the best of several measurements of each. A
    /// quadratic cost is four times as high.
    ///
    /// - Parameters:
    ///   - limit: The limit of the ratio. It is higher for operations on many connections, whose state exceeds the processor's caches.
    ///   - measure: Returns the cost of a number of operations.
    private func expectLinearCost(
        limit: Double = 2.2, sourceLocation: SourceLocation = #_sourceLocation, _ measure: (_ count: Int) -> Int64
    ) async {
        var (small, large) = (Int64.max, Int64.max)
        for _ in 0..<6 {
            small = min(small, measure(10_000))
            large = min(large, measure(20_000))
            if Double(large) <= limit * Double(small) { return }
            await Task.yield()
        }
        Issue.record("20,000 cost \(Double(large) / Double(small)) times as much as 10,000", sourceLocation: sourceLocation)
    }

    private func subscribed(to count: Int) -> ServerUnderTest {
        var server = ServerUnderTest(isRecording: false) { $0.channelLimit = .max }
        server.connect(1)
        for number in 0..<count { server.subscribe(1, "channel-\(number)") }
        return server
    }

    private func subscribers(_ count: Int) -> ServerUnderTest {
        var server = ServerUnderTest(isRecording: false)
        for number in 1...count {
            server.connect(number)
            server.subscribe(number, "one")
        }
        return server
    }

    @Test func `unsubscribing from channels has linear cost`() async {
        await self.expectLinearCost { count in
            var server = self.subscribed(to: count)
            return Self.cost {
                for number in 0..<count { server.received(1, PusherFrames.unsubscribe("channel-\(number)")) }
            }
        }
    }

    @Test func `ending a connection with many channels has linear cost`() async {
        await self.expectLinearCost(limit: 2.6) { count in
            var server = self.subscribed(to: count)
            return Self.cost { server.closed(1) }
        }
    }

    @Test func `subscribing many connections to one channel has linear cost`() async {
        await self.expectLinearCost(limit: 2.6) { count in Self.cost { _ = self.subscribers(count) } }
    }

    @Test func `unsubscribing many connections from one channel has linear cost`() async {
        await self.expectLinearCost(limit: 2.6) { count in
            var server = self.subscribers(count)
            return Self.cost {
                for number in 1...count { server.received(number, PusherFrames.unsubscribe("one")) }
            }
        }
    }

    @Test func `ending many connections that share a channel has linear cost`() async {
        await self.expectLinearCost(limit: 2.6) { count in
            var server = self.subscribers(count)
            return Self.cost {
                // The newest first: the search for one must not pass all others.
                for number in (1...count).reversed() { server.closed(number) }
            }
        }
    }
}
