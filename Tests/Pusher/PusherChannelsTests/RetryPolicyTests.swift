import PusherTesting
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// The policy for reconnects.
@Suite struct RetryPolicyTests {
    private static let gaveUp = ["state disconnected connectionLost", "error connectionLost", "finish"]
    private static let reset = CloseReason.transport(TransportError(.reset, "reset"))

    private func asking(_ channels: String...) -> SessionHarness {
        var harness = SessionHarness { $0.retry = .custom { _ in .zero } }
        for channel in channels { harness.subscribe(channel) }
        harness.start()
        harness.establish()
        return harness
    }

    @Test(arguments: [reset, .peer(.goingAway, ""), .peer(CloseCode(rawValue: 4200), ""), .peer(CloseCode(rawValue: 4100), "")])
    func `without retries, every loss ends the client with its reason`(_ reason: CloseReason) {
        var harness = SessionHarness.connected { $0.retry = .none }
        expectEqual(harness.awaitEnd(9), [])
        let lines = harness.close(reason)
        expectEqual(lines, ["state disconnected connectionLost", "error connectionLost", "fail 9 connectionLost", "finish"])
        guard case .disconnected(let error?) = harness.session.state else { return expect(false, "no error") }
        expect(error.message.hasPrefix("Connection to ws://host lost: ") && error.message.contains("retry policy"))
        expectEqual(harness.start(), ["state connecting", "open #2 ws://host/app/key"])
    }

    @Test func `a first attempt that fails counts like a loss`() {
        var harness = SessionHarness { $0.retry = .none }
        harness.start()
        expectEqual(harness.close(Self.reset), Self.gaveUp)
    }

    @Test func `delays are used in their order, and the client stops after the last one`() {
        var harness = SessionHarness.connected { $0.retry = .delays([.zero, .seconds(7)]) }
        expectEqual(harness.close(Self.reset), ["state connecting", "error connectionLost", "retry"])
        expectEqual(harness.advance(by: .nanoseconds(1)), ["open #2 ws://host/app/key"])
        expectEqual(harness.close(Self.reset), ["error connectionLost", "retry after a second or more"])
        expectEqual(harness.session.nextAttempt, harness.now.advanced(by: .seconds(7)))
        harness.advance(by: .seconds(7))
        expectEqual(harness.close(Self.reset), Self.gaveUp)
    }

    @Test func `delays begin again after a stable connection and after a call`() {
        var harness = SessionHarness.connected { $0.retry = .delays([.seconds(1)]) }
        for _ in 1...3 {
            harness.close(Self.reset)
            harness.advance(by: .seconds(1))
            harness.establish()
            harness.advance(by: .seconds(30))
        }
        harness.close(Self.reset)
        harness.advance(by: .seconds(1))
        harness.establish()
        harness.advance(by: .seconds(29))
        expectEqual(harness.close(Self.reset), Self.gaveUp)
        harness.start()
        expectEqual(harness.close(Self.reset).last, "retry after a second or more")
        harness.step { $0.checkConnection(now: $1, &$2) }
        expectEqual(harness.close(Self.reset).last, "retry after a second or more")
    }

    @Test(arguments: [.normal, CloseCode(rawValue: 4000), CloseCode(rawValue: 4200)])
    func `the server's response to a disconnect isn't an attempt that failed`(code: CloseCode) {
        var harness = SessionHarness.connected { $0.retry = .delays([.seconds(1)]) }
        harness.stop()
        expectEqual(harness.close(.peer(code, "")), [])
        expectEqual(harness.start(), ["state connecting", "open #2 ws://host/app/key"])
        expectEqual(harness.close(Self.reset).last, "retry after a second or more")

        var custom = self.asking()
        custom.stop()
        expectEqual(custom.close(.peer(code, "")), [])
        custom.start()
        expectEqual(custom.close(Self.reset).last, "ask 1 after 0 in 0.0 seconds")
    }

    @Test func `a server over capacity is given at least a second`() {
        var harness = SessionHarness.connected { $0.retry = .delays([.zero]) }
        harness.close(.peer(CloseCode(rawValue: 4100), ""))
        expectEqual(harness.session.nextAttempt, harness.now.advanced(by: .seconds(1)))
        var custom = self.asking()
        custom.close(.peer(CloseCode(rawValue: 4100), ""))
        custom.decide(1, .milliseconds(10))
        expectEqual(custom.session.nextAttempt, custom.now.advanced(by: .seconds(1)))
    }

    @Test func `the policy is asked neither after a rejection nor about TLS`() {
        var rejected = self.asking()
        expectEqual(rejected.close(.peer(CloseCode(rawValue: 4001), "")), ["state disconnected rejected", "error rejected", "finish"])
        var insecure = self.asking()
        expectEqual(insecure.close(.peer(CloseCode(rawValue: 4000), "")).last, "open #2 wss://host/app/key")
        var impossible = self.asking()
        expectEqual(impossible.close(.transport(TransportError(.tlsUnavailable, "It failed."))).first, "state failed failed")
    }

    @Test func `a policy of the user receives the attempts, the time and the reason`() {
        var harness = self.asking()
        expectEqual(harness.close(Self.reset), ["state connecting", "error connectionLost", "ask 1 after 0 in 0.0 seconds"])
        expectNil(harness.session.nextAttempt)
        expectEqual(harness.decide(1, .seconds(3)), ["retry after a second or more"])
        expectEqual(harness.advance(by: .seconds(3)), ["open #2 ws://host/app/key"])
        expectEqual(harness.close(Self.reset), ["error connectionLost", "ask 2 after 1 in 3.0 seconds"])
        expectEqual(harness.decide(2, nil), Self.gaveUp)
        expectNil(harness.session.nextDeadline)
    }

    @Test func `a policy may take its time`() {
        var harness = self.asking()
        harness.close(Self.reset)
        expectEqual(harness.advance(by: .seconds(100_000)), ["state unavailable"])
        expectEqual(harness.decide(1, .seconds(-5)), ["retry"])
        expectEqual(harness.advance(by: .nanoseconds(1)), ["open #2 ws://host/app/key"])
        expectEqual(harness.establish(), ["state connected"])
    }

    @Test func `disconnecting doesn't wait for the policy, whose late answer is ignored`() {
        var harness = self.asking()
        harness.close(Self.reset)
        expectEqual(harness.awaitEnd(9), [])
        expectEqual(harness.stop(), ["state disconnected", "cancel 1", "resume 9", "finish"])
        expectEqual(harness.decide(1, .zero), [])
        expectEqual(harness.start(), ["state connecting", "open #2 ws://host/app/key"])
        expectEqual(harness.decide(1, nil), [])
    }

    @Test func `connecting, a check and a switch end the wait for the policy`() {
        let calls: [(inout SessionHarness) -> [String]] = [
            { $0.start() }, { $0.step { $0.checkConnection(now: $1, &$2) } }, { $0.switchServer { _ in } },
        ]
        for call in calls {
            var harness = self.asking()
            harness.close(Self.reset)
            expectEqual(call(&harness), ["cancel 1", "open #2 ws://host/app/key"])
            expectEqual(harness.decide(1, nil), [])
            harness.close(Self.reset)
            expectEqual(harness.decide(1, nil), [])
            expectEqual(harness.decide(2, .seconds(2)), ["retry after a second or more"])
        }
    }

    @Test func `when the policy stops, what depends on the client ends`() {
        var harness = self.asking("presence-room")
        harness.authorize(1, channelData: #"{"user_id":"anna"}"#)
        harness.confirm("presence-room", data: #"{"presence":{"ids":["anna"],"hash":{"anna":{}},"count":1}}"#)
        harness.close(Self.reset)
        expectEqual(harness.session.channels["presence-room"]?.members.count, 1)
        expect(harness.awaitConnected(7) == [] && harness.awaitSubscribed(8, "presence-room") == [])
        let lines = harness.decide(2, nil)
        expect(lines.contains("fail 7 connectionLost") && lines.contains("fail 8 connectionLost"))
        expectEqual(harness.session.channels["presence-room"]?.members.isEmpty, true)
        expectEqual(harness.awaitConnected(10), ["fail 10 connectionLost"])
    }

    // MARK: The client

    @Test func `a closure decides about each attempt`() async throws {
        let pusher = try await InMemoryPusher()
        let contexts = EventRecorder<PusherRetryContext>()
        let client = pusher.client {
            $0.retry = .custom { context in
                contexts.record(context)
                return context.retryCount < 2 ? .seconds(1) : nil
            }
        }
        client.connect()
        pusher.network.condition = .down
        pusher.network.cut()
        for count in 1...2 {
            try await eventually { client.reconnectDelay != nil }
            expectEqual(contexts.all.count, count)
            pusher.clock.advance(by: .seconds(1))
        }
        try await eventually { client.state.isFinal }
        let error = await #expect(throws: PusherError.self) { try await client.connected() }
        expectEqual(error?.code, .connectionLost)
        expect(contexts.all.map(\.retryCount) == [0, 1, 2] && contexts.all.map(\.elapsed) == [.zero, .seconds(1), .seconds(2)])
        expect(contexts.all.allSatisfy { $0.reason.code == .connectionLost })
        pusher.network.condition = .up
        client.connect()
        expectEqual(client.state.name, "connected")
    }

    @Test func `a closure that doesn't answer delays neither disconnecting nor connecting, and its late answer is ignored`() async throws {
        let pusher = try await InMemoryPusher()
        let (started, release, answered) = (Signal(), Signal(), Signal())
        var client: PusherClient? = pusher.client {
            $0.retry = .custom { _ in
                started.send()
                // A task of its own, which isn't cancelled with that of the closure.
                await Task { await release.wait() }.value
                answered.send()
                return nil
            }
        }
        client?.connect()
        pusher.network.cut()
        await started.wait()
        expect(client?.state == .connecting && client?.reconnectDelay == nil)
        client?.disconnect()
        expectEqual(client?.state, .disconnected(nil))
        client?.connect()
        expectEqual(client?.state.name, "connected")
        release.send()
        await answered.wait()
        expectEqual(client?.state.name, "connected")
        client = nil
        expect(pusher.server.socketIDs.isEmpty)
    }

    @Test func `disconnecting cancels the task of the closure`() async throws {
        let pusher = try await InMemoryPusher()
        let (started, cancelled) = (Signal(), Signal())
        let client = pusher.client {
            $0.retry = .custom { _ in
                started.send()
                // Returns when the task is cancelled.
                await Signal().wait()
                cancelled.send()
                return .zero
            }
        }
        client.connect()
        pusher.network.cut()
        await started.wait()
        client.disconnect()
        await cancelled.wait()
        expectEqual(client.state, .disconnected(nil))
    }
}
