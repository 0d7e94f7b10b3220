internal import CommandLineSupport
internal import Processes
internal import RealtimeCore
internal import RealtimeSockets

/// `realtime bench-load`: what `realtime bench` starts, and talks to in lines.
///
/// ```
///   ready PORT               it listens
///   burst MESSAGES CHANNELS  send them to the latest connection
/// ```
/// It ends with its input, and so with whoever started it.
struct BenchLoadCommand: Sendable, Equatable {
    static let spec = CommandSpec(
        path: ["bench-load"],
        summary: "Be the server of a benchmark",
        description: "Sends what realtime bench measures. It is started by that command and ends with its own input.",
        options: [
            .value("certificate", "FILE", "A certificate in PEM: speak TLS with it."),
            .value("private-key", "FILE", "The certificate's key."),
        ],
        isHidden: true)

    var tls: TLSServerConfiguration?

    init(_ arguments: Arguments) throws(UsageError) {
        guard let certificate = arguments.text("certificate"), let key = arguments.text("private-key") else { return }
        self.tls = TLSServerConfiguration(TLSIdentity(certificateChain: .file(certificate), privateKey: .file(key)))
    }
}

extension BenchLoadCommand: Command {
    func run(_ console: Console) async throws(ToolFailure) {
        FileLimit.raise()
        let server: LoadServer
        do throws(TransportError) {
            server = try LoadServer()
            console.print("ready \(try server.start(self.tls))\n")
        } catch {
            throw ToolFailure(error)
        }
        // It blocks its thread, which has nothing else to do: the load has a thread of its own.
        while let line = readLine() {
            let words = line.split(separator: " ")
            guard words.count == 3, words[0] == "burst", let messages = Int(words[1]), let channels = Int(words[2]) else { continue }
            server.burst(messages, channels: channels)
        }
    }
}
