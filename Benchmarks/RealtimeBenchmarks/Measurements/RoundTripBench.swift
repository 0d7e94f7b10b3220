import CommandLineSupport
import PusherChannels
import RealtimeCore

/// Measures round trips, one at a time: a client event of 195 bytes and the event of 195 bytes that the load generator replies with.
struct RoundTripBench {
    static let raw = "round trip, blocking socket"
    static let client = "round trip, client and task"

    let fixture: BenchFixture
    let trips: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.trips = min(fixture.messages ?? 5_000, 100_000)
    }

    func callAsFunction() async throws(ToolFailure) {
        let (rawLatency, clientLatency) = (LatencyRecorder(), LatencyRecorder())
        let candidates = [
            Candidate(name: Self.raw) { () throws(ToolFailure) in try self.runRaw(rawLatency) },
            Candidate(name: Self.client) { () throws(ToolFailure) in try await self.runClient(clientLatency) },
        ]
        let rounds = try await Rounds.run(candidates, rounds: 9)
        for candidate in candidates {
            guard let value = rounds.median(candidate.name) else { continue }
            let result = BenchResult(candidate.name, value / 1000, "us CPU")
            if candidate.name == Self.raw {
                self.fixture.print(result)
            } else {
                self.fixture.print(result.compared(rounds.ratio(Self.client, to: Self.raw), with: Self.raw, atMost: 1.4))
            }
        }
        for (quantile, name, goal) in [(0.5, "p50", 1.15), (0.99, "p99", nil)] as [(Double, String, Double?)] {
            let (raw, client) = (rawLatency.quantile(quantile), clientLatency.quantile(quantile))
            self.fixture.print(BenchResult("\(Self.raw), \(name)", raw / 1000, "us"))
            self.fixture.print(
                BenchResult("\(Self.client), \(name)", client / 1000, "us").compared(client / raw, with: Self.raw, atMost: goal))
        }
    }

    private func runRaw(_ latency: LatencyRecorder) throws(ToolFailure) -> Double {
        var socket = try RawSocket(port: self.fixture.port)
        socket.write(BareReceiver<BareEvents>.request)
        // The response to the handshake and the greeting arrive in one read.
        socket.readSome()
        let request = SendBench.frame(LoadMessage.last)
        let replySize = LoadMessage.frame(channel: LoadMessage.privateChannel).count
        let start = processTime()
        for _ in 0..<self.trips {
            let sent = wallTime()
            socket.write(request)
            socket.read(replySize)
            latency.add(wallTime() - sent)
        }
        return (processTime() - start) / Double(self.trips)
    }

    private func runClient(_ latency: LatencyRecorder) async throws(ToolFailure) -> Double {
        let client = try await self.fixture.client()
        defer { client.disconnect() }
        let channel = try await self.fixture.channel(LoadMessage.privateChannel, of: client)
        let replies = channel.events(LoadMessage.event)
        let iterator = replies.makeAsyncIterator()
        let data = SendBench.data
        let start = processTime()
        for _ in 0..<self.trips {
            let sent = wallTime()
            do throws(PusherError) {
                try channel.trigger(LoadMessage.last, data)
            } catch {
                throw ToolFailure("A client failed to send: \(error)")
            }
            guard await iterator.next() != nil else { throw .connectionLost }
            latency.add(wallTime() - sent)
        }
        return (processTime() - start) / Double(self.trips)
    }
}

/// The times of all round trips, over all rounds. Used by one task at a time.
final class LatencyRecorder {
    private var values: [Double] = []

    func add(_ value: Double) { self.values.append(value) }

    func quantile(_ fraction: Double) -> Double {
        let sorted = self.values.sorted()
        return sorted.isEmpty ? .nan : sorted[min(sorted.count - 1, Int(Double(sorted.count) * fraction))]
    }
}
