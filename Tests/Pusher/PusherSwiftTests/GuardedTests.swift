import Foundation
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

/// Values under a lock, and the objects of the app in them.
@Suite(.timeLimit(.minutes(10))) struct GuardedTests {
    @Test func `a value is changed in place`() {
        let guarded = Guarded([1])
        guarded.mutate { $0.reserveCapacity(100) }
        func address() -> UInt { guarded.mutate { $0.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) } } }
        let before = address()
        for number in 2...50 { guarded.mutate { $0.append(number) } }
        expect(address() == before && guarded.read { $0.count } == 50)
        guarded.set(\.[0], to: 7)
        expect(address() == before && guarded.value.first == 7)
    }

    @Test func `the cost of binding handlers is linear`() async throws {
        try await expectLinearCost { count in
            let connection = PusherConnection(
                key: "key", socket: MockSocket(), url: "ws://host", options: PusherClientOptions())
            let channel = PusherChannel(name: "c", connection: connection)
            return { for _ in 0..<count { channel.bind(eventName: "e") { _ in } } }
        }
    }

    /// Calls the channel when it is released, as objects of an app may do.
    private final class Caller: Sendable {
        private let onEnd: @Sendable () -> Void

        init(_ onEnd: @escaping @Sendable () -> Void) { self.onEnd = onEnd }

        deinit { self.onEnd() }
    }

    @Test func `what a channel releases can call the channel`() {
        let connection = PusherConnection(key: "key", socket: MockSocket(), url: "ws://host", options: PusherClientOptions())
        connection.createGlobalChannel()
        let channel = PusherPresenceChannel(
            name: "presence-c", connection: connection, auth: nil, onMemberAdded: nil, onMemberRemoved: nil,
            onSubscriptionCountChanged: nil)
        let ended = EventRecorder<Void>()
        func caller() -> Caller {
            Caller { [weak channel, weak connection] in
                ended.record(())
                _ = channel?.subscribed
                _ = channel?.members
                _ = connection?.globalChannel.globalCallbacks
                _ = connection?.channels.channels
            }
        }
        func bind() -> String {
            let caller = caller()
            return channel.bind(eventName: "e") { _ in withExtendedLifetime(caller) {} }
        }
        func bindGlobal() -> String {
            let caller = caller()
            return connection.globalChannel.add { (_: PusherEvent) in withExtendedLifetime(caller) {} }
        }
        channel.unbind(eventName: "e", callbackId: bind())
        expectEqual(ended.take().count, 1)
        _ = bind()
        channel.unbindAll(forEventName: "e")
        expectEqual(ended.take().count, 1)
        _ = bind()
        channel.unbindAll()
        expectEqual(ended.take().count, 1)
        _ = bind()
        channel.eventHandlers = [:]
        expectEqual(ended.take().count, 1)
        connection.globalChannel.remove(bindGlobal())
        expectEqual(ended.take().count, 1)
        _ = bindGlobal()
        connection.globalChannel.unbindAll()
        expectEqual(ended.take().count, 1)
        channel.onMemberAdded = { [caller = caller()] _ in withExtendedLifetime(caller) {} }
        channel.onMemberAdded = nil
        channel.trigger(eventName: "client-e", data: caller())
        channel.unsentEvents = []
        channel.add(PusherPresenceChannelMember(userId: "1", userInfo: caller()))
        channel.remove(userID: "1")
        channel.members = [PusherPresenceChannelMember(userId: "1", userInfo: caller())]
        channel.members = []
        expectEqual(ended.take().count, 4)
        connection.channels.channels = ["c": PusherChannel(name: "c", connection: connection) { [caller = caller()] _ in _ = caller }]
        _ = connection.channels.remove(name: "c")
        expectEqual(ended.take().count, 1)
    }
}
