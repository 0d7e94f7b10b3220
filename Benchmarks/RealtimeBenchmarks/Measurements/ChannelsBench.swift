import CommandLineSupport
import PusherChannels
import RealtimeCore

/// Measures receiving events with many subscribed channels.
struct ChannelsBench {
    private static let counts = [1, 1_000, 10_000]

    let fixture: BenchFixture
    let messages: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.messages = fixture.messages ?? 100_000
    }

    func callAsFunction() async throws(ToolFailure) {
        var candidates: [Candidate] = []
        for count in Self.counts {
            candidates.append(Candidate(name: Self.name(count)) { () throws(ToolFailure) in try await self.run(count, spread: false) })
        }
        for count in Self.counts.dropFirst() {
            candidates.append(Candidate(name: Self.spreadName(count)) { () throws(ToolFailure) in try await self.run(count, spread: true) })
        }
        let rounds = try await Rounds.run(candidates, rounds: 7)
        let first = Self.name(Self.counts[0])
        for candidate in candidates {
            guard let value = rounds.median(candidate.name) else { continue }
            let result = BenchResult(candidate.name, value, "ns CPU")
            if candidate.name == first {
                self.fixture.print(result)
            } else {
                let isGoal = Self.counts.contains { Self.name($0) == candidate.name }
                self.fixture.print(result.compared(rounds.ratio(candidate.name, to: first), with: first, atMost: isGoal ? 1.1 : nil))
            }
        }
    }

    private static func name(_ count: Int) -> String { "event, \(count) channel\(count == 1 ? "" : "s")" }

    private static func spreadName(_ count: Int) -> String { "event, in turn on \(count) channels" }

    /// Receives events with a number of channels, and returns the processor time per event in nanoseconds.
    ///
    /// - Parameters:
    ///   - count: The number of channels.
    ///   - spread: Whether the events arrive on all channels round-robin, to one consumer. Otherwise they arrive on one channel, and each
    ///     channel has a consumer.
    private func run(_ count: Int, spread: Bool) async throws(ToolFailure) -> Double {
        let client = try await self.fixture.client()
        defer { client.disconnect() }
        var sequences: [EventSequence<PusherEvent>] = []
        var last: PusherChannel?
        let events: EventSequence<PusherEvent>
        do throws(PusherError) {
            for index in 0..<count {
                let channel = try client.subscribe(LoadMessage.channel(index))
                if !spread, index > 0 { sequences.append(channel.events(LoadMessage.event)) }
                last = channel
            }
            events =
                spread
                ? client.events(LoadMessage.event, buffer: .pauseReading(4096))
                : try client.subscribe(LoadMessage.channel(0)).events(LoadMessage.event, buffer: .pauseReading(4096))
            // Replies arrive in order, so all channels are subscribed when the last one is.
            try await last?.subscribed()
        } catch {
            throw ToolFailure("A client failed to subscribe to \(count) channels: \(error)")
        }
        var received = 0
        let start = processTime()
        self.fixture.burst(self.messages, channels: spread ? count : 1)
        for await event in events {
            received += event.data == nil ? 0 : 1
            if received == self.messages { break }
        }
        let end = processTime()
        guard received == self.messages else { throw .connectionLost }
        // A sequence that is released no longer consumes events.
        withExtendedLifetime(sequences) {}
        return (end - start) / Double(self.messages)
    }
}
