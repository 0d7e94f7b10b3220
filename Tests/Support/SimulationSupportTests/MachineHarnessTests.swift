import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// A harness for tests of the line protocol, as a new protocol would begin.
private struct LineHarness: TextHarness {
    var trial: MachineTrial<LineSession>

    init(_ mistake: LineSession.Mistake = .none, logLevel: LogSink.Level = .error) {
        self.trial = MachineTrial(LineSession(mistake, seed: 1), logLevel: logLevel) { $0.subscribe($1, &$2) }
    }

    /// Describes events and results, which are strings as well.
    func text(of event: String) -> String { event == "hidden" ? "" : "event \(event)" }

    @discardableResult
    mutating func request(_ key: String, _ waiter: UInt64) -> [String] {
        self.step { session, _, effects in session.request(key, WaiterID(rawValue: waiter), &effects) }
    }
}

@Suite struct MachineHarnessTests {
    private static func connected(_ mistake: LineSession.Mistake = .none) -> LineHarness {
        var harness = LineHarness(mistake)
        harness.start()
        harness.opened(harness.connection)
        harness.receive("hello")
        return harness
    }

    @Test func `inputs return the events and then the commands as lines`() {
        var harness = LineHarness()
        expectEqual(harness.start(), ["open #1 ws://line/"])
        expect(harness.opened(harness.connection) == [] && harness.receive("hello") == [])
        expectEqual(harness.request("a", 7), ["#1 ? a"])
        expectEqual(harness.receive("= a", "news", "hidden", "sports"), ["event news", "event sports", "resume 7 event a"])
        expectEqual(harness.events, ["news", "hidden", "sports"])
        expect(harness.takeEvents() == ["news", "hidden", "sports"] && harness.events == [])
        harness.request("b", 8)
        expectEqual(harness.stop(), ["close #1 1000", "fail 8 ended", "finish"])
        expectEqual(harness.close(.requested), [])
    }

    @Test func `all commands have lines, except for log messages, which are recorded`() {
        var harness = LineHarness(logLevel: .info)
        let id = ConnectionID(rawValue: 3)
        let lines = harness.step { _, _, effects in
            effects.commands += [
                .abandon(id), .cancel(WorkID(rawValue: 2)), .endConsumers([], .ended), .send(id, TransportMessage(.ping, [])),
            ]
            effects.commands += [.send(id, TransportMessage(.binary, [1, 2])), .endConsumers([ConsumerID(rawValue: 8)], .ended)]
            effects.log(.info, "information")
            effects.log(.debug, "below the level")
        }
        expectEqual(lines, ["abandon #3", "cancel 2", "#3 ping", "#3 2 bytes", "end 8"])
        expectEqual(harness.logged, ["information"])
    }

    @Test func `events of other consumers are separate`() {
        var harness = Self.connected()
        harness.step { $0.subscribe(ConsumerID(rawValue: 5), &$2) }
        expectEqual(harness.receive("one"), ["event one"])
        expect(harness.take() == [5: ["event one"]] && harness.take() == [:])
        harness.step { _, _, effects in effects.commands.append(.endConsumers([ConsumerID(rawValue: 5)], .ended)) }
        expect(harness.receive("two") == ["event two"] && harness.take() == [:])
    }

    @Test func `time advances from deadline to deadline`() {
        var harness = Self.connected()
        expectEqual(harness.advance(by: .seconds(59)), [])
        expectEqual(harness.advance(by: .seconds(1)), ["#1 ."])
        expectEqual(harness.now, Instant(nanoseconds: 60_000_000_000))
        expectEqual(harness.advance(by: .seconds(30)).first, "abandon #1")
        expectEqual(harness.now, Instant(nanoseconds: 90_000_000_000))
    }

    @Test func `a deadline that stays is found`() {
        var harness = Self.connected(.setsDeadlineInThePast)
        harness.receive("1", "2", "3", "4")
        withKnownIssue {
            harness.advance(by: .seconds(1))
        } matching: {
            $0.comments.contains { $0.rawValue.contains("the driver would call timeout forever") }
        }
    }
}

@Suite struct RawConnectionTests {
    /// A server that repeats what it receives.
    private final class Echo: AcceptingHandler, MessageEvents {
        let connections = RawConnections()

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {}
        func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }
        func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
            self.connections.accepted(connection, id: id)
            return self
        }
        func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.connections.send([.text("hello")]) }
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { self.connections.send(batch.messages) }
        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.connections.closed(id, reason) }
    }

    @Test func `a raw client and raw connections of a server exchange messages until one side ends`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let echo = Echo()
        let address = try await network.listener().start(echo)
        let received = EventRecorder<String>()
        var socket: RawSocket? = RawSocket(network.webSocket, address, "/") { received.record(String(decoding: $0.bytes, as: UTF8.self)) }
        socket?.send([.text("a"), .text("b")])
        expect(received.all == ["hello", "a", "b"] && echo.connections.count == 1)
        echo.connections.close(.goingAway, "bye")
        expect(socket?.endings.all == [.peer(.goingAway, "bye")] && echo.connections.count == 0)
        socket = RawSocket(network.webSocket, address, "/") { _ in }
        expect(echo.connections.accepted == 2 && echo.connections.ends.all.count == 1)
        // Releasing the client ends the connection.
        socket = nil
        expect(echo.connections.count == 0 && echo.connections.ends.all.count == 2)
    }
}
