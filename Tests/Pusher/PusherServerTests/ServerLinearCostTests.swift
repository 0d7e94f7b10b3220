import PusherWire
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import PusherServer

/// Operations on many items, of which a user or a peer decides how many there are.
///
/// The tests run one after the other, because they compute without waiting.
@Suite(.requires(.completeRun), .computes, .serialized, .timeLimit(.minutes(10))) struct ServerLinearCostTests {
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

    @Test func `a client unsubscribes from many channels`() async throws {
        try await expectLinearCost { count in
            var server = self.subscribed(to: count)
            return { for number in 0..<count { server.received(1, PusherFrames.unsubscribe("channel-\(number)")) } }
        }
    }

    @Test func `a connection with many channels ends`() async throws {
        try await expectLinearCost { count in
            var server = self.subscribed(to: count)
            return { server.closed(1) }
        }
    }

    @Test func `many connections subscribe to one channel`() async throws {
        try await expectLinearCost { count in { _ = self.subscribers(count) } }
    }

    @Test func `many connections unsubscribe from one channel`() async throws {
        try await expectLinearCost { count in
            var server = self.subscribers(count)
            return { for number in 1...count { server.received(number, PusherFrames.unsubscribe("one")) } }
        }
    }

    @Test func `many connections that share a channel end`() async throws {
        try await expectLinearCost { count in
            var server = self.subscribers(count)
            // The newest first: the search for one must not pass all others.
            return { for number in (1...count).reversed() { server.closed(number) } }
        }
    }

    @Test func `many connections subscribe to a channel with a count`() async throws {
        try await expectLinearCost { count in
            {
                var server = ServerUnderTest(isRecording: false) { $0.sendsSubscriptionCounts = true }
                for number in 1...count {
                    server.connect(number)
                    server.subscribe(number, "one")
                }
            }
        }
    }

    @Test func `many connections sign in as one user and end`() async throws {
        try await expectLinearCost { count in
            {
                var server = ServerUnderTest(isRecording: false)
                for number in 1...count {
                    server.connect(number)
                    server.signIn(number, as: "x", #","watchlist":["y","z"]"#)
                }
                for number in (1...count).reversed() { server.closed(number) }
                expect(server.machine.users.isEmpty)
            }
        }
    }

    @Test func `many events are published on a cache channel`() async throws {
        try await expectLinearCost { count in
            {
                var server = ServerUnderTest(isRecording: false)
                for _ in 0..<count { server.publish("a", to: "cache-a") }
                expectEqual(server.machine.cachedEvents.count, 1)
            }
        }
    }
}
