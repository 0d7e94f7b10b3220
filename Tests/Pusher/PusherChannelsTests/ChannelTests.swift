import PusherTestSupport
import RealtimeCoding
import RealtimeCore
import PusherChannels
import PusherServer
import PusherTesting
import RealtimeTesting
import TestSupport
import Testing

private struct Price: Codable, Equatable {
    var value: Double
    var name: String?
}

@Suite struct ChannelTests {
    @Test func `events of a public channel arrive in order`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let prices = try client.subscribe("prices")
        let events = prices.events("price")
        client.connect()
        for value in 1...100 { pusher.server.publish("price", to: "prices", data: #"{"value":\#(value)}"#) }
        let received = try await events.pending().map { try $0.decode(Price.self).value }
        expectEqual(received, (1...100).map(Double.init))
    }

    @Test func `a sequence delivers the events since its creation`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let prices = try client.subscribe("prices")
        pusher.server.publish("price", to: "prices", data: "1")
        let events = prices.events("price")
        pusher.server.publish("price", to: "prices", data: "2")
        await expectEqual(events.pending().map(\.data), ["2"])
    }

    @Test func `a sequence delivers the events with its name and on its channel`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let (one, two) = (try client.subscribe("one"), try client.subscribe("two"))
        let (named, all, other, everywhere, everywhereNamed) = (
            one.events("a"), one.events(), two.events(), client.events(), client.events("b")
        )
        for (channel, event) in [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b"), ("three", "a")] {
            pusher.server.publish(event, to: channel, data: "\(channel)-\(event)")
        }
        await expectEqual(named.pending().map(\.data), ["one-a"])
        await expectEqual(all.pending().map(\.data), ["one-a", "one-b"])
        await expectEqual(other.pending().map(\.data), ["two-a", "two-b"])
        await expectEqual(everywhere.pending().map(\.data), ["one-a", "one-b", "two-a", "two-b"])
        await expectEqual(everywhereNamed.pending().map(\.data), ["one-b", "two-b"])
    }

    @Test func `releasing a sequence does not affect others`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let channel = try client.subscribe("one")
        var first: EventSequence<PusherEvent>? = channel.events("a")
        let second = channel.events("a")
        pusher.server.publish("a", to: "one", data: "1")
        await expectEqual(first?.pending().count, 1)
        first = nil
        pusher.server.publish("a", to: "one", data: "2")
        await expectEqual(second.pending().map(\.data), ["1", "2"])
    }

    @Test func `events after a break are delivered to the next loop`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let events = try client.subscribe("one").events()
        for data in 1...5 { pusher.server.publish("a", to: "one", data: "\(data)") }
        var seen: [String?] = []
        for await event in events {
            seen.append(event.data)
            if seen.count == 2 { break }
        }
        expectEqual(seen, ["1", "2"])
        await expectEqual(events.first { $0.data == "4" }?.data, "4")
        await expectEqual(events.pending().map(\.data), ["5"])
    }

    @Test func `a full buffer drops the oldest or the newest events and counts them`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let channel = try client.subscribe("one")
        let (oldest, newest) = (channel.events(buffer: .dropOldest(3)), channel.events(buffer: .dropNewest(3)))
        for data in 1...10 { pusher.server.publish("a", to: "one", data: "\(data)") }
        expect(oldest.dropped == 7 && newest.dropped == 7)
        expectEqual(client.counters.eventsDropped, 14)
        await expectEqual(oldest.pending().map(\.data), ["8", "9", "10"])
        await expectEqual(newest.pending().map(\.data), ["1", "2", "3"])
    }

    @Test func `a full buffer that does not drop events pauses reading`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let socketID = client.socketID
        let events = try client.subscribe("one").events(buffer: .pauseReading(4))
        for data in 1...20 { pusher.server.publish("a", to: "one", data: "\(data)") }
        // While reading is paused, the connection does not time out.
        pusher.clock.advance(by: .seconds(100))
        expectEqual(client.socketID, socketID)
        let iterator = events.makeAsyncIterator()
        var seen: [String?] = []
        for _ in 1...20 { seen.append(await iterator.next()?.data) }
        expectEqual(seen, (1...20).map { "\($0)" })
        expectEqual(events.dropped, 0)
    }

    @Test func `subscribing twice sends one subscription`() async throws {
        let pusher = try await InMemoryPusher()
        let server = pusher.server.events
        let client = pusher.client()
        client.connect()
        let errors = client.errors
        _ = try client.subscribe("one")
        _ = try client.subscribe("one")
        let frames = await server.pending().filter { if case .received = $0 { true } else { false } }
        expectEqual(frames.count, 1)
        await expect(errors.pending().isEmpty)
    }

    @Test func `unsubscribing ends the sequences and notifies the server`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let channel = try client.subscribe("one")
        let (events, states) = (channel.events(), channel.states)
        pusher.server.publish("a", to: "one", data: "1")
        channel.unsubscribe()
        expect(pusher.server.subscribers(of: "one").isEmpty)
        var seen: [String?] = []
        for await event in events { seen.append(event.data) }
        expect(seen == ["1"] && events.endReason == .ended)
        var last: PusherSubscriptionState?
        for await state in states { last = state }
        expect(last == .unsubscribed && channel.state == .unsubscribed)
        expectNil(client.channel("one"))
        for await _ in channel.events() { Issue.record("an unsubscribed channel has no events") }
    }

    @Test func `unsubscribing while the subscription is pending removes it`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let channel = try client.subscribe("private-one")
        channel.unsubscribe()
        client.connect()
        expect(pusher.server.subscribers(of: "private-one").isEmpty)
        _ = try client.subscribe("private-one")
        expectEqual(pusher.server.subscribers(of: "private-one").count, 1)
    }

    @Test func `every channel is subscribed again after a loss`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client(userID: "7")
        client.connect()
        let names = ["one", "private-two", "presence-three"]
        let channels = try names.map { try client.subscribe($0) }
        let events = channels.map { $0.events() }
        let states = channels[0].states
        pusher.server.drop(try #require(client.socketID))
        expectEqual(channels.map(\.state), [.pending, .pending, .pending])
        pusher.clock.advance(by: .seconds(2))
        expectEqual(channels.map(\.state), [.subscribed, .subscribed, .subscribed])
        await expectEqual(states.pending(), [.subscribed, .pending, .subscribed])
        for name in names { pusher.server.publish("a", to: name, data: name) }
        for (sequence, name) in zip(events, names) { await expectEqual(sequence.pending().map(\.data), [name]) }
    }

    @Test func `subscribed waits and throws the error of a failed subscription`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = .secret("not the secret") }
        client.connect()
        try await client.subscribe("one").subscribed()
        let rejected = try client.subscribe("private-one")
        do {
            try await rejected.subscribed()
            Issue.record("an invalid signature should be rejected")
        } catch {
            expect(error.code == .subscriptionRejected && error.serverCode == 4009)
        }
        guard case .failed = rejected.state else {
            Issue.record("the state is \(rejected.state)")
            return
        }
        expectEqual(client.state.name, "connected")
    }

    @Test func `a private channel without an authorizer fails with a hint`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = nil }
        client.connect()
        let errors = client.errors
        let channel = try client.subscribe("private-one")
        do {
            try await channel.subscribed()
            Issue.record("it should throw")
        } catch {
            expect(error.code == .authorizationMissing && error.message.contains("authorizer"))
        }
        await expectEqual(errors.pending().map(\.code), [.authorizationMissing])
    }

    @Test(arguments: ["", "with space", "with/slash", "ünïcode", String(repeating: "x", count: 201)])
    func `an invalid channel name throws`(name: String) async throws {
        let client = PusherClient(key: "key", host: "memory")
        #expect(throws: PusherError.self) { try client.subscribe(name) }
        expect(client.channelNames.isEmpty)
    }

    @Test func `a subscription without a confirmation times out`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        pusher.server.silence(try #require(client.socketID))
        let channel = try client.subscribe("one")
        pusher.clock.advance(by: .seconds(30))
        guard case .failed(let error) = channel.state else {
            Issue.record("the state is \(channel.state)")
            return
        }
        expectEqual(error.code, .timedOut)
        pusher.server.silence(try #require(client.socketID), false)
        _ = try client.subscribe("one")
        expectEqual(channel.state, .subscribed)
    }
}

@Suite struct AuthorizationTests {
    @Test func `ten authorizations run at the same time and the others wait`() async throws {
        let pusher = try await InMemoryPusher()
        let gate = AuthorizationGate()
        let client = pusher.client { $0.authorizer = .callback { await gate.call($0) } }
        client.connect()
        let names = (0..<25).map { "private-\($0)" }
        let channels = try names.map { try client.subscribe($0) }
        var open: [AuthorizationGate.Call] = []
        for _ in 0..<10 { open.append(await gate.next()) }
        expect(Set(open.map(\.input.channel)) == Set(names[..<10]) && gate.suspendedCount == 10)
        // Unsubscribing starts the next authorization, or removes a waiting channel.
        channels[24].unsubscribe()
        channels[0].unsubscribe()
        let eleventh = await gate.next()
        expect(eleventh.input.channel == names[10] && gate.suspendedCount == 11)
        // After a loss, all authorizations begin again.
        pusher.network.cut()
        pusher.clock.advance(by: .seconds(1))
        for pending in open + [eleventh] { pending.resume(returning: pusher.signed(pending.input)) }
        for _ in 1..<24 {
            let pending = await gate.next()
            expectEqual(pending.input.socketID, client.socketID)
            pending.resume(returning: pusher.signed(pending.input))
        }
        for channel in channels[1..<24] { try await channel.subscribed() }
        expect(gate.maximumSuspendedCount <= 21)
    }

    @Test func `the result of an authorization for a lost connection is ignored`() async throws {
        let pusher = try await InMemoryPusher()
        let gate = AuthorizationGate()
        let client = pusher.client { $0.authorizer = .callback { await gate.call($0) } }
        client.connect()
        let first = try #require(client.socketID)
        let channel = try client.subscribe("private-one")
        let old = await gate.next()
        pusher.server.drop(first)
        pusher.clock.advance(by: .seconds(2))
        let new = await gate.next()
        expect(old.input.socketID == first && new.input.socketID == client.socketID)
        old.resume(returning: PusherChannelAuthorization(auth: "key:stale"))
        expectEqual(channel.state, .pending)
        new.resume(returning: pusher.signed(new.input))
        try await channel.subscribed()
    }

    @Test func `an authorization callback that throws fails only its channel`() async throws {
        struct Unavailable: Error {}
        let pusher = try await InMemoryPusher()
        let client = pusher.client { [signed = pusher.signed] in
            $0.authorizer = .callback { request in
                if request.channel == "private-bad" { throw Unavailable() }
                return signed(request)
            }
        }
        client.connect()
        let (bad, good) = (try client.subscribe("private-bad"), try client.subscribe("private-good"))
        try await good.subscribed()
        do {
            try await bad.subscribed()
            Issue.record("it should throw")
        } catch {
            expect(error.code == .authorizationFailed && error.message.contains("Unavailable"))
        }
    }

    @Test func `an authorization that does not finish times out`() async throws {
        let pusher = try await InMemoryPusher()
        let gate = AuthorizationGate()
        let client = pusher.client { $0.authorizer = .callback { await gate.call($0) } }
        client.connect()
        let channel = try client.subscribe("private-one")
        let pending = await gate.next()
        pusher.clock.advance(by: .seconds(30))
        guard case .failed(let error) = channel.state else {
            Issue.record("the state is \(channel.state)")
            return
        }
        expectEqual(error.code, .timedOut)
        pending.resume(returning: pusher.signed(pending.input))
    }

    @Test func `an authorization endpoint receives a form and the header fields`() async throws {
        let pusher = try await InMemoryPusher()
        let signed = pusher.signed
        let application = ApplicationServer { request, body in
            expect(request.method == "POST" && request.headers["Authorization"] == "Bearer token")
            expectEqual(request.headers["Content-Type"], "application/x-www-form-urlencoded")
            let fields = String(decoding: body, as: UTF8.self)
            guard fields.hasPrefix("channel_name=private-one&socket_id=") else { return HTTPResponse(status: 400) }
            let request = PusherAuthorizationRequest(channel: "private-one", socketID: String(fields.split(separator: "=")[2]))
            return HTTPResponse(status: 200, text: #"{"auth":"\#(signed(request).auth)"}"#)
        }
        let address = try await pusher.network.listener(host: "app").start(application)
        let client = pusher.client {
            $0.authorizer = try? .endpoint("http://app:\(address.port)/pusher/auth", headers: ["Authorization": "Bearer token"])
        }
        client.connect()
        try await client.subscribe("private-one").subscribed()
        expectEqual(pusher.server.subscribers(of: "private-one").count, 1)
    }

    @Test func `an authorization follows redirects, with the cookies of the servers`() async throws {
        let pusher = try await InMemoryPusher()
        let requests = EventRecorder<HTTPRequestHead>()
        let signed = pusher.signed
        let application = ApplicationServer { head, body in
            requests.record(head)
            guard head.path == "/auth" else {
                let fields = String(decoding: body, as: UTF8.self)
                let request = PusherAuthorizationRequest(channel: "private-one", socketID: String(fields.split(separator: "=")[2]))
                return HTTPResponse(status: 200, text: #"{"auth":"\#(signed(request).auth)"}"#)
            }
            return HTTPResponse(
                HTTPResponseHead(status: 307, headers: ["Location": "/moved", "Set-Cookie": "affinity=1; Path=/", "Content-Length": "0"]))
        }
        let address = try await pusher.network.listener(host: "app").start(application)
        let client = pusher.client { $0.authorizer = try? .endpoint("http://app:\(address.port)/auth") }
        client.connect()
        try await client.subscribe("private-one").subscribed()
        expectEqual(requests.all.map { "\($0.path)" }, ["/auth", "/moved"])
        expectEqual(requests.all.map { $0.headers["Cookie"] }, [nil, "affinity=1"])
    }

    @Test func `an authorization that is redirected to a page names the page`() async throws {
        let pusher = try await InMemoryPusher()
        let application = ApplicationServer { head, _ in
            guard head.path == "/auth" else { return HTTPResponse(status: 200, text: "<html>") }
            return HTTPResponse(HTTPResponseHead(status: 302, headers: ["Location": "/login?next=auth", "Content-Length": "0"]))
        }
        let address = try await pusher.network.listener(host: "app").start(application)
        let client = pusher.client { $0.authorizer = try? .endpoint("http://app:\(address.port)/auth") }
        client.connect()
        let channel = try client.subscribe("private-one")
        let error = await #expect(throws: PusherError.self) { try await channel.subscribed() }
        let text = "the response of http://app:\(address.port)/login, to which the server redirects, must be a JSON object"
        expectEqual(error?.message.contains(text), true, "\(error?.message ?? "")")
    }

    @Test(arguments: [
        (HTTPResponse(status: 403, headers: ["X": "y"], text: "no"), "the server rejected the subscription with status 403"),
        (HTTPResponse(status: 302), "redirects with status 302"),
        (HTTPResponse(status: 500), "status 500"),
        (HTTPResponse(status: 200, text: "<html>"), "must be a JSON object with a string \"auth\", but it is a page of HTML."),
        (HTTPResponse(status: 200, text: "[]"), "must be a JSON object with a string \"auth\", but it is other JSON."),
        (HTTPResponse(status: 200, text: ""), "but it is empty."), (HTTPResponse(status: 200, text: "true"), "but it is other JSON."),
        (HTTPResponse(status: 200, text: #""{}""#), "but it is a string."), (HTTPResponse(status: 200, text: "no"), "but it isn't JSON."),
        (HTTPResponse(status: 200, text: #"{"auth":1}"#), #"but "auth" isn't a string."#),
        (HTTPResponse(status: 200, text: #"{"key":"k"}"#), #"but it has no "auth"."#),
        (HTTPResponse(status: 200, text: #"{"data":{"auth":"k:s"}}"#), #"but "auth" is inside another object, "data"."#),
    ])
    func `the error for a failed authorization contains the reason`(row: (response: HTTPResponse, reason: String)) async throws {
        let pusher = try await InMemoryPusher()
        let address = try await pusher.network.listener(host: "app").start(ApplicationServer { _, _ in row.response })
        let client = pusher.client { $0.authorizer = try? .endpoint("http://app:\(address.port)/auth") }
        client.connect()
        do {
            try await client.subscribe("private-one").subscribed()
            Issue.record("it should throw")
        } catch {
            expect(error.code == .authorizationFailed && error.message.contains(row.reason), "\(error)")
            expectEqual(error.status, row.response.head.status)
            // The body of a successful response can contain a token.
            let response = (error.cause as? TransportError)?.response
            expectEqual(response, (row.response.head.status == 200 ? nil : row.response))
        }
    }
}

@Suite struct PresenceTests {
    @Test func `each member is listed once and in order`() async throws {
        let pusher = try await InMemoryPusher()
        let (anna, bert, annaAgain) = (pusher.client(userID: "anna"), pusher.client(userID: "bert"), pusher.client(userID: "anna"))
        anna.connect()
        let room = try anna.subscribe("presence-room")
        let changes = room.memberChanges
        for client in [bert, annaAgain] {
            client.connect()
            _ = try client.subscribe("presence-room")
        }
        expectEqual(room.members.map(\.id), ["anna", "bert"])
        expectEqual(room.members.me?.id, "anna")
        annaAgain.disconnect()
        bert.disconnect()
        let expected: [PusherMemberChange] = [.joined(PusherMember(id: "bert", info: nil)), .left(PusherMember(id: "bert", info: .null))]
        let seen = await changes.pending()
        expect(seen.count == 2 && seen.first == expected.first)
        expectEqual(room.members.map(\.id), ["anna"])
    }

    @Test func `the list of members is replaced after a reconnect`() async throws {
        let pusher = try await InMemoryPusher()
        let (anna, bert) = (pusher.client(userID: "anna"), pusher.client(userID: "bert"))
        for client in [anna, bert] {
            client.connect()
            _ = try client.subscribe("presence-room")
        }
        let room = try #require(anna.channel("presence-room"))
        pusher.server.drop(try #require(anna.socketID))
        expectEqual(room.members.map(\.id), ["anna", "bert"])
        bert.disconnect()
        pusher.clock.advance(by: .seconds(2))
        expectEqual(room.members.map(\.id), ["anna"])
    }

    @Test func `a member's user info can be decoded`() async throws {
        struct User: Codable, Equatable {
            var name: String
        }
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = .secret("secret", userID: "1", userInfo: ["name": "Anna"]) }
        client.connect()
        let room = try client.subscribe("presence-room")
        try expectEqual(room.members.me?.decodeInfo(User.self), User(name: "Anna"))
    }
}

@Suite struct ClientEventTests {
    @Test func `client events reach the other members with the user ID of the sender`() async throws {
        let pusher = try await InMemoryPusher()
        let (anna, bert) = (pusher.client(userID: "anna"), pusher.client(userID: "bert"))
        for client in [anna, bert] { client.connect() }
        let (sending, receiving) = (try anna.subscribe("presence-room"), try bert.subscribe("presence-room"))
        let (own, others) = (sending.events(), receiving.events("client-typing"))
        try sending.trigger("client-typing", ["on": true])
        let received = await others.pending()
        expectEqual(received.map(\.userID), ["anna"])
        try expectEqual(received.first?.decode([String: Bool].self), ["on": true])
        await expect(own.pending().isEmpty)
    }

    @Test func `client events are queued in order until the channel is subscribed`() async throws {
        let pusher = try await InMemoryPusher()
        let receiver = pusher.client()
        receiver.connect()
        let events = try receiver.subscribe("private-one").events()
        let sender = pusher.client()
        let channel = try sender.subscribe("private-one")
        for value in 1...3 { try channel.trigger("client-value", value) }
        sender.connect()
        await expectEqual(events.pending().map(\.data), ["1", "2", "3"])
    }

    @Test func `an event that cannot be sent throws`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.clientEventQueueLimit = 2 }
        let (open, secret) = (try client.subscribe("public"), try client.subscribe("private-one"))
        func code(_ body: () throws(PusherError) -> Void) -> PusherError.Code? {
            do throws(PusherError) { try body() } catch { return error.code }
            return nil
        }
        expectEqual(code { () throws(PusherError) in try open.trigger("client-a", 1) }, .clientEventsNotAllowed)
        expectEqual(code { () throws(PusherError) in try secret.trigger("a", 1) }, .invalidEventName)
        expectEqual(code { () throws(PusherError) in try secret.trigger("client-a", String(repeating: "x", count: 11_000)) }, .dataTooLarge)
        expectEqual(code { () throws(PusherError) in try secret.trigger("client-a", Double.nan) }, .encodingFailed)
        for _ in 1...2 { try secret.trigger("client-a", 1) }
        expectEqual(code { () throws(PusherError) in try secret.trigger("client-a", 1) }, .queueFull)
        secret.unsubscribe()
        expectEqual(code { () throws(PusherError) in try secret.trigger("client-a", 1) }, .notSubscribed)
    }

    @Test func `a handle created before an unsubscribe still sends to its own channel`() async throws {
        let pusher = try await InMemoryPusher()
        let (client, other) = (pusher.client(), pusher.client())
        client.connect()
        other.connect()
        let old = try client.subscribe("private-one")
        let (atOne, atTwo) = (try other.subscribe("private-one").events("client-a"), try other.subscribe("private-two").events("client-a"))
        old.unsubscribe()
        // It takes the slot of the unsubscribed channel.
        let two = try client.subscribe("private-two")
        #expect(throws: PusherError.self) { try old.trigger("client-a", 1) }
        _ = try client.subscribe("private-one")
        try old.trigger("client-a", 2)
        try two.trigger("client-a", 3)
        await expectEqual(atOne.pending().map(\.data), ["2"])
        await expectEqual(atTwo.pending().map(\.data), ["3"])
    }

    @Test func `an event that the server rejects is reported as an error`() async throws {
        let pusher = try await InMemoryPusher { $0.allowsClientEvents = false }
        let client = pusher.client()
        client.connect()
        let errors = client.errors
        try client.subscribe("private-one").trigger("client-a", 1)
        await expectEqual(errors.pending().map(\.serverCode), [4301])
        expectEqual(client.state.name, "connected")
    }

    @Test func `the server rejects the eleventh client event in a second`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let (errors, channel) = (client.errors, try client.subscribe("private-one"))
        for value in 1...11 { try channel.trigger("client-a", value) }
        await expectEqual(errors.pending().map(\.serverCode), [4301])
        pusher.clock.advance(by: .seconds(1))
        try channel.trigger("client-a", 12)
        await expect(errors.pending().isEmpty)
    }
}
