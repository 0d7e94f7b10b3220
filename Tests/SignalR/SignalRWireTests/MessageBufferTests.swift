import RealtimeCore
import SignalRWire
import TestSupport
import Testing

/// A buffer whose methods can be called in expectations, which don't allow mutating ones.
private final class TestBuffer {
    var value: HubMessageBuffer

    init(_ value: HubMessageBuffer = HubMessageBuffer()) { self.value = value }

    var count: Int { self.value.count }
    var byteCount: Int { self.value.byteCount }
    var isFull: Bool { self.value.isFull }
    var nextDeadline: Instant? { self.value.nextDeadline }
    func append(_ message: TransportMessage) -> Bool { self.value.append(message) }
    func received(_ message: HubMessage, now: Instant) throws -> HubMessageBuffer.Reception { try self.value.received(message, now: now) }
    func receivedInvalid(type: Int?, now: Instant) -> Bool { self.value.receivedInvalid(type: type, now: now) }
    func received(byteCount: Int, now: Instant) { self.value.received(byteCount: byteCount, now: now) }
    func takeAck(now: Instant) -> HubMessage? { self.value.takeAck(now: now) }
    func interrupt() { self.value.interrupt() }
    func resume() -> (sequence: HubMessage, messages: [TransportMessage]) { self.value.resume() }
}

@Suite struct MessageBufferTests {
    private let start = Instant(nanoseconds: 0)

    private func at(_ milliseconds: Int) -> Instant { self.start.advanced(by: .milliseconds(milliseconds)) }

    private func invocation(_ name: String) -> HubMessage { .invocation(HubInvocation(id: nil, target: name, arguments: json("[]"))) }

    /// A message of this size.
    private func message(_ size: Int) -> TransportMessage { .text(String(repeating: "x", count: size)) }

    /// A buffer whose socket was lost and that has resumed on another one.
    private func resumed(receiving count: Int = 0) throws -> TestBuffer {
        let buffer = TestBuffer()
        for number in 0..<count { try expectEqual(buffer.received(self.invocation("m\(number)"), now: self.start), .handle) }
        buffer.interrupt()
        _ = buffer.resume()
        return buffer
    }

    // MARK: Sending

    @Test func `messages are sent immediately and stored until they are acknowledged`() throws {
        let buffer = TestBuffer()
        for size in 1...4 { expect(buffer.append(self.message(size))) }
        expect(buffer.count == 4 && buffer.byteCount == 10)
        try expectEqual(buffer.received(.ack(sequenceID: 2), now: self.start), .ignore)
        expect(buffer.count == 2 && buffer.byteCount == 7)
        buffer.interrupt()
        let (sequence, messages) = buffer.resume()
        expect(sequence == .sequence(sequenceID: 3) && messages == [self.message(3), self.message(4)])
    }

    @Test(arguments: [(0, 4), (2, 2), (3, 1), (4, 0), (5, 4), (UInt64.max, 4)] as [(UInt64, Int)])
    func `an acknowledgment removes the messages up to its number, unless they weren't sent`(number: UInt64, remaining: Int) throws {
        let buffer = TestBuffer()
        for size in 1...4 { _ = buffer.append(self.message(size)) }
        try expectEqual(buffer.received(.ack(sequenceID: number), now: self.start), .ignore)
        expectEqual(buffer.count, remaining)
    }

    @Test func `an acknowledgment that is repeated or arrives late has no effect`() throws {
        let buffer = TestBuffer()
        for size in 1...4 { _ = buffer.append(self.message(size)) }
        for number: UInt64 in [3, 3, 1, 0, 2] { try expectEqual(buffer.received(.ack(sequenceID: number), now: self.start), .ignore) }
        expect(buffer.count == 1 && buffer.byteCount == 4)
    }

    @Test func `a full buffer asks to wait until enough is acknowledged`() throws {
        let buffer = TestBuffer(HubMessageBuffer(byteLimit: 100))
        expect(buffer.append(self.message(60)) && !buffer.isFull)
        // One message may exceed the limit: it couldn't be sent otherwise.
        expect(buffer.append(self.message(140)) && buffer.isFull)
        expect(buffer.append(self.message(1)) && buffer.isFull)
        try expectEqual(buffer.received(.ack(sequenceID: 1), now: self.start), .ignore)
        expect(buffer.isFull && buffer.byteCount == 141)
        try expectEqual(buffer.received(.ack(sequenceID: 2), now: self.start), .resumeSending)
        expect(!buffer.isFull && buffer.byteCount == 1)
        try expectEqual(buffer.received(.ack(sequenceID: 3), now: self.start), .ignore)
        expectEqual(buffer.byteCount, 0)
    }

    @Test func `a full buffer permits one message after each resume, which the peer acknowledges`() throws {
        let buffer = TestBuffer(HubMessageBuffer(byteLimit: 10))
        expect(buffer.append(self.message(10)) && buffer.isFull)
        buffer.interrupt()
        expect(buffer.isFull)
        for size in 1...2 {
            _ = buffer.resume()
            expect(!buffer.isFull && buffer.append(self.message(size)) && buffer.isFull)
            buffer.interrupt()
        }
        _ = buffer.resume()
        _ = try buffer.received(.sequence(sequenceID: 1), now: self.start)
        try expectEqual(buffer.received(.ack(sequenceID: 3), now: self.start), .ignore)
        expect(!buffer.isFull && buffer.byteCount == 0)
    }

    @Test(arguments: [Int.min, 0, 1]) func `a limit below 1 means 1`(limit: Int) {
        let buffer = TestBuffer(HubMessageBuffer(byteLimit: limit))
        expect(!buffer.isFull)
        expect(buffer.append(self.message(1)) && buffer.isFull)
    }

    @Test func `without a socket, messages are only stored`() throws {
        let buffer = TestBuffer()
        expect(buffer.append(self.message(1)))
        buffer.interrupt()
        expect(buffer.value.isInterrupted && !buffer.append(self.message(2)))
        let (sequence, messages) = buffer.resume()
        expect(sequence == .sequence(sequenceID: 1) && messages == [self.message(1), self.message(2)])
        expect(!buffer.value.isInterrupted && buffer.append(self.message(3)))
    }

    @Test func `with an empty buffer, a resume states the number of the next message`() throws {
        let buffer = TestBuffer()
        buffer.interrupt()
        expectEqual(buffer.resume().sequence, .sequence(sequenceID: 1))
        for size in 1...3 { _ = buffer.append(self.message(size)) }
        try expectEqual(buffer.received(.sequence(sequenceID: 1), now: self.start), .ignore)
        try expectEqual(buffer.received(.ack(sequenceID: 3), now: self.start), .ignore)
        buffer.interrupt()
        let (sequence, messages) = buffer.resume()
        expect(sequence == .sequence(sequenceID: 4) && messages.isEmpty)
    }

    @Test func `what the peer repeats is acknowledged as soon as it says so, and nothing that it doesn't repeat`() throws {
        let buffer = TestBuffer()
        for name in ["a", "b"] { _ = try buffer.received(self.invocation(name), now: self.start) }
        // The acknowledgment of both is lost with the socket.
        expectEqual(buffer.takeAck(now: self.at(1000)), .ack(sequenceID: 2))
        buffer.interrupt()
        _ = buffer.resume()
        expectNil(buffer.nextDeadline)
        _ = try buffer.received(.sequence(sequenceID: 1), now: self.at(2000))
        for name in ["a", "b"] { try expectEqual(buffer.received(self.invocation(name), now: self.at(2000)), .ignore) }
        expectEqual(buffer.takeAck(now: self.at(2000)), .ack(sequenceID: 2))
        // The repetitions need no other one, but the next message does.
        expectNil(buffer.nextDeadline)
        buffer.interrupt()
        _ = buffer.resume()
        _ = try buffer.received(.sequence(sequenceID: 3), now: self.at(3000))
        expectNil(buffer.nextDeadline)
        _ = try buffer.received(self.invocation("c"), now: self.at(3000))
        expectEqual(buffer.nextDeadline, self.at(4000))
    }

    @Test func `sockets that last for less than a replay bring a transfer forward, in order and once`() throws {
        let (sender, receiver) = (TestBuffer(), TestBuffer())
        for number in 1...1000 { _ = sender.append(HubMessageWriter.message(self.invocation("\(number)"), .json)) }
        for number in 1...5 { _ = receiver.append(HubMessageWriter.message(self.invocation("\(number)"), .json)) }
        var (handled, sockets) = ([[Int]](repeating: [], count: 2), 0)
        // The network passes on 20 messages of each direction.
        func deliver(_ messages: [TransportMessage], to buffer: TestBuffer, _ index: Int) throws -> TransportMessage? {
            var reader = HubMessageReader(.json, messageLimit: 1000)
            for message in messages.prefix(20) {
                var read: [HubMessage] = []
                try message.bytes.withUnsafeBytes { try reader.read($0) { if case .message(let message) = $0 { read.append(message) } } }
                for message in read {
                    guard try buffer.received(message, now: self.start) == .handle, case .invocation(let call) = message else { continue }
                    handled[index].append(Int(call.target) ?? 0)
                }
            }
            return buffer.takeAck(now: self.start).map { HubMessageWriter.message($0, .json) }
        }
        while handled[0].count < 1000 || handled[1].count < 5, sockets < 500 {
            sockets += 1
            for buffer in [sender, receiver] { buffer.interrupt() }
            let (sent, answered) = (sender.resume(), receiver.resume())
            let answer = try deliver([HubMessageWriter.message(sent.sequence, .json)] + sent.messages, to: receiver, 0)
            let answers = [HubMessageWriter.message(answered.sequence, .json)] + answered.messages + [answer].compactMap(\.self)
            // Its acknowledgment would be behind what it repeats.
            _ = try deliver(answers, to: sender, 1)
        }
        expect(handled == [Array(1...1000), Array(1...5)], "\(handled.map(\.count))")
        expect(sockets < 150, "\(sockets) sockets")
    }

    @Test func `a second cut during the replay sends everything again`() throws {
        let buffer = TestBuffer()
        for size in 1...3 { _ = buffer.append(self.message(size)) }
        buffer.interrupt()
        expectEqual(buffer.resume().messages.count, 3)
        buffer.interrupt()
        expect(!buffer.append(self.message(4)))
        let (sequence, messages) = buffer.resume()
        expect(sequence == .sequence(sequenceID: 1) && messages.map(\.bytes.count) == [1, 2, 3, 4])
    }

    // MARK: Receiving

    @Test(arguments: [HubMessage.ping, .close(error: nil, allowReconnect: true)])
    func `other messages are handled, and neither counted nor acknowledged`(other: HubMessage) throws {
        let buffer = TestBuffer()
        try expectEqual(buffer.received(other, now: self.start), .handle)
        expectNil(buffer.nextDeadline)
        _ = try buffer.received(self.invocation("a"), now: self.start)
        expectEqual(buffer.takeAck(now: self.at(1000)), .ack(sequenceID: 1))
    }

    @Test func `messages that the peer repeats are ignored, and new ones are handled`() throws {
        let buffer = try self.resumed(receiving: 5)
        try expectEqual(buffer.received(.sequence(sequenceID: 4), now: self.start), .ignore)
        let receptions = try (4...7).map { try buffer.received(self.invocation("m\($0)"), now: self.start) }
        expectEqual(receptions, [.ignore, .ignore, .handle, .handle])
        expectEqual(buffer.takeAck(now: self.at(1000)), .ack(sequenceID: 7))
    }

    @Test func `a lost acknowledgment is repeated when the peer repeats the messages`() throws {
        let buffer = TestBuffer()
        _ = try buffer.received(self.invocation("a"), now: self.start)
        expectEqual(buffer.takeAck(now: self.at(1000)), .ack(sequenceID: 1))
        buffer.interrupt()
        _ = buffer.resume()
        try expectEqual(buffer.received(.sequence(sequenceID: 1), now: self.at(2000)), .ignore)
        try expectEqual(buffer.received(self.invocation("a"), now: self.at(2000)), .ignore)
        expectEqual(buffer.nextDeadline, self.at(2000))
        expectEqual(buffer.takeAck(now: self.at(2000)), .ack(sequenceID: 1))
    }

    @Test func `until the peer has stated a number, all messages but the end are ignored`() throws {
        let buffer = try self.resumed(receiving: 1)
        _ = buffer.append(self.message(1))
        for message in [self.invocation("old"), .ping, .ack(sequenceID: 1), .completion(id: "1", .void)] {
            try expectEqual(buffer.received(message, now: self.start), .ignore)
        }
        expect(!buffer.receivedInvalid(type: 1, now: self.start) && !buffer.receivedInvalid(type: nil, now: self.start))
        expectEqual(buffer.count, 1)
        try expectEqual(buffer.received(.close(error: nil, allowReconnect: false), now: self.start), .handle)
        try expectEqual(buffer.received(.sequence(sequenceID: 2), now: self.start), .ignore)
        try expectEqual(buffer.received(self.invocation("new"), now: self.start), .handle)
        try expectEqual(buffer.received(.ack(sequenceID: 1), now: self.start), .ignore)
        expectEqual(buffer.count, 0)
    }

    @Test(
        arguments: [
            (4, "The peer continues with message 4, but only 2 messages were received: some are lost."),
            (.max, "The peer continues with message \(UInt64.max), but only 2 messages were received: some are lost."),
            (0, "The peer continues with message 0, but the first one is message 1."),
        ] as [(UInt64, String)])
    func `a number that can't be right is an error`(number: UInt64, problem: String) throws {
        let buffer = try self.resumed(receiving: 2)
        let error = #expect(throws: HubSequenceError.self) { try buffer.received(.sequence(sequenceID: number), now: self.start) }
        expectEqual(error?.problem, problem)
    }

    @Test func `a number without a resume is checked and followed, too`() throws {
        let buffer = TestBuffer()
        _ = try buffer.received(self.invocation("a"), now: self.start)
        #expect(throws: HubSequenceError.self) { try buffer.received(.sequence(sequenceID: 3), now: self.start) }
        try expectEqual(buffer.received(.sequence(sequenceID: 1), now: self.start), .ignore)
        try expectEqual(buffer.received(self.invocation("a"), now: self.start), .ignore)
        try expectEqual(buffer.received(self.invocation("b"), now: self.start), .handle)
    }

    @Test func `after a second cut during the repetition, the peer can repeat from further back`() throws {
        let buffer = try self.resumed(receiving: 4)
        _ = try buffer.received(.sequence(sequenceID: 3), now: self.start)
        try expectEqual(buffer.received(self.invocation("m3"), now: self.start), .ignore)
        buffer.interrupt()
        _ = buffer.resume()
        // In between, the number of the next message was 4: the peer may continue with any number that has been used.
        _ = try buffer.received(.sequence(sequenceID: 2), now: self.start)
        let receptions = try (2...5).map { try buffer.received(self.invocation("m\($0)"), now: self.start) }
        expectEqual(receptions, [.ignore, .ignore, .ignore, .handle])
    }

    @Test func `after a cut at the start of the repetition, the peer can continue with the next message`() throws {
        let buffer = try self.resumed(receiving: 4)
        _ = try buffer.received(.sequence(sequenceID: 1), now: self.start)
        buffer.interrupt()
        _ = buffer.resume()
        // The acknowledgment of all four messages may have arrived in between.
        try expectEqual(buffer.received(.sequence(sequenceID: 5), now: self.start), .ignore)
        try expectEqual(buffer.received(self.invocation("m5"), now: self.start), .handle)
    }

    @Test(arguments: [(1, 1), (2, 1), (5, 1), (6, 0), (9, 0), (nil, 0)])
    func `an invalid message counts if its type does`(type: Int?, count: UInt64) {
        let buffer = TestBuffer()
        expect(buffer.receivedInvalid(type: type, now: self.start))
        expectEqual(buffer.takeAck(now: self.at(1000)), (count == 0 ? nil : .ack(sequenceID: count)))
    }

    @Test func `an invalid message that the peer repeats isn't reported again`() throws {
        let buffer = TestBuffer()
        expect(buffer.receivedInvalid(type: 1, now: self.start))
        buffer.interrupt()
        _ = buffer.resume()
        _ = try buffer.received(.sequence(sequenceID: 1), now: self.start)
        expect(!buffer.receivedInvalid(type: 1, now: self.start))
        expect(buffer.receivedInvalid(type: 1, now: self.start))
    }

    // MARK: Acknowledging

    @Test func `messages are acknowledged once a second`() throws {
        let buffer = TestBuffer()
        expectNil(buffer.nextDeadline)
        for time in [100, 300, 900] { _ = try buffer.received(self.invocation("a"), now: self.at(time)) }
        expectEqual(buffer.nextDeadline, self.at(1100))
        expectNil(buffer.takeAck(now: self.at(1099)))
        expectEqual(buffer.takeAck(now: self.at(1100)), .ack(sequenceID: 3))
        expect(buffer.nextDeadline == nil && buffer.takeAck(now: self.at(5000)) == nil)
        _ = try buffer.received(self.invocation("a"), now: self.at(5000))
        expectEqual(buffer.nextDeadline, self.at(6000))
    }

    @Test func `half of the limit is acknowledged immediately`() throws {
        let buffer = TestBuffer(HubMessageBuffer(byteLimit: 1000))
        // Pings alone acknowledge nothing.
        buffer.received(byteCount: 5000, now: self.start)
        expectNil(buffer.nextDeadline)
        _ = try buffer.received(self.invocation("a"), now: self.start)
        buffer.received(byteCount: 499, now: self.start)
        expectNil(buffer.takeAck(now: self.start))
        _ = try buffer.received(self.invocation("b"), now: self.at(1))
        buffer.received(byteCount: 1, now: self.at(1))
        expectEqual(buffer.takeAck(now: self.at(1)), .ack(sequenceID: 2))
        // The next half begins at 0.
        _ = try buffer.received(self.invocation("c"), now: self.at(2))
        buffer.received(byteCount: 499, now: self.at(2))
        expectEqual(buffer.nextDeadline, self.at(1002))
    }

    @Test func `nothing is acknowledged without a socket, and again on the next one when the peer repeats it`() throws {
        let buffer = TestBuffer()
        _ = try buffer.received(self.invocation("a"), now: self.start)
        buffer.interrupt()
        expect(buffer.nextDeadline == nil && buffer.takeAck(now: self.at(3000)) == nil)
        _ = buffer.resume()
        expectNil(buffer.nextDeadline)
        _ = try buffer.received(.sequence(sequenceID: 1), now: self.at(3000))
        try expectEqual(buffer.received(self.invocation("a"), now: self.at(3000)), .ignore)
        expectEqual(buffer.takeAck(now: self.at(4000)), .ack(sequenceID: 1))
    }
}
