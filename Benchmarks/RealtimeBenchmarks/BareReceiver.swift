internal import CommandLineSupport
internal import PusherWire
internal import RealtimeCore
internal import RealtimeSockets

/// The least that can be done on the same engine: read, split into frames, find the three members, copy them out, count.
///
/// What a client costs is told as a multiple of this.
final class BareReceiver: StreamEvents {
    private let wanted: Int
    private let readied = Waiter<Void>()
    private let done = Waiter<Double>()

    // `nonisolated(unsafe)`: these belong to the loop's thread.
    nonisolated(unsafe) private var frames = FrameDecoder(role: .client, messageLimit: 1 << 20)
    nonisolated(unsafe) private var batch = MessageBatch()
    nonisolated(unsafe) private var isOpen = false
    nonisolated(unsafe) private var count = 0
    nonisolated(unsafe) private var characters = 0

    init(_ wanted: Int) {
        self.wanted = wanted
    }

    func connect(_ port: Int) -> SocketStream {
        let stream = SocketStream(events: self)
        stream.connect(to: "127.0.0.1", port: port)
        return stream
    }

    func ready() async { await self.readied.value {} }

    /// The process's time when the last message had been counted.
    func finished() async -> Double { await self.done.value {} }

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
            // The answer comes in one piece: this is our own server on this machine.
            guard let end = Self.endOfHead(input) else { return }
            self.isOpen = true
            input = UnsafeRawBufferPointer(rebasing: input[end...])
        }
        _ = self.frames.decode(input, into: &self.batch)
        self.batch.bytes.withUnsafeBytes { bytes in
            for entry in self.batch.entries { self.take(UnsafeRawBufferPointer(rebasing: bytes[entry.range])) }
        }
        self.batch.removeAll()
    }

    private func take(_ text: UnsafeRawBufferPointer) {
        guard let frame = try? PusherFrame(scanning: text) else { return }
        let (event, channel, data) = (frame.eventName, frame.channelName, frame.dataText)
        guard event == LoadMessage.event else { return self.readied.fulfill(())?.resume() ?? () }
        self.characters += (channel?.utf8.count ?? 0) + (data?.utf8.count ?? 0)
        self.count += 1
        if self.count == self.wanted { self.done.fulfill(processTime())?.resume() }
    }

    private static func endOfHead(_ bytes: UnsafeRawBufferPointer) -> Int? {
        let end = Array("\r\n\r\n".utf8)
        return (0..<max(0, bytes.count - 3)).first { bytes[$0..<$0 + 4].elementsEqual(end) }.map { $0 + 4 }
    }

    func drained(_ stream: SocketStream) {}

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.readied.fulfill(())?.resume()
        self.done.fulfill(.nan)?.resume()
        stream.close()
    }
}
