import Foundation
import RealtimeCore
import TestSupport
import Testing

@testable import SignalRServer

/// The server against recordings of ASP.NET Core: for the same messages, it sends the same bytes. See Tests/Vectors/signalr.
@Suite(.timeLimit(.minutes(10))) struct ExchangeTests {
    /// One connection: what the client sent and what it received, in order.
    struct Exchange: Sendable, CustomTestStringConvertible {
        enum Step: Sendable {
            case send(TransportMessage)
            case receive(String)
            case close(CloseCode)
        }

        var testDescription: String
        var steps: [Step] = []
    }

    private static let exchanges: [Exchange] = {
        let text = try? String(contentsOfFile: Vectors.path("signalr/aspnetcore-10.0.14-exchanges.txt"), encoding: .utf8)
        var exchanges: [Exchange] = []
        for line in (text ?? "").split(separator: "\n") {
            let content = String(line.dropFirst(2).replacing("␞", with: "\u{1E}"))
            let step: Exchange.Step
            if line.hasPrefix("#") {
                exchanges.append(Exchange(testDescription: content))
                continue
            } else if line.hasPrefix("> binary ") {
                step = .send(.binary(Array(content.dropFirst("binary ".count).utf8)))
            } else if line.hasPrefix(">") {
                step = .send(.text(content))
            } else if line.hasPrefix("< close ") {
                step = .close(CloseCode(rawValue: UInt16(content.dropFirst("close ".count)) ?? 0))
            } else {
                step = .receive(content.replacing("\u{1E}", with: ""))
            }
            exchanges[exchanges.count - 1].steps.append(step)
        }
        return exchanges
    }()

    @Test func `the recording is complete`() {
        expectEqual(Self.exchanges.count, 38)
        expect(Self.exchanges.allSatisfy { $0.steps.count >= 2 })
    }

    @Test(arguments: exchanges)
    func `the server sends what ASP.NET Core sends`(exchange: Exchange) async throws {
        let test = try await HubUnderTest()
        Self.addMethods(to: test.hub)
        let client = RawHubClient(test.network, test.address, "/hub")
        for step in exchange.steps {
            switch step {
            case .send(let message): client.send(message)
            case .receive(let text): expectEqual(String(decoding: try await client.nextMessage(), as: UTF8.self), text)
            case .close(let code): try await expectEqual(client.ending(), .peer(code, ""))
            }
        }
        expectEqual(client.take(), [])
    }

    private static func addMethods(to hub: Hub) {
        hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        hub.on("Boom") { (caller, text: String) in throw HubException(text) }
        hub.on("Sum") { (caller, items: HubStream<Int>) in try await items.reduce(0, +) }
        hub.on("UploadError") { (caller, items: HubStream<Int>) in
            var count = 0
            do {
                for try await _ in items { count += 1 }
                return "\(count) complete"
            } catch {
                return "\(count) \(error)"
            }
        }
        hub.on("AskClientError") { (caller, method: String) in
            do {
                try await caller.clients.caller.invoke(method)
                return "no error"
            } catch {
                return "\(error)"
            }
        }
        hub.stream("Counter") { (caller, count: Int, milliseconds: Int) in numbers(count) }
        hub.stream("FailingStream") { (caller, count: Int, text: String) in numbers(count, HubException(text)) }
    }

    private static func numbers(_ count: Int, _ error: HubException? = nil) -> AsyncThrowingStream<Int, any Error> {
        AsyncThrowingStream { continuation in
            for number in 0..<count { continuation.yield(number) }
            continuation.finish(throwing: error)
        }
    }
}
