import PusherChannels
import PusherServer
import RealtimeCoding
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import realtime

@Suite struct PusherLinesTests {
    private func json(_ line: Line?) -> String { line.map { String(decoding: $0.json.dropLast(), as: UTF8.self) } ?? "" }
    private func text(_ line: Line?) -> String { line.map { String(decoding: $0.text(isColored: false).dropLast(), as: UTF8.self) } ?? "" }

    @Test func `the socket ID is a field of the state`() {
        let line = Line.state(PusherConnectionState.connected(socketID: "1.2"))
        expectEqual(self.json(line), #"{"type":"state","state":"connected","socket_id":"1.2"}"#)
        expectEqual(self.text(line), "connected: socket ID 1.2")
    }

    @Test func `a final state does not repeat the error that ends the command`() {
        let error = PusherError(.rejected, "Unknown app key.", serverCode: 4001)
        for line in [Line.state(PusherConnectionState.disconnected(error)), .state(.failed(error))] {
            expect(!self.json(line).contains("key"))
            expect(!self.text(line).contains("key"))
        }
        expectEqual(ToolFailure(error), ToolFailure("Unknown app key.", code: 4001))
    }

    @Test func `members are listed with their information`() {
        let anna = PusherMember(id: "anna", info: ["name": "A"])
        let bert = PusherMember(id: "bert", info: .null)
        let all = Line.members("presence-x", .subscribed(PusherMembers([anna, bert], myID: "bert")))
        expectEqual(
            self.json(all),
            #"{"type":"members","channel":"presence-x","me":"bert","members":[{"user_id":"anna","user_info":{"name":"A"}},{"user_id":"bert"}]}"#
        )
        expectEqual(self.text(all), "presence-x: 2 members: anna, bert")
        expectEqual(self.text(.members("presence-x", .subscribed(PusherMembers([anna], myID: "anna")))), "presence-x: 1 member: anna")
        let joined = Line.members("presence-x", .joined(anna))
        expectEqual(self.json(joined), #"{"type":"joined","channel":"presence-x","user_id":"anna","user_info":{"name":"A"}}"#)
        expectEqual(self.text(joined), "presence-x: anna joined")
        let left = Line.members("presence-x", .left(bert))
        expectEqual(self.json(left), #"{"type":"left","channel":"presence-x","user_id":"bert"}"#)
        expectEqual(self.text(left), "presence-x: bert left")
    }

    @Test func `a frame names the side that sent it`() {
        let sent = Line.frame("{}", from: .client, socketID: "1.2")
        expectEqual(self.text(sent), "1.2 sent {}")
        expectEqual(self.json(sent), #"{"type":"frame","socket_id":"1.2","from":"client","data":"{}"}"#)
        let received = Line.frame("{}", from: .server, socketID: nil)
        expectEqual(self.text(received), "a client received {}")
        expectEqual(self.json(received), #"{"type":"frame","from":"server","data":"{}"}"#)
        expectEqual(self.json(.log(.trace, "#1 sent {}")), ##"{"type":"log","level":"trace","message":"#1 sent {}"}"##)
    }

    @Test func `a request and a response are lines`() {
        let request = Line.request("POST", "http://h:1/apps", body: "{}")
        expectEqual(self.text(request), "POST http://h:1/apps {}")
        expectEqual(self.json(request), #"{"type":"request","method":"POST","url":"http://h:1/apps","body":"{}"}"#)
        expectEqual(self.text(.response(200, "OK", body: "{}")), "200 OK {}")
        expectEqual(self.json(.response(401, "", body: "no")), #"{"type":"response","status":401,"body":"no"}"#)
    }

    @Test(
        arguments: [
            (.connected(socketID: "1.2"), #"{"type":"connected","socket_id":"1.2"}"#, "1.2 connected"),
            (
                .disconnected(socketID: "1.2", .peer(.normal, "")),
                #"{"type":"disconnected","socket_id":"1.2","code":1000,"reason":"the client closed the connection with code 1000"}"#,
                "1.2 disconnected: the client closed the connection with code 1000"
            ),
            (
                .disconnected(socketID: "1.2", .requested),
                #"{"type":"disconnected","socket_id":"1.2","reason":"closed by the application"}"#,
                "1.2 disconnected: closed by the application"
            ),
            (
                .subscribed(socketID: "1.2", channel: "a", userID: nil), #"{"type":"subscribed","socket_id":"1.2","channel":"a"}"#,
                "1.2 subscribed to a"
            ),
            (
                .subscribed(socketID: "1.2", channel: "presence-a", userID: "anna"),
                #"{"type":"subscribed","socket_id":"1.2","channel":"presence-a","user_id":"anna"}"#, "1.2 subscribed to presence-a as anna"
            ),
            (
                .subscriptionRejected(socketID: "1.2", channel: "a", message: "no"),
                #"{"type":"subscription_rejected","socket_id":"1.2","channel":"a","message":"no"}"#, "1.2 failed to subscribe to a: no"
            ),
            (
                .unsubscribed(socketID: "1.2", channel: "a"), #"{"type":"unsubscribed","socket_id":"1.2","channel":"a"}"#,
                "1.2 unsubscribed from a"
            ),
            (
                .clientEvent(socketID: "1.2", channel: "a", name: "client-e", data: "1"),
                #"{"type":"client_event","socket_id":"1.2","channel":"a","event":"client-e","data":"1"}"#, "1.2 triggered client-e on a: 1"
            ),
            (
                .published(channel: "a", name: "e", subscribers: 1), #"{"type":"published","channel":"a","event":"e","subscribers":1}"#,
                "published e to a: 1 subscriber"
            ),
            (
                .error(socketID: nil, code: 4001, message: "no"), #"{"type":"error","code":4001,"message":"no"}"#, "error: no (4001)"
            ),
            (
                .error(socketID: "1.2", code: nil, message: "no"), #"{"type":"error","socket_id":"1.2","message":"no"}"#, "1.2: error: no"
            ),
        ] as [(PusherServerEvent, String, String)])
    func `each event of a server is a line`(_ event: PusherServerEvent, _ json: String, _ text: String) throws {
        let line = try #require(ServePusherCommand.line(event))
        expectEqual(self.json(line), json)
        expectEqual(self.text(line), text)
    }

    @Test func `a received frame isn't a line of its own`() {
        expectNil(ServePusherCommand.line(.received(socketID: "1.2", frame: "{}")))
    }
}
