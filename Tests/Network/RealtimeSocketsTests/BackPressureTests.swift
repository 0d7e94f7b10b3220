import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

/// The decisions about peers that read slowly, without a socket.
@Suite
struct BackPressureTests {
    private static let limits = OutputLimits(backlogBytes: 1000, stallTimeout: .seconds(30))
    private static let start = Instant(nanoseconds: 0)

    /// Returns whether answers pause reading.
    private static func answer(_ state: inout BackPressure, _ count: Int, buffered: Int, leftFrames: Bool = false) -> Bool {
        state.answered(count, buffered: buffered, leftFrames: leftFrames, limits: Self.limits, now: Self.start)
    }

    private static func drain(_ state: inout BackPressure) -> (reading: Bool, writing: Bool) { state.drained() }

    /// Returns whether the peer has stalled after a number of seconds.
    private static func isStalled(_ state: inout BackPressure, at seconds: Int64, hasProgressed: Bool = false) -> Bool {
        state.hasStalled(now: Self.start.advanced(by: .seconds(seconds)), timeout: .seconds(30), hasProgressed: hasProgressed)
    }

    /// Delivers as many frames as possible, and returns their number.
    private static func deliver(_ delivery: inout Delivery, answerBytes: Int = 0, budget: Int = .max) -> Int {
        let frames = delivery.begin(budget: budget)
        for _ in 0..<frames { delivery.answered(answerBytes) }
        _ = delivery.end(frames: frames, mark: Self.limits.mark)
        return frames
    }

    // MARK: Reading

    @Test func `answers above the mark pause reading until they have been sent`() {
        var state = BackPressure()
        expect(!Self.answer(&state, 600, buffered: 600))
        expect(Self.answer(&state, 600, buffered: 1200))
        // Only once.
        expect(!Self.answer(&state, 600, buffered: 1800))
        expect(state.isReadingPaused)
        #expect(Self.drain(&state) == (reading: true, writing: false))
        expect(!state.isReadingPaused)
        expect(!Self.answer(&state, 600, buffered: 600))
    }

    @Test func `answers that have been sent don't count`() {
        var state = BackPressure()
        for _ in 0..<10 { expect(!Self.answer(&state, 900, buffered: 900)) }
    }

    @Test func `other output doesn't pause reading`() {
        var state = BackPressure()
        expect(!Self.answer(&state, 10, buffered: 1 << 20))
        expect(!Self.answer(&state, 990, buffered: 1 << 20))
        expect(Self.answer(&state, 1, buffered: 1 << 20))
    }

    @Test func `answers because of which frames were left pause reading, however few they are`() {
        var state = BackPressure()
        expect(!Self.answer(&state, 1, buffered: 0, leftFrames: true))
        expect(!state.isReadingPaused && state.stallDeadline == nil)
        expect(Self.answer(&state, 1, buffered: 1, leftFrames: true))
        expect(state.isReadingPaused && state.stallDeadline == Self.start.advanced(by: .seconds(30)))
        #expect(Self.drain(&state) == (reading: true, writing: false))
    }

    // MARK: Deliveries

    @Test func `deliveries of a server become larger while the answers are small`() {
        var delivery = Delivery(role: .server)
        expectEqual((0..<8).map { _ in Self.deliver(&delivery) }, [64, 128, 256, 512, 1024, 2048, 2048, 2048])
        // A delivery that wasn't full says nothing about larger ones.
        delivery = Delivery(role: .server)
        expectEqual(Self.deliver(&delivery, budget: 10), 10)
        expectEqual(Self.deliver(&delivery), 64)
    }

    @Test func `deliveries become smaller when their answers exceed the mark`() {
        var delivery = Delivery(role: .client)
        expectEqual(Self.deliver(&delivery, answerBytes: 100), Delivery.framesPerTurn)
        expectEqual(Self.deliver(&delivery, answerBytes: 100), 10)
        expectEqual(Self.deliver(&delivery, answerBytes: 100_000), 10)
        expectEqual(Self.deliver(&delivery, answerBytes: 100_000), 1)
        expectEqual(Self.deliver(&delivery), 1)
        expectEqual(Self.deliver(&delivery), 2)
    }

    @Test func `the WebSockets that have more frames than they may decode share those of a turn`() {
        var share = TurnShare()
        expectEqual(share.frames(in: 1), Delivery.framesPerTurn)
        let frames = (0..<100).map { _ in
            defer { share.exceeded(in: 1) }
            return share.frames(in: 1)
        }
        expect(frames.first == Delivery.framesPerTurn && frames[3] == Delivery.framesPerTurn / 3)
        expect(frames.last == Delivery.leastFramesPerTurn && frames.reduce(0, +) < 7 * Delivery.framesPerTurn)
        // All of them have more in the next turn, too.
        expectEqual(share.frames(in: 2), Delivery.leastFramesPerTurn)
        share.exceeded(in: 2)
        expectEqual(share.frames(in: 3), Delivery.framesPerTurn)
        expectEqual(share.frames(in: 9), Delivery.framesPerTurn)
    }

    // MARK: Stalls

    @Test func `a peer has stalled when it took nothing for the timeout`() {
        var state = BackPressure()
        expect(state.stallDeadline == nil && !Self.isStalled(&state, at: 0))
        state.backlogged(now: Self.start, limits: Self.limits)
        expect(state.isWritingPaused && state.stallDeadline == Self.start.advanced(by: .seconds(30)))
        expect(!Self.isStalled(&state, at: 29))
        expect(!Self.isStalled(&state, at: 30, hasProgressed: true))
        expectEqual(state.stallDeadline, Self.start.advanced(by: .seconds(60)))
        expect(Self.isStalled(&state, at: 60))
        #expect(Self.drain(&state) == (reading: false, writing: true))
        expectNil(state.stallDeadline)
    }

    @Test func `a peer that takes no answers has stalled even if writing is not paused`() {
        var state = BackPressure()
        expect(Self.answer(&state, 1001, buffered: 1001))
        expect(Self.isStalled(&state, at: 30))
        // The time began when reading was paused.
        state = BackPressure()
        expect(Self.answer(&state, 1001, buffered: 1001))
        state.backlogged(now: Self.start.advanced(by: .seconds(10)), limits: Self.limits)
        expectEqual(state.stallDeadline, Self.start.advanced(by: .seconds(30)))
    }

    @Test func `after a standstill, a peer that took nothing has the timeout once more`() {
        var state = BackPressure()
        state.backlogged(now: Self.start, limits: Self.limits)
        expect(!Self.isStalled(&state, at: 1_000))
        expectEqual(state.stallDeadline, Self.start.advanced(by: .seconds(1_030)))
        var progressed = state
        expect(Self.isStalled(&state, at: 1_030))
        // After progress, another standstill is like the first one.
        expect(!Self.isStalled(&progressed, at: 1_030, hasProgressed: true))
        expect(!Self.isStalled(&progressed, at: 2_000))
        // A process that often stands still finds a peer that has stalled as well.
        expect(Self.isStalled(&progressed, at: 3_000))
    }

    @Test func `the mark is at most the limit`() {
        expectEqual(OutputLimits(backlogBytes: 1 << 20, stallTimeout: .seconds(1)).mark, SocketStream.highWater)
        expectEqual(Self.limits.mark, 1000)
    }
}
