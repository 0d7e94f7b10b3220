import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import SignalRHubs
import SignalRServer
import SignalRTesting
import TestSupport
import Testing

/// The mistakes because of which a client doesn't connect: what the error of a call that waits says, and what an application that configures no
/// log sees. Each has to name the failure, and what to do.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct HubMistakeTests {
    struct Mistake: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Whether a server listens, with or without TLS.
        var server: Bool? = false
        var scheme = "http"
        var path = "/chat"
        var token: String? = "secret-token"
        /// The parts of the text: the failure and the advice.
        let texts: [String]

        init(_ name: String, _ texts: String..., change: (inout Mistake) -> Void) {
            (self.testDescription, self.texts) = (name, texts)
            change(&self)
        }
    }

    static let mistakes =
        [
            Mistake("a server that isn't there", "refused the connection", "Check that the server is running and that the port is correct.")
            {
                $0.server = nil
            },
            Mistake("a wrong path", "404", "Check the URL") { $0.path = "/other" },
            Mistake("a refused token", "401", "Check the token that accessToken returns.") { $0.token = "another" },
            Mistake("https at a port without TLS", "does not seem to use TLS on this port", "use ws:// or http://") { $0.scheme = "https" },
        ]
        + Requirement.openSSL.cases([
            Mistake("http at a port with TLS", "closed the connection", "If the server expects TLS on this port, use") { $0.server = true },
            Mistake("a certificate that the system does not trust", "The certificate of", "`TLSConfiguration.trustRoots`") {
                ($0.server, $0.scheme) = (true, "https")
            },
        ])

    @Test(arguments: [
        (HubTransportKinds.webSockets, 100_000, "SignalRServerConfiguration.messageLimit"),
        (.webSockets, 2_000_000, "the limit of the server, MaximumReceiveMessageSize"),
        (.longPolling, 100_000, "SignalRServerConfiguration.messageLimit"),
        (.longPolling, 2_000_000, "the limit of the server, MaximumReceiveMessageSize"),
    ]) func `a message above the limit of the server has a text that says what to increase`(
        transports: HubTransportKinds, size: Int, setting: String
    ) async throws {
        let server = SignalRServer(log: .none)
        server.hub("/chat").on("Text") { (caller, text: String) in text.count }
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        var configuration = try HubConfiguration(url: "http://127.0.0.1:\(port)/chat")
        (configuration.allowedTransports, configuration.log) = (transports, .none)
        let client = HubClient(configuration)
        try await client.start()
        let error = await #expect(throws: HubError.self) {
            try await client.invoke("Text", String(repeating: "x", count: size), within: .seconds(600))
        }
        expect(
            error?.message.contains("Send smaller messages, or increase ") == true && error?.message.contains(setting) == true,
            "\(error as Any)")
        client.stop()
        await server.stop()
    }

    @Test func `a loop over calls ends with the release of its client, which is in the log`() async throws {
        let (signalR, lines) = (try await InMemorySignalR(), EventRecorder<String>())
        signalR.server.hub("/chat")
        var client: HubClient? = signalR.client("/chat") {
            $0.log = LogSink(minimumLevel: .warning) { level, _, text in lines.record("\(level): \(text)") }
        }
        try await client?.start()
        let calls = try #require(client?.invocations(of: "Receive"))
        client = nil
        for await _ in calls {}
        expectEqual(calls.endReason, .ended)
        expect(lines.all.count == 1 && lines.all[0].hasPrefix("warning: The client was released"), "\(lines.all)")
    }

    private static func pem(_ name: String) -> PEM { .file(Vectors.path("certificates/\(name).pem")) }

    @Test(arguments: Self.mistakes) func `a mistake has a text that says what to do`(mistake: Mistake) async throws {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { $0.token == "secret-token" ? .accept(userID: "anna") : .reject(status: 401) }
        let server = SignalRServer(hooks: hooks, log: .none)
        server.hub("/chat")
        var port = TestPort.refusing()
        if let isSecure = mistake.server {
            let identity = TLSIdentity(certificateChain: Self.pem("server"), privateKey: Self.pem("server-key"))
            let listener =
                isSecure ? SocketListener(tls: TLSServerConfiguration(identity), limits: .forTests) : SocketListener(limits: .forTests)
            port = try await server.start(on: listener).port
        }
        let lines = EventRecorder<String>()
        var configuration = try HubConfiguration(url: "\(mistake.scheme)://127.0.0.1:\(port)\(mistake.path)")
        configuration.accessToken = { mistake.token }
        configuration.retriesFirstStart = true
        configuration.retry = .delays([.milliseconds(1), .seconds(100_000)])
        configuration.log = LogSink(minimumLevel: LogSink.standard.minimumLevel) { level, _, text in lines.record("\(level): \(text)") }
        let client = HubClient(configuration)
        let updates = client.updates()
        let run = Task { try await client.run() }
        var failures = 0
        _ = await updates.first { update in
            if case .error = update { failures += 1 }
            return failures == 2
        }
        let error = await #expect(throws: HubError.self) { try await client.connected(within: .milliseconds(1)) }
        let message = error.map { "\($0)" } ?? ""
        expectEqual(error?.code, .timedOut)
        for text in mistake.texts { expect(message.contains(text), "\(text): \(message)") }
        expect(!message.contains("longer"), "\(message)")
        try await eventually { !lines.all.isEmpty }
        // Once, although two attempts have failed.
        expectEqual(lines.all.count, 1, "\(lines.all)")
        expect(lines.all[0].hasPrefix("warning: ") && lines.all[0].hasSuffix(" The client keeps trying."), "\(lines.all)")
        for text in mistake.texts { expect(lines.all[0].contains(text), "\(text): \(lines.all)") }
        client.stop()
        try await run.value
        await server.stop()
    }
}
