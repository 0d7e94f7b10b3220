import RealtimeCore
import RealtimeSockets
import SignalRServer
import TestSupport
import Testing

/// `signalr listen` with a time limit that passes before or while the client is started, with a server in the process of the tests.
@Suite(.usesSockets, .requires(.tool(Tool.path)), .timeLimit(.minutes(10)))
struct SignalRListenLimitTests {
    @Test(arguments: [[], ["--protocol", "messagePack"], ["--verbose"]])
    func `a limit that passes before the client is started ends the command`(_ options: [String]) async throws {
        let server = SignalRServer(log: .none)
        _ = server.hub("/chat")
        let url = "http://127.0.0.1:\(try await server.start(on: SocketListener(limits: .forTests)).port)/chat"
        // Whether the client is started before the limit depends on the machine, so several times.
        for _ in 0..<scaled(10) {
            let result = try await Tool.run(["signalr", "listen", url, "Receive", "--count", "1", "--timeout", "0.001"] + options)
            expectEqual(result.status, 1)
            expect(result.errors.hasPrefix("realtime: ") && result.errors.contains(url), "\(result.errors)")
            // If connecting was fast, only the call is missing.
            let summary = /(?:Received 0 of 1 calls from|Cannot connect to) .* within .* s\./
            expect(result.errors.contains(summary), "\(result.errors)")
            expectEqual(result.errors.split(separator: "\n").count, 1)
            expectEqual(result.output.split(separator: "\n").last?.hasPrefix(#"{"type":"error","message":"#), true, "\(result.output)")
        }
        await server.stop()
    }
}
