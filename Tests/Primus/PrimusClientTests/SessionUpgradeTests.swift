import RealtimeCore
import TestSupport
import Testing

@testable import PrimusClient

/// The move of a session of engine.io from polling to a WebSocket, as lines.
@Suite struct SessionUpgradeTests {
    private static let (polling, webSocket) = (ConnectionID(rawValue: 1), ConnectionID(rawValue: 2))
    private static let handshake = #"0{"sid":"abc","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":20000}"#

    /// A client that is open over polling, and has begun to move.
    private static func moving(_ change: (inout PrimusConfiguration) -> Void = { _ in }) -> SessionHarness {
        var session = SessionHarness(.updates) {
            ($0.transformer, $0.startsWithPolling) = (.engineIO, true)
            change(&$0)
        }
        session.open()
        session.opened(Self.polling, head: HTTPResponseHead(status: 200))
        session.receive(Self.handshake)
        return session
    }

    @Test func `a WebSocket is opened for the session, and replaces polling when its last requests have ended`() {
        var session = SessionHarness(.updates) { ($0.transformer, $0.startsWithPolling) = (.engineIO, true) }
        expectEqual(session.open().last, "open #1 http://host/primus/?EIO=3&transport=polling")
        session.opened(Self.polling, head: HTTPResponseHead(status: 200))
        expectEqual(session.receive(Self.handshake).last, "open #2 ws://host/primus/?EIO=3&transport=websocket&sid=abc")
        expectEqual(session.opened(Self.webSocket), ["#2 2probe"])
        expectEqual(session.receive("3probe", on: Self.webSocket), ["close #1 1000"])
        expectEqual(session.machine.transport, .polling)
        expectEqual(session.closed(Self.polling, .requested), ["transport webSockets", "#2 5"])
        expect(session.machine.transport == .webSockets && session.write("x") == [#"#2 4"x""#])
    }

    @Test func `a session moves to one WebSocket, however often the server offers it`() {
        var session = SessionHarness(.updates) { ($0.transformer, $0.startsWithPolling) = (.engineIO, true) }
        session.open()
        session.opened(Self.polling, head: HTTPResponseHead(status: 200))
        let upgrades = (Array(repeating: #""websocket""#, count: 3_000) + [#""webtransport""#, "5"]).joined(separator: ",")
        let lines = session.receive(Self.handshake.replacing(#""websocket""#, with: upgrades))
        expectEqual(lines.filter { $0.hasPrefix("open ") }, ["open #2 ws://host/primus/?EIO=3&transport=websocket&sid=abc"])
        expectEqual(session.opened(Self.webSocket), ["#2 2probe"])
    }

    /// Loses the session in the middle of the move, and opens the next one. Returns the lines after its handshake.
    private static func lose(_ session: inout SessionHarness, _ connection: ConnectionID = Self.polling) -> [String] {
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        let timeout = CloseReason.transport(TransportError(.timedOut, "The server didn't end its response."))
        expect(session.closed(connection, timeout).contains("state reconnecting connectionLost"))
        session.advance(by: .seconds(1))
        return Self.establish(&session)
    }

    private static func establish(_ session: inout SessionHarness) -> [String] {
        session.opened(session.connection, head: HTTPResponseHead(status: 200))
        return session.receive(Self.handshake)
    }

    @Test(arguments: [Self.polling, Self.webSocket])
    func `after a session was lost in the move, the next ones stay with polling`(connection: ConnectionID) {
        var session = Self.moving()
        let lines = Self.lose(&session, connection)
        expect(lines.contains("transport polling") && !lines.contains { $0.hasPrefix("open ") }, "\(lines)")
        session.close(drop)
        session.advance(by: .seconds(1))
        expect(!Self.establish(&session).contains { $0.hasPrefix("open ") })
    }

    @Test(arguments: ["open", "network"]) func `a client that is opened again, or on another network, tries to move again`(event: String) {
        var session = Self.moving()
        _ = Self.lose(&session)
        if event == "open" {
            session.step { $0.stop(now: $1, &$2) }
            session.open()
        } else {
            session.step { $0.networkChanged(now: $1, &$2) }
            session.close(drop)
            session.advance(by: .seconds(1))
        }
        let lines = Self.establish(&session)
        expect(lines.contains { $0.hasPrefix("open ") && $0.contains("transport=websocket&sid=abc") }, "\(lines)")
    }

    @Test func `what arrives meanwhile is delivered in order, and what is written follows the move`() {
        var session = Self.moving()
        session.opened(Self.webSocket)
        expectEqual(session.write("before"), [#"#1 4"before""#])
        session.receive("3probe", on: Self.webSocket)
        expect(session.write("during").isEmpty)
        // The last response brings messages, and a ping of each kind.
        expectEqual(session.receive("4\"a\"", "2", "4\"primus::ping::1\"", "4\"b\"", on: Self.polling), ["data \"a\"", "data \"b\""])
        expectEqual(
            session.closed(Self.polling, .requested), ["transport webSockets", "#2 5", "#2 3", #"#2 4"primus::pong::1""#, #"#2 4"during""#])
    }

    @Test func `what polling has accepted and not sent follows the move, before what was written meanwhile`() {
        var session = Self.moving()
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        expect(session.write("during").isEmpty)
        session.receive("2", on: Self.polling)
        expect(session.step { $0.unsent(Self.polling, [.text("4\"a\""), .text("4\"b\"")], now: $1, &$2) }.isEmpty)
        expectEqual(
            session.closed(Self.polling, .requested), ["transport webSockets", "#2 5", #"#2 4"a""#, #"#2 4"b""#, "#2 3", #"#2 4"during""#])
    }

    @Test(arguments: [Self.polling, Self.webSocket], [false, true])
    func `a caller whose message polling has accepted learns whether the session has moved`(connection: ConnectionID, isLost: Bool) {
        var session = Self.moving()
        session.opened(Self.webSocket)
        expectEqual(session.write(.int(1), waiter: 1), ["#1 41", "await 1 #1"])
        expectEqual(session.write(.int(2), waiter: 2), ["#1 42", "await 2 #1"])
        session.step { session, _, effects in session.answered(WaiterID(rawValue: 1), &effects) }
        session.receive("3probe", on: Self.webSocket)
        session.step { $0.unsent(Self.polling, [.text("42")], now: $1, &$2) }
        var lines = isLost ? session.closed(connection, drop) : session.closed(Self.polling, .requested)
        lines += session.step { session, _, effects in session.unanswered(WaiterID(rawValue: 2), &effects) }
        expectEqual(
            lines.filter { $0.hasSuffix(" 2") || $0.hasPrefix("fail") }, isLost ? ["fail 2 connectionLost"] : ["resume 2"], "\(lines)")
        expectEqual(session.machine.waiterCount, 0)
    }

    @Test func `a session that has moved resumes no caller of a connection before it`() {
        var session = Self.moving()
        expectEqual(session.write(.int(1), waiter: 1), ["#1 41", "await 1 #1"])
        // The connection still waits for the answer when the next one has moved.
        session.step { $0.stop(now: $1, &$2) }
        session.open()
        let (polling, webSocket) = (ConnectionID(rawValue: 3), ConnectionID(rawValue: 4))
        session.opened(polling, head: HTTPResponseHead(status: 200))
        session.receive(Self.handshake, on: polling)
        session.opened(webSocket)
        session.receive("3probe", on: webSocket)
        let lines = session.closed(polling, .requested)
        expect(lines.contains("transport webSockets") && !lines.contains("resume 1"), "\(lines)")
        let failure = session.step { session, _, effects in session.unanswered(WaiterID(rawValue: 1), &effects) }
        expectEqual(failure, ["fail 1 ended"])
    }

    @Test func `what polling hasn't sent precedes the end of a client that moves`() {
        var session = Self.ended()
        session.step { $0.unsent(Self.polling, [.text("4\"a\"")], now: $1, &$2) }
        expectEqual(session.closed(Self.polling, .requested), ["#2 5", #"#2 4"a""#, #"#2 4"last""#, "close #2 1000", "finish"])
    }

    @Test func `a message whose caller is cancelled during the move makes no room in the queue for others`() {
        var session = Self.moving { $0.queue = .refuse(1) }
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        let large = PrimusValue.string(String(repeating: "x", count: 300_000))
        expect(session.write(.int(1), waiter: 1).isEmpty && session.write(large, waiter: 2).isEmpty)
        session.step { $0.cancelled(WaiterID(rawValue: 1), now: $1, &$2) }
        expect(session.write(.int(3), waiter: 3).isEmpty && session.write(.int(4), waiter: 4) == ["fail 4 queueFull"])
    }

    @Test(arguments: [PrimusQueuePolicy.refuse(0), .dropOldest(1), .dropNewest(1)])
    func `the limit of the queue doesn't count for what is written during the move`(policy: PrimusQueuePolicy) {
        var session = Self.moving { $0.queue = policy }
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        for number in 0..<3 { expect(session.write(.int(Int64(number))).isEmpty) }
        expectEqual(session.closed(Self.polling, .requested), ["transport webSockets", "#2 5", "#2 40", "#2 41", "#2 42"])
    }

    @Test func `the limit of the queue counts for what is written during the move after much`() {
        let large = PrimusValue.string(String(repeating: "x", count: 300_000))
        var session = Self.moving { $0.queue = .dropOldest(1) }
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        // As a connection does, which takes the message with which writing pauses.
        expect(session.write(.int(1), waiter: 1).isEmpty && session.write(large, waiter: 2).isEmpty)
        expect(session.write(.int(3), waiter: 3).isEmpty)
        expectEqual(session.write(.int(4), waiter: 4), ["fail 3 dropped"])
        let lines = session.closed(Self.polling, .requested)
        expect(lines.prefix(3) == ["transport webSockets", "#2 5", "#2 41"] && lines.contains("#2 44"), "\(lines.count)")
        expectEqual(lines.filter { $0.hasPrefix("resume") }, ["resume 1", "resume 2", "resume 4"])
    }

    @Test func `the limit of the queue counts for what is written after the end of a client that moves`() {
        var session = Self.moving { $0.queue = .refuse(1) }
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        for number in 1...3 { session.write(.int(Int64(number))) }
        session.step { $0.stop(now: $1, &$2) }
        for number in 4...6 { session.write(.int(Int64(number))) }
        // The three that are sent after the move, and one that waits for the next connection.
        expectEqual(session.machine.queuedCount, 4)
        expectEqual(session.closed(Self.polling, .requested).filter { $0.hasPrefix("#2 4") }, ["#2 41", "#2 42", "#2 43"])
        expectEqual(session.machine.queuedCount, 1)
    }

    @Test(arguments: [PrimusQueuePolicy.refuse(0), .dropOldest(0), .refuse(1), .dropOldest(1)])
    func `what was written during the move waits for the next connection, unless the queue keeps nothing`(policy: PrimusQueuePolicy) {
        var session = Self.moving { $0.queue = policy }
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        for number in 1...3 { expect(session.write(.int(Int64(number)), waiter: UInt64(number)).isEmpty) }
        let lines = session.closed(Self.polling, drop)
        let keeps = policy.limit > 0
        expectEqual(lines.filter { $0.hasPrefix("fail") }, (keeps ? [] : (1...3).map { "fail \($0) connectionLost" }), "\(lines)")
        session.advance(by: .seconds(1))
        let next = ConnectionID(rawValue: 3)
        session.opened(next, head: HTTPResponseHead(status: 200))
        expectEqual(session.receive(Self.handshake, on: next).filter { $0.hasPrefix("#3") }, (keeps ? ["#3 41", "#3 42", "#3 43"] : []))
    }

    @Test(arguments: ["end", "answer", "limit"])
    func `a WebSocket that fails before the move leaves the session with polling`(failure: String) {
        var session = Self.moving()
        switch failure {
        case "end": expect(session.closed(Self.webSocket, drop).isEmpty)
        case "answer":
            session.opened(Self.webSocket)
            expectEqual(session.receive("3other", on: Self.webSocket), ["abandon #2"])
        default: expectEqual(session.advance(by: .seconds(10)), ["abandon #2"])
        }
        expect(session.machine.transport == .polling && session.write("x") == [#"#1 4"x""#])
    }

    @Test(arguments: [
        "3", "3other", "2probe", "4\"x\"", "abc", "", "0{}", "5", "1", "6", "2", "b!", "3probe3probe", "<html>", "3PROBE",
        "3probe" + String(repeating: "x", count: 10_000), #"0{"sid":"other","upgrades":[],"pingInterval":1,"pingTimeout":1}"#,
    ])
    func `a probe that is answered with anything else leaves the session with polling`(answer: String) {
        var session = Self.moving()
        session.opened(Self.webSocket)
        expectEqual(session.receive(answer, on: Self.webSocket), ["abandon #2"])
        expect(session.machine.transport == .polling && session.write("x") == [#"#1 4"x""#])
        // What the WebSocket brings after that has no effect.
        expect(session.receive("3probe", on: Self.webSocket).isEmpty && session.receive("4\"y\"", on: Self.webSocket).isEmpty)
    }

    @Test func `after a standstill, the answer to the probe has its time limit once more`() {
        var session = Self.moving()
        session.opened(Self.webSocket)
        expect(!session.standStill(for: .seconds(15)).contains("abandon #2"))
        expectEqual(session.receive("3probe", on: Self.webSocket), ["close #1 1000"])
    }

    @Test(arguments: [1, 2])
    func `the end of either connection during the move is one loss`(connection: UInt64) {
        var session = Self.moving()
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        let lines = session.closed(ConnectionID(rawValue: connection), drop)
        expect(lines.filter { $0.hasPrefix("reconnecting") }.count == 1 && lines.contains("abandon #\(3 - connection)"), "\(lines)")
    }

    @Test(arguments: [false, true]) func `the end of polling before the answer to the probe is one loss`(isOpen: Bool) {
        var session = Self.moving()
        if isOpen { session.opened(Self.webSocket) }
        let lines = session.closed(Self.polling, drop)
        expect(lines.filter { $0.hasPrefix("reconnecting") }.count == 1 && lines.contains("abandon #2"), "\(lines)")
        // What the WebSocket brings after that has no effect.
        expect(session.receive("3probe", on: Self.webSocket).isEmpty && session.closed(Self.webSocket, drop).isEmpty)
        expectNil(session.machine.transport)
    }

    @Test func `what was written before the move pauses nothing after it`() {
        var session = Self.moving()
        session.opened(Self.webSocket)
        session.step { $0.writing(Self.polling, paused: true, now: $1, &$2) }
        session.receive("3probe", on: Self.webSocket)
        expect(session.write("x").isEmpty)
        expectEqual(session.closed(Self.polling, .requested), ["transport webSockets", "#2 5", #"#2 4"x""#])
        expect(!session.machine.mustWaitToWrite && session.write("y") == [#"#2 4"y""#])
    }

    /// A client that was ended in the middle of the move, with a message that waits for the move.
    private static func ended() -> SessionHarness {
        var session = Self.moving()
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        session.write("last")
        let lines = session.step { $0.stop(now: $1, &$2) }
        expect(lines.contains("ended -") && !lines.contains { $0.contains("#") }, "\(lines)")
        return session
    }

    @Test func `a client that is ended during the move sends what was written, and then ends the session`() {
        var session = Self.ended()
        expect(session.receive("4\"ignored\"", on: Self.polling).isEmpty)
        expectEqual(session.closed(Self.polling, .requested), ["#2 5", #"#2 4"last""#, "close #2 1000", "finish"])
    }

    @Test func `what is written after the end waits for the next connection`() {
        var session = Self.ended()
        expect(session.write("later").isEmpty && session.machine.queuedCount == 2)
        expectEqual(session.closed(Self.polling, .requested), ["#2 5", #"#2 4"last""#, "close #2 1000", "finish"])
        session.open()
        session.opened(ConnectionID(rawValue: 3), head: HTTPResponseHead(status: 200))
        let lines = session.receive(Self.handshake, on: ConnectionID(rawValue: 3))
        expectEqual(lines.filter { $0.hasPrefix("#") }, [#"#3 4"later""#], "\(lines)")
    }

    @Test func `what was not sent before the limit precedes what was written after the end`() {
        var session = Self.ended()
        session.write("later")
        session.advance(by: .seconds(5))
        session.open()
        session.opened(ConnectionID(rawValue: 3), head: HTTPResponseHead(status: 200))
        let lines = session.receive(Self.handshake, on: ConnectionID(rawValue: 3))
        expectEqual(lines.filter { $0.hasPrefix("#") }, [#"#3 4"last""#, #"#3 4"later""#], "\(lines)")
    }

    @Test func `a call that waits for the end of the move waits for the next connection after a loss`() {
        let caller = WaiterID(rawValue: 7)
        var session = Self.moving()
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        expect(session.step { $0.awaitCalls(caller, &$2) }.isEmpty)
        let lines = session.closed(Self.webSocket, drop)
        expect(lines.contains("resume 7") && lines.contains("state reconnecting connectionLost"), "\(lines)")
        // It looks again.
        expect(session.step { $0.awaitCalls(caller, &$2) }.isEmpty)
        session.advance(by: .seconds(1))
        session.opened(ConnectionID(rawValue: 3), head: HTTPResponseHead(status: 200))
        expect(session.receive(Self.handshake, on: ConnectionID(rawValue: 3)).contains("resume 7 opened abc"))
    }

    @Test func `nothing is sent on the WebSocket before the packet of the move`() {
        var session = Self.moving()
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        expect(session.advance(by: .seconds(60)).isEmpty)
        expectEqual(session.closed(Self.polling, .requested), ["transport webSockets", "#2 5"])
        expectEqual(session.advance(by: .seconds(25)), [#"#2 4"primus::id::""#, "#2 2"])
    }

    @Test func `a message that must not wait for another connection fails with the one that moves`() {
        var session = Self.moving()
        session.opened(Self.webSocket)
        session.receive("3probe", on: Self.webSocket)
        expect(session.write("bound", .failIfNotOpen, waiter: 7).isEmpty && session.write("free").isEmpty)
        expect(session.closed(Self.webSocket, drop).contains("fail 7 connectionLost"))
        expectEqual(session.machine.queuedCount, 1)
        session.advance(by: .seconds(1))
        session.opened(ConnectionID(rawValue: 3), head: HTTPResponseHead(status: 200))
        let lines = session.receive(Self.handshake, on: ConnectionID(rawValue: 3))
        expectEqual(lines.filter { $0.hasPrefix("#") }, [#"#3 4"free""#], "\(lines)")
    }

    @Test func `a call that waits until a client is open fails when the client is ended again`() {
        var session = Self.ended()
        session.step { $0.awaitOpen(WaiterID(rawValue: 7), &$2) }
        expectEqual(session.step { $0.stop(now: $1, &$2) }, ["fail 7 ended"])
        session.step { $0.awaitOpen(WaiterID(rawValue: 8), &$2) }
        expect(session.step { $0.release(now: $1, &$2) }.contains("fail 8 ended"))
    }

    @Test func `a client that is ended during the move doesn't wait longer than it does for a close`() {
        var session = Self.ended()
        expectEqual(session.advance(by: .seconds(5)), ["close #2 1000", "abandon #1", "finish"])
        expect(session.closed(Self.polling, .requested).isEmpty)
    }

    @Test(arguments: [1, 2])
    func `a loss in the move of a client that was ended has no event`(connection: UInt64) {
        var session = Self.ended()
        expectEqual(session.closed(ConnectionID(rawValue: connection), drop), ["abandon #\(3 - connection)", "finish"])
        expect(session.advance(by: .seconds(5)).isEmpty)
    }

    @Test func `a client that is opened again during the move of its last session gives that up`() {
        var session = Self.ended()
        let lines = session.open()
        expect(lines.contains("close #2 1000") && lines.contains("abandon #1") && lines.last?.hasPrefix("open #3 ") == true, "\(lines)")
    }

    @Test func `nothing moves if the server or the settings allow no WebSocket`() {
        var session = Self.moving { $0.allowedTransports = .polling }
        expect(session.machine.transport == .polling && session.advance(by: .seconds(10)).isEmpty)
        session = SessionHarness(.updates) { ($0.transformer, $0.startsWithPolling) = (.engineIO, true) }
        session.open()
        session.opened(Self.polling, head: HTTPResponseHead(status: 200))
        expectEqual(session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#).last, "sparkID abc")
    }
}
