import CommandLineSupport
import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeSystem

/// Measures the polling of engine.io, its move to a WebSocket, and the streams of SockJS, beside WebSockets and Primus's client for JavaScript.
struct PrimusHTTPBench {
    private static let peer = "JavaScript client over polling"
    private static let text = String(repeating: "x", count: 100)

    let fixture: BenchFixture
    let rounds = 7

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
    }

    func callAsFunction() async throws(ToolFailure) {
        try await self.runPolls()
        try await self.runAfterMove()
        try await self.runStreams()
        let peer = NodePeer.findPrimus()
        if peer == nil { self.fixture.printSkipped("writes of the JavaScript client", PrimusPeer.missing) }
        for size in [1, SendBench.burstSize] where !Task.isCancelled { try await self.runWrites(size, peer) }
    }

    private func client(_ bench: PrimusReceiveBench, isMoved: Bool = false) async throws(ToolFailure) -> PrimusConnection {
        try await bench.client(.json, over: .engineIO) { configuration in
            configuration.startsWithPolling = true
            configuration.allowedTransports = isMoved ? .all : .polling
        }
    }

    // MARK: Receiving

    private func runPolls() async throws(ToolFailure) {
        let bench = PrimusReceiveBench(self.fixture, messages: 20_000)
        let count = LoadHTTP.messagesPerPoll
        let (socket, asking) = ("json, engine.io, message, decoded", "json, engine.io, \(count) at a time, decoded")
        let polls = "\(asking), polling"
        var candidates = [
            Candidate(name: socket) { () throws(ToolFailure) in
                try await bench.runDecoded(bench.client(.json, over: .engineIO))
            },
            Candidate(name: asking) { () throws(ToolFailure) in
                try await bench.runDecoded(bench.client(.json, over: .engineIO), askingFor: count)
            },
            Candidate(name: polls) { () throws(ToolFailure) in try await bench.runDecoded(self.client(bench)) },
        ]
        if let peer = try PrimusPeer(self.fixture.port, .json, over: .engineIO, usesWebSockets: false) {
            candidates.append(Candidate(name: Self.peer) { () throws(ToolFailure) in try peer.receive(bench.messages) })
        } else {
            self.fixture.printSkipped("comparison with Primus's client over polling", PrimusPeer.missing)
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        self.fixture.print(rounds, polls, "ns CPU", beside: [(asking, 1.5), (Self.peer, 0.5), (socket, nil)])
    }

    private func runAfterMove() async throws(ToolFailure) {
        let bench = PrimusReceiveBench(self.fixture)
        let (socket, moved) = ("json, engine.io, message", "json, engine.io, message after the move from polling")
        let rounds = try await Rounds.run(
            [
                Candidate(name: socket) { () throws(ToolFailure) in
                    try await bench.runRaw(bench.client(.json, over: .engineIO))
                },
                Candidate(name: moved) { () throws(ToolFailure) in try await bench.runRaw(self.client(bench, isMoved: true)) },
            ], rounds: 9)
        self.fixture.print(rounds, moved, "ns CPU", beside: [(socket, 1.05)])
    }

    private func runStreams() async throws(ToolFailure) {
        let bench = PrimusReceiveBench(self.fixture)
        let (socket, stream) = ("json, framed sockjs", "json, sockjs over xhr-streaming")
        let suffixes = ["message", "message, decoded"]
        var candidates: [Candidate] = []
        for (name, kind) in [(socket, PrimusConnectionKind.framedWebSocket), (stream, .streaming)] {
            candidates += [
                Candidate(name: "\(name), \(suffixes[0])") { () throws(ToolFailure) in
                    try await bench.runRaw(bench.client(.json, over: .sockjs) { $0.connectionKinds = [kind] })
                },
                Candidate(name: "\(name), \(suffixes[1])") { () throws(ToolFailure) in
                    try await bench.runDecoded(bench.client(.json, over: .sockjs) { $0.connectionKinds = [kind] })
                },
            ]
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        for suffix in suffixes {
            self.fixture.print(rounds, "\(stream), \(suffix)", "ns CPU", beside: [("\(socket), \(suffix)", 1.25)])
        }
    }

    // MARK: Writing

    /// Writes bursts of messages, each of which ends with one that is answered.
    private func runWrites(_ size: Int, _ peer: NodePeer?) async throws(ToolFailure) {
        let name = size == 1 ? "json, polling, message with its answer" : "json, polling, \(size) messages in a row with an answer"
        let (writes, theirs) = (name, Self.peer)
        let bursts = max(1, min(self.fixture.messages ?? 2_000, 20_000))
        let requests = WallTimes()
        var candidates = [
            Candidate(name: writes) { () throws(ToolFailure) in
                let result = try await self.write(bursts, size)
                requests.add(Self.rounded(result.requests), writes)
                return result.nanoseconds
            }
        ]
        if let peer {
            candidates.append(
                Candidate(name: theirs) { () throws(ToolFailure) in
                    let result = try peer.writes(port: self.fixture.port, bursts: bursts, size: size, Self.text)
                    requests.add(Self.rounded(result.requests), theirs)
                    return result.nanoseconds
                })
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        self.fixture.print(rounds, writes, "us CPU", scale: 1000, beside: [(theirs, 1)])
        self.fixture.print(requests.rounds, writes, "requests", beside: [(theirs, 1)])
    }

    /// Rounds a number of requests to hundredths: among thousands of bursts, a few differ because a thread was interrupted.
    private static func rounded(_ requests: Double) -> Double { (requests * 100).rounded() / 100 }

    /// Returns the processor time and the number of requests of a burst.
    private func write(_ bursts: Int, _ size: Int) async throws(ToolFailure) -> (nanoseconds: Double, requests: Double) {
        let client = try await self.client(PrimusReceiveBench(self.fixture))
        defer { client.end() }
        let answers = client.messages.makeAsyncIterator()
        func ask(_ value: PrimusValue) async throws(ToolFailure) -> PrimusValue {
            do throws(PrimusError) {
                try await client.write(value)
                guard let answer = await answers.next() else { throw PrimusError(.connectionLost, "") }
                return try answer.value
            } catch {
                throw ToolFailure("A client failed to write over polling: \(error)")
            }
        }
        func burst() async throws(ToolFailure) {
            for _ in 1..<size { client.enqueue(Self.text) }
            _ = try await ask(LoadPrimus.burst(1))
        }
        func requests() async throws(ToolFailure) -> Int { try await ask(LoadPrimus.askForRequests)[LoadPrimus.requests]?.int ?? 0 }
        for _ in 0..<20 { try await burst() }
        let (before, start) = (try await requests(), processTime())
        for _ in 0..<bursts { try await burst() }
        let end = processTime()
        let count = try await requests() - before
        return ((end - start) / Double(bursts), Double(count) / Double(bursts))
    }
}
