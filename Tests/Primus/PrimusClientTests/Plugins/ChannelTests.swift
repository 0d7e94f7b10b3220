import PrimusClient
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// primus-multiplex and substream on a client.
@Suite(.timeLimit(.minutes(10))) struct ChannelTests {
    /// The ID under which the client has joined a channel, from its packet.
    private static func id(_ packet: String) -> String { String(packet.split(separator: "\"")[1]) }

    // MARK: Channels

    @Test func `a channel is joined, written and left`() async throws {
        let fixture = try await PluginFixture.opened()
        let channel = fixture.primus.channel("news")
        let messages = channel.messages.makeAsyncIterator()
        try await channel.write(["a": 1])
        let id = Self.id(try await fixture.server.received(1)[0])
        expectEqual(fixture.server.received.all, [#"[1,"\#(id)","news"]"#, #"[0,"\#(id)","news",{"a":1}]"#])
        fixture.server.send(#"[0,"\#(id)","news",5]"#, #"[0,"\#(id)","news"]"#)
        let (number, null) = (try #require(await messages.next()), try #require(await messages.next()))
        try expectEqual(number.decode(as: Int.self), 5)
        try expectEqual(null.value, nil)
        expect(channel.isJoined)
        channel.leave()
        channel.leave()
        await expectNil(messages.next())
        expect(!channel.isJoined)
        expectEqual(fixture.server.received.all.last, #"[2,"\#(id)","news"]"#)
        expectEqual(fixture.server.received.all.count, 3)
        let error = await primusError { try await channel.write(1) }
        expectEqual(error?.code, .ended)
        let late = channel.messages.makeAsyncIterator()
        await expectNil(late.next())
    }

    @Test func `messages of other channels don't arrive, and are ignored if nothing has joined`() async throws {
        let fixture = try await PluginFixture.opened()
        let all = fixture.primus.messages.makeAsyncIterator()
        let (first, second) = (fixture.primus.channel("a"), fixture.primus.channel("a"))
        let (one, two) = (first.messages.makeAsyncIterator(), second.messages.makeAsyncIterator())
        let ids = try await fixture.server.received(2).map { Self.id($0) }
        expect(ids[0] != ids[1])
        fixture.server.send(
            #"[0,"other","a",0]"#, #"[0,"\#(ids[0])","b",0]"#, #"[1,"\#(ids[0])","a"]"#, #"[2,"other","a"]"#, #"[0,"\#(ids[1])","a",2]"#,
            #"[0,"\#(ids[0])","a",1]"#, #"[5,"x","y"]"#)
        let (fromOne, fromTwo) = (try #require(await one.next()), try #require(await two.next()))
        try expectEqual(fromOne.decode(as: Int.self), 1)
        try expectEqual(fromTwo.decode(as: Int.self), 2)
        try await expectEqual(all.next()?.value, [5, "x", "y"], "not a packet")
        expectEqual(fixture.primus.counters.messagesIgnored, 4)
    }

    @Test func `channels are joined again, before the messages of the queue, and those that were left aren't`() async throws {
        let fixture = try await PluginFixture()
        let (first, left) = (fixture.primus.channel("first"), fixture.primus.channel("left"))
        left.leave()
        fixture.primus.enqueue("queued")
        let messages = first.messages.makeAsyncIterator()
        fixture.primus.open()
        try await fixture.primus.opened()
        let second = fixture.primus.channel("second")
        let id = Self.id(try await fixture.server.received(3)[0])
        expectEqual(fixture.server.received.all[..<2], [#"[1,"\#(id)","first"]"#, #""queued""#])
        let other = Self.id(fixture.server.received.all[2])
        try await fixture.reconnect()
        try await expectEqual(fixture.server.received(5)[3...], [#"[1,"\#(id)","first"]"#, #"[1,"\#(other)","second"]"#])
        fixture.server.send(#"[0,"\#(id)","first",1]"#)
        try await expectEqual(messages.next()?.decode(as: Int.self), 1)
        withExtendedLifetime(second) {}
    }

    @Test func `a channel that the server ends finishes, and isn't joined again`() async throws {
        let fixture = try await PluginFixture.opened()
        let channel = fixture.primus.channel("a")
        let messages = channel.messages.makeAsyncIterator()
        let call = try await fixture.begin { _ in try await channel.emitter.send("e", as: Int.self) }
        let id = Self.id(fixture.server.received.all[0])
        fixture.server.send(#"[0,"\#(id)","a",1]"#, #"[2,"\#(id)","a"]"#)
        try await expectEqual(messages.next()?.decode(as: Int.self), 1)
        await expectNil(messages.next())
        let error = await primusError { _ = try await call.value }
        expect(error?.code == .ended && error?.message == "The server ended the channel a.")
        let next = await primusError { _ = try await channel.emitter.send("e", as: Int.self) }
        expectEqual(next?.code, .ended)
        try await fixture.reconnect()
        try await fixture.primus.write("x")
        try await expectEqual(fixture.server.received(3).last, #""x""#)
    }

    @Test func `a channel carries events with acknowledgements of its own`() async throws {
        let fixture = try await PluginFixture.opened()
        let channel = fixture.primus.channel("a")
        let (events, messages) = (channel.emitter.on("q").makeAsyncIterator(), channel.messages.makeAsyncIterator())
        let outside = fixture.primus.emitter.on("q").makeAsyncIterator()
        let call = try await fixture.begin { _ in try await channel.emitter.send("find", 1, as: String.self) }
        try await channel.emitter.send("tell")
        let id = Self.id(try await fixture.server.received(3)[0])
        expectEqual(
            fixture.server.received.all[1...],
            [
                #"[0,"\#(id)","a",{"type":0,"data":["find",1],"id":1}]"#, #"[0,"\#(id)","a",{"type":0,"data":["tell"]}]"#,
            ])
        // An acknowledgement outside of the channel belongs to another call.
        fixture.server.send(
            #"{"id":1,"type":1,"data":["wrong"]}"#, #"[0,"\#(id)","a",{"id":1,"type":1,"data":["right"]}]"#,
            #"[0,"\#(id)","a",{"type":0,"data":["q",1],"id":4}]"#, #"[0,"\#(id)","a",{"type":9}]"#, #"{"type":0,"data":["q",2]}"#)
        try await expectEqual(call.value, "right")
        let event = try #require(await events.next())
        try expectEqual(event.decode(Int.self), 1)
        try expect(event.acknowledge(true))
        try await expectEqual(fixture.server.received(4).last, #"[0,"\#(id)","a",{"id":4,"type":1,"data":[true]}]"#)
        try await expectEqual(messages.next()?.value, ["type": 9])
        let other = try #require(await outside.next())
        try expectEqual(other.decode(Int.self), 2)
    }

    @Test func `callbacks receive the messages of a channel in order`() async throws {
        let fixture = try await PluginFixture.opened()
        let channel = fixture.primus.channel("a")
        let received = EventRecorder<Int>()
        let registration = channel.onMessage(on: PrimusCallbackExecutor { $0() }) { message in
            if let number = try? message.decode(as: Int.self) { received.record(number) }
        }
        let id = Self.id(try await fixture.server.received(1)[0])
        fixture.server.send(#"[0,"\#(id)","a",1]"#, #"[0,"\#(id)","a",2]"#)
        try await eventually("both messages") { received.all.count == 2 }
        expectEqual(received.all, [1, 2])
        withExtendedLifetime(registration) {}
    }

    // MARK: Streams

    @Test func `a stream is written and ended`() async throws {
        let fixture = try await PluginFixture.opened()
        let stream = fixture.primus.substream("s")
        let messages = stream.messages.makeAsyncIterator()
        try await stream.write("a")
        fixture.server.send(#"{"substream":"s","args":[1]}"#)
        try await expectEqual(messages.next()?.decode(as: [Int].self), [1])
        try await stream.end("last")
        stream.end()
        await expectNil(messages.next())
        expect(!stream.isOpen)
        try await expectEqual(
            fixture.server.received(3),
            [
                #"{"substream":"s","args":"a"}"#, #"{"substream":"s","args":"last"}"#, #"{"substream":"s","args":"substream::end"}"#,
            ])
        let error = await primusError { try await stream.write(1) }
        expectEqual(error?.code, .ended)
        // The name can be opened again.
        try await fixture.primus.substream("s").write(2)
        try await expectEqual(fixture.server.received(4).last, #"{"substream":"s","args":2}"#)
    }

    @Test func `a name has one stream, which continues after a reconnect and which the server can end`() async throws {
        let fixture = try await PluginFixture.opened()
        let (first, second) = (fixture.primus.substream("s"), fixture.primus.substream("s"))
        let (one, two) = (first.messages.makeAsyncIterator(), second.messages.makeAsyncIterator())
        try await fixture.reconnect()
        fixture.server.send(#"{"substream":"s","args":1}"#, #"{"substream":"s","args":"substream::end"}"#)
        try await expectEqual(one.next()?.decode(as: Int.self), 1)
        try await expectEqual(two.next()?.decode(as: Int.self), 1)
        await expectNil(one.next())
        await expectNil(two.next())
        expect(fixture.server.received.all.isEmpty, "the end isn't answered")
    }

    @Test func `a message of a stream that isn't open is a message of the client`() async throws {
        let fixture = try await PluginFixture.opened()
        let messages = fixture.primus.messages.makeAsyncIterator()
        fixture.server.send(#"{"substream":"s","args":1}"#)
        try await expectEqual(messages.next()?.value, ["substream": "s", "args": 1])
    }
}
