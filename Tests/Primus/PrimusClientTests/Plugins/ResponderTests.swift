import PrimusClient
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// primus-responder on a client.
@Suite(.timeLimit(.minutes(10))) struct ResponderTests {
    /// The ID of a request, from its packet.
    private static func id(_ packet: String) -> String { String(packet.split(separator: "\"")[7]) }

    @Test func `a response is the result of its request, in any order`() async throws {
        let fixture = try await PluginFixture.opened()
        let first = try await fixture.begin { try await $0.request(["add": [1, 2]], as: Int.self) }
        let second = try await fixture.begin { try await $0.request("b", as: String?.self) }
        let ids = fixture.server.received.all.map { Self.id($0) }
        expectEqual(fixture.server.received.all[0], #"{"plugin":"primus-responder","requestId":"\#(ids[0])","data":{"add":[1,2]}}"#)
        fixture.server.send(
            #"{"plugin":"primus-responder","responseId":"\#(ids[1])"}"#,
            #"{"plugin":"primus-responder","responseId":"\#(ids[0])","data":3}"#)
        try await expectEqual(first.value, 3)
        try await expectNil(second.value)
    }

    @Test func `unknown, second and invalid responses don't affect their neighbors`() async throws {
        let fixture = try await PluginFixture.opened()
        let call = try await fixture.begin { try await $0.request(1, as: Int.self) }
        let id = Self.id(fixture.server.received.all[0])
        fixture.server.send(
            #"{"plugin":"primus-responder","responseId":"x","data":0}"#, #"{"plugin":"primus-responder","responseId":5,"data":0}"#,
            #"{"plugin":"primus-responder"}"#, #"{"plugin":"primus-responder","responseId":"\#(id)","data":1}"#,
            #"{"plugin":"primus-responder","responseId":"\#(id)","data":2}"#)
        try await expectEqual(call.value, 1)
        expectEqual(fixture.errors.all.map(\.code), [.invalidMessage, .invalidMessage])
        expectEqual(fixture.primus.counters.messagesIgnored, 4)
        expect(fixture.primus.isConnected)
    }

    @Test func `a response of another type is an error of the call`() async throws {
        let fixture = try await PluginFixture.opened()
        let call = try await fixture.begin { try await $0.request(1, as: Int.self) }
        let id = Self.id(fixture.server.received.all[0])
        fixture.server.send(#"{"plugin":"primus-responder","responseId":"\#(id)","data":"text"}"#)
        let error = await primusError { _ = try await call.value }
        expectEqual(error?.code, .decodingFailed)
    }

    @Test func `a request ends with its time limit or its task`() async throws {
        let fixture = try await PluginFixture.opened()
        let late = try await fixture.begin { try await $0.request(1, as: Int.self, within: .seconds(5)) }
        let cancelled = try await fixture.begin { try await $0.request(2, as: Int.self) }
        cancelled.cancel()
        fixture.clock.advance(by: .seconds(5))
        let errors = [await primusError { _ = try await late.value }, await primusError { _ = try await cancelled.value }]
        expectEqual(errors.map { $0?.code }, [.timedOut, .cancelled])
        expectEqual(errors[0]?.message.contains("Check that the server has the plugin primus-responder"), true, "\(errors)")
    }

    @Test func `a request of the server is answered once, and on its connection`() async throws {
        let fixture = try await PluginFixture.opened()
        let requests = fixture.primus.requests.makeAsyncIterator()
        fixture.server.send(
            #"{"plugin":"primus-responder","requestId":"a","data":{"n":1}}"#, #"{"plugin":"primus-responder","requestId":"b","data":2}"#)
        let (first, second) = (try #require(await requests.next()), try #require(await requests.next()))
        try expectEqual(first.decode(as: [String: Int].self), ["n": 1])
        try expectEqual(second.value, 2)
        try expect(first.respond(["ok": true]))
        try expect(!first.respond(false))
        try await expectEqual(fixture.server.received(1), [#"{"plugin":"primus-responder","responseId":"a","data":{"ok":true}}"#])
        try await fixture.reconnect()
        try expect(!second.respond(1), "the connection of the request has ended")
        expectEqual(fixture.server.received.all.count, 1)
    }

    @Test func `a callback answers requests, and without one, they are ignored`() async throws {
        let fixture = try await PluginFixture.opened()
        fixture.server.send(#"{"plugin":"primus-responder","requestId":"a","data":1}"#)
        try await eventually("the first request") { fixture.primus.counters.messagesIgnored == 1 }
        let registration = fixture.primus.onRequest(on: PrimusCallbackExecutor { $0() }) { request in
            let number = (try? request.decode(as: Int.self)) ?? 0
            _ = try? request.respond(number + 1)
        }
        fixture.server.send(#"{"plugin":"primus-responder","requestId":"b","data":5}"#)
        try await expectEqual(fixture.server.received(1), [#"{"plugin":"primus-responder","responseId":"b","data":6}"#])
        withExtendedLifetime(registration) {}
    }
}
