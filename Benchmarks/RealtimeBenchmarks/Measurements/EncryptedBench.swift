import CommandLineSupport
import PusherChannels
import RealtimeCore

/// Measures receiving encrypted events: with many subscribed channels, and with data of different sizes.
struct EncryptedBench {
    private static let counts = [1, 100, 1_000]
    private static let sizes = [1_000, 10_000, 100_000]
    /// The size of the data with many channels, in bytes.
    private static let size = 100

    let fixture: BenchFixture
    let messages: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.messages = fixture.messages ?? 20_000
    }

    func callAsFunction() async throws(ToolFailure) {
        try await self.compareChannels()
        try await self.compareSizes()
    }

    private func compareChannels() async throws(ToolFailure) {
        var candidates: [Candidate] = []
        for count in Self.counts {
            candidates.append(
                Candidate(name: Self.name(count)) { () throws(ToolFailure) in
                    try await self.run(self.messages, subscribed: count, used: 1, size: Self.size)
                })
        }
        for count in Self.counts.dropFirst() {
            candidates.append(
                Candidate(name: Self.spreadName(count)) { () throws(ToolFailure) in
                    try await self.run(self.messages, subscribed: count, used: count, size: Self.size)
                })
        }
        let rounds = try await Rounds.run(candidates, rounds: 7)
        self.print(candidates, rounds, "ns CPU")
    }

    private func compareSizes() async throws(ToolFailure) {
        let candidates = Self.sizes.map { size in
            // The same number of bytes each.
            let messages = max(1, self.messages * Self.sizes[0] / size)
            return Candidate(name: "encrypted, byte of \(size)") { () throws(ToolFailure) in
                try await self.run(messages, subscribed: 1, used: 1, size: size) / Double(size)
            }
        }
        let rounds = try await Rounds.run(candidates, rounds: 7)
        self.print(candidates, rounds, "ns CPU")
    }

    /// Prints each candidate beside the first, with the goal for all but those that use many channels in turn.
    private func print(_ candidates: [Candidate], _ rounds: Rounds, _ unit: String) {
        let first = candidates[0].name
        for candidate in candidates {
            guard let value = rounds.median(candidate.name) else { continue }
            let result = BenchResult(candidate.name, value, unit)
            if candidate.name == first {
                self.fixture.print(result)
            } else {
                let isSpread = Self.counts.contains { Self.spreadName($0) == candidate.name }
                self.fixture.print(result.compared(rounds.ratio(candidate.name, to: first), with: first, atMost: isSpread ? nil : 1.1))
            }
        }
    }

    private static func name(_ count: Int) -> String { "encrypted event, \(count) channel\(count == 1 ? "" : "s")" }

    private static func spreadName(_ count: Int) -> String { "encrypted event, in turn on \(count) channels" }

    /// Receives encrypted events, and returns the processor time per event in nanoseconds.
    ///
    /// - Parameters:
    ///   - messages: The number of events.
    ///   - subscribed: The number of channels.
    ///   - used: The number of channels on which events arrive, round-robin.
    ///   - size: The size of the data before it is encrypted, in bytes.
    private func run(_ messages: Int, subscribed: Int, used: Int, size: Int) async throws(ToolFailure) -> Double {
        let client = try await self.fixture.client()
        defer { client.disconnect() }
        do throws(PusherError) {
            var channels: [PusherChannel] = []
            for index in 0..<subscribed { channels.append(try client.subscribe(LoadMessage.encryptedChannel(index))) }
            for channel in channels { try await channel.subscribed() }
        } catch {
            throw ToolFailure("A client failed to subscribe to \(subscribed) encrypted channels: \(error)")
        }
        let events = client.events(LoadMessage.event, buffer: .pauseReading(4096))
        var received = 0
        let start = processTime()
        self.fixture.burst(messages, .encrypted(channels: used, size: size))
        for await event in events {
            guard event.data?.utf8.count == size else { throw ToolFailure("An event wasn't decrypted.") }
            received += 1
            if received == messages { break }
        }
        let end = processTime()
        guard received == messages else { throw .connectionLost }
        return (end - start) / Double(messages)
    }
}
