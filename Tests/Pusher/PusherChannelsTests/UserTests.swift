import PusherTestSupport
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeEncoding
import RealtimeCoding
import TestSupport
import Testing

@testable import PusherChannels

/// The user of a session.
@Suite struct UserSessionTests {
    /// A session that is connected as #1 and has asked for the authentication 1 of its user.
    private func signingIn(to channels: String..., configuration: (inout PusherConfiguration) -> Void = { _ in }) -> SessionHarness {
        var harness = SessionHarness {
            $0.userAuthenticator = .secret("unused: the tests finish the authentications", user: PusherMember(id: "unused"))
            configuration(&$0)
        }
        harness.signIn()
        for channel in channels { harness.subscribe(channel) }
        harness.start()
        harness.establish()
        return harness
    }

    @Test func `a user signs in when the client connects, and again after a reconnect`() {
        var harness = SessionHarness { $0.userAuthenticator = .secret("unused", user: PusherMember(id: "unused")) }
        expectEqual(harness.signIn(), ["user pending"])
        expectEqual(harness.signIn(), [])
        harness.start()
        expect(harness.establish().contains("authenticate 1 1.2"))
        expectEqual(harness.authenticate(1, user: "anna"), ["#1 pusher:signin key:1"])
        expectEqual(harness.confirmUser("anna"), ["signed in as anna", "#1 pusher:subscribe #server-to-user-anna"])
        expect(harness.confirm("#server-to-user-anna") == [] && harness.signIn() == [])
        let loss = harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expect(loss.contains("user pending"))
        expect(harness.establish().contains("authenticate 2 1.2"))
        harness.authenticate(2, user: "anna")
        expectEqual(harness.confirmUser("anna"), ["signed in as anna", "#2 pusher:subscribe #server-to-user-anna"])
        expectEqual(harness.counters.messagesIgnored, 0)
    }

    @Test func `a rejected subscription to the channel of the user is reported`() {
        var harness = self.signingIn()
        harness.authenticate(1, user: "anna")
        harness.confirmUser("anna")
        let rejection = ##"{"event":"pusher:subscription_error","channel":"#server-to-user-anna","data":{"error":"Not allowed"}}"##
        expectEqual(harness.receive(rejection), ["error subscriptionRejected"])
        let errors = harness.events.compactMap { if case .error(let error) = $0 { error } else { nil } }
        expectEqual(errors.map(\.message), ["The server rejected the subscription to #server-to-user-anna: Not allowed."])
        expectEqual(errors.map(\.channel), ["#server-to-user-anna"])
    }

    @Test func `without an authenticator, signing in fails and says what to set`() {
        var harness = SessionHarness.connected()
        harness.awaitSignedIn(5)
        let lines = harness.signIn()
        expect(lines.contains("sign-in failed authorizationMissing") && lines.contains("error authorizationMissing"))
        expect(lines.contains("fail 5 authorizationMissing"))
    }

    @Test func `a temporary failure is retried with growing delays, and a refusal isn't`() {
        var harness = self.signingIn { $0.backoff = Backoff(base: .seconds(4), cap: .seconds(60)) }
        for (work, limit) in [(1, 4), (2, 8), (3, 16)] as [(UInt64, Int)] {
            expectEqual(harness.failAuthentication(work, status: 503), ["sign-in failed authorizationFailed", "error authorizationFailed"])
            expectEqual(harness.advance(by: .seconds(limit)), ["user pending", "authenticate \(work + 1) 1.2"])
        }
        expectEqual(harness.failAuthentication(4, status: 403), ["sign-in failed authorizationFailed", "error authorizationFailed"])
        expectEqual(harness.advance(by: .seconds(60)), [])
        expectEqual(harness.signIn(), ["user pending", "authenticate 5 1.2"])
        harness.authenticate(5, user: "anna")
        harness.confirmUser("anna")
        expectEqual(harness.session.user.failures, 0)
    }

    @Test(arguments: [
        (#"{"code":4009,"message":"Connection not authorized."}"#, "sign-in failed authorizationFailed"),
        (#"{"code":null,"message":"Invalid user data"}"#, "sign-in failed authorizationFailed"),
        (#"{"code":4301,"message":"another error"}"#, "error rateLimited"),
        (#"{"code":null,"message":"Existing subscription to channel private-b"}"#, "error server"),
    ])
    func `an error of the server while the user signs in`(data: String, line: String) {
        var harness = self.signingIn(to: "private-a")
        harness.authenticate(1, user: "anna")
        harness.authorize(2)
        // The error doesn't belong to the subscription, which also waits.
        expectEqual(harness.receive(#"{"event":"pusher:error","data":\#(data)}"#).first, line)
        expectEqual(harness.session.channels["private-a"]?.subscription.state, .subscribing)
    }

    @Test func `a sign-in that isn't confirmed times out`() {
        var harness = self.signingIn()
        harness.authenticate(1, user: "anna")
        expectEqual(harness.advance(by: .seconds(30)).prefix(2), ["sign-in failed timedOut", "error timedOut"])
        var waiting = self.signingIn()
        expectEqual(waiting.advance(by: .seconds(30)), ["sign-in failed timedOut", "error timedOut", "cancel 1"])
        expectEqual(waiting.authenticate(1, user: "anna"), [])
    }

    @Test func `after a standstill, a sign-in has its time limit once more`() {
        var harness = self.signingIn()
        harness.authenticate(1, user: "anna")
        expectEqual(harness.standStill(for: .seconds(40)), [])
        expectEqual(harness.standStill(for: .seconds(40)).prefix(2), ["sign-in failed timedOut", "error timedOut"])
    }

    @Test(arguments: [
        #"{"user_data":"{\"id\":\"anna\",\"user_info\":{\"name\":\"A\"}}"}"#, #"{"user_data":{"id":"anna","user_info":{"name":"A"}}}"#,
        #""{\"user_data\":\"{\\\"id\\\":\\\"anna\\\",\\\"user_info\\\":{\\\"name\\\":\\\"A\\\"}}\"}""#,
    ])
    func `the user of a confirmation may be a string or an object`(data: String) {
        var harness = self.signingIn()
        harness.authenticate(1, user: "anna")
        harness.receive(#"{"event":"pusher:signin_success","data":\#(data)}"#)
        expectEqual(harness.session.user.state, .signedIn(PusherMember(id: "anna", info: ["name": "A"])))
    }

    @Test func `an invalid confirmation is reported, and the sign-in times out`() {
        var harness = self.signingIn()
        harness.authenticate(1, user: "anna")
        for data in ["{}", "1", #"{"user_data":"anna"}"#, #"{"user_data":{}}"#] {
            expectEqual(harness.receive(#"{"event":"pusher:signin_success","data":\#(data)}"#), ["error invalidFrame"])
        }
        expectEqual(harness.session.user.state, .signingIn)
        // A confirmation without a request is ignored.
        var idle = SessionHarness.connected()
        expect(idle.confirmUser("anna") == [] && idle.counters.messagesIgnored == 1)
    }

    @Test func `a presence channel without a member of its own waits for the user`() {
        var harness = self.signingIn(to: "presence-a")
        expectEqual(harness.authorize(2), [])
        harness.authenticate(1, user: "anna")
        expectEqual(
            harness.confirmUser("anna"),
            [
                "signed in as anna", "#1 pusher:subscribe #server-to-user-anna", "#1 pusher:subscribe presence-a key:2",
            ])
        harness.confirm("presence-a", data: #"{"presence":{"ids":["anna"]}}"#)
        expectEqual(harness.session.channels["presence-a"]?.members.me?.id, "anna")
        // Later, it doesn't wait.
        harness.subscribe("presence-b")
        expectEqual(harness.authorize(3), ["#1 pusher:subscribe presence-b key:3"])
    }

    @Test func `a presence channel that waits for the user fails with the sign-in`() {
        var harness = self.signingIn(to: "presence-a")
        harness.authorize(2)
        expect(harness.failAuthentication(1, status: 403).contains("presence-a failed authorizationFailed"))
        var lost = self.signingIn(to: "presence-a")
        lost.authorize(2)
        lost.close(.peer(CloseCode(rawValue: 4200), ""))
        expect(lost.session.user.subscriptions.isEmpty)
        expect(lost.establish().contains("authorize 4 presence-a 1.2"))
    }

    @Test(
        arguments: [
            (.authenticationFailed("", "it failed.", status: 503), true),
            (.authenticationFailed("", "it failed.", cause: CancellationError()), true),
            (.authenticationFailed("", "it failed.", status: 403), false), (.authenticationFailed("", "it failed."), false),
        ] as [(PusherError, Bool)])
    func `a presence channel whose member is the user is only retried if the sign-in is`(error: PusherError, isRetried: Bool) throws {
        var harness = self.signingIn(to: "presence-a")
        harness.authorize(2)
        harness.step { $0.workFinished(WorkID(rawValue: 1), .user(.failure(error)), now: $1, &$2) }
        harness.subscribe("presence-b")
        expect(harness.authorize(3).contains("presence-b failed authorizationFailed"))
        for channel in ["presence-a", "presence-b"] {
            let id = try #require(harness.session.channels.id(named: channel))
            expectEqual(harness.session.channels.hasDeadline(id), isRetried)
        }
    }

    @Test func `a failed sign-in doesn't end a later attempt to subscribe, which didn't wait for it`() {
        var harness = SessionHarness { $0.userAuthenticator = .secret("unused", user: PusherMember(id: "unused")) }
        harness.subscribe("presence-a")
        harness.start()
        harness.establish()
        harness.advance(by: .seconds(10))
        harness.signIn()
        harness.authorize(1)
        harness.advance(by: .seconds(20))
        expectEqual(harness.subscribe("presence-a"), ["presence-a pending", "authorize 3 presence-a 1.2"])
        harness.authorize(3, channelData: #"{"user_id":"me"}"#)
        harness.confirm("presence-a", data: #"{"presence":{"ids":["me"]}}"#)
        expectEqual(harness.failAuthentication(2, status: 403), ["sign-in failed authorizationFailed", "error authorizationFailed"])
        expectEqual(harness.session.channels["presence-a"]?.subscription.state, .subscribed)
    }

    @Test func `events of servers reach the user, also consumers that began before the sign-in`() {
        var harness = SessionHarness { $0.userAuthenticator = .secret("unused", user: PusherMember(id: "unused")) }
        harness.addConsumer(2, .userEvents(name: nil))
        harness.addConsumer(3, .userEvents(name: "b"))
        harness.addConsumer(4, .events(channel: nil, name: "b"))
        harness.signIn()
        harness.start()
        harness.establish()
        harness.authenticate(1, user: "anna")
        let frames = [
            ##"{"event":"a","channel":"#server-to-user-anna","data":"1"}"##, ##"{"event":"b","channel":"#server-to-user-anna"}"##,
        ]
        // Not before the user is signed in.
        harness.receive(frames[0])
        expectEqual(harness.take(), [:])
        harness.confirmUser("anna")
        harness.receive(frames[0], frames[1], ##"{"event":"b","channel":"#server-to-user-other"}"##)
        let (a, b) = ("event #server-to-user-anna a 1", "event #server-to-user-anna b")
        expectEqual(harness.take(), [2: [a, b], 3: [b], 4: [b]])
    }

    @Test func `changes of the watchlist arrive in both forms`() {
        var harness = self.signingIn()
        harness.addConsumer(2, .watchlist)
        harness.authenticate(1, user: "anna")
        harness.confirmUser("anna")
        harness.receive(
            #"{"event":"pusher_internal:watchlist_events","data":"{\"events\":[{\"name\":\"online\",\"user_ids\":[\"b\",7]},{\"name\":\"offline\",\"user_ids\":[\"c\"]},{\"name\":\"new\",\"user_ids\":[]}]}"}"#,
            #"{"event":"online","data":{"user_ids":["c"]}}"#, #"{"event":"offline","data":"{\"user_ids\":[\"b\"]}"}"#)
        expectEqual(
            harness.take()[2],
            [
                #"watchlist online(["b", "7"])"#, #"watchlist offline(["c"])"#, #"watchlist online(["c"])"#, #"watchlist offline(["b"])"#,
            ])
        // Events of the application with these names.
        expectEqual(
            harness.receive(#"{"event":"online","data":"x"}"#, #"{"event":"online"}"#), ["event online x", "event online"])
        expectEqual(harness.receive(#"{"event":"pusher_internal:watchlist_events","data":"{}"}"#), ["error invalidFrame"])
    }

    @Test func `changes of the watchlist may precede the confirmation of the sign-in`() {
        var harness = self.signingIn()
        harness.addConsumer(2, .watchlist)
        // Before the request, it is an event of the application.
        harness.receive(#"{"event":"offline","data":{"user_ids":["b"]}}"#)
        expectNil(harness.take()[2])
        harness.authenticate(1, user: "anna")
        harness.receive(#"{"event":"offline","data":{"user_ids":["b","c"]}}"#)
        expectEqual(harness.take()[2], [#"watchlist offline(["b", "c"])"#])
    }

    @Test func `calls that wait for the sign-in end with it, with the client, and with their task`() {
        var harness = self.signingIn()
        harness.awaitSignedIn(5)
        harness.authenticate(1, user: "anna")
        expectEqual(harness.confirmUser("anna").last?.hasPrefix("resume 5"), true)
        expectEqual(harness.awaitSignedIn(6).count, 1)
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.awaitSignedIn(7)
        expectEqual(harness.session.waiterCount, 1)
        expect(harness.stop().contains("fail 7 disconnected") && harness.session.waiterCount == 0)
        harness.awaitSignedIn(8)
        expectEqual(harness.session.waiterCount, 1)
        harness.step { $0.cancelled(WaiterID(rawValue: 8), now: $1, &$2) }
        expectEqual(harness.session.waiterCount, 0)
        expect(harness.session.cancellation(of: WaiterID(rawValue: 9)).message.contains("connected(within:)"))
    }

    @Test func `a timeout error says whether the client signs in`() {
        var idle = SessionHarness.connected()
        var pending = self.signingIn()
        idle.awaitSignedIn(5)
        pending.awaitSignedIn(5)
        let messages = [idle, pending].map { $0.session.timedOut(WaiterID(rawValue: 5), after: .time(.seconds(5))).message }
        expect(messages[0].hasSuffix("the user isn't signed in. Call signIn() first."))
        expect(messages[1].hasSuffix("the user isn't signed in. Use a longer timeout or check the state of the user."))
    }
}

/// The user of a client, with the embedded server.
@Suite struct UserTests {
    private func pusher() async throws -> InMemoryPusher { try await InMemoryPusher() }

    private func client(_ pusher: InMemoryPusher, _ user: String, watchlist: [String] = []) -> PusherClient {
        pusher.client {
            $0.userAuthenticator = .secret(pusher.server.app.secret, user: PusherMember(id: user), watchlist: watchlist)
        }
    }

    @Test func `a user signs in, receives events and watches others`() async throws {
        let pusher = try await self.pusher()
        let (anna, bert) = (self.client(pusher, "anna", watchlist: ["bert"]), self.client(pusher, "bert"))
        expectEqual(anna.user.state, .signedOut)
        let (events, watchlist, states) = (anna.user.events(), anna.user.watchlistChanges, anna.user.states)
        anna.user.signIn()
        anna.connect()
        try await expectEqual(anna.user.signedIn(), PusherMember(id: "anna"))
        pusher.server.publish("hello", toUser: "anna", data: "1")
        bert.user.signIn()
        bert.connect()
        bert.disconnect()
        await expectEqual(events.pending().map(\.description), ["#server-to-user-anna hello 1"])
        await expectEqual(watchlist.pending(), [.offline(["bert"]), .online(["bert"]), .offline(["bert"])])
        await expectEqual(states.pending(), [.signedOut, .pending, .signedIn(PusherMember(id: "anna"))])
        anna.disconnect()
        expectEqual(anna.user.state, .pending)
    }

    @Test func `a user whose connections are ended by the server is disconnected for good`() async throws {
        let pusher = try await self.pusher()
        let anna = self.client(pusher, "anna")
        anna.user.signIn()
        anna.connect()
        pusher.server.terminateConnections(ofUser: "anna")
        guard case .disconnected(let error?) = anna.state else {
            Issue.record("the state is \(anna.state)")
            return
        }
        expectEqual(error.serverCode, 4009)
    }

    @Test func `an endpoint authenticates the user with a form, and a rejection is an error with its status`() async throws {
        let pusher = try await self.pusher()
        let publisher = pusher.publisher()
        let application = ApplicationServer { _, body in
            let fields = PercentEncoding.fields(String(decoding: body, as: UTF8.self), plusIsSpace: true) ?? []
            guard let socketID = fields.first(where: { $0.name == "socket_id" })?.value, !fields.contains(where: { $0.name == "name" }),
                let authentication = try? publisher.authenticateUser(socketID: socketID, user: PusherMember(id: "anna")),
                let json = try? JSONValueEncoder().encodeToString(authentication)
            else { return HTTPResponse(status: 403) }
            return HTTPResponse(status: 200, text: json)
        }
        let address = try await pusher.network.listener(host: "app").start(application)
        var endpoint = PusherAuthorizationEndpoint(Endpoint(scheme: "http", host: address.host, port: address.port, target: "/user-auth"))
        let client = pusher.client { [endpoint] in $0.userAuthenticator = .endpoint(endpoint) }
        client.user.signIn()
        client.connect()
        try await expectEqual(client.user.signedIn().id, "anna")
        endpoint.parameters["name"] = "eve"
        let eve = pusher.client { $0.userAuthenticator = .endpoint(endpoint) }
        eve.user.signIn()
        eve.connect()
        let error = await #expect(throws: PusherError.self) { try await eve.user.signedIn() }
        expect(error?.status == 403 && error?.code == .authorizationFailed)
    }
}
