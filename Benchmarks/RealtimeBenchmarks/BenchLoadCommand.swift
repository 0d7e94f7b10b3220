import CommandLineSupport
import Processes
import PusherServer
import RealtimeCore
import RealtimeSockets
import SignalRServer

/// `realtime bench-load`: the load generator that `realtime bench` starts and controls with lines of text.
///
/// ```
/// ready PORT              from the load generator: it is listening
/// burst MESSAGES CONTENT  to the load generator: send messages on the newest connection; see `LoadContent`
/// ```
/// With `--pusher` or `--signalr`, it is an embedded server instead, so that its processor time can be measured.
/// It exits at the end of its input, and so together with the process that started it.
struct BenchLoadCommand: Command {
    static let spec = CommandSpec(
        path: ["bench-load"],
        summary: "Run the load generator of the benchmarks",
        description: "Runs the server that sends the events of realtime bench. That command starts it. Exits at the end of its input.",
        options: [
            .value("certificate", "FILE", "A PEM file with a certificate; enables TLS.", completion: .files),
            .value("private-key", "FILE", "A PEM file with the key of the certificate.", completion: .files),
            .flag("pusher", "Run the embedded server for Pusher Channels instead."),
            .value(
                "signalr", "BYTES",
                "Run the embedded server for SignalR instead, and store this many bytes for a client with stateful reconnect.",
                as: .integer(1...1 << 30)),
        ],
        isHidden: true)

    let tls: TLSServerConfiguration?
    let isPusherServer: Bool
    let storedByteLimit: Int?

    init(_ arguments: Arguments) throws(UsageError) {
        if let certificate = arguments.string("certificate"), let key = arguments.string("private-key") {
            self.tls = TLSServerConfiguration(TLSIdentity(certificateChain: .file(certificate), privateKey: .file(key)))
        } else {
            self.tls = nil
        }
        self.isPusherServer = arguments.has("pusher")
        self.storedByteLimit = arguments.integer("signalr")
    }

    func run(_ console: Console) async throws(ToolFailure) {
        FileLimit.raise()
        if self.isPusherServer {
            let server = PusherServer(app: PusherFanOut.app, log: .none)
            try await self.run(console) { listener throws(TransportError) in try await server.start(on: listener) }
            return await server.stop()
        }
        if let storedByteLimit {
            let server = BenchHub.server(storedByteLimit: storedByteLimit)
            try await self.run(console) { listener throws(TransportError) in try await server.start(on: listener) }
            return await server.stop()
        }
        let server: LoadServer
        do throws(TransportError) {
            server = try LoadServer()
            console.write("ready \(try server.start(self.tls))\n")
        } catch {
            throw ToolFailure(error)
        }
        // Blocks this thread, which has nothing else to do: the load is sent by the thread of its own event loop.
        while let line = readLine() {
            let fields = line.split(separator: " ")
            guard fields.count > 2, fields[0] == "burst", let messages = Int(fields[1]), let content = LoadContent(fields[2...]) else {
                continue
            }
            server.burst(messages, content)
        }
    }

    /// Starts an embedded server, and waits for the end of the input.
    private func run(
        _ console: Console, _ start: (SocketListener) async throws(TransportError) -> ListenerAddress
    ) async throws(ToolFailure) {
        // A method that sends in a loop can be ahead of the thread of the loop, which tells it to wait, while other programs use all processors.
        var limits = ListenerLimits()
        limits.messageBacklogBytes = 64 << 20
        do throws(TransportError) {
            console.write("ready \(try await start(SocketListener(limits: limits)).port)\n")
        } catch {
            throw ToolFailure(error)
        }
        // As above.
        while readLine() != nil {}
    }
}
