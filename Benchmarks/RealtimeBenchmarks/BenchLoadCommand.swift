import CommandLineSupport
import Processes
import RealtimeCore
import RealtimeSockets

/// `realtime bench-load`: the load generator that `realtime bench` starts and controls with lines of text.
///
/// ```
/// ready PORT               from the load generator: it is listening
/// burst MESSAGES CHANNELS  to the load generator: send events on the newest connection
/// ```
/// It exits at the end of its input, and so together with the process that started it.
struct BenchLoadCommand: Command {
    static let spec = CommandSpec(
        path: ["bench-load"],
        summary: "Run the load generator of the benchmarks",
        description: "Runs the server that sends the events of realtime bench. That command starts it. Exits at the end of its input.",
        options: [
            .value("certificate", "FILE", "A PEM file with a certificate; enables TLS."),
            .value("private-key", "FILE", "A PEM file with the key of the certificate."),
        ],
        isHidden: true)

    let tls: TLSServerConfiguration?

    init(_ arguments: Arguments) throws(UsageError) {
        if let certificate = arguments.string("certificate"), let key = arguments.string("private-key") {
            self.tls = TLSServerConfiguration(TLSIdentity(certificateChain: .file(certificate), privateKey: .file(key)))
        } else {
            self.tls = nil
        }
    }

    func run(_ console: Console) async throws(ToolFailure) {
        FileLimit.raise()
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
            guard fields.count == 3, fields[0] == "burst", let messages = Int(fields[1]), let channels = Int(fields[2]) else { continue }
            server.burst(messages, channels: channels)
        }
    }
}
