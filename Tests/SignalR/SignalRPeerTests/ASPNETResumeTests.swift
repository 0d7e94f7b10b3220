import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import RealtimeTransports
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// Stateful reconnect with an ASP.NET Core server in its own process. The client cuts its sockets.
@Suite(
    .usesSockets, .requires(.peers("aspnet")),
    .timeLimit(.minutes(60)))
struct ASPNETResumeTests {
    /// The server has ended the connection instead of resuming it.
    private struct ConnectionLost: Error {}

    /// A client that is connected with stateful reconnect, and records its updates.
    private struct Fixture {
        let hub: HubClient
        let id: String?
        let transport = CuttableTransport(Transports.standard.webSocket)
        let updates = EventRecorder<HubUpdate>()
        let hasSentAll = EventRecorder<Bool>()
        private let observation: HubObservation

        init(_ server: ASPNETServer, _ pair: HubPair = .json, buffer: Int = 100_000) async throws {
            self.hub = try await server.connected("/stateful", pair) { [transport] in
                $0.transports.webSocket = transport
                $0.statefulReconnect = HubStatefulReconnect(bufferBytes: buffer)
            }
            self.id = self.hub.connectionID
            self.observation = self.hub.onUpdate(on: HubCallbackExecutor { $0() }) { [updates] in updates.record($0) }
        }

        /// Waits until numbers have arrived through ten cuts.
        func transfer(_ count: Int, _ numbers: EventRecorder<Int>) async throws {
            try await self.cut(10, upTo: count, seed: 1) { numbers.all.count }
            try await self.eventually("all messages arrive") { numbers.all.count >= count }
            expectEqual(numbers.all, Array(0..<count))
            expectEqual(self.hub.counters.reconnects, 0)
            try await expectEqual(self.hub.invoke("ConnId", as: String.self), self.id)
            try await self.eventually("the updates arrive") { self.updates.all == Array(repeating: .resumed, count: 10) }
            self.hub.stop()
        }

        /// Cuts the socket at random points of a transfer, and waits after each cut until the connection is resumed.
        private func cut(_ count: Int, upTo total: Int, seed: UInt64, _ progress: @escaping @Sendable () -> Int) async throws {
            var generator = SplitMix64(seed: seed)
            let points = (0..<count).map { _ in Int.random(in: 0..<total, using: &generator) }.sorted()
            for (number, point) in points.enumerated() {
                try await self.eventually("the transfer proceeds") {
                    progress() >= point && (!self.hasSentAll.all.isEmpty || self.hub.driver.read { $0.waiterCount > 0 })
                }
                self.transport.cut()
                try await self.eventually("the connection is resumed") { self.hub.counters.resumes > number }
            }
        }

        func eventually(_ description: String, _ condition: () -> Bool) async throws {
            try await TestSupport.eventually(description) {
                guard self.hub.connectionID == self.id else { throw ConnectionLost() }
                return condition()
            }
        }
    }

    // Neither a stream to the server nor a method that sends many messages: ASP.NET Core 10 doesn't count the items of a stream that has ended
    // when they are repeated, and ends a connection that is cut repeatedly while a method waits for its messages to be sent.
    @Test(arguments: [HubPair.json, .messagePack])
    func `10,000 messages in each direction arrive once and in order through ten cuts`(pair: HubPair) async throws {
        try await self.exchange(10_000, pair, buffer: 100_000)
    }

    /// The server acknowledges once a second, so the client can send about 1,000 bytes a second: 10,000 messages take ten minutes. These
    /// many are sent with `REALTIME_TEST_SCALE=5000`.
    @Test(arguments: [HubPair.json, .messagePack])
    func `messages arrive once and in order with a buffer of 1,000 bytes`(pair: HubPair) async throws {
        try await self.exchange(max(200, scaled(200)), pair, buffer: 1000)
    }

    /// In this direction, the client decides when to acknowledge, and its buffer doesn't matter.
    @Test(arguments: [HubPair.json, .messagePack])
    func `10,000 messages of another client arrive once and in order with a buffer of 1,000 bytes`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let sender = try await server.connected("/test")
        defer { sender.stop() }
        try await self.repeated {
            let fixture = try await Fixture(server, pair, buffer: 1000)
            let (hub, group) = (fixture.hub, "group of \(fixture.id ?? "")")
            let numbers = Self.record("tick", hub)
            try await hub.invoke("JoinGroup", group)
            async let transfer: Void = fixture.transfer(10_000, numbers)
            // This client sends nothing but acknowledgements.
            fixture.hasSentAll.record(true)
            for number in 0..<10_000 {
                // The server's buffer mustn't be full at a cut: sometimes it then sends nothing any more, although all was acknowledged.
                if number.isMultiple(of: 100) {
                    try await fixture.eventually("the client keeps up") { numbers.all.count + 500 > number }
                }
                try await sender.send("ToGroup", group, "tick", number)
            }
            try await transfer
        }
    }

    /// ASP.NET Core 10 puts an incomplete message that preceded a cut in front of what follows on the next socket. It then reads neither, and
    /// ends the connection. It also forgets some connections that are cut twice in a short time, and closes their sockets with 1000. The
    /// sockets are cut while the client waits, which leaves little chance for both, and a transfer is repeated after them.
    private func repeated(_ transfer: () async throws -> Void) async throws {
        for _ in 0..<4 {
            do {
                return try await transfer()
            } catch let error as HubError where [.closedByServer, .connectionLost, .notConnected].contains(error.code) {
                // The last one if a message follows the loss.
                continue
            } catch is ConnectionLost {
                continue
            }
        }
        try await transfer()
    }

    private func exchange(_ count: Int, _ pair: HubPair, buffer: Int) async throws {
        let server = try await ASPNETServer.shared.value
        try await self.repeated {
            let fixture = try await Fixture(server, pair, buffer: buffer)
            let numbers = Self.record("tick", fixture.hub)
            async let transfer: Void = fixture.transfer(count, numbers)
            for number in 0..<count { try await fixture.hub.send("CallBack", "tick", number) }
            fixture.hasSentAll.record(true)
            try await transfer
        }
    }

    /// Records the numbers that the server sends.
    private static func record(_ method: String, _ hub: HubClient) -> EventRecorder<Int> {
        let numbers = EventRecorder<Int>()
        hub.on(method) { (number: Int) in numbers.record(number) }
        return numbers
    }

    @Test func `results of handlers and cancelled calls survive a cut`() async throws {
        let server = try await ASPNETServer.shared.value
        try await self.repeated {
            let fixture = try await Fixture(server)
            let hub = fixture.hub
            let (asked, answer) = (EventRecorder<Int>(), Waiter<Void>())
            hub.on("ask") { (number: Int) -> Int in
                asked.record(number)
                await answer.value()
                return 2 * number
            }
            async let result = hub.invoke("AskClient", "ask", 21, as: Int.self)
            try await fixture.eventually("the question arrives") { asked.all == [21] }
            fixture.transport.cut()
            try await fixture.eventually("the connection is resumed") { hub.counters.resumes == 1 }
            answer.fulfill(())?.resume()
            try await expectEqual(result, 42)
            expectEqual(asked.all, [21])
            hub.stop()
        }
    }

    @Test func `a close message of the hub isn't followed by a resume`() async throws {
        let server = try await ASPNETServer.shared.value
        let fixture = try await Fixture(server)
        try await server.abort(fixture.hub.connectionID)
        try await eventually { if case .stopped = fixture.hub.state { true } else { false } }
        expectEqual(fixture.hub.counters.resumes, 0)
    }
}
