import CommandLineSupport
import PusherChannels
import PusherWire
import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// Measures sending 64 client events of 195 bytes in a row, from one task without suspending.
struct SendBench {
    static let burstSize = 64
    private static let one = "send, a burst of 1 with its reply"
    private static let many = "send, a burst of 64 with its reply"

    struct Note: Encodable, Sendable {
        var text: String
    }

    let fixture: BenchFixture
    let bursts: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.bursts = max(1, min((fixture.messages ?? 128_000) / Self.burstSize, 100_000))
    }

    /// The data that makes a client event 195 bytes long.
    static let data: Note = {
        let bare = PusherFrames.clientEvent(LoadMessage.more, channel: LoadMessage.privateChannel, data: Array(#"{"text":""}"#.utf8)).bytes
            .count
        return Note(text: String(repeating: "x", count: max(0, LoadMessage.size - bare)))
    }()

    /// Returns a client event with this data as a masked frame.
    static func frame(_ name: String) -> [UInt8] {
        let text = PusherFrames.clientEvent(name, channel: LoadMessage.privateChannel, data: Array(#"{"text":"\#(Self.data.text)"}"#.utf8))
        var frame: [UInt8] = []
        FrameEncoder.append(.text, text.bytes, mask: 0x1234_5678, to: &frame)
        return frame
    }

    func callAsFunction() async throws(ToolFailure) {
        let recorder = BurstRecorder()
        let candidates = [
            Candidate(name: Self.one) { () throws(ToolFailure) in try await self.run(1, nil) },
            Candidate(name: Self.many) { () throws(ToolFailure) in try await self.run(Self.burstSize, recorder) },
        ]
        let rounds = try await Rounds.run(candidates, rounds: 9)
        guard let one = rounds.values[Self.one], let many = rounds.values[Self.many] else { return }
        // Both include the reply and the wait for it, so the difference does not.
        let each = Rounds.median(zip(one, many).map { ($1 - $0) / Double(Self.burstSize - 1) })
        self.fixture.print(BenchResult("send, each of 64 in a row", each, "ns CPU").atMost(250))
        self.fixture.print(
            BenchResult("send, time in the caller, each of 64", recorder.median(recorder.caller) / Double(Self.burstSize), "ns wall"))
        self.fixture.print(BenchResult("writes to the socket for 64", recorder.median(recorder.writes), "writes").atMost(2))
        self.fixture.print(BenchResult("wake-ups of the loop for 64", recorder.median(recorder.wakeUps), "wake-ups").atMost(1))
    }

    /// Returns the processor time of one burst in nanoseconds, from the first send to the reply to the last.
    private func run(_ count: Int, _ recorder: BurstRecorder?) async throws(ToolFailure) -> Double {
        let transport = CountingTransport()
        let client = try await self.fixture.client(transports: transport.transports)
        defer { client.disconnect() }
        let channel = try await self.fixture.channel(LoadMessage.privateChannel, of: client)
        let replies = channel.events(LoadMessage.event)
        let iterator = replies.makeAsyncIterator()
        let data = Self.data
        let start = processTime()
        for _ in 0..<self.bursts {
            let (writes, wakeUps, sent) = (transport.writes, EventLoop.shared.counters.wakeUps, wallTime())
            do throws(PusherError) {
                for _ in 1..<count { try channel.trigger(LoadMessage.more, data) }
                try channel.trigger(LoadMessage.last, data)
            } catch {
                throw ToolFailure("A client failed to send: \(error)")
            }
            let caller = wallTime() - sent
            guard await iterator.next() != nil else { throw .connectionLost }
            recorder?.add(writes: transport.writes - writes, wakeUps: EventLoop.shared.counters.wakeUps - wakeUps, caller: caller)
        }
        return (processTime() - start) / Double(self.bursts)
    }
}

/// The counts and times of all bursts. Used by one task at a time.
final class BurstRecorder {
    private(set) var writes: [Double] = []
    private(set) var wakeUps: [Double] = []
    private(set) var caller: [Double] = []

    func add(writes: Int, wakeUps: Int, caller: Double) {
        self.writes.append(Double(writes))
        self.wakeUps.append(Double(wakeUps))
        self.caller.append(caller)
    }

    func median(_ values: [Double]) -> Double { Rounds.median(values) }
}

/// A socket transport that keeps its last connection, to count that connection's writes.
final class CountingTransport: WebSocketTransport {
    private let sockets = SocketWebSocketTransport()
    private let last = Lock<(any MessageConnection)?>(nil)

    var transports: Transports {
        Transports(webSocket: self, http: InMemoryNetwork(time: EventLoop.shared).http, time: EventLoop.shared)
    }

    var writes: Int { self.last.withLock { $0 }.map { SocketWebSocketTransport.writes(of: $0) } ?? 0 }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        let connection = self.sockets.makeConnection(request, id: id, events: events)
        self.last.withLock { $0 = connection }
        return connection
    }
}
