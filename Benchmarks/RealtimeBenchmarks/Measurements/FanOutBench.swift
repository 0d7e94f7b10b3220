import CommandLineSupport
import Processes
import PusherChannels
import PusherServer
import PusherWire
import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// Measures sending to many subscribers: the processor time of the embedded server per delivery, beside another server with the same load.
struct FanOutBench<Messages: FanOut> {
    let fixture: BenchFixture
    let subscribers: Int
    let publications: Int

    /// - Parameters:
    ///   - fixture: The environment.
    ///   - deliveries: How many messages all subscribers together receive in a round.
    init(_ fixture: BenchFixture, deliveries: Int) {
        self.fixture = fixture
        self.subscribers = fixture.connections ?? 1_000
        self.publications = max(1, (fixture.messages ?? deliveries) / self.subscribers)
    }

    func callAsFunction() async throws(ToolFailure) {
        let limit = FileLimit.raise()
        guard limit > 2 * self.subscribers + 100 else {
            return self.fixture.printSkipped(Messages.embedded, "the limit of open files is \(limit)")
        }
        guard ProcessTree(getpid())?.time != nil else {
            return self.fixture.printSkipped(Messages.embedded, "this system doesn't report the processor time of other processes")
        }
        let embedded = try await FanOutServer<Messages>([ChildProcess.ownPath, "bench-load"] + Messages.embeddedOptions)
        var servers = [(name: Messages.embedded, server: embedded)]
        defer { for (_, server) in servers { server.end() } }
        let peer = Messages.peer
        if let peers = Console.environment("REALTIME_PEERS"), let server = try? await FanOutServer<Messages>([peers] + peer.arguments) {
            if server.tree.runs(peer.program) {
                servers.append((peer.name, server))
            } else {
                server.end()
                self.fixture.printSkipped(peer.name, "runs in a container, whose processor time cannot be measured here")
            }
        } else {
            let command = peer.arguments.joined(separator: " ")
            self.fixture.printSkipped(peer.name, "needs a command in REALTIME_PEERS that starts it with the arguments \(command)")
        }
        for (_, server) in servers { try await server.subscribe(self.subscribers) }
        let rounds = try await Rounds.run(
            servers.map { name, server in
                Candidate(name: name) { () throws(ToolFailure) in try await server.publish(self.publications) }
            }, rounds: 9)
        self.fixture.print(rounds, Messages.embedded, "ns CPU", beside: [(peer.name, 1)])
    }
}

/// Events of Pusher Channels, published over the HTTP API.
struct PusherFanOut: FanOut {
    static let embedded = "delivery, embedded server"
    static let embeddedOptions = ["--pusher"]
    static let peer = (
        name: "delivery, sockudo", program: "sockudo", arguments: ["sockudo", "--recovery", "false", "--delta", "false"]
    )
    static let app = PusherApp(id: "app1", key: "key1", secret: "secret1")
    static let channel = "prices"

    private let publisher: PusherPublisher

    init(port: Int) {
        self.publisher = PusherPublisher(
            appID: Self.app.id, key: Self.app.key, secret: Self.app.secret,
            endpoint: Endpoint(scheme: "http", host: "127.0.0.1", port: port))
    }

    func subscriber(_ deliveries: DeliveryCounter) -> any StreamEvents { FanOutSubscriber(deliveries) }

    func publish() async throws(ToolFailure) {
        do throws(PusherError) {
            try await self.publisher.publish(LoadMessage.event, to: Self.channel, data: LoadMessage.data)
        } catch {
            throw ToolFailure("An event could not be published: \(error)")
        }
    }

    func end() {}
}

/// A connection that subscribes to the channel, and counts the confirmation and the events.
private final class FanOutSubscriber: StreamEvents {
    private let deliveries: DeliveryCounter

    // `nonisolated(unsafe)`: only the loop's thread accesses these.
    nonisolated(unsafe) private var head = HTTPHeadEnd()
    nonisolated(unsafe) private var frames = FrameDecoder(role: .client, messageLimit: 1 << 20)
    nonisolated(unsafe) private var batch = MessageBatch()

    init(_ deliveries: DeliveryCounter) {
        self.deliveries = deliveries
    }

    func opened(_ stream: SocketStream) {
        let request = """
            GET /app/\(PusherFanOut.app.key)?protocol=7&client=bench&version=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n\
            Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n
            """
        stream.enqueue { $0 += request.utf8 }
        stream.flush()
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        guard let start = self.head.skip(bytes) else { return }
        _ = self.frames.decode(UnsafeRawBufferPointer(rebasing: bytes[start...]), into: &self.batch)
        var count = 0
        self.batch.bytes.withUnsafeBytes { bytes in
            for entry in self.batch.entries where entry.kind == .text {
                guard let frame = try? PusherFrame(scanning: UnsafeRawBufferPointer(rebasing: bytes[entry.range])) else { continue }
                switch frame.eventName {
                case EventName.connectionEstablished: self.subscribe(stream)
                case EventName.subscriptionSucceeded, LoadMessage.event: count += 1
                default: break
                }
            }
        }
        self.batch.removeAll()
        if count > 0 { self.deliveries.received(count) }
    }

    private func subscribe(_ stream: SocketStream) {
        let message = #"{"event":"pusher:subscribe","data":{"channel":"\#(PusherFanOut.channel)"}}"#
        stream.enqueue { FrameEncoder.append(.text, Array(message.utf8), mask: 0x0102_0304, to: &$0) }
        stream.flush()
    }

    func drained(_ stream: SocketStream) {}

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.deliveries.lost()
        stream.close()
    }
}

/// Finds the end of the head of an HTTP response.
private struct HTTPHeadEnd {
    private static let end = Array("\r\n\r\n".utf8)
    /// The number of bytes of the end that have been found.
    private var found = 0

    /// Returns the index of the first byte after the head, or `nil` if the head continues.
    mutating func skip(_ bytes: UnsafeRawBufferPointer) -> Int? {
        var index = 0
        while self.found < Self.end.count {
            guard index < bytes.count else { return nil }
            self.found = bytes[index] == Self.end[self.found] ? self.found + 1 : bytes[index] == Self.end[0] ? 1 : 0
            index += 1
        }
        return index
    }
}
