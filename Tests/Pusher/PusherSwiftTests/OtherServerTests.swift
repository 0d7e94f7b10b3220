import Foundation
import PusherServer
import PusherWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// An application's server that passes all requests to a closure.
private final class Application: ListenerHandler {
    private let respond: @Sendable ([UInt8]) -> HTTPResponse

    init(_ respond: @escaping @Sendable ([UInt8]) -> HTTPResponse) { self.respond = respond }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { responder.respond(self.respond(body)) }
}

/// Differences between servers: the answers of endpoints, origins, and the forms of IDs and names.
@MainActor @Suite struct OtherServerTests {
    private final class FailureDelegate: PusherDelegate {
        let failures = EventRecorder<String>()
        let logs = EventRecorder<String>()

        func failedToSubscribeToChannel(name: String, response: URLResponse?, data: String?, error: NSError?) {
            let status = (response as? HTTPURLResponse)?.statusCode ?? 0
            self.failures.record("\(name) \(status) \(data ?? "no data") \(error?.localizedFailureReason ?? "no reason")")
        }

        func debugLog(message: String) { self.logs.record(message) }
    }

    // MARK: Endpoints

    @Test(arguments: [
        ("<html>", "it is a page of HTML"), ("", "it is empty"), (#""text""#, "it is a string"),
        (#"{"data":{"auth":"key:abc"}}"#, #""auth" is inside another object, "data""#), (#"{"auth":1}"#, #""auth" isn't a string"#),
    ])
    func `an answer that isn't an authorization reaches the delegate and its log`(body: String, problem: String) async throws {
        let memory = try await InMemory()
        let application = Application { _ in HTTPResponse(status: 200, text: body) }
        let address = try await memory.network.listener(host: "app").start(application)
        let options = memory.options(.endpoint(authEndpoint: "http://app:\(address.port)/auth"))
        let (pusher, delegate) = (memory.pusher(options), FailureDelegate())
        pusher.delegate = delegate
        let channel = pusher.subscribe("private-a")
        pusher.connect()
        try await eventually { !delegate.failures.all.isEmpty }
        let reason = "The response of app/auth must be a JSON object with a string \"auth\", but \(problem)."
        expectEqual(delegate.failures.all, ["private-a 200 no data \(reason)"])
        expect(delegate.logs.all.contains("[PUSHER ERROR] Unable to authorize the subscription to private-a: \(reason)"))
        expect(!channel.subscribed)
    }

    @Test func `an authorization with a byte order mark is accepted`() async throws {
        let memory = try await InMemory()
        let application = Application { body in
            let fields = String(decoding: body, as: UTF8.self).split(separator: "&")
            let socketID = fields.first { $0.hasPrefix("socket_id=") }?.dropFirst("socket_id=".count) ?? ""
            let auth = ChannelSignature.token(key: "key", secret: "secret", socketID: String(socketID), channel: "private-a")
            return HTTPResponse(status: 200, text: "\u{FEFF}{\"auth\":\"\(auth)\"}")
        }
        let address = try await memory.network.listener(host: "app").start(application)
        let pusher = memory.pusher(memory.options(.endpoint(authEndpoint: "http://app:\(address.port)/auth")))
        let channel = pusher.subscribe("private-a")
        pusher.connect()
        try await eventually { channel.subscribed }
    }

    // MARK: Connecting

    @Test(arguments: [PusherServerProfile.pusher, .reverb])
    func `a server with allowed origins needs the header field of the options`(profile: PusherServerProfile) async throws {
        let memory = try await InMemory {
            $0.profile = profile
            $0.allowedOrigins = ["*.example.com"]
        }
        let (rejected, errors) = (memory.pusher(), EventRecorder<String>())
        rejected.connection.bind("error") { errors.record($0.data?.message ?? "") }
        rejected.connect()
        await settle()
        expectEqual(rejected.connection.connectionState, .disconnected)
        expectEqual(errors.all.contains { $0.contains("`PusherClientOptions.headers`") }, true, "\(errors.all)")
        let options = memory.options()
        options.headers = ["Origin": "https://app.example.com"]
        let allowed = memory.pusher(options)
        allowed.connect()
        await settle()
        expectEqual(allowed.connection.connectionState, .connected)
    }

    // MARK: Forms

    @Test func `an ID is a text or a number, and not a truth value`() throws {
        for (json, id) in [(#""7""#, "7"), ("7", "7"), ("1", "1"), ("true", nil), ("false", nil), ("null", nil)] as [(String, String?)] {
            let object = try #require(FoundationJSON.object(#"{"user_id":\#(json)}"#))
            expectEqual(PusherPresenceChannelMember.id(object["user_id"]), id, "\(json)")
        }
    }

    @Test func `a list of members in place of an object keeps the information`() async throws {
        let memory = try await InMemory()
        let room = memory.pusher().subscribeToPresenceChannel(channelName: "presence-a")
        let presence = try #require(FoundationJSON.object(#"{"ids":["0","1"],"hash":[{"n":"a"},{"n":"b"}]}"#))
        room.replaceMembers(with: presence)
        expectEqual(room.members.map(\.userId), ["0", "1"])
        expectEqual(room.members.compactMap { ($0.userInfo as? [String: AnyObject])?["n"] as? String }, ["a", "b"])
    }

    @Test func `names that differ only in the form of a character are two channels`() async throws {
        let memory = try await InMemory { $0.validatesChannelNames = false }
        let options = memory.options()
        options.validatesChannelNames = false
        let pusher = memory.pusher(options)
        pusher.connect()
        let (composed, decomposed) = (pusher.subscribe("caf\u{E9}"), pusher.subscribe("cafe\u{301}"))
        await settle()
        expect(composed !== decomposed && composed.subscribed && decomposed.subscribed)
        expect(pusher.connection.channels.find(name: "cafe\u{301}") === decomposed)
        let events = EventRecorder<String>()
        for channel in [composed, decomposed] { channel.bind(eventName: "a") { events.record("\($0.data ?? "") \(channel === composed)") } }
        memory.server.publish("a", to: "cafe\u{301}", data: "1")
        await settle()
        expectEqual(events.all, ["1 false"])
        pusher.unsubscribeAll()
        expect(pusher.connection.channels.channels.isEmpty)
    }
}
