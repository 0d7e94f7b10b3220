import Foundation
import PrimusServer
import PrimusWire
import RealtimeCoding
import RealtimeCore
import TestSupport
import Testing

/// Requests that were sent to real servers, sent to the embedded server, which has to answer alike.
@Suite(.timeLimit(.minutes(10))) struct HTTPVectorTests {
    struct Recorded: Sendable, CustomTestStringConvertible {
        let server: String
        let title: String
        var lines: [[String]] = []
        var testDescription: String { "\(self.server): \(self.title)" }

        var configuration: PrimusServerConfiguration {
            var configuration = PrimusServerConfiguration()
            configuration.version = self.server.hasPrefix("primus6") ? .v6 : .v8
            configuration.transformer = self.server.contains("sockjs") ? .sockjs : .engineIO
            (configuration.pingInterval, configuration.silenceTimeout, configuration.allowsEIO3) = (nil, nil, true)
            if configuration.transformer == .engineIO { configuration.messageLimit = 2000 }
            return configuration
        }
    }

    /// The cases in which the embedded server has another answer on purpose.
    private static let differences = [
        // The original reads any letters as Base64. The server reports the packet as invalid.
        "text Base64 that is not"
    ]

    static let cases: [Recorded] = {
        var (cases, server) = ([Recorded](), "")
        let text = (try? String(contentsOfFile: Vectors.path("primus/http-8.0.9-6.1.0.txt"), encoding: .utf8)) ?? ""
        for line in text.components(separatedBy: "\n") {
            if line.hasPrefix("## ") {
                server = String(line.dropFirst(3))
            } else if line.hasPrefix("# ") {
                cases.append(Recorded(server: server, title: String(line.dropFirst(2))))
            } else if !cases.isEmpty, !line.isEmpty {
                cases[cases.count - 1].lines.append(line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init))
            }
        }
        return cases
    }()

    @Test func `all recorded cases are read`() {
        expectEqual(Dictionary(grouping: Self.cases, by: \.server).count, 5)
        expect(Self.cases.count > 140 && Self.cases.allSatisfy { !$0.lines.isEmpty })
    }

    @Test(arguments: Self.cases.filter { !Self.differences.contains($0.title) })
    func `the server answers as the original`(recorded: Recorded) async throws {
        let test = try await ServerUnderTest { $0 = recorded.configuration }
        // As the recorded application, in the order of the messages and immediately.
        let echo = test.server.onMessage(on: CallbackExecutor { $0() }) { message in
            guard let value = try? message.value else { return }
            if value.object?["cmd"] == .string("end") { message.spark.end() } else { _ = try? message.spark.write(value) }
        }
        var exchanges: [RawExchange] = []
        var (socket, sid) = (RawClient?.none, "")
        for line in recorded.lines {
            sid = test.server.sparks.last?.id ?? sid
            let target = line.count > 2 ? line[2].replacing("{sid}", with: sid) : ""
            switch (line[0], line.count > 1 ? line[1] : "") {
            case ("=", "open"): exchanges.append(try test.start(target))
            case ("=", "cancel"): exchanges.last?.cancel()
            case ("=", _):
                let version = recorded.server.hasSuffix("4") ? 4 : 3
                socket = test.client("/primus/?EIO=\(version)&transport=websocket&sid=\(sid)")
                socket?.send("2probe")
                socket?.send("5")
            case (">", let method):
                var headers = HTTPHeaders()
                for (name, value) in try self.object(line[3]) { headers[name] = value }
                let body = line[4] == "-" ? "" : try #require(JSONValue(parsing: Array(line[4].utf8)).string)
                exchanges.append(try test.start(target, method: method, headers: headers, body: body))
            default:
                // Primus 6 drops the connection of a large body. The server answers with the status 413.
                if line[2] == "waits" || line[2] == "no answer" { continue }
                try self.check(exchanges[try #require(Int(line[1])) - 1], line, sid: sid)
            }
        }
        for line in recorded.lines where line[0] == "<" && line[2] == "waits" {
            let exchange = exchanges[try #require(Int(line[1])) - 1]
            expect(!exchange.isEnded, "\(exchange.status ?? 0) \(exchange.body)")
        }
        _ = socket
        echo.cancel()
    }

    private func object(_ text: String) throws -> [(String, String)] {
        guard text != "-" else { return [] }
        return try #require(JSONValue(parsing: Array(text.utf8)).object).map { ($0.key, $0.value.string ?? "") }
    }

    /// Compares a response with the recorded one.
    private func check(_ exchange: RawExchange, _ line: [String], sid: String) throws {
        expect(exchange.isEnded)
        expectEqual(exchange.status, Int(line[2]))
        for (name, value) in try self.object(line[3]) { expectEqual(exchange.headers[name], value, "\(name)") }
        let expected = try #require(JSONValue(parsing: Array(line[4].utf8)).string)
            .replacing("{prelude}", with: String(repeating: "h", count: 2048))
            // The application of the server can't see that a character of a message was half of a surrogate pair.
            .replacing(#"\\ud800"#, with: #"\ufffd"#)
        expectEqual(self.comparable(exchange.body, sid), self.comparable(expected, sid))
    }

    /// The body without what differs in each run.
    private func comparable(_ body: String, _ sid: String) -> String {
        var body = body.replacing("{sid}", with: sid)
        // The IDs of sessions have another length, and with it the packet.
        if let start = body.firstIndex(of: "{"), body.contains("\"sid\"") { body = String(body[start...]) }
        if let range = body.firstRange(of: #""entropy":"#) { body = body[..<range.upperBound] + "}" }
        // Several packets may travel in one frame.
        return body.replacing("]\na[", with: ",")
    }
}
