import PusherWire
import RealtimeCore
import RealtimeSockets

/// The work of the bare path with the messages of a protocol.
protocol BareMessages: Sendable {
    /// The request for the WebSocket.
    static var target: String { get }
    /// The first message to the server, as a frame; empty if the server speaks first.
    var hello: [UInt8] { get }

    /// Reads a WebSocket message, and copies the parts of it that a client needs.
    ///
    /// - Returns: The number of messages of the protocol in it; `nil` for the server's greeting.
    mutating func read(_ message: UnsafeRawBufferPointer) -> Int?
}

/// Scans for the three members of an event.
struct BareEvents: BareMessages {
    static let target = "/app/bench"
    let hello: [UInt8] = []
    private var characters = 0

    mutating func read(_ message: UnsafeRawBufferPointer) -> Int? {
        guard let frame = try? PusherFrame(scanning: message) else { return 0 }
        let (event, channel, data) = (frame.eventName, frame.channelName, frame.dataText)
        guard event == LoadMessage.event else { return nil }
        self.characters += (channel?.utf8.count ?? 0) + (data?.utf8.count ?? 0)
        return 1
    }
}

/// The bare path: the minimum of work that receives messages on the same sockets. It reads, decodes frames, scans for the parts of a
/// message, copies them and counts.
///
/// The cost of a client is reported as a multiple of the bare path.
final class BareReceiver<Messages: BareMessages>: StreamEvents {
    private let expectedCount: Int
    private let greeted = Waiter<Void>()
    private let finished = Waiter<Double>()

    // `nonisolated(unsafe)`: only the loop's thread accesses these.
    nonisolated(unsafe) private var frames = FrameDecoder(role: .client, messageLimit: 1 << 20)
    nonisolated(unsafe) private var batch = MessageBatch()
    nonisolated(unsafe) private var isOpen = false
    nonisolated(unsafe) private var count = 0
    nonisolated(unsafe) private var messages: Messages

    init(_ messages: Messages, expectedCount: Int) {
        self.messages = messages
        self.expectedCount = expectedCount
    }

    func connect(_ port: Int) -> SocketStream {
        let stream = SocketStream(events: self)
        stream.connect(to: "127.0.0.1", port: port)
        return stream
    }

    /// Waits for the server's greeting.
    func ready() async { await self.greeted.value {} }

    /// Waits for the last message, and returns the process's time when it was counted. Returns NaN when the connection is lost.
    func waitUntilFinished() async -> Double { await self.finished.value {} }

    static var request: [UInt8] {
        Array(
            """
            GET \(Messages.target) HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n
            """.utf8)
    }

    func opened(_ stream: SocketStream) {
        stream.enqueue { $0 += Self.request }
        stream.flush()
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        var input = bytes
        if !self.isOpen {
            // The response head arrives in one read: the load server sends it with one local write.
            guard let end = Self.endOfHead(input) else { return }
            self.isOpen = true
            let hello = self.messages.hello
            if !hello.isEmpty {
                stream.enqueue { $0 += hello }
                stream.flush()
            }
            input = UnsafeRawBufferPointer(rebasing: input[end...])
        }
        _ = self.frames.decode(input, into: &self.batch)
        self.batch.bytes.withUnsafeBytes { bytes in
            for entry in self.batch.entries { self.receive(UnsafeRawBufferPointer(rebasing: bytes[entry.range])) }
        }
        self.batch.removeAll()
    }

    private func receive(_ message: UnsafeRawBufferPointer) {
        guard let count = self.messages.read(message) else { return self.greeted.fulfill(())?.resume() ?? () }
        self.count += count
        if self.count == self.expectedCount { self.finished.fulfill(processTime())?.resume() }
    }

    private static func endOfHead(_ bytes: UnsafeRawBufferPointer) -> Int? {
        let end = Array("\r\n\r\n".utf8)
        return (0..<max(0, bytes.count - 3)).first { bytes[$0..<$0 + 4].elementsEqual(end) }.map { $0 + 4 }
    }

    func drained(_ stream: SocketStream) {}

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.greeted.fulfill(())?.resume()
        self.finished.fulfill(.nan)?.resume()
        stream.close()
    }
}
