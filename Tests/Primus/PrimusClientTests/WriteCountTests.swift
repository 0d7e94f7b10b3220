import PrimusClient
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import RealtimeTesting
import RealtimeTransports
import TestSupport
import Testing

/// The writes to a socket.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct WriteCountTests {
    @Test func `64 messages in a row are two writes and at most one wake-up`() async throws {
        // The loop writes what was gathered when it has serviced the stream, and not because time has passed.
        let loop = try EventLoop(turnLimit: .seconds(3600))
        defer { loop.shutdown() }
        let (server, listener) = (PluginServer(), SocketListener(limits: .forTests))
        let address = try await listener.start(server)
        // The time stands still, so that the client checks nothing in between.
        let network = InMemoryNetwork(clock: ManualClock(standstillLimit: nil))
        var configuration = try PrimusConfiguration(url: "http://\(address.host):\(address.port)/primus")
        configuration.transports = Transports(
            webSocket: SocketWebSocketTransport(loop: loop), http: network.http, time: network.time)
        (configuration.detection, configuration.log) = (.off, .none)
        let primus = PrimusConnection(configuration)
        primus.open()
        try await eventually { primus.isConnected }
        let connection = try #require(primus.driver.connection { $0.connection.connected })

        let block = LoopBlock()
        defer { block.release() }
        loop.execute { block.run() }
        try await eventually("the block") { block.isRunning }
        let (writes, wakeUps) = (SocketWebSocketTransport.writes(of: connection), loop.counters.wakeUps)
        for number in 0..<64 { try await primus.write(["number": number, "volume": 98765]) }
        expectEqual(SocketWebSocketTransport.writes(of: connection) - writes, 1)
        block.release()
        try await expectEqual(server.received(64).count, 64)
        expectEqual(SocketWebSocketTransport.writes(of: connection) - writes, 2)
        expect(loop.counters.wakeUps - wakeUps <= 1)
        primus.end()
        await listener.stop()
    }
}

/// A job that keeps a loop from writing.
private final class LoopBlock: Sendable {
    private let state = Lock((isRunning: false, isReleased: false))

    var isRunning: Bool { self.state.withLock { $0.isRunning } }

    func run() {
        self.state.withLock { $0.isRunning = true }
        while !self.state.withLock({ $0.isReleased }) { sched_yield() }
    }

    func release() { self.state.withLock { $0.isReleased = true } }
}
