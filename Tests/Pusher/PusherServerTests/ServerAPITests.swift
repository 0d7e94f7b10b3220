import PusherTestSupport
import PusherChannels
import PusherTesting
import Foundation
@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

private final class ResponseRecorder: HTTPResponder {
    let responses = EventRecorder<HTTPResponse>()

    func respond(_ response: HTTPResponse) { self.responses.record(response) }
    func begin(_ head: HTTPResponseHead) {}
    func write(_ bytes: [UInt8]) {}
    func end() {}
    func onDisconnect(_ action: @escaping @Sendable () -> Void) {}
}

/// Publishing over the HTTP API, with the signed request of the service's documentation.
@Suite struct ServerAPITests {
    private static let time: Int64 = 1_353_088_179
    private static let body = #"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#
    private static let signed =
        "/apps/3/events?auth_key=278d425bdf160c739803&auth_timestamp=1353088179&auth_version=1.0&body_md5=ec365a775a4cd0599faeb73354201b6f"
        + "&auth_signature=da454824c97ba181a32ccc17a72625ba02771f50b50e1e7430e47a1f3f457e6c"

    private let server: PusherServer

    init() {
        var app = PusherApp(id: "3", key: "278d425bdf160c739803", secret: "7ad3773142a6692b25b8")
        app.allowsClientEvents = false
        self.server = PusherServer(app: app, time: ManualClock().time, log: .none, seed: 1) { Self.time }
    }

    private func send(_ target: String, _ body: String, method: String = "POST") -> HTTPResponse {
        let recorder = ResponseRecorder()
        self.server.listenerHandler.received(HTTPRequestHead(method: method, target: target), body: Array(body.utf8), responder: recorder)
        return recorder.responses.all[0]
    }

    private func publish(_ body: String, path: String = "/apps/3/events", at time: Int64 = Self.time) -> HTTPResponse {
        let target = RequestSignature.sign(
            method: "POST", path: path, body: Array(body.utf8), key: self.server.app.key, secret: self.server.app.secret, unixTime: time)
        return self.send(target, body)
    }

    @Test func `the request in the documentation is accepted`() async {
        let events = self.server.events
        let response = self.send(Self.signed, Self.body)
        expect(
            response.head.status == 200 && response.body == Array("{}".utf8) && response.head.headers["content-type"] == "application/json")
        await expectEqual(events.pending(), [.published(channel: "project-3", name: "foo", subscribers: 0)])
    }

    @Test(arguments: [
        ("da454824", "ea454824", "Invalid auth_signature"), ("&auth_signature=da454824c97ba", "&x=", "Missing auth_signature"),
        ("auth_key=278d", "auth_key=378d", "auth_key"), ("auth_key=278d425bdf160c739803&", "", "auth_key"),
        ("auth_version=1.0", "auth_version=2.0", "auth_version"),
        ("auth_timestamp=1353088179", "auth_timestamp=now", "Invalid auth_timestamp"),
        ("auth_timestamp=1353088179", "auth_timestamp=%2B1353088179", "Invalid auth_timestamp"),
        ("auth_timestamp=1353088179&", "", "Missing auth_timestamp"),
        ("auth_timestamp=1353088179", "auth_timestamp=1353088180", "Invalid auth_signature"),
        ("body_md5=ec", "body_md5=ed", "Invalid auth_signature"),
        ("&body_md5=ec365a775a4cd0599faeb73354201b6f", "", "body_md5"), ("auth_key=278", "auth_key=%g78", "invalid percent-encoding"),
        ("&auth_version", "&extra=1&auth_version", "Invalid auth_signature"),
    ])
    func `an invalid signature is rejected with a reason`(part: String, replacement: String, message: String) async throws {
        let events = self.server.events
        let range = try #require(Self.signed.firstRange(of: part))
        let response = self.send(Self.signed.replacingCharacters(in: range, with: replacement), Self.body)
        let text = String(decoding: response.body, as: UTF8.self)
        expect(response.head.status == 401 && text.contains(message))
        await expectEqual(events.pending(), [.error(socketID: nil, code: 401, message: String(text.dropLast()))])
    }

    @Test func `a request whose body, path or method was changed is rejected`() {
        for body in [Self.body + " ", ""] {
            let response = self.send(Self.signed, body)
            let text = String(decoding: response.body, as: UTF8.self)
            expect(response.head.status == 401 && text == "The body_md5 does not match the body.\n", "\(text)")
        }
        let get = self.send(Self.signed, Self.body, method: "GET")
        expect(get.head.status == 405 && get.head.headers["Allow"] == "POST")
        expectEqual(self.send("/apps/3//events?" + Self.signed.split(separator: "?")[1], Self.body).head.status, 401)
        expectEqual(self.send("/apps/4/events?" + Self.signed.split(separator: "?")[1], Self.body).head.status, 404)
        for path in [
            "/", "/apps", "/apps/3", "/apps/3/batches", "/apps/3/events/more", "/app/3/events", "/apps/3/channels/a/users/more",
            "/apps/3/users/a", "/apps/3/channels/%zz", "/apps/%zz/events",
        ] {
            expectEqual(self.send(path, Self.body).head.status, 404, "\(path)")
        }
        expectEqual(self.send("/up", "", method: "GET").head.status, 200)
    }

    @Test(
        arguments: [(0, 200), (-600, 200), (600, 200), (-601, 401), (601, 401), (-100_000, 401), (.max - time, 401), (.min, 401)]
            as [(Int64, Int)])
    func `the clocks may differ by up to ten minutes`(offset: Int64, status: Int) {
        expectEqual(self.publish(Self.body, at: Self.time &+ offset).head.status, status)
    }

    @Test func `the signature covers the sorted fields without percent-encoding`() {
        // The fields are sent in another order, with an additional field that needs percent-encoding.
        let text =
            "POST\n/apps/3/events\nauth_key=278d425bdf160c739803&auth_timestamp=1353088179&auth_version=1.0&body_md5=ec365a775a4cd0599faeb73354201b6f&own=a b&c"
        let signature = ChannelSignature.hex(of: text, secret: "7ad3773142a6692b25b8")
        let query =
            "own=a%20b%26c&auth_version=1.0&auth_signature=\(signature)&auth_timestamp=1353088179&body_md5=ec365a775a4cd0599faeb73354201b6f"
        expectEqual(self.send("/apps/3/events?\(query)&auth_key=278d425bdf160c739803", Self.body).head.status, 200)
    }

    private static let hundred = (0..<100).map { "\"c\($0)\"" }.joined(separator: ",")

    @Test(arguments: [
        (#"{"name":"a","data":"","channel":"one"}"#, 200), (#"{"name":"a","data":"x","channels":["one","two"]}"#, 200),
        (#"{"name":"a","data":"x","channels":[\#(hundred)]}"#, 200), (#"{"name":"a","data":"x","channels":[\#(hundred),"more"]}"#, 400),
        (#"{"name":"a","data":"\#(String(repeating: "x", count: 10_240))","channel":"one"}"#, 200),
        (#"{"name":"a","data":"\#(String(repeating: "x", count: 10_241))","channel":"one"}"#, 413),
        ("", 400), ("nonsense", 400), ("[]", 400), ("{}", 400), (#"{"data":"x","channel":"one"}"#, 400),
        (#"{"name":5,"data":"x","channel":"one"}"#, 400),
        (#"{"name":"a","channel":"one"}"#, 400), (#"{"name":"a","data":{},"channel":"one"}"#, 400), (#"{"name":"a","data":"x"}"#, 400),
        (#"{"name":"a","data":"x","channels":[]}"#, 400), (#"{"name":"a","data":"x","channels":"one"}"#, 400),
        (#"{"name":"a","data":"x","channels":[1]}"#, 400), (#"{"name":"a","data":"x","channels":null,"channel":"one"}"#, 200),
        (#"{"name":"a","data":"x","channels":["one",null]}"#, 400), (#"{"name":"a","data":"x","channel":"with space"}"#, 400),
        (#"{"name":"a","data":"x","channel":""}"#, 400), (#"{"name":"","data":"x","channel":"one"}"#, 400),
        (#"{"name":"pusher:a","data":"x","channel":"one"}"#, 400), (#"{"name":"pusher_internal:a","data":"x","channel":"one"}"#, 400),
        (#"{"name":"\#(String(repeating: "x", count: 201))","data":"x","channel":"one"}"#, 400),
        (#"{"name":"a","data":"x","channel":"\#(String(repeating: "x", count: 201))"}"#, 400),
        (#"{"name":"a","data":"x","channel":"one","socket_id":"1.2"}"#, 200),
        (#"{"name":"a","data":"x","channel":"one","socket_id":null}"#, 200),
        (#"{"name":"a","data":"x","channel":"one","socket_id":""}"#, 400),
        (#"{"name":"a","data":"x","channel":"one","socket_id":"unknown"}"#, 400),
        (#"{"name":"a","data":"x","channel":"one","socket_id":1.2}"#, 400),
    ])
    func `an invalid publication is rejected`(body: String, status: Int) async {
        let events = self.server.events
        let response = self.publish(body)
        expect(response.head.status == status && (status == 200 || !response.body.isEmpty))
        let rejection = PusherServerEvent.error(
            socketID: nil, code: status, message: String(String(decoding: response.body, as: UTF8.self).dropLast()))
        let reported = await events.pending()
        expect(status == 200 ? !reported.isEmpty && !reported.contains(rejection) : reported == [rejection])
    }

    @Test(arguments: [
        ("nonsense", "Invalid body: "), ("{}", "\"name\" must be a string."), (#"{"name":"a"}"#, "\"data\" must be a string."),
        (#"{"name":"a","data":"x"}"#, "Missing \"channels\", an array of strings, or \"channel\", a string."),
        (#"{"name":"a","data":"x","channels":["one",1]}"#, "\"channels\" must be an array of strings."),
        (#"{"name":"a","data":"x","channels":[]}"#, "The event has 0 channels; publish to 1 to 100 channels at a time."),
        (#"{"name":"","data":"x","channel":"one"}"#, "An event name must not be empty."),
    ])
    func `the response describes the invalid value`(body: String, message: String) {
        let text = String(decoding: self.publish(body).body, as: UTF8.self)
        expect(text.hasPrefix(message) && text.hasSuffix("\n"))
    }

    @Test func `the excluded connection does not receive the event`() async throws {
        let pusher = try await InMemoryPusher()
        let first = RawClient(pusher).send(PusherFrames.subscribe("one"))
        let socketID = pusher.server.socketIDs[0]
        let second = RawClient(pusher).send(PusherFrames.subscribe("one"))
        for client in [first, second] { _ = client.take() }
        func publish(_ extra: String) -> Int {
            let body = #"{"name":"a","data":"1","channel":"one"\#(extra)}"#
            let recorder = ResponseRecorder()
            let time = Int64(Date().timeIntervalSince1970)
            let target = RequestSignature.sign(
                method: "POST", path: "/apps/1/events", body: Array(body.utf8), key: "key", secret: "secret", unixTime: time)
            pusher.server.listenerHandler.received(
                HTTPRequestHead(method: "POST", target: target), body: Array(body.utf8), responder: recorder)
            return recorder.responses.all[0].head.status
        }
        expectEqual(publish(#","socket_id":"\#(socketID)""#), 200)
        expect(first.take().isEmpty && second.takeEvents() == ["a"])
        expectEqual(publish(#","socket_id":"9.9""#), 200)
        expect(first.takeEvents() == ["a"] && second.takeEvents() == ["a"])
        expectEqual(publish(""), 200)
        expectEqual(first.takeEvents(), ["a"])
    }

    // MARK: The other endpoints

    @Test(arguments: [
        ("GET", "events", 405), ("GET", "batch_events", 405), ("POST", "channels", 405), ("POST", "channels/a", 405),
        ("POST", "channels/presence-a/users", 405), ("GET", "users/7/terminate_connections", 405), ("GET", "channels", 200),
        ("GET", "channels/a", 200), ("GET", "channels/presence-a/users", 200), ("POST", "users/7/terminate_connections", 200),
        ("GET", "channels/a%20b", 400), ("GET", "channels/a/users", 400), ("GET", "channels/a%20b/users", 400),
        ("POST", "users/a%20b/terminate_connections", 400),
    ])
    func `each endpoint has its method, and checks names`(method: String, path: String, status: Int) {
        expectEqual(self.signed(method, path).status, status)
    }

    @Test(arguments: [
        ("channels", "user_count", 400), ("channels", "subscription_count", 400), ("channels", "nonsense", 400), ("channels", "", 200),
        ("channels/a", "user_count", 400), ("channels/a", "subscription_count", 200), ("channels/a", "subscription_count,", 200),
        ("channels/presence-a", "user_count", 200), ("channels/presence-a", "user_count,subscription_count", 400),
        ("channels/a", "nonsense", 400),
    ])
    func `an attribute that is not available is rejected`(path: String, info: String, status: Int) {
        expectEqual(self.signed("GET", path, query: [("info", info)]).status, status)
    }

    @Test func `the number of users is listed for a prefix of presence channels only`() {
        for (prefix, status) in [("presence-", 200), ("presence-a", 200), ("presence", 400), ("private-", 400), ("", 400)] {
            expectEqual(self.signed("GET", "channels", query: [("info", "user_count"), ("filter_by_prefix", prefix)]).status, status)
        }
    }

    @Test(arguments: [
        (#"{"batch":[\#(event)]}"#, 200), (#"{"batch":[\#(events(10))]}"#, 200), (#"{"batch":[\#(events(11))]}"#, 400),
        (#"{"batch":[]}"#, 400), (#"{"batch":{}}"#, 400), ("{}", 400), (#"{"batch":[1]}"#, 400), (#"{"batch":[\#(event),{}]}"#, 400),
        (#"{"batch":[{"name":"a","data":"x","channels":["one"]}]}"#, 400),
        (#"{"batch":[{"name":"a","data":"x","channel":"one","channels":["two","three"]}]}"#, 400),
        (#"{"batch":[{"name":"a","data":"\#(String(repeating: "x", count: 10_241))","channel":"one"}]}"#, 413),
        (#"{"batch":[{"name":"a","data":"x","channel":"one","info":"nonsense"}]}"#, 400),
    ])
    func `a batch is published as a whole or not at all`(body: String, status: Int) async {
        let events = self.server.events
        expectEqual(self.signed("POST", "batch_events", body).status, status)
        let published = await events.pending().filter { if case .published = $0 { true } else { false } }
        expectEqual(published.isEmpty, (status != 200))
    }

    private static let event = #"{"name":"a","data":"x","channel":"one"}"#
    private static func events(_ count: Int) -> String { Array(repeating: Self.event, count: count).joined(separator: ",") }

    @Test func `an event is published in the deprecated form`() async {
        let events = self.server.events
        expectEqual(self.signed("POST", "channels/one/events", "text", query: [("name", "a"), ("socket_id", "1.2")]).status, 200)
        expectEqual(self.signed("POST", "channels/one/events", "text").status, 400)
        await expectEqual(events.pending().first, .published(channel: "one", name: "a", subscribers: 0))
        expectEqual(self.signed("GET", "channels/one/stats").body, #"{"occupied":false}"#)
    }

    @Test func `events for a user are accepted, with a valid ID`() {
        func status(_ channel: String) -> Int { self.publish(##"{"name":"a","data":"x","channel":"\##(channel)"}"##).head.status }
        expectEqual(status("#server-to-user-7"), 200)
        for channel in ["#server-to-user-", "#server-to-user-a b", "#other", "#server-to-user-\(String(repeating: "x", count: 129))"] {
            expectEqual(status(channel), 400)
        }
        // The response doesn't repeat a long ID.
        let body = ##"{"name":"a","data":"x","channel":"#server-to-user-\##(String(repeating: "é", count: 10_000))"}"##
        expect(self.publish(body).body.count < 1_000)
    }

    @Test func `a disabled app accepts neither requests nor connections`() async throws {
        let pusher = try await InMemoryPusher { $0.isEnabled = false }
        let publisher = pusher.publisher()
        let error = await #expect(throws: PusherError.self) { try await publisher.publish("a", to: "b", data: 1) }
        expect(error?.status == 403 && error?.message.contains("The app is disabled.") == true)
        let client = pusher.client()
        client.connect()
        let rejection = await #expect(throws: PusherError.self) { try await client.connected() }
        expectEqual(rejection?.serverCode, 4003)
    }

    /// Sends a request that is signed with the app's secret.
    private func signed(
        _ method: String, _ path: String, _ body: String = "", query: [(name: String, value: String)] = []
    ) -> (status: Int, body: String) {
        let target = RequestSignature.sign(
            method: method, path: "/apps/3/\(path)", query: query, body: Array(body.utf8), key: self.server.app.key,
            secret: self.server.app.secret, unixTime: Self.time)
        let response = self.send(target, body, method: method)
        return (response.head.status, String(decoding: response.body, as: UTF8.self))
    }

    @Test func `attempts for tests of hooks can be created`() {
        expectEqual(PusherAuthorizationAttempt(socketID: "1.2", channel: "private-one").request.method, "POST")
        expectEqual(PusherConnectionAttempt(socketID: "1.2", request: HTTPRequestHead(method: "GET", target: "/")).socketID, "1.2")
        expectEqual(PusherSubscriptionAttempt(socketID: "1.2", channel: "presence-one", userID: "1").userID, "1")
        expectEqual(PusherClientEventAttempt(socketID: "1.2", channel: "one", name: "client-a", data: "1").data, "1")
    }
}
