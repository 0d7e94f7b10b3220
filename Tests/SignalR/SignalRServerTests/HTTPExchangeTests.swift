import Foundation
import RealtimeCoding
import RealtimeCore
import RealtimeTesting
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// The server against recordings of requests to ASP.NET Core: it answers them at the same moment, with the same status, header fields and
/// messages. See Tests/Vectors/signalr.
@Suite(.timeLimit(.minutes(10))) struct HTTPExchangeTests {
    /// The requests of one connection and their answers, in order.
    struct Exchange: Sendable, CustomTestStringConvertible {
        enum Step: Sendable {
            case send(Character, method: String, target: String, isStream: Bool, isSocket: Bool, body: String)
            case head(Character, status: Int, type: String, cache: String)
            case body(Character, String)
            case end(Character)
        }

        var testDescription: String
        /// The only transport of the hub.
        var transport: HubTransport? { HubTransport.allCases.first { self.testDescription.hasSuffix("(\($0.rawValue) only)") } }
        var usesToken: Bool {
            self.steps.contains { if case .send(_, _, let target, _, _, _) = $0 { target.contains("TOKEN") } else { false } }
        }
        var steps: [Step] = []
    }

    private static let exchanges: [Exchange] = {
        let text = try? String(contentsOfFile: Vectors.path("signalr/aspnetcore-10.0.14-http.txt"), encoding: .utf8)
        var exchanges: [Exchange] = []
        for line in (text ?? "").split(separator: "\n") {
            let content = line.dropFirst(2).replacing("␞", with: "\u{1E}").replacing("␍␊", with: "\r\n")
            if line.hasPrefix("#") {
                exchanges.append(Exchange(testDescription: String(content)))
            } else {
                exchanges[exchanges.count - 1].steps.append(Self.step(String(content), isRequest: line.hasPrefix(">")))
            }
        }
        return exchanges
    }()

    private static func step(_ line: String, isRequest: Bool) -> Exchange.Step {
        let words = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        let name = words[0].first ?? " "
        if isRequest {
            let rest = words.count > 3 ? words[3] : ""
            return .send(
                name, method: words[1], target: words[2], isStream: rest == "events", isSocket: rest == "socket",
                body: ["events", "socket"].contains(rest) ? "" : rest)
        }
        switch words[1] {
        case "end": return .end(name)
        case "body": return .body(name, String(line.dropFirst("A body ".count)))
        default:
            let fields = line.split(separator: "[").dropFirst().map { String($0.prefix { $0 != "]" }).replacing(", ", with: ",") }
            return .head(name, status: Int(words[1]) ?? 0, type: fields[0], cache: fields[1])
        }
    }

    @Test func `the recording is complete`() {
        expectEqual(Self.exchanges.count, 35)
        expect(Self.exchanges.allSatisfy { $0.steps.count >= 2 })
    }

    @Test(arguments: exchanges)
    func `the server answers requests as ASP.NET Core does`(exchange: Exchange) async throws {
        let replay = try await Replay(exchange)
        for step in exchange.steps { try await replay.perform(step) }
        try await replay.finish()
    }

    /// The state of a replay.
    private final class Replay {
        private let test: HubUnderTest
        private let token: String
        private var requests: [Character: RawRequest] = [:]
        private var sockets: [Character: RawHubClient] = [:]
        /// The statuses and bodies that were expected so far.
        private var statuses: [Character: Int] = [:]
        private var bodies: [Character: String] = [:]

        init(_ exchange: Exchange) async throws {
            self.test = try await HubUnderTest { $0.transports = exchange.transport.map { HubTransportKinds($0) } ?? .all }
            let hub = self.test.hub
            hub.on("Add") { (caller, a: Int, b: Int) in a + b }
            hub.on("EchoText") { (caller, text: String) in text }
            hub.on("AbortMe") { caller in caller.close() }
            self.token = exchange.usesToken ? try await self.test.negotiate()["connectionToken"]?.string ?? "" : ""
        }

        func perform(_ step: Exchange.Step) async throws {
            switch step {
            case .send(let name, let method, let target, let isStream, let isSocket, let body):
                self.expectNoOtherAnswers()
                let target = target.replacing("TOKEN", with: self.token)
                let (network, address) = (self.test.network, self.test.address)
                if isSocket {
                    self.sockets[name] = RawHubClient(network, address, target)
                } else {
                    self.requests[name] = RawRequest(
                        network.http, address, method, target, headers: isStream ? ["Accept": "text/event-stream"] : [:],
                        body: Array(body.utf8))
                }
            case .head(let name, 101, _, _): expectEqual(self.sockets[name]?.endings.all, [])
            case .head(let name, let status, let type, let cache):
                self.statuses[name] = status
                if let socket = self.sockets[name] {
                    guard case .transport(let error)? = try await socket.ending() else { return expectEqual(status, 101) }
                    return expectEqual(error.response?.head.status, status)
                }
                try await eventually("\(name) is answered") { self.requests[name]?.status != nil }
                let head = self.requests[name]?.recorded.head
                expect(head?.status == status && head?.headers["Content-Type"] == type)
                expectEqual(head?.headers["Cache-Control"]?.replacing(", ", with: ",") ?? "-", cache)
            case .body(let name, let text):
                self.bodies[name, default: ""] += text
                try await self.expectBody(name)
            case .end(let name): _ = try await self.requests[name]?.end()
            }
        }

        /// Requests without an answer in the recording wait.
        private func expectNoOtherAnswers() {
            for (name, request) in self.requests where self.statuses[name] == nil { expectNil(request.status, "\(name) waits") }
        }

        private func expectBody(_ name: Character) async throws {
            guard let request = self.requests[name], let body = self.bodies[name] else { return }
            try await eventually("\(name) receives \(body)") { Self.joined(request.body) == Self.joined(body) }
        }

        /// The events of a stream as one: how messages are distributed over events depends on when they are ready.
        private static func joined(_ body: String) -> String {
            let body = body.replacing("\r\n\r\ndata: ", with: "")
            // Every parser describes invalid JSON in its own words.
            guard let problem = body.firstRange(of: "InvalidDataException: "), let end = body[problem.upperBound...].firstIndex(of: "\"")
            else {
                return body
            }
            return String(body[..<problem.upperBound] + body[end...])
        }

        func finish() async throws {
            self.expectNoOtherAnswers()
            for name in self.requests.keys.sorted() { try await self.expectBody(name) }
        }
    }
}
