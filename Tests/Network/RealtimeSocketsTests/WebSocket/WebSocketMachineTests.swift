import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite struct WebSocketMachineTests {
    /// One endpoint of a WebSocket with its output, clock and received messages.
    struct Peer {
        var machine: WebSocketMachine
        var role: WebSocketRole
        var output: [UInt8] = []
        var now = Instant(nanoseconds: 1_000_000_000)
        var messages: [TransportMessage] = []

        init(_ role: WebSocketRole) {
            self.role = role
            self.machine = WebSocketMachine(
                role: role, messageLimit: 100_000, closeTimeout: .seconds(5), lingerTimeout: .seconds(1))
        }

        mutating func receive(_ bytes: [UInt8]) -> WebSocketMachine.Step {
            var batch = MessageBatch()
            let result = self.process(bytes, into: &batch)
            self.messages += batch.messages
            guard let end = result.end else { return WebSocketMachineTests.none }
            return self.machine.conclude(end, output: &self.output, now: self.now)
        }

        /// Decodes the bytes and sends pongs.
        mutating func process(_ bytes: [UInt8], into batch: inout MessageBatch) -> FrameDecoder.DecodeResult {
            let result = bytes.withUnsafeBytes { self.machine.receive($0, into: &batch) }
            if result.hasPing { self.machine.appendPongs(for: batch, output: &self.output) }
            return result
        }

        mutating func send(_ message: TransportMessage) -> WebSocketMachine.SendResult {
            self.machine.send(message, output: &self.output)
        }

        mutating func close(_ code: CloseCode = .normal, _ reason: String = "") -> Bool {
            self.machine.close(code, reason: reason, output: &self.output, now: self.now)
        }

        mutating func wait(_ duration: Duration) -> WebSocketMachine.Step {
            self.now = self.now.advanced(by: duration)
            return self.machine.timeout(now: self.now)
        }

        /// Returns what was written since the previous call, as the other endpoint decodes it.
        mutating func written() -> Decoded {
            defer { self.output = [] }
            return decode([self.output], role: self.role == .client ? .server : .client)
        }

        /// Returns a frame as the other endpoint sends it.
        func frame(_ first: UInt8, _ payload: [UInt8] = []) -> [UInt8] {
            RealtimeSocketsTests.frame(first, payload, key: self.role == .server ? [1, 2, 3, 4] : nil)
        }

        func closeFrame(_ code: UInt16, _ reason: String = "") -> [UInt8] {
            RealtimeSocketsTests.closeFrame(code, reason, key: self.role == .server ? [1, 2, 3, 4] : nil)
        }
    }

    static let roles: [WebSocketRole] = [.client, .server]
    static let none = WebSocketMachine.Step(closed: nil, socket: .keep)

    @Test(arguments: roles) func `messages are sent and received`(_ role: WebSocketRole) {
        var peer = Peer(role)
        let messages: [TransportMessage] = [.text("hello"), .binary([1, 2]), TransportMessage(.ping, [3]), TransportMessage(.pong, [])]
        for message in messages { expectEqual(peer.send(message), .appended) }
        expectEqual(peer.written(), Decoded(messages: messages))
        expectEqual(peer.receive(peer.frame(0x81, Array("hi".utf8))), Self.none)
        expectEqual(peer.messages, [.text("hi")])
        expectNil(peer.machine.nextDeadline)
        expectEqual(peer.wait(.seconds(1_000_000)), Self.none)
    }

    @Test func `a ping or pong of more than 125 bytes is not sent`() {
        var peer = Peer(.client)
        expectEqual(peer.send(TransportMessage(.ping, [UInt8](repeating: 0, count: 126))), .tooLong)
        expectEqual(peer.send(TransportMessage(.pong, [UInt8](repeating: 0, count: 126))), .tooLong)
        expect(peer.output.isEmpty)
    }

    @Test(arguments: roles) func `every ping in a read gets a pong, in order`(_ role: WebSocketRole) {
        var peer = Peer(role)
        _ = peer.receive(peer.frame(0x89, [1]) + peer.frame(0x89, [2]) + peer.frame(0x81, [0x61]) + peer.frame(0x8A, [3]))
        expectEqual(peer.written(), Decoded(messages: [TransportMessage(.pong, [1]), TransportMessage(.pong, [2])]))
        expectEqual(peer.messages.count, 4)
    }

    @Test func `the latest pong waits until the backlog has been sent`() {
        var peer = Peer(.server)
        _ = peer.send(.binary([UInt8](repeating: 0, count: WebSocketMachine.pongBacklogLimit)))
        let unsent = peer.output.count
        for ping: UInt8 in 1...200 { _ = peer.receive(peer.frame(0x89, [ping])) }
        expectEqual(peer.output.count, unsent)
        _ = peer.written()
        peer.machine.drained(output: &peer.output)
        expectEqual(peer.written(), Decoded(messages: [TransportMessage(.pong, [200])]))
        peer.machine.drained(output: &peer.output)
        expect(peer.output.isEmpty)
    }

    /// Otherwise, a stream might not report that it has drained, and the pong would never be sent.
    @Test func `a pong is held back only if the stream reports that it has drained`() {
        expect(WebSocketMachine.pongBacklogLimit >= SocketStream.highWater)
    }

    @Test(arguments: roles) func `a reply to a message precedes the close frame for a violation in the same read`(_ role: WebSocketRole) {
        var peer = Peer(role)
        var batch = MessageBatch()
        let result = peer.process(peer.frame(0x81, [0x61]) + peer.frame(0xC1, [0x62]), into: &batch)
        expectEqual(batch.messages, [.text("a")])
        expectEqual(peer.send(.text("a")), .appended)
        _ = peer.machine.conclude(result.end!, output: &peer.output, now: peer.now)
        let written = peer.written()
        expectEqual(written.messages, [.text("a")])
        expect(written.end != nil)
    }

    @Test(arguments: roles) func `after both close frames the server ends the connection`(_ role: WebSocketRole) {
        var peer = Peer(role)
        expectEqual(peer.close(.goingAway, "bye"), true)
        expectEqual(peer.written(), Decoded(end: .close(.goingAway, "bye")))
        expectEqual(peer.close(), false)
        expectEqual(peer.send(.text("late")), .closed)
        expect(peer.output.isEmpty)
        expect(!peer.machine.isOpen)
        // Messages that the peer sent before it received our close frame are delivered, but its pings get no pong.
        expectEqual(peer.receive(peer.frame(0x81, [0x61]) + peer.frame(0x89)), Self.none)
        expectEqual(peer.messages, [.text("a"), TransportMessage(.ping, [])])
        let step = peer.receive(peer.closeFrame(1001))
        expectEqual(step, WebSocketMachine.Step(closed: .requested, socket: role == .server ? .finishWriting : .keep))
        expect(peer.output.isEmpty)
        expectEqual(peer.machine.endOfStream(), WebSocketMachine.Step(closed: nil, socket: .drop))
        expectEqual(peer.machine.endOfStream(), Self.none)
        expectNil(peer.machine.nextDeadline)
    }

    @Test(arguments: roles) func `the peer's close frame is echoed`(_ role: WebSocketRole) {
        var peer = Peer(role)
        let step = peer.receive(peer.frame(0x81, [0x61]) + peer.closeFrame(4001, "why") + peer.frame(0x81, [0x62]))
        expectEqual(
            step, WebSocketMachine.Step(closed: .peer(CloseCode(rawValue: 4001), "why"), socket: role == .server ? .finishWriting : .keep))
        expectEqual(peer.messages, [.text("a")])
        expectEqual(peer.written(), Decoded(end: .close(CloseCode(rawValue: 4001), "")))
        expectEqual(peer.send(.text("late")), .closed)
        expectEqual(peer.close(), false)
        expectEqual(peer.receive(peer.frame(0x81, [0x63])), Self.none)
        expectEqual(peer.messages.count, 1)
        expect(peer.output.isEmpty)
    }

    @Test(arguments: roles) func `a close without a code is echoed without one`(_ role: WebSocketRole) {
        var peer = Peer(role)
        expectEqual(peer.receive(peer.frame(0x88)).closed, .peer(.noStatus, ""))
        expectEqual(peer.written(), Decoded(end: .close(.noStatus, "")))
    }

    @Test func `the pong for a ping in the same read as a close frame is sent first`() {
        var peer = Peer(.client)
        _ = peer.receive(peer.frame(0x89, [7]) + peer.closeFrame(1000))
        expectEqual(peer.written(), Decoded(messages: [TransportMessage(.pong, [7])], end: .close(.normal, "")))
    }

    @Test func `a peer that does not respond to a close frame is dropped`() {
        var peer = Peer(.client)
        _ = peer.close()
        expectEqual(peer.machine.nextDeadline, peer.now.advanced(by: .seconds(5)))
        expectEqual(peer.wait(.milliseconds(4999)), Self.none)
        expectEqual(peer.receive(peer.frame(0x81, [0x61])), Self.none)
        expectEqual(peer.wait(.milliseconds(1)), WebSocketMachine.Step(closed: .requested, socket: .drop))
        expectEqual(peer.wait(.seconds(10)), Self.none)
        expectNil(peer.machine.nextDeadline)
    }

    @Test(arguments: roles) func `a peer that does not end the connection is dropped`(_ role: WebSocketRole) {
        var peer = Peer(role)
        _ = peer.receive(peer.closeFrame(1000))
        expectEqual(peer.machine.nextDeadline, peer.now.advanced(by: .seconds(1)))
        expectEqual(peer.wait(.milliseconds(999)), Self.none)
        expectEqual(peer.wait(.milliseconds(1)), WebSocketMachine.Step(closed: nil, socket: .drop))
        expectEqual(peer.machine.failed(TransportError(.reset, "reset")), Self.none)
    }

    @Test func `an end of stream without a close frame is an error`() {
        var peer = Peer(.client)
        let step = peer.machine.endOfStream()
        guard case .transport(let error)? = step.closed else {
            Issue.record("\(step)")
            return
        }
        expectEqual(error.code, .closed)
        expectEqual(step.socket, .drop)
        expectEqual(peer.send(.text("late")), .closed)
    }

    @Test func `an end of stream or an error while closing is reported as the requested close`() {
        var (ended, failed) = (Peer(.client), Peer(.server))
        _ = (ended.close(), failed.close())
        expectEqual(ended.machine.endOfStream(), WebSocketMachine.Step(closed: .requested, socket: .drop))
        expectEqual(failed.machine.failed(TransportError(.reset, "reset")), WebSocketMachine.Step(closed: .requested, socket: .drop))
    }

    @Test func `a socket error is reported once`() {
        var peer = Peer(.client)
        let error = TransportError(.reset, "reset")
        expectEqual(peer.machine.failed(error), WebSocketMachine.Step(closed: .transport(error), socket: .drop))
        expectEqual(peer.machine.failed(error), Self.none)
    }

    @Test(arguments: roles) func `a violation sends its close code and ends the connection`(_ role: WebSocketRole) {
        let cases: [([UInt8], CloseCode, TransportError.Code)] = [
            (Peer(role).frame(0xC1, [0x61]), .protocolError, .protocolViolation),
            (Peer(role).frame(0x81, [0xFF]), .invalidPayload, .protocolViolation),
            (Peer(role).frame(0x82, [UInt8](repeating: 0, count: 100_001)), .tooLarge, .tooLarge),
        ]
        for (bytes, code, kind) in cases {
            var peer = Peer(role)
            let step = peer.receive(peer.frame(0x81, [0x61]) + bytes)
            guard case .transport(let error)? = step.closed else {
                Issue.record("\(step)")
                continue
            }
            expectEqual(error.code, kind)
            expectEqual(step.socket, .finishWriting)
            expectEqual(peer.messages, [.text("a")])
            guard case .close(let sent, let reason)? = peer.written().end else {
                Issue.record("no close frame was sent")
                continue
            }
            expectEqual(sent, code)
            // The peer is told what concerns it.
            let isTooLarge = reason == "The message exceeds the receiver's limit of 100000 bytes."
            expect(code == .tooLarge ? isTooLarge : error.message.hasPrefix(reason), "\(reason)")
            expectEqual(peer.receive(peer.frame(0x81, [0x62])), Self.none)
            expectEqual(peer.machine.endOfStream(), WebSocketMachine.Step(closed: nil, socket: .drop))
        }
    }

    @Test func `a violation while closing drops the connection`() {
        var peer = Peer(.client)
        _ = peer.close()
        _ = peer.written()
        expectEqual(peer.receive(peer.frame(0x83)), WebSocketMachine.Step(closed: .requested, socket: .drop))
        expect(peer.output.isEmpty)
    }

    @Test func `close frames that cross on the wire are reported as one close`() {
        var (client, server) = (Peer(.client), Peer(.server))
        _ = client.close(.normal, "client")
        _ = server.close(.goingAway, "server")
        let (fromClient, fromServer) = (client.output, server.output)
        (client.output, server.output) = ([], [])
        expectEqual(client.receive(fromServer), WebSocketMachine.Step(closed: .requested, socket: .keep))
        expectEqual(server.receive(fromClient), WebSocketMachine.Step(closed: .requested, socket: .finishWriting))
        expect(client.output.isEmpty && server.output.isEmpty)
    }
}
