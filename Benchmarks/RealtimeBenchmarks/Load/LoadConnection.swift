import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeSystem
import SignalRWire

/// A connection of the load generator: a server's WebSocket with the minimum of the Pusher protocol that a client needs, or, at the path of a
/// hub, of SignalR, or of Primus. Other requests are answered as ``LoadHTTP`` describes.
final class LoadConnection: StreamEvents {
    struct Burst: Sendable {
        /// Complete frames, sent repeatedly.
        private let pattern: [UInt8]
        private var position = 0
        private var remaining: Int
        /// The bytes that follow the pattern.
        var end: [UInt8]

        init(pattern: [UInt8] = [], remaining: Int = 0, end: [UInt8] = []) {
            (self.pattern, self.remaining, self.end) = (pattern, remaining, end)
        }

        init(_ items: LoadHub.Items) {
            let bytes = items.count * items.frame.count
            self.init(pattern: LoadServer.repeated(items.frame, upTo: bytes), remaining: bytes, end: items.end)
        }

        mutating func nextChunk() -> ArraySlice<UInt8> {
            if self.remaining == 0 {
                defer { self.end = [] }
                return self.end[...]
            }
            let chunk = self.pattern[self.position..<min(self.pattern.count, self.position + min(self.remaining, LoadConnection.chunkSize))]
            self.position = chunk.endIndex == self.pattern.count ? 0 : chunk.endIndex
            self.remaining -= chunk.count
            return chunk
        }
    }

    private struct State: Sendable {
        var requests = HTTPRequestDecoder(bodyLimit: 64 << 10)
        /// The request whose body is being received.
        var request: HTTPRequestDecoder.Request?
        var body: [UInt8] = []
        /// Whether the connection is a WebSocket.
        var isOpen = false
        var frames = FrameDecoder(role: .server, messageLimit: 1 << 20)
        var batch = MessageBatch()
        var burst: Burst?
        var hub: LoadHub?
        var primus: LoadPrimus?
    }

    /// The number of bytes that are enqueued and flushed together.
    static let chunkSize = 64 << 10

    private let number: Int
    private let load: LoadServer
    private let state = Lock(State())

    init(_ number: Int, _ load: LoadServer) {
        self.number = number
        self.load = load
    }

    func opened(_ stream: SocketStream) {}

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        let isValid = self.state.withLock { state in
            if state.isOpen { return self.receive(bytes, &state, stream) }
            return self.receiveRequests(bytes, &state, stream)
        }
        if !isValid { return self.ended(stream, nil) }
        self.continueWriting(stream)
    }

    func drained(_ stream: SocketStream) { self.continueWriting(stream) }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.load.remove(self.number)
        stream.close()
    }

    /// Starts to send a burst.
    func send(_ burst: Burst, _ stream: SocketStream) {
        self.state.withLock { $0.burst = burst }
        self.continueWriting(stream)
    }

    private func continueWriting(_ stream: SocketStream) {
        // A reply can be larger than this.
        if stream.bufferedBytes > SocketStream.highWater { stream.flush() }
        while stream.bufferedBytes <= SocketStream.highWater {
            let hasMore = self.state.withLock { state -> Bool in
                guard let chunk = state.burst?.nextChunk(), !chunk.isEmpty else { return false }
                stream.enqueue { $0 += chunk }
                return true
            }
            stream.flush()
            if !hasMore { return }
        }
    }

    private func receiveRequests(_ bytes: UnsafeRawBufferPointer, _ state: inout State, _ stream: SocketStream) -> Bool {
        var input = bytes
        do throws(TransportError) {
            while true {
                switch try state.requests.next(&input) {
                case .head(let request):
                    switch ServerHandshake.check(request.head) {
                    case .notAnUpgrade: state.request = request
                    case .valid where LoadPrimus.isRawSockJS(request.head.path):
                        stream.enqueue { $0 += LoadHTTP.notFound }
                        stream.finishWriting()
                        return true
                    case .valid where LoadPrimus.refusesVersion(of: request.head.target):
                        stream.enqueue { $0 += LoadPrimus.refusedVersion }
                        stream.finishWriting()
                        return true
                    case .valid(let offer):
                        try self.accept(offer, request.head, &state, stream)
                        return true
                    case .rejected: return false
                    }
                case .body(let bytes): state.body += bytes
                case .end:
                    if let request = state.request.take() { self.answer(request, state.body, stream) }
                    state.body.removeAll(keepingCapacity: true)
                case .needsMore: return true
                }
            }
        } catch {
            return false
        }
    }

    private func answer(_ request: HTTPRequestDecoder.Request, _ body: [UInt8], _ stream: SocketStream) {
        if request.head.path.hasPrefix(BareInvocations.target) {
            let answer = self.load.hubRequests.answer(request.head, body, (self, stream))
            return stream.enqueue { $0 += answer }
        }
        if let information = LoadPrimus.information(request.head.path) {
            return stream.enqueue { $0 += LoadHTTP.response(information, type: "application/json") }
        }
        if let answer = self.load.primusRequests.answer(request.head, body, (self, stream)) {
            return stream.enqueue { $0 += answer }
        }
        let isStream = request.head.target == LoadHTTP.stream
        if isStream { self.load.add(self.number, self, stream) }
        stream.enqueue { output in
            output += isStream ? LoadHTTP.streamHead : LoadHTTP.answer(to: request.head.target, keepsAlive: request.keepsAlive)
        }
        if !request.keepsAlive { stream.finishWriting() }
    }

    private func accept(
        _ offer: ServerHandshake.Offer, _ head: HTTPRequestHead, _ state: inout State, _ stream: SocketStream
    ) throws(TransportError) {
        var output: [UInt8] = []
        try HTTPEncoder.append(try ServerHandshake.accept(offer, subprotocol: nil), to: &output)
        state.isOpen = true
        if head.path == BareInvocations.target {
            state.hub = LoadHub(.webSockets)
        } else if let primus = LoadPrimus(target: head.target) {
            state.primus = primus
            output += primus.opening
        } else {
            FrameEncoder.append(.text, LoadMessage.greeting(self.number), mask: nil, to: &output)
        }
        stream.enqueue { $0 += output }
        self.load.add(self.number, self, stream)
    }

    private func receive(_ bytes: UnsafeRawBufferPointer, _ state: inout State, _ stream: SocketStream) -> Bool {
        let result = state.frames.decode(bytes, into: &state.batch)
        var output: [UInt8] = []
        if state.hub != nil {
            for message in state.batch.messages {
                guard let items = state.hub?.receive(message, &output) else { continue }
                state.burst = Burst(items)
            }
        } else if var primus = state.primus {
            for message in state.batch.messages {
                if let burst = primus.receive(message, &output) { state.burst = burst }
            }
            // The first message of a session that moves is its probe.
            if let id = primus.movedSession.take() {
                state.primus = primus
                self.load.primusRequests.move(id)
            }
        } else {
            for message in state.batch.messages where message.kind == .text { self.reply(to: message.bytes, &output) }
        }
        state.batch.removeAll()
        if !output.isEmpty { stream.enqueue { $0 += output } }
        return result.end == nil
    }

    private func reply(to text: [UInt8], _ output: inout [UInt8]) {
        text.withUnsafeBytes { bytes in
            guard let frame = try? PusherFrame(scanning: bytes) else { return }
            switch frame.eventName {
            case EventName.subscribe:
                guard let channel = (try? frame.dataValue())?["channel"]?.string else { return }
                FrameEncoder.append(.text, LoadMessage.subscribed(to: channel), mask: nil, to: &output)
            case EventName.ping:
                FrameEncoder.append(.text, Array(#"{"event":"pusher:pong","data":"{}"}"#.utf8), mask: nil, to: &output)
            case LoadMessage.last:
                output += self.load.replyFrame
            case LoadMessage.some:
                for _ in 0..<LoadHTTP.messagesPerPoll { output += self.load.replyFrame }
            default: break
            }
        }
    }
}
