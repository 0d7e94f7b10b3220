import CommandLineSupport
import Processes
import PusherChannels
import PusherServer
import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeSystem

/// Measures publishing to many subscribers: the processor time of the embedded server per delivery, beside sockudo with the same load.
struct FanOutBench {
    private static let embedded = "delivery, embedded server"
    private static let sockudo = "delivery, sockudo"

    let fixture: BenchFixture
    let subscribers: Int
    let publications: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.subscribers = fixture.connections ?? 1_000
        self.publications = max(1, (fixture.messages ?? 200_000) / self.subscribers)
    }

    func callAsFunction() async throws(ToolFailure) {
        let limit = FileLimit.raise()
        guard limit > 2 * self.subscribers + 100 else {
            return self.fixture.printSkipped(Self.embedded, "the limit of open files is \(limit)")
        }
        guard ProcessTree(getpid())?.time != nil else {
            return self.fixture.printSkipped(Self.embedded, "this system doesn't report the processor time of other processes")
        }
        var servers = [(name: Self.embedded, server: try FanOutServer([ChildProcess.ownPath, "bench-load", "--pusher"]))]
        defer { for (_, server) in servers { server.end() } }
        if let peers = Console.environment("REALTIME_PEERS"),
            let server = try? FanOutServer([peers, "sockudo", "--recovery", "false", "--delta", "false"])
        {
            if server.tree.runs("sockudo") {
                servers.append((Self.sockudo, server))
            } else {
                server.end()
                self.fixture.printSkipped(Self.sockudo, "runs in a container, whose processor time cannot be measured here")
            }
        } else {
            self.fixture.printSkipped(Self.sockudo, "needs a command in REALTIME_PEERS that starts it, with --recovery and --delta")
        }
        for (_, server) in servers { try await server.subscribe(self.subscribers) }
        let rounds = try await Rounds.run(
            servers.map { name, server in
                Candidate(name: name) { () throws(ToolFailure) in try await server.publish(self.publications) }
            }, rounds: 9)
        for (name, _) in servers.reversed() {
            guard let value = rounds.median(name) else { continue }
            let result = BenchResult(name, value, "ns CPU")
            let isComparable = name == Self.embedded && servers.count > 1
            self.fixture.print(
                isComparable ? result.compared(rounds.ratio(name, to: Self.sockudo), with: Self.sockudo, atMost: 1) : result)
        }
    }
}

/// A Pusher server in a process of its own, and its subscribers in this process.
final class FanOutServer: Sendable {
    static let app = PusherApp(id: "app1", key: "key1", secret: "secret1")
    static let channel = "prices"

    /// The processes of the server.
    let tree: ProcessTree
    private let process: ChildProcess
    private let port: Int
    private let publisher: PusherPublisher
    private let deliveries = DeliveryCounter()
    private let streams = Lock<[SocketStream]>([])

    /// Starts a server.
    ///
    /// - Parameter command: A command that prints `ready PORT`, or an object of JSON with `port`, and exits at the end of its input.
    init(_ command: [String]) throws(ToolFailure) {
        self.process = try ChildProcess.start(command)
        let line = self.process.readLine() ?? ""
        guard let port = (try? JSONValue(parsing: line))?["port"]?.int ?? Int(line.dropFirst("ready ".count)),
            let tree = ProcessTree(self.process.id)
        else {
            self.process.end()
            throw ToolFailure("\(command[0]) did not start.")
        }
        (self.port, self.tree) = (port, tree)
        self.publisher = PusherPublisher(
            appID: Self.app.id, key: Self.app.key, secret: Self.app.secret,
            endpoint: Endpoint(scheme: "http", host: "127.0.0.1", port: port))
    }

    func end() {
        for stream in self.streams.withLock({ $0 }) { stream.close() }
        self.process.end()
    }

    /// Subscribes connections to the channel.
    func subscribe(_ count: Int) async throws(ToolFailure) {
        for _ in 0..<count {
            // One at a time: the backlog of a server's socket is limited.
            let subscribed = self.deliveries.expect(1)
            let stream = SocketStream(events: FanOutSubscriber(self.deliveries))
            self.streams.withLock { $0.append(stream) }
            stream.connect(to: "127.0.0.1", port: self.port)
            guard await subscribed.value() else { throw .connectionLost }
        }
    }

    /// Publishes events one after another, each when all subscribers have received the last one.
    ///
    /// - Returns: The processor time of the server per delivery, in nanoseconds.
    func publish(_ publications: Int) async throws(ToolFailure) -> Double {
        let count = self.streams.withLock { $0.count }
        let start = self.tree.time
        for _ in 0..<publications {
            let delivered = self.deliveries.expect(count)
            do throws(PusherError) {
                try await self.publisher.publish(LoadMessage.event, to: Self.channel, data: LoadMessage.data)
            } catch {
                throw ToolFailure("An event could not be published: \(error)")
            }
            guard await delivered.value() else { throw .connectionLost }
        }
        guard let start, let end = self.tree.time else { throw ToolFailure("A server has ended.") }
        return (end - start) / Double(publications * count)
    }
}

/// Counts what the subscribers of a server receive.
final class DeliveryCounter: Sendable {
    private struct State: Sendable {
        var missing = 0
        var finished = Waiter<Bool>()
    }

    private let state = Lock(State())

    /// Returns a waiter that receives `true` after a number of messages, and `false` when a connection is lost before.
    func expect(_ count: Int) -> Waiter<Bool> {
        self.state.withLock { state in
            state = State(missing: count)
            return state.finished
        }
    }

    func received(_ count: Int) {
        let finished = self.state.withLock { state -> Waiter<Bool>? in
            state.missing -= count
            return state.missing == 0 ? state.finished : nil
        }
        finished?.fulfill(true)?.resume()
    }

    func lost() { self.state.withLock { $0.finished }.fulfill(false)?.resume() }
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
            GET /app/\(FanOutServer.app.key)?protocol=7&client=bench&version=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n\
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
        let message = #"{"event":"pusher:subscribe","data":{"channel":"\#(FanOutServer.channel)"}}"#
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
