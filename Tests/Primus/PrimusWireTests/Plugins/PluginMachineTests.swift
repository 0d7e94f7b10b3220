import PrimusWire
import RealtimeCore
import TestSupport
import Testing

@Suite struct PluginMachineTests {
    // MARK: Acknowledgements

    @Test func `each side counts its events with an acknowledgement from 1`() {
        var calls = EmitterCalls<String>()
        #expect((calls.nextID(), calls.nextID()) == (1, 2))
    }

    @Test func `an acknowledgement ends its wait, in any order and once`() throws {
        var calls = EmitterCalls<String>()
        for name in ["a", "b", "c"] { calls.begin(calls.nextID(), name) }
        try expectEqual(calls.acknowledged(3), "c")
        try expectEqual(calls.acknowledged(1), "a")
        #expect(throws: PrimusPluginError.unknown(plugin: "emitter", "no caller waits for the acknowledgement 3")) {
            _ = try calls.acknowledged(3)
        }
        expectEqual(calls.count, 1)
    }

    @Test(arguments: [0, -1, 2, .max, .min] as [Int64])
    func `an unknown acknowledgement ends no wait`(id: Int64) {
        var calls = EmitterCalls<String>()
        calls.begin(calls.nextID(), "a")
        #expect(throws: PrimusPluginError.self) { _ = try calls.acknowledged(id) }
        expectEqual(calls.count, 1)
    }

    @Test func `the acknowledgement of a caller that has given up is unknown`() {
        var calls = EmitterCalls<String>()
        let id = calls.nextID()
        calls.begin(id, "a")
        expectEqual(calls.end(id), "a")
        expectNil(calls.end(id))
        #expect(throws: PrimusPluginError.self) { _ = try calls.acknowledged(1) }
    }

    @Test func `the end of a connection ends all waits in order, and IDs aren't used again`() {
        var calls = EmitterCalls<String>()
        for name in ["a", "b", "c"] { calls.begin(calls.nextID(), name) }
        expectEqual(calls.endAll(), ["a", "b", "c"])
        expect(calls.isEmpty && calls.endAll().isEmpty)
        expectEqual(calls.nextID(), 4)
    }

    // MARK: Requests

    @Test func `the IDs of requests have the form of a random UUID, and are different`() {
        var random = SplitMix64(seed: 1)
        var (first, second) = (ResponderCalls<Int>(&random), ResponderCalls<Int>(&random))
        let ids = [first.id(first.nextNumber()), first.id(first.nextNumber()), second.id(second.nextNumber())]
        for id in ids { expect(id.wholeMatch(of: /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/) != nil, "\(id)") }
        expectEqual(Set(ids).count, 3)
    }

    @Test func `a response ends its wait, once`() throws {
        var random = SplitMix64(seed: 1)
        var calls = ResponderCalls<String>(&random)
        for name in ["a", "b"] { calls.begin(calls.nextNumber(), name) }
        try expectEqual(calls.responded(calls.id(2)), "b")
        #expect(throws: PrimusPluginError.self) { _ = try calls.responded(calls.id(2)) }
        expectEqual(calls.end(1), "a")
        #expect(throws: PrimusPluginError.self) { _ = try calls.responded(calls.id(1)) }
        calls.begin(calls.nextNumber(), "c")
        expectEqual(calls.endAll(), ["c"])
        expect(calls.isEmpty)
    }

    @Test func `a response with another spelling of an ID is unknown`() {
        var random = SplitMix64(seed: 1)
        var calls = ResponderCalls<String>(&random)
        for _ in 0..<11 { calls.begin(calls.nextNumber(), "a") }
        let id = calls.id(11)
        let others = [
            "", "b", "000000000001", id.uppercased() == id ? "" : id.uppercased(), String(id.dropLast()), id + "0", "x" + id.dropFirst(),
            id.dropLast(12) + "+0000000000b", id.dropLast(12) + "00000000000B", String(repeating: "é", count: 18),
        ]
        for other in others {
            #expect(throws: PrimusPluginError.self, "\(other)") { _ = try calls.responded(other) }
        }
        expectEqual(calls.count, 11)
        let long = String(repeating: "x", count: 1 << 20)
        let error = #expect(throws: PrimusPluginError.self) { _ = try calls.responded(long) }
        expect((error?.description.utf8.count ?? .max) < 200)
    }

    // MARK: Channels

    @Test func `a channel has an ID as in the original, and is joined again on the next connection`() throws {
        var random = SplitMix64(seed: 1)
        var channels = MultiplexChannels<Int>()
        let packets = [channels.join("a", 1, &random), channels.join("b", 2, &random), channels.join("a", 3, &random)]
        expectEqual(channels.joining, packets)
        let addresses = packets.compactMap { packet in if case .subscribe(let address) = packet { address } else { nil } }
        expectEqual(addresses.map(\.channel), ["a", "b", "a"])
        for address in addresses { expect(address.id.wholeMatch(of: /[0-9a-y]{13}/) != nil) }
        expectEqual(Set(addresses.map(\.id)).count, 3)
        try expectEqual(addresses.map { try channels.channel(of: $0) }, [1, 2, 3])
        expectEqual(channels.leave(addresses[1]), .unsubscribe(addresses[1]))
        expectEqual(channels.joining, [packets[0], packets[2]])
        expectNil(channels.leave(addresses[1]))
    }

    @Test func `a channel that the server has ended isn't joined again`() throws {
        var random = SplitMix64(seed: 1)
        var channels = MultiplexChannels<Int>()
        guard case .subscribe(let address) = channels.join("a", 1, &random) else { return }
        try expectEqual(channels.ended(address), 1)
        expect(channels.joining.isEmpty)
        #expect(throws: PrimusPluginError.unknown(plugin: "multiplex", "no channel \"a\" has the ID \(address.id)")) {
            _ = try channels.ended(address)
        }
        expectNil(channels.leave(address))
    }

    @Test func `a message of an unknown channel is an error, and concerns no other channel`() {
        var random = SplitMix64(seed: 1)
        var channels = MultiplexChannels<Int>()
        guard case .subscribe(let address) = channels.join("a", 1, &random) else { return }
        for other in [MultiplexAddress(id: address.id, channel: "b"), MultiplexAddress(id: "0", channel: "a")] {
            #expect(throws: PrimusPluginError.self) { _ = try channels.channel(of: other) }
            #expect(throws: PrimusPluginError.self) { _ = try channels.ended(other) }
        }
        expectEqual(channels.count, 1)
        expectEqual(channels.endAll(), [1])
        expectEqual(channels.count, 0)
    }

    @Test func `a server knows the channels of a client, in order and up to a limit`() throws {
        var members = MultiplexMembers(limit: 2, nameLimit: 10)
        let (a, b) = (MultiplexAddress(id: "2", channel: "a"), MultiplexAddress(id: "1", channel: "b"))
        let c = MultiplexAddress(id: "3", channel: "a")
        try expect(members.join(a))
        try expect(members.join(b))
        try expect(!members.join(a), "a second time has no effect")
        #expect(throws: PrimusPluginError.limitReached(plugin: "multiplex", "the client has joined 2 channels")) { _ = try members.join(c) }
        expectEqual(members.addresses, [a, b])
        try members.check(a)
        #expect(throws: PrimusPluginError.self) { try members.check(MultiplexAddress(id: "2", channel: "b")) }
        try members.leave(a)
        #expect(throws: PrimusPluginError.self) { try members.leave(a) }
        try expect(members.join(c))
        expectEqual(members.endAll(), [b, c])
        expectEqual(members.count, 0)
    }

    @Test func `the names and IDs of channels have a limit each, and one together`() throws {
        var members = MultiplexMembers(limit: 4, nameLimit: 400)
        func address(_ id: Int, _ channel: Int) -> MultiplexAddress {
            MultiplexAddress(id: String(repeating: "i", count: id), channel: String(repeating: "c", count: channel))
        }
        for (long, part) in [(address(401, 1), "ID"), (address(1, 401), "name")] {
            let error = PrimusPluginError.limitReached(
                plugin: "multiplex", "the \(part) of a channel has 401 bytes, and may have 400")
            #expect(throws: error) { _ = try members.join(long) }
        }
        try expect(members.join(address(400, 400)))
        // 4 times 256 bytes for all.
        let error = PrimusPluginError.limitReached(
            plugin: "multiplex", "the names and IDs of all channels of the client may have 1024 bytes")
        #expect(throws: error) { _ = try members.join(address(24, 201)) }
        try expect(members.join(address(24, 200)))
        // What the client leaves makes room.
        try members.leave(address(400, 400))
        try expect(members.join(address(400, 399)))
        expectEqual(members.endAll().count, 2)
        try expect(members.join(address(400, 400)))
    }

    // MARK: Streams

    @Test func `a message belongs to the stream with its name, until one side ends the stream`() throws {
        var streams = Substreams<Int>()
        let message = SubstreamPacket.message(name: "a", try PrimusPayload(1, .json))
        if case .notOpen = streams.received(message) {} else { Issue.record("no stream is open") }
        streams.open("a", 1)
        streams.open("b", 2)
        if case .message(1, let payload) = streams.received(message) {
            try expectEqual(payload.decode(Int.self), 1)
        } else {
            Issue.record("not the message")
        }
        if case .ended(1) = streams.received(.end(name: "a")) {} else { Issue.record("not the end") }
        if case .notOpen = streams.received(message) {} else { Issue.record("the stream has ended") }
        expectNil(streams.end("a"))
        expectEqual(streams.end("b"), .end(name: "b"))
        expectEqual(streams.count, 0)
        streams.open("c", 3)
        streams.open("a", 4)
        expectEqual(streams["a"], 4)
        expectEqual(streams.endAll(), [3, 4])
    }

    // MARK: Names

    @Test(arguments: ["data", "end", "error", "readyStateChange", "incoming::data", "outgoing::x", "newListener", "removeListener"])
    func `reserved names can't be sent`(name: String) {
        for side in [PrimusEventName.Side.client, .server] {
            #expect(throws: PrimusPluginError.reservedEvent(name)) { try PrimusEventName.validate(name, for: side) }
        }
        #expect(throws: PrimusPluginError.reservedEvent(name)) { try PrimusEventName.validateEmit(name) }
    }

    @Test func `each side reserves names of its own`() throws {
        for name in ["open", "close", "online", "reconnect scheduled", "timeout", "destroy"] {
            try PrimusEventName.validate(name, for: .server)
            #expect(throws: PrimusPluginError.reservedEvent(name)) { try PrimusEventName.validate(name, for: .client) }
            #expect(throws: PrimusPluginError.reservedEvent(name)) { try PrimusEventName.validateEmit(name) }
        }
        try PrimusEventName.validate("heartbeat", for: .client)
        #expect(throws: PrimusPluginError.reservedEvent("heartbeat")) { try PrimusEventName.validate("heartbeat", for: .server) }
        try PrimusEventName.validate("subscribe", for: .server)
        #expect(throws: PrimusPluginError.self) { try PrimusEventName.validate("subscribe", for: .server, hasChannels: true) }
    }

    @Test func `other names can be sent`() throws {
        for name in ["", "news", "Data", "incoming", "incoming:data", "é", "newListeners"] {
            try PrimusEventName.validate(name, for: .server)
            try PrimusEventName.validateEmit(name)
        }
    }

    // MARK: Sets

    @Test func `plugins have the names of Primus's documentation`() {
        expectEqual(PrimusPluginSet.all.names, ["emitter", "emit", "multiplex", "substream", "responder"])
        for name in PrimusPluginSet.all.names { expectEqual(PrimusPluginSet(name: name)?.names, [name]) }
        expectNil(PrimusPluginSet(name: "rooms"))
    }
}
