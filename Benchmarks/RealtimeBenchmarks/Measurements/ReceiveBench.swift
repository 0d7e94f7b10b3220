import CommandLineSupport
import PusherChannels
import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// Measures receiving one event.
struct ReceiveBench {
    static let bare = "bare path"
    static let strings = "receive as strings"
    static let callback = "receive by callback"
    static let besideFull = "receive beside a full consumer"
    static let decoded = "receive and decode"

    let fixture: BenchFixture
    let messages: Int
    let rounds: Int

    init(_ fixture: BenchFixture, messages: Int = 200_000) {
        self.fixture = fixture
        self.messages = fixture.messages ?? messages
        self.rounds = 9
    }

    func callAsFunction() async throws(ToolFailure) {
        var candidates = [
            Candidate(name: Self.bare) { () throws(ToolFailure) in try await self.runBare() },
            Candidate(name: Self.strings) { () throws(ToolFailure) in try await self.runStrings() },
            Candidate(name: Self.callback) { () throws(ToolFailure) in try await self.runCallback() },
            Candidate(name: Self.besideFull) { () throws(ToolFailure) in try await self.runStrings(besideFull: true) },
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
            case Self.callback:
                self.fixture.print(result.compared(rounds.ratio(Self.callback, to: Self.strings), with: Self.strings, atMost: 1.2))
            case Self.besideFull:
                self.fixture.print(result.compared(rounds.ratio(Self.besideFull, to: Self.strings), with: Self.strings))
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
        let receiver = BareReceiver(BareEvents(), expectedCount: self.messages)
        let stream = receiver.connect(self.fixture.port)
        await receiver.ready()
        let start = processTime()
        self.fixture.burst(self.messages)
        let end = await receiver.waitUntilFinished()
        stream.close()
        guard !end.isNaN else { throw .connectionLost }
        return (end - start) / Double(self.messages)
    }

    func runStrings(besideFull: Bool = false) async throws(ToolFailure) -> Double {
        var characters = 0
        let time = try await self.receive(besideFull: besideFull) { event in
            characters += event.name.utf8.count + (event.data?.utf8.count ?? 0)
        }
        guard characters > self.messages else { throw ToolFailure("The received events were empty.") }
        return time
    }

    /// Receives the same strings in a callback, which is called immediately.
    private func runCallback() async throws(ToolFailure) -> Double {
        let client = try await self.fixture.client()
        defer { client.disconnect() }
        _ = try await self.fixture.channel(LoadMessage.channel(0), of: client)
        let finished = Waiter<Double>()
        let expected = self.messages
        // Callbacks are called one at a time, so the lock has no contention.
        let counts = Lock((events: 0, characters: 0))
        let token = client.onUpdate(on: PusherCallbackExecutor { $0() }, buffer: .pauseReading(4096)) { update in
            guard case .event(let event) = update else { return }
            let characters = event.name.utf8.count + (event.data?.utf8.count ?? 0)
            let isLast = counts.withLock { counts in
                counts.events += 1
                counts.characters += characters
                return counts.events == expected
            }
            if isLast { finished.fulfill(processTime())?.resume() }
        }
        let start = processTime()
        self.fixture.burst(self.messages)
        let end = await finished.value()
        token.cancel()
        guard counts.withLock({ $0.characters }) > self.messages else { throw ToolFailure("The received events were empty.") }
        return (end - start) / Double(self.messages)
    }

    func runDecoded() async throws(ToolFailure) -> Double {
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
    ///
    /// - Parameter besideFull: Whether there is another consumer that reads nothing, so that its buffer drops events.
    private func receive(besideFull: Bool = false, _ body: (PusherEvent) -> Void) async throws(ToolFailure) -> Double {
        let client = try await self.fixture.client()
        defer { client.disconnect() }
        let channel = try await self.fixture.channel(LoadMessage.channel(0), of: client)
        // A burst arrives faster than it is consumed, and no event may be dropped.
        let events = channel.events(LoadMessage.event, buffer: .pauseReading(4096))
        let unread = besideFull ? channel.events(LoadMessage.event) : nil
        defer { withExtendedLifetime(unread) {} }
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
