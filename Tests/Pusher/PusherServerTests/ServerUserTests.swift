import RealtimeCoding
@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

private typealias Command = ServerCommand

/// Users who sign in: their connections, their channel and their watchlists.
@Suite struct ServerUserTests {
    private func server(_ count: Int, _ change: (inout PusherApp) -> Void = { _ in }) -> ServerUnderTest {
        var server = ServerUnderTest(logLevel: .info, change)
        for number in 1...count { server.connect(number) }
        _ = server.takeEvents()
        return server
    }

    private func signedIn(_ userID: String) -> Command {
        .send(1, #"{"event":"pusher:signin_success","data":{"user_data":"{\"id\":\"\#(userID)\"}"}}"#)
    }

    // MARK: Signing in

    @Test func `a client signs in with a signature of its user`() {
        var server = self.server(2)
        expectEqual(server.signIn(1, as: "anna"), [self.signedIn("anna")])
        let socketID = server.socketID(1)
        expectEqual(server.takeEvents().last, .signedIn(socketID: socketID, userID: "anna"))
        // The signature is that of the other connection.
        let request = server.signInRequest(1, as: "anna")
        expectEqual(server.received(2, request).map(\.summary), ["error 4009"])
        expectEqual(server.machine.users[ByteString("anna")].map { Array($0.connections) }, [ConnectionID(1)])
    }

    @Test(arguments: [
        ("text", "error 4009"), ("[]", "error 4009"), ("{}", "error 4009"), (#"{"id":""}"#, "error 4009"), (#"{"id":7}"#, "error 4009"),
        (#"{"id":"with space"}"#, "error 4009"), (#"{"id":"\u00e9"}"#, "error 4009"),
        (#"{"id":"\#(String(repeating: "x", count: 128))"}"#, "signin_success"),
        (#"{"id":"\#(String(repeating: "x", count: 129))"}"#, "error 4009"),
        (#"{"id":"x","user_info":{"n":"\#(String(repeating: "x", count: 1016))"}}"#, "signin_success"),
        (#"{"id":"x","user_info":{"n":"\#(String(repeating: "x", count: 1017))"}}"#, "error 4009"),
        (#"{"id":"x","user_info":"text"}"#, "error 4009"),
        (#"{"id":"x","user_info":null,"watchlist":7}"#, "signin_success"),
        (#"{"id":"x","watchlist":[7,{}]}"#, "signin_success"),
    ])
    func `a user has a valid ID and limited information`(userData: String, expected: String) {
        var server = self.server(1)
        expectEqual(server.received(1, server.signInRequest(1, userData: userData)).map(\.summary), [expected])
        expectEqual(server.machine.signIns.isEmpty, (expected != "signin_success"))
    }

    @Test(arguments: [
        (#"{"event":"pusher:signin","data":{"auth":"key:x","user_data":"{\"id\":\"x\"}"}}"#, 4009),
        (#"{"event":"pusher:signin","data":{"auth":"key:x"}}"#, 4200), (#"{"event":"pusher:signin","data":{"user_data":"{}"}}"#, 4200),
        (#"{"event":"pusher:signin"}"#, 4200), (#"{"event":"pusher:signin","data":"x"}"#, 4200),
    ])
    func `a sign in without a valid signature fails and the connection stays open`(frame: String, code: Int) {
        var server = self.server(1)
        expectEqual(server.received(1, .text(frame)).map(\.summary), ["error \(code)"])
        guard case .error(_, code, _)? = server.takeEvents().last else { return expect(false, "no error") }
        expectEqual(server.signIn(1, as: "anna"), [self.signedIn("anna")])
    }

    @Test func `a profile can close the connection after a failed sign in`() {
        var server = self.server(1) { $0.profile.closesAfterFailedSignIn = true }
        let commands = server.received(1, PusherFrames.signIn(auth: "key:x", userData: #"{"id":"x"}"#))
        expectEqual(commands.map(\.summary), ["error 4009", "close 4009"])
    }

    @Test func `a connection can sign in again as the same user only`() {
        var server = self.server(1)
        server.signIn(1, as: "anna")
        expectEqual(server.signIn(1, as: "bert").map(\.summary), ["error 4009"])
        expectEqual(server.signIn(1, as: "anna"), [self.signedIn("anna")])
        expect(server.machine.users.count == 1 && server.machine.users[ByteString("anna")]?.connections.count == 1)
        server.closed(1)
        expect(server.machine.users.isEmpty && server.machine.signIns.isEmpty)
    }

    // MARK: Events for a user

    @Test func `the channel of a user requires a sign in as that user`() {
        var server = self.server(1)
        let request = PusherFrames.subscribe("#server-to-user-anna", auth: "")
        expectEqual(server.received(1, request).map(\.summary), ["error 4009"])
        server.signIn(1, as: "bert")
        expectEqual(server.received(1, request).map(\.summary), ["error 4009"])
        for name in ["#server-to-user-", "#server-to-user-a b", "#other", "#server-to-user-" + String(repeating: "x", count: 190)] {
            expectEqual(server.received(1, PusherFrames.subscribe(name)).map(\.summary), ["error null"])
        }
        expectEqual(server.received(1, PusherFrames.subscribe("#server-to-user-bert")).map(\.summary), ["subscription_succeeded"])
    }

    @Test func `an app can have longer user IDs`() {
        var server = self.server(1) { ($0.userIDLimit, $0.channelNameLimit) = (300, 400) }
        let userID = String(repeating: "x", count: 300)
        expectEqual(server.signIn(1, as: userID), [self.signedIn(userID)])
        expectEqual(server.received(1, PusherFrames.subscribe(UserID.channel(of: userID))).map(\.summary), ["subscription_succeeded"])
    }

    @Test func `an event for a user goes to all connections of the user`() {
        var server = self.server(3)
        for (number, user) in [(1, "anna"), (2, "anna"), (3, "bert")] {
            server.signIn(number, as: user)
            server.received(number, PusherFrames.subscribe("#server-to-user-\(user)"))
        }
        let message = PusherFrames.event("notify", channel: "#server-to-user-anna", data: "1")
        expectEqual(server.publish("notify", to: UserID.channel(of: "anna")), [.send(1, message), .send(2, message)])
        expectEqual(server.clientEvent(1, "client-a", on: "#server-to-user-anna").map(\.summary), ["error 4301"])
    }

    @Test func `a signed in user joins presence channels without data of the channel`() {
        var server = self.server(2)
        // The signature doesn't cover a user.
        func request(_ number: Int) -> TransportMessage { server.subscription(number, "presence-a") }
        expectEqual(server.received(1, request(1)).map(\.summary), ["error null"])
        server.signIn(1, as: "anna", #","user_info":{"name":"A"}"#)
        expectEqual(
            server.received(1, request(1)), [.send(1, PusherFrames.subscriptionSucceeded("presence-a", members: [("anna", ["name": "A"])]))]
        )
        expectEqual(server.received(1, PusherFrames.subscribe("presence-b")).map(\.summary), ["error 4009"])
        // Data of the channel takes precedence.
        server.signIn(2, as: "bert")
        expectEqual(
            server.subscribe(2, "presence-a", user: "other").first, .send(1, PusherFrames.memberAdded("presence-a", id: "other", info: nil))
        )
    }

    // MARK: Watchlists

    private func watchlist(_ number: Int, online: [String] = [], offline: [String] = []) -> Command {
        .send(number, PusherFrames.watchlistEvents([("online", online), ("offline", offline)].filter { !$0.1.isEmpty }))
    }

    @Test func `a watchlist is notified of users who are online and offline`() {
        var server = self.server(5)
        server.signIn(2, as: "bert")
        let watch = #","watchlist":["bert","carl","bert","anna"]"#
        expectEqual(server.signIn(1, as: "anna", watch).dropFirst(), [self.watchlist(1, online: ["bert", "anna"], offline: ["carl"])])
        expectEqual(server.signIn(3, as: "carl").dropFirst(), [self.watchlist(1, online: ["carl"])])
        expectEqual(server.machine.users.count, 3)
        // A second connection changes nothing.
        expect(server.signIn(4, as: "carl").count == 1 && server.closed(3).isEmpty)
        expectEqual(server.closed(4), [self.watchlist(1, offline: ["carl"])])
        expectEqual(server.signIn(5, as: "carl").dropFirst(), [self.watchlist(1, online: ["carl"])])
        expectEqual(server.closed(2), [self.watchlist(1, offline: ["bert"])])
        // After the watcher has ended, nothing remains.
        expect(server.closed(1).isEmpty && server.closed(5).isEmpty && server.machine.users.isEmpty)
    }

    @Test func `watchers are notified when a user signs in`() {
        var server = self.server(3)
        for number in 1...2 { server.signIn(number, as: "watcher\(number)", #","watchlist":["anna"]"#) }
        expectEqual(
            server.signIn(3, as: "anna"),
            [
                .send(3, PusherFrames.signInSucceeded(userData: #"{"id":"anna"}"#)), self.watchlist(1, online: ["anna"]),
                self.watchlist(2, online: ["anna"]),
            ])
    }

    @Test func `the events of a watchlist have the form of the profile`() {
        let frame =
            #"{"event":"pusher_internal:watchlist_events","data":"{\"events\":[{\"name\":\"online\",\"user_ids\":[\"b\"]},{\"name\":\"offline\",\"user_ids\":[\"c\",\"d\"]}]}"}"#
        let separate = [#"{"event":"online","data":{"user_ids":["b"]}}"#, #"{"event":"offline","data":{"user_ids":["c","d"]}}"#]
        for (form, frames) in [(.grouped, [frame]), (.separate, separate), (.none, [])] as [(PusherServerProfile.WatchlistEvents, [String])]
        {
            var server = self.server(2) { $0.profile.watchlistEvents = form }
            server.signIn(2, as: "b")
            expectEqual(server.signIn(1, as: "a", #","watchlist":["b","c","d"]"#).dropFirst(), frames.map { .send(1, $0) }[...])
            server.closed(1)
            server.closed(2)
            expect(server.machine.users.isEmpty)
        }
    }

    @Test func `a watchlist has at most 100 users`() {
        for count in [100, 101] {
            var server = self.server(1)
            let ids = (1...count).map { "u\($0)" }
            // A repeated user counts once.
            let list = ([ids[0]] + ids).map { #""\#($0)""# }.joined(separator: ",")
            let commands = server.signIn(1, as: "a", #","watchlist":[\#(list)]"#).dropFirst()
            expectEqual(commands.map(\.summary), (count > 100 ? ["error 4302"] : []) + ["watchlist_events"])
            expectEqual(commands.last, self.watchlist(1, offline: Array(ids.prefix(100))))
            expectEqual(server.logged.count, (count > 100 ? 1 : 0))
        }
    }

    @Test func `signing in again replaces the watchlist`() {
        var server = self.server(2)
        server.signIn(1, as: "a", #","watchlist":["b","c"]"#)
        expectEqual(server.signIn(1, as: "a", #","watchlist":["c","d"]"#).dropFirst(), [self.watchlist(1, offline: ["c", "d"])])
        expectEqual(server.signIn(2, as: "b").count, 1)
        server.closed(1)
        server.closed(2)
        expect(server.machine.users.isEmpty)
    }

    // MARK: Ending connections

    @Test func `terminating closes every connection of a user`() {
        var server = self.server(3)
        for (number, user) in [(3, "anna"), (2, "bert"), (1, "anna")] { server.signIn(number, as: user) }
        let message = "The app ended the connections of the user."
        let expected: [Command] = [3, 1].flatMap { number in
            [.send(number, PusherFrames.error(4009, message)), .close(number, CloseCode(rawValue: 4009), message)]
        }
        expectEqual(server.step { $0.terminateConnections(ofUser: "anna", &$2) }, expected)
        for name in ["carl", ""] { expect(server.step { $0.terminateConnections(ofUser: name, &$2) }.isEmpty) }
    }

    enum Authorization: CaseIterable {
        case none, publicChannel, rejectedChannel, failedSignIn, privateChannel, presenceChannel, signIn
    }

    @Test(arguments: Authorization.allCases)
    func `a connection that is not authorized in time is closed`(authorization: Authorization) {
        var server = self.server(1) { $0.authorizationTimeout = .seconds(10) }
        server.advance(by: .seconds(9))
        switch authorization {
        case .none: break
        case .publicChannel: server.subscribe(1, "one")
        case .rejectedChannel: server.received(1, PusherFrames.subscribe("private-a"))
        case .failedSignIn: server.received(1, PusherFrames.signIn(auth: "x", userData: "{}"))
        case .privateChannel: server.subscribe(1, "private-a")
        case .presenceChannel: server.subscribe(1, "presence-a", user: "x")
        case .signIn: server.signIn(1, as: "x")
        }
        let isAuthorized = [.privateChannel, .presenceChannel, .signIn].contains(authorization)
        expectEqual(server.advance(by: .seconds(1)).map(\.summary), (isAuthorized ? [] : ["error 4009", "close 4009"]))
    }

    @Test func `the time for the authorization ends with the connection`() {
        var server = self.server(1) { $0.authorizationTimeout = .seconds(10) }
        server.closed(1)
        expectNil(server.machine.nextDeadline)
    }
}
