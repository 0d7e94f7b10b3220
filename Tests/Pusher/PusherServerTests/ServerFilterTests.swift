@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import TestSupport
import Testing

/// Filters and deltas of the server's machine, and tags in its HTTP API.
@Suite struct ServerFilterTests {
    private func server(_ change: (inout PusherApp) -> Void = { _ in }) -> ServerUnderTest {
        ServerUnderTest {
            $0.allowsFilters = true
            $0.allowsDeltaCompression = true
            change(&$0)
        }
    }

    private static let eu = PusherFilter.equals("r", "eu")

    private func publish(
        _ server: inout ServerUnderTest, _ tags: [String: String], to channel: String = "a", data: String = "1"
    ) -> [ServerCommand] {
        server.step { $0.publish("tick", to: channel, data: data, tags: EventTags(tags), now: $1, &$2) }
    }

    private func receivers(_ commands: [ServerCommand]) -> [Int] {
        commands.compactMap { if case .send(let id, _) = $0 { id } else { nil } }
    }

    @Test func `the filter of a subscription is replaced and removed by another one`() {
        var server = self.server()
        for number in 1...2 { server.connect(number, version: 2) }
        server.subscribe(2, "a")
        expectEqual(server.received(1, PusherFrames.subscribe("a", filter: Self.eu)).map(\.summary), ["subscription_succeeded"])
        expectEqual(self.receivers(self.publish(&server, ["r": "us"])), [2])
        expectEqual(self.receivers(self.publish(&server, ["r": "eu"])), [2, 1])
        expectEqual(self.receivers(self.publish(&server, [:])), [2])
        expectEqual(server.received(1, PusherFrames.subscribe("a", filter: .equals("r", "us"))).map(\.summary), ["subscription_succeeded"])
        expectEqual(self.receivers(self.publish(&server, ["r": "us"])), [2, 1])
        expectEqual(server.received(1, PusherFrames.subscribe("a")).map(\.summary), ["subscription_succeeded"])
        expectEqual(self.receivers(self.publish(&server, [:])), [2, 1])
        // The order of the subscribers stays.
        server.unsubscribe(1, "a")
        expectEqual(self.receivers(self.publish(&server, [:])), [2])
        expectEqual(server.subscribers(of: "a"), [ConnectionID(2)])
    }

    @Test func `a hook decides about a subscription with a filter`() {
        var hooks = PusherServerMachine.Hooks()
        hooks.subscriptions = true
        var server = ServerUnderTest(hooks: hooks) { $0.allowsFilters = true }
        server.connect(1, version: 2)
        server.received(1, PusherFrames.subscribe("a", filter: Self.eu))
        expectEqual(server.received(1, PusherFrames.subscribe("a")).map(\.summary), ["error null"])
        server.decide(.accept)
        expectEqual(self.receivers(self.publish(&server, ["r": "us"])), [])
        expectEqual(self.receivers(self.publish(&server, ["r": "eu"])), [1])
    }

    @Test func `filters are rejected that are invalid, not allowed, or on a presence channel`() {
        var server = self.server()
        server.connect(1, version: 2)
        for filter in ["7", "[]", #"{"key":"a","cmp":"xx"}"#, #"{"op":"and","nodes":[]}"#] {
            let lines = server.received(1, .text(#"{"event":"pusher:subscribe","data":{"channel":"a","filter":\#(filter)}}"#))
            expectEqual(lines.map(\.summary), ["error null"], "\(filter)")
        }
        expectEqual(server.subscribers(of: "a"), [])
        let auth = ChannelSignature.token(
            key: "key", secret: "secret", socketID: server.socketID(1), channel: "presence-a", channelData: #"{"user_id":"1"}"#)
        let presence = PusherFrames.subscribe("presence-a", auth: auth, channelData: #"{"user_id":"1"}"#, filter: Self.eu)
        expectEqual(server.received(1, presence).map(\.summary), ["error null"])
        // The older name of the member, and none.
        let older = #"{"event":"pusher:subscribe","data":{"channel":"a","tags_filter":\#(Self.eu)}}"#
        expectEqual(server.received(1, .text(older)).map(\.summary), ["subscription_succeeded"])
        expectEqual(self.receivers(self.publish(&server, ["r": "us"])), [])
        expectEqual(server.received(1, .text(#"{"event":"pusher:subscribe","data":{"channel":"a","filter":null}}"#)).count, 1)
        expectEqual(self.receivers(self.publish(&server, ["r": "us"])), [1])
        // With version 7, filters are ignored, as by sockudo.
        server.connect(2)
        expectEqual(server.received(2, PusherFrames.subscribe("a", filter: Self.eu)).map(\.summary), ["subscription_succeeded"])
        expectEqual(self.receivers(self.publish(&server, ["r": "us"])), [1, 2])
        expectEqual(server.received(2, PusherFrames.subscribe("a", filter: Self.eu)).map(\.summary), ["error null"])

        var without = ServerUnderTest { $0.allowsDeltaCompression = true }
        without.connect(1, version: 2)
        expectEqual(without.received(1, PusherFrames.subscribe("a", filter: Self.eu)).map(\.summary), ["error null"])
    }

    @Test func `tags are part of the events of version 2`() {
        var server = self.server()
        server.connect(1, version: 2)
        server.connect(2)
        for number in 1...2 { server.subscribe(number, "a") }
        expectEqual(
            self.publish(&server, ["b": "2", "a": "1"]),
            [
                .send(1, #"{"event":"tick","channel":"a","data":"1","tags":{"a":"1","b":"2"}}"#),
                .send(2, #"{"event":"tick","channel":"a","data":"1"}"#),
            ])
    }

    @Test func `deltas are sent on request, until the client can't apply one`() {
        var server = self.server()
        server.connect(1, version: 2)
        server.connect(2)
        let request = PusherFrames.enableDeltaCompression
        expectEqual(server.received(1, request).map(\.summary), ["delta_compression_enabled"])
        expectEqual(server.received(2, request).map(\.summary), ["delta_compression_enabled"])
        for number in 1...2 {
            server.subscribe(number, "a")
            server.subscribe(number, "b")
        }
        func names(_ channel: String, _ count: Int) -> [String] {
            (0..<count).map { _ in self.publish(&server, [:], to: channel, data: "a text that stays the same").first?.summary ?? "" }
        }
        expectEqual(names("a", 4), ["tick", "tick", "delta", "delta"])
        expectEqual(names("b", 3), ["tick", "tick", "delta"])
        // An error about one channel.
        expectEqual(server.received(1, PusherFrames.deltaSyncError("a")), [])
        expect(names("a", 3) == ["tick", "tick", "delta"] && names("b", 1) == ["delta"])
        server.unsubscribe(1, "a")
        server.subscribe(1, "a")
        // The other connection is the first subscriber now.
        expectEqual(self.publish(&server, [:], to: "a", data: "1").map(\.summary), ["tick", "tick"])
        for frame in [#"{"event":"pusher:delta_sync_error","data":{}}"#, #"{"event":"pusher:delta_sync_error"}"#] {
            expectEqual(server.received(1, .text(frame)).map(\.summary), ["error 4200"])
        }
    }

    @Test func `subscribers who know the same event receive the same delta`() throws {
        typealias Event = PusherServerMachine.CompressibleEvent
        func message(_ number: Int) -> TransportMessage {
            PusherFrames.event("tick", channel: "a", data: "a text that stays the same: \(number)")
        }
        func address(_ message: TransportMessage) -> UnsafePointer<UInt8>? { message.bytes.withUnsafeBufferPointer { $0.baseAddress } }
        // Two have received all events, one begins later, and the others have received different ones.
        var bases = [DeltaBases](repeating: DeltaBases(), count: 20)
        for number in 0..<20 {
            var event = Event(message(number), "tick", on: "a")
            for index in bases.indices where index < 2 || number > 5 && index == 2 || number % 18 + 3 == index || number + 3 == index {
                _ = event.frame(&bases[index])
            }
        }
        for index in 5..<20 {
            // A number of events of its own, so that the next one is a delta.
            for number in 0..<3 {
                var event = Event(message(100 * index + number), "tick", on: "a")
                _ = event.frame(&bases[index])
            }
        }
        var event = Event(message(7), "tick", on: "a")
        let known = bases.map { $0.base("tick", group: "a") }
        let frames = bases.indices.map { event.frame(&bases[$0]) }
        let later = bases.indices.map { bases[$0].base("tick", group: "a")?.text }
        expect(later.allSatisfy { $0 == message(7).bytes })
        expect(address(frames[0]) == address(frames[1]) && address(frames[0]) != address(frames[2]))
        var deltas = 0
        for (known, frame) in zip(known, frames) {
            let json = try JSONValue(parsing: frame.bytes)
            guard json["event"] == "sockudo:delta" else { continue }
            let payload = try DeltaPayload(json["data"] ?? .null)
            let base = try #require(known?.text)
            try expectEqual(FossilDelta.apply(payload.delta, to: base, limit: 1_000), message(7).bytes)
            expect(payload.base == known?.sequence && payload.sequence == (known?.sequence ?? 0) + 1)
            deltas += 1
        }
        expect(deltas > 15)
    }

    @Test func `requests can have the names of version 2`() {
        for recoveryLimit in [0, 10] {
            var server = ServerUnderTest {
                $0.allowsFilters = true
                $0.recoveryLimit = recoveryLimit
            }
            server.connect(1, version: 2)
            let data = #"{"channel":"a","filter":\#(Self.eu)}"#
            let confirmation = server.received(1, .text(#"{"event":"sockudo:subscribe","data":\#(data)}"#))
            expectEqual(confirmation.map(\.summary), ["subscription_succeeded"])
            expect(self.receivers(self.publish(&server, ["r": "us"])) == [] && self.receivers(self.publish(&server, ["r": "eu"])) == [1])
            expectEqual(server.received(1, .text(#"{"event":"sockudo:ping"}"#)).map(\.summary), ["pong"])
            expectEqual(server.received(1, .text(#"{"event":"sockudo:unsubscribe","data":{"channel":"a"}}"#)), [])
            expectEqual(server.subscribers(of: "a"), [])
        }
    }

    @Test func `an app without filters and compression has no version 2`() {
        var server = ServerUnderTest()
        expect(server.accepted(1, "/app/key?protocol=2").contains { $0.summary == "close 4007" })
        server.connect(2)
        expectEqual(server.received(2, PusherFrames.enableDeltaCompression).map(\.summary), ["error null"])
        expectEqual(server.received(2, PusherFrames.deltaSyncError("a")).map(\.summary), ["error null"])
        var filters = ServerUnderTest { $0.allowsFilters = true }
        filters.connect(1, version: 2)
        expectEqual(filters.received(1, PusherFrames.enableDeltaCompression).map(\.summary), ["error null"])
        // No events are kept, and so no position is confirmed.
        expectEqual(
            filters.subscribe(1, "a"), [.send(1, #"{"event":"sockudo_internal:subscription_succeeded","channel":"a","data":"{}"}"#)])
    }

    // MARK: The HTTP API

    private func call(
        _ tags: String, _ change: (inout PusherApp) -> Void = { $0.allowsFilters = true }
    ) throws(PusherServerAPI.Rejection)
        -> PusherServerAPI.Call
    {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        change(&app)
        let body = Array(#"{"name":"a","channel":"c","data":"1","tags":\#(tags)}"#.utf8)
        let target = RequestSignature.sign(method: "POST", path: "/apps/1/events", body: body, key: "key", secret: "secret", unixTime: 1)
        return try PusherServerAPI.Call(HTTPRequestHead(method: "POST", target: target), body: body, app: app, unixTime: 1)
    }

    @Test func `the tags of an event are texts`() throws {
        guard case .publish(let publication) = try self.call(#"{"b":"2","a":"1"}"#) else { return }
        expect(publication.tags == EventTags(["a": "1", "b": "2"]) && publication.tags?["b"] == "2" && publication.tags?["c"] == nil)
        for tags in ["7", "[]", #""a""#, #"{"a":1}"#, #"{"a":null}"#, #"{"a":{}}"#] {
            #expect(throws: PusherServerAPI.Rejection(400, #""tags" must be an object whose values are strings."#)) { try self.call(tags) }
        }
        #expect(throws: PusherServerAPI.Rejection.self) { try self.call(#"{"a":"12345"}"#) { $0.eventDataLimit = 5 } }
        guard case .publish(let none) = try self.call("null"), case .publish(let ignored) = try self.call(#"{"a":"1"}"#, { _ in }) else {
            return
        }
        expect(none.tags == nil && ignored.tags == nil)
    }
}
