#if DEBUG
import PusherChannels
import PusherServer
import PusherTestSupport
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeSystem
import TestSupport
import Testing

/// Limits the number of locks on the hot paths between a client's sockets and its user. Counted in debug builds only.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct LockCountTests {
    /// Runs `body` with a client that is subscribed to a channel, and the client's loop.
    private func withClient(_ body: (PusherServer, PusherChannel, EventLoop) async throws -> Void) async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let loop = try EventLoop("client")
        var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
        configuration.transports = Transports(
            webSocket: SocketWebSocketTransport(loop: loop), http: SocketHTTPTransport(loop: loop), time: loop)
        configuration.authorizer = .secret("secret")
        configuration.log = .none
        configuration.allowLongTimes()
        let client = PusherClient(configuration)
        client.connect()
        let channel = try client.subscribe("private-room")
        try await channel.subscribed(within: .seconds(300))
        try await body(server, channel, loop)
        client.disconnect()
        await server.stop()
        loop.shutdown()
    }

    /// Counts the locks of the loop's thread from a job that runs before `body` to one that runs `turns` turns later. Repeated until that is
    /// so: under load, jobs may share a turn, and a turn may end early.
    private func count(on loop: EventLoop, turns: Int, _ body: () async -> Void) async -> LockCounter.Counts {
        while true {
            let first = await withCheckedContinuation { continuation in
                loop.execute {
                    let turn = loop.counters.turns
                    LockCounter.start()
                    continuation.resume(returning: turn)
                }
            }
            await self.completeTurn(of: loop, after: first) {}
            await body()
            let (last, counts) = await withCheckedContinuation { continuation in
                loop.execute {
                    let counts = LockCounter.stop()
                    continuation.resume(returning: (loop.counters.turns, counts))
                }
            }
            if last - first == turns { return counts }
        }
    }

    /// Runs `body`, which gives the loop something to do, and returns when the loop has finished that turn.
    private func completeTurn(of loop: EventLoop, after turns: Int, _ body: () async -> Void) async {
        await body()
        while loop.counters.turns == turns { await Task.yield() }
    }

    /// Returns the lowest counts of several runs. A run counts more when another thread interferes; what the path itself needs is in every
    /// run.
    private func lowest(_ run: () async -> LockCounter.Counts) async -> LockCounter.Counts {
        var lowest = await run()
        for _ in 0..<20 {
            let counts = await run()
            if counts.acquisitions < lowest.acquisitions { lowest = counts }
        }
        return lowest
    }

    @Test func `an event takes at most nine locks from the socket to its sequence`() async throws {
        try await self.withClient { server, channel, loop in
            let events = channel.events("price").makeAsyncIterator()
            // The first event allocates buffers, and the subscription may still be in progress on the loop.
            server.publish("price", to: channel.name, data: "0")
            _ = await events.next()
            await loop.turn()
            let jobs = await self.lowest { await self.count(on: loop, turns: 1) {} }
            let counts = await self.lowest {
                await self.count(on: loop, turns: 2) {
                    await self.completeTurn(of: loop, after: loop.counters.turns) {
                        server.publish("price", to: channel.name, data: "1")
                        await expectEqual(events.next()?.data, "1")
                    }
                }
            }
            expect(counts.acquisitions - jobs.acquisitions <= 9)
            expect(counts.depth <= 2)
        }
    }

    @Test func `a client event takes at most seven locks from trigger to the socket`() async throws {
        try await self.withClient { _, channel, loop in
            // Other types may take a lock more: the encoder caches only the latest type, and other tests encode as well.
            let data: JSONValue = "on"
            try channel.trigger("client-typing", data)
            let counts = await self.lowest {
                await loop.turn()
                LockCounter.start()
                let result = Result { () throws(PusherError) in try channel.trigger("client-typing", data) }
                let counts = LockCounter.stop()
                #expect(throws: Never.self) { try result.get() }
                return counts
            }
            expect(counts.acquisitions <= 7)
            expect(counts.depth <= 3)
        }
    }
}

extension EventLoop {
    /// Returns when the jobs before this call have run.
    fileprivate func turn() async {
        for _ in 0..<2 {
            await withCheckedContinuation { continuation in
                self.execute { continuation.resume() }
            }
        }
    }
}
#endif
