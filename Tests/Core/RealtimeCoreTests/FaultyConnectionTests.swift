import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

private typealias Call = RecordingConnection.Call

/// A clock whose timers are late.
private final class LateClock: TimeSource {
    private let current = Lock(Instant(nanoseconds: 0))

    var now: Instant { self.current.withLock { $0 } }
    func schedule(_ client: any TimerClient, at instant: Instant?) {}
    func advance(by duration: Duration) { self.current.withLock { $0 = $0.advanced(by: duration) } }
}

/// A decorated connection and what passed through it.
private struct Decorated {
    let calls = EventRecorder<Call>()
    let connection: any MessageConnection
    let id: ConnectionID

    init(_ injector: FaultInjector, _ number: UInt64 = 1) {
        self.id = ConnectionID(rawValue: number)
        self.connection = injector.intercept(RecordingConnection(self.calls), id: self.id)
    }
}

@Suite struct FaultyConnectionTests {
    enum Step: Sendable {
        case open, send(String), flush, pause, resume, close, abandon
        case ignores(Bool), ends
        case delay(Duration), drop(Double), silent(Bool), silence(Bool), advance(Duration)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        fileprivate var steps: [(Step, [Call])]

        fileprivate init(_ description: String, _ steps: [(Step, [Call])]) {
            (self.testDescription, self.steps) = (description, steps)
        }
    }

    static let table = [
        Row(
            "without faults, everything passes",
            [
                (.open, [.opening]), (.send("a"), [.sent("a")]), (.flush, [.flushed]), (.ignores(false), []), (.pause, [.paused]),
                (.resume, [.resumed]), (.close, [.closing(.normal)]), (.ends, []),
            ]),
        Row(
            "a delayed message is sent when it is due",
            [
                (.delay(.seconds(2)), []), (.send("a"), []), (.flush, [.flushed]), (.advance(.milliseconds(1_999)), []),
                (.advance(.milliseconds(1)), [.sent("a"), .flushed]), (.advance(.seconds(10)), []),
            ]),
        Row(
            "each message is delayed from when it was sent",
            [
                (.delay(.seconds(2)), []), (.send("a"), []), (.advance(.seconds(1)), []), (.send("b"), []),
                (.advance(.seconds(1)), [.sent("a"), .flushed]), (.send("c"), []), (.advance(.seconds(1)), [.sent("b"), .flushed]),
                (.advance(.seconds(1)), [.sent("c"), .flushed]),
            ]),
        Row(
            "nothing overtakes a delayed message",
            [
                (.delay(.seconds(2)), []), (.send("a"), []), (.delay(.seconds(1)), []), (.send("b"), []), (.delay(.zero), []),
                (.send("c"), []), (.advance(.milliseconds(1_999)), []),
                (.advance(.milliseconds(1)), [.sent("a"), .sent("b"), .sent("c"), .flushed]), (.send("d"), [.sent("d")]),
            ]),
        Row("a negative delay is none", [(.delay(.seconds(-1)), []), (.send("a"), [.sent("a")])]),
        Row("received messages are neither delayed nor dropped", [(.delay(.seconds(1)), []), (.drop(1), []), (.ignores(false), [])]),
        Row(
            "a dropped message is not sent",
            [(.drop(1), []), (.send("a"), []), (.drop(0), []), (.send("b"), [.sent("b")])]),
        Row(
            "a silent connection sends and receives nothing",
            [
                (.silent(true), []), (.send("a"), []), (.flush, [.flushed]), (.ignores(true), []), (.silent(false), []),
                (.send("b"), [.sent("b")]), (.ignores(false), []),
            ]),
        Row(
            "a silent connection still closes",
            [(.silent(true), []), (.close, [.closing(.normal)])]),
        Row(
            "the silence of one connection adds to that of all",
            [
                (.silence(true), []), (.send("a"), []), (.silent(true), []), (.silence(false), []), (.send("b"), []),
                (.silent(false), []), (.send("c"), [.sent("c")]), (.silence(true), []), (.ignores(true), []),
            ]),
        Row(
            "silence does not affect messages that are delayed already",
            [(.delay(.seconds(1)), []), (.send("a"), []), (.silent(true), []), (.advance(.seconds(1)), [.sent("a"), .flushed])]),
        Row(
            "closing sends delayed messages first",
            [
                (.delay(.seconds(1)), []), (.send("a"), []), (.send("b"), []),
                (.close, [.sent("a"), .sent("b"), .closing(.normal)]), (.advance(.seconds(1)), [.flushed]),
            ]),
        Row(
            "abandoning discards delayed messages",
            [(.delay(.seconds(1)), []), (.send("a"), []), (.abandon, [.abandoned]), (.advance(.seconds(1)), [])]),
        Row(
            "the end discards delayed messages",
            [(.delay(.seconds(1)), []), (.send("a"), []), (.ends, []), (.advance(.seconds(1)), []), (.ends, [])]),
    ]

    @Test(arguments: table)
    func `every step has the expected effect`(row: Row) {
        let clock = ManualClock()
        let injector = FaultInjector(time: clock.time, seed: 1)
        let decorated = Decorated(injector)
        let connection = decorated.connection
        for (number, (step, expected)) in row.steps.enumerated() {
            switch step {
            case .open: connection.open()
            case .send(let text): connection.enqueue(.text(text))
            case .flush: connection.flush()
            case .pause: connection.pauseReading()
            case .resume: connection.resumeReading()
            case .close: connection.close(.normal, reason: "")
            case .abandon: connection.abandon()
            case .ignores(let isIgnoring): expectEqual(injector.ignoresMessages(of: decorated.id), isIgnoring, "step \(number)")
            case .ends: injector.ended(decorated.id)
            case .delay(let delay): injector.faults.delay = delay
            case .drop(let rate): injector.faults.dropRate = rate
            case .silent(let isSilent): injector.faults.isSilent = isSilent
            case .silence(let isSilent): injector.silence(decorated.id, isSilent)
            case .advance(let duration): clock.advance(by: duration)
            }
            expectEqual(decorated.calls.take(), expected, "step \(number): \(step)")
        }
    }

    @Test func `a message is sent after an overdue delayed message`() {
        let clock = LateClock()
        let injector = FaultInjector(time: clock, seed: 1)
        let decorated = Decorated(injector)
        injector.faults.delay = .seconds(1)
        decorated.connection.enqueue(.text("a"))
        injector.faults.delay = .zero
        clock.advance(by: .seconds(2))
        decorated.connection.enqueue(.text("b"))
        expect(decorated.calls.take().isEmpty)
        (decorated.connection as? FaultyConnection)?.timerFired()
        expectEqual(decorated.calls.take(), [.sent("a"), .sent("b"), .flushed])
    }

    @Test func `a delayed message does not delay other connections`() {
        let clock = ManualClock()
        let injector = FaultInjector(time: clock.time, seed: 1)
        let (first, second) = (Decorated(injector, 1), Decorated(injector, 2))
        injector.faults.delay = .seconds(1)
        first.connection.enqueue(.text("a"))
        injector.faults.delay = .zero
        second.connection.enqueue(.text("b"))
        expect(first.calls.take().isEmpty && second.calls.take() == [.sent("b")])
    }

    @Test func `faults apply to earlier and later connections`() {
        let injector = FaultInjector(time: ManualClock().time, seed: 1)
        let earlier = Decorated(injector, 1)
        injector.faults.isSilent = true
        let later = Decorated(injector, 2)
        for decorated in [earlier, later] {
            expect(injector.ignoresMessages(of: decorated.id))
            decorated.connection.enqueue(.text("a"))
            expect(decorated.calls.take().isEmpty)
        }
    }

    @Test func `thousands of delayed messages are sent in order`() {
        let clock = ManualClock()
        let injector = FaultInjector(time: clock.time, seed: 1)
        let decorated = Decorated(injector)
        injector.faults.delay = .seconds(100)
        for number in 0..<5_000 {
            decorated.connection.enqueue(.text("\(number)"))
            clock.advance(by: .milliseconds(1))
        }
        clock.advance(by: .seconds(100))
        expectEqual(decorated.calls.take().filter { $0 != .flushed }, (0..<5_000).map { .sent("\($0)") })
        expectNil(clock.untilNextDeadline)
    }

    @Test func `the seed determines which messages are dropped`() {
        func sent(seed: UInt64) -> [Call] {
            let injector = FaultInjector(time: ManualClock().time, seed: seed)
            injector.faults.dropRate = 0.5
            let decorated = Decorated(injector)
            for number in 0..<200 { decorated.connection.enqueue(.text("\(number)")) }
            return decorated.calls.take()
        }
        let calls = sent(seed: 1)
        expect((50...150).contains(calls.count))
        expect(calls == sent(seed: 1) && calls != sent(seed: 2))
    }

    @Test func `a connection that has ended is released`() {
        let injector = FaultInjector(time: ManualClock().time, seed: 1)
        weak var connection: (any MessageConnection)?
        do {
            let decorated = Decorated(injector)
            connection = decorated.connection
            injector.ended(decorated.id)
        }
        expectNil(connection)
    }
}
