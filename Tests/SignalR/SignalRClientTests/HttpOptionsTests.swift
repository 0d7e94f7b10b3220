import Foundation
import RealtimeTesting
import SignalRClient
import SignalRTesting
import TestSupport
import Testing

/// The options of the transports, and logging.
@Suite(.timeLimit(.minutes(10))) struct HttpOptionsTests {
    @Test func `headers and the token are sent with each request`() async throws {
        let requests = EventRecorder<SignalRAuthenticationRequest>()
        var hooks = SignalRServerHooks()
        hooks.authenticate = { request in
            requests.record(request)
            return .accept(userID: "anna")
        }
        let signalR = try await InMemorySignalR(hooks: hooks)
        _ = signalR.server.hub("/hub")
        var options = HttpConnectionOptions()
        options.headers = ["X-Client": "test"]
        options.accessTokenFactory = { "secret-token" }
        let builder = signalR.connectionBuilder("/hub")
        let connection = builder.withUrl(url: signalR.url("/hub"), options: options).build()
        try await connection.start()
        expectEqual(requests.all.map(\.isNegotiation), [true, false])
        expect(requests.all.allSatisfy { $0.token == "secret-token" && $0.request.headers["X-Client"] == "test" })
        expect(requests.all.allSatisfy { $0.request.headers["X-Requested-With"] == "XMLHttpRequest" })
    }

    @Test func `a rejected token is asked for once more`() async throws {
        let tokens = EventRecorder<Int>()
        var hooks = SignalRServerHooks()
        hooks.authenticate = { $0.token == "token-2" ? .accept(userID: nil) : .reject(status: 401) }
        let signalR = try await InMemorySignalR(hooks: hooks)
        _ = signalR.server.hub("/hub")
        var options = HttpConnectionOptions()
        options.accessTokenFactory = {
            tokens.record(1)
            return "token-\(tokens.all.count)"
        }
        let url = signalR.url("/hub")
        let connection = signalR.connectionBuilder("/hub").withUrl(url: url, options: options).build()
        try await connection.start()
        expectEqual(tokens.all.count, 2)
        await connection.stop()
        await #expect(throws: SignalRError.self) { try await connection.start() }
        expectEqual(tokens.all.count, 4)
    }

    @Test func `the application's client sends the negotiation`() async throws {
        struct Client: HttpClient {
            let requests = EventRecorder<HttpRequest>()
            let answer: @Sendable (HttpRequest) throws -> (StringOrData, HttpResponse)

            func send(request: HttpRequest) async throws -> (StringOrData, HttpResponse) {
                self.requests.record(request)
                return try self.answer(request)
            }
        }
        struct Failure: Error {}
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/hub")
        let url = signalR.url("/hub")
        for (client, expected) in [
            (Client { _ in (.string(#"{"error":"from the client"}"#), HttpResponse(statusCode: 200)) }, "from the client"),
            (Client { _ in (.data(Data()), HttpResponse(statusCode: 503)) }, "503"),
            (Client { _ in throw Failure() }, "Failure"),
        ] {
            var options = HttpConnectionOptions()
            options.httpClient = client
            options.timeout = 7
            let connection = signalR.connectionBuilder("/hub").withUrl(url: url, options: options).build()
            await #expect {
                try await connection.start()
            } throws: { "\($0)".contains(expected) }
            let request = try #require(client.requests.all.first)
            expectEqual(request.method, .POST)
            expect(request.url.hasSuffix("/hub/negotiate?negotiateVersion=1"))
            expectEqual(request.timeout, 7)
        }
    }

    @Test func `log messages reach the handler from its level on`() async throws {
        struct Handler: LogHandler {
            let messages = EventRecorder<(LogLevel, String)>()

            func log(logLevel: LogLevel, message: LogMessage, file: String, function: String, line: UInt) {
                self.messages.record((logLevel, message.description))
            }
        }
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/hub")
        let (all, warnings) = (Handler(), Handler())
        var options = HttpConnectionOptions()
        options.accessTokenFactory = { "secret-token" }
        let url = signalR.url("/hub")
        for (handler, level) in [(all, LogLevel.debug), (warnings, .warning)] {
            let connection = signalR.connectionBuilder("/hub").withUrl(url: url, options: options)
                .withLogHandler(logHandler: handler).withLogLevel(logLevel: level).build()
            try await connection.start()
            try await hub.clients.all.send("Unknown", "private text")
            try await eventually { handler.messages.all.contains { $0.1.contains("There is no handler for the method Unknown") } }
            await connection.stop()
        }
        expect(Set(all.messages.all.map(\.0)).isSuperset(of: [.debug, .information, .warning]))
        expect(warnings.messages.all.allSatisfy { $0.0.rawValue >= LogLevel.warning.rawValue })
        expect(!all.messages.all.contains { $0.1.contains("secret-token") || $0.1.contains("private text") })
        options.logMessageContent = true
        let content = Handler()
        let connection = signalR.connectionBuilder("/hub").withUrl(url: url, options: options)
            .withLogHandler(logHandler: content).withLogLevel(logLevel: .debug).build()
        try await connection.start()
        try await hub.clients.all.send("Unknown", "private text")
        try await eventually { content.messages.all.contains { $0.0 == .debug && $0.1.contains("private text") } }
        expect(!content.messages.all.contains { $0.1.contains("secret-token") })
        let message: LogMessage = "interpolated \(1)"
        expectEqual(message.description, "interpolated 1")
    }
}
