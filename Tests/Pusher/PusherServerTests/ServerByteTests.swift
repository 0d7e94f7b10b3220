@testable import PusherServer
import PusherWire
import RealtimeCore
import TestSupport
import Testing

/// Names are bytes on the wire. `String` compares by canonical equivalence, which makes different names equal.
@Suite struct ServerByteTests {
    /// The Kelvin sign, which `String` considers equal to "K".
    private let kelvin = "\u{212A}"
    private let composed = "caf\u{E9}"
    private let decomposed = "cafe\u{301}"

    @Test func `users whose IDs have different bytes are different members`() {
        var server = ServerUnderTest()
        for number in 1...2 { server.connect(number) }
        server.subscribe(1, "presence-a", user: self.composed)
        let added = PusherFrames.memberAdded("presence-a", id: self.decomposed, info: nil)
        expectEqual(server.subscribe(2, "presence-a", user: self.decomposed).first, .send(1, added))
        let removed = server.closed(2)
        expectEqual(removed, [.send(1, PusherFrames.memberRemoved("presence-a", id: self.decomposed))])
    }

    @Test func `the member limit counts users by their bytes`() {
        var server = ServerUnderTest { $0.memberLimit = 1 }
        for number in 1...2 { server.connect(number) }
        server.subscribe(1, "presence-a", user: self.composed)
        expectEqual(server.subscribe(2, "presence-a", user: self.decomposed).map(\.summary), ["error null"])
    }

    @Test func `unsubscribing compares the channel by its bytes`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.subscribe(1, "K")
        server.received(1, PusherFrames.unsubscribe(self.kelvin))
        expectEqual(server.publish("a", to: "K").map(\.summary), ["a"])
    }

    @Test func `publishing compares the channel by its bytes`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.subscribe(1, "K")
        expect(server.publish("a", to: self.kelvin).isEmpty)
    }

    @Test func `a client event compares the channel by its bytes`() {
        var server = ServerUnderTest()
        for number in 1...2 {
            server.connect(number)
            server.subscribe(number, "private-K")
        }
        expectEqual(server.clientEvent(1, "client-a", on: "private-\(self.kelvin)").map(\.summary), ["error 4301"])
    }

    @Test func `the app key is compared by its bytes`() {
        var server = ServerUnderTest { $0.key = "K" }
        expectEqual(server.accepted(1, "/app/\(self.kelvin)?protocol=7").map(\.summary), ["error 4001", "close 4001"])
        expect(server.accepted(2, "/app/K?protocol=7").isEmpty)
    }

    @Test func `the ID of the app in the path of the HTTP API is compared by its bytes`() {
        let app = PusherApp(id: "K", key: "key", secret: "secret")
        func status(_ path: String) -> Int? {
            let request = HTTPRequestHead(method: "POST", target: path)
            let rejection = #expect(throws: PusherServerAPI.Rejection.self) {
                try PusherServerAPI.Call(request, body: [], app: app, unixTime: 0)
            }
            return rejection?.status
        }
        // Without a signature, the right path is unauthorized.
        expect(status("/apps/K/events") == 401 && status("/apps/\(self.kelvin)/events") == 404)
    }

    @Test func `an error does not repeat a long event name`() throws {
        // One character of many scalars.
        let name = "e" + String(repeating: "\u{301}", count: 20_000)
        var server = ServerUnderTest()
        server.connect(1)
        let commands = server.received(1, .text(#"{"event":"\#(name)","data":{}}"#))
        guard case .send(1, let text)? = commands.first, commands.count == 1 else {
            Issue.record("\(commands.count) commands")
            return
        }
        expect(commands.map(\.summary) == ["error null"] && text.utf8.count < 500)
    }

    @Test(arguments: ["", "private-", "presence-"])
    func `an error does not repeat a long channel name`(prefix: String) {
        let name = prefix + String(repeating: "x", count: 20_000)
        var server = ServerUnderTest()
        server.connect(1)
        for message in [PusherFrames.subscribe(name), PusherFrames.clientEvent("client-a", channel: name, data: [0x31])] {
            let commands = server.received(1, message)
            guard case .send(1, let text)? = commands.first, commands.count == 1 else {
                Issue.record("\(commands.count) commands")
                return
            }
            expect(commands[0].summary.hasPrefix("error") && text.utf8.count < 500)
        }
    }
}
