import PrimusClient
import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// The mistakes because of which a client doesn't connect: what the error of a call that waits says, and what an application that configures no
/// log sees. Each has to name the failure, and what to do.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct PrimusMistakeTests {
    struct Mistake: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var server: (@Sendable (inout PrimusServerConfiguration) -> Void)? = { _ in }
        var isSecure = false
        var scheme = "http"
        var path = "/primus"
        var change: @Sendable (inout PrimusConfiguration) -> Void = { _ in }
        /// The parts of the text: the failure and the advice.
        let texts: [String]
        /// Whether another attempt would fail as well.
        var isFinal = false

        init(_ name: String, _ texts: String..., change: (inout Mistake) -> Void = { _ in }) {
            (self.testDescription, self.texts) = (name, texts)
            change(&self)
        }

        /// A client that doesn't ask which transformer the server has.
        static func wrongTransformer(_ ours: PrimusTransformerKind, _ theirs: PrimusTransformerKind) -> Mistake {
            Mistake("\(ours) instead of \(theirs)", "Failed to connect", "may have another transformer than \(ours)") {
                $0.server = { $0.transformer = theirs }
                $0.change = { ($0.transformer, $0.detection) = (ours, .off) }
            }
        }
    }

    static let mistakes =
        [
            Mistake("a server that isn't there", "refused the connection", "Check that the server is running and that the port is correct.")
            {
                $0.server = nil
            },
            Mistake("a wrong path", "404", "Check the path of the URL") { $0.path = "/other" },
            Mistake("https at a port without TLS", "does not seem to use TLS on this port", "use ws:// or http://") { $0.scheme = "https" },
            Mistake("a refused token", "401", "no entry", "Check the credentials.") {
                $0.server = { $0.authorize = { _ in .reject("no entry") } }
                $0.isFinal = true
            },
            .wrongTransformer(.websockets, .engineIO), .wrongTransformer(.websockets, .sockjs), .wrongTransformer(.engineIO, .websockets),
            .wrongTransformer(.engineIO, .sockjs), .wrongTransformer(.sockjs, .engineIO),
        ]
        + Requirement.openSSL.cases([
            Mistake("http at a port with TLS", "closed the connection", "If the server expects TLS on this port, use") {
                $0.isSecure = true
            },
            Mistake("a certificate that the system does not trust", "The certificate of", "`TLSConfiguration.trustRoots`") {
                ($0.isSecure, $0.scheme) = (true, "https")
            },
        ])

    private static func pem(_ name: String) -> PEM { .file(Vectors.path("certificates/\(name).pem")) }

    @Test(arguments: Self.mistakes) func `a mistake has a text that says what to do`(mistake: Mistake) async throws {
        var port = TestPort.refusing()
        var server: PrimusServer?
        if let change = mistake.server {
            var configuration = PrimusServerConfiguration()
            change(&configuration)
            server = PrimusServer(configuration: configuration, log: .none)
            let identity = TLSIdentity(certificateChain: Self.pem("server"), privateKey: Self.pem("server-key"))
            let listener =
                mistake.isSecure
                ? SocketListener(tls: TLSServerConfiguration(identity), limits: .forTests) : SocketListener(limits: .forTests)
            port = try await server?.start(on: listener).port ?? 0
        }
        let lines = EventRecorder<String>()
        var configuration = try PrimusConfiguration(url: "\(mistake.scheme)://127.0.0.1:\(port)\(mistake.path)")
        configuration.retry = .delays([.milliseconds(1), .seconds(100_000)])
        configuration.log = LogSink(minimumLevel: LogSink.standard.minimumLevel) { level, _, text in lines.record("\(level): \(text)") }
        mistake.change(&configuration)
        // A client that speaks something else waits for half of it. Others have time for a TLS handshake on a busy machine.
        configuration.connectTimeout = configuration.detection == .off ? .seconds(10) : .seconds(120)
        let client = PrimusConnection(configuration)
        let updates = client.updates()
        client.open()
        var failures = 0
        _ = await updates.first { update in
            if case .attemptFailed = update { failures += 1 }
            if case .ended = update { return true }
            return failures == 2
        }
        let error = await #expect(throws: PrimusError.self) { try await client.opened(within: .milliseconds(1)) }
        let message = error.map { "\($0)" } ?? ""
        expectEqual(error?.code, mistake.isFinal ? .unauthorized : .timedOut)
        for text in mistake.texts { expect(message.contains(text), "\(text): \(message)") }
        expect(!message.contains("longer"), "\(message)")
        try await eventually { !lines.all.isEmpty }
        // Once, although two attempts have failed.
        expectEqual(lines.all.count, 1, "\(lines.all)")
        expect(lines.all[0].hasPrefix(mistake.isFinal ? "error: The client is closed." : "warning: "), "\(lines.all)")
        expect(mistake.isFinal || lines.all[0].hasSuffix(" The client keeps trying."), "\(lines.all)")
        for text in mistake.texts { expect(lines.all[0].contains(text), "\(text): \(lines.all)") }
        client.end()
        await server?.stop()
    }
}
