import CommandLineSupport
import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeSockets
import SignalRWire

/// Measures events with an acknowledgement, one at a time, beside calls of a SignalR server, and 64 messages in a row.
struct PrimusCallBench {
    private static let text = String(repeating: "x", count: 100)

    let fixture: BenchFixture
    let trips: Int
    let rounds = 9

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.trips = min(fixture.messages ?? 5_000, 100_000)
    }

    func callAsFunction() async throws(ToolFailure) {
        for (parser, format) in [(PrimusCoding.json, HubFormat.json), (.messagePack, .messagePack)] {
            try await self.runRoundTrips(parser, format)
        }
        try await self.runWrites()
    }

    private func client(_ parser: PrimusCoding, transports: Transports? = nil) async throws(ToolFailure) -> PrimusConnection {
        try await PrimusReceiveBench(self.fixture).client(parser, plugins: [.emitter], transports: transports)
    }

    private func runRoundTrips(_ parser: PrimusCoding, _ format: HubFormat) async throws(ToolFailure) {
        let (emitter, invoke) = ("\(parser.kind), round trip, emitter", "\(parser.kind), round trip, invoke of SignalR")
        let (latency, invokeLatency) = (LatencyRecorder(), LatencyRecorder())
        let calls = HubCallBench(self.fixture)
        let rounds = try await Rounds.run(
            [
                Candidate(name: emitter) { () throws(ToolFailure) in try await self.runEvents(parser, latency) },
                Candidate(name: invoke) { () throws(ToolFailure) in
                    try await calls.runInvoke(await self.fixture.hubClient(format), invokeLatency)
                },
            ], rounds: self.rounds)
        self.fixture.print(rounds, emitter, "us CPU", scale: 1000, beside: [(invoke, 1.1)])
        let (p50, invokeP50) = (latency.quantile(0.5), invokeLatency.quantile(0.5))
        self.fixture.print(BenchResult("\(emitter), p50", p50 / 1000, "us").compared(p50 / invokeP50, with: invoke))
    }

    private func runEvents(_ parser: PrimusCoding, _ latency: LatencyRecorder) async throws(ToolFailure) -> Double {
        let client = try await self.client(parser)
        defer { client.end() }
        let start = processTime()
        for _ in 0..<self.trips {
            let sent = wallTime()
            let result = try await self.echo(client)
            guard result.utf8.count == Self.text.utf8.count else { throw ToolFailure("An acknowledgement was wrong.") }
            latency.add(wallTime() - sent)
        }
        return (processTime() - start) / Double(self.trips)
    }

    private func echo(_ client: PrimusConnection) async throws(ToolFailure) -> String {
        do throws(PrimusError) {
            return try await client.emitter.send(LoadPrimus.Event.echo, Self.text, as: String.self)
        } catch {
            throw ToolFailure("An event failed: \(error)")
        }
    }

    // MARK: Messages in a row

    private func runWrites() async throws(ToolFailure) {
        let (one, many) = ("one", "many")
        let recorder = BurstRecorder()
        let size = SendBench.burstSize
        let rounds = try await Rounds.run(
            [
                Candidate(name: one) { () throws(ToolFailure) in try await self.runBursts(1, nil) },
                Candidate(name: many) { () throws(ToolFailure) in try await self.runBursts(size, recorder) },
            ], rounds: self.rounds)
        guard let ones = rounds.values[one], let manies = rounds.values[many] else { return }
        // Both include the event with its acknowledgement, so the difference does not.
        let each = Rounds.median(zip(ones, manies).map { ($1 - $0) / Double(size - 1) })
        self.fixture.print(BenchResult("json, write, each of 64 in a row", each, "ns CPU"))
        self.fixture.print(
            BenchResult("json, write, time in the caller, each of 64", recorder.median(recorder.caller) / Double(size), "ns wall"))
        self.fixture.print(BenchResult("json, writes to the socket for 64", recorder.median(recorder.writes), "writes").atMost(2))
        self.fixture.print(BenchResult("json, wake-ups of the loop for 64", recorder.median(recorder.wakeUps), "wake-ups").atMost(1))
    }

    /// Returns the processor time of one burst in nanoseconds, from the first message to the acknowledgement of the last.
    private func runBursts(_ count: Int, _ recorder: BurstRecorder?) async throws(ToolFailure) -> Double {
        let transport = CountingTransport()
        let client = try await self.client(.json, transports: transport.transports)
        defer { client.end() }
        let bursts = max(1, self.trips / 5)
        let start = processTime()
        for _ in 0..<bursts {
            let (writes, wakeUps, sent) = (transport.writes, EventLoop.shared.counters.wakeUps, wallTime())
            do throws(PrimusError) {
                for _ in 1..<count { try await client.write(SendBench.data) }
            } catch {
                throw ToolFailure("A client failed to send: \(error)")
            }
            let caller = wallTime() - sent
            _ = try await self.echo(client)
            recorder?.add(writes: transport.writes - writes, wakeUps: EventLoop.shared.counters.wakeUps - wakeUps, caller: caller)
        }
        return (processTime() - start) / Double(bursts)
    }
}
