import RealtimeCoding
import PusherChannels
import PusherServer
import PusherTestSupport
import PusherWire
import RealtimeSockets
import TestSupport
import Testing

/// Behavior that differs between sockets and the in-memory network.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct PusherOnAPortTests {
    private func withServer(
        _ profile: PusherServerProfile = .pusher,
        _ body: (PusherServer, (_ key: String, PusherAuthorizer?) -> PusherClient) async throws -> Void
    ) async throws {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        app.profile = profile
        let server = PusherServer(app: app, log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        do {
            try await body(server) { key, authorizer in
                var configuration = PusherConfiguration(key: key, host: address.host, port: address.port, useTLS: false)
                configuration.authorizer = authorizer
                configuration.log = .none
                configuration.allowLongTimes()
                return PusherClient(configuration)
            }
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    /// Reverb's error event is the only place of the code: the close frame has none.
    @Test(arguments: [PusherServerProfile.pusher, .reverb])
    func `a wrong key is rejected with its close code`(profile: PusherServerProfile) async throws {
        try await self.withServer(profile) { _, makeClient in
            let client = makeClient("another", nil)
            client.connect()
            let error = await #expect(throws: PusherError.self) { try await client.connected(within: .seconds(300)) }
            expect(error?.code == .rejected && error?.serverCode == 4001)
        }
    }

    @Test func `the deepest allowed user data fits the stack of an event loop`() async throws {
        let info = #"{"a":"# + String(repeating: "[", count: 499) + String(repeating: "]", count: 499) + "}"
        let channelData = #"{"user_id":"deep","user_info":\#(info)}"#
        try await self.withServer { server, makeClient in
            let client = makeClient(
                "key",
                .callback { request in
                    let auth = ChannelSignature.token(
                        key: "key", secret: "secret", socketID: request.socketID, channel: request.channel, channelData: channelData)
                    return PusherChannelAuthorization(auth: auth, channelData: channelData)
                })
            client.connect()
            let room = try client.subscribe("presence-room")
            try await room.subscribed(within: .seconds(300))
            expectEqual(room.members.map(\.id), ["deep"])
            expectEqual(room.members.me?.info?.description, info)
            client.disconnect()
        }
    }

    #if os(Linux)
    @Test func `a client reports a shortage of descriptors and connects when it has ended`() async {
        await #expect(processExitsWith: .success) {
            // With a loop of its own, so that the first use of the clients' loop is during the shortage.
            let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), time: try EventLoop(), log: .none)
            let address = try await server.start(on: SocketListener(limits: .forTests))
            var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
            configuration.backoff = Backoff(base: .milliseconds(1), cap: .milliseconds(1))
            configuration.log = .none
            configuration.allowLongTimes()
            let client = PusherClient(configuration)
            let errors = client.errors
            let error = await DescriptorShortage.during {
                client.connect()
                return await errors.first { _ in true }
            }
            expect(error?.code == .connectionLost && (error?.cause as? TransportError)?.code == .system)
            _ = try await client.connected(within: .seconds(300))
            expectEqual(server.socketIDs.count, 1)
            client.disconnect()
            await server.stop()
        }
    }
    #endif
}
