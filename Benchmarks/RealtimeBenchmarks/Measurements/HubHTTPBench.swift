import CommandLineSupport
import RealtimeCore
import SignalRHubs
import SignalRWire

/// Measures receiving calls of a SignalR server over Server-Sent Events and long polling, beside WebSockets and Microsoft's TypeScript client
/// over the same transport, and calling its methods over long polling.
struct HubHTTPBench {
    private static let peer = MicrosoftPeer.typeScript

    let fixture: BenchFixture
    let rounds = 7

    func callAsFunction() async throws(ToolFailure) {
        if !Self.peer.isAvailable { self.fixture.printSkipped("comparison with Microsoft's client", MicrosoftPeer.missing) }
        try await self.runEvents()
        for (format, name) in [(HubFormat.json, "JSON"), (.messagePack, "MessagePack")] {
            try await self.runPolls(format, name)
            try await self.runInvocations(format, name)
        }
    }

    /// Returns the peer's session, with the name of its candidate.
    private func session(
        _ format: HubFormat, over transport: HubTransport
    ) throws(ToolFailure) -> MicrosoftSession? {
        Self.peer.isAvailable ? try Self.peer.connect(self.fixture.port, format, over: transport) : nil
    }

    private func runEvents() async throws(ToolFailure) {
        let bench = HubReceiveBench(self.fixture)
        let (socket, events, peer) = ("JSON, call", "JSON, call over Server-Sent Events", "\(Self.peer.name) over Server-Sent Events")
        var candidates = [
            Candidate(name: socket) { () throws(ToolFailure) in try await bench.runTyped(.json) },
            Candidate(name: events) { () throws(ToolFailure) in try await bench.runTyped(.json, over: .serverSentEvents) },
        ]
        if let session = try self.session(.json, over: .serverSentEvents) {
            candidates.append(Candidate(name: peer) { () throws(ToolFailure) in try session.receive(bench.messages, arguments: 6) })
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        self.fixture.print(rounds, events, "ns CPU", beside: [(socket, 1.25), (peer, 0.5)])
    }

    private func runPolls(_ format: HubFormat, _ name: String) async throws(ToolFailure) {
        let bench = HubReceiveBench(self.fixture, messages: 20_000)
        let (socket, asking) = ("\(name), call", "\(name), call of \(LoadHTTP.messagesPerPoll) at a time")
        let (polls, peer) = ("\(asking), long polling", "\(Self.peer.name) over long polling")
        var candidates = [
            Candidate(name: socket) { () throws(ToolFailure) in try await bench.runTyped(format) },
            Candidate(name: asking) { () throws(ToolFailure) in try await bench.runAsking(format) },
            Candidate(name: polls) { () throws(ToolFailure) in try await bench.runTyped(format, over: .longPolling) },
        ]
        if let session = try self.session(format, over: .longPolling) {
            candidates.append(Candidate(name: peer) { () throws(ToolFailure) in try session.receive(bench.messages, arguments: 6) })
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        self.fixture.print(rounds, polls, "ns CPU", beside: [(asking, 1.5), (peer, 0.5), (socket, nil)])
    }

    private func runInvocations(_ format: HubFormat, _ name: String) async throws(ToolFailure) {
        let bench = HubCallBench(self.fixture)
        let (invoke, peer) = ("\(name), round trip, long polling", "\(Self.peer.name) over long polling")
        let medians = WallTimes()
        var candidates = [
            Candidate(name: invoke) { () throws(ToolFailure) in
                let latency = LatencyRecorder()
                let time = try await bench.runInvoke(self.fixture.hubClient(format, over: .longPolling), latency)
                medians.add(latency.quantile(0.5), invoke)
                return time
            }
        ]
        if let session = try self.session(format, over: .longPolling) {
            candidates.append(
                Candidate(name: peer) { () throws(ToolFailure) in try session.roundTrips(bench.trips) { medians.add($0, peer) } })
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        self.fixture.print(rounds, invoke, "us CPU", scale: 1000, beside: [(peer, 0.6)])
        self.fixture.print(medians.rounds, invoke, "us, p50", scale: 1000, beside: [(peer, 1)])
    }
}
