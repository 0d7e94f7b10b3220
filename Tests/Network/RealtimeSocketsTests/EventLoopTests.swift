import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct EventLoopTests {
    private final class NamedTimer: TimerClient {
        private let name: String
        private let log: Log
        init(_ name: String, _ log: Log) {
            self.name = name
            self.log = log
        }
        func timerFired() { self.log.append(self.name) }
    }

    /// Collects names, and lets a test wait for them.
    private final class Log: Sendable {
        private let state = Lock<[String]>([])
        let stream: AsyncStream<String>
        private let continuation: AsyncStream<String>.Continuation
        init() { (self.stream, self.continuation) = AsyncStream.makeStream() }
        func append(_ name: String) {
            self.state.withLock { $0.append(name) }
            self.continuation.yield(name)
        }
        var names: [String] { self.state.withLock { $0 } }
    }

    private func first(_ count: Int, of log: Log) async -> [String] {
        var names: [String] = []
        for await name in log.stream {
            names.append(name)
            if names.count == count { break }
        }
        return names
    }

    @Test func `jobs run in order on the loop's thread`() async throws {
        let loop = try EventLoop()
        let order = Lock<[Int]>([])
        let onLoop = Lock<[Bool]>([])
        for number in 0..<1000 {
            loop.execute {
                order.withLock { $0.append(number) }
                onLoop.withLock { $0.append(loop.isOnLoop) }
            }
        }
        loop.shutdown()
        expectEqual(order.withLock { $0 }, Array(0..<1000))
        expect(onLoop.withLock { $0 }.allSatisfy { $0 })
        expect(!loop.isOnLoop)
    }

    @Test func `jobs for a busy loop cause no wake-up`() async throws {
        let loop = try EventLoop()
        let blocked = BlockedLoop(loop)
        let before = loop.counters.wakeUps
        let count = Lock(0)
        for _ in 0..<10_000 { loop.execute { count.withLock { $0 += 1 } } }
        expectEqual(loop.counters.wakeUps, before)
        blocked.release()
        await loop.turn()
        expectEqual(count.withLock { $0 }, 10_000)
        loop.shutdown()
    }

    @Test func `a closure runs in place of a loop that waits, and not while the loop is busy`() async throws {
        let loop = try EventLoop()
        let blocked = BlockedLoop(loop)
        expectNil(loop.whileAsleep { true })
        blocked.release()
        let order = Lock<[String]>([])
        try await eventually {
            loop.whileAsleep { order.withLock { $0.append(loop.isOnLoop ? "in place of the loop" : "elsewhere") } } != nil
        }
        loop.execute { order.withLock { $0.append("job") } }
        await loop.turn()
        expectEqual(order.withLock { $0 }, ["in place of the loop", "job"])
        expect(!loop.isOnLoop)
        loop.shutdown()
        expectNil(loop.whileAsleep { true })
    }

    @Test func `a job that keeps adding jobs does not delay timers`() async throws {
        let loop = try EventLoop()
        let stop = Lock(false)
        @Sendable func again() {
            if !stop.withLock({ $0 }) { loop.execute(again) }
        }
        loop.execute(again)
        let log = Log()
        let timer = NamedTimer("fired", log)
        loop.schedule(timer, at: loop.now)
        await expectEqual(self.first(1, of: log), ["fired"])
        stop.withLock { $0 = true }
        loop.shutdown()
    }

    @Test func `timers fire by time and then in the order they were scheduled`() async throws {
        let loop = try EventLoop()
        let log = Log()
        let timers = ["third", "second", "first", "also first"].map { NamedTimer($0, log) }
        let blocked = BlockedLoop(loop)
        let now = loop.now
        for (timer, delay) in zip(timers, [3, 2, 1, 1]) { loop.schedule(timer, at: now.advanced(by: .milliseconds(delay))) }
        blocked.release()
        await expectEqual(self.first(4, of: log), ["first", "also first", "second", "third"])
        loop.shutdown()
    }

    @Test func `a timer that was rescheduled or cancelled does not fire at its old time`() async throws {
        let loop = try EventLoop()
        let log = Log()
        let (moved, cancelled, last) = (NamedTimer("moved", log), NamedTimer("cancelled", log), NamedTimer("last", log))
        let blocked = BlockedLoop(loop)
        let now = loop.now
        loop.schedule(moved, at: now.advanced(by: .seconds(3600)))
        loop.schedule(moved, at: now.advanced(by: .milliseconds(1)))
        loop.schedule(cancelled, at: now)
        loop.schedule(cancelled, at: nil)
        loop.schedule(last, at: now.advanced(by: .milliseconds(2)))
        blocked.release()
        await expectEqual(self.first(2, of: log), ["moved", "last"])
        await loop.turn()
        expectEqual(log.names, ["moved", "last"])
        loop.shutdown()
    }

    @Test func `only an earlier timer wakes a sleeping loop`() async throws {
        let loop = try EventLoop()
        let log = Log()
        let (first, second) = (NamedTimer("first", log), NamedTimer("second", log))
        loop.schedule(first, at: loop.now.advanced(by: .seconds(1800)))
        await loop.turn()
        // The loop's thread may not sleep yet, but nothing else wakes it from here on.
        let before = loop.counters.wakeUps
        loop.schedule(second, at: loop.now.advanced(by: .seconds(3600)))
        expectEqual(loop.counters.wakeUps, before)
        loop.schedule(first, at: loop.now)
        await expectEqual(self.first(1, of: log), ["first"])
        loop.shutdown()
    }

    @Test func `a timer does not retain its client`() async throws {
        let loop = try EventLoop()
        let log = Log()
        let blocked = BlockedLoop(loop)
        loop.schedule(NamedTimer("deallocated", log), at: loop.now)
        let retained = NamedTimer("retained", log)
        loop.schedule(retained, at: loop.now)
        blocked.release()
        await expectEqual(self.first(1, of: log), ["retained"])
        loop.shutdown()
    }

    @Test func `timers never fire early`() async throws {
        final class CheckingTimer: TimerClient {
            let loop: EventLoop
            let due: Instant
            let log: Log
            init(_ loop: EventLoop, _ due: Instant, _ log: Log) { (self.loop, self.due, self.log) = (loop, due, log) }
            func timerFired() { self.log.append(self.loop.now >= self.due ? "on time" : "early") }
        }
        let loop = try EventLoop()
        let log = Log()
        let timers = (0..<50).map { CheckingTimer(loop, loop.now + Int64($0 * 137_731), log) }
        for client in timers { loop.schedule(client, at: client.due) }
        await expectEqual(self.first(50, of: log), Array(repeating: "on time", count: 50))
        loop.shutdown()
    }

    /// Descriptors that are readable, with a handler for each, which reads nothing: all are ready in each turn. They are the same end of one
    /// connection, so that the other end needs no descriptors.
    private final class ReadyDescriptors: Sendable {
        private final class Handler: PollHandler {
            let loop: EventLoop
            let token = Lock<UInt64?>(nil)
            let onReady: @Sendable () -> Void
            init(_ loop: EventLoop, _ onReady: @escaping @Sendable () -> Void) { (self.loop, self.onReady) = (loop, onReady) }
            func ready(_ readiness: Readiness) { self.onReady() }
            func loopDidShutDown() {
                if let token = self.token.withLock({ $0.take() }) { self.loop.deregister(token) }
            }
        }
        private struct State: Sendable {
            var seen: Set<Int32> = []
            var events = 0
        }
        private let sockets: [RawSocket]
        private let descriptors: [Int32]
        private let state = Lock(State())

        init(_ count: Int) throws {
            let (listener, port) = try RawSocket.listening()
            let sender = try RawSocket.connected(to: port)
            let receiver = try listener.accepted()
            sender.send([1, 2])
            // When one byte has arrived, the other one has, too.
            expectEqual(receiver.receive(1), [1])
            self.sockets = [listener, sender, receiver]
            self.descriptors = try (0..<count).map { _ in
                let descriptor = dup(receiver.descriptor)
                try #require(descriptor >= 0)
                return descriptor
            }
        }

        /// Polls the descriptors. Called on the loop's thread.
        ///
        /// - Parameter onFirst: Called by the handler of the first event.
        func poll(on loop: EventLoop, onFirst: @escaping @Sendable () -> Void) {
            for descriptor in self.descriptors {
                let handler = Handler(loop) {
                    let isFirst = self.state.withLock { state in
                        state.seen.insert(descriptor)
                        state.events += 1
                        return state.events == 1
                    }
                    if isFirst { onFirst() }
                }
                let token = loop.register(handler)
                handler.token.withLock { $0 = token }
                expect(loop.poll(descriptor, token, from: [], to: .read))
            }
        }

        /// The number of descriptors whose handlers were called, and of their calls.
        var counts: (seen: Int, events: Int) { self.state.withLock { ($0.seen.count, $0.events) } }

        func close() {
            for descriptor in self.descriptors { SystemSocket.close(descriptor) }
            for socket in self.sockets { socket.close() }
        }
    }

    private final class CountingTimer: TimerClient {
        private let ready: ReadyDescriptors
        let counts = Lock<(seen: Int, events: Int)?>(nil)
        let fired = Signal()
        init(_ ready: ReadyDescriptors) { self.ready = ready }
        func timerFired() {
            self.counts.withLock { $0 = self.ready.counts }
            self.fired.send()
        }
    }

    /// Returns how many of 300 descriptors that are always ready were handled before a timer fired, and how often.
    private func handled(beforeTimerThatIsLateBy delay: Duration) async throws -> (seen: Int, events: Int) {
        let loop = try EventLoop()
        let ready = try ReadyDescriptors(300)
        let timer = CountingTimer(ready)
        loop.execute {
            // Among the events: the timer is due in their turn.
            ready.poll(on: loop) { loop.schedule(timer, at: loop.now + -delay.nanoseconds) }
        }
        await timer.fired.wait()
        loop.shutdown()
        ready.close()
        return try #require(timer.counts.withLock { $0 })
    }

    @Test func `timers that passed during a standstill fire after the events of all descriptors`() async throws {
        let counts = try await self.handled(beforeTimerThatIsLateBy: .seconds(2))
        expectEqual(counts.seen, 300)
        // The descriptors remain ready, and the timer fires all the same.
        expect(counts.events <= 1_500, "\(counts)")
    }

    @Test func `timers that are a little late fire after the first events`() async throws {
        // On a busy machine, the timer may be later.
        try await eventually { try await self.handled(beforeTimerThatIsLateBy: .milliseconds(500)).seen <= 256 }
    }

    @Test func `delayed service requests cause one wake-up and are released at shutdown`() async throws {
        let loop = try EventLoop()
        await loop.turn()
        weak var last: SocketStream?
        do {
            let streams = (0..<10).map { _ in SocketStream(loop: loop, events: EventRecorder()) }
            last = streams.last
            let before = loop.counters.wakeUps
            for stream in streams { expect(loop.requestService(of: stream, at: loop.now.advanced(by: .seconds(3600)))) }
            expect(loop.counters.wakeUps - before <= 1)
        }
        expect(last != nil)
        loop.shutdown()
        expectNil(last)
        expect(!loop.requestService(of: SocketStream(loop: loop, events: EventRecorder()), at: loop.now))
    }

    @Test func `a job after shutdown is rejected`() async throws {
        let loop = try EventLoop()
        loop.shutdown()
        let ran = Lock(false)
        let isAccepted = loop.execute { ran.withLock { $0 = true } }
        expect(!isAccepted)
        expect(!ran.withLock { $0 })
        loop.shutdown()
    }

    @Test func `a loop can be shut down on its own thread`() async throws {
        let loop = try EventLoop()
        await withCheckedContinuation { continuation in
            loop.execute {
                loop.shutdown()
                continuation.resume()
            }
        }
        expect(!loop.execute {})
    }

    @Test func `tokens are not reused`() async throws {
        final class IdleHandler: PollHandler {
            func ready(_ readiness: Readiness) {}
            func loopDidShutDown() {}
        }
        let loop = try EventLoop()
        let tokens = Lock<[UInt64]>([])
        loop.execute {
            for _ in 0..<3 {
                let token = loop.register(IdleHandler())
                tokens.withLock { $0.append(token) }
                loop.deregister(token)
            }
        }
        await loop.turn()
        loop.shutdown()
        expectEqual(Set(tokens.withLock { $0 }).count, 3)
    }
}
