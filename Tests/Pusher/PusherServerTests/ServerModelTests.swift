import RealtimeCoding
@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Random requests of several clients. What each client knows from its frames must be the state of the server.
@Suite(.computes, .serialized) struct ServerModelTests {
    /// The state that a client knows.
    fileprivate struct View {
        var members: [String: Set<String>] = [:]
        var counts: [String: Int] = [:]
        var watchlist: Set<String> = []
        var online: Set<String> = []
        var user: String?
        /// The events of cache channels, or an empty text after a cache miss.
        var cached: [String: String] = [:]
    }

    private struct Model {
        static let channels = ["one", "private-a", "presence-a", "presence-b", "cache-a", "presence-cache-a"]
        static let users = ["a", "b", "c", "d"]

        var server: ServerUnderTest
        var views: [Int: View] = [:]
        var published: [String: String] = [:]
        var generator: SplitMix64

        init(seed: UInt64) {
            self.server = ServerUnderTest(isRecording: false) {
                $0.sendsSubscriptionCounts = true
                $0.memberLimit = 3
                $0.watchlistLimit = 3
            }
            self.generator = SplitMix64(seed: seed)
        }

        private mutating func random(_ count: Int) -> Int { Int.random(in: 0..<count, using: &self.generator) }

        mutating func step(_ number: Int) throws {
            let client = 1 + self.random(8)
            let (channel, user) = (Self.channels[self.random(6)], Self.users[self.random(4)])
            guard self.views[client] != nil else {
                self.views[client] = View()
                return try self.apply(self.server.connect(client))
            }
            switch self.random(12) {
            case 0:
                self.views[client] = nil
                try self.apply(self.server.closed(client))
            case 1...2: try self.apply(self.server.signIn(client, as: user, self.watchlist()))
            case 3...6:
                let isPresence = ChannelName.kind(of: channel).isPresence
                try self.apply(self.server.subscribe(client, channel, user: isPresence && self.random(2) == 0 ? user : nil))
            case 7...8:
                self.views[client]!.members[channel] = nil
                self.views[client]!.counts[channel] = nil
                self.views[client]!.cached[channel] = nil
                try self.apply(self.server.unsubscribe(client, channel))
            case 9...10:
                self.published[channel] = "event-\(number)"
                try self.apply(self.server.publish("event-\(number)", to: channel))
            default: try self.apply(self.server.advance(by: .seconds(1)))
            }
        }

        private mutating func watchlist() -> String {
            let users = (0..<self.random(6)).map { _ in "\"\(Self.users[self.random(4)])\"" }
            return #","watchlist":[\#(users.joined(separator: ","))]"#
        }

        /// Updates what the clients know.
        private mutating func apply(_ commands: [ServerCommand]) throws {
            for case .send(let client, let text) in commands where self.views[client] != nil {
                let frame = try JSONValue(parsing: text)
                let channel = frame["channel"]?.string ?? ""
                let data = frame["data"]?.string.flatMap { try? JSONValue(parsing: $0) } ?? frame["data"] ?? .null
                self.views[client]!.receive(frame["event"]?.string ?? "", channel, data)
            }
        }

        /// The differences between the views of the clients and the state of the server: a list, because an expectation costs more than all
        /// comparisons.
        func differences() -> [String] {
            let machine = self.server.machine
            var differences: [String] = []
            for (client, view) in self.views {
                let id = ConnectionID(client)
                func compare<Value: Equatable>(_ name: String, _ known: Value, _ actual: Value) {
                    if known != actual { differences.append("client \(client), \(name): \(known), but the server has \(actual)") }
                }
                let subscriptions = machine.connections[id]?.established?.subscriptions ?? [:]
                let presence = subscriptions.keys.filter { ChannelName.kind(of: $0.string).isPresence }
                compare("presence channels", Set(view.members.keys), Set(presence.map(\.string)))
                for (channel, members) in view.members {
                    compare(channel, members, Set(machine.channels[ByteString(channel)]?.members.keys.map(\.string) ?? []))
                }
                compare("channels", Set(view.counts.keys), Set(subscriptions.keys.map(\.string)).subtracting(view.members.keys))
                for (channel, count) in view.counts { compare("count of \(channel)", count, self.server.subscribers(of: channel).count) }
                compare("user", view.user, machine.signIns[id]?.user.id)
                compare("users online", view.online, view.watchlist.filter { machine.users[ByteString($0)]?.connections.isEmpty == false })
                compare("watchlist", view.watchlist, Set(machine.signIns[id]?.watchlist.userIDs.map(\.string) ?? []))
                for (channel, event) in view.cached { compare("cached event of \(channel)", event, self.published[channel] ?? "") }
            }
            return differences
        }
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func `what clients receive matches the state of the server`(seed: UInt64) throws {
        var model = Model(seed: seed)
        for number in 1...max(200, scaled(1_000)) {
            try model.step(number)
            let differences = model.differences()
            guard differences.isEmpty else { return expectEqual(differences, [], "step \(number)") }
        }
        for client in model.views.keys { model.server.closed(client) }
        let machine = model.server.machine
        expect(machine.connections.isEmpty && machine.channels.isEmpty && machine.users.isEmpty && machine.signIns.isEmpty)
        model.server.advance(by: .seconds(1800))
        expect(machine.heartbeats.isEmpty && model.server.machine.nextDeadline == nil && model.server.machine.cachedEvents.isEmpty)
    }
}

extension ServerModelTests.View {
    fileprivate mutating func receive(_ event: String, _ channel: String, _ data: JSONValue) {
        switch event {
        case EventName.subscriptionSucceeded:
            guard let ids = data["presence"]?["ids"]?.array?.compactMap(\.string) else { return }
            expect(self.members[channel] == nil && ids.count == Set(ids).count)
            self.members[channel] = Set(ids)
        case EventName.memberAdded: expectEqual(self.members[channel]?.insert(data["user_id"]?.string ?? "").inserted, true)
        case EventName.memberRemoved: expect(self.members[channel]?.remove(data["user_id"]?.string ?? "") != nil)
        case EventName.subscriptionCount: self.counts[channel] = data["subscription_count"]?.int
        case EventName.cacheMiss: self.cached[channel] = ""
        case EventName.signInSucceeded:
            self.user = data["user_data"]?.string.flatMap { try? JSONValue(parsing: $0) }?["id"]?.string
            (self.watchlist, self.online) = ([], [])
        case EventName.watchlistEvents:
            for change in data["events"]?.array ?? [] {
                let users = change["user_ids"]?.array?.compactMap(\.string) ?? []
                self.watchlist.formUnion(users)
                if change["name"] == "online" { self.online.formUnion(users) } else { self.online.subtract(users) }
            }
        case _ where event.hasPrefix("event-") && ChannelName.kind(of: channel).isCache: self.cached[channel] = event
        default: break
        }
    }
}
