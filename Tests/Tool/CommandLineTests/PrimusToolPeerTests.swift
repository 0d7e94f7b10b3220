import Foundation
import PeerSupport
import Processes
import RealtimeCoding
import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

/// The commands for Primus with servers of Primus 8 and 6.
@Suite(
    .usesSockets, .timeLimit(.minutes(10)), .requires(.tool(Tool.path)),
    .requires(.peers("primus", "primus6")))
struct PrimusToolPeerTests {
    struct Dialect: Sendable, CustomTestStringConvertible {
        var server = "primus"
        var transformer = "websockets"
        var parser = "json"
        var testDescription: String { "\(self.server), \(self.transformer), \(self.parser)" }
    }

    private static let dialects = [
        Dialect(), Dialect(transformer: "engine.io", parser: "msgpack"), Dialect(transformer: "sockjs", parser: "ejson"),
        Dialect(transformer: "faye", parser: "binary"), Dialect(server: "primus6"),
        Dialect(server: "primus6", transformer: "engine.io", parser: "binary"), Dialect(server: "primus6", transformer: "sockjs"),
    ]

    private func server(_ dialect: Dialect, _ options: [String] = []) async throws -> (peer: Peer, url: String) {
        let peer = try Peer(
            dialect.server, ["--transformer", dialect.transformer, "--parser", dialect.parser, "--plugins", "emitter"] + options)
        return (peer, try #require(try await peer.ready()["url"]?.string))
    }

    private func control(_ action: String, _ url: String, _ body: String = "") async throws -> HTTPResponse {
        var endpoint = try Endpoint(url)
        endpoint.target = "/control/\(action)"
        return try await SocketHTTPTransport().send(HTTPRequest("POST", endpoint, headers: [:], body: Array(body.utf8)))
    }

    @Test(arguments: Self.dialects)
    func `messages, events and acknowledgements go both ways`(dialect: Dialect) async throws {
        let (peer, url) = try await self.server(dialect)
        let spec = try JSONValue(parsing: try await Tool.run(["primus", "spec", url]).output)
        expect(spec["transformer"]?.string == dialect.transformer && spec["parser"]?.string == dialect.parser)
        expect((spec["pingInterval"] != nil) == (dialect.server == "primus") && (spec["timeout"] != nil) == (dialect.server == "primus6"))

        let echo = try await Tool.run(["primus", "write", url, #"{"text":"ü","n":[1,0.5,null]}"#, "--count", "1"])
        #expect(echo == (0, #"{"type":"data","data":{"text":"ü","n":[1,0.5,null]}}"# + "\n", ""))
        let burst = try await Tool.run(["primus", "write", url, #"{"cmd":"burst","n":100}"#, "--count", "100"])
        expectEqual(burst.output, (0..<100).map { #"{"type":"data","data":\#($0)}"# + "\n" }.joined())

        let ack = try await Tool.run(["primus", "send", url, "echo", "1", #""two""#, "--ack"])
        #expect(ack == (0, #"{"type":"ack","arguments":[1,"two"]}"# + "\n", ""))
        try await expectEqual(Tool.run(["primus", "send", url, "news", "1"]).output, #"{"type":"sent","event":"news"}"# + "\n")
        let event = try await Tool.run(
            ["primus", "write", url, #"{"cmd":"emit","event":"news","args":[1,"a"]}"#, "--count", "1", "--plugins", "emitter"])
        expectEqual(event.output, #"{"type":"event","event":"news","arguments":[1,"a"]}"# + "\n", "\(event.errors)")
        peer.stop()
    }

    @Test(arguments: ["primus", "primus6"], ["engine.io", "sockjs"])
    func `messages, events and acknowledgements go both ways over polling`(server: String, transformer: String) async throws {
        let (peer, url) = try await self.server(Dialect(server: server, transformer: transformer))
        let options = ["--transport", "polling"]
        let echo = try await Tool.run(["primus", "write", url, #"{"text":"ü"}"#, "--count", "1"] + options)
        #expect(echo == (0, #"{"type":"data","data":{"text":"ü"}}"# + "\n", ""))
        let ack = try await Tool.run(["primus", "send", url, "echo", "1", #""two""#, "--ack"] + options)
        #expect(ack == (0, #"{"type":"ack","arguments":[1,"two"]}"# + "\n", ""))
        let moving = transformer == "engine.io" ? ["--transport", "upgrade"] : options
        let tool = try Tool(["primus", "listen", url, "--count", "1"] + moving)
        _ = await tool.nextLine()
        let kind = transformer == "engine.io" ? "polling" : "streaming"
        await expect(tool.nextLine().contains(#""transport":"\#(kind)""#))
        if transformer == "engine.io" { await expectEqual(tool.nextLine(), #"{"type":"transport","transport":"webSockets"}"#) }
        try await expect(self.control("broadcast", url, #"{"n":1}"#).head.status < 300)
        await expectEqual(tool.nextLine(), #"{"type":"data","data":{"n":1}}"#)
        await expectEqual(tool.end().status, 0)
        peer.stop()
    }

    @Test(arguments: ["primus", "primus6"])
    func `a token is accepted in the header and in the query, and its absence is a failure`(server: String) async throws {
        let (peer, url) = try await self.server(Dialect(server: server), ["--token", "opensesame"])
        for options in [["--token", "opensesame"], ["--token", "opensesame", "--token-parameter", "token"]] {
            let echo = try await Tool.run(["primus", "write", url, "1", "--count", "1"] + options)
            expectEqual(echo.status, 0, "\(echo.errors)")
        }
        let user = url.replacing("//", with: "//user:opensesame@")
        try await expectEqual(Tool.run(["primus", "write", user, "1", "--count", "1"]).status, 0)
        let refused = try await Tool.run(["primus", "listen", url])
        expect(refused.status == 1 && refused.errors.contains("401") && refused.errors.contains("--token"), "\(refused.errors)")
        peer.stop()
    }

    @Test(arguments: ["primus", "primus6"])
    func `a listener reconnects after a loss, and ends when the server ends the connection`(server: String) async throws {
        let (peer, url) = try await self.server(Dialect(server: server))
        let tool = try Tool(["primus", "listen", url])
        for _ in 0..<2 { _ = await tool.nextLine() }
        try await expect(self.control("kill", url).head.status < 300)
        await expect(tool.nextLine().contains(#""state":"reconnecting""#))
        await expect(tool.nextLine().contains(#""state":"open""#))
        try await expect(self.control("broadcast", url, #"{"n":1}"#).head.status < 300)
        await expectEqual(tool.nextLine(), #"{"type":"data","data":{"n":1}}"#)
        try await expect(self.control("end", url).head.status < 300)
        let end = await tool.end()
        expect(end.status == 1 && end.errors.hasSuffix(" ended the connection.\n"), "\(end.errors)")
        peer.stop()
    }

    @Test func `a wrong transformer or parser is a failure`() async throws {
        let (peer, url) = try await self.server(Dialect(transformer: "engine.io", parser: "msgpack"))
        for option in [["--transformer", "websockets"], ["--parser", "json"]] {
            let result = try await Tool.run(["primus", "listen", url] + option)
            expect(result.status == 1 && result.errors.contains("Omit \(option[0])"), "\(result.errors)")
        }
        peer.stop()
    }
}
