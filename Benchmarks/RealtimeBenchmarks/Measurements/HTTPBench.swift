import CommandLineSupport
import RealtimeCore
import RealtimeSockets

/// Measures small requests, one after the other, to a listener of this process: with and without a connection that is kept.
struct HTTPBench {
    private final class Handler: ListenerHandler {
        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            responder.respond(HTTPResponse(status: 200, text: "ok"))
        }
    }

    static let kept = "HTTP request, kept connection"
    static let new = "HTTP request, new connection"

    let fixture: BenchFixture
    let requests: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.requests = min(fixture.messages ?? 2_000, 10_000)
    }

    func callAsFunction() async throws(ToolFailure) {
        let listener = SocketListener()
        let port: Int
        do throws(TransportError) {
            port = try await listener.start(Handler()).port
        } catch {
            throw ToolFailure("The listener failed to start: \(error)")
        }
        let candidates = [(Self.new, KeepAliveLimits.off), (Self.kept, KeepAliveLimits())].map { name, limits in
            Candidate(name: name) { () throws(ToolFailure) in try await self.run(SocketHTTPTransport(keepAlive: limits), port) }
        }
        let rounds = try await Rounds.run(candidates, rounds: 5)
        await listener.stop()
        for candidate in candidates {
            guard let value = rounds.median(candidate.name) else { continue }
            let result = BenchResult(candidate.name, value / 1000, "us CPU")
            let isNew = candidate.name == Self.new
            self.fixture.print(isNew ? result : result.compared(rounds.ratio(Self.kept, to: Self.new), with: Self.new, atMost: 1))
        }
    }

    private func run(_ transport: SocketHTTPTransport, _ port: Int) async throws(ToolFailure) -> Double {
        let request = HTTPRequest("GET", Endpoint(scheme: "http", host: "127.0.0.1", port: port))
        let start = processTime()
        for _ in 0..<self.requests {
            do throws(TransportError) {
                _ = try await transport.send(request)
            } catch {
                throw ToolFailure("A request failed: \(error)")
            }
        }
        return (processTime() - start) / Double(self.requests)
    }
}
