import RealtimeCore
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// The server's machine without tasks and connections.
@Suite struct HubMachineTests {
    // MARK: Handshake

    @Test func `a valid handshake is answered and the connection begins`() {
        var server = HubMachineUnderTest()
        let isAccepted = server.accept(1)
        expect(isAccepted)
        expectEqual(server.receive(1, #"{"protocol":"json","version":1}"#), [.send(1, "{}"), .start("connected")])
        expectEqual(server.events.last, .connected(hub: "/hub", connectionID: server.connectionID(1), userID: nil))
    }

    @Test(arguments: [
        (#"{"protocol":"xml","version":1}"#, "The protocol 'xml' is not supported."),
        (#"{"protocol":"json","version":3}"#, "The server does not support version 3 of the 'json' protocol."),
        (#"{"protocol":"json"}"#, "An unexpected error occurred during connection handshake."),
        (#"{"version":1}"#, "An unexpected error occurred during connection handshake."),
        (#"{"type":6}"#, "An unexpected error occurred during connection handshake."),
        ("[]", "An unexpected error occurred during connection handshake."),
        ("", "An unexpected error occurred during connection handshake."),
        ("nonsense", "An unexpected error occurred during connection handshake."),
    ])
    func `an invalid handshake is answered with an error and the connection closes`(request: String, error: String) {
        var server = HubMachineUnderTest()
        server.accept(1)
        expectEqual(server.receive(1, request), [.send(1, #"{"error":"\#(error)"}"#), .close(1, .normal)])
        expectEqual(server.receive(1, #"{"protocol":"json","version":1}"#), [])
        expectEqual(server.closed(1), [])
        expect(server.machine.connections.isEmpty)
    }

    @Test func `with detailed errors the answer to an invalid handshake says what is wrong`() {
        var server = HubMachineUnderTest { $0.sendsDetailedErrors = true }
        server.accept(1)
        guard case .send(1, let text)? = server.receive(1, #"{"protocol":"json"}"#).first else {
            Issue.record("an error should have been sent")
            return
        }
        expect(text.contains("version") && text.contains("must be an integer"))
    }

    @Test func `a handshake can arrive in parts and with the first messages`() {
        var server = HubMachineUnderTest()
        server.accept(1)
        expectEqual(server.receiveRaw(1, [#"{"protocol":"#]), [])
        let rest = "\"json\",\"version\":1}\u{1E}{\"type\":1,\"target\":\"A\",\"arguments\":[]}\u{1E}{\"ty"
        expectEqual(server.receiveRaw(1, [rest]), [.send(1, "{}"), .start("connected")])
        expectEqual(server.end("connected"), [.start("A")])
        expectEqual(server.receiveRaw(1, ["pe\":1,\"target\":\"B\",\"arguments\":[]}\u{1E}"]), [])
        expectEqual(server.end("A"), [.start("B")])
    }

    @Test func `a client without a handshake is rejected in time`() {
        var server = HubMachineUnderTest()
        server.accept(1)
        expectEqual(server.advance(by: .seconds(14)), [])
        expectEqual(server.advance(by: .seconds(1)), [.send(1, #"{"error":"Handshake was canceled."}"#), .close(1, .normal)])
        expectNil(server.machine.nextDeadline)
    }

    @Test func `a handshake without an end is rejected before it fills the memory`() {
        var server = HubMachineUnderTest()
        server.accept(1)
        let commands = server.receiveRaw(1, Array(repeating: String(repeating: "a", count: 1_000), count: 20))
        expect(commands.last == .close(1, .normal) && commands.count == 2)
    }

    // MARK: Keep-alive

    @Test func `the server pings after its interval without sending and any message counts as sent`() {
        var server = HubMachineUnderTest { $0.clientTimeout = .seconds(1_000) }
        server.connect(1)
        expectEqual(server.advance(by: .seconds(14)), [])
        expectEqual(server.recipients(.all(except: [])), [1])
        expectEqual(server.advance(by: .seconds(14)), [])
        expectEqual(server.advance(by: .seconds(1)), [.send(1, #"{"type":6}"#)])
        expectEqual(server.advance(by: .seconds(30)), [.send(1, #"{"type":6}"#), .send(1, #"{"type":6}"#)])
    }

    @Test func `a silent client is closed and may reconnect`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        expectEqual(server.advance(by: .seconds(29)), [.send(1, #"{"type":6}"#)])
        server.receive(1, #"{"type":6}"#)
        expectEqual(server.advance(by: .seconds(29)), [.send(1, #"{"type":6}"#), .send(1, #"{"type":6}"#)])
        let commands = server.advance(by: .seconds(1))
        expectEqual(commands.last, .close(1, .normal))
        guard case .send(1, let text)? = commands.first else {
            Issue.record("a close message should have been sent")
            return
        }
        expect(text.contains(#""type":7"#) && text.contains(#""allowReconnect":true"#))
        expectNil(server.machine.nextDeadline)
        expectEqual(
            server.closed(1, .requested).last,
            .start("disconnected: Client hasn't sent a message/ping within the configured clientTimeout."))
    }

    @Test func `a client whose large message arrives isn't silent`() {
        var server = HubMachineUnderTest { ($0.keepAliveInterval, $0.clientTimeout) = (.seconds(1_000), .seconds(30)) }
        server.connect(1)
        for _ in 0..<20 {
            expectEqual(server.advance(by: .seconds(10)), [])
            server.step { machine, now, _ in machine.receivedPart(ConnectionID(rawValue: 1), byteCount: 20_000, now: now) }
        }
        for _ in 0..<2 {
            expectEqual(server.advance(by: .seconds(10)), [])
            server.step { machine, now, _ in machine.receivedPart(ConnectionID(rawValue: 1), byteCount: 1, now: now) }
        }
        expectEqual(server.advance(by: .seconds(10)).last, .close(1, .normal))
    }

    @Test func `a silenced connection doesn't time out`() {
        var server = HubMachineUnderTest { $0.keepAliveInterval = .seconds(1_000) }
        server.connect(1)
        server.step { machine, now, _ in machine.setSilent(ConnectionID(rawValue: 1), true, now: now) }
        expectEqual(server.advance(by: .seconds(100)), [])
        server.step { machine, now, _ in machine.setSilent(ConnectionID(rawValue: 1), false, now: now) }
        expectEqual(server.advance(by: .seconds(29)), [])
        expectEqual(server.advance(by: .seconds(1)).last, .close(1, .normal))
    }

    // MARK: Invocations

    @Test func `methods of a connection run one at a time and in order`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.connect(2)
        let commands = server.receive(
            1, #"{"type":1,"invocationId":"1","target":"A","arguments":[]}"#, #"{"type":1,"target":"B","arguments":[]}"#)
        expectEqual(commands, [.start("A")])
        // Another connection's don't wait.
        expectEqual(server.receive(2, #"{"type":1,"target":"C","arguments":[]}"#), [.start("C")])
        let result = HubCompletion.result(HubPayload(.json, Array("5".utf8)))
        expectEqual(server.end("A", result), [.send(1, #"{"type":3,"invocationId":"1","result":5}"#), .start("B")])
        // Without an ID, the client expects no response, not even an error.
        expectEqual(server.end("B", .error("no")), [])
        expectEqual(server.events.last, .completed(connectionID: server.connectionID(1), method: "B", error: "no"))
    }

    @Test func `as many methods run in parallel as configured`() {
        var server = HubMachineUnderTest { $0.parallelInvocations = 2 }
        server.connect(1)
        let message = #"{"type":1,"target":"A","arguments":[]}"#
        expectEqual(server.receive(1, message, message, message), [.start("A"), .start("A")])
        expectEqual(server.end("A"), [.start("A")])
    }

    @Test func `streams and methods that receive streams don't delay others`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        let commands = server.receive(
            1, #"{"type":4,"invocationId":"1","target":"Stream","arguments":[]}"#,
            #"{"type":1,"invocationId":"2","target":"Upload","arguments":[],"streamIds":["3"]}"#,
            #"{"type":1,"invocationId":"4","target":"A","arguments":[]}"#, #"{"type":4,"invocationId":"5","target":"B","arguments":[]}"#)
        expectEqual(commands, [.start("Stream"), .start("Upload"), .start("A"), .start("B")])
        // They start in order, so one that doesn't wait itself waits behind one that does.
        expectEqual(
            server.receive(1, #"{"type":1,"target":"C","arguments":[]}"#, #"{"type":4,"invocationId":"6","target":"D","arguments":[]}"#), []
        )
        expectEqual(server.end("A"), [.send(1, #"{"type":3,"invocationId":"4"}"#), .start("C"), .start("D")])
    }

    @Test func `an ID in use is rejected and can be used again later`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        let message = #"{"type":1,"invocationId":"1","target":"A","arguments":[]}"#
        let error = HubCommand.send(1, #"{"type":3,"invocationId":"1","error":"Invocation ID '1' is already in use."}"#)
        expectEqual(server.receive(1, message, message), [.start("A"), error])
        expectEqual(server.end("A"), [.send(1, #"{"type":3,"invocationId":"1"}"#)])
        expectEqual(server.receive(1, message), [.start("A")])
    }

    @Test func `a running method is cancelled and its result is still sent`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.receive(1, #"{"type":4,"invocationId":"1","target":"A","arguments":[]}"#)
        expectEqual(server.receive(1, #"{"type":5,"invocationId":"1"}"#), [.cancel(["A"])])
        expectEqual(server.end("A"), [.send(1, #"{"type":3,"invocationId":"1"}"#)])
        expectEqual(server.receive(1, #"{"type":5,"invocationId":"1"}"#, #"{"type":5,"invocationId":"unknown"}"#), [])
    }

    @Test func `a waiting method is cancelled without running`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.receive(
            1, #"{"type":1,"target":"A","arguments":[]}"#, #"{"type":1,"invocationId":"1","target":"B","arguments":[]}"#,
            #"{"type":4,"invocationId":"2","target":"C","arguments":[]}"#)
        expectEqual(
            server.receive(1, #"{"type":5,"invocationId":"2"}"#, #"{"type":5,"invocationId":"1"}"#),
            [
                .send(1, #"{"type":3,"invocationId":"2"}"#),
                .send(1, #"{"type":3,"invocationId":"1","error":"The invocation was canceled by the client."}"#),
            ])
        expectEqual(server.end("A"), [])
    }

    @Test func `the end of a connection cancels its calls and the last handler runs after them`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.receive(1, #"{"type":1,"target":"A","arguments":[]}"#, #"{"type":1,"target":"B","arguments":[]}"#)
        expectEqual(server.closed(1, .peer(.internalError, "oops")), [.cancel(["A"])])
        expectEqual(server.end("A"), [.start("disconnected: The client closed the connection with code 1011: oops.")])
        server.end("disconnected: The client closed the connection with code 1011: oops.")
        expect(server.machine.connections.isEmpty && server.machine.nextDeadline == nil)
    }

    @Test(arguments: [true, false])
    func `what a client called before it closed the connection still runs`(_ sendsCloseMessage: Bool) {
        var server = HubMachineUnderTest()
        server.accept(1)
        server.receive(
            1, #"{"protocol":"json","version":1}"#, #"{"type":1,"target":"A","arguments":[]}"#,
            #"{"type":4,"invocationId":"1","target":"B","arguments":[]}"#, #"{"type":1,"target":"C","arguments":[]}"#)
        if sendsCloseMessage { server.receive(1, #"{"type":7}"#) }
        expectEqual(server.closed(1, sendsCloseMessage ? .requested : .peer(.normal, "")), [.cancel(["connected"])])
        // Streams don't run, and the calls are cancelled like those that had started before.
        expectEqual(server.end("connected"), [.start("A"), .cancel(["A"])])
        expectEqual(server.end("A"), [.start("C"), .cancel(["C"])])
        expectEqual(server.end("C", .error("No.")), [.start("disconnected")])
        server.end("disconnected")
        expect(server.machine.connections.isEmpty && server.machine.nextDeadline == nil)
    }

    @Test func `what a client called isn't run if its connection handler fails or its connection is lost`() {
        for fails in [true, false] {
            var server = HubMachineUnderTest()
            server.accept(1)
            server.receive(1, #"{"protocol":"json","version":1}"#, #"{"type":1,"target":"A","arguments":[]}"#)
            server.closed(1, fails ? .peer(.normal, "") : .transport(TransportError(.reset, "lost")))
            expectEqual(server.end("connected", fails ? .error("No.") : .void), (fails ? [] : [.start("disconnected: lost")]))
            if !fails { server.end("disconnected: lost") }
            expect(server.machine.connections.isEmpty && server.calls.isEmpty)
        }
    }

    @Test func `a failing connection handler closes the connection and its end isn't handled`() {
        var server = HubMachineUnderTest()
        server.accept(1)
        server.receive(1, #"{"protocol":"json","version":1}"#, #"{"type":1,"target":"A","arguments":[]}"#)
        expectEqual(server.end("connected", .error("No.")), [.send(1, #"{"type":7,"error":"No."}"#), .close(1, .normal)])
        expectEqual(server.closed(1, .requested), [])
        expect(server.machine.connections.isEmpty)
    }

    @Test func `a client that ends while its connection handler runs is handled afterwards`() {
        var server = HubMachineUnderTest()
        server.accept(1)
        server.receive(1, #"{"protocol":"json","version":1}"#)
        expectEqual(server.closed(1), [.cancel(["connected"])])
        expectEqual(server.end("connected"), [.start("disconnected")])
    }

    @Test func `a close message of the client closes the connection in order`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        let commands = server.receive(1, #"{"type":7}"#, #"{"type":1,"target":"A","arguments":[]}"#)
        expectEqual(commands, [.send(1, #"{"type":7}"#), .close(1, .normal)])
        expectEqual(server.closed(1, .requested), [.start("disconnected")])
    }

    // MARK: Invalid messages

    @Test(arguments: [
        "nonsense", "[]", "{}", #"{"type":"1"}"#, #"{"type":1,"arguments":[]}"#, #"{"type":1,"target":"A"}"#, #"{"type":2,"item":1}"#,
        #"{"type":3}"#, #"{"type":5}"#, #"{"type":1,"invocationId":7,"target":"A","arguments":[]}"#,
        #"{"type":1,"invocationId":"7","target":5,"arguments":[]}"#, #"{"type":4,"invocationId":"7","target":"A","arguments":5}"#,
        #"{"type":1,"invocationId":"7","target":"A","arguments":[],"streamIds":5}"#,
        #"{"type":3,"invocationId":"7","result":1,"error":"a"}"#,
    ])
    func `an invalid message closes the connection and says why`(message: String) {
        var server = HubMachineUnderTest()
        server.connect(1)
        let commands = server.receive(1, message, #"{"type":1,"target":"Next","arguments":[]}"#)
        expect(commands.count == 2 && commands.last == .close(1, .normal))
        guard case .send(1, let text)? = commands.first else { return }
        expect(text.hasPrefix(#"{"type":7,"error":"Connection closed with an error. InvalidDataException: "#))
        expect(text.hasSuffix(#","allowReconnect":true}"#))
    }

    @Test(arguments: [
        #"{"type":99}"#, #"{"type":8,"sequenceId":1}"#, #"{"type":9,"sequenceId":1}"#, #"{"type":2,"invocationId":"x","item":1}"#,
        #"{"type":3,"invocationId":"x","result":1}"#,
    ])
    func `a message of an unknown type or for an unknown invocation is ignored`(message: String) {
        var server = HubMachineUnderTest()
        server.connect(1)
        expectEqual(server.receive(1, message, #"{"type":1,"target":"Next","arguments":[]}"#), [.start("Next")])
    }

    @Test func `a message that is too large closes the connection`() {
        var server = HubMachineUnderTest { $0.messageLimit = 100 }
        server.connect(1)
        let commands = server.receiveRaw(1, ["{\"type\":6}\u{1E}", String(repeating: "a", count: 101)])
        expect(commands.count == 2 && commands.last == .close(1, .normal))
        if case .send(1, let text)? = commands.first { expect(text.contains("100 bytes") && text.contains(#""allowReconnect":true"#)) }
    }

    // MARK: Limits

    @Test func `reading pauses while too many invocations wait`() {
        var server = HubMachineUnderTest { $0.pendingInvocationLimit = 4 }
        server.connect(1)
        let message = #"{"type":1,"target":"A","arguments":[]}"#
        expectEqual(server.receive(1, message, message, message, message, message), [.start("A")])
        expectEqual(server.receive(1, message), [.reading(1, paused: true)])
        // The client isn't blamed for what isn't read.
        expect(server.advance(by: .seconds(100)).allSatisfy { $0 == .send(1, #"{"type":6}"#) })
        expectEqual(server.end("A"), [.start("A")])
        expectEqual(server.end("A"), [.start("A")])
        expectEqual(server.end("A"), [.start("A"), .reading(1, paused: false)])
        expect(server.advance(by: .seconds(30)).contains(.close(1, .normal)))
    }

    @Test func `more invocations than any client needs are rejected`() {
        var server = HubMachineUnderTest { $0.pendingInvocationLimit = 2 }
        server.connect(1)
        server.invoke("Ask", on: 1, waiter: 1)
        let message = #"{"type":1,"invocationId":"?","target":"A","arguments":[]}"#
        let messages = (0..<20).map { message.replacing("?", with: "\($0)") + "\u{1E}" }
        let commands = server.receiveRaw(1, messages)
        // Reading continues for the result.
        expect(!commands.contains(.reading(1, paused: true)))
        expectEqual(commands.filter { if case .send = $0 { true } else { false } }.count, 11)
        expectEqual(server.receive(1, #"{"type":3,"invocationId":"s1","result":1}"#), [.resume(1, "1"), .reading(1, paused: true)])
    }

    @Test func `streams over the limit are rejected until others end`() {
        var server = HubMachineUnderTest { $0.streamLimit = 2 }
        server.connect(1)
        func stream(_ id: Int) -> String { #"{"type":4,"invocationId":"\#(id)","target":"S\#(id)","arguments":[]}"# }
        let upload = #"{"type":1,"invocationId":"9","target":"U","arguments":[],"streamIds":["10","11"]}"#
        expectEqual(server.receive(1, stream(1), stream(2)), [.start("S1"), .start("S2")])
        let rejected = #"{"type":3,"invocationId":"?","error":"The connection would have more than 2 streams, which is the limit."}"#
        expectEqual(server.receive(1, stream(3)), [.send(1, rejected.replacing("?", with: "3"))])
        expectEqual(server.receive(1, upload), [.send(1, rejected.replacing("?", with: "9"))])
        server.end("S1")
        server.end("S2")
        expectEqual(server.receive(1, upload), [.start("U")])
        expectEqual(server.receive(1, stream(4)), [.send(1, rejected.replacing("?", with: "4"))])
        server.end("U")
        expectEqual(server.receive(1, stream(4)), [.start("S4")])
    }

    // MARK: Streams from clients

    private static let upload = #"{"type":1,"invocationId":"1","target":"U","arguments":[],"streamIds":["2"]}"#

    @Test func `items are passed on in order, before and after the method waits`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.receive(1, Self.upload, #"{"type":2,"invocationId":"2","item":1}"#, #"{"type":2,"invocationId":"2","item":"b"}"#)
        expectEqual(server.read("2", of: 1, waiter: 5), [.resume(5, #"1 "b""#)])
        expectEqual(server.read("2", of: 1, waiter: 6), [])
        expectEqual(server.receive(1, #"{"type":2,"invocationId":"2","item":3}"#), [.resume(6, "3")])
        server.receive(
            1, #"{"type":2,"invocationId":"2","item":4}"#, #"{"type":3,"invocationId":"2"}"#, #"{"type":2,"invocationId":"2","item":5}"#)
        expectEqual(server.read("2", of: 1, waiter: 7), [.resume(7, "4 completed")])
        expectEqual(server.end("U"), [.send(1, #"{"type":3,"invocationId":"1"}"#)])
        expectEqual(server.read("2", of: 1, waiter: 8), [.resume(8, "disconnected")])
    }

    @Test func `the end of a stream resumes a waiting method`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.receive(1, Self.upload)
        server.read("2", of: 1, waiter: 5)
        expectEqual(server.receive(1, #"{"type":3,"invocationId":"2","error":"lost"}"#), [.resume(5, #"failed("lost")"#)])
        server.receive(1, Self.upload.replacing(#""1""#, with: #""3""#).replacing(#""2""#, with: #""4""#))
        server.read("4", of: 1, waiter: 6)
        expectEqual(server.closed(1).first, .resume(6, "disconnected"))
    }

    @Test func `an invalid item ends the connection and the stream`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.receive(1, Self.upload)
        server.read("2", of: 1, waiter: 5)
        let commands = server.receive(1, #"{"type":2,"invocationId":"2"}"#)
        expect(commands.count == 2 && commands.last == .close(1, .normal))
        expectEqual(server.closed(1).first, .resume(5, "disconnected"))
    }

    @Test func `a stream ID in use is rejected`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.receive(1, Self.upload)
        let second = Self.upload.replacing(#""1""#, with: #""7""#)
        expectEqual(server.receive(1, second), [.send(1, #"{"type":3,"invocationId":"7","error":"Stream ID '2' is already in use."}"#)])
    }

    @Test func `reading pauses while a method doesn't read its stream`() {
        var server = HubMachineUnderTest { $0.streamBufferLimit = 1_000 }
        server.connect(1)
        server.receive(1, Self.upload)
        let item = #"{"type":2,"invocationId":"2","item":"\#(String(repeating: "a", count: 400))"}"#
        expectEqual(server.receive(1, item, item), [])
        expectEqual(server.receive(1, item), [.reading(1, paused: true)])
        let commands = server.read("2", of: 1, waiter: 5)
        expect(commands.count == 2 && commands.last == .reading(1, paused: false))
        // The end of the method also frees its buffer.
        server.receive(1, item, item, item)
        expectEqual(server.end("U").last, .reading(1, paused: false))
        expectEqual(server.machine.connections[ConnectionID(rawValue: 1)]?.established?.bufferedBytes, 0)
    }

    @Test func `a stream that exceeds the buffer by far fails`() {
        var server = HubMachineUnderTest { $0.streamBufferLimit = 1_000 }
        server.connect(1)
        server.receive(1, Self.upload)
        server.invoke("Ask", on: 1, waiter: 9)
        let item = #"{"type":2,"invocationId":"2","item":"\#(String(repeating: "a", count: 400))"}"# + "\u{1E}"
        expectEqual(server.receiveRaw(1, Array(repeating: item, count: 20)), [])
        let commands = server.read("2", of: 1, waiter: 5)
        guard case .resume(5, let text)? = commands.first else {
            Issue.record("the method should have been resumed")
            return
        }
        expect(text.hasSuffix(#"failed("The client sends items faster than the method reads them.")"#))
    }

    // MARK: Results of clients

    @Test func `a client's result resumes the caller`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        expectEqual(server.invoke("Ask", on: 1, waiter: 1), [.send(1, #"{"type":1,"invocationId":"s1","target":"Ask","arguments":[]}"#)])
        server.invoke("Ask", on: 1, waiter: 2)
        server.invoke("Ask", on: 1, waiter: 3)
        expectEqual(server.receive(1, #"{"type":3,"invocationId":"s2","result":"b"}"#), [.resume(2, #""b""#)])
        expectEqual(server.receive(1, #"{"type":3,"invocationId":"s1","error":"no"}"#), [.resume(1, #"failed("no")"#)])
        expectEqual(server.receive(1, #"{"type":3,"invocationId":"s3"}"#), [.resume(3, "void")])
        expectEqual(server.receive(1, #"{"type":3,"invocationId":"s3"}"#), [])
        expect(server.machine.waiting.isEmpty)
    }

    @Test func `a caller that no longer waits is forgotten`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.invoke("Ask", on: 1, waiter: 1)
        server.cancelWait(1)
        expectEqual(server.receive(1, #"{"type":3,"invocationId":"s1","result":"b"}"#), [])
        expectEqual(server.closed(1), [.start("disconnected")])
        expect(server.machine.waiting.isEmpty)
    }

    @Test func `callers fail when the connection ends or doesn't exist`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.invoke("Ask", on: 1, waiter: 1)
        expectEqual(server.closed(1), [.resume(1, "disconnected"), .start("disconnected")])
        expectEqual(server.invoke("Ask", on: 1, waiter: 2), [.resume(2, "unknownConnection")])
    }

    // MARK: Slow clients

    @Test func `callers wait while a client reads slowly`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        let id = ConnectionID(rawValue: 1)
        func write(_ waiter: Int) -> [HubCommand] {
            server.step { machine, _, effects in machine.awaitWriting(id, WaiterID(rawValue: UInt64(waiter)), &effects) }
        }
        expectEqual(write(1), [.resume(1, "writable")])
        server.step { $0.writing(id, paused: true, now: $1, &$2) }
        expect(write(2) == [] && write(3) == [] && write(4) == [])
        server.cancelWait(3)
        expectEqual(server.step { $0.writing(id, paused: false, now: $1, &$2) }, [.resume(2, "writable"), .resume(4, "writable")])
        server.step { $0.writing(id, paused: true, now: $1, &$2) }
        expectEqual(write(5), [])
        expectEqual(server.closed(1), [.resume(5, "disconnected"), .start("disconnected")])
        expectEqual(write(6), [.resume(6, "disconnected")])
        expect(server.machine.waiting.isEmpty)
    }

    // MARK: Clients, groups and users

    @Test func `messages go to the connections that a target selects`() {
        var server = HubMachineUnderTest()
        server.connect(1, userID: "anna")
        server.connect(2, userID: "bert")
        server.connect(3, userID: "anna")
        server.accept(4)
        server.join(1, "a")
        server.join(2, "a")
        server.join(2, "b")
        let ids = (1...3).map { server.connectionID($0) }
        expectEqual(server.recipients(.all(except: [])), [1, 2, 3])
        expectEqual(server.recipients(.all(except: [ids[1]])), [1, 3])
        expectEqual(server.recipients(.connections([ids[2], "unknown", ids[0]])), [1, 3])
        expectEqual(server.recipients(.groups(["a"], except: [])), [1, 2])
        expectEqual(server.recipients(.groups(["a", "b"], except: [ids[0]])), [2])
        expectEqual(server.recipients(.groups(["c"], except: [])), [])
        expectEqual(server.recipients(.users(["anna"])), [1, 3])
        server.closed(1)
        expectEqual(server.recipients(.groups(["a"], except: [])), [2])
        expectEqual(server.recipients(.users(["anna"])), [3])
        server.closed(2)
        server.closed(3)
        expect(server.machine.hubs[0].groups.isEmpty && server.machine.hubs[0].users.isEmpty)
        expect(server.machine.hubs[0].connections.isEmpty)
    }

    // MARK: Negotiations

    @Test func `a token is valid for one connection and until it ends`() throws {
        var server = HubMachineUnderTest()
        let negotiated = server.negotiate()
        let (id, token) = try #require(negotiated)
        let secret = try #require(token)
        expect(id != secret)
        expectEqual(server.upgrade(1, token: "unknown"), 404)
        expectEqual(server.upgrade(1, token: id), 404)
        expectNil(server.upgrade(1, token: secret))
        expectEqual(server.connectionID(1), id)
        expectEqual(server.upgrade(2, token: secret), 409)
        server.closed(1)
        expectEqual(server.upgrade(3, token: secret), 404)
    }

    @Test func `version 0 uses the ID as the token`() throws {
        var server = HubMachineUnderTest()
        let negotiated = server.negotiate(usesToken: false)
        let (id, token) = try #require(negotiated)
        expectNil(token)
        expectNil(server.upgrade(1, token: id))
    }

    @Test func `a token expires`() throws {
        var server = HubMachineUnderTest()
        let negotiated = server.negotiate()
        let token = try #require(negotiated?.token)
        server.advance(by: .seconds(15))
        expectEqual(server.upgrade(1, token: token), 404)
    }

    @Test func `a flood of negotiations lets only the oldest tokens expire`() throws {
        var server = HubMachineUnderTest { $0.negotiationLimit = 3 }
        let tokens = (0..<10).map { _ in server.negotiate()?.token ?? "none" }
        expectEqual(server.upgrade(1, token: tokens[6]), 404)
        for (number, token) in tokens.suffix(3).enumerated() { expectNil(server.upgrade(number + 2, token: token)) }
        // Those that have connected don't count.
        let later = (0..<3).map { _ in server.negotiate()?.token ?? "none" }
        expectNil(server.upgrade(9, token: later[0]))
        expectEqual(server.machine.negotiationDeadlines.count, 2)
    }

    @Test func `a token whose upgrade was accepted isn't forgotten for new ones, and is no longer valid without a connection`() throws {
        var server = HubMachineUnderTest { $0.negotiationLimit = 1 }
        let admission = server.admission(token: server.negotiate()?.token)
        expectNil(server.admit(admission))
        _ = (0..<3).map { _ in server.negotiate() }
        expectEqual(server.admit(admission), 409)
        server.advance(by: .seconds(15))
        expectEqual(server.admit(admission), 409)
        server.abandon(admission)
        expectEqual(server.admit(admission), 404)
        expect(server.machine.negotiations.isEmpty && server.machine.admissionCount == 0)
    }

    @Test func `connections over the limit are rejected`() {
        var server = HubMachineUnderTest { $0.connectionLimit = 1 }
        let (first, second) = (server.accept(1), server.accept(2))
        expect(first && !second)
    }

    @Test func `an upgrade in progress counts as a connection`() {
        var server = HubMachineUnderTest { $0.connectionLimit = 1 }
        let admission = server.admission()
        expect(server.admit(admission) == nil && server.admit(admission) == 503)
        server.abandon(admission)
        let isAccepted = server.accept(1)
        expect(isAccepted && server.admit(admission) == 503)
    }

    @Test func `stopping closes every connection and lets clients reconnect`() {
        var server = HubMachineUnderTest()
        server.connect(1)
        server.accept(2)
        expectEqual(
            server.step { $0.stop(now: $1, &$2) },
            [
                .send(1, #"{"type":7,"allowReconnect":true}"#), .close(1, .goingAway), .close(2, .goingAway),
            ])
    }
}
