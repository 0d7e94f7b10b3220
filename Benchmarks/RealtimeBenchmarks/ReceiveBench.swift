import CommandLineSupport
import PusherChannels
import RealtimeCore
import RealtimeSockets

/// Measures receiving one event.
struct ReceiveBench {
    static let bare = "bare path"
    static let strings = "receive as strings"
    static let decoded = "receive and decode"

    let fixture: BenchFixture
    let messages: Int
    let rounds: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.messages = fixture.messages ?? 200_000
        self.rounds = 9
    }

    func callAsFunction() async throws(ToolFailure) {
        var candidates = [
            Candidate(name: Self.bare) { () throws(ToolFailure) in try await self.runBare() },
            Candidate(name: Self.strings) { () throws(ToolFailure) in try await self.runStrings() },
            Candidate(name: Self.decoded) { () throws(ToolFailure) in try await self.runDecoded() },
        ]
        let node = NodePeer.find()
        if let node {
            candidates += node.candidates(port: self.fixture.port, messages: self.messages) { self.fixture.burst(self.messages) }
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        for candidate in candidates {
            guard let value = rounds.median(candidate.name) else { continue }
            let result = BenchResult(candidate.name, value, "ns CPU")
            switch candidate.name {
            case Self.strings:
                self.fixture.print(result.compared(rounds.ratio(Self.strings, to: Self.bare), with: Self.bare, atMost: 1.4))
                if let ratio = rounds.ratio(Self.strings, to: NodePeer.parsing) {
                    self.fixture.print(result.compared(ratio, with: NodePeer.parsing, atMost: 0.4))
                }
            case Self.decoded:
                if let ratio = rounds.ratio(Self.decoded, to: NodePeer.parsing) {
                    self.fixture.print(result.compared(ratio, with: NodePeer.parsing, atMost: 1))
                } else {
                    self.fixture.print(result.compared(rounds.ratio(Self.decoded, to: Self.bare), with: Self.bare))
                }
            case Self.bare: self.fixture.print(result)
            default: self.fixture.print(result.compared(rounds.ratio(candidate.name, to: Self.bare), with: Self.bare))
            }
        }
        if node == nil { self.fixture.printSkipped("comparison with node", NodePeer.missing) }
    }

    private func runBare() async throws(ToolFailure) -> Double {
        let receiver = BareReceiver(expectedCount: self.messages)
        let stream = receiver.connect(self.fixture.port)
        await receiver.ready()
        let start = processTime()
        self.fixture.burst(self.messages)
        let end = await receiver.waitUntilFinished()
        stream.close()
        guard !end.isNaN else { throw .connectionLost }
        return (end - start) / Double(self.messages)
    }

    private func runStrings() async throws(ToolFailure) -> Double {
        var characters = 0
        let time = try await self.receive { event in characters += event.name.utf8.count + (event.data?.utf8.count ?? 0) }
        guard characters > self.messages else { throw ToolFailure("The received events were empty.") }
        return time
    }

    private func runDecoded() async throws(ToolFailure) -> Double {
        var volume = 0
        var failures = 0
        let time = try await self.receive { event in
            do {
                volume &+= try event.decode(LoadPrice.self).volume
            } catch {
                failures += 1
            }
        }
        guard failures == 0, volume > self.messages else { throw ToolFailure("The received events could not be decoded.") }
        return time
    }

    /// Receives all events with a new client, and returns the processor time per event in nanoseconds.
    private func receive(_ body: (PusherEvent) -> Void) async throws(ToolFailure) -> Double {
        let client = try await self.fixture.client()
        defer { client.disconnect() }
        let channel = try await self.fixture.channel(LoadMessage.channel(0), of: client)
        // A burst arrives faster than it is consumed, and no event may be dropped.
        let events = channel.events(LoadMessage.event, buffer: .pauseReading(4096))
        var count = 0
        let start = processTime()
        self.fixture.burst(self.messages)
        for await event in events {
            body(event)
            count += 1
            if count == self.messages { break }
        }
        let end = processTime()
        guard count == self.messages else { throw .connectionLost }
        return (end - start) / Double(self.messages)
    }
}
