import Foundation
import Processes
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import TestSupport
import Testing

/// The tool as a client of servers that send more than it can print.
@Suite(.usesSockets, .requires(.tool(Tool.path)), .timeLimit(.minutes(10)))
struct FloodProcessTests {
    /// The number of messages in the answer to each poll.
    fileprivate static let messages = 300_000

    /// A server of Primus with engine.io, and of a hub, whose polls are answered immediately, with messages.
    private final class Flood: ListenerHandler {
        let polls = Lock(0)
        /// The number of polls when the client ended the connection.
        let pollsAtEnd = Lock<Int?>(nil)
        private let packets: [UInt8]
        private let calls: [UInt8]

        /// - Parameter messages: The number of packets in the answer to a poll. For a hub, it has a twentieth as many calls.
        init(messages: Int = FloodProcessTests.messages) {
            self.packets = Array(Array(repeating: "41", count: messages).joined(separator: "\u{1E}").utf8)
            self.calls = Array(
                String(repeating: #"{"type":1,"target":"Receive","arguments":[1]}"# + "\u{1E}", count: messages / 20).utf8)
        }

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            // The close packet of engine.io is "1".
            if request.method == "DELETE" || request.method == "POST" && body.last == UInt8(ascii: "1") {
                let polls = self.polls.withLock { $0 }
                self.pollsAtEnd.withLock { $0 = $0 ?? polls }
            }
            responder.respond(self.response(to: request))
        }

        private func response(to request: HTTPRequestHead) -> HTTPResponse {
            let isHub = request.path.hasPrefix("/hub")
            switch (request.method, isHub) {
            case ("GET", false) where request.path.hasSuffix("/spec"):
                let spec = #"{"pingInterval":30000,"pathname":"/primus","version":"8.0.9","parser":"json","transformer":"engine.io"}"#
                return HTTPResponse(status: 200, text: spec)
            case ("GET", false) where !request.target.contains("sid="):
                return HTTPResponse(status: 200, text: #"0{"sid":"s","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#)
            case ("GET", _):
                let number = self.polls.withLock { polls in
                    polls += 1
                    return polls
                }
                if isHub, number < 3 { return HTTPResponse(status: 200, text: number == 1 ? "" : "{}\u{1E}") }
                return HTTPResponse(HTTPResponseHead(status: 200), body: isHub ? self.calls : self.packets)
            case ("POST", true) where request.path.hasSuffix("/negotiate"):
                return HTTPResponse(
                    status: 200,
                    text: """
                        {"connectionToken":"t","connectionId":"i","negotiateVersion":1,\
                        "availableTransports":[{"transport":"LongPolling","transferFormats":["Text","Binary"]}]}
                        """)
            case ("POST", false): return HTTPResponse(status: 200, text: "ok")
            default: return HTTPResponse(status: 200)
            }
        }
    }

    private static let commands = [["primus", "listen", "/primus", "--transport", "polling"], ["signalr", "listen", "/hub", "Receive"]]

    @Test(arguments: Self.commands)
    func `a signal ends a flood over polling: what waits is dropped, and the server isn't asked for more`(
        arguments: [String]
    ) async throws {
        let (listener, flood) = (SocketListener(limits: .forTests), Flood())
        let port = try await listener.start(flood).port
        let tool = try Tool(arguments[..<2] + ["http://127.0.0.1:\(port)\(arguments[2])"] + arguments[3...])
        var line = await tool.nextLine()
        while line.contains("\"type\":\"state\"") { line = await tool.nextLine() }
        expect(line.contains("\"type\":\"data\"") || line.contains("\"type\":\"invocation\""), "\(line)")
        tool.process.signal(SIGTERM)
        let end = await tool.end()
        expectEqual(end.status, 0)
        expect(end.output.split(separator: "\n").count < Self.messages / 20, "\(end.output.split(separator: "\n").count) lines")
        // One may be under way already.
        let (polls, pollsAtEnd) = (flood.polls.withLock { $0 }, try #require(flood.pollsAtEnd.withLock { $0 }))
        expect(polls <= pollsAtEnd + 1, "\(polls) polls, of which \(pollsAtEnd) before the end")
        await listener.stop()
    }

    @Test(arguments: Self.commands)
    func `a server isn't asked for more while the output is not read`(arguments: [String]) async throws {
        let (listener, flood) = (SocketListener(limits: .forTests), Flood(messages: 3_000))
        let port = try await listener.start(flood).port
        let tool = try Tool(arguments[..<2] + ["http://127.0.0.1:\(port)\(arguments[2])"] + arguments[3...])
        while await tool.nextLine().contains("\"type\":\"state\"") {}
        // What fills the pipe and the buffers is asked for. A poll takes less time than ten processes.
        try await eventually("the polls stop") {
            let before = flood.polls.withLock { $0 }
            for _ in 0..<10 { _ = try await Tool.run(["primus", "spec", "http://127.0.0.1:\(port)/primus"]) }
            return flood.polls.withLock { $0 } == before
        }
        tool.process.signal(SIGTERM)
        await expectEqual(tool.end().status, 0)
        await listener.stop()
    }
}
