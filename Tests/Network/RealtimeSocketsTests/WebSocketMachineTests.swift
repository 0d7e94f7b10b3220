import RealtimeCore
import RealtimeSockets
import Testing

@Suite struct WebSocketMachineTests {
    /// One end of a WebSocket with everything it needs around it.
    struct End {
        var machine: WebSocketMachine
        var role: WebSocketRole
        var output: [UInt8] = []
        var now = Instant(nanoseconds: 1_000_000_000)
        var messages: [WebSocketMessage] = []

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

        /// Decodes the bytes and answers pings.
        mutating func process(_ bytes: [UInt8], into batch: inout MessageBatch) -> FrameDecoder.DecodeResult {
            let result = bytes.withUnsafeBytes { self.machine.receive($0, into: &batch) }
            if result.hasPing { self.machine.answerPings(in: batch, output: &self.output) }
            return result
        }

        mutating func send(_ message: WebSocketMessage) -> WebSocketMachine.SendResult {
            self.machine.send(message, output: &self.output)
        }

        mutating func close(_ code: CloseCode = .normal, _ reason: String = "") -> Bool {
            self.machine.close(code, reason: reason, output: &self.output, now: self.now)
        }

        mutating func wait(_ duration: Duration) -> WebSocketMachine.Step {
            self.now = self.now.advanced(by: duration)
            return self.machine.timeout(now: self.now)
        }

        /// What was written since the last look, as the peer would read it.
        mutating func written() -> Decoded {
            defer { self.output = [] }
            return decode([self.output], role: self.role == .client ? .server : .client)
        }

        /// A frame as the peer would send it.
        func frame(_ first: UInt8, _ payload: [UInt8] = []) -> [UInt8] {
            RealtimeSocketsTests.frame(first, payload, key: self.role == .server ? [1, 2, 3, 4] : nil)
        }

        func closeFrame(_ code: UInt16, _ reason: String = "") -> [UInt8] {
            RealtimeSocketsTests.closeFrame(code, reason, key: self.role == .server ? [1, 2, 3, 4] : nil)
        }
    }

    static let roles: [WebSocketRole] = [.client, .server]
    static let none = WebSocketMachine.Step(closed: nil, socket: .keep)

    @Test(arguments: roles) func `messages go out and come in`(_ role: WebSocketRole) {
        var end = End(role)
        let messages: [WebSocketMessage] = [.text("hello"), .binary([1, 2]), WebSocketMessage(.ping, [3]), WebSocketMessage(.pong, [])]
        for message in messages { #expect(end.send(message) == .appended) }
        #expect(end.written() == Decoded(messages: messages))
        #expect(end.receive(end.frame(0x81, Array("hi".utf8))) == Self.none)
        #expect(end.messages == [.text("hi")])
        #expect(end.machine.nextDeadline == nil)
        #expect(end.wait(.seconds(1_000_000)) == Self.none)
    }

    @Test func `a ping that is too long is not sent`() {
        var end = End(.client)
        #expect(end.send(WebSocketMessage(.ping, [UInt8](repeating: 0, count: 126))) == .tooLong)
        #expect(end.send(WebSocketMessage(.pong, [UInt8](repeating: 0, count: 126))) == .tooLong)
        #expect(end.output.isEmpty)
    }

    @Test(arguments: roles) func `every ping of a read is answered in order`(_ role: WebSocketRole) {
        var end = End(role)
        _ = end.receive(end.frame(0x89, [1]) + end.frame(0x89, [2]) + end.frame(0x81, [0x61]) + end.frame(0x8A, [3]))
        #expect(end.written() == Decoded(messages: [WebSocketMessage(.pong, [1]), WebSocketMessage(.pong, [2])]))
        #expect(end.messages.count == 4)
    }

    @Test func `a pong waits while the peer reads nothing`() {
        var end = End(.server)
        _ = end.send(.binary([UInt8](repeating: 0, count: SocketStream.highWater)))
        let unsent = end.output.count
        for ping: UInt8 in 1...200 { _ = end.receive(end.frame(0x89, [ping])) }
        #expect(end.output.count == unsent)
        _ = end.written()
        end.machine.drained(output: &end.output)
        #expect(end.written() == Decoded(messages: [WebSocketMessage(.pong, [200])]))
        end.machine.drained(output: &end.output)
        #expect(end.output.isEmpty)
    }

    @Test(arguments: roles) func `what is sent on a message goes before the end that came with it`(_ role: WebSocketRole) {
        var end = End(role)
        var batch = MessageBatch()
        let result = end.process(end.frame(0x81, [0x61]) + end.frame(0xC1, [0x62]), into: &batch)
        #expect(batch.messages == [.text("a")])
        #expect(end.send(.text("a")) == .appended)
        _ = end.machine.conclude(result.end!, output: &end.output, now: end.now)
        let written = end.written()
        #expect(written.messages == [.text("a")])
        #expect(written.end != nil)
    }

    @Test(arguments: roles) func `our close is answered and the server ends the connection`(_ role: WebSocketRole) {
        var end = End(role)
        #expect(end.close(.goingAway, "bye") == true)
        #expect(end.written() == Decoded(end: .close(.goingAway, "bye")))
        #expect(end.close() == false)
        #expect(end.send(.text("late")) == .closed)
        #expect(end.output.isEmpty)
        #expect(!end.machine.isOpen)
        // What the peer had sent before it saw our close frame still comes; its pings are not answered any more.
        #expect(end.receive(end.frame(0x81, [0x61]) + end.frame(0x89)) == Self.none)
        #expect(end.messages == [.text("a"), WebSocketMessage(.ping, [])])
        let step = end.receive(end.closeFrame(1001))
        #expect(step == WebSocketMachine.Step(closed: .requested, socket: role == .server ? .finishWriting : .keep))
        #expect(end.output.isEmpty)
        #expect(end.machine.endOfStream() == WebSocketMachine.Step(closed: nil, socket: .drop))
        #expect(end.machine.endOfStream() == Self.none)
        #expect(end.machine.nextDeadline == nil)
    }

    @Test(arguments: roles) func `the peers close is echoed`(_ role: WebSocketRole) {
        var end = End(role)
        let step = end.receive(end.frame(0x81, [0x61]) + end.closeFrame(4001, "why") + end.frame(0x81, [0x62]))
        #expect(
            step == WebSocketMachine.Step(closed: .peer(CloseCode(rawValue: 4001), "why"), socket: role == .server ? .finishWriting : .keep)
        )
        #expect(end.messages == [.text("a")])
        #expect(end.written() == Decoded(end: .close(CloseCode(rawValue: 4001), "")))
        #expect(end.send(.text("late")) == .closed)
        #expect(end.close() == false)
        #expect(end.receive(end.frame(0x81, [0x63])) == Self.none)
        #expect(end.messages.count == 1)
        #expect(end.output.isEmpty)
    }

    @Test(arguments: roles) func `a close without a code is echoed without one`(_ role: WebSocketRole) {
        var end = End(role)
        #expect(end.receive(end.frame(0x88)).closed == .peer(.noStatus, ""))
        #expect(end.written() == Decoded(end: .close(.noStatus, "")))
    }

    @Test func `a ping in the read of the close is answered before it`() {
        var end = End(.client)
        _ = end.receive(end.frame(0x89, [7]) + end.closeFrame(1000))
        #expect(end.written() == Decoded(messages: [WebSocketMessage(.pong, [7])], end: .close(.normal, "")))
    }

    @Test func `a peer that never answers our close is given up`() {
        var end = End(.client)
        _ = end.close()
        #expect(end.machine.nextDeadline == end.now.advanced(by: .seconds(5)))
        #expect(end.wait(.milliseconds(4999)) == Self.none)
        #expect(end.receive(end.frame(0x81, [0x61])) == Self.none)
        #expect(end.wait(.milliseconds(1)) == WebSocketMachine.Step(closed: .requested, socket: .drop))
        #expect(end.wait(.seconds(10)) == Self.none)
        #expect(end.machine.nextDeadline == nil)
    }

    @Test(arguments: roles) func `a peer that never ends the connection is cut off`(_ role: WebSocketRole) {
        var end = End(role)
        _ = end.receive(end.closeFrame(1000))
        #expect(end.machine.nextDeadline == end.now.advanced(by: .seconds(1)))
        #expect(end.wait(.milliseconds(999)) == Self.none)
        #expect(end.wait(.milliseconds(1)) == WebSocketMachine.Step(closed: nil, socket: .drop))
        #expect(end.machine.failed(TransportError(.reset, "cut")) == Self.none)
    }

    @Test func `an end without a close frame is abnormal`() {
        var end = End(.client)
        let step = end.machine.endOfStream()
        guard case .transport(let error)? = step.closed else {
            Issue.record("\(step)")
            return
        }
        #expect(error.code == .closed)
        #expect(step.socket == .drop)
        #expect(end.send(.text("late")) == .closed)
    }

    @Test func `an end while we were closing is the end we asked for`() {
        var (ended, cut) = (End(.client), End(.server))
        _ = (ended.close(), cut.close())
        #expect(ended.machine.endOfStream() == WebSocketMachine.Step(closed: .requested, socket: .drop))
        #expect(cut.machine.failed(TransportError(.reset, "cut")) == WebSocketMachine.Step(closed: .requested, socket: .drop))
    }

    @Test func `a socket that fails is reported`() {
        var end = End(.client)
        let error = TransportError(.reset, "cut")
        #expect(end.machine.failed(error) == WebSocketMachine.Step(closed: .transport(error), socket: .drop))
        #expect(end.machine.failed(error) == Self.none)
    }

    @Test(arguments: roles) func `a violation is answered with its code and ends the connection`(_ role: WebSocketRole) {
        let cases: [([UInt8], CloseCode, TransportError.Code)] = [
            (End(role).frame(0xC1, [0x61]), .protocolError, .protocolViolation),
            (End(role).frame(0x81, [0xFF]), .invalidPayload, .protocolViolation),
            (End(role).frame(0x82, [UInt8](repeating: 0, count: 100_001)), .tooLarge, .tooLarge),
        ]
        for (bytes, code, kind) in cases {
            var end = End(role)
            let step = end.receive(end.frame(0x81, [0x61]) + bytes)
            guard case .transport(let error)? = step.closed else {
                Issue.record("\(step)")
                continue
            }
            #expect(error.code == kind)
            #expect(step.socket == .finishWriting)
            #expect(end.messages == [.text("a")])
            guard case .close(let sent, let reason)? = end.written().end else {
                Issue.record("no close frame was sent")
                continue
            }
            #expect(sent == code)
            #expect(error.message.hasPrefix(reason))
            #expect(end.receive(end.frame(0x81, [0x62])) == Self.none)
            #expect(end.machine.endOfStream() == WebSocketMachine.Step(closed: nil, socket: .drop))
        }
    }

    @Test func `a violation while we were closing ends at once`() {
        var end = End(.client)
        _ = end.close()
        _ = end.written()
        #expect(end.receive(end.frame(0x83)) == WebSocketMachine.Step(closed: .requested, socket: .drop))
        #expect(end.output.isEmpty)
    }

    @Test func `close frames that cross are one close`() {
        var (client, server) = (End(.client), End(.server))
        _ = client.close(.normal, "client")
        _ = server.close(.goingAway, "server")
        let (fromClient, fromServer) = (client.output, server.output)
        (client.output, server.output) = ([], [])
        #expect(client.receive(fromServer) == WebSocketMachine.Step(closed: .requested, socket: .keep))
        #expect(server.receive(fromClient) == WebSocketMachine.Step(closed: .requested, socket: .finishWriting))
        #expect(client.output.isEmpty && server.output.isEmpty)
    }
}
