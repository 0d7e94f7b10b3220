import RealtimeCore
import TestSupport
import Testing

@testable import PusherChannels

@Suite struct ClientEventLimiterTests {
    private static let channel = ChannelID(slot: 0, serial: 1)
    private static let other = ChannelID(slot: 1, serial: 2)

    /// Admits events at these times, in milliseconds.
    private func admit(_ milliseconds: Int64..., limit: Int, _ limiter: inout ClientEventLimiter) -> [Bool] {
        milliseconds.map { limiter.admit(limit: limit, now: self.at($0)) }
    }

    private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    @Test func `as many events as the limit are admitted in any period of a second with its reserve`() {
        var limiter = ClientEventLimiter()
        let admitted = self.admit(0, 0, 400, 500, 1099, 1100, 1100, 1100, 1499, 1500, 2200, limit: 3, &limiter)
        expectEqual(admitted, [true, true, true, false, false, true, true, false, false, true, true])
        expectNil(limiter.nextDeadline)
    }

    @Test func `no events after a pause are saved for later`() {
        var limiter = ClientEventLimiter()
        for second in [0, 10, 20] as [Int64] {
            let start = second * 1000
            let admitted = self.admit(start, start, start, start, start + 1099, limit: 2, &limiter)
            expectEqual(admitted, [true, true, false, false, false])
        }
    }

    @Test func `waiting events become due in order and as many as the limit at a time`() {
        var limiter = ClientEventLimiter()
        let admitted = self.admit(0, 300, limit: 2, &limiter)
        expectEqual(admitted, [true, true])
        for text in ["a", "b", "c"] { limiter.enqueue(.text(text), on: Self.channel) }
        expectEqual(limiter.nextDeadline, self.at(1100))
        let expected: [(Int64, String, Instant?)] = [
            (1099, "", self.at(1100)), (1100, "a", self.at(1400)), (2000, "b", self.at(2200)), (5000, "c", nil),
        ]
        for (milliseconds, text, deadline) in expected {
            let due = limiter.takeDue(limit: 2, now: self.at(milliseconds))
            expectEqual(due.map { String(decoding: $0.message.bytes, as: UTF8.self) }.joined(), text)
            expectEqual(limiter.nextDeadline, deadline)
        }
    }

    @Test func `no event overtakes one that waits`() {
        var limiter = ClientEventLimiter()
        _ = self.admit(0, limit: 1, &limiter)
        limiter.enqueue(.text("a"), on: Self.channel)
        // Its time has come, but it has not been sent yet.
        let admitted = self.admit(1100, limit: 1, &limiter)
        let due = limiter.takeDue(limit: 1, now: self.at(1100))
        expect(admitted == [false] && due.count == 1)
    }

    @Test func `the waiting events of one channel are removed`() {
        var limiter = ClientEventLimiter()
        _ = self.admit(0, limit: 1, &limiter)
        for channel in [Self.channel, Self.other, Self.channel] { limiter.enqueue(.text("a"), on: channel) }
        limiter.remove(Self.channel)
        expectEqual(limiter.waiting.map(\.channel), [Self.other])
        limiter.remove(Self.other)
        expectNil(limiter.nextDeadline)
        limiter.remove(Self.other)
    }

    @Test func `a reset returns the waiting events and forgets those that were sent`() {
        var limiter = ClientEventLimiter()
        _ = self.admit(0, limit: 1, &limiter)
        limiter.enqueue(.text("a"), on: Self.other)
        let waiting = limiter.reset()
        expectEqual(waiting.map(\.channel), [Self.other])
        expect(limiter.nextDeadline == nil && limiter.waiting.isEmpty)
        let admitted = self.admit(0, limit: 1, &limiter)
        expectEqual(admitted, [true])
    }

    @Test func `the counted events of any random sequence never exceed the limit`() {
        var generator = SplitMix64(seed: 7)
        for limit in [1, 2, 3, 10] {
            var (limiter, now, sent) = (ClientEventLimiter(), self.at(0), [Instant]())
            for _ in 0..<2_000 {
                now = now + Int64.random(in: 0...300_000_000, using: &generator)
                sent += limiter.takeDue(limit: limit, now: now).map { _ in now }
                if limiter.admit(limit: limit, now: now) {
                    sent.append(now)
                } else if limiter.waiting.count < 5 {
                    limiter.enqueue(.text(""), on: Self.channel)
                }
                if let deadline = limiter.nextDeadline { expect(deadline > now) }
            }
            for index in sent.indices.dropFirst(limit) {
                expect(sent[index - limit] + ClientEventLimiter.window <= sent[index])
            }
        }
    }
}
