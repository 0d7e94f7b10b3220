import PusherTestSupport
import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// The sequences that begin with the current value, and those of changes.
@Suite struct SequenceTests {
    // MARK: States

    @Test func `the states of a client begin with the current one`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let socketID = try #require(client.socketID)
        await expectEqual(client.states.pending(), [.connected(socketID: socketID)])
        client.disconnect()
        await expectEqual(client.states.pending(), [.disconnected(nil)])
    }

    @Test func `state changes contain the state before and the state after`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let changes = client.stateChanges
        client.connect()
        let later = client.stateChanges
        client.disconnect()
        let names = await changes.pending().map { "\($0.old.name) \($0.new.name)" }
        expectEqual(names, ["initialized connecting", "connecting connected", "connected disconnected"])
        await expectEqual(later.pending().map(\.old.name), ["connected"])
    }

    @Test func `the states of a subscription begin with the current one`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let channel = try client.subscribe("prices")
        let (states, changes) = (channel.states, channel.stateChanges)
        client.connect()
        await expectEqual(channel.states.pending(), [.subscribed])
        pusher.network.cut()
        await expectEqual(states.pending(), [.pending, .subscribed, .pending])
        let expected = [
            PusherStateChange<PusherSubscriptionState>(old: .pending, new: .subscribed), PusherStateChange(old: .subscribed, new: .pending),
        ]
        await expectEqual(changes.pending(), expected)
    }

    @Test func `the sequences of an unsubscribed channel contain the current value and finish`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let room = try client.subscribe("presence-room")
        client.connect()
        let (states, lists) = (room.states, room.memberLists)
        room.unsubscribe()
        await expect(states.pending() == [.subscribed, .unsubscribed] && states.endReason == .ended)
        await expect(lists.pending().map(\.count) == [1, 0] && lists.endReason == .ended)

        let (laterStates, laterLists, laterChanges) = (room.states, room.memberLists, room.stateChanges)
        await expect(laterStates.pending() == [.unsubscribed] && laterStates.endReason == .ended)
        await expect(laterLists.pending() == [PusherMembers()] && laterLists.endReason == .ended)
        await expect(laterChanges.pending().isEmpty && laterChanges.endReason == .ended)
    }

    @Test func `the states of a subscription finish when the client is disconnected`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let states = try client.subscribe("prices").states
        client.disconnect()
        await expect(states.pending() == [.subscribed, .pending] && states.endReason == .closed(.requested))
    }

    // MARK: Members

    @Test func `the lists of members begin with the current one`() async throws {
        let pusher = try await InMemoryPusher()
        let (anna, bert) = (pusher.client(userID: "anna"), pusher.client(userID: "bert"))
        anna.connect()
        bert.connect()
        let room = try anna.subscribe("presence-room")
        let lists = room.memberLists
        try bert.subscribe("presence-room")
        bert.unsubscribe("presence-room")
        await expectEqual(lists.pending().map { $0.map(\.id) }, [["anna"], ["anna", "bert"], ["anna"]])
        pusher.network.cut()
        await expect(lists.pending().isEmpty && room.members.map(\.id) == ["anna"])
        pusher.clock.advance(by: .seconds(1))
        let last = await lists.pending()
        expect(last.map { $0.map(\.id) } == [["anna"]] && last.last?.me?.id == "anna" && last.last == room.members)
    }

    @Test func `the members of a public channel are an empty list`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let lists = try client.subscribe("prices").memberLists
        client.connect()
        await expectEqual(lists.pending(), [PusherMembers()])
    }

    @Test func `a sequence that begins while users join misses no list and repeats none`() async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let room = try raw.client.subscribe("presence-room")
        let total = 500
        let joining = Task { for id in 0..<total { raw.server.send(MemberFrames.joined("\(id)")) } }
        var first = 0
        while first <= total {
            let counts = await room.memberLists.pending().map(\.count)
            first = try #require(counts.first)
            expectEqual(counts, Array(first..<(first + counts.count)))
        }
        await joining.value
    }

    // MARK: Iterating again

    @Test func `a stored sequence of states is iterated again after its task was cancelled`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let states = client.states
        let seen = EventRecorder<String>()
        let first = Task { for await state in states { seen.record(state.name) } }
        while seen.all.isEmpty { await Task.yield() }
        first.cancel()
        await first.value
        client.connect()
        await expect(states.pending().map(\.name) == ["connecting", "connected"] && seen.all == ["initialized"])
    }

    @Test func `a second loop over changes or lists takes over from the first`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client(userID: "anna")
        let room = try client.subscribe("presence-room")
        let (changes, lists) = (client.stateChanges, room.memberLists)
        let (firstChanges, firstLists) = (changes.makeAsyncIterator(), lists.makeAsyncIterator())
        await expectEqual(firstLists.next()?.isEmpty, true)
        let (secondChanges, secondLists) = (changes.makeAsyncIterator(), lists.makeAsyncIterator())
        client.connect()
        await expectNil(firstChanges.next())
        await expectNil(firstLists.next())
        await expectEqual(secondChanges.next()?.new, .connecting)
        await expectEqual(secondLists.next()?.map(\.id), ["anna"])
    }
}
