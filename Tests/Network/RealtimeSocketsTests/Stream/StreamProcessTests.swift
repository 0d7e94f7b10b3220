import RealtimeSystem
#if os(Linux)
import Glibc
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// Tests of process-wide effects, each in its own process.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct StreamProcessTests {
    @Test func `writing to a reset connection raises no signal`() async {
        await #expect(processExitsWith: .success) {
            signal(SIGPIPE, SIG_DFL)
            let loop = try EventLoop(turnLimit: .zero)
            let (listener, port) = try RawSocket.listening()
            for _ in 0..<20 {
                let recorder = EventRecorder()
                let stream = SocketStream(loop: loop, events: recorder)
                stream.connect(to: "127.0.0.1", port: port)
                let peer = try listener.accepted()
                await recorder.opened()
                peer.reset()
                for _ in 0..<100 { stream.send([1]) }
                await expect(recorder.ended() != nil)
            }
        }
    }

    private final class Shared<Value: Sendable>: Sendable {
        let value: Lock<Value>
        init(_ value: Value) { self.value = Lock(value) }
    }

    private static func round(_ count: Int) async throws {
        let loop = try EventLoop()
        let listener = try TCPListener(loops: [loop]) { _ in
            EventRecorder(
                onEnded: { $0.close() },
                onReceived: { stream, bytes in
                    stream.enqueue { $0.append(contentsOf: bytes) }
                    stream.flush()
                })
        }
        await withTaskGroup(of: Void.self) { group in
            for lane in 0..<20 {
                group.addTask {
                    for cycle in 0..<count / 20 {
                        let recorder = EventRecorder()
                        let stream = SocketStream(loop: loop, events: recorder)
                        // Some of them start a thread to resolve the name.
                        stream.connect(to: cycle % 50 == 0 ? "localhost" : "127.0.0.1", port: listener.address.port)
                        stream.send([UInt8(lane)])
                        await expectEqual(recorder.bytes(1), [UInt8(lane)])
                        stream.close()
                    }
                }
            }
        }
        await listener.stop()
        loop.shutdown()
    }

    @Test func `ten thousand connections leak no descriptor and no thread`() async {
        await #expect(processExitsWith: .success) {
            try await StreamProcessTests.round(200)
            let before = ProcessUsage.now()
            try await StreamProcessTests.round(10_000)
            try await ProcessUsage.expectRelease(since: before, growthKiB: nil)
        }
    }

    @Test func `a loop reads while all threads of the task pool are blocked`() async {
        await #expect(processExitsWith: .success) {
            let loop = try EventLoop()
            let (listener, port) = try RawSocket.listening()
            let recorder = EventRecorder()
            let stream = SocketStream(loop: loop, events: recorder)
            stream.connect(to: "127.0.0.1", port: port)
            let peer = try listener.accepted()
            await recorder.opened()
            let hasRead = Shared(false)
            // Twice as many as processors, so that all threads of the pool spin until the loop has read.
            await withTaskGroup(of: Void.self) { group in
                let count = 2 * Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))
                let started = Shared(0)
                for _ in 0..<count {
                    group.addTask {
                        let isLast = started.value.withLock { started -> Bool in
                            started += 1
                            return started == count / 2
                        }
                        if isLast { peer.send([42]) }
                        while !hasRead.value.withLock({ $0 }) {
                            if recorder.seen.bytes == [42] { hasRead.value.withLock { $0 = true } }
                            sched_yield()
                        }
                    }
                }
            }
            expectEqual(recorder.seen.bytes, [42])
        }
    }

    @Test func `a client connects after a shortage of descriptors at the start of the shared loop`() async {
        await #expect(processExitsWith: .success) {
            let (listener, port) = try RawSocket.listening()
            let first = EventRecorder()
            let timer = ShortageTimer()
            await DescriptorShortage.during {
                let stream = SocketStream(events: first)
                stream.connect(to: "127.0.0.1", port: port)
                await expectEqual(first.ended()?.code, .system)
                // Retries need timers, which work meanwhile.
                EventLoop.shared.schedule(timer, at: EventLoop.shared.now.advanced(by: .milliseconds(1)))
                await timer.fired.value()
            }
            let second = EventRecorder()
            let stream = SocketStream(events: second)
            stream.connect(to: "127.0.0.1", port: port)
            let peer = try listener.accepted()
            peer.send([42])
            await expectEqual(second.bytes(1), [42])
        }
    }

    @Test func `a listener that cannot start for lack of descriptors can start later`() async {
        await #expect(processExitsWith: .success) {
            let listener = SocketListener()
            await DescriptorShortage.during {
                let error = await #expect(throws: TransportError.self) { try await listener.start(TestHandler()) }
                expectEqual(error?.code, .system)
            }
            _ = try await listener.start(TestHandler())
            await listener.stop()
        }
    }

    @Test func `a listener that ran out of descriptors resumes when descriptors become available`() async {
        await #expect(processExitsWith: .success) {
            let loop = try EventLoop()
            let accepted = Accepted()
            let listener = try TCPListener(loops: [loop]) { accepted.note($0, EventRecorder()) }
            let old = try RawSocket.connected(to: listener.address.port)
            let (_, served) = try await accepted.next()
            let sockets = (0..<8).map { _ in RawSocket(socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)) }
            let address = try #require(SocketAddress("127.0.0.1", port: listener.address.port))
            // Not in a task: when tasks wait for a thread, the system's thread pool opens a file, and ends the process if that fails.
            try await onOwnThread {
                // From here on no descriptor above the highest one in use can be opened.
                var limit = rlimit()
                getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                let before = limit.rlim_cur
                limit.rlim_cur = rlim_t(sockets.map(\.descriptor).max()! + 1)
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                let first = loop.counters.turns
                for socket in sockets { expectEqual(address.withPointer { connect(socket.descriptor, $0, $1) }, 0) }
                while loop.counters.turns == first { sched_yield() }
                let (turns, start) = (loop.counters.turns, loop.now)
                for _ in 0..<10_000 { sched_yield() }
                // It retries ten times a second and does not spin.
                let tenths = Int(start.duration(to: loop.now) / .milliseconds(100))
                expect(loop.counters.turns - turns < 100 + 10 * tenths)
                // The client that is connected is served meanwhile.
                old.send([7])
                while served.seen.bytes != [7] { sched_yield() }
                limit.rlim_cur = before
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            }
            for socket in sockets { socket.send([1]) }
            for _ in sockets {
                let (_, recorder) = try await accepted.next()
                await expectEqual(recorder.bytes(1), [1])
            }
        }
    }
}

private final class ShortageTimer: TimerClient {
    let fired = Waiter<Void>()

    func timerFired() { self.fired.fulfill(())?.resume() }
}
#endif
