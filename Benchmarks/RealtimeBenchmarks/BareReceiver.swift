import PusherWire
import RealtimeCore
import RealtimeSockets

/// The bare path: the minimum of work that receives events on the same sockets. It reads, decodes frames, scans for the three members of
/// an event, copies them and counts.
///
/// The cost of a client is reported as a multiple of the bare path.
final class BareReceiver: StreamEvents {
    private let expectedCount: Int
    private let greeted = Waiter<Void>()
    private let finished = Waiter<Double>()

    // `nonisolated(unsafe)`: only the loop's thread accesses these.
    nonisolated(unsafe) private var frames = FrameDecoder(role: .client, messageLimit: 1 << 20)
    nonisolated(unsafe) private var batch = MessageBatch()
    nonisolated(unsafe) private var isOpen = false
    nonisolated(unsafe) private var count = 0
    nonisolated(unsafe) private var characters = 0

    init(expectedCount: Int) {
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

    static let request = Array(
        """
        GET /app/bench HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n
        """.utf8)

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
            input = UnsafeRawBufferPointer(rebasing: input[end...])
        }
        _ = self.frames.decode(input, into: &self.batch)
        self.batch.bytes.withUnsafeBytes { bytes in
            for entry in self.batch.entries { self.receive(UnsafeRawBufferPointer(rebasing: bytes[entry.range])) }
        }
        self.batch.removeAll()
    }

    private func receive(_ text: UnsafeRawBufferPointer) {
        guard let frame = try? PusherFrame(scanning: text) else { return }
        let (event, channel, data) = (frame.eventName, frame.channelName, frame.dataText)
        guard event == LoadMessage.event else { return self.greeted.fulfill(())?.resume() ?? () }
        self.characters += (channel?.utf8.count ?? 0) + (data?.utf8.count ?? 0)
        self.count += 1
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
