import CommandLineSupport
import Processes
import RealtimeCore
import RealtimeSockets

/// Measures POST requests of 200 bytes to the load generator: on connections that are kept and on a new connection each, beside Node's `http`
/// module. One after the other, where much of the time passes while threads wake up, and eight at a time.
struct HTTPBench {
    static let kept = "POST, kept connection"
    static let new = "POST, new connection"
    static let keptTLS = "POST, kept connection, TLS"
    static let keptParallel = "8 POST at a time, kept connections"
    static let newParallel = "8 POST at a time, new connections"
    static let newTLS = "POST, new connection, TLS"

    let fixture: BenchFixture
    let requests: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.requests = min(fixture.messages ?? 2_000, 10_000)
    }

    func callAsFunction() async throws(ToolFailure) {
        let times = WallTimes()
        var candidates = [
            self.candidate(Self.new, .off, times), self.candidate(Self.kept, KeepAliveLimits(), times),
            self.candidate(Self.newParallel, .off, times, parallel: 8),
            self.candidate(Self.keptParallel, KeepAliveLimits(), times, parallel: 8),
        ]
        let node = NodePeer.findHTTP()
        if let node { candidates.append(node.posts(port: self.fixture.port, requests: self.requests, times)) }
        let rounds = try await Rounds.run(candidates, rounds: 9)
        self.print(Self.kept, beside: Self.new, rounds, times.rounds, time: nil, processor: 0.5)
        self.print(Self.keptParallel, beside: Self.newParallel, rounds, times.rounds, time: 0.35, processor: 0.5)
        if node != nil {
            self.fixture.printRatio(Self.kept, to: NodePeer.posts, rounds, times.rounds, atMost: 0.6)
        } else {
            self.fixture.printSkipped(NodePeer.posts, "needs node")
        }
        try await self.measureTLS()
    }

    private func measureTLS() async throws(ToolFailure) {
        guard let certificate = BenchCertificate.make() else {
            return self.fixture.printSkipped(Self.keptTLS, "needs the openssl command to create a certificate")
        }
        defer { certificate.remove() }
        let secure = try BenchFixture(self.fixture.console, messages: nil, connections: nil, tls: certificate.arguments)
        defer { secure.load.end() }
        let times = WallTimes()
        var tls = TLSConfiguration()
        tls.verification = .dangerouslyAcceptAnyCertificate
        let candidates = [
            // Fewer, because a handshake takes much longer than a request.
            self.candidate(Self.newTLS, .off, times, tls, port: secure.port, requests: self.requests / 10),
            self.candidate(Self.keptTLS, KeepAliveLimits(), times, tls, port: secure.port),
        ]
        let rounds = try await Rounds.run(candidates, rounds: 9)
        self.print(Self.keptTLS, beside: Self.newTLS, rounds, times.rounds, time: 0.1, processor: 0.1)
    }

    private func print(
        _ name: String, beside other: String, _ rounds: Rounds, _ times: Rounds, time: Double?, processor: Double
    ) {
        for (rounds, unit, maximum) in [(rounds, "us CPU", processor), (times, "us", time)] {
            guard let value = rounds.median(name), let baseline = rounds.median(other) else { continue }
            self.fixture.print(BenchResult(other, baseline / 1000, unit))
            self.fixture.print(
                BenchResult(name, value / 1000, unit).compared(rounds.ratio(name, to: other), with: other, atMost: maximum))
        }
    }

    private func candidate(
        _ name: String, _ limits: KeepAliveLimits, _ times: WallTimes, _ tls: TLSConfiguration? = nil, port: Int? = nil,
        requests: Int? = nil, parallel: Int = 1
    ) -> Candidate {
        let endpoint = Endpoint(
            scheme: tls == nil ? "http" : "https", host: "127.0.0.1", port: port ?? self.fixture.port, target: LoadHTTP.post)
        let request = HTTPRequest(
            "POST", endpoint, headers: ["Content-Type": "application/json"], body: Array(repeating: UInt8(ascii: "x"), count: 200))
        let count = max(1, (requests ?? self.requests) / parallel)
        return Candidate(name: name) { () throws(ToolFailure) in
            let transport = SocketHTTPTransport(tls: tls ?? TLSConfiguration(), keepAlive: limits)
            let (start, begin) = (processTime(), wallTime())
            let error = await withTaskGroup(of: TransportError?.self) { group in
                for _ in 0..<parallel {
                    group.addTask {
                        do throws(TransportError) {
                            for _ in 0..<count { _ = try await transport.send(request) }
                            return nil
                        } catch {
                            return error
                        }
                    }
                }
                return await group.first { $0 != nil } ?? nil
            }
            if let error { throw ToolFailure("A request failed: \(error)") }
            times.add((wallTime() - begin) / Double(count * parallel), name)
            return (processTime() - start) / Double(count * parallel)
        }
    }
}

extension BenchFixture {
    /// Prints the processor time of a candidate and of a peer, and the time that passes.
    func printRatio(_ name: String, to peer: String, _ rounds: Rounds, _ times: Rounds, atMost maximum: Double) {
        guard let value = rounds.median(name), let other = rounds.median(peer), let time = times.median(peer) else { return }
        self.print(BenchResult(peer, other / 1000, "us CPU"))
        self.print(BenchResult(name, value / 1000, "us CPU").compared(rounds.ratio(name, to: peer), with: peer, atMost: maximum))
        self.print(BenchResult(peer, 1e9 / time, "a second"))
        guard let own = times.median(name) else { return }
        self.print(BenchResult(name, 1e9 / own, "a second").compared(times.ratio(peer, to: name), with: peer))
    }
}
