import Foundation
import PusherServer
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

/// Calls all methods on eight threads, while the server cuts connections. Run it with ThreadSanitizer.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct PusherSwiftStressTests {
    private static let channels = ["one", "private-one", "presence-one"]

    private final class CallingDelegate: PusherDelegate {
        func debugLog(message: String) {}
        func subscribedToChannel(name: String) {}
        func changedConnectionState(from old: ConnectionState, to new: ConnectionState) {}
    }

    private static func act(_ pusher: Pusher, _ server: PusherServer, _ generator: inout SplitMix64) {
        let name = Self.channels.randomElement(using: &generator) ?? "one"
        switch Int.random(in: 0..<17, using: &generator) {
        case 0...3: pusher.connect()
        case 4: pusher.disconnect()
        case 5...6: pusher.subscribe(name)
        case 7: pusher.unsubscribe(name)
        case 8: pusher.connection.channels.find(name: name)?.trigger(eventName: "client-a", data: ["a": 1])
        case 9: if let id = pusher.connection.socketId { server.drop(id) }
        case 10: if let id = pusher.connection.socketId { server.close(id, CloseCode(rawValue: 4200)) }
        case 11: server.publish("a", to: name, data: #"{"x":1}"#)
        case 12:
            let channel = pusher.subscribe(name)
            let id = channel.bind(eventName: "a") { [weak pusher] _ in pusher?.subscribe("one") }
            if Bool.random(using: &generator) { channel.unbind(eventName: "a", callbackId: id) }
        case 13:
            let id = pusher.bind { [weak pusher] _ in _ = pusher?.connection.connectionState }
            pusher.unbind(callbackId: id)
        case 14:
            pusher.delegate = CallingDelegate()
            pusher.connection.reconnectAttemptsMax = Bool.random(using: &generator) ? nil : 100
        case 15: pusher.connection.channels.find(name: name)?.unbindAll()
        default:
            _ = pusher.connection.channels.findPresence(name: "presence-one")?.members
            pusher.connection.bind("state_change") { _ in }
            pusher.connection.unbindAll()
        }
    }

    @Test func `any method can be called on any thread at any time, and the client works afterwards`() async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let options = PusherClientOptions(
            authMethod: .inline(secret: "secret"), host: .host(address.host), port: address.port, useTLS: false)
        let pusher = Pusher(key: "key", options: options)
        let seed = chosenSeed ?? UInt64.random(in: .min ... .max)
        // For half a minute, set REALTIME_TEST_SCALE to 1000.
        let duration = Duration.milliseconds(max(3000, scaled(3000)))
        let end = ContinuousClock.now + duration
        await withTaskGroup { group in
            for number in 0..<UInt64(8) {
                group.addTask {
                    try? await onOwnThread {
                        var generator = SplitMix64(seed: seed &* 100 &+ number)
                        while ContinuousClock.now < end { for _ in 0..<10 { Self.act(pusher, server, &generator) } }
                    }
                }
            }
        }
        pusher.disconnect()
        pusher.unbindAll()
        pusher.unsubscribeAll()
        pusher.connection.reconnectAttemptsMax = nil
        pusher.connect()
        let data = EventRecorder<String?>()
        let room = pusher.subscribeToPresenceChannel(channelName: "presence-one")
        room.bind(eventName: "last") { data.record($0.data) }
        try await eventually(replay(seed)) { room.subscribed && pusher.connection.connectionState == .connected }
        server.publish("last", to: "presence-one", data: "1")
        try await eventually(replay(seed)) { data.all == ["1"] }
        // The member of the last connection may still be leaving.
        try await eventually(replay(seed)) { room.members.count == 1 }
        pusher.disconnect()
        await server.stop()
    }
}
