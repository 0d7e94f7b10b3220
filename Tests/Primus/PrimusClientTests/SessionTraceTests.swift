import PrimusClient
import RealtimeCore
import TestSupport
import Testing

/// The sequences of events of the client for JavaScript, with its defects corrected.
@Suite struct SessionTraceTests {
    private let opening = [
        "[outgoing::open]", "readyStateChange opening", "[outgoing::end]", "[outgoing::url]", "open #1 ws://host/primus",
    ]
    private let ended = ["readyStateChange end", "[outgoing::end]", "close", "end"]

    @Test func `opening, queued writes and open`() {
        var session = SessionHarness()
        expect(session.write("early").isEmpty)
        expectEqual(session.open(), self.opening)
        expect(session.open().isEmpty)
        expectEqual(
            session.opened(session.connection), ["[incoming::open]", "readyStateChange open", "[outgoing::data]", "open", #"#1 "early""#])
        expectEqual(session.receive(#"{"a":1}"#), ["[incoming::data]", #"data {"a":1}"#])
    }

    @Test func `the end of the user comes once`() {
        var session = SessionHarness()
        session.establish()
        expectEqual(session.stop(), self.ended + ["close #1 1000", "finish"])
        expect(session.stop().isEmpty)
        expect(session.closed(ConnectionID(rawValue: 1), .peer(.normal, "")).isEmpty)
    }

    @Test func `the end of the user while the client connects`() {
        var session = SessionHarness()
        session.open()
        expectEqual(session.stop(), self.ended + ["abandon #1", "finish"])
    }

    @Test func `the end of a client that was never opened has no events`() {
        var session = SessionHarness(.both)
        expect(session.step { $0.awaitOpen(WaiterID(rawValue: 1), &$2) }.isEmpty)
        expectEqual(session.stop(), ["fail 1 ended", "finish"])
        expect(session.stop().isEmpty)
        // It can still be opened and ended.
        expectEqual(session.open(), ["state opening"] + self.opening)
        expectEqual(session.stop().first, "readyStateChange end")
    }

    @Test func `the end of the user while an attempt is in progress`() {
        var session = SessionHarness()
        session.establish()
        session.close(drop)
        session.advance(by: .seconds(1))
        expectEqual(session.stop(), self.ended + ["abandon #2", "finish"])
        expect(session.stop().isEmpty)
    }

    @Test func `an attempt whose preparation fails, ends or hangs has begun before`() {
        let begin = ["[outgoing::reconnect]", "[outgoing::open]", "readyStateChange opening", "[outgoing::end]"]
        for kind in ["fails", "hangs", "ends"] {
            var session = SessionHarness { $0.requestURL = { $0 } }
            session.open()
            session.finish(1, .prepared(.success(PrimusPrepared(endpoint: session.machine.options.endpoint, credentials: nil))))
            session.opened(session.connection)
            session.close(drop)
            expectEqual(session.advance(by: .seconds(1)), begin + ["2 prepare"])
            let lines =
                switch kind {
                case "fails": session.finish(2, .prepared(.failure(PrimusError(.credentialsFailed, "No token."))))
                case "hangs": session.advance(by: .seconds(30))
                default: session.stop()
                }
            let expected =
                switch kind {
                case "fails": ["reconnect 1", "[incoming::error]", "reconnect scheduled 2"]
                case "hangs": ["reconnect 1", "reconnect timeout", "reconnect scheduled 2"]
                default: ["readyStateChange end", "[outgoing::end]", "close"]
                }
            expectEqual(lines.filter { !$0.contains("cancel") && !$0.contains("abandon") }.prefix(3), expected[...], "\(kind) \(lines)")
        }
    }

    @Test func `the server ends the connection, and the client doesn't reconnect`() {
        var session = SessionHarness()
        session.establish()
        expectEqual(session.receive(#""last""#, #""primus::server::close""#), ["[incoming::data]", #"data "last""#, "[incoming::data]"])
        expectEqual(session.close(.peer(.noStatus, "")), ["[incoming::end]"] + self.ended + ["finish"])
        expectNil(session.machine.nextDeadline)
    }

    @Test func `a server that announces the end and doesn't close is closed`() {
        var session = SessionHarness()
        session.establish()
        session.receive(#""primus::server::close""#)
        expectEqual(session.advance(by: .seconds(2)), ["[incoming::end]"] + self.ended + ["close #1 1000", "finish"])
    }

    @Test func `a drop, and the next connection`() {
        var session = SessionHarness()
        session.establish()
        expectEqual(session.close(drop), ["[incoming::end]", "readyStateChange end", "close", "reconnect scheduled 1"])
        expectEqual(
            session.advance(by: .seconds(1)),
            [
                "[outgoing::reconnect]", "[outgoing::open]", "readyStateChange opening", "[outgoing::end]", "[outgoing::url]",
                "reconnect 1", "open #2 ws://host/primus",
            ])
        expectEqual(session.opened(session.connection), ["[incoming::open]", "reconnected 1", "readyStateChange open", "open"])
        // The attempts are counted anew.
        expectEqual(session.close(drop).last, "reconnect scheduled 1")
    }

    @Test func `a drop without the strategy for it`() {
        var session = SessionHarness { $0.strategies = [.online, .timeout] }
        session.establish()
        expectEqual(session.close(drop), ["[incoming::end]", "readyStateChange end", "close", "[outgoing::end]", "end", "finish"])
    }

    @Test func `refusals at the start, until the attempts are used up`() {
        var session = SessionHarness()
        session.open()
        expectEqual(
            session.close(refused),
            [
                "[incoming::error]", "error", "reconnect scheduled 1", "[incoming::end]", "readyStateChange end",
            ])
        session.advance(by: .seconds(1))
        expectEqual(session.close(refused), ["[incoming::error]", "reconnect scheduled 2", "[incoming::end]", "readyStateChange end"])
        session.advance(by: .seconds(2))
        expectEqual(
            session.close(refused), ["[incoming::error]", "end", "reconnect failed", "[incoming::end]", "readyStateChange end", "finish"])
    }

    @Test func `a refusal without the strategy for it`() {
        var session = SessionHarness { $0.strategies = [.disconnect] }
        session.open()
        expectEqual(session.close(refused), ["[incoming::error]", "error"] + self.ended + ["finish"])
    }

    @Test func `the time limit of the first attempt closes its socket`() {
        var session = SessionHarness()
        session.open()
        expectEqual(
            session.advance(by: .seconds(10)), ["timeout", "reconnect scheduled 1", "readyStateChange end", "abandon #1"])
        var other = SessionHarness { $0.strategies = [] }
        other.open()
        expectEqual(other.advance(by: .seconds(10)), ["timeout"] + self.ended + ["abandon #1", "finish"])
    }

    @Test func `an attempt that hangs has a limit, and the last one ends in the closed state`() {
        var session = SessionHarness { $0.retry = .delays([.seconds(1)]) }
        session.establish()
        session.close(drop)
        session.advance(by: .seconds(1))
        expectEqual(
            session.advance(by: .seconds(30)),
            ["reconnect timeout", "end", "reconnect failed", "readyStateChange end", "abandon #2", "finish"])
        expectNil(session.machine.nextDeadline)
    }

    @Test func `silence means offline until the next connection`() {
        var session = SessionHarness()
        session.establish()
        // No specification says who pings, so the client asks for its ID. A server that doesn't answer that answers a ping frame.
        let questions = Array(repeating: [#"#1 "primus::id::""#, "#1 ping"], count: 2).joined()
        expectEqual(session.advance(by: .seconds(44)).filter { $0.hasPrefix("#1") }, Array(questions))
        expectEqual(
            session.advance(by: .seconds(1)),
            ["offline", "[incoming::end]", "readyStateChange end", "close", "reconnect scheduled 1", "abandon #1"])
        session.advance(by: .seconds(1))
        expectEqual(session.opened(session.connection), ["[incoming::open]", "reconnected 1", "online", "readyStateChange open", "open"])
    }

    @Test func `the end of the user while an attempt is scheduled`() {
        var session = SessionHarness()
        session.establish()
        session.close(drop)
        expectEqual(session.stop(), ["end", "finish"])
        expect(session.advance(by: .seconds(100)).isEmpty)
    }

    @Test func `the end of the user while the application decides about the next attempt`() {
        var session = SessionHarness { $0.retry = .custom { _ in nil } }
        session.establish()
        expectEqual(session.close(drop), ["[incoming::end]", "readyStateChange end", "close", "1 ask 0"])
        expectEqual(session.stop(), ["end", "cancel 1", "finish"])
    }

    @Test func `a bad frame doesn't end the connection or affect its neighbors`() {
        var session = SessionHarness { $0.transformer = .engineIO }
        session.open()
        session.opened(session.connection)
        session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#)
        expectEqual(
            session.receive("4\"a\"", "x", "4\"b\""), ["[incoming::data]", #"data "a""#, "error", "[incoming::data]", #"data "b""#])
    }

    @Test func `a refusal of the client is an error in any attempt`() {
        var session = SessionHarness()
        session.establish()
        session.close(drop)
        session.advance(by: .seconds(1))
        expectEqual(
            session.refuse(401),
            ["[incoming::error]", "error", "end", "reconnect failed", "[incoming::end]", "readyStateChange end", "finish"])
    }
}
