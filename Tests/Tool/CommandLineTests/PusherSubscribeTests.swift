import Foundation
import Processes
import PusherTesting
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import realtime

/// The time limit of `pusher subscribe`, in virtual time.
@Suite struct SubscribeTimeLimitTests {
    private struct Refusal: Error {}

    private static func command(_ options: [String] = []) throws -> PusherSubscribeCommand {
        let arguments = ["ws://host", "private-a", "private-b", "--key", "key", "--secret", "secret", "--timeout", "300"] + options
        guard case .run(let arguments) = try ArgumentParser.parse(arguments, for: PusherSubscribeCommand.spec) else {
            throw UsageError([], "unexpected request for help")
        }
        return try PusherSubscribeCommand(arguments)
    }

    /// Checks that the time limit elapses after 300 seconds, whatever happens to the subscriptions in the meantime.
    private static func expectTimeLimit(
        _ pusher: InMemoryPusher, _ client: PusherClient, options: [String] = [], _ meantime: () async throws -> Void
    ) async throws {
        let command = try Self.command(options)
        for channel in command.channels { try client.subscribe(channel) }
        let result = Task { [limit = TimeLimit(command.timeout, clock: pusher.clock)] in
            await limit.passes(before: command.limitIsMet(client))
        }
        try await eventually { pusher.clock.sleepingTaskCount == 1 }
        try await meantime()
        pusher.clock.advance(by: .seconds(299) - pusher.clock.elapsed)
        expectEqual(pusher.clock.sleepingTaskCount, 1)
        pusher.clock.advance(by: .seconds(1))
        await expect(result.value)
    }

    @Test func `a failed authorization doesn't decide about the time limit`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.authorizer = .callback { _ in throw Refusal() } }
        let errors = client.errors
        client.connect()
        try await Self.expectTimeLimit(pusher, client) {
            let error = await errors.first { _ in true }
            expectEqual(error?.code, .authorizationFailed)
        }
    }

    @Test func `a subscription that the client gives up earlier doesn't decide about the time limit`() async throws {
        // So long that neither side notices that the other one is silent.
        let pusher = try await InMemoryPusher { $0.activityTimeout = .seconds(1_000) }
        let client = pusher.client { $0.activityTimeout = .seconds(1_000) }
        let errors = client.errors
        client.connect()
        pusher.server.silence(try #require(client.socketID))
        try await Self.expectTimeLimit(pusher, client) {
            pusher.clock.advance(by: .seconds(30))
            await expectEqual(errors.pending().map(\.code), [.timedOut, .timedOut])
        }
    }

    @Test func `the time limit is met when all channels have been subscribed`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let command = try Self.command()
        for channel in command.channels { try client.subscribe(channel) }
        let result = Task { [limit = TimeLimit(command.timeout, clock: pusher.clock)] in
            await limit.passes(before: command.limitIsMet(client))
        }
        try await eventually { pusher.clock.sleepingTaskCount == 1 }
        client.connect()
        await expectEqual(result.value, false)
        expectEqual(pusher.clock.elapsed, .zero)
    }

    @Test func `with a number of events, subscriptions don't meet the time limit`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        try await Self.expectTimeLimit(pusher, client, options: ["--count", "1"]) {
            expectEqual(client.channel("private-b")?.state, .subscribed)
        }
    }
}

/// `pusher subscribe` as a process, with servers in the process of the tests.
@Suite(.usesSockets, .requires(.tool(Tool.path)), .timeLimit(.minutes(10)))
struct SubscribeProcessTests {
    private static let app = PusherApp(id: "1", key: "k", secret: "s")

    /// An authorization endpoint that responds with a status a number of times before it authorizes.
    private final class FailingEndpoint: ListenerHandler {
        private let authorization = PusherAuthorizationHandler(app: SubscribeProcessTests.app)
        private let status: Int
        private let remaining: Lock<Int>

        init(_ status: Int, times: Int = .max) {
            self.status = status
            self.remaining = Lock(times)
        }

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            let responds = self.remaining.withLock { remaining in
                defer { remaining = max(0, remaining - 1) }
                return remaining > 0
            }
            if responds { return responder.respond(HTTPResponse(status: self.status, text: "Later.")) }
            self.authorization.received(request, body: body, responder: responder)
        }
    }

    /// Runs the tool with a server and an authorization endpoint.
    private static func subscribe(
        _ endpoint: FailingEndpoint, _ options: [String]
    ) async throws -> (status: Int32, output: String, errors: String) {
        let server = PusherServer(app: Self.app, log: .none)
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(
            ListenerRouter([.path("/auth", endpoint), .path("/", server.listenerHandler)]))
        let (url, auth) = ("ws://127.0.0.1:\(address.port)", "http://127.0.0.1:\(address.port)/auth")
        let result = try await Tool.run(["pusher", "subscribe", url, "--key", "k", "--auth-endpoint", auth, "private-a"] + options)
        await listener.stop()
        return result
    }

    @Test func `the time limit ends a command whose authorization keeps failing`() async throws {
        // On a busy computer, a response may not arrive within the first limit.
        for limit in ["1.0", "10.0", "100.0"] {
            let result = try await Self.subscribe(FailingEndpoint(503), ["--timeout", limit])
            expectEqual(result.status, 1)
            expect(result.errors.contains("Cannot subscribe to private-a") && result.errors.contains("within \(limit) s"))
            if result.errors.contains("503") { return }
        }
        Issue.record("The error doesn't contain the status of the response.")
    }

    @Test(arguments: [408, 429, 500])
    func `a command goes on after a temporary error of the authorization endpoint`(_ status: Int) async throws {
        let server = PusherServer(app: Self.app, log: .none)
        let listener = SocketListener(limits: .forTests)
        let handler = FailingEndpoint(status, times: 1)
        let address = try await listener.start(
            ListenerRouter([.path("/auth", handler), .path("/", server.listenerHandler)]))
        let port = address.port
        let tool = try Tool([
            "pusher", "subscribe", "ws://127.0.0.1:\(port)", "--key", "k", "--auth-endpoint", "http://127.0.0.1:\(port)/auth", "private-a",
        ])
        var lines: [String] = []
        while lines.last?.contains("subscribed") != true, lines.last != "" { lines.append(await tool.nextLine()) }
        expectEqual(lines.last, #"{"type":"subscribed","channel":"private-a"}"#)
        expect(lines.contains { $0.contains("error") && $0.contains("\(status)") })
        tool.process.signal(SIGTERM)
        await expectEqual(tool.end().status, 0)
        await listener.stop()
    }

    @Test func `a command goes on when the authorization endpoint can't be reached`() async throws {
        let port = TestPort.refusing()
        let server = PusherServer(app: Self.app, log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        var errors = ""
        // On a busy computer, the first limit may be over before the endpoint is tried.
        for limit in ["2.0", "10.0", "100.0"] where !errors.contains("refused") {
            let result = try await Tool.run([
                "pusher", "subscribe", "ws://127.0.0.1:\(address.port)", "--key", "k", "--auth-endpoint", "http://127.0.0.1:\(port)/auth",
                "private-a", "--timeout", limit,
            ])
            expectEqual(result.status, 1)
            expect(result.errors.contains("within \(limit) s"))
            errors = result.errors
        }
        expect(errors.contains("refused"))
        await server.stop()
    }

    @Test func `a rejected authorization ends a command`() async throws {
        let result = try await Self.subscribe(FailingEndpoint(403), [])
        expectEqual(result.status, 1)
        expect(result.errors.contains("403") && !result.errors.contains("within"))
    }

    @Test func `only events of the named channels are printed, and those of the protocol on request`() async throws {
        let server = PusherServer(app: Self.app, log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let (note, price) = (#""event":"pusher:note","data":"1"}"#, #""event":"price","data":"2"}"#)
        for (options, printed) in [
            ([], [price]), (["--event", "price"], [price]), (["--verbose"], [note, price]), (["--verbose", "--event", "price"], [price]),
            (["--verbose", "--event", "pusher:note"], [note]),
        ] {
            let events = server.events
            let tool = try Tool(
                ["pusher", "subscribe", "ws://127.0.0.1:\(address.port)", "--key", "k", "--count", "1", "prices"] + options)
            guard case .subscribed(let socketID, _, _)? = await events.first(where: { if case .subscribed = $0 { true } else { false } })
            else {
                Issue.record("the tool did not subscribe")
                return
            }
            // Without a channel, on another one, and of the protocol.
            for frame in [#""event":"price","data":"0""#, #""event":"price","channel":"other","data":"0""#] {
                server.send("{\(frame)}", to: socketID)
            }
            server.send(#"{"event":"pusher:note","channel":"prices","data":"1"}"#, to: socketID)
            server.publish("price", to: "prices", data: "2")
            let result = await tool.end()
            expectEqual(result.status, 0)
            let lines = result.output.split(separator: "\n").map(String.init)
            expectEqual(
                lines.filter { $0.contains(#""type":"event""#) }, printed.map { #"{"type":"event","channel":"prices","# + $0 },
                "\(options)")
            let isVerbose = options.contains("--verbose")
            let frames = lines.filter { $0.contains(#""type":"log","level":"trace""#) }
            expectEqual(frames.contains { $0.contains(" sent {") }, isVerbose)
            expectEqual(frames.contains { $0.contains(" received {") }, isVerbose)
            expectEqual(lines.contains(#"{"type":"attempt","number":1}"#), isVerbose)
            // The frame precedes what it causes.
            if isVerbose {
                let received = lines.firstIndex { $0.contains(" received {") && $0.contains("subscription_succeeded") }
                let subscribed = lines.firstIndex(of: #"{"type":"subscribed","channel":"prices"}"#)
                try expect(#require(received) < (try #require(subscribed)))
            }
        }
        await server.stop()
    }

    /// Starts the tool, whose output isn't read, and calls a closure when it has subscribed.
    ///
    /// - Parameter send: Sends to the socket ID that it receives, and calls the closure that it receives to wait until the client has
    ///   responded to a ping. A client that prints on the thread of its event loop would not respond.
    /// - Returns: The output.
    private static func outputOfUnreadTrace(
        _ send: (PusherServer, _ socketID: String, _ awaitResponse: () async -> Void) async -> Void
    ) async throws -> String {
        let server = PusherServer(app: Self.app, log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let events = server.events
        let tool = try Tool(["pusher", "subscribe", "ws://127.0.0.1:\(address.port)", "--key", "k", "--verbose", "prices"])
        guard case .subscribed(let socketID, _, _)? = await events.first(where: { if case .subscribed = $0 { true } else { false } })
        else {
            Issue.record("the tool did not subscribe")
            return ""
        }
        await send(server, socketID) {
            server.send(#"{"event":"pusher:ping","data":{}}"#, to: socketID)
            let response = await events.first { if case .received(_, let frame) = $0 { frame.contains("pusher:pong") } else { false } }
            expect(response != nil)
        }
        tool.process.signal(SIGTERM)
        let result = await tool.end()
        expectEqual(result.status, 0)
        await server.stop()
        return result.output
    }

    @Test func `a trace that isn't read doesn't block the client`() async throws {
        let output = try await Self.outputOfUnreadTrace { server, _, awaitResponse in
            // More than a pipe holds, in fewer events than the client buffers.
            for _ in 0..<60 { server.publish("price", to: "prices", data: String(repeating: "x", count: 8_000)) }
            await awaitResponse()
        }
        expect(output.ranges(of: " received {").count >= 60)
    }

    @Test func `a trace that is longer than its queue says how many lines are missing`() async throws {
        // Events of other channels are only traced.
        let frame = #"{"event":"price","channel":"other","data":"\#(String(repeating: "x", count: 2_000))"}"#
        let output = try await Self.outputOfUnreadTrace { server, socketID, awaitResponse in
            // Not all together, because the server disconnects a client for which too much output waits.
            for _ in 0..<40 {
                for _ in 0..<100 { server.send(frame, to: socketID) }
                await awaitResponse()
            }
        }
        let missing = output.matches(of: /(\d+) lines are missing here, because the output is read too slowly\./)
            .compactMap { Int($0.1) }.reduce(0, +)
        let printed = output.ranges(of: " received {").count
        expect(missing >= 1_000 && missing + printed >= 4_000)
    }
}
