import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import SignalRWire

/// A time that stands still, so that no timer fires.
final class StoppedTime: TimeSource {
    let now = Instant(nanoseconds: 1_000_000_000)

    func schedule(_ client: any TimerClient, at instant: Instant?) {}
}

/// The other end of a connection, which answers as the load generator does.
enum RecordedPeer {
    case pusher
    case hub(LoadHub)
    case primus(LoadPrimus)

    init(target: String) {
        if target.hasPrefix(BareInvocations.target) {
            self = .hub(LoadHub(.webSockets))
        } else if let primus = LoadPrimus(target: target) {
            self = .primus(primus)
        } else {
            self = .pusher
        }
    }

    /// The frames that follow the handshake.
    var opening: [UInt8] {
        switch self {
        case .pusher: LoadHub.frame(TransportMessage(.text, LoadMessage.greeting(1)), mask: nil)
        case .hub: []
        case .primus(let primus): primus.opening
        }
    }

    /// Appends the answers to a message, as frames.
    mutating func answer(_ message: TransportMessage, _ output: inout [UInt8]) {
        switch self {
        case .pusher:
            guard message.bytes.containsText("pusher:subscribe") else { return }
            for channel in [LoadMessage.channel(0), LoadMessage.privateChannel] where message.bytes.containsText(#""\#(channel)""#) {
                output += LoadHub.frame(TransportMessage(.text, LoadMessage.subscribed(to: channel)), mask: nil)
            }
        case .hub(var hub):
            _ = hub.receive(message, &output)
            self = .hub(hub)
        case .primus(let primus):
            _ = primus.receive(message, &output)
        }
    }
}

extension [UInt8] {
    fileprivate func containsText(_ text: String) -> Bool { String(decoding: self, as: UTF8.self).containsText(text) }
}

/// A client's connection whose reads are recorded or answered in the process. It decodes and encodes frames as a socket's connection does.
///
/// `@unchecked Sendable`: the process has one thread.
final class RecordedConnection: MessageConnection, @unchecked Sendable {
    private let id: ConnectionID
    private let events: any MessageEvents
    private var peer: RecordedPeer
    private var machine = WebSocketMachine(role: .client, messageLimit: 16 << 20)
    private var batch = MessageBatch()
    /// The frames that the client has written. The memory is used again, as that of a socket's buffer.
    private var output: [UInt8] = []
    /// The messages that the peer has not answered.
    private var unanswered: [TransportMessage] = []
    private var pendingRead: [UInt8] = []
    /// Whether the peer answers. If not, what the client sends is dropped.
    var isAnswering = true
    /// The number of messages that the client has sent.
    private(set) var sentCount = 0

    init(_ request: WebSocketRequest, _ id: ConnectionID, _ events: any MessageEvents) {
        self.id = id
        self.events = events
        self.peer = RecordedPeer(target: request.endpoint.requestTarget)
    }

    func open() {
        self.events.opened(self.id, head: HTTPResponseHead(status: 101))
        self.pendingRead += self.peer.opening
    }

    func enqueue(_ message: TransportMessage) {
        _ = self.machine.send(message, output: &self.output)
        self.sentCount += 1
        if self.isAnswering { self.unanswered.append(message) }
    }

    func flush() { self.output.removeAll(keepingCapacity: true) }

    func pauseReading() {}
    func resumeReading() {}
    func close(_ code: CloseCode, reason: String) {}
    func abandon() {}

    /// Delivers a read.
    func read(_ bytes: [UInt8]) {
        let result = bytes.withUnsafeBytes { self.machine.receive($0, into: &self.batch) }
        precondition(result.end == nil, "a recorded read has an invalid frame")
        self.events.received(self.id, self.batch)
        self.batch.removeAll()
    }

    /// Delivers the answers to what the client has sent.
    ///
    /// - Returns: Whether there were any.
    func readAnswers() -> Bool {
        for message in self.unanswered { self.peer.answer(message, &self.pendingRead) }
        self.unanswered.removeAll(keepingCapacity: true)
        guard !self.pendingRead.isEmpty else { return false }
        let bytes = self.pendingRead
        self.pendingRead = []
        self.read(bytes)
        return true
    }
}

/// The transport of a client whose connections are recorded.
///
/// `@unchecked Sendable`: the process has one thread.
final class RecordedNetwork: WebSocketTransport, @unchecked Sendable {
    /// The newest connection.
    private(set) var connection: RecordedConnection?

    init() {
        MainThread.addSource { [unowned self] in self.connection?.readAnswers() ?? false }
    }

    var transports: Transports {
        let time = StoppedTime()
        return Transports(webSocket: self, http: InMemoryNetwork(time: time).http, time: time, epoch: 0, seed: { 1 })
    }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        let connection = RecordedConnection(request, id, events)
        self.connection = connection
        return connection
    }

    /// Delivers frames in reads of at most 64, and runs the tasks after each read.
    func read(_ frame: [UInt8], count: Int) {
        let size = 64
        let full = LoadServer.repeated(frame, upTo: size * frame.count)
        var remaining = count
        while remaining > 0 {
            let messages = min(size, remaining)
            self.connection?.read(messages == size && full.count == size * frame.count ? full : (0..<messages).flatMap { _ in frame })
            MainThread.runAll()
            remaining -= messages
        }
    }
}
