import PusherTestSupport
import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

private struct Price: Codable, Equatable {
    var value: Double
}

/// A value that calls the client while it is decoded. It isn't Sendable.
private final class CuriousValue: Decodable {
    static let client = CodingUserInfoKey(rawValue: "client")!
    let state: String?

    init(from decoder: any Decoder) throws {
        let client = decoder.userInfo[Self.client] as? PusherClient
        client?.disconnect()
        self.state = client?.state.name
    }
}

private struct ApplicationError: Error {
    let text = "hunter2"
}

private struct Failing: Decodable {
    init(from decoder: any Decoder) throws { throw ApplicationError() }
}

/// Sequences of decoded values.
@Suite struct DecodedEventTests {
    private let pusher: InMemoryPusher
    private let client: PusherClient
    private let prices: PusherChannel

    init() async throws {
        self.pusher = try await InMemoryPusher()
        self.client = self.pusher.client()
        self.client.connect()
        self.prices = try self.client.subscribe("prices")
    }

    private func pending(_ events: PusherDecodedEvents<Price>) async -> [Double] {
        events.takeBuffered().map(\.value)
    }

    @Test func `the data of events is decoded in order`() async throws {
        let (onChannel, everywhere) = (self.prices.events("price", as: Price.self), self.client.events("price", as: Price.self))
        try self.client.subscribe("others")
        for number in 1...3 {
            try self.pusher.server.publish("price", to: ["prices", "others"], data: Price(value: Double(number)))
            self.pusher.server.publish("other", to: "prices", data: "not a price")
        }
        await expectEqual(self.pending(onChannel), [1, 2, 3])
        await expectEqual(self.pending(everywhere), [1, 1, 2, 2, 3, 3])
        expectEqual(self.client.counters.decodingFailures, 0)
    }

    @Test(arguments: [
        (#"{"hunter2":1}"#, "the property .value is missing"), (#"{"value":"hunter2"}"#, "a value at .value isn't of type Double"),
        (#"{"value":null}"#, "a value of type Double at .value is missing"), ("hunter2", "invalid JSON at byte 0: unexpected character"),
    ])
    func `an event that cannot be decoded is reported and skipped`(data: String, reason: String) async throws {
        let (events, errors, updates) = (self.prices.events("price", as: Price.self), self.client.errors, self.client.updates())
        self.pusher.server.publish("price", to: "prices", data: data)
        try self.pusher.server.publish("price", to: "prices", data: Price(value: 2))
        // Nothing is decoded until the events are received.
        expectEqual(self.client.counters.decodingFailures, 0)
        await expectEqual(self.pending(events), [2])
        let reported = await errors.pending()
        expectEqual(reported.map(\.code), [.decodingFailed])
        let error = try #require(reported.first)
        expectEqual(error.message, "Cannot decode the event \"price\" on prices as Price: \(reason). The event was skipped.")
        expect(error.cause is DecodingError || error.cause is JSONError)
        expect(!"\(error)".contains("hunter2") && self.client.counters.decodingFailures == 1)
        await expect(updates.pending().contains { if case .error(error) = $0 { true } else { false } })
        expect(self.client.state.name == "connected" && events.dropped == 0)
    }

    @Test func `an event without data is reported`() async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let (events, errors) = (raw.client.events("a", as: Price.self), raw.client.errors)
        raw.server.send(#"{"event":"a"}"#)
        await expect(self.pending(events).isEmpty)
        let reported = await errors.pending()
        expectEqual(reported.map(\.message), [#"Cannot decode the event "a" as Price: it has no data. The event was skipped."#])
        expectEqual((reported.first?.cause as? PusherError)?.code, .noData)
    }

    @Test func `an error of the application is the cause, and not in the message`() async throws {
        let (events, errors) = (self.prices.events("price", as: Failing.self), self.client.errors)
        self.pusher.server.publish("price", to: "prices", data: "{}")
        self.prices.unsubscribe()
        for await _ in events { Issue.record("the value should not be decoded") }
        let error = try #require(await errors.pending().first)
        expect(error.cause is ApplicationError && error.message.contains("ApplicationError") && !"\(error)".contains("hunter2"))
    }

    @Test func `a value may call the client while it is decoded, and need not be Sendable`() async throws {
        var decoder = JSONValueDecoder()
        decoder.userInfo[CuriousValue.client] = self.client
        let events = self.prices.events("price", as: CuriousValue.self, with: decoder)
        self.pusher.server.publish("price", to: "prices", data: "{}")
        let value = await events.first { _ in true }
        expectEqual(value?.state, "disconnected")
    }

    @Test func `a sequence of values is iterated again after its task was cancelled`() async throws {
        let events = self.prices.events("price", as: Price.self)
        let seen = EventRecorder<Double>()
        let first = Task { for await price in events { seen.record(price.value) } }
        try self.pusher.server.publish("price", to: "prices", data: Price(value: 1))
        while seen.all.isEmpty { await Task.yield() }
        first.cancel()
        await first.value
        try self.pusher.server.publish("price", to: "prices", data: Price(value: 2))
        await expect(self.pending(events) == [2] && seen.all == [1])
    }

    @Test func `a second iterator of values takes over from the first, without losing an event`() async throws {
        let events = self.prices.events("price", as: Price.self)
        for number in 1...3 { try self.pusher.server.publish("price", to: "prices", data: Price(value: Double(number))) }
        var first: PusherDecodedEvents<Price>.AsyncIterator? = events.makeAsyncIterator()
        await expectEqual(first?.next()?.value, 1)
        first = nil
        let second = events.makeAsyncIterator()
        await expectEqual(second.next()?.value, 2)
        let third = events.makeAsyncIterator()
        // The second one had taken the event from the buffer before.
        await expectEqual(second.next()?.value, 3)
        await expectNil(second.next())
        try self.pusher.server.publish("price", to: "prices", data: Price(value: 4))
        await expectEqual(third.next()?.value, 4)
    }

    @Test func `a sequence of values has a buffer, drops events and finishes`() async throws {
        let events = self.prices.events("price", as: Price.self, buffer: .dropOldest(2))
        for number in 1...5 { try self.pusher.server.publish("price", to: "prices", data: Price(value: Double(number))) }
        expect(events.dropped == 3 && events.endReason == nil)
        self.prices.unsubscribe()
        var values: [Double] = []
        for await price in events { values.append(price.value) }
        expect(values == [4, 5] && events.endReason == .ended)
    }

    @Test func `a sequence of values does not keep its client alive`() async throws {
        var client: PusherClient? = self.pusher.client()
        client?.connect()
        let events = try #require(client).events("price", as: Price.self)
        expectEqual(self.pusher.server.socketIDs.count, 2)
        client = nil
        expectEqual(self.pusher.server.socketIDs.count, 1)
        await expect(self.pending(events).isEmpty && events.endReason == .ended)
    }

    @Test @MainActor func `values are decoded on the actor of the loop`() async throws {
        @MainActor final class BoardPrice: @MainActor Decodable {
            init(from decoder: any Decoder) throws { MainActor.preconditionIsolated() }
        }
        let events = self.prices.events("price", as: BoardPrice.self)
        self.pusher.server.publish("price", to: "prices", data: "{}")
        self.prices.unsubscribe()
        var count = 0
        for await _ in events { count += 1 }
        expectEqual(count, 1)
    }
}
