import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct EventLoopTests {
    private final class Alarm: TimerClient {
        private let name: String
        private let book: Book
        init(_ name: String, _ book: Book) {
            self.name = name
            self.book = book
        }
        func timerFired() { self.book.note(self.name) }
    }

    private final class Book: Sendable {
        private let state = Lock<[String]>([])
        let stream: AsyncStream<String>
        private let continuation: AsyncStream<String>.Continuation
        init() { (self.stream, self.continuation) = AsyncStream.makeStream() }
        func note(_ name: String) {
            self.state.withLock { $0.append(name) }
            self.continuation.yield(name)
        }
        var names: [String] { self.state.withLock { $0 } }
    }

    private func first(_ count: Int, of book: Book) async -> [String] {
        var names: [String] = []
        for await name in book.stream {
            names.append(name)
            if names.count == count { break }
        }
        return names
    }

    @Test func `jobs run in order on the loops thread`() async throws {
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
        #expect(order.withLock { $0 } == Array(0..<1000))
        #expect(onLoop.withLock { $0 }.allSatisfy { $0 })
        #expect(!loop.isOnLoop)
    }

    @Test func `jobs of a busy loop need no wake up`() async throws {
        let loop = try EventLoop()
        let blockade = BlockedLoop(loop)
        let before = loop.counters.wakeUps
        let count = Lock(0)
        for _ in 0..<10_000 { loop.execute { count.withLock { $0 += 1 } } }
        #expect(loop.counters.wakeUps == before)
        blockade.lift()
        await loop.turn()
        #expect(count.withLock { $0 } == 10_000)
        loop.shutdown()
    }

    @Test func `a job that adds jobs for ever leaves time for the others`() async throws {
        let loop = try EventLoop()
        let stop = Lock(false)
        @Sendable func again() {
            if !stop.withLock({ $0 }) { loop.execute(again) }
        }
        loop.execute(again)
        let book = Book()
        let alarm = Alarm("rang", book)
        loop.schedule(alarm, at: loop.now)
        #expect(await self.first(1, of: book) == ["rang"])
        stop.withLock { $0 = true }
        loop.shutdown()
    }

    @Test func `sleepers are woken by time and then by age`() async throws {
        let loop = try EventLoop()
        let book = Book()
        let alarms = ["third", "second", "first", "also first"].map { Alarm($0, book) }
        let blockade = BlockedLoop(loop)
        let now = loop.now
        for (alarm, delay) in zip(alarms, [3, 2, 1, 1]) { loop.schedule(alarm, at: now.advanced(by: .milliseconds(delay))) }
        blockade.lift()
        #expect(await self.first(4, of: book) == ["first", "also first", "second", "third"])
        loop.shutdown()
    }

    @Test func `a wish that was replaced or taken back is forgotten`() async throws {
        let loop = try EventLoop()
        let book = Book()
        let (moved, cancelled, last) = (Alarm("moved", book), Alarm("cancelled", book), Alarm("last", book))
        let blockade = BlockedLoop(loop)
        let now = loop.now
        loop.schedule(moved, at: now.advanced(by: .seconds(3600)))
        loop.schedule(moved, at: now.advanced(by: .milliseconds(1)))
        loop.schedule(cancelled, at: now)
        loop.schedule(cancelled, at: nil)
        loop.schedule(last, at: now.advanced(by: .milliseconds(2)))
        blockade.lift()
        #expect(await self.first(2, of: book) == ["moved", "last"])
        await loop.turn()
        #expect(book.names == ["moved", "last"])
        loop.shutdown()
    }

    @Test func `only an earlier wish wakes a sleeping loop`() async throws {
        let loop = try EventLoop()
        let book = Book()
        let (early, late) = (Alarm("early", book), Alarm("late", book))
        loop.schedule(early, at: loop.now.advanced(by: .seconds(1800)))
        await loop.turn()
        // Its thread may still be on its way to sleep; from here on there are no others to wake it.
        let before = loop.counters.wakeUps
        loop.schedule(late, at: loop.now.advanced(by: .seconds(3600)))
        #expect(loop.counters.wakeUps == before)
        loop.schedule(early, at: loop.now)
        #expect(await self.first(1, of: book) == ["early"])
        loop.shutdown()
    }

    @Test func `as sleeper that is gone is not woken`() async throws {
        let loop = try EventLoop()
        let book = Book()
        let blockade = BlockedLoop(loop)
        loop.schedule(Alarm("gone", book), at: loop.now)
        let there = Alarm("there", book)
        loop.schedule(there, at: loop.now)
        blockade.lift()
        #expect(await self.first(1, of: book) == ["there"])
        loop.shutdown()
    }

    @Test func `nothing is woken before its time`() async throws {
        final class Punctual: TimerClient {
            let loop: EventLoop
            let due: Instant
            let book: Book
            init(_ loop: EventLoop, _ due: Instant, _ book: Book) { (self.loop, self.due, self.book) = (loop, due, book) }
            func timerFired() { self.book.note(self.loop.now >= self.due ? "on time" : "early") }
        }
        let loop = try EventLoop()
        let book = Book()
        let sleepers = (0..<50).map { Punctual(loop, loop.now + Int64($0 * 137_731), book) }
        for client in sleepers { loop.schedule(client, at: client.due) }
        #expect(await self.first(50, of: book) == Array(repeating: "on time", count: 50))
        loop.shutdown()
    }

    @Test func `streams that are due later cost one wake up and are let go at the end`() async throws {
        let loop = try EventLoop()
        await loop.turn()
        weak var last: SocketStream?
        do {
            let streams = (0..<10).map { _ in SocketStream(loop: loop, events: EventRecorder()) }
            last = streams.last
            let before = loop.counters.wakeUps
            for stream in streams { #expect(loop.requestService(of: stream, at: loop.now.advanced(by: .seconds(3600)))) }
            #expect(loop.counters.wakeUps - before <= 1)
        }
        #expect(last != nil)
        loop.shutdown()
        #expect(last == nil)
        #expect(!loop.requestService(of: SocketStream(loop: loop, events: EventRecorder()), at: loop.now))
    }

    @Test func `after shutdown nothing runs any more`() async throws {
        let loop = try EventLoop()
        loop.shutdown()
        let ran = Lock(false)
        let isAccepted = loop.execute { ran.withLock { $0 = true } }
        #expect(!isAccepted)
        #expect(!ran.withLock { $0 })
        loop.shutdown()
    }

    @Test func `a loop can shut itself down`() async throws {
        let loop = try EventLoop()
        await withCheckedContinuation { continuation in
            loop.execute {
                loop.shutdown()
                continuation.resume()
            }
        }
        #expect(!loop.execute {})
    }

    @Test func `a token names one resident only`() async throws {
        final class Nobody: PollHandler {
            func ready(_ readiness: Readiness) {}
            func loopDidShutDown() {}
        }
        let loop = try EventLoop()
        let tokens = Lock<[UInt64]>([])
        loop.execute {
            for _ in 0..<3 {
                let token = loop.register(Nobody())
                tokens.withLock { $0.append(token) }
                loop.deregister(token)
            }
        }
        await loop.turn()
        loop.shutdown()
        #expect(Set(tokens.withLock { $0 }).count == 3)
    }
}
