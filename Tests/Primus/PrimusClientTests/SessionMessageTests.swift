import PrimusWire
import RealtimeCore
import TestSupport
import Testing

@testable import PrimusClient

/// The heartbeat, Primus's own messages, the queue and the retries of a session.
@Suite struct SessionMessageTests {
    private static func spec(_ heartbeat: String, version: String) -> String {
        #"{\#(heartbeat),"pathname":"/primus","version":"\#(version)","parser":"json","transformer":"websockets"}"#
    }

    private func open(_ heartbeat: String, version: String, _ change: (inout PrimusConfiguration) -> Void = { _ in }) -> SessionHarness {
        var session = SessionHarness(.updates) {
            $0.detection = .automatic
            change(&$0)
        }
        session.open()
        session.respond(1, 200, Self.spec(heartbeat, version: version))
        session.opened(session.connection)
        return session
    }

    // MARK: Heartbeat

    @Test(arguments: [PrimusTransformerKind.engineIO, .sockjs])
    func `only messages that can be read show that the server is there`(transformer: PrimusTransformerKind) {
        for isValid in [false, true] {
            var session = SessionHarness(.updates) {
                ($0.transformer, $0.allowedTransports, $0.silenceLimit) = (transformer, .polling, .seconds(30))
            }
            session.open()
            if transformer == .sockjs { session.respond(1, 200, "{}") }
            session.opened(session.connection, head: HTTPResponseHead(status: 200))
            let isEngineIO = transformer == .engineIO
            session.receive(isEngineIO ? #"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"# : "o")
            let (invalid, valid) = isEngineIO ? ("<html>", #"4"x""#) : ("<html>", #"a["\"x\""]"#)
            var lines: [String] = []
            for _ in 0..<4 {
                lines += session.advance(by: .seconds(9))
                lines += isValid ? session.receive(invalid, valid) : session.receive(invalid)
            }
            expectEqual(lines.contains("offline"), !isValid, "\(lines)")
        }
    }

    @Test(arguments: ["open", "end", "manual", "release"])
    func `calls wait for a client that its owner opens soon, and fail if it doesn't`(what: String) {
        var session = SessionHarness(.updates)
        expectEqual(session.write("x", waiter: 1), ["fail 1 notOpen"])
        session.step { $0.opensSoon(true, &$2) }
        expect(session.write("x", waiter: 2).isEmpty && session.step { $0.awaitCalls(WaiterID(rawValue: 3), &$2) }.isEmpty)
        switch what {
        case "open":
            session.open()
            let lines = session.opened(session.connection)
            expect(lines.contains("resume 2") && lines.contains("resume 3 opened -"), "\(lines)")
            session.step { $0.stop(now: $1, &$2) }
        case "end": expectEqual(session.step { $0.stop(now: $1, &$2) }.sorted(), ["fail 2 ended", "fail 3 ended", "finish"])
        case "manual": expectEqual(session.step { $0.opensSoon(false, &$2) }, ["fail 2 notOpen"])
        default: expectEqual(session.step { $0.release(now: $1, &$2) }.filter { $0.hasPrefix("fail") }.count, 2)
        }
        expectEqual(session.write("x", waiter: 4), ["fail 4 notOpen"])
    }

    @Test func `pings of the server are answered with the same digits and aren't data`() {
        var session = self.open(#""pingInterval":30000"#, version: "8.0.9")
        expectEqual(session.receive(#""primus::ping::1700000000000""#, "1"), ["data 1", #"#1 "primus::pong::1700000000000""#])
    }

    @Test func `the silence limit is one and a half intervals, and any message counts`() {
        var session = self.open(#""pingInterval":30000"#, version: "8.0.9")
        expect(session.advance(by: .seconds(44)).isEmpty)
        session.receive("1")
        expect(session.advance(by: .seconds(44)).isEmpty)
        expectEqual(session.advance(by: .seconds(1)).first, "offline")
    }

    @Test func `a server whose heartbeat is off has a silence limit, too`() {
        var session = self.open(#""pingInterval":false"#, version: "8.0.9")
        expectEqual(session.advance(by: .seconds(30)), ["#1 ping"])
        expectEqual(session.received(session.connection, [TransportMessage(.pong, [])]), ["latency 0.0 seconds"])
        expectEqual(session.advance(by: .seconds(44)), ["#1 ping"])
        expectEqual(session.advance(by: .seconds(1)).first, "offline")
    }

    @Test func `the client pings a server before Primus 7, and a lost answer ends the connection`() {
        var session = self.open(#""timeout":35000"#, version: "6.1.0")
        expectEqual(session.advance(by: .seconds(25)), [#"#1 "primus::ping::1700000025000""#])
        session.advance(by: .milliseconds(40))
        expectEqual(session.receive(#""primus::pong::1700000025000""#), ["latency 0.04 seconds"])
        session.advance(by: .seconds(25))
        expectEqual(session.advance(by: .seconds(10)).first, "offline")
    }

    @Test func `a short time limit of the server shortens the interval`() {
        var session = self.open(#""timeout":12000"#, version: "6.1.0")
        expectEqual(session.advance(by: .seconds(6)), [#"#1 "primus::ping::1700000006000""#])
    }

    @Test func `a server that pings isn't pinged, whatever it said`() {
        var session = self.open(#""timeout":35000"#, version: "6.1.0")
        session.receive(#""primus::ping::5""#)
        expectEqual(session.advance(by: .seconds(25)), ["#1 ping"])
    }

    @Test func `pings of WebSockets keep routers from forgetting the connection`() {
        var session = self.open(#""pingInterval":30000"#, version: "8.0.9") { $0.webSocketPingInterval = .seconds(20) }
        expectEqual(session.advance(by: .seconds(20)), ["#1 ping"])
    }

    @Test func `a message that must not wait for another connection fails with a server that reads slowly`() {
        var session = self.open(#""pingInterval":30000"#, version: "8.0.9")
        session.step { $0.writing(ConnectionID(rawValue: 1), paused: true, now: $1, &$2) }
        expect(session.write("bound", .failIfNotOpen, waiter: 7).isEmpty && session.write("free").isEmpty)
        expect(session.closed(ConnectionID(rawValue: 1), drop).contains("fail 7 connectionLost"))
        session.advance(by: .seconds(1))
        expectEqual(session.opened(ConnectionID(rawValue: 2)).filter { $0.hasPrefix("#") }, [#"#2 "free""#])
    }

    @Test func `an unknown message of Primus isn't data`() {
        var session = self.open(#""pingInterval":30000"#, version: "8.0.9")
        expectEqual(session.receive(#""primus::new::1""#, #""primus""#), [#"data "primus""#])
        expectEqual(session.counters.messagesIgnored, 1)
    }

    @Test(arguments: [(nil, 20), (Duration.seconds(3), 1.5)])
    func `a server that doesn't answer the question for the ID answers the ping frame with it`(limit: Duration?, interval: Double) {
        var session = SessionHarness(.updates) { $0.silenceLimit = limit }
        session.establish()
        for _ in 0..<20 {
            // The server doesn't answer what the application writes either.
            session.advance(by: .seconds(interval / 2))
            session.write("x")
            let lines = session.advance(by: .seconds(interval / 2))
            expectEqual(lines, [#"#1 "primus::id::""#, "#1 ping"])
            session.advance(by: .milliseconds(100))
            expectEqual(session.received(session.connection, [TransportMessage(.pong, [])]), ["latency 0.1 seconds"])
            session.advance(by: .seconds(interval) - .milliseconds(100))
            session.received(session.connection, [TransportMessage(.pong, [])])
        }
        // The check of a connection asks in the same way.
        expectEqual(session.step { $0.checkConnection(now: $1, &$2) }, [#"#1 "primus::id::""#, "#1 ping"])
    }

    @Test func `the ID is asked for once`() {
        var session = self.open(#""pingInterval":30000"#, version: "8.0.9")
        let first = session.step { $0.awaitSparkID(WaiterID(rawValue: 1), now: $1, &$2) }
        expectEqual(first, [#"#1 "primus::id::""#])
        expect(session.step { $0.awaitSparkID(WaiterID(rawValue: 2), now: $1, &$2) }.isEmpty)
        session.advance(by: .milliseconds(30))
        expectEqual(
            session.receive(#""primus::id::xyz""#), ["latency 0.03 seconds", "sparkID xyz", "resume 1 id xyz", "resume 2 id xyz"])
        expectEqual(session.step { $0.awaitSparkID(WaiterID(rawValue: 3), now: $1, &$2) }, ["resume 3 id xyz"])
    }

    // MARK: Queue

    @Test func `a full queue refuses, or drops the oldest or the newest message`() {
        for (policy, sent, failed) in [
            (PrimusQueuePolicy.refuse(2), ["1", "2"], "fail 3 queueFull"), (.dropOldest(2), ["2", "3"], "fail 1 dropped"),
            (.dropNewest(2), ["1", "2"], "fail 3 dropped"),
        ] {
            var session = SessionHarness(.updates) { $0.queue = policy }
            session.open()
            let lines = (1...3).flatMap { session.write(.int($0), waiter: UInt64($0)) }
            expectEqual(lines, [failed])
            expectEqual(session.machine.queuedCount, 2)
            expectEqual(session.opened(session.connection).filter { $0.hasPrefix("#1") }, sent.map { "#1 \($0)" })
            expectEqual(session.machine.waiterCount, 0)
        }
    }

    @Test func `a queue of zero messages keeps none`() {
        var session = SessionHarness(.updates) { $0.queue = .dropOldest(0) }
        session.open()
        expectEqual(session.write(1, waiter: 1), ["fail 1 dropped"])
        expectEqual(session.machine.queuedCount, 0)
    }

    @Test func `a message that doesn't wait, and one for a closed client, fail`() {
        var session = SessionHarness(.updates)
        expectEqual(session.write(1, waiter: 1), ["fail 1 notOpen"])
        session.open()
        expectEqual(session.write(1, .failIfNotOpen, waiter: 2), ["fail 2 notOpen"])
    }

    @Test func `messages wait while the server reads slowly, and keep their order`() {
        var session = SessionHarness(.updates)
        session.establish()
        session.step { $0.writing(ConnectionID(rawValue: 1), paused: true, now: $1, &$2) }
        expect(session.write(1).isEmpty && session.write(2, waiter: 5).isEmpty)
        expectEqual(session.step { $0.writing(ConnectionID(rawValue: 1), paused: false, now: $1, &$2) }, ["#1 1", "#1 2", "resume 5"])
    }

    @Test func `a long queue is sent in parts, in which the connection can tell that output waits`() {
        var session = SessionHarness()
        let large = PrimusValue.string(String(repeating: "x", count: 6 << 20))
        for _ in 0..<7 { session.write(large) }
        session.open()
        func sizes(_ lines: [String]) -> [Int] { lines.filter { $0.hasPrefix("#1 ") }.map(\.utf8.count) }
        let size = 5 + (6 << 20)
        expectEqual(sizes(session.opened(session.connection)), [size, size, size])
        // What is written meanwhile follows, and callers wait.
        expect(session.write(.int(1)).isEmpty && session.machine.mustWaitToWrite)
        expect(session.step { $0.awaitCalls(WaiterID(rawValue: 7), &$2) }.isEmpty)
        expectEqual(sizes(session.advance(by: .milliseconds(10))), [size, size, size])
        session.step { $0.writing(ConnectionID(rawValue: 1), paused: true, now: $1, &$2) }
        expect(session.advance(by: .milliseconds(100)).isEmpty)
        let last = session.step { $0.writing(ConnectionID(rawValue: 1), paused: false, now: $1, &$2) }
        expect(sizes(last) == [size, 4] && last.last == "resume 7" && !session.machine.mustWaitToWrite)
    }

    @Test func `pongs aren't queued`() {
        var session = SessionHarness(.updates)
        session.establish()
        session.step { $0.writing(ConnectionID(rawValue: 1), paused: true, now: $1, &$2) }
        session.write(1)
        expectEqual(session.receive(#""primus::ping::1""#), [#"#1 "primus::pong::1""#])
        expectEqual(session.machine.queuedCount, 1)
    }

    @Test func `the end sends what waits for the server, and fails what waits for a connection`() {
        var session = SessionHarness(.updates)
        session.establish()
        session.step { $0.writing(ConnectionID(rawValue: 1), paused: true, now: $1, &$2) }
        session.write(1)
        expectEqual(session.stop(), ["state closed -", "ended -", "#1 1", "close #1 1000", "finish"])

        session.open()
        session.write(2, waiter: 9)
        session.write(3)
        expect(session.stop().contains("fail 9 ended"))
        expectEqual(session.machine.queuedCount, 1)
    }

    @Test func `a caller that gives up takes its message back`() {
        var session = SessionHarness(.updates)
        session.open()
        session.write(1, waiter: 1)
        session.write(2)
        session.cancel(waiter: 1)
        expectEqual(session.opened(session.connection).last, "#1 2")
    }

    @Test func `size errors are typed`() {
        var session = SessionHarness(.updates) { $0.sentMessageLimit = 10 }
        session.establish()
        expectEqual(session.write("12345678901", waiter: 1), ["fail 1 messageTooLarge"])
        expectEqual(session.close(.peer(.tooLarge, "")).first, "state reconnecting messageTooLarge")
    }

    // MARK: Retries

    @Test func `a user who has ended isn't revived by the network`() {
        var session = SessionHarness(.updates)
        session.establish()
        session.stop()
        session.closed(ConnectionID(rawValue: 1), .peer(.normal, ""))
        expect(session.step { $0.networkChanged(now: $1, &$2) }.isEmpty)
        expect(session.step { $0.reconnectNow(now: $1, &$2) }.isEmpty)
        expectNil(session.machine.nextDeadline)
    }

    @Test func `a change of the network doesn't reconnect a client that is connected`() {
        var session = SessionHarness(.updates)
        session.establish()
        expectEqual(session.step { $0.networkChanged(now: $1, &$2) }, [#"#1 "primus::id::""#, "#1 ping"])
        expectEqual(session.receive(#""primus::id::a""#), ["latency 0.0 seconds", "sparkID a"])
        expectEqual(session.machine.state, .open)
    }

    @Test func `after a loss without the strategy for it, the network's return opens the client, which then reconnects`() {
        var session = SessionHarness(.updates) { $0.strategies = .online }
        session.establish()
        expectEqual(session.close(drop).first, "state closed connectionLost")
        expect(session.advance(by: .seconds(60)).isEmpty)
        expectEqual(session.step { $0.networkChanged(now: $1, &$2) }, ["state opening", "reconnect 1", "open #2 ws://host/primus"])
        // The attempts are those after any loss.
        expect(session.close(refused).contains("scheduled 1"))
        expectEqual(session.advance(by: .seconds(1)).last, "open #3 ws://host/primus")
        expect(session.opened(session.connection).contains("reconnected 1"))
    }

    @Test(arguments: ["end", "server", "attempt", "retry", "strategy"])
    func `a client that doesn't wait for the network stays closed when it is back`(cause: String) {
        var session = SessionHarness(.updates) {
            $0.strategies = cause == "strategy" ? [] : .online
            if cause == "retry" { $0.retry = .none }
        }
        if cause == "attempt" {
            session.open()
            session.close(refused)
        } else {
            session.establish()
        }
        switch cause {
        case "end": session.step { $0.stop(now: $1, &$2) }
        case "server":
            session.receive(#""primus::server::close""#)
            session.close(.peer(.normal, ""))
        default: session.close(drop)
        }
        expect(session.step { $0.networkChanged(now: $1, &$2) }.isEmpty)
    }

    @Test func `the network's return starts the scheduled attempt`() {
        var session = SessionHarness(.updates)
        session.establish()
        session.close(drop)
        expectEqual(session.step { $0.networkChanged(now: $1, &$2) }, ["reconnect 1", "open #2 ws://host/primus"])
        var other = SessionHarness(.updates) { $0.strategies = [.disconnect] }
        other.establish()
        other.close(drop)
        expect(other.step { $0.networkChanged(now: $1, &$2) }.isEmpty)
    }

    @Test func `the first delay is random, all are within the limits, and the retries can be limited`() {
        var first: Set<Duration> = []
        for seed in 0..<50 as Range<UInt64> {
            var session = SessionHarness(.updates, seed: seed) { $0.retry = .backoff(PrimusBackoff(maximum: .seconds(4), retries: 5)) }
            session.establish()
            var lines = session.close(drop)
            for attempt in 1...5 {
                let delay = session.machine.nextAttempt.map { session.now.duration(to: $0) } ?? .zero
                if attempt == 1 { first.insert(delay) }
                let bound = min(Duration.seconds(4), .milliseconds(500) * (1 << attempt))
                expect(delay >= .milliseconds(500) && delay <= bound)
                session.advance(by: delay)
                lines = session.close(refused)
            }
            expectEqual(lines, ["reconnectFailed", "state closed connectionLost", "ended connectionLost", "finish"])
        }
        expect(first.count > 40)
    }

    @Test func `recovery doesn't stall when an attempt ends before its time limit`() {
        var session = SessionHarness(.updates) { $0.retry = .delays(Array(repeating: .seconds(60), count: 3)) }
        session.establish()
        session.close(drop)
        for _ in 0..<3 {
            expect(session.advance(by: .seconds(60)).contains { $0.hasPrefix("open #") })
            session.advance(by: .seconds(1))
            session.close(.peer(.noStatus, ""))
        }
        expectEqual(
            session.machine.state,
            .closed(
                PrimusError(.connectionLost, "Failed to connect to http://host: the server closed the connection without a code.")))
    }

    @Test func `the application decides about attempts`() {
        var session = SessionHarness(.updates) { $0.retry = .custom { _ in nil } }
        session.establish()
        expectEqual(session.close(drop), ["state reconnecting connectionLost", "1 ask 0"])
        expectEqual(
            session.finish(1, .retryDelay(.success(.seconds(3)))),
            [
                "reconnecting connectionLost", "scheduled 1", "connectingIn 3.0 seconds",
            ])
        session.advance(by: .seconds(3))
        expectEqual(session.close(refused), ["2 ask 1"])
        expectEqual(session.finish(2, .retryDelay(.success(nil))), ["state closed connectionLost", "ended connectionLost", "finish"])
    }

    @Test func `an attempt before the application has decided reports the loss, once`() {
        var session = SessionHarness(.updates) { $0.retry = .custom { _ in nil } }
        session.establish()
        session.close(drop)
        let lines = session.step { $0.checkConnection(now: $1, &$2) }
        expect(lines.contains("reconnecting connectionLost") && lines.contains("cancel 1") && lines.last == "open #2 ws://host/primus")
        expect(!session.opened(session.connection).contains("reconnecting connectionLost"))
        // The decision comes too late.
        expect(session.finish(1, .retryDelay(.success(nil))).isEmpty && session.machine.state == .open)
    }

    @Test func `messages are encoded when the parser is known`() {
        var session = SessionHarness(.updates) { $0.detection = .automatic }
        session.write(["n": 1])
        session.open()
        let spec = #"{"pingInterval":30000,"version":"8.0.9","parser":"msgpack","transformer":"websockets"}"#
        session.respond(1, 200, spec)
        expectEqual(session.opened(session.connection).last, "#1 4 bytes")
    }
}
