import PeerSupport
import ProxySupport
import PusherChannels
import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

/// The connections of a publisher to the server sockudo, which are counted.
@Suite(.usesSockets, .requires(.peers("sockudo")), .timeLimit(.minutes(10)))
struct PusherPublisherConnectionTests {
    private static func publisher(_ relay: TestRelay, unrepeatableIdleTime: Duration = .seconds(600)) -> PusherPublisher {
        var limits = KeepAliveLimits()
        (limits.idleTime, limits.unrepeatableIdleTime) = (.seconds(600), unrepeatableIdleTime)
        return PusherPublisher(
            appID: "app1", key: "key1", secret: "secret1", endpoint: Endpoint(scheme: "http", host: "127.0.0.1", port: relay.port),
            http: SocketHTTPTransport(keepAlive: limits))
    }

    /// Publishes events and sends queries, in turns.
    private static func send(_ count: Int, _ publisher: PusherPublisher) async throws {
        for number in 0..<count {
            if number % 2 == 0 {
                try await publisher.publish("tick", to: "prices", data: ["number": number])
            } else {
                try await expect(publisher.channels().isEmpty)
            }
        }
    }

    /// sockudo 5.2 announces with each response of its HTTP API that it closes the connection.
    @Test func `each request of a publisher to sockudo has a connection of its own`() async throws {
        let sockudo = try Peer("sockudo")
        let relay = try TestRelay(to: try await sockudo.ready()["port"]?.int ?? 0)
        try await Self.send(20, Self.publisher(relay))
        expectEqual(relay.connectionCount, 20)
        try await sockudo.stopped()
        await relay.stop()
    }

    @Test(.requires(.nginx))
    func `a publisher sends its requests through nginx to sockudo on one connection`() async throws {
        let sockudo = try Peer("sockudo")
        let nginx = try Nginx(to: try await sockudo.ready()["port"]?.int ?? 0)
        try await nginx.start()
        let relay = try TestRelay(to: nginx.port)
        try await Self.send(40, Self.publisher(relay))
        expectEqual(relay.connectionCount, 1)
        // Now, each event has a connection of its own, which is used for the query after it.
        try await Self.send(10, Self.publisher(relay, unrepeatableIdleTime: .zero))
        expectEqual(relay.connectionCount, 1 + 5)
        await nginx.stop()
        try await sockudo.stopped()
        await relay.stop()
    }

    /// Waits until nginx has closed the connection, and the client's event loop has read its end, in the turn after the next at the latest.
    private static func waitForEnd(_ relay: TestRelay) async throws {
        try await eventually("nginx has closed the connection") { relay.openCount == 0 }
        for _ in 0..<2 {
            await withCheckedContinuation { continuation in
                if !EventLoop.shared.execute({ continuation.resume() }) { continuation.resume() }
            }
        }
    }

    @Test(.requires(.nginx))
    func `a publisher connects again after nginx has closed the connection, or sockudo was restarted`() async throws {
        let port = TestPort.next()
        let nginx = try Nginx(to: port) { $0.keepAliveTimeout = .milliseconds(50) }
        try await nginx.start()
        let relay = try TestRelay(to: nginx.port)
        let publisher = Self.publisher(relay)
        for _ in 0..<3 {
            let sockudo = try Peer("sockudo", ["--port", "\(port)"])
            _ = try await sockudo.ready()
            for _ in 0..<5 {
                try await publisher.publish("tick", to: "prices", data: 1)
                try await Self.waitForEnd(relay)
            }
            try await sockudo.stopped()
            let error = await #expect(throws: PusherError.self) { try await publisher.publish("tick", to: "prices", data: 1) }
            expectEqual(error?.status, 502)
            try await Self.waitForEnd(relay)
        }
        expectEqual(relay.connectionCount, 3 * 6)
        await nginx.stop()
        await relay.stop()
    }
}
