import CommandLineSupport
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import SignalRHubs
import SignalRWire

/// Measures receiving calls of a SignalR server with a typed handler, and the items of a stream.
struct HubReceiveBench {
    let fixture: BenchFixture
    let messages: Int
    let rounds = 7

    init(_ fixture: BenchFixture, messages: Int = 100_000) {
        self.fixture = fixture
        self.messages = fixture.messages ?? messages
    }

    func callAsFunction() async throws(ToolFailure) {
        let peers = [MicrosoftPeer.typeScript, .dotNet].filter { $0.isAvailable }
        for (format, name, goal) in [(HubFormat.json, "JSON", 0.25), (.messagePack, "MessagePack", 0.1)] {
            let bare = "\(name), bare path"
            let (typed, two) = ("\(name), call to a typed handler", "\(name), call with 2 arguments")
            let item = "\(name), item of a stream"
            var candidates = [
                Candidate(name: bare) { () throws(ToolFailure) in try await self.runBare(format) },
                Candidate(name: typed) { () throws(ToolFailure) in try await self.runTyped(format) },
                Candidate(name: item) { () throws(ToolFailure) in try await self.runStream(format) },
            ]
            if peers.contains(.dotNet) {
                candidates.append(Candidate(name: two) { () throws(ToolFailure) in try await self.runTwo(format) })
            }
            for peer in peers {
                let session = try peer.connect(self.fixture.port, format)
                candidates.append(
                    Candidate(name: "\(name), \(peer.name)") { () throws(ToolFailure) in
                        let arguments = peer == .dotNet ? 2 : 6
                        return try session.receive(self.messages, arguments: arguments)
                    })
            }
            let rounds = try await Rounds.run(candidates, rounds: self.rounds)
            for candidate in candidates {
                guard let value = rounds.median(candidate.name) else { continue }
                var result = BenchResult(candidate.name, value, "ns CPU").compared(rounds.ratio(candidate.name, to: bare), with: bare)
                let compared: (peer: MicrosoftPeer, goal: Double)? =
                    candidate.name == typed ? (.typeScript, goal) : candidate.name == two ? (.dotNet, 1) : nil
                self.fixture.print(result)
                if let (peer, goal) = compared, let ratio = rounds.ratio(candidate.name, to: "\(name), \(peer.name)") {
                    result = BenchResult(candidate.name, value, "ns CPU").compared(ratio, with: peer.name, atMost: goal)
                    self.fixture.print(result)
                }
            }
        }
        if peers.isEmpty { self.fixture.printSkipped("comparison with Microsoft's clients", MicrosoftPeer.missing) }
    }

    private func runBare(_ format: HubFormat) async throws(ToolFailure) -> Double {
        let receiver = BareReceiver(BareInvocations(format), expectedCount: self.messages)
        let stream = receiver.connect(self.fixture.port)
        await receiver.ready()
        let start = processTime()
        let arguments = try? HubValueCoder(format).arguments(self.messages, 6)
        let burst = HubInvocation(id: nil, target: LoadHub.Method.burst, arguments: arguments ?? .null(format))
        stream.enqueue { $0 += LoadHub.frame(HubMessageWriter.message(.invocation(burst), format), mask: 0x1234_5678) }
        stream.flush()
        let end = await receiver.waitUntilFinished()
        stream.close()
        guard !end.isNaN else { throw .connectionLost }
        return (end - start) / Double(self.messages)
    }

    /// Receives calls with 6 arguments.
    func runTyped(_ format: HubFormat, over transport: HubTransport = .webSockets) async throws(ToolFailure) -> Double {
        try await self.runTyped(await self.fixture.hubClient(format, over: transport))
    }

    func runTyped(_ client: HubClient) async throws(ToolFailure) -> Double {
        let counter = CallCounter(self.messages)
        client.on(LoadHub.Method.price) { (symbol: String, _: Double, volume: Int, _: Bool, _: Int, note: String) in
            counter.add(symbol.utf8.count + volume + note.utf8.count)
        }
        return try await self.run(client, counter, arguments: 6)
    }

    /// Receives calls with 6 arguments, and asks for as many as a poll returns when it has received the ones before.
    func runAsking(_ format: HubFormat) async throws(ToolFailure) -> Double {
        let counter = CallCounter(self.messages)
        let client = try await self.fixture.hubClient(format)
        client.on(LoadHub.Method.price) { (symbol: String, _: Double, volume: Int, _: Bool, _: Int, note: String) in
            let remaining = counter.add(symbol.utf8.count + volume + note.utf8.count)
            guard remaining > 0, remaining % LoadHTTP.messagesPerPoll == 0 else { return }
            try await client.send(LoadHub.Method.burst, LoadHTTP.messagesPerPoll, 6)
        }
        defer { client.off(LoadHub.Method.price) }
        return try await self.run(client, counter, askingFor: LoadHTTP.messagesPerPoll, arguments: 6)
    }

    private func runTwo(_ format: HubFormat) async throws(ToolFailure) -> Double {
        let counter = CallCounter(self.messages)
        let client = try await self.fixture.hubClient(format)
        client.on(LoadHub.Method.price) { (volume: Int, note: String) in counter.add(volume + note.utf8.count) }
        return try await self.run(client, counter, arguments: 2)
    }

    /// Returns the processor time per call in nanoseconds.
    private func run(
        _ client: HubClient, _ counter: CallCounter, askingFor count: Int? = nil, arguments: Int
    ) async throws(ToolFailure) -> Double {
        defer { client.stop() }
        let observation = client.onUpdate(on: .tasks) { update in
            if case .closed = update { counter.lost() }
        }
        defer { observation.cancel() }
        let start = processTime()
        do throws(HubError) {
            try await client.send(LoadHub.Method.burst, count ?? self.messages, arguments)
        } catch {
            throw ToolFailure("A client failed to send: \(error)")
        }
        let end = await counter.finished.value()
        guard !end.isNaN else { throw .connectionLost }
        guard counter.sum > self.messages else { throw ToolFailure("The received calls were empty.") }
        return (end - start) / Double(self.messages)
    }

    private func runStream(_ format: HubFormat) async throws(ToolFailure) -> Double {
        let client = try await self.fixture.hubClient(format)
        defer { client.stop() }
        var count = 0
        let start = processTime()
        do throws(HubError) {
            let items = try client.stream(LoadHub.Method.items, self.messages, of: Double.self)
            let iterator = items.makeAsyncIterator()
            while try await iterator.next() != nil { count += 1 }
        } catch {
            throw ToolFailure("A stream failed: \(error)")
        }
        let end = processTime()
        guard count == self.messages else { throw ToolFailure("A stream ended after \(count) items.") }
        return (end - start) / Double(self.messages)
    }
}

/// Counts calls. Handlers are called one at a time, so the lock has no contention.
final class CallCounter: Sendable {
    let finished = Waiter<Double>()
    private let state: Lock<(remaining: Int, sum: Int)>

    init(_ count: Int) {
        self.state = Lock((count, 0))
    }

    var sum: Int { self.state.withLock { $0.sum } }

    /// The connection was lost.
    func lost() { self.finished.fulfill(.nan)?.resume() }

    /// Returns how many calls are missing.
    @discardableResult
    func add(_ value: Int) -> Int {
        let remaining = self.state.withLock { state in
            state.remaining -= 1
            state.sum &+= value
            return state.remaining
        }
        if remaining == 0 { self.finished.fulfill(processTime())?.resume() }
        return remaining
    }
}
