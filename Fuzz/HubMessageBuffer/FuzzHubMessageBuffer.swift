import RealtimeCore
import SignalRWire

/// One end of a logical connection. It sends numbered messages, and records those that it handles.
struct Peer {
    var buffer: HubMessageBuffer
    var reader = HubMessageReader(.json, messageLimit: 1 << 16)
    /// The messages on the way from this end on the present socket.
    var output: [TransportMessage] = []
    /// Whether this end has the present socket: the ends learn of it at different times.
    var isAttached = true
    var sent = 0
    var handled: [Int] = []

    mutating func send(padding: Int) {
        let coder = HubValueCoder(.json)
        guard !self.buffer.isFull, let arguments = try? coder.payload([self.sent]) else { return }
        let target = String(repeating: "m", count: 1 + padding)
        let message = HubMessageWriter.message(.invocation(HubInvocation(id: nil, target: target, arguments: arguments)), .json)
        self.sent += 1
        if self.buffer.append(message) { self.output.append(message) }
    }

    mutating func sendUncounted(_ message: HubMessage) {
        guard self.isAttached else { return }
        self.output.append(HubMessageWriter.message(message, .json))
    }

    mutating func acknowledge(now: Instant) {
        if let ack = self.buffer.takeAck(now: now) { self.sendUncounted(ack) }
    }

    mutating func receive(_ message: TransportMessage, now: Instant) {
        var received: [HubMessageReader.Output] = []
        do { try message.bytes.withUnsafeBytes { try self.reader.read($0) { received.append($0) } } } catch {
            preconditionFailure("\(error)")
        }
        for case .message(let message) in received {
            do throws(HubSequenceError) {
                guard case .handle = try self.buffer.received(message, now: now), case .invocation(let call) = message else { continue }
                let numbers = try? HubValueCoder(.json).decode([Int].self, from: call.arguments)
                precondition(numbers?.count == 1, "the message was changed")
                self.handled += numbers ?? []
            } catch {
                preconditionFailure("no message is lost, but: \(error)")
            }
        }
        self.buffer.received(byteCount: message.bytes.count, now: now)
        self.acknowledge(now: now)
    }

    mutating func attach() {
        self.isAttached = true
        let (sequence, messages) = self.buffer.resume()
        self.sendUncounted(sequence)
        self.output += messages
    }
}

/// Two ends, and the socket between them, which can be cut.
struct Link {
    var peers: [Peer]
    var now = Instant(nanoseconds: 0)

    init(_ limits: [Int]) { self.peers = limits.map { Peer(buffer: HubMessageBuffer(byteLimit: $0)) } }

    /// Delivers messages to an end that has the socket.
    mutating func deliver(to end: Int, _ count: Int) {
        guard self.peers[end].isAttached else { return }
        for _ in 0..<min(count, self.peers[1 - end].output.count) {
            let message = self.peers[1 - end].output.removeFirst()
            self.peers[end].receive(message, now: self.now)
        }
    }

    /// Loses the messages on the way.
    mutating func cut() {
        for end in 0...1 {
            self.peers[end].output = []
            self.peers[end].isAttached = false
            self.peers[end].buffer.interrupt()
        }
    }

    /// An end continues on the new socket, which may bring the remains of the previous one.
    mutating func attach(_ end: Int, withRemains: Bool) {
        guard !self.peers[end].isAttached else { return }
        if withRemains {
            self.peers[end].isAttached = true
            let arguments = HubPayload(.json, Array("[-1]".utf8))
            self.peers[end].sendUncounted(.invocation(HubInvocation(id: nil, target: "old", arguments: arguments)))
            self.peers[end].sendUncounted(.ack(sequenceID: 0))
        }
        self.peers[end].attach()
    }

    func check() {
        for end in 0...1 {
            precondition(self.peers[end].handled == Array(0..<self.peers[end].handled.count), "a message is missing or repeated")
            precondition(self.peers[end].handled.count <= self.peers[1 - end].sent, "a message wasn't sent")
        }
    }

    /// Delivers everything: nothing is lost any more.
    mutating func settle() {
        for end in 0...1 { self.attach(end, withRemains: false) }
        for _ in 0..<4 {
            while self.peers.contains(where: { !$0.output.isEmpty }) { for end in 0...1 { self.deliver(to: end, .max) } }
            self.now = self.now.advanced(by: HubMessageBuffer.ackInterval)
            for end in 0...1 { self.peers[end].acknowledge(now: self.now) }
        }
        self.check()
        for end in 0...1 {
            precondition(self.peers[end].handled.count == self.peers[1 - end].sent, "a message is missing")
            let buffer = self.peers[end].buffer
            precondition(buffer.count == 0 && buffer.byteCount == 0 && !buffer.isFull, "a message wasn't acknowledged")
            precondition(buffer.nextDeadline == nil, "an acknowledgment wasn't sent")
        }
    }
}

/// Exchanges messages between two buffers over sockets that are cut at any time: each message must be handled once and in order, and all
/// must be acknowledged in the end. The first two bytes choose the limits of the buffers, and each further byte is a step.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzHubMessageBuffer(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard count >= 2, let start else { return 0 }
    var link = Link([Int(start[0]) * 16, Int(start[1]) * 16])
    for byte in UnsafeBufferPointer(start: start + 2, count: count - 2) {
        let (end, amount) = (Int(byte & 1), Int(byte >> 4))
        switch (byte >> 1) & 7 {
        case 0, 1: link.peers[end].send(padding: 4 * amount)
        case 2, 3: link.deliver(to: end, 1 + amount)
        case 4: link.cut()
        case 5: link.attach(end, withRemains: amount > 7)
        case 6:
            link.now = link.now.advanced(by: .milliseconds(100 * amount))
            link.peers[end].acknowledge(now: link.now)
        default:
            switch amount {
            case 0...3: link.peers[end].sendUncounted(.ping)
            // Acknowledges more than was received.
            case 4...7: link.peers[end].sendUncounted(.ack(sequenceID: .max - UInt64(amount)))
            default: link.peers[end].sendUncounted(.ack(sequenceID: UInt64(amount - 8) * UInt64(link.peers[end].handled.count) / 8))
            }
        }
    }
    link.check()
    link.settle()
    return 0
}
