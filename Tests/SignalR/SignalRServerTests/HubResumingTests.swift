import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// Stateful reconnect: the machine without tasks and connections.
@Suite struct HubResumingTests {
    private static func makeServer(_ change: (inout SignalRServerConfiguration) -> Void = { _ in }) -> HubMachineUnderTest {
        HubMachineUnderTest {
            $0.allowsStatefulReconnects = true
            $0.keepAliveInterval = .seconds(600)
            $0.clientTimeout = .seconds(1_200)
            change(&$0)
        }
    }

    private static func broadcast(_ server: inout HubMachineUnderTest, _ text: String) -> [HubCommand] {
        let hub = server.hub
        return server.step { machine, now, effects in
            machine.send([.json: .text("\(text)\u{1E}")], to: .all(except: []), of: hub, now: now, &effects)
        }
    }

    private static func call(_ id: Int, _ method: String = "A") -> String {
        #"{"type":1,"invocationId":"\#(id)","target":"\#(method)","arguments":[]}"#
    }

    private static func completion(_ id: Int) -> String { #"{"type":3,"invocationId":"\#(id)"}"# }

    // MARK: Resuming

    @Test func `a lost socket doesn't end the connection, and another one resumes it without a handshake`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        let id = server.connectionID(1)
        server.join(1, "g")
        server.receive(1, Self.call(1))
        expectEqual(server.lose(1), [])
        expectEqual(server.end("A"), [])
        expectEqual(Self.broadcast(&server, "x"), [])
        expectEqual(server.resume(2, token: token), [.send(2, #"{"type":9,"sequenceId":1}"#), .send(2, Self.completion(1)), .send(2, "x")])
        // The client has to say first with which message it continues.
        expectEqual(server.receive(2, Self.call(2)), [])
        expectEqual(server.receive(2, #"{"type":9,"sequenceId":2}"#, Self.call(2)), [.start("A")])
        expectEqual(server.end("A"), [.send(2, Self.completion(2))])
        expectEqual(server.recipients(.groups(["g"], except: [])), [2])
        expect(server.connectionID(1) == id && server.machine.connections.count == 1)
        expectEqual(server.closed(2), [.start("disconnected")])
        expectEqual(server.upgrade(3, token: token), 404)
    }

    @Test func `a socket replaces one that seems to be alive, whose late events are ignored`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        expectEqual(server.resume(2, token: token), [.close(1, .normal), .send(2, #"{"type":9,"sequenceId":1}"#)])
        expect(server.receive(1, Self.call(1)) == [] && server.closed(1) == [] && server.lose(1) == [])
        expectEqual(server.receive(2, #"{"type":9,"sequenceId":1}"#, Self.call(1)), [.start("A")])
        expectEqual(server.resume(3, token: token)?.first, .close(2, .normal))
        expect(server.lose(2) == [] && server.end("A") == [.send(3, Self.completion(1))])
        expectEqual(server.machine.connections.count, 1)
    }

    @Test func `a connection that is resumed a thousand times repeats the same, and keeps nothing more`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        _ = Self.broadcast(&server, "x")
        for number in 2...1_000 {
            expectEqual(server.lose(number - 1), [])
            expectEqual(server.resume(number, token: token), [.send(number, #"{"type":9,"sequenceId":1}"#), .send(number, "x")])
        }
        expectEqual(server.receive(1_000, #"{"type":9,"sequenceId":1}"#, Self.call(1)), [.start("A")])
        expectEqual(server.machine.connections.count, 1)
    }

    @Test func `after a standstill, a connection waits for another socket once more`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        server.lose(1)
        expectEqual(server.standStill(for: .seconds(3_600)), [])
        expect(server.resume(2, token: token) != nil)
        server.lose(2)
        for _ in 0..<2 { _ = server.standStill(for: .seconds(3_600)) }
        expectNil(server.resume(3, token: token))
    }

    @Test func `the second cut comes during the replay`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        server.receive(1, Self.call(1))
        server.lose(1)
        server.end("A")
        let replay = { (number: Int) -> [HubCommand] in [.send(number, #"{"type":9,"sequenceId":1}"#), .send(number, Self.completion(1))] }
        expectEqual(server.resume(2, token: token), replay(2))
        expectEqual(server.lose(2), [])
        expectEqual(server.resume(3, token: token), replay(3))
        expectEqual(server.receive(3, #"{"type":9,"sequenceId":2}"#, #"{"type":8,"sequenceId":1}"#), [])
        server.lose(3)
        // Nothing waits any more.
        expectEqual(server.resume(4, token: token), [.send(4, #"{"type":9,"sequenceId":2}"#)])
    }

    @Test func `an incomplete message of the lost socket is forgotten`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        server.receiveRaw(1, [#"{"type":1,"inv"#])
        server.lose(1)
        _ = server.resume(2, token: token)
        expectEqual(server.receive(2, #"{"type":9,"sequenceId":1}"#, Self.call(1)), [.start("A")])
    }

    // MARK: Counting

    @Test func `messages are acknowledged once a second, and repetitions are dropped`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        server.receive(1, Self.call(1), Self.call(2))
        server.end("A")
        expectEqual(server.advance(by: .milliseconds(999)), [])
        expectEqual(server.advance(by: .milliseconds(1)), [.send(1, #"{"type":8,"sequenceId":2}"#)])
        expectEqual(server.advance(by: .seconds(10)), [])
        // The acknowledgment was lost: the client repeats both, which is acknowledged immediately, and sends another one.
        server.end("A")
        server.lose(1)
        _ = server.resume(2, token: token)
        let commands = server.receive(2, #"{"type":9,"sequenceId":1}"#, Self.call(1), Self.call(2), Self.call(3))
        expectEqual(commands, [.send(2, #"{"type":8,"sequenceId":2}"#), .start("A")])
        expectEqual(server.advance(by: .seconds(1)), [.send(2, #"{"type":8,"sequenceId":3}"#)])
    }

    @Test(arguments: [(1, "message 3, but only 1 messages were received"), (0, "message 2, but only 0 messages were received")])
    func `a sequence from the future ends the connection`(received: Int, problem: String) {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        for number in 0..<received { server.receive(1, Self.call(number)) }
        server.lose(1)
        _ = server.resume(2, token: token)
        let text = "Connection closed with an error. InvalidOperationException: Sequence ID greater than amount of messages we've received."
        expectEqual(
            server.receive(2, #"{"type":9,"sequenceId":\#(received + 2)}"#),
            [
                .send(2, #"{"type":7,"error":"\#(text)","allowReconnect":true}"#), .close(2, .normal),
            ])
        expect(server.logged.contains { $0.contains(problem) })
        let commands = server.closed(2)
        expect(received > 0 ? commands == [.cancel(["A"])] : commands == [.start("disconnected: \(text)")])
        expectEqual(server.upgrade(3, token: token), 404)
    }

    @Test func `acknowledgments free the buffer, and nonsense ones are ignored`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        for _ in 0..<3 { _ = Self.broadcast(&server, "x") }
        for number in [0, 2, 1, 2, 99] { expectEqual(server.receive(1, #"{"type":8,"sequenceId":\#(number)}"#), []) }
        server.lose(1)
        expectEqual(server.resume(2, token: token), [.send(2, #"{"type":9,"sequenceId":3}"#), .send(2, "x")])
    }

    /// Numbers that an acknowledgment or a sequence can't have.
    @Test(arguments: [8, 9], ["-1", "1.5", "9223372036854775808", "18446744073709551616", "1e300", #""1""#, "null", "[1]", "{}"])
    func `a number that isn't one ends the connection and frees nothing`(type: Int, number: String) {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        _ = Self.broadcast(&server, "x")
        server.lose(1)
        expectEqual(server.resume(2, token: token), [.send(2, #"{"type":9,"sequenceId":1}"#), .send(2, "x")])
        // What can't be read before the number of the client belongs to the lost socket.
        let invalid = #"{"type":\#(type),"sequenceId":\#(number)}"#
        expectEqual(server.receive(2, invalid), [])
        server.lose(2)
        expectEqual(server.resume(3, token: token), [.send(3, #"{"type":9,"sequenceId":1}"#), .send(3, "x")])
        expectEqual(server.receive(3, #"{"type":9,"sequenceId":1}"#), [])
        let commands = server.receive(3, invalid, Self.call(1))
        guard commands.count == 2, case .send(3, let text) = commands[0] else { return expect(false, "\(commands)") }
        expect(text.contains("InvalidDataException") && commands[1] == .close(3, .normal), "\(text)")
    }

    @Test(arguments: ["0", "1000000", "9223372036854775807"])
    func `an acknowledgment of what wasn't sent frees nothing, and a call that follows is handled`(number: String) {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        _ = Self.broadcast(&server, "x")
        expectEqual(server.receive(1, #"{"type":8,"sequenceId":\#(number)}"#, Self.call(1)), [.start("A")])
        server.lose(1)
        expectEqual(server.resume(2, token: token), [.send(2, #"{"type":9,"sequenceId":1}"#), .send(2, "x")])
    }

    @Test(arguments: ["0", "3", "1000000", "9223372036854775807"])
    func `a sequence that can't be right ends the connection`(number: String) {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        server.receive(1, Self.call(1))
        server.lose(1)
        _ = server.resume(2, token: token)
        let commands = server.receive(2, #"{"type":9,"sequenceId":\#(number)}"#, Self.call(2))
        guard commands.count == 2, case .send(2, let text) = commands[0] else { return expect(false, "\(commands)") }
        expect(text.hasPrefix(#"{"type":7,"error":"#) && commands[1] == .close(2, .normal), "\(text)")
    }

    @Test func `pings, acknowledgments and close messages aren't counted`() {
        var server = Self.makeServer { $0.keepAliveInterval = .seconds(2) }
        let token = server.connectResumable(1)
        expectEqual(server.advance(by: .seconds(2)), [.send(1, #"{"type":6}"#)])
        expectEqual(server.receive(1, #"{"type":6}"#, Self.call(1)), [.start("A")])
        server.lose(1)
        // Without a socket, there is nothing to keep alive.
        expectEqual(server.advance(by: .seconds(10)), [])
        expectEqual(server.resume(2, token: token), [.send(2, #"{"type":9,"sequenceId":1}"#)])
        expectEqual(server.receive(2, #"{"type":9,"sequenceId":2}"#), [])
        expect(server.advance(by: .seconds(2)).contains(.send(2, #"{"type":6}"#)))
    }

    // MARK: Back-pressure

    @Test func `callers wait while the buffer is full, also without a socket, until the client acknowledges`() {
        var server = Self.makeServer { $0.statefulReconnectBufferBytes = 4 }
        let token = server.connectResumable(1)
        server.lose(1)
        expectEqual(Self.broadcast(&server, "xxx"), [])
        let (hub, id) = (server.hub, server.connectionID(1))
        func isSent(_ server: inout HubMachineUnderTest) -> Bool {
            var isSent = true
            server.step { machine, now, effects in isSent = machine.send(.text("y\u{1E}"), to: id, of: hub, now: now, &effects) }
            return isSent
        }
        expect(!isSent(&server))
        let waits = server.step { machine, _, effects in machine.awaitWriting(id, of: hub, WaiterID(rawValue: 7), &effects) }
        expectEqual(waits, [])
        // One message may follow a resume.
        expectEqual(
            server.resume(2, token: token), [.send(2, #"{"type":9,"sequenceId":1}"#), .send(2, "xxx"), .resume(7, "writable")])
        let isFirstSent = isSent(&server)
        let isSecondSent = isSent(&server)
        expect(isFirstSent && !isSecondSent)
        let waitsAgain = server.step { machine, _, effects in machine.awaitWriting(id, of: hub, WaiterID(rawValue: 8), &effects) }
        expectEqual(waitsAgain, [])
        // No call starts whose result would be stored as well.
        expectEqual(
            server.receive(2, #"{"type":9,"sequenceId":1}"#, Self.call(1)), [.send(2, #"{"type":8,"sequenceId":1}"#)])
        expectEqual(server.receive(2, #"{"type":8,"sequenceId":1}"#), [.resume(8, "writable"), .start("A")])
        let sent = isSent(&server)
        expect(sent)
    }

    @Test func `reading continues while the buffer is full, because the acknowledgment may be behind many calls`() {
        var server = Self.makeServer { ($0.statefulReconnectBufferBytes, $0.pendingInvocationLimit) = (1_000, 2) }
        _ = server.connectResumable(1)
        let large = String(repeating: "x", count: 1_000)
        let calls = (1...8).map { Self.call($0, "M\($0)") }
        expectEqual(Self.broadcast(&server, large), [.send(1, large)])
        expectEqual(server.receive(1, calls[0], calls[1], calls[2]), [])
        // The calls that wait aren't acknowledged, so that the client stops to send them when its own buffer is full.
        expectEqual(server.advance(by: .seconds(5)), [])
        // A client that sends more nevertheless is refused.
        let refusals = server.receive(1, calls[3], calls[4], calls[5], calls[6], calls[7], Self.call(9))
        expectEqual(refusals.count, 1)
        if case .send(1, let text)? = refusals.first {
            expect(text.contains(#""invocationId":"9","error":"Too many invocations"#))
        }
        // The acknowledgment lets the calls continue, of which too many wait still.
        let acknowledgment = #"{"type":8,"sequenceId":1}"#
        expectEqual(server.receive(1, acknowledgment), [.start("M1"), .reading(1, paused: true)])
        expectEqual(Self.broadcast(&server, large), [.send(1, large), .reading(1, paused: false)])
        expectEqual(server.receive(1, #"{"type":8,"sequenceId":3}"#), [.reading(1, paused: true)])
        for number in 2...6 { expectEqual(server.end("M\(number - 1)"), [.send(1, Self.completion(number - 1)), .start("M\(number)")]) }
        // With the last call that has to wait, the client may send again, and receives the acknowledgment.
        expectEqual(
            server.end("M6"),
            [
                .send(1, Self.completion(6)), .start("M7"), .send(1, #"{"type":8,"sequenceId":9}"#), .reading(1, paused: false),
            ])
    }

    @Test func `a client that acknowledges nothing loses its connection`() {
        var server = Self.makeServer { ($0.statefulReconnectBufferBytes, $0.backlogLimit) = (10, 20) }
        let token = server.connectResumable(1)
        for _ in 0..<4 { expectEqual(Self.broadcast(&server, "12345678"), [.send(1, "12345678")]) }
        guard case .send(1, let text)? = Self.broadcast(&server, "12345678").first else {
            Issue.record("a close message should have been sent")
            return
        }
        expect(text.contains("does not acknowledge") && text.contains("allowReconnect"))

        let other = server.connectResumable(2)
        server.lose(2)
        for _ in 0..<4 { expect(!Self.broadcast(&server, "12345678").contains(.start("disconnected"))) }
        expect(
            Self.broadcast(&server, "12345678").contains { if case .start(let name) = $0 { name.hasPrefix("disconnected") } else { false } }
        )
        expect(server.upgrade(3, token: other) == 404 && server.upgrade(4, token: token) == 409)
    }

    // MARK: The end

    @Test func `a client that doesn't resume in time is disconnected, and its waiters fail`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        server.receive(1, Self.call(1))
        server.invoke("Ask", on: 1, waiter: 7)
        server.lose(1)
        expectEqual(server.advance(by: .milliseconds(14_999)), [])
        expectEqual(server.advance(by: .milliseconds(1)), [.resume(7, "disconnected"), .cancel(["A"])])
        expectEqual(server.end("A"), [.start("disconnected: lost")])
        expectEqual(server.upgrade(2, token: token), 404)
        server.end("disconnected: lost")
        expect(server.machine.connections.isEmpty && server.machine.negotiations.isEmpty && server.machine.nextDeadline == nil)
    }

    @Test func `each loss has the whole time limit, which is a setting`() {
        var server = Self.makeServer { $0.disconnectTimeout = .seconds(40) }
        let token = server.connectResumable(1)
        for number in 1...3 {
            server.lose(number)
            expectEqual(server.advance(by: .seconds(39)), [])
            expect(server.resume(number + 1, token: token) != nil)
        }
        server.lose(4)
        expectEqual(server.advance(by: .seconds(40)), [.start("disconnected: lost")])
    }

    @Test(arguments: [
        (CloseReason.peer(.normal, ""), "disconnected"), (.peer(.goingAway, ""), "disconnected"),
        (.transport(TransportError(.tooLarge, "large")), "disconnected: large"),
        (.transport(TransportError(.protocolViolation, "bad")), "disconnected: bad"),
    ])
    func `an orderly end, or the end of a client that breaks the rules, is final`(reason: CloseReason, call: String) {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        expectEqual(server.closed(1, reason), [.start(call)])
        expectEqual(server.upgrade(2, token: token), 404)
    }

    @Test func `a close message of either side is final`() {
        var server = Self.makeServer()
        let first = server.connectResumable(1)
        server.receive(1, #"{"type":7}"#)
        expectEqual(server.lose(1), [.start("disconnected")])
        let second = server.connectResumable(2)
        let third = server.connectResumable(3)
        server.lose(3)
        for number in [2, 3] {
            let id = ConnectionID(rawValue: UInt64(number))
            let commands = server.step { $0.close(id, error: "bye", allowReconnect: true, now: $1, &$2) }
            expectEqual(commands.contains(.start("disconnected: bye")), (number == 3))
        }
        server.lose(2)
        for token in [first, second, third] { expectEqual(server.upgrade(9, token: token), 404) }
        expect(server.machine.connections.isEmpty)
    }

    @Test func `stopping ends connections without a socket as well`() {
        var server = Self.makeServer()
        _ = server.connectResumable(1)
        server.lose(1)
        expectEqual(server.step { $0.stop(now: $1, &$2) }, [.start("disconnected")])
        expect(server.machine.connections.isEmpty)
    }

    // MARK: Who may resume

    @Test func `only connections with the negotiation and version 2 outlive their sockets`() {
        for (allowed, wanted, version) in [(false, true, 2), (true, false, 2), (true, true, 1)] {
            var server = Self.makeServer { $0.allowsStatefulReconnects = allowed }
            let token = server.negotiate(wantsResuming: wanted)?.token ?? "none"
            _ = server.upgrade(1, token: token)
            server.receive(1, #"{"protocol":"json","version":\#(version)}"#)
            server.end("connected")
            expectEqual(server.upgrade(2, token: token), 409)
            expectEqual(server.receive(1, #"{"type":9,"sequenceId":7}"#, #"{"type":8,"sequenceId":7}"#), [])
            expectEqual(server.lose(1), [.start("disconnected: lost")])
        }
    }

    @Test func `a socket that is lost before its handshake ends the connection`() {
        var server = Self.makeServer()
        let token = server.negotiate(wantsResuming: true)?.token ?? "none"
        _ = server.upgrade(1, token: token)
        expectEqual(server.upgrade(2, token: token), 409)
        server.lose(1)
        expectEqual(server.upgrade(2, token: token), 404)
    }

    @Test func `another user can't resume a connection, and an upgrade that isn't completed changes nothing`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        let admission = server.admission(token: token)
        expect(server.admit(server.admission(token: token, userID: "bert")) == 403 && server.admit(admission) == nil)
        server.abandon(admission)
        expectEqual(server.receive(1, Self.call(1)), [.start("A")])
        server.lose(1)
        expect(server.resume(2, token: token) != nil)
    }

    @Test(arguments: [true, false]) func `of many sockets that resume a connection at a time, the last one remains`(isLost: Bool) {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        _ = Self.broadcast(&server, "x")
        if isLost { server.lose(1) }
        for number in 2...200 {
            let replay: [HubCommand] = [.send(number, #"{"type":9,"sequenceId":1}"#), .send(number, "x")]
            let closing: [HubCommand] = number == 2 && isLost ? [] : [.close(number - 1, .normal)]
            expectEqual(server.resume(number, token: token), closing + replay)
        }
        for number in 1..<200 {
            let late = server.receive(number, #"{"type":9,"sequenceId":1}"#, #"{"type":8,"sequenceId":1}"#, Self.call(1))
            expect(late.isEmpty && server.closed(number).isEmpty, "\(number)")
        }
        expectEqual(server.receive(200, #"{"type":9,"sequenceId":1}"#, Self.call(1)), [.start("A")])
        expectEqual(server.machine.connections.count, 1)
        server.end("A")
        expectEqual(server.closed(200), [.start("disconnected")])
        server.end("disconnected")
        expect(server.machine.connections.isEmpty && server.machine.negotiations.isEmpty)
    }

    @Test func `the ID that other clients know resumes no connection`() {
        var server = Self.makeServer()
        let token = server.connectResumable(1)
        let id = server.connectionID(1)
        expect(id != "none" && id != token)
        for other in [id, "", token + "x", String(token.dropLast())] {
            expectEqual(server.upgrade(2, token: other), 404)
        }
        server.lose(1)
        expectEqual(server.upgrade(2, token: id), 404)
        expect(server.resume(3, token: token) != nil)
    }

    @Test func `the limit of connections doesn't prevent a resume`() {
        var server = Self.makeServer { $0.connectionLimit = 1 }
        let token = server.connectResumable(1)
        expect(server.resume(2, token: token) != nil)
        server.lose(2)
        expect(server.resume(3, token: token) != nil && server.accept(4) == false)
    }
}

/// Stateful reconnect, in memory.
@Suite(.timeLimit(.minutes(10))) struct HubResumingConnectionTests {
    private static func negotiate(_ test: HubUnderTest) async throws -> String {
        let body = try await test.negotiate("/hub/negotiate?negotiateVersion=1&useStatefulReconnect=true")
        expectEqual(body["useStatefulReconnect"], true)
        return "/hub?id=\(body["connectionToken"]?.string ?? "")"
    }

    /// Opens a connection that can be resumed.
    private static func connect(_ test: HubUnderTest) async throws -> (client: RawHubClient, target: String, id: String) {
        let target = try await Self.negotiate(test)
        let client = RawHubClient(test.network, test.address, target)
        client.send(#"{"protocol":"json","version":2}"#)
        try await expectEqual(client.next(), [:])
        return (client, target, try #require(test.hub.connectionIDs.first))
    }

    @Test func `the negotiation offers it on request, if the server has it`() async throws {
        let test = try await HubUnderTest { $0.allowsStatefulReconnects = true }
        try await expectNil(test.negotiate()["useStatefulReconnect"])
        _ = try await Self.negotiate(test)
        let without = try await HubUnderTest()
        try await expectNil(without.negotiate("/hub/negotiate?negotiateVersion=1&useStatefulReconnect=true")["useStatefulReconnect"])
    }

    @Test func `calls, streams and the results of clients continue after cuts on the same connection ID`() async throws {
        let test = try await HubUnderTest { $0.allowsStatefulReconnects = true }
        let release = Signal()
        test.hub.on("Wait") { caller in await release.wait() }
        test.hub.on("Ask") { caller -> String in try await caller.clients.caller.invoke("Answer") }
        test.hub.on("Sum") { (caller, items: HubStream<Int>) in try await items.reduce(0, +) }
        var (client, target, id) = try await Self.connect(test)
        var sent = 0
        func send(_ texts: String...) {
            sent += texts.count
            client.send(.text(texts.map { $0 + "\u{1E}" }.joined()))
        }
        func reconnect(received: Int) async throws {
            // Another thread may still deliver what the client has sent.
            test.network.waitUntilIdle()
            test.server.drop(id)
            expectEqual(test.hub.connectionIDs, [id])
            client = RawHubClient(test.network, test.address, target)
            client.send(#"{"type":9,"sequenceId":\#(sent + 1)}"#)
            let sequence = try await client.next()
            expectEqual(sequence["type"], 9)
            // The server repeats what wasn't acknowledged.
            for _ in 0..<received + 1 - (sequence["sequenceId"]?.int ?? 0) { _ = try await client.next() }
            client.send(#"{"type":8,"sequenceId":\#(received)}"#)
        }
        send(#"{"type":1,"invocationId":"1","target":"Wait","arguments":[]}"#)
        try await reconnect(received: 0)
        release.send()
        try await expectEqual(client.next()["invocationId"], "1")
        send(#"{"type":1,"invocationId":"2","target":"Sum","arguments":[],"streamIds":["s"]}"#, #"{"type":2,"invocationId":"s","item":4}"#)
        try await reconnect(received: 1)
        send(#"{"type":2,"invocationId":"s","item":5}"#, #"{"type":3,"invocationId":"s"}"#)
        try await expectEqual(client.next()["result"], 9)
        send(#"{"type":1,"invocationId":"3","target":"Ask","arguments":[]}"#)
        let question = try await client.next()["invocationId"]?.string ?? ""
        try await reconnect(received: 3)
        send(#"{"type":3,"invocationId":"\#(question)","result":"yes"}"#)
        try await expectEqual(client.next()["result"], "yes")
    }

    @Test func `faults apply to the socket that resumes the connection`() async throws {
        let test = try await HubUnderTest { $0.allowsStatefulReconnects = true }
        let (first, target, id) = try await Self.connect(test)
        test.server.silence(id)
        test.server.drop(id)
        expectEqual(first.endings.all.count, 1)
        test.server.faults.delay = .seconds(1)
        let second = RawHubClient(test.network, test.address, target)
        second.send(#"{"type":9,"sequenceId":1}"#)
        try await test.hub.clients.all.send("A")
        expectEqual(second.take(), [])
        test.clock.advance(by: .seconds(1))
        expectEqual(second.take().map { $0["type"] }, [9, 1])
        test.server.send("garbage", to: id)
        expectEqual(second.take(), [.null])
        test.server.silence(id)
        try await test.hub.clients.all.send("B")
        test.clock.advance(by: .seconds(1))
        expectEqual(second.take(), [])
        test.server.close(id)
        try await expect(second.ending() == .peer(.normal, "") && test.hub.connectionIDs == [])
    }

    @Test func `events name the loss of a socket, the resume, and the end for the reason of the loss`() async throws {
        let test = try await HubUnderTest { $0.allowsStatefulReconnects = true }
        let events = test.server.events
        let (first, target, id) = try await Self.connect(test)
        test.server.drop(id)
        // The second socket replaces one whose loss the server has noticed, and the third one doesn't.
        let second = RawHubClient(test.network, test.address, target)
        let third = RawHubClient(test.network, test.address, target)
        test.server.drop(id)
        test.clock.advance(by: .seconds(15))
        let received = await events.pending().filter { if case .received = $0 { false } else { true } }
        var reasons: [CloseReason] = []
        let names = received.map { event -> String in
            switch event {
            case .negotiated("/hub", id): return "negotiated"
            case .connected("/hub", id, nil): return "connected"
            case .interrupted("/hub", id, let reason):
                reasons.append(reason)
                return "interrupted"
            case .resumed("/hub", id): return "resumed"
            case .disconnected("/hub", id, let reason):
                reasons.append(reason)
                return "disconnected"
            default: return "\(event)"
            }
        }
        expectEqual(names, ["negotiated", "connected", "interrupted", "resumed", "resumed", "interrupted", "disconnected"])
        expect(reasons.count == 3 && reasons[1] == reasons[2])
        expect(received[2].description.hasPrefix("interrupted(hub: /hub, connectionID: \(id), reason: "))
        expectEqual(received[3].description, "resumed(hub: /hub, connectionID: \(id))")
        expectEqual([first, second, third].map(\.endings.all.count), [1, 1, 1])
    }

    @Test func `a server that is released ends the connections that wait for a socket`() async throws {
        var test: HubUnderTest? = try await HubUnderTest { $0.allowsStatefulReconnects = true }
        let (client, _, id) = try await Self.connect(#require(test))
        let clock = test?.clock
        test?.server.drop(id)
        expect(client.endings.all.count == 1 && test?.hub.connectionIDs == [id])
        test = nil
        clock?.advance(by: .seconds(3_600))
        expectNil(clock?.untilNextDeadline)
    }
}
