import PusherChannels
import PusherServer
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

/// The client of PusherChannels below a client of PusherSwift.
@MainActor @Suite struct UnderlyingClientTests {
    @Test func `both clients have the same connection, and each has channels of its own`() async throws {
        let memory = try await InMemory()
        let (pusher, delegate, names) = (memory.pusher(), RecordingDelegate(), EventRecorder<String>())
        pusher.delegate = delegate
        pusher.bind { names.record("\($0.eventName)") }
        let own = pusher.subscribe("private-own")
        // The method of the options authorizes it.
        let other = try pusher.client.subscribe("private-other")
        let events = other.events("price")
        pusher.client.connect()
        await settle()
        expect(pusher.client.socketID != nil && pusher.client.socketID == pusher.connection.socketId)
        expect(own.subscribed)
        try #require(other.state == .subscribed)
        memory.server.publish("price", to: "private-other", data: "1")
        await expectEqual(events.first { _ in true }?.data, "1")
        await settle()
        expect(!names.all.contains("price") && !delegate.calls.all.contains { $0.contains("private-other") })
        expectEqual(Array(pusher.connection.channels.channels.keys), ["private-own"])
        pusher.client.disconnect()
        await settle()
        expect(pusher.connection.connectionState == .disconnected && delegate.states.last?.hasSuffix("disconnected") == true)
    }

    @Test func `a channel of the other client that isn't authorized tells why`() async throws {
        let memory = try await InMemory()
        let (pusher, delegate) = (memory.pusher(memory.options(.noMethod)), RecordingDelegate())
        pusher.delegate = delegate
        let channel = try pusher.client.subscribe("private-other")
        pusher.connect()
        await settle()
        guard case .failed(let error) = channel.state else { return expect(false, "\(channel.state)") }
        expect(error.message.contains("Authentication method required"))
        expect(!delegate.calls.all.contains { $0.hasPrefix("failed") })
    }
}
