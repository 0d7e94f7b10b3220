internal import CommandLineSupport
internal import PusherChannels
internal import RealtimeCore

/// What an event costs when there are many channels.
struct ChannelsBench {
    private static let counts = [1, 1_000, 10_000]

    let bed: BenchFixture
    let messages: Int

    init(_ bed: BenchFixture) {
        self.bed = bed
        self.messages = bed.messages ?? 100_000
    }

    func callAsFunction() async throws(ToolFailure) {
        var contenders: [Candidate] = []
        for count in Self.counts {
            contenders.append(Candidate(name: Self.name(count)) { () throws(ToolFailure) in try await self.run(count, spread: false) })
        }
        for count in Self.counts.dropFirst() {
            contenders.append(Candidate(name: Self.spreadName(count)) { () throws(ToolFailure) in try await self.run(count, spread: true) })
        }
        let rounds = try await Rounds.run(contenders, rounds: 7)
        let first = Self.name(Self.counts[0])
        for contender in contenders {
            guard let value = rounds.median(contender.name) else { continue }
            let result = BenchResult(contender.name, value, "ns CPU")
            if contender.name == first {
                self.bed.say(result)
            } else {
                let isGoal = Self.counts.contains { Self.name($0) == contender.name }
                self.bed.say(result.compared(rounds.ratio(contender.name, to: first), with: first, atMost: isGoal ? 1.1 : nil))
            }
        }
    }

    private static func name(_ count: Int) -> String { "event, \(count) channel\(count == 1 ? "" : "s")" }

    private static func spreadName(_ count: Int) -> String { "event, in turn on \(count) channels" }

    /// So many channels, each with a listener of its own. All the events come on one channel, or on each in turn.
    private func run(_ count: Int, spread: Bool) async throws(ToolFailure) -> Double {
        let client = try await self.bed.client()
        defer { client.disconnect() }
        var listeners: [EventSequence<PusherEvent>] = []
        var last: PusherChannel?
        do throws(PusherError) {
            for index in 0..<count {
                let channel = try client.subscribe(LoadMessage.channel(index))
                if !spread, index > 0 { listeners.append(channel.events(LoadMessage.event)) }
                last = channel
            }
            let events =
                spread
                ? client.events(LoadMessage.event, buffer: .pauseReading(4096))
                : try client.subscribe(LoadMessage.channel(0)).events(LoadMessage.event, buffer: .pauseReading(4096))
            // Answers come in order.
            try await last?.subscribed()
            var received = 0
            let start = processTime()
            self.bed.burst(self.messages, channels: spread ? count : 1)
            for await event in events {
                received += event.data == nil ? 0 : 1
                if received == self.messages { break }
            }
            let end = processTime()
            guard received == self.messages else { throw PusherError(.failed, "the connection ended") }
            return (end - start) / Double(self.messages)
        } catch {
            throw ToolFailure("A client did not get what its load sent: \(error)")
        }
    }
}
