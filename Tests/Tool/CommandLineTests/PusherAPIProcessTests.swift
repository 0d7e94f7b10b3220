import Foundation
import Processes
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// The commands for the HTTP API, for client events and for signatures, and a server with several apps, as processes.
@Suite(.usesSockets, .requires(.tool(Tool.path)), .timeLimit(.minutes(10)))
struct PusherAPIProcessTests {
    /// An application server that accepts webhooks.
    private final class WebhookReceiver: ListenerHandler {
        let webhooks = EventRecorder<PusherWebhook>()

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            let webhook = try? PusherWebhook(
                key: request.headers["X-Pusher-Key"], signature: request.headers["X-Pusher-Signature"], body: body,
                secrets: ["k1": "s1", "k2": "s2"])
            if let webhook { self.webhooks.record(webhook) }
            responder.respond(HTTPResponse(status: webhook == nil ? 401 : 200))
        }

        func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 404)) }
    }

    private static func object(_ line: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }

    @Test func `channels and users of a server are listed`() async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "k", secret: "s"), log: .none)
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        var configuration = PusherConfiguration(key: "k", host: "127.0.0.1", port: port, useTLS: false)
        configuration.authorizer = .secret("s", userID: "anna")
        configuration.log = .none
        (configuration.connectTimeout, configuration.subscriptionTimeout) = (.seconds(600), .seconds(600))
        let client = PusherClient(configuration)
        client.connect()
        for name in ["presence-room", "prices"] { try await client.subscribe(name).subscribed(within: .seconds(300)) }
        func run(_ command: [String], secret: String = "s") async throws -> (status: Int32, output: String) {
            let options = ["http://127.0.0.1:\(port)", "--app-id", "1", "--key", "k", "--secret", secret]
            let result = try await Tool.run(["pusher", command[0]] + options + command.dropFirst())
            return (result.status, result.output)
        }
        let all = try await run(["channels"])
        expectEqual(all.status, 0)
        expectEqual(all.output, #"{"type":"channel","channel":"presence-room"}"# + "\n" + #"{"type":"channel","channel":"prices"}"# + "\n")
        let rooms = try await run(["channels", "--prefix", "presence-", "--info", "user_count"])
        expectEqual(rooms.output, #"{"type":"channel","channel":"presence-room","user_count":1}"# + "\n")
        let prices = try await run(["channels", "--info", "subscription_count", "prices", "empty"])
        expectEqual(
            prices.output,
            #"{"type":"channel","channel":"prices","occupied":true,"subscription_count":1}"# + "\n"
                + #"{"type":"channel","channel":"empty","occupied":false,"subscription_count":0}"# + "\n")
        let users = try await run(["users", "presence-room"])
        expectEqual(users.output, #"{"type":"user","channel":"presence-room","user_id":"anna"}"# + "\n")
        let terminated = try await run(["terminate", "bert"])
        expect(terminated.status == 0 && terminated.output == #"{"type":"terminated","user_id":"bert"}"# + "\n")
        for command in [["channels"], ["channels", "a"], ["users", "presence-room"], ["terminate", "bert"]] {
            let result = try await run(command, secret: "wrong")
            expect(result.status == 1 && result.output.contains("401") && !result.output.contains("wrong"))
        }
        client.disconnect()
        await server.stop()
    }

    @Test func `a client event is sent, and its rejection is a failure`() async throws {
        var app = PusherApp(id: "1", key: "k", secret: "s")
        for isAllowed in [true, false] {
            app.allowsClientEvents = isAllowed
            let server = PusherServer(app: app, log: .none)
            let events = server.events
            let url = "ws://127.0.0.1:\(try await server.start(on: SocketListener(limits: .forTests)).port)"
            let trigger = ["pusher", "trigger", url, "--key", "k", "--secret", "s", "private-a", "client-b"]
            let result = try await Tool.run(trigger + [#"{"x":1}"#])
            if isAllowed {
                expectEqual(result.status, 0)
                expectEqual(result.output, #"{"type":"triggered","channel":"private-a","event":"client-b"}"# + "\n")
                try await expectEqual(Tool.run(trigger + ["plain text"]).status, 0)
                var data: [String] = []
                for await case .clientEvent(_, "private-a", "client-b", let text) in events {
                    data.append(text)
                    if data.count == 2 { break }
                }
                expectEqual(data, [#"{"x":1}"#, "plain text"])
                for (channel, event) in [("prices", "client-b"), ("private-a", "b")] {
                    let invalid = try await Tool.run(["pusher", "trigger", url, "--key", "k", "--secret", "s", channel, event, "1"])
                    expect(invalid.status == 1 && invalid.errors.contains("client"))
                }
            } else {
                expect(result.status == 1 && result.errors.contains("does not have client messaging enabled"))
            }
            await server.stop()
        }
    }

    @Test func `signatures are printed as an application server sends them`() async throws {
        let sign = ["pusher", "sign", "1234.1234", "--key", "278d425bdf160c739803", "--secret", "7ad3773142a6692b25b8"]
        // The examples of the service's documentation.
        let channel = try await Tool.run(sign + ["private-foobar"])
        let signature = "278d425bdf160c739803:58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4"
        expectEqual(channel.output, #"{"type":"signed","channel":"private-foobar","auth":"\#(signature)"}"# + "\n")
        let user = try await Tool.runAtTerminal(sign + ["--user-id", "12345"])
        expect(user.output.contains(#"{"auth":"278d425bdf160c739803:4708d583dada6a56435fb8bc611c77c359a31eebde13337c16ab43aa6de336ba""#))
        expect(user.output.contains(#""user_data":"{\"id\":\"12345\"}"}"#))
        let member = try await Tool.run(sign + ["presence-a", "--user-id", "7", "--user-info", #"{"name":"A"}"#])
        try expectEqual(Self.object(member.output)["channel_data"] as? String, #"{"user_id":"7","user_info":{"name":"A"}}"#)
        let watching = try await Tool.run(sign + ["--user-id", "7", "--watch", "8", "--watch", "9"])
        try expectEqual(Self.object(watching.output)["user_data"] as? String, #"{"id":"7","watchlist":["8","9"]}"#)
        let key = ["--encryption-key", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
        let encrypted = try await Tool.run(sign + key + ["private-encrypted-a"])
        // SHA-256 of the channel's name and the key.
        try expectEqual(Self.object(encrypted.output)["shared_secret"] as? String, "s1rdijRHyyLa/TmwKiC7A3oeY+nahXaZrWaS3La/se0=")
        for (key, message, status) in [
            ([], "'--encryption-key KEY'", 2), (["--encryption-key", "AAEC"], "32 bytes in Base64", 1),
        ] as [([String], String, Int32)] {
            let result = try await Tool.run(sign + key + ["private-encrypted-a"])
            expect(result.status == status && result.errors.contains(message) && !result.errors.contains("AAEC"))
        }
        let named = try await Tool.run(sign + ["private-chat:1"])
        expect(named.status == 1 && named.errors.contains("add '--any-channel-names'"), "\(named.errors)")
        try await expectEqual(Tool.run(sign + ["--any-channel-names", "private-chat:1"]).status, 0)
        let invalid = try await Tool.run(sign + ["prices"])
        expect(invalid.status == 1 && invalid.errors.contains("public channel"))
    }

    @Test func `encrypted events and those of the user are printed`() async throws {
        let key = ["--encryption-key", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
        let server = try Tool(["serve", "pusher", "--app-id", "1", "--key", "k", "--secret", "s"] + key)
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let client = ["pusher", "subscribe", url, "--key", "k", "--secret", "s", "--sign-in"]
        let anna = try Tool(client + key + ["--user-id", "anna", "--watch", "bert", "private-encrypted-a"])
        var lines: [String] = []
        while !(lines.contains { $0.contains(#""subscribed""#) } && lines.contains { $0.contains("offline") }) {
            lines.append(await anna.nextLine())
            try #require(lines.last != "")
        }
        expect(lines.contains(#"{"type":"signed_in","user_id":"anna"}"#))
        expect(lines.contains(#"{"type":"offline","user_ids":["bert"]}"#))
        let publish = ["pusher", "publish", url, "--app-id", "1", "--key", "k", "--secret", "s"]
        try await expectEqual(Tool.run(publish + key + ["private-encrypted-a", "order", #"{"id":1}"#]).status, 0)
        await expectEqual(anna.nextLine(), #"{"type":"event","channel":"private-encrypted-a","event":"order","data":"{\"id\":1}"}"#)
        try await expectEqual(Tool.run(publish + ["#server-to-user-anna", "hello", "1"]).status, 0)
        await expectEqual(anna.nextLine(), ##"{"type":"event","channel":"#server-to-user-anna","event":"hello","data":"1"}"##)
        let unencrypted = try await Tool.run(publish + ["private-encrypted-a", "order", "1"])
        expect(unencrypted.status == 2 && unencrypted.errors.contains("'--encryption-key KEY'"))
        anna.process.signal(SIGTERM)
        await expectEqual(anna.end().status, 0)
        server.process.signal(SIGTERM)
        await expectEqual(server.end().status, 0)
    }

    @Test func `a server with several apps keeps them apart and sends webhooks`() async throws {
        let receiver = WebhookReceiver()
        let listener = SocketListener(limits: .forTests)
        let hook = "http://127.0.0.1:\(try await listener.start(receiver).port)/hook"
        let server = try Tool(["serve", "pusher", "--app", "1:k1:s1", "--app", "2:k2:s2", "--webhook", hook])
        let ready = try Self.object(await server.nextLine())
        expectEqual(ready["apps"] as? [[String: String]], [["app": "1", "key": "k1"], ["app": "2", "key": "k2"]])
        let url = try #require(ready["url"] as? String)
        for app in ["1", "2"] {
            let published = try await Tool.run(
                ["pusher", "publish", url, "--app-id", app, "--key", "k\(app)", "--secret", "s\(app)", "prices-\(app)", "price", "1"])
            expectEqual(published.status, 0)
            let subscribed = try await Tool.run(
                ["pusher", "trigger", url, "--key", "k\(app)", "--secret", "s\(app)", "private-\(app)", "client-a", "1"])
            expectEqual(subscribed.status, 0)
        }
        let unknown = try await Tool.run(["pusher", "subscribe", url, "--key", "k3", "prices"])
        expect(unknown.status == 1 && unknown.errors.contains("4001"))
        // The channels are reported as vacated a few seconds after their clients have left, which may be before or after this.
        func events(_ app: String) -> [PusherWebhookEvent] {
            receiver.webhooks.all.filter { $0.key == "k\(app)" }.flatMap(\.events).filter { $0.name != "channel_vacated" }
        }
        try await eventually { events("1").count == 2 && events("2").count == 2 }
        for app in ["1", "2"] {
            let events = events(app)
            expect(events.map(\.name) == ["channel_occupied", "client_event"] && events.allSatisfy { $0.channel == "private-\(app)" })
        }
        server.process.signal(SIGTERM)
        let end = await server.end()
        let lines = end.output.split(separator: "\n")
        expectEqual(end.status, 0)
        expect(lines.contains(#"{"type":"published","channel":"prices-2","event":"price","subscribers":0,"app":"2"}"#))
        expect(!end.output.contains("s1") && !end.output.contains("s2"))
        await listener.stop()
    }
}
