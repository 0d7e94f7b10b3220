import PusherTestSupport
import PusherChannels
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

/// The messages with which a server announces the members of `presence-room`.
enum MemberFrames {
    static func joined(_ id: String, _ info: String = "null") -> String {
        #"{"event":"pusher_internal:member_added","channel":"presence-room","data":{"user_id":"\#(id)","user_info":\#(info)}}"#
    }

    static func left(_ id: String) -> String {
        #"{"event":"pusher_internal:member_removed","channel":"presence-room","data":{"user_id":"\#(id)"}}"#
    }

    static func subscribed(_ ids: [String]) -> String {
        let data = #"{"presence":{"ids":[\#(ids.map { "\"\($0)\"" }.joined(separator: ","))]}}"#
        return #"{"event":"pusher_internal:subscription_succeeded","channel":"presence-room","data":\#(data)}"#
    }
}

/// The members of a presence channel, as a server announces them.
@Suite struct MemberTests {
    private func room(_ raw: RawPusher) throws -> PusherChannel {
        raw.client.connect()
        return try raw.client.subscribe("presence-room")
    }

    @Test func `members are in the order in which they joined`() async throws {
        let raw = try await RawPusher()
        let room = try self.room(raw)
        for id in 0..<500 { raw.server.send(MemberFrames.joined("user-\((id * 37) % 500)", "\(id)")) }
        let order = ["me"] + (0..<500).map { "user-\(($0 * 37) % 500)" }
        expectEqual(room.members.map(\.id), order)
        expectEqual(room.members.indices.map { room.members[$0].id }, order)
        expect(room.members.count == 501 && room.members.first?.id == "me" && room.members.last?.id == order.last)
        expect(room.members[id: "user-37"]?.info == 1 && room.members[id: "user-500"] == nil)
    }

    @Test func `members leave and join in any order`() async throws {
        let raw = try await RawPusher()
        let room = try self.room(raw)
        var expected = ["me"]
        var generator = SplitMix64(seed: chosenSeed ?? 1)
        for _ in 0..<3000 {
            let id = "\(generator.next() % 400)"
            if let position = expected.firstIndex(of: id) {
                expected.remove(at: position)
                raw.server.send(MemberFrames.left(id))
            } else {
                expected.append(id)
                raw.server.send(MemberFrames.joined(id))
            }
        }
        expectEqual(room.members.map(\.id), expected, "\(replay(chosenSeed ?? 1))")
        for (position, id) in expected.enumerated() { expectEqual(room.members[position], room.members[id: id]) }
        for id in expected.shuffled() { raw.server.send(MemberFrames.left(id)) }
        expect(room.members.isEmpty && room.members.first == nil && room.members.me == nil)
        raw.server.send(MemberFrames.joined("me"))
        expect(room.members.map(\.id) == ["me"] && room.members.me?.id == "me")
    }

    @Test func `a list of members keeps its contents when members join and leave`() async throws {
        let raw = try await RawPusher()
        let room = try self.room(raw)
        var lists: [PusherMembers] = []
        for id in 0..<200 {
            lists.append(room.members)
            raw.server.send(MemberFrames.joined("\(id)"))
        }
        for id in 0..<100 {
            lists.append(room.members)
            raw.server.send(MemberFrames.left("\(id)"))
        }
        for (index, list) in lists.enumerated() {
            let ids = index <= 200 ? ["me"] + (0..<index).map { "\($0)" } : ["me"] + (index - 200..<200).map { "\($0)" }
            expectEqual(list.map(\.id), ids)
        }
        expect(lists[0] != lists[1] && lists[200] == lists[200])
    }

    /// The "é" of one ID is one Unicode scalar, that of the other is two.
    @Test func `users whose IDs differ in their bytes are different members`() async throws {
        let raw = try await RawPusher(respond: { _, _ in [] })
        let room = try self.room(raw)
        raw.server.send(MemberFrames.subscribed(["me", "caf\u{E9}", "cafe\u{301}"]))
        expectEqual(room.members.count, 3)
        raw.server.send(MemberFrames.left("cafe\u{301}"))
        expectEqual(room.members.map { Array($0.id.utf8) }, ["me", "caf\u{E9}"].map { Array($0.utf8) })
        raw.server.send(MemberFrames.joined("cafe\u{301}", "1"))
        expect(room.members.count == 3 && room.members[id: "cafe\u{301}"]?.info == 1 && room.members[id: "caf\u{E9}"]?.info == nil)
        expect(room.members[id: "caf\u{E9}"] != room.members[id: "cafe\u{301}"] && Set(room.members).count == 3)
    }

    /// The semicolon and the Greek question mark are canonically equivalent.
    @Test func `channels and events are found by the bytes of their names`() async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let channel = try raw.client.subscribe("a;")
        let events = channel.events()
        raw.server.send(#"{"event":"b","channel":"a\#("\u{37E}")","data":"1"}"#, #"{"event":"b","channel":"a;","data":"2"}"#)
        raw.server.send(#"{"event":"c\#("\u{E9}")","channel":"a;","data":"1"}"#, #"{"event":"ce\#("\u{301}")","channel":"a;","data":"1"}"#)
        let received = await events.pending()
        expectEqual(received.map(\.data), ["2", "1", "1"])
        expectEqual(Set(received).count, 3)
    }

    @Test func `lists are equal if their members are and their order is`() async throws {
        let raw = try await RawPusher(respond: { _, _ in [] })
        let room = try self.room(raw)
        raw.server.send(MemberFrames.subscribed(["1", "2", "3"]))
        let list = room.members
        raw.server.send(MemberFrames.joined("4"))
        let longer = room.members
        raw.server.send(MemberFrames.left("4"))
        expect(room.members == list && room.members.hashValue == list.hashValue && longer != list)
        raw.server.send(MemberFrames.left("1"), MemberFrames.joined("1"))
        expect(room.members.map(\.id) == ["2", "3", "1"] && room.members != list)
    }
}
