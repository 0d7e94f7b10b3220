import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// The mistakes because of which a client doesn't connect: what the error of a call that waits says, and what an application that configures no
/// log sees. Each has to name the failure, and what to do.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct PusherMistakeTests {
    struct Mistake: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Whether a server listens, with or without TLS.
        var server: Bool? = false
        var key = "k"
        var useTLS = false
        /// The parts of the text: the failure and the advice.
        let texts: [String]
        /// Whether another attempt would fail as well.
        var isFinal = false

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
            Mistake("a wrong key", "4001", "Unknown app key. Check the key and the cluster or host.") {
                ($0.key, $0.isFinal) = ("x", true)
            },
            Mistake("TLS at a port without it", "does not seem to use TLS on this port", "use ws:// or http://") { $0.useTLS = true },
        ]
        + Requirement.openSSL.cases([
            Mistake("no TLS at a port with it", "closed the connection", "If the server expects TLS on this port, use") {
                $0.server = true
            },
            Mistake("a certificate that the system does not trust", "The certificate of", "`TLSConfiguration.trustRoots`") {
                ($0.server, $0.useTLS) = (true, true)
            },
        ])

    private static func pem(_ name: String) -> PEM { .file(Vectors.path("certificates/\(name).pem")) }

    @Test(arguments: Self.mistakes) func `a mistake has a text that says what to do`(mistake: Mistake) async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "k", secret: "s"), log: .none)
        var port = TestPort.refusing()
        if let isSecure = mistake.server {
            let identity = TLSIdentity(certificateChain: Self.pem("server"), privateKey: Self.pem("server-key"))
            let listener =
                isSecure ? SocketListener(tls: TLSServerConfiguration(identity), limits: .forTests) : SocketListener(limits: .forTests)
            port = try await server.start(on: listener).port
        }
        let lines = EventRecorder<String>()
        var configuration = PusherConfiguration(key: mistake.key, host: "127.0.0.1", port: port, useTLS: mistake.useTLS)
        configuration.retry = .delays([.milliseconds(1), .seconds(100_000)])
        configuration.log = LogSink(minimumLevel: LogSink.standard.minimumLevel) { level, _, text in lines.record("\(level): \(text)") }
        (configuration.connectTimeout, configuration.unavailableTimeout) = (.seconds(600), .seconds(600))
        let client = PusherClient(configuration)
        let updates = client.updates()
        client.connect()
        var failures = 0
        _ = await updates.first { update in
            switch update {
            case .connectingIn: failures += 1
            case .state(.failed), .state(.disconnected): return true
            default: break
            }
            return failures == 2
        }
        let error = await #expect(throws: PusherError.self) { try await client.connected(within: .milliseconds(1)) }
        let message = error.map { "\($0)" } ?? ""
        expectEqual(error?.code, mistake.isFinal ? .rejected : .timedOut)
        for text in mistake.texts { expect(message.contains(text), "\(text): \(message)") }
        expect(!message.contains("longer"), "\(message)")
        try await eventually { !lines.all.isEmpty }
        // Once, although two attempts have failed.
        expectEqual(lines.all.count, 1, "\(lines.all)")
        expect(lines.all[0].hasPrefix(mistake.isFinal ? "error: " : "warning: "), "\(lines.all)")
        for text in mistake.texts { expect(lines.all[0].contains(text), "\(text): \(lines.all)") }
        client.disconnect()
        await server.stop()
    }
}
