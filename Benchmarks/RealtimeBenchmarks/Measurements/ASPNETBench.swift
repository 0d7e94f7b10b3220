import CommandLineSupport
import Processes
import RealtimeCoding
import SignalRHubs
import SignalRWire

/// Measures the client with a server of ASP.NET Core, beside Microsoft's clients with the same server and the same messages.
struct ASPNETBench {
    private static let name = "comparison with ASP.NET Core"
    private static let text = String(repeating: "x", count: 100)

    let fixture: BenchFixture
    let messages: Int
    let rounds = 7

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.messages = fixture.messages ?? 20_000
    }

    func callAsFunction() async throws(ToolFailure) {
        let peers = [MicrosoftPeer.typeScript, .dotNet].filter { $0.isAvailable }
        guard !peers.isEmpty, let command = Console.environment("REALTIME_PEERS") else {
            return self.fixture.printSkipped(Self.name, MicrosoftPeer.missing)
        }
        let server = try ChildProcess.start([command, "aspnet"])
        defer { server.end() }
        guard let line = server.readLine(), let port = (try? JSONValue(parsing: line))?["port"]?.int else {
            return self.fixture.printSkipped(Self.name, "REALTIME_PEERS starts no ASP.NET Core")
        }
        for (format, name) in [(HubFormat.json, "JSON"), (.messagePack, "MessagePack")] {
            let (receive, call) = ("\(name), ASP.NET Core, call with 2 arguments", "\(name), ASP.NET Core, round trip")
            var receivers = [Candidate(name: receive) { () throws(ToolFailure) in try await self.receive(port, format) }]
            var callers = [Candidate(name: call) { () throws(ToolFailure) in try await self.roundTrips(port, format) }]
            for peer in peers {
                let session = try peer.connect(port, format, target: "/test")
                receivers.append(
                    Candidate(name: "\(receive), \(peer.name)") { () throws(ToolFailure) in
                        try session.receive(
                            self.messages, from: "Burst", #""\#(LoadHub.Method.price)",\#(self.messages),"\#(Self.text)""#)
                    })
                callers.append(
                    Candidate(name: "\(call), \(peer.name)") { () throws(ToolFailure) in
                        try session.roundTrips(self.trips, "EchoText")
                    })
            }
            try await self.run(receivers, "ns CPU", scale: 1)
            try await self.run(callers, "us CPU", scale: 1000)
        }
    }

    private var trips: Int { max(1, self.messages / 10) }

    /// Prints each candidate beside the first.
    private func run(_ candidates: [Candidate], _ unit: String, scale: Double) async throws(ToolFailure) {
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        let ours = candidates[0].name
        for candidate in candidates {
            guard let value = rounds.median(candidate.name) else { continue }
            let result = BenchResult(candidate.name, value / scale, unit)
            self.fixture.print(candidate.name == ours ? result : result.compared(rounds.ratio(candidate.name, to: ours), with: ours))
        }
    }

    private func receive(_ port: Int, _ format: HubFormat) async throws(ToolFailure) -> Double {
        let client = try await BenchFixture.hubClient("ws://127.0.0.1:\(port)/test", format)
        defer { client.stop() }
        let counter = CallCounter(self.messages)
        client.on(LoadHub.Method.price) { (number: Int, text: String) in counter.add(number + text.utf8.count) }
        let start = processTime()
        do throws(HubError) {
            try await client.send("Burst", LoadHub.Method.price, self.messages, Self.text)
        } catch {
            throw ToolFailure("A client failed to send: \(error)")
        }
        let end = await counter.finished.value()
        return (end - start) / Double(self.messages)
    }

    private func roundTrips(_ port: Int, _ format: HubFormat) async throws(ToolFailure) -> Double {
        let client = try await BenchFixture.hubClient("ws://127.0.0.1:\(port)/test", format)
        defer { client.stop() }
        let start = processTime()
        do throws(HubError) {
            for _ in 0..<self.trips { _ = try await client.invoke("EchoText", Self.text, as: String.self) }
        } catch {
            throw ToolFailure("A call failed: \(error)")
        }
        return (processTime() - start) / Double(self.trips)
    }
}
