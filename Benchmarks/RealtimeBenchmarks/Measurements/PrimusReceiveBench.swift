import CommandLineSupport
import PrimusClient
import PrimusWire
import RealtimeCore

/// Measures receiving messages of Primus in a `for await` loop, beside Primus's client for JavaScript and events of Pusher Channels.
struct PrimusReceiveBench {
    private static let event = "event of Pusher Channels"
    private static let javaScript = "JavaScript client"
    private static let parsers: [PrimusCoding] = [.json, .ejson, .messagePack, .binary]

    let fixture: BenchFixture
    let messages: Int
    let rounds = 7

    init(_ fixture: BenchFixture, messages: Int = 100_000) {
        self.fixture = fixture
        self.messages = fixture.messages ?? messages
    }

    func callAsFunction() async throws(ToolFailure) {
        var isCompared = true
        for parser in Self.parsers where !Task.isCancelled {
            isCompared = try await self.run(parser) && isCompared
        }
        if !isCompared { self.fixture.printSkipped("comparison with Primus's client", PrimusPeer.missing) }
        try await self.runFramings()
    }

    /// A client that is connected to the load generator.
    func client(
        _ parser: PrimusCoding, over transformer: PrimusTransformerKind = .websockets, plugins: [any PrimusPlugin] = [],
        transports: Transports? = nil, change: (inout PrimusConfiguration) -> Void = { _ in }
    ) async throws(ToolFailure) -> PrimusConnection {
        var configuration: PrimusConfiguration
        do throws(TransportError) {
            configuration = try PrimusConfiguration(url: "http://127.0.0.1:\(self.fixture.port)\(LoadPrimus.path(of: parser))")
        } catch {
            throw ToolFailure(error)
        }
        (configuration.transformer, configuration.parser, configuration.detection) = (transformer, parser.kind, .off)
        configuration.silenceLimit = .seconds(600)
        (configuration.log, configuration.plugins) = (.none, plugins)
        if let transports { configuration.transports = transports }
        change(&configuration)
        let client = PrimusConnection(configuration)
        let updates = client.updates()
        client.open()
        do throws(PrimusError) {
            try await client.opened()
        } catch {
            throw ToolFailure("A client failed to connect to the load generator: \(error)")
        }
        if configuration.startsWithPolling, configuration.allowedTransports.contains(.webSockets) { await self.moved(updates) }
        // A client that fell back to another kind of connection would be measured as what it isn't.
        let first = configuration.allowedTransports.contains(.webSockets) ? PrimusTransport.webSockets : .polling
        let expected = configuration.connectionKinds?.first?.transport ?? first
        guard client.transport == expected else {
            defer { client.end() }
            throw ToolFailure("A client uses \(client.transport.map { "\($0)" } ?? "no transport"), where \(expected) is measured.")
        }
        return client
    }

    /// Waits until a session that begins with polling has moved to a WebSocket.
    private func moved(_ updates: EventSequence<PrimusUpdate>) async {
        for await update in updates {
            if case .transport(.webSockets) = update { return }
        }
    }

    /// - Returns: Whether Primus's client was there.
    private func run(_ parser: PrimusCoding) async throws(ToolFailure) -> Bool {
        let name = "\(parser.kind)"
        let (raw, decoded) = ("\(name), message", "\(name), message, decoded")
        let (peerName, decodedEvent) = ("\(name), \(Self.javaScript)", "\(Self.event), decoded")
        var candidates = [
            Candidate(name: raw) { () throws(ToolFailure) in try await self.runRaw(self.client(parser)) },
            Candidate(name: decoded) { () throws(ToolFailure) in try await self.runDecoded(self.client(parser)) },
        ]
        if parser == .json {
            let events = ReceiveBench(self.fixture, messages: self.messages)
            candidates += [
                Candidate(name: Self.event) { () throws(ToolFailure) in try await events.runStrings() },
                Candidate(name: decodedEvent) { () throws(ToolFailure) in try await events.runDecoded() },
            ]
        }
        let peer = try PrimusPeer(self.fixture.port, parser)
        if let peer {
            candidates.append(Candidate(name: peerName) { () throws(ToolFailure) in try peer.receive(self.messages) })
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        self.fixture.print(rounds, raw, "ns CPU", beside: [(Self.event, 1.3), (peerName, 0.5)])
        self.fixture.print(rounds, decoded, "ns CPU", beside: [(decodedEvent, 1.3), (peerName, 0.5)])
        return peer != nil
    }

    /// Compares the framings of engine.io and SockJS with messages that are packets.
    private func runFramings() async throws(ToolFailure) {
        let kinds: [(name: String, kind: PrimusTransformerKind)] = [
            ("websockets", .websockets), ("engine.io", .engineIO), ("framed sockjs", .sockjs),
        ]
        let candidates = kinds.flatMap { name, kind in
            [
                Candidate(name: "json, \(name), message") { () throws(ToolFailure) in
                    try await self.runRaw(self.client(.json, over: kind))
                },
                Candidate(name: "json, \(name), message, decoded") { () throws(ToolFailure) in
                    try await self.runDecoded(self.client(.json, over: kind))
                },
            ]
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        // The framings have a goal for messages that are decoded, as those of the client for JavaScript are.
        let goals: [(String, Double?)] = [("message", nil), ("message, decoded", 1.15)]
        for (suffix, goal) in goals {
            let baseline = "json, websockets, \(suffix)"
            if let value = rounds.median(baseline) { self.fixture.print(BenchResult(baseline, value, "ns CPU")) }
            for (name, _) in kinds.dropFirst() {
                let candidate = "json, \(name), \(suffix)"
                guard let value = rounds.median(candidate) else { continue }
                let result = BenchResult(candidate, value, "ns CPU")
                self.fixture.print(result.compared(rounds.ratio(candidate, to: baseline), with: baseline, atMost: goal))
            }
        }
    }

    /// Receives messages without decoding them, and returns the processor time per message in nanoseconds.
    func runRaw(_ client: PrimusConnection) async throws(ToolFailure) -> Double {
        defer { client.end() }
        let messages = client.messages(buffer: .pauseReading(4096))
        var (count, bytes) = (0, 0)
        let start = processTime()
        client.enqueue(LoadPrimus.burst(self.messages))
        for await message in messages {
            bytes += message.raw.bytes.count
            count += 1
            if count == self.messages { break }
        }
        let end = processTime()
        guard count == self.messages else { throw .connectionLost }
        guard bytes > self.messages else { throw ToolFailure("The received messages were empty.") }
        return (end - start) / Double(self.messages)
    }

    /// Receives messages that are decoded.
    ///
    /// - Parameters:
    ///   - client: The client, which is ended.
    ///   - asked: The number of messages that the client asks for at a time; `nil` for all of them in one burst.
    func runDecoded(_ client: PrimusConnection, askingFor asked: Int? = nil) async throws(ToolFailure) -> Double {
        defer { client.end() }
        let messages = client.messages(as: LoadPrice.self)
        var (count, volume) = (0, 0)
        let start = processTime()
        client.enqueue(LoadPrimus.burst(asked ?? self.messages))
        for await message in messages {
            volume &+= message.volume
            count += 1
            if count == self.messages { break }
            if let asked, count % asked == 0 { client.enqueue(LoadPrimus.burst(asked)) }
        }
        let end = processTime()
        guard count == self.messages else { throw .connectionLost }
        guard volume > self.messages else { throw ToolFailure("The received messages were wrong.") }
        return (end - start) / Double(self.messages)
    }
}
