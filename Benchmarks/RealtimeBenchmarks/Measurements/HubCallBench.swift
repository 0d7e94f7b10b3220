import CommandLineSupport
import RealtimeCore
import RealtimeSockets
import SignalRHubs
import SignalRWire

/// Measures calling methods of a SignalR server: round trips one at a time, 64 calls in a row, and the items of a stream to the server.
struct HubCallBench {
    private static let raw = "blocking socket"
    private static let text = String(repeating: "x", count: 100)

    let fixture: BenchFixture
    let trips: Int
    let rounds = 7

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.trips = min(fixture.messages ?? 5_000, 100_000)
    }

    func callAsFunction() async throws(ToolFailure) {
        let peers = [MicrosoftPeer.typeScript, .dotNet].filter { $0.isAvailable }
        for (format, name) in [(HubFormat.json, "JSON"), (.messagePack, "MessagePack")] {
            try await self.runRoundTrips(format, name, peers)
            try await self.runSends(format, name)
            try await self.runUploads(format, name)
        }
    }

    // MARK: Round trips

    private func runRoundTrips(_ format: HubFormat, _ name: String, _ peers: [MicrosoftPeer]) async throws(ToolFailure) {
        let (raw, invoke) = ("\(name), round trip, \(Self.raw)", "\(name), round trip, invoke")
        let (rawLatency, latency) = (LatencyRecorder(), LatencyRecorder())
        var candidates = [
            Candidate(name: raw) { () throws(ToolFailure) in try self.runRaw(format, rawLatency) },
            Candidate(name: invoke) { () throws(ToolFailure) in try await self.runInvoke(format, latency) },
        ]
        for peer in peers {
            let session = try peer.connect(self.fixture.port, format)
            candidates.append(
                Candidate(name: "\(name), round trip, \(peer.name)") { () throws(ToolFailure) in try session.roundTrips(self.trips) })
        }
        let rounds = try await Rounds.run(candidates, rounds: self.rounds)
        for candidate in candidates {
            guard let value = rounds.median(candidate.name) else { continue }
            let result = BenchResult(candidate.name, value / 1000, "us CPU")
            let goal = candidate.name == invoke ? 1.4 : nil
            self.fixture.print(
                candidate.name == raw
                    ? result : result.compared(rounds.ratio(candidate.name, to: raw), with: Self.raw, atMost: goal))
        }
        let (p50, rawP50) = (latency.quantile(0.5), rawLatency.quantile(0.5))
        self.fixture.print(BenchResult("\(raw), p50", rawP50 / 1000, "us"))
        self.fixture.print(BenchResult("\(invoke), p50", p50 / 1000, "us").compared(p50 / rawP50, with: Self.raw, atMost: 1.15))
    }

    private func runRaw(_ format: HubFormat, _ latency: LatencyRecorder) throws(ToolFailure) -> Double {
        let messages = BareInvocations(format)
        var socket = try RawSocket(port: self.fixture.port)
        socket.write(BareReceiver<BareInvocations>.request)
        // Each response arrives in one read.
        socket.readSome()
        socket.write(messages.hello)
        socket.readSome()
        guard let arguments = try? HubValueCoder(format).arguments(Self.text), let result = try? HubValueCoder(format).payload(Self.text)
        else { throw ToolFailure("The arguments of the benchmark can't be encoded.") }
        let request = LoadHub.frame(
            HubMessageWriter.message(.invocation(HubInvocation(id: "1", target: LoadHub.Method.echo, arguments: arguments)), format),
            mask: 0x1234_5678)
        let reply = LoadHub.frame(HubMessageWriter.message(.completion(id: "1", .result(result)), format), mask: nil).count
        let start = processTime()
        for _ in 0..<self.trips {
            let sent = wallTime()
            socket.write(request)
            socket.read(reply)
            latency.add(wallTime() - sent)
        }
        return (processTime() - start) / Double(self.trips)
    }

    private func runInvoke(_ format: HubFormat, _ latency: LatencyRecorder) async throws(ToolFailure) -> Double {
        try await self.runInvoke(await self.fixture.hubClient(format), latency)
    }

    /// Makes calls one at a time, and returns the processor time per call in nanoseconds.
    func runInvoke(_ client: HubClient, _ latency: LatencyRecorder) async throws(ToolFailure) -> Double {
        defer { client.stop() }
        let start = processTime()
        for _ in 0..<self.trips {
            let sent = wallTime()
            let result = try await self.echo(client)
            guard result.utf8.count == Self.text.utf8.count else { throw ToolFailure("A call returned a wrong result.") }
            latency.add(wallTime() - sent)
        }
        return (processTime() - start) / Double(self.trips)
    }

    func echo(_ client: HubClient) async throws(ToolFailure) -> String {
        do throws(HubError) {
            return try await client.invoke(LoadHub.Method.echo, Self.text, as: String.self)
        } catch {
            throw ToolFailure("A call failed: \(error)")
        }
    }

    // MARK: Calls in a row

    private func runSends(_ format: HubFormat, _ name: String) async throws(ToolFailure) {
        let (one, many) = ("one", "many")
        let recorder = BurstRecorder()
        let rounds = try await Rounds.run(
            [
                Candidate(name: one) { () throws(ToolFailure) in try await self.runBursts(format, 1, nil) },
                Candidate(name: many) { () throws(ToolFailure) in try await self.runBursts(format, SendBench.burstSize, recorder) },
            ], rounds: self.rounds)
        guard let ones = rounds.values[one], let manies = rounds.values[many] else { return }
        // Both include the reply and the wait for it, so the difference does not.
        let size = Double(SendBench.burstSize)
        let each = Rounds.median(zip(ones, manies).map { ($1 - $0) / (size - 1) })
        self.fixture.print(BenchResult("\(name), send, each of 64 in a row", each, "ns CPU").atMost(250))
        self.fixture.print(
            BenchResult("\(name), send, time in the caller, each of 64", recorder.median(recorder.caller) / size, "ns wall"))
        self.fixture.print(BenchResult("\(name), writes to the socket for 64", recorder.median(recorder.writes), "writes").atMost(2))
        self.fixture.print(BenchResult("\(name), wake-ups of the loop for 64", recorder.median(recorder.wakeUps), "wake-ups").atMost(1))
    }

    /// Returns the processor time of one burst in nanoseconds, from the first call to the result of the last.
    private func runBursts(_ format: HubFormat, _ count: Int, _ recorder: BurstRecorder?) async throws(ToolFailure) -> Double {
        let transport = CountingTransport()
        let client = try await self.fixture.hubClient(format, transports: transport.transports)
        defer { client.stop() }
        let bursts = max(1, self.trips / 5)
        let start = processTime()
        for _ in 0..<bursts {
            let (writes, wakeUps, sent) = (transport.writes, EventLoop.shared.counters.wakeUps, wallTime())
            try await self.send(count - 1, client)
            let caller = wallTime() - sent
            _ = try await self.echo(client)
            recorder?.add(writes: transport.writes - writes, wakeUps: EventLoop.shared.counters.wakeUps - wakeUps, caller: caller)
        }
        return (processTime() - start) / Double(bursts)
    }

    func send(_ count: Int, _ client: HubClient) async throws(ToolFailure) {
        do throws(HubError) {
            for _ in 0..<count { try await client.send(LoadHub.Method.hold, Self.text) }
        } catch {
            throw ToolFailure("A client failed to send: \(error)")
        }
    }

    // MARK: Streams to the server

    private func runUploads(_ format: HubFormat, _ name: String) async throws(ToolFailure) {
        let items = self.trips * 20
        let (bare, upload) = ("\(name), item to the server, \(Self.raw)", "\(name), item to the server, upload")
        let rounds = try await Rounds.run(
            [
                Candidate(name: bare) { () throws(ToolFailure) in try self.runBareUpload(format, items) },
                Candidate(name: upload) { () throws(ToolFailure) in try await self.runUpload(format, items) },
            ], rounds: self.rounds)
        guard let value = rounds.median(upload), let baseline = rounds.median(bare) else { return }
        self.fixture.print(BenchResult(bare, baseline, "ns CPU"))
        self.fixture.print(BenchResult(upload, value, "ns CPU").compared(rounds.ratio(upload, to: bare), with: Self.raw))
    }

    /// Encodes items and writes 64 at a time.
    private func runBareUpload(_ format: HubFormat, _ items: Int) throws(ToolFailure) -> Double {
        let messages = BareInvocations(format)
        var socket = try RawSocket(port: self.fixture.port)
        socket.write(BareReceiver<BareInvocations>.request)
        socket.readSome()
        socket.write(messages.hello)
        socket.readSome()
        let coder = HubValueCoder(format)
        func frame(_ message: HubMessage) -> [UInt8] { LoadHub.frame(HubMessageWriter.message(message, format), mask: 0x1234_5678) }
        guard let none = try? coder.arguments() else { throw ToolFailure("The arguments of the benchmark can't be encoded.") }
        let invocation = HubInvocation(id: "1", target: LoadHub.Method.upload, arguments: none, streamIDs: ["2"])
        let start = processTime()
        socket.write(frame(.invocation(invocation)))
        var output: [UInt8] = []
        for index in 0..<items {
            guard let payload = try? coder.payload(1234.56 + Double(index)) else { continue }
            output += frame(.streamItem(id: "2", payload))
            if index % 64 == 63 || index == items - 1 {
                socket.write(output)
                output.removeAll(keepingCapacity: true)
            }
        }
        socket.write(frame(.completion(id: "2", .void)))
        socket.readSome()
        return (processTime() - start) / Double(items)
    }

    private func runUpload(_ format: HubFormat, _ items: Int) async throws(ToolFailure) -> Double {
        let client = try await self.fixture.hubClient(format)
        defer { client.stop() }
        let start = processTime()
        do throws(HubError) {
            try await client.invoke(LoadHub.Method.upload, HubUpload(Numbers(count: items)))
        } catch {
            throw ToolFailure("A stream to the server failed: \(error)")
        }
        return (processTime() - start) / Double(items)
    }
}

/// Numbers that are available immediately.
private struct Numbers: AsyncSequence, Sendable {
    struct AsyncIterator: AsyncIteratorProtocol {
        let count: Int
        var index = 0

        mutating func next() async -> Double? {
            guard self.index < self.count else { return nil }
            defer { self.index += 1 }
            return 1234.56 + Double(self.index)
        }
    }

    let count: Int

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(count: self.count) }
}

/// Measures calls while others are pending.
struct HubPendingBench {
    private static let counts = [1, 1_000, 100_000]
    /// The number of calls that are made at the same time, so that the cost of a wake-up doesn't hide that of a call.
    private static let batch = 256

    let fixture: BenchFixture
    let calls: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.calls = max(Self.batch, min(fixture.messages ?? 25_600, 1_000_000))
    }

    func callAsFunction() async throws(ToolFailure) {
        var candidates: [Candidate] = []
        for count in Self.counts {
            candidates.append(Candidate(name: Self.name(count)) { () throws(ToolFailure) in try await self.run(count) })
        }
        let rounds = try await Rounds.run(candidates, rounds: 7)
        let first = Self.name(Self.counts[0])
        for candidate in candidates {
            guard let value = rounds.median(candidate.name) else { continue }
            let result = BenchResult(candidate.name, value, "ns CPU")
            self.fixture.print(
                candidate.name == first ? result : result.compared(rounds.ratio(candidate.name, to: first), with: first, atMost: 1.1))
        }
    }

    private static func name(_ count: Int) -> String { "call, \(count) other\(count == 1 ? "" : "s") pending" }

    /// Returns the processor time per completed call in nanoseconds.
    private func run(_ count: Int) async throws(ToolFailure) -> Double {
        let client = try await self.fixture.hubClient(.messagePack)
        let failure = await withTaskGroup(of: Void.self) { group -> Result<Double, ToolFailure> in
            for index in 0..<count {
                // They fail when the client stops.
                group.addTask { _ = try? await client.invoke(LoadHub.Method.hold, index, as: Int?.self) }
            }
            while client.driver.read({ $0.waiterCount }) < count { await Task.yield() }
            defer { client.stop() }
            do throws(ToolFailure) {
                _ = try await self.complete(client, batches: 4)
                let batches = self.calls / Self.batch
                let start = processTime()
                try await self.complete(client, batches: batches)
                return .success((processTime() - start) / Double(batches * Self.batch))
            } catch {
                return .failure(error)
            }
        }
        return try failure.get()
    }

    private func complete(_ client: HubClient, batches: Int) async throws(ToolFailure) {
        for _ in 0..<batches {
            let completed = await withTaskGroup(of: Bool.self) { group in
                for index in 0..<Self.batch {
                    group.addTask { (try? await client.invoke(LoadHub.Method.echo, index, as: Int.self)) == index }
                }
                var count = 0
                for await isCorrect in group where isCorrect { count += 1 }
                return count
            }
            guard completed == Self.batch else { throw ToolFailure("A call returned a wrong result.") }
        }
    }
}
