import PusherTestSupport
import RealtimeCoding
import PusherChannels
import RealtimeTesting
import TestSupport
import Testing

/// The frames of one server implementation, where they differ from those of others.
struct Dialect: Sendable, CustomTestStringConvertible {
    var name: String
    /// The members after `"channel":"…"` of a confirmed subscription.
    var succeeded: String
    var presence, added, removed: String
    var error: String
    var ping, pong: String
    var clientEvent: String
    var cacheMiss: String
    var rejection: @Sendable (String) -> String

    var testDescription: String { self.name }

    private static let listText =
        #","data":"{\"presence\":{\"ids\":[\"11\",\"22\"],\"hash\":{\"11\":{\"name\":\"A\"},\"22\":null},\"count\":2}}""#
    private static let nullError: @Sendable (String) -> String = {
        #"{"event":"pusher:error","data":{"code":null,"message":"Invalid signature: Expected HMAC SHA256 hex digest of 1.2:\#($0), but got me"}}"#
    }

    static let all: [Dialect] = [
        Dialect(
            name: "Pusher", succeeded: #","data":"{}""#, presence: listText,
            added: #""{\"user_id\":\"33\",\"user_info\":{\"name\":\"C\"}}""#,
            removed: #""{\"user_id\":\"33\"}""#, error: #"{"code":4301,"message":"text"}"#, ping: #","data":{}"#, pong: #","data":{}"#,
            clientEvent: #""{\"on\":true}""#, cacheMiss: #","data":"{}""#, rejection: nullError),
        Dialect(
            name: "Pusher without data", succeeded: "", presence: listText, added: #""{\"user_id\":33}""#, removed: #""{\"user_id\":33}""#,
            error: #"{"code":4301,"message":"text"}"#, ping: "", pong: #","data":"{}""#, clientEvent: #""{\"on\":true}""#, cacheMiss: "",
            rejection: nullError),
        Dialect(
            name: "soketi", succeeded: "", presence: listText, added: #""{\"user_id\":\"33\",\"user_info\":{}}""#,
            removed: #""{\"user_id\":\"33\"}""#,
            error: #"{"code":4301,"message":"text"}"#, ping: #","data":{}"#, pong: #","data":{}"#, clientEvent: #"{"on":true}"#,
            cacheMiss: "",
            rejection: {
                #"{"event":"pusher:subscription_error","channel":"\#($0)","data":{"type":"AuthError","error":"The connection is unauthorized.","status":401}}"#
            }),
        Dialect(
            name: "Reverb", succeeded: #","data":"{}""#, presence: listText, added: #""{\"user_id\":33,\"user_info\":{\"name\":\"C\"}}""#,
            removed: #""{\"user_id\":33}""#, error: #""{\"code\":4301,\"message\":\"text\"}""#, ping: "", pong: "",
            clientEvent: #"{"on": true}"#,
            cacheMiss: "",
            rejection: { _ in #"{"event":"pusher:error","data":"{\"code\":4009,\"message\":\"Connection is unauthorized\"}"}"# }),
        Dialect(
            name: "slanger", succeeded: #","data":"{}""#, presence: listText, added: #"{"user_id":"33","user_info":{"name":"C"}}"#,
            removed: #"{"user_id":"33"}"#,
            error: #""{\"code\":4301,\"message\":\"text\"}""#, ping: #","data":"{}""#, pong: #","data":"{}""#,
            clientEvent: #"{"on":true}"#, cacheMiss: "",
            rejection: { #"{"event":"pusher:error","data":"{\"code\":null,\"message\":\"Invalid signature: Expected \#($0)\"}"}"# }),
        Dialect(
            name: "pusher-fake", succeeded: #","data":"{}""#,
            presence: #","data":"{\"presence\":{\"hash\":{\"11\":{\"name\":\"A\"},\"22\":{}},\"count\":2}}""#,
            added: #""{\"user_id\":\"33\",\"user_info\":{}}""#, removed: #""{\"user_id\":\"33\",\"user_info\":{}}""#,
            error: #""{\"code\":4301,\"message\":\"text\"}""#,
            ping: #","data":"{}""#, pong: #","data":"{}""#, clientEvent: #""{\"on\":true}""#, cacheMiss: #","data":"{}""#,
            rejection: { #"{"event":"pusher_internal:subscription_error","channel":"\#($0)","data":{}}"# }),
    ]
}

@Suite struct DialectTests {
    private func connected(_ dialect: Dialect) async throws -> RawPusher {
        let raw = try await RawPusher { event, data in
            switch event {
            case "pusher:ping": return [#"{"event":"pusher:pong"\#(dialect.pong)}"#]
            case "pusher:subscribe":
                let channel = data["channel"]?.string ?? ""
                if channel == "private-rejected" { return [dialect.rejection(channel)] }
                let rest = channel.hasPrefix("presence-") ? dialect.presence : dialect.succeeded
                return [#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)"\#(rest)}"#]
            default: return []
            }
        }
        raw.client.connect()
        return raw
    }

    @Test(arguments: Dialect.all)
    func `channels are subscribed and rejected`(dialect: Dialect) async throws {
        let raw = try await self.connected(dialect)
        let channels = try ["one", "private-one", "presence-room", "private-rejected"].map { try raw.client.subscribe($0) }
        expectEqual(channels.prefix(3).map(\.state), [.subscribed, .subscribed, .subscribed])
        if case .failed(let error) = channels[3].state {
            expectEqual(error.code, .subscriptionRejected)
        } else {
            Issue.record("the rejected channel is \(channels[3].state)")
        }
        expectEqual(raw.client.state, .connected(socketID: "1.2"))
    }

    @Test(arguments: Dialect.all)
    func `each member joins and leaves once`(dialect: Dialect) async throws {
        let raw = try await self.connected(dialect)
        let room = try raw.client.subscribe("presence-room")
        expectEqual(room.members.map(\.id), ["11", "22"])
        expectEqual(room.members[id: "11"]?.info, ["name": "A"])
        let changes = room.memberChanges
        let (added, removed) = ("pusher_internal:member_added", "pusher_internal:member_removed")
        for (event, data) in [(added, dialect.added), (added, dialect.added), (removed, dialect.removed), (removed, dialect.removed)] {
            raw.server.send(#"{"event":"\#(event)","channel":"presence-room","data":\#(data)}"#)
        }
        let seen = await changes.pending()
        guard seen.count == 2, case .joined(let joined) = seen[0], case .left(let left) = seen[1] else {
            return expect(false, "\(seen)")
        }
        expect(joined.id == "33" && left.id == "33" && room.members.count == 2)
    }

    @Test(arguments: Dialect.all)
    func `pings get pongs in both directions`(dialect: Dialect) async throws {
        let raw = try await self.connected(dialect)
        raw.server.send(#"{"event":"pusher:ping"\#(dialect.ping)}"#)
        expectEqual(raw.server.received.take(), [["event": "pusher:pong", "data": [:]]])
        raw.clock.advance(by: .seconds(1000))
        expect(raw.client.counters.lastRoundTrip == .zero && raw.client.state == .connected(socketID: "1.2") && raw.server.accepted == 1)
    }

    @Test(arguments: Dialect.all)
    func `error events and channel events are parsed`(dialect: Dialect) async throws {
        let raw = try await self.connected(dialect)
        let room = try raw.client.subscribe("presence-room")
        let (errors, events) = (raw.client.errors, room.events())
        raw.server.send(
            #"{"event":"pusher:error","data":\#(dialect.error)}"#,
            #"{"event":"client-typing","channel":"presence-room","data":\#(dialect.clientEvent),"user_id":"11"}"#,
            #"{"event":"pusher:cache_miss","channel":"presence-room"\#(dialect.cacheMiss)}"#)
        let error = await errors.pending()
        expect(error.map(\.serverCode) == [4301] && error.first?.message.contains("text") == true)
        let seen = await events.pending()
        expect(seen.map(\.name) == ["client-typing", "pusher:cache_miss"] && seen.first?.userID == "11")
        try expectEqual(seen.first?.decode([String: Bool].self), ["on": true])
    }

    @Test func `an error event and a close without a code disconnect the client`() async throws {
        for (code, isFinal) in [(4001, true), (4004, true), (4201, false)] {
            let raw = try await RawPusher()
            raw.client.connect()
            raw.server.send(#"{"event":"pusher:error","data":"{\"code\":\#(code),\"message\":\"text\"}"}"#)
            raw.server.close(.noStatus)
            if isFinal {
                guard case .disconnected(let error?) = raw.client.state else { return expect(false, "\(code): \(raw.client.state)") }
                expect(error.code == .rejected && error.serverCode == code)
            } else {
                expect(raw.client.state.name == "connected" && raw.server.accepted == 2)
            }
        }
    }

    @Test(arguments: [4001, 4004, 4009, 4100, 4200])
    func `an error event in place of the greeting acts on its code, also if the socket stays open`(code: Int) async throws {
        let raw = try await RawPusher(
            greeting: [
                #"{"event":"pusher:error","data":"{\"code\":\#(code),\"message\":\"text\"}"}"#,
                // What follows isn't for a connection that has ended.
                RawServer.greeting,
            ])
        let errors = raw.client.errors
        raw.client.connect()
        let error = try #require(await errors.pending().first)
        expect(error.message.contains("\(code)") && error.message.contains("text"), "\(error)")
        switch code {
        case 4100: expect(raw.client.state == .connecting && raw.client.reconnectDelay != nil && raw.server.accepted == 1)
        case 4200: expect(raw.client.state == .connecting && raw.server.accepted > 1)
        default:
            expect(raw.client.state.name == "disconnected" && error.code == .rejected && error.serverCode == code)
            raw.clock.advance(by: .seconds(3600))
            expectEqual(raw.server.accepted, 1)
        }
        raw.client.disconnect()
    }
}
