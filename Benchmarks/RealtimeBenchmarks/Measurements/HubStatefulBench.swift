import CommandLineSupport
import SignalRHubs
import SignalRWire

/// Measures stateful reconnect, with the embedded server: what it costs while no socket is lost, and what a resume costs.
struct HubStatefulBench {
    /// How many messages are sent in a row: many, but less than fill the buffer.
    private static let burst = 64
    /// How many messages are sent in a row that together are larger than the buffer, and how many a resume repeats.
    private static let count = 1_000

    let fixture: BenchFixture
    let rounds = 9

    func callAsFunction() async throws(ToolFailure) {
        try await self.runUndisturbed()
        try await self.runResumes()
    }

    private func runUndisturbed() async throws(ToolFailure) {
        let server = try EmbeddedHub(storedByteLimit: HubMessageBuffer.defaultByteLimit)
        defer { server.end() }
        let (receiving, calling) = (HubReceiveBench(self.fixture), HubCallBench(self.fixture))
        let (receive, invoke) = ("call", "round trip")
        func send(_ count: Int) -> String { "send, each of \(count) in a row" }
        func stateful(_ name: String) -> String { "\(name), stateful reconnect" }
        var candidates: [Candidate] = []
        for settings in [nil, HubStatefulReconnect()] {
            func name(_ name: String) -> String { settings == nil ? name : stateful(name) }
            candidates += [
                Candidate(name: name(receive)) { () throws(ToolFailure) in try await receiving.runTyped(server.client(settings)) },
                Candidate(name: name(invoke)) { () throws(ToolFailure) in
                    try await calling.runInvoke(server.client(settings), LatencyRecorder())
                },
            ]
            candidates += [Self.burst, Self.count].map { count in
                Candidate(name: name(send(count))) { () throws(ToolFailure) in
                    let client = try await server.client(settings)
                    defer { client.stop() }
                    let repetitions = 20_000 / count
                    var time = 0.0
                    for _ in 0..<repetitions { time += try await self.send(count, client, calling) }
                    return time / Double(repetitions)
                }
            }
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        for name in [receive, invoke, send(Self.burst)] {
            self.fixture.print(rounds, stateful(name), "ns CPU", beside: [(name, 1.15)])
        }
        // Without a goal: the sender has to wait for acknowledgments.
        self.fixture.print(rounds, stateful(send(Self.count)), "ns CPU", beside: [(send(Self.count), nil)])
    }

    /// Sends messages and waits until the server has received them.
    ///
    /// - Returns: The processor time per message in nanoseconds.
    private func send(_ count: Int, _ client: HubClient, _ calling: HubCallBench) async throws(ToolFailure) -> Double {
        let start = processTime()
        try await calling.send(count, client)
        _ = try await calling.echo(client)
        return (processTime() - start) / Double(count)
    }

    private func runResumes() async throws(ToolFailure) {
        // Neither waits for an acknowledgment, nor acknowledges what is sent in less than a second.
        let settings = HubStatefulReconnect(bufferBytes: 8 << 20)
        let server = try EmbeddedHub(storedByteLimit: settings.bufferBytes)
        defer { server.end() }
        let calling = HubCallBench(self.fixture)
        let (send, resume) = ("send, each of \(Self.count)", "resume, each of \(Self.count) messages")
        let rounds = try await Rounds.run(
            [
                Candidate(name: send) { () throws(ToolFailure) in
                    let client = try await server.client(settings)
                    defer { client.stop() }
                    return try await self.send(Self.count, client, calling)
                },
                Candidate(name: resume) { () throws(ToolFailure) in
                    let client = try await server.client(settings)
                    defer { client.stop() }
                    _ = try await self.send(Self.count, client, calling)
                    let (connection, start) = (client.connectionID, processTime())
                    do throws(HubError) {
                        try await client.invoke(BenchHub.cut)
                    } catch {
                        throw ToolFailure("A connection wasn't resumed: \(error)")
                    }
                    let end = processTime()
                    guard client.connectionID == connection else { throw ToolFailure("A connection wasn't resumed.") }
                    return (end - start) / Double(Self.count)
                },
            ], rounds: 25)
        self.fixture.print(rounds, resume, "ns CPU", beside: [(send, 2)])
    }
}
