import PusherChannels
import PusherServer
import RealtimeTesting
import TestSupport
import Testing

/// What a server may do, on purpose or not, that must not bring a client off its way.
@Suite struct HostileServerTests {
    @Test func `what follows a greeting that cannot be used belongs to no connection`() async throws {
        let pusher = try await RawPusher(greeting: [
            #"{"event":"pusher:connection_established","data":"{}"}"#,
            #"{"event":"pusher:error","data":{"code":4001,"message":"no such application"}}"#,
            #"{"event":"news","channel":"prices","data":"1"}"#,
        ])
        let events = try pusher.client.subscribe("prices").events()
        pusher.client.connect()
        #expect(pusher.client.state == .connecting)
        #expect(await events.pending().isEmpty)
        // The next attempt fails for a reason of its own, which is not that of the error before it.
        pusher.network.condition = .down
        pusher.clock.advance(by: .seconds(2))
        #expect(pusher.server.accepted == 1)
        #expect(pusher.client.state == .connecting)
    }

    @Test func `a presence channel that is refused later has no members left`() async throws {
        let pusher = try await RawPusher()
        let room = try pusher.client.subscribe("presence-room")
        pusher.client.connect()
        #expect(room.members.map(\.id) == ["me"])
        pusher.server.send(#"{"event":"pusher:subscription_error","channel":"presence-room","data":{"status":403}}"#)
        guard case .failed = room.state else {
            Issue.record("the state is \(room.state)")
            return
        }
        #expect(room.members.isEmpty && room.members.me == nil)
    }

    @Test func `a loss that is mended at once is told of too`() async throws {
        let pusher = try await RawPusher()
        pusher.client.connect()
        let errors = pusher.client.errors
        pusher.server.close(CloseCode(rawValue: 4200), "again, please")
        #expect(pusher.client.state.name == "connected" && pusher.server.accepted == 2)
        let lost = await errors.pending()
        #expect(lost.map(\.code) == [.connectionLost])
        #expect(lost.first?.message.contains("again, please") == true)
    }

    @Test(arguments: ["activityTimeout", "pongTimeout", "connectTimeout", "subscriptionTimeout"])
    func `a time limit of nothing is no configuration`(name: String) async throws {
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
            #expect(error.message.contains(name))
        }
    }

    @Test func `who waits after a disconnect is answered by the next`() async throws {
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
        #expect(client.waiterCount == 0)
        // Whatever came of that, nobody is left waiting here.
        pusher.clock.advance(by: .seconds(1000))
        #expect(await connected.value == .disconnected)
        #expect(await subscribed.value == .disconnected)
    }
}
