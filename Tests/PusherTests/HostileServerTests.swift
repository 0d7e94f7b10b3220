import PusherChannels
import PusherServer
import RealtimeTesting
import Testing

/// What a server may do, on purpose or not, that must not bring a client off its way.
@Suite struct HostileServerTests {
    @Test func aPresenceChannelThatIsRefusedLaterHasNoMembersLeft() async throws {
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

    @Test(arguments: ["activityTimeout", "pongTimeout", "connectTimeout", "subscriptionTimeout"])
    func aTimeLimitOfNothingIsNoConfiguration(name: String) async throws {
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
}
