internal import CommandLineSupport
internal import RealtimeSystem
internal import PusherChannels
internal import PusherWire
internal import RealtimeCore
internal import RealtimeSockets

/// Client events of 195 bytes, 64 in a row from one task, none of them awaited.
struct SendBench {
    static let inARow = 64
    static let one = "send, a burst of 1 with its answer"
    static let many = "send, a burst of 64 with its answer"

    struct Note: Encodable {
        var text: String
    }

    let bed: BenchFixture
    let bursts: Int

    init(_ bed: BenchFixture) {
        self.bed = bed
        self.bursts = max(1, min((bed.messages ?? 128_000) / Self.inARow, 100_000))
    }

    /// The data of an event whose message then has 195 bytes.
    static let data: Note = {
        let bare = PusherFrames.clientEvent(LoadMessage.more, channel: LoadMessage.privateChannel, data: Array(#"{"text":""}"#.utf8)).bytes
            .count
        return Note(text: String(repeating: "x", count: max(0, LoadMessage.size - bare)))
    }()

    /// The same as a masked frame, for who has no client.
    static func frame(_ name: String) -> [UInt8] {
        let text = PusherFrames.clientEvent(name, channel: LoadMessage.privateChannel, data: Array(#"{"text":"\#(Self.data.text)"}"#.utf8))
        var frame: [UInt8] = []
        FrameEncoder.append(.text, text.bytes, mask: 0x1234_5678, to: &frame)
        return frame
    }

    func callAsFunction() async throws(ToolFailure) {
        let tally = Tally()
        let contenders = [
            Candidate(name: Self.one) { () throws(ToolFailure) in try await self.run(1, nil) },
            Candidate(name: Self.many) { () throws(ToolFailure) in try await self.run(Self.inARow, tally) },
        ]
        let rounds = try await Rounds.run(contenders, rounds: 9)
        guard let one = rounds.values[Self.one], let many = rounds.values[Self.many] else { return }
        // What the answer and its wait cost is in both, and falls out.
        let each = Rounds.median(zip(one, many).map { ($1 - $0) / Double(Self.inARow - 1) })
        self.bed.say(BenchResult("send, each of 64 in a row", each, "ns CPU").atMost(250))
        self.bed.say(BenchResult("send, the caller's part of each", tally.median(tally.caller) / Double(Self.inARow), "ns wall"))
        self.bed.say(BenchResult("writes to the socket for 64", tally.median(tally.writes), "writes").atMost(2))
        self.bed.say(BenchResult("wake-ups of the loop for 64", tally.median(tally.wakeUps), "wake-ups").atMost(1))
    }

    /// What one burst costs, from the first send to the answer to the last.
    private func run(_ count: Int, _ tally: Tally?) async throws(ToolFailure) -> Double {
        let transport = CountingTransport()
        let client = try await self.bed.client(transports: transport.transports)
        defer { client.disconnect() }
        let channel = try await self.bed.channel(LoadMessage.privateChannel, of: client)
        let answers = channel.events(LoadMessage.event)
        let iterator = answers.makeAsyncIterator()
        let data = Self.data
        let start = processTime()
        for _ in 0..<self.bursts {
            let (writes, wakeUps, began) = (transport.writes, EventLoop.shared.counters.wakeUps, wallTime())
            do throws(PusherError) {
                for _ in 1..<count { try channel.trigger(LoadMessage.more, data) }
                try channel.trigger(LoadMessage.last, data)
            } catch {
                throw ToolFailure("A client could not send: \(error)")
            }
            let caller = wallTime() - began
            guard await iterator.next() != nil else { throw ToolFailure("A connection ended in the middle of a benchmark.") }
            tally?.add(writes: transport.writes - writes, wakeUps: EventLoop.shared.counters.wakeUps - wakeUps, caller: caller)
        }
        return (processTime() - start) / Double(self.bursts)
    }
}

/// What was counted for each burst. Used by one task at a time.
private final class Tally {
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

/// The library's sockets, with a look at the last connection that was made.
private final class CountingTransport: WebSocketTransport {
    private let sockets = SocketWebSocketTransport()
    private let last = Lock<(any WebSocketConnection)?>(nil)

    var transports: Transports {
        Transports(webSocket: self, http: InMemoryNetwork(time: EventLoop.shared).http, time: EventLoop.shared)
    }

    var writes: Int { self.last.withLock { $0 }.map { SocketWebSocketTransport.writes(of: $0) } ?? 0 }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        let connection = self.sockets.makeConnection(request, id: id, events: events)
        self.last.withLock { $0 = connection }
        return connection
    }
}
