import CommandLineSupport
import PusherChannels
import RealtimeCore

/// Measures receiving the members who leave a presence channel and join it, with few and with many members.
struct PresenceBench {
    private static let counts = [10, 10_000]

    let fixture: BenchFixture
    /// An even number: each member leaves and joins again.
    let messages: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.messages = max(2, (fixture.messages ?? 50_000) / 2 * 2)
    }

    func callAsFunction() async throws(ToolFailure) {
        let (few, many) = (Self.counts[0], Self.counts[1])
        let names = ["member change, \(few) members", "member change, \(many) members", "member change, in turn of \(many) members"]
        let rounds = try await Rounds.run(
            [
                Candidate(name: names[0]) { () throws(ToolFailure) in try await self.run(few, changing: few) },
                Candidate(name: names[1]) { () throws(ToolFailure) in try await self.run(many, changing: few) },
                Candidate(name: names[2]) { () throws(ToolFailure) in try await self.run(many, changing: many) },
            ], rounds: 7)
        for (index, name) in names.enumerated() {
            guard let value = rounds.median(name) else { continue }
            let result = BenchResult(name, value, "ns CPU")
            self.fixture.print(
                index == 0 ? result : result.compared(rounds.ratio(name, to: names[0]), with: names[0], atMost: index == 1 ? 1.1 : nil))
        }
    }

    /// Receives changes of members, and returns the processor time per change in nanoseconds.
    ///
    /// - Parameters:
    ///   - count: The number of members.
    ///   - changing: The number of members who leave and join again, round-robin.
    private func run(_ count: Int, changing: Int) async throws(ToolFailure) -> Double {
        let client = try await self.fixture.client()
        defer { client.disconnect() }
        let channel = try await self.fixture.channel(LoadMessage.presenceChannel(members: count), of: client)
        guard channel.members.count == count else { throw ToolFailure("The presence channel has the wrong members.") }
        let updates = client.updates(buffer: .pauseReading(4096))
        var received = 0
        let start = processTime()
        self.fixture.burst(self.messages, .members(count, changing: changing))
        for await update in updates {
            if case .members = update { received += 1 }
            if received == self.messages { break }
        }
        let end = processTime()
        guard received == self.messages else { throw .connectionLost }
        return (end - start) / Double(self.messages)
    }
}
