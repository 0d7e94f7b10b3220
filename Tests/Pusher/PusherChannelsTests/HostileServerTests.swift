import PusherTestSupport
import PusherChannels
import PusherServer
import RealtimeCore
import PusherTesting
import RealtimeTesting
import TestSupport
import Testing

/// Behavior of a server, malicious or faulty, that a client must withstand.
@Suite struct HostileServerTests {
    @Test func `frames after an invalid connection_established event are ignored`() async throws {
        let pusher = try await RawPusher(greeting: [
            #"{"event":"pusher:connection_established","data":"{}"}"#,
            #"{"event":"pusher:error","data":{"code":4001,"message":"no such application"}}"#,
            #"{"event":"news","channel":"prices","data":"1"}"#,
        ])
        let events = try pusher.client.subscribe("prices").events()
        pusher.client.connect()
        expectEqual(pusher.client.state, .connecting)
        await expect(events.pending().isEmpty)
        // The error event was ignored too: it would have made the next failure final.
        pusher.network.condition = .down
        pusher.clock.advance(by: .seconds(2))
        expectEqual(pusher.server.accepted, 1)
        expectEqual(pusher.client.state, .connecting)
    }

    private static let long = String(repeating: "x", count: 64 << 10)

    @Test(arguments: [
        #"{"event":"pusher:error","data":{"code":4301,"message":"\#(long)"}}"#, #"{"event":"pusher:error","data":{"message":"\#(long)"}}"#,
        #"{"event":"pusher:error","data":"\#(long)"}"#, #"{"event":"\#(long)","channel":"\#(long)","data":7"#,
        #"{"event":7,"channel":"\#(long)"}"#,
        #"{"event":"pusher_internal:subscription_succeeded","channel":"presence-room","data":"\#(long)"}"#,
        #"{"event":"pusher_internal:member_added","channel":"presence-room","data":"\#(long)"}"#,
        #"{"event":"pusher:subscription_error","channel":"presence-room","data":{"type":"\#(long)","error":"\#(long)","status":403}}"#,
        #"{"event":"pusher:subscription_error","channel":"\#(long)","data":"\#(long)"}"#,
        #"{"event":"pusher:signin_success","data":"\#(long)"}"#, #"{"event":"pusher:\#(long)","data":"\#(long)"}"#, long,
        #"{"event":"pusher_internal:\#(long)","channel":"prices","data":"\#(long)"}"#,
    ])
    func `messages of errors and logs have a limited length, whatever the server sends`(frame: String) async throws {
        let log = EventRecorder<String>()
        let pusher = try await RawPusher(log: LogSink(minimumLevel: .debug) { _, _, message in log.record(message) })
        let room = try pusher.client.subscribe("presence-room")
        let prices = try pusher.client.subscribe("prices")
        let errors = pusher.client.errors
        pusher.client.connect()
        pusher.server.send(frame)
        pusher.server.send(#"{"event":"\#(Self.long)","channel":"prices","data":"{"}"#)
        var texts = await errors.pending().flatMap { [$0.message, ($0.cause as? PusherError)?.message ?? ""] } + log.all
        for channel in [room, prices] { if case .failed(let error) = channel.state { texts.append(error.message) } }
        if case .failed(let error) = pusher.client.state { texts.append(error.message) }
        expect(texts.allSatisfy { $0.utf8.count <= 1_000 })
    }

    @Test func `a presence channel that is rejected later has no members`() async throws {
        let pusher = try await RawPusher()
        let room = try pusher.client.subscribe("presence-room")
        pusher.client.connect()
        expectEqual(room.members.map(\.id), ["me"])
        pusher.server.send(#"{"event":"pusher:subscription_error","channel":"presence-room","data":{"status":403}}"#)
        guard case .failed = room.state else {
            Issue.record("the state is \(room.state)")
            return
        }
        expect(room.members.isEmpty && room.members.me == nil)
    }

    @Test func `a loss that causes an immediate reconnect is reported`() async throws {
        let pusher = try await RawPusher()
        pusher.client.connect()
        let errors = pusher.client.errors
        pusher.server.close(CloseCode(rawValue: 4200), "again, please")
        expect(pusher.client.state.name == "connected" && pusher.server.accepted == 2)
        let losses = await errors.pending()
        expectEqual(losses.map(\.code), [.connectionLost])
        expectEqual(losses.first?.message.contains("again, please"), true)
    }

    @Test(arguments: ["activityTimeout", "pongTimeout", "connectTimeout", "subscriptionTimeout"])
    func `a timeout must be greater than zero`(name: String) async throws {
        let pusher = try await InMemoryPusher()
        for limit in [Duration.zero, .seconds(-1)] {
            let client = pusher.client {
                switch name {
                case "activityTimeout": $0.activityTimeout = limit
                case "pongTimeout": $0.pongTimeout = limit
                case "connectTimeout": $0.connectTimeout = limit
                default: $0.subscriptionTimeout = limit
                }
            }
            client.connect()
            guard case .failed(let error) = client.state else {
                Issue.record("the state is \(client.state)")
                continue
            }
            expect(error.message.contains(name))
        }
    }

    @Test func `calls that begin waiting after a disconnect fail with the next disconnect`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let channel = try client.subscribe("prices")
        client.connect()
        client.disconnect()
        let connected = Task { () -> PusherError.Code? in
            do throws(PusherError) { try await client.connected(within: .seconds(1000)) } catch { return error.code }
            return nil
        }
        let subscribed = Task { () -> PusherError.Code? in
            do throws(PusherError) { try await channel.subscribed(within: .seconds(1000)) } catch { return error.code }
            return nil
        }
        while client.waiterCount < 2 { await Task.yield() }
        client.disconnect()
        expectEqual(client.waiterCount, 0)
        // Ends the calls if the disconnect did not, so that the test does not hang.
        pusher.clock.advance(by: .seconds(1000))
        await expectEqual(connected.value, .disconnected)
        await expectEqual(subscribed.value, .disconnected)
    }
}
