internal import CommandLineSupport
internal import RealtimeJSON
internal import RealtimeSystem
internal import PusherWire
internal import RealtimeCore
internal import RealtimeSockets

/// A connection of the load's: a server's WebSocket that knows just enough of the Pusher protocol to keep a client going.
final class LoadConnection: StreamEvents {
    private struct Burst: Sendable {
        /// Whole frames, sent again and again.
        var pattern: [UInt8]
        var position = 0
        var remaining: Int

        mutating func next() -> ArraySlice<UInt8> {
            let piece = self.pattern[self.position..<min(self.pattern.count, self.position + min(self.remaining, LoadConnection.pieceSize))]
            self.position = piece.endIndex == self.pattern.count ? 0 : piece.endIndex
            self.remaining -= piece.count
            return piece
        }
    }

    private struct State: Sendable {
        var requests = HTTPRequestDecoder(bodyLimit: 0)
        var isOpen = false
        var frames = FrameDecoder(role: .server, messageLimit: 1 << 20)
        var batch = MessageBatch()
        var burst: Burst?
    }

    /// What one write sends.
    static let pieceSize = 64 << 10

    private let number: Int
    private let load: LoadServer
    private let state = Lock(State())

    init(_ number: Int, _ load: LoadServer) {
        self.number = number
        self.load = load
    }

    func opened(_ stream: SocketStream) {}

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        let isSound = self.state.withLock { state in
            if state.isOpen { return self.receive(bytes, &state, stream) }
            return self.shakeHands(bytes, &state, stream)
        }
        if !isSound { return self.ended(stream, nil) }
        stream.flush()
    }

    func drained(_ stream: SocketStream) { self.continueWriting(stream) }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.load.lost(self.number)
        stream.close()
    }

    /// Sends so many frames in the order of the pattern.
    func send(_ pattern: [UInt8], bytes: Int, _ stream: SocketStream) {
        self.state.withLock { $0.burst = Burst(pattern: pattern, remaining: bytes) }
        self.continueWriting(stream)
    }

    private func continueWriting(_ stream: SocketStream) {
        while stream.bufferedBytes <= SocketStream.highWater {
            let isGoingOn = self.state.withLock { state -> Bool in
                guard let piece = state.burst?.next(), !piece.isEmpty else { return false }
                stream.enqueue { $0 += piece }
                return true
            }
            stream.flush()
            if !isGoingOn { return }
        }
    }

    private func shakeHands(_ bytes: UnsafeRawBufferPointer, _ state: inout State, _ stream: SocketStream) -> Bool {
        var input = bytes
        var output: [UInt8] = []
        do throws(TransportError) {
            guard case .head(let request) = try state.requests.next(&input) else { return true }
            guard case .valid(let offer) = ServerHandshake.check(request.head) else { return false }
            try HTTPEncoder.append(try ServerHandshake.accept(offer, subprotocol: nil), to: &output)
        } catch {
            return false
        }
        state.isOpen = true
        FrameEncoder.append(.text, LoadMessage.greeting(self.number), mask: nil, to: &output)
        stream.enqueue { $0 += output }
        self.load.greeted(self.number, self, stream)
        return true
    }

    private func receive(_ bytes: UnsafeRawBufferPointer, _ state: inout State, _ stream: SocketStream) -> Bool {
        let outcome = state.frames.decode(bytes, into: &state.batch)
        var output: [UInt8] = []
        for message in state.batch.messages where message.kind == .text {
            self.answer(message.bytes, &output)
        }
        state.batch.removeAll()
        if !output.isEmpty { stream.enqueue { $0 += output } }
        return outcome.end == nil
    }

    private func answer(_ text: [UInt8], _ output: inout [UInt8]) {
        text.withUnsafeBytes { bytes in
            guard let frame = try? PusherFrame(scanning: bytes) else { return }
            switch frame.eventName {
            case EventName.subscribe:
                guard let channel = (try? frame.dataValue())?["channel"]?.string else { return }
                FrameEncoder.append(.text, LoadMessage.subscribed(to: channel), mask: nil, to: &output)
            case EventName.ping:
                FrameEncoder.append(.text, Array(#"{"event":"pusher:pong","data":"{}"}"#.utf8), mask: nil, to: &output)
            case LoadMessage.last:
                output += self.load.answerFrame
            default: break
            }
        }
    }
}
