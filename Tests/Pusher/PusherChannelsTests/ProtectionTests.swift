import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// An error of the application that refers to one of its channels, and so to the client.
private struct Denied: Error {
    let channel: PusherChannel
}

/// Where the authorizer finds the channel.
private final class ChannelHolder: Sendable {
    private let channel = Lock<PusherChannel?>(nil)

    func set(_ channel: PusherChannel?) { self.channel.withLock { $0 = channel } }
    func get() -> PusherChannel? { self.channel.withLock { $0 } }
}

/// The protection of the application's code and tasks from the client.
@Suite(.timeLimit(.minutes(10))) struct ProtectionTests {
    @Test func `an error that refers to a channel does not keep the client`() async throws {
        let pusher = try await InMemoryPusher()
        let holder = ChannelHolder()
        let gate = Waiter<Void>()
        weak var released: PusherClient?
        do {
            let client = pusher.client { configuration in
                configuration.authorizer = .callback { _ in
                    await gate.value()
                    throw Denied(channel: holder.get()!)
                }
            }
            released = client
            let channel = try client.subscribe("private-orders")
            holder.set(channel)
            client.connect()
            let call = Task { try await channel.subscribed(within: .seconds(30)) }
            try await eventually { client.waiterCount == 1 }
            gate.fulfill(())?.resume()
            let error = await #expect(throws: PusherError.self) { try await call.value }
            // The caller receives the whole error, and the channel's state keeps it without the application's error.
            expect(error?.cause is Denied)
            guard case .failed(let stored) = channel.state else { return expect(false, "the subscription should have failed") }
            expect(stored == error && stored.cause == nil)
            holder.set(nil)
        }
        // The authorizer's task releases its copy of the error.
        while released != nil { await Task.yield() }
        pusher.network.cut()
    }

    @Test(arguments: [BufferPolicy.standard, .pauseReading(1), .dropNewest(1)])
    func `a consumer can wait for a subscription in its loop`(buffer: BufferPolicy) async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let prices = try client.subscribe("prices")
        let events = prices.events(buffer: buffer)
        pusher.server.publish("price", to: "prices", data: "1")
        for await _ in events {
            for number in 2...5 { pusher.server.publish("price", to: "prices", data: "\(number)") }
            try await client.subscribe("other").subscribed(within: .seconds(30))
            break
        }
        expectEqual(pusher.server.subscribers(of: "other").count, 1)
        client.disconnect()
    }
}
