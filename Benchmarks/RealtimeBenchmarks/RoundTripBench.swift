internal import CommandLineSupport
internal import PusherChannels
internal import PusherWire
internal import RealtimeCore
internal import RealtimeSockets

/// A message there and one back, one at a time: a client event of 195 bytes, answered with an event of 195 bytes.
struct RoundTripBench {
    static let raw = "round trip, blocking socket"
    static let client = "round trip, client and task"

    let bed: BenchFixture
    let trips: Int

    init(_ bed: BenchFixture) {
        self.bed = bed
        self.trips = min(bed.messages ?? 5_000, 100_000)
    }

    func callAsFunction() async throws(ToolFailure) {
        let (rawLatency, clientLatency) = (Recording(), Recording())
        let contenders = [
            Candidate(name: Self.raw) { () throws(ToolFailure) in try self.runRaw(rawLatency) },
            Candidate(name: Self.client) { () throws(ToolFailure) in try await self.runClient(clientLatency) },
        ]
        let rounds = try await Rounds.run(contenders, rounds: 9)
        for contender in contenders {
            guard let value = rounds.median(contender.name) else { continue }
            let result = BenchResult(contender.name, value / 1000, "us CPU")
            if contender.name == Self.raw {
                self.bed.say(result)
            } else {
                self.bed.say(result.compared(rounds.ratio(Self.client, to: Self.raw), with: Self.raw, atMost: 1.4))
            }
        }
        for (quantile, name, goal) in [(0.5, "p50", 1.15), (0.99, "p99", nil)] as [(Double, String, Double?)] {
            let (raw, client) = (rawLatency.quantile(quantile), clientLatency.quantile(quantile))
            self.bed.say(BenchResult("\(Self.raw), \(name)", raw / 1000, "us"))
            self.bed.say(BenchResult("\(Self.client), \(name)", client / 1000, "us").compared(client / raw, with: Self.raw, atMost: goal))
        }
    }

    private func runRaw(_ latency: Recording) throws(ToolFailure) -> Double {
        var socket = try RawSocket(port: self.bed.port)
        socket.write(BareReceiver.request)
        // The answer to the handshake, whose length is known, with the greeting behind it.
        socket.readSome()
        let question = SendBench.frame(LoadMessage.last)
        let answer = LoadMessage.frame(channel: LoadMessage.privateChannel).count
        let start = processTime()
        for _ in 0..<self.trips {
            let sent = wallTime()
            socket.write(question)
            socket.read(answer)
            latency.add(wallTime() - sent)
        }
        return (processTime() - start) / Double(self.trips)
    }

    private func runClient(_ latency: Recording) async throws(ToolFailure) -> Double {
        let client = try await self.bed.client()
        defer { client.disconnect() }
        let channel = try await self.bed.channel(LoadMessage.privateChannel, of: client)
        let answers = channel.events(LoadMessage.event)
        let iterator = answers.makeAsyncIterator()
        let data = SendBench.data
        let start = processTime()
        for _ in 0..<self.trips {
            let sent = wallTime()
            do throws(PusherError) {
                try channel.trigger(LoadMessage.last, data)
            } catch {
                throw ToolFailure("A client could not send: \(error)")
            }
            guard await iterator.next() != nil else { throw ToolFailure("A connection ended in the middle of a benchmark.") }
            latency.add(wallTime() - sent)
        }
        return (processTime() - start) / Double(self.trips)
    }
}

/// Times of single trips, over all rounds. Used by one task at a time.
final class Recording {
    private var values: [Double] = []

    func add(_ value: Double) { self.values.append(value) }

    func quantile(_ part: Double) -> Double {
        let sorted = self.values.sorted()
        return sorted.isEmpty ? .nan : sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))]
    }
}
