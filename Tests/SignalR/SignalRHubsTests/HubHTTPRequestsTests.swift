import RealtimeCore
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// The requests of connections over HTTP.
@Suite struct HubHTTPRequestsTests {
    private static let requests = HubHTTPRequests(
        Endpoint(scheme: "http", host: "host", port: 80, target: "/hub?id=1"), .json, connectTimeout: .seconds(100))

    /// Takes the messages of requests until none is left, as a connection does.
    private static func bodies(_ messages: [TransportMessage]) -> [[UInt8]] {
        let rules = HubPollingRules(Self.requests, pollTimeout: .seconds(100))
        var (waiting, bodies) = (messages[...], [[UInt8]]())
        while !waiting.isEmpty {
            let (request, count) = rules.sendingRequest(waiting)
            bodies.append(request.body)
            waiting.removeFirst(count)
        }
        return bodies
    }

    @Test func `messages keep their order if one doesn't fit into the request with those before it`() {
        func message(_ letter: Character, _ size: Int) -> TransportMessage { .text(String(repeating: letter, count: size)) }
        let bodies = Self.bodies([message("a", 700_000), message("b", 700_000), message("c", 1), message("d", 2 << 20), message("e", 1)])
        expectEqual(bodies.map { Set($0) }, ["a", "bc", "d", "e"].map { Set($0.utf8) })
        expectEqual(bodies.map(\.count), [700_000, 700_001, 2 << 20, 1])
    }

    @Test func `a server of ASP.NET Core doesn't forget a client that has paused reading`() throws {
        let polling = try #require(HubPollingRules(Self.requests, pollTimeout: .seconds(100)).pausedPolling)
        // Its `DisconnectTimeout` is 15 seconds by default. One request may take its time.
        expect(polling.interval <= .seconds(15) / 2)
    }
}
