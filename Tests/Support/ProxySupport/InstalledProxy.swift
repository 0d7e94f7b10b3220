import Foundation
import Processes
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import TestSupport

/// A proxy that is installed on this machine, in a process and on a port of its own. It ends when it is released.
final class InstalledProxy: Sendable {
    /// Passes signals on, and ends the proxy with its input, which is also closed when this process ends.
    ///
    /// SIGTERM is repeated until the proxy has ended: tinyproxy doesn't notice one that arrives just before it waits for a connection.
    private static let script = """
        "$@" >/dev/null 2>&1 & proxy=$!
        while read -r signal; do kill -"$signal" $proxy; done
        kill -TERM $proxy
        while sleep 0.2; do kill -TERM $proxy; done 2>/dev/null & again=$!
        wait $proxy; kill $again
        """

    struct Missing: Error, CustomStringConvertible {
        let description: String
    }

    let folder: String
    let port: Int
    private let command: [String]
    private let process = Lock<ChildProcess?>(nil)

    /// Creates a proxy without starting it.
    ///
    /// - Parameters:
    ///   - program: The name of the program.
    ///   - arguments: The arguments, for the path of the configuration.
    init(_ program: String, _ arguments: (_ folder: String, _ configuration: String) -> [String]) throws {
        guard let path = Program.path(of: program) else { throw Missing(description: "\(program) isn't installed") }
        self.folder = FileManager.default.temporaryDirectory.appendingPathComponent("realtime-proxy-\(UUID().uuidString)").path
        self.port = TestPort.next()
        self.command = [path] + arguments(self.folder, "\(self.folder)/configuration")
        try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: self.folder) }

    /// Writes a file into the folder of the proxy.
    func write(_ text: String, to name: String = "configuration") throws {
        try text.write(toFile: "\(self.folder)/\(name)", atomically: true, encoding: .utf8)
    }

    /// Starts the proxy, and waits until it listens.
    func start() async throws {
        let process = try ChildProcess(["/bin/sh", "-c", Self.script, "sh"] + self.command, errors: .discarded)
        self.process.withLock { $0 = process }
        try await eventually("\(self.command[0]) listens on port \(self.port)") { await self.isListening() }
    }

    func signal(_ name: String) { self.process.withLock { $0 }?.write(name) }

    /// Ends the proxy with all of its connections, and waits until its port is free.
    func stop() async {
        // Waiting for a process blocks the thread.
        let process = self.process.withLock { $0.take() }
        guard let process else { return }
        let hasEnded = Signal()
        Thread.detachNewThread {
            process.end()
            hasEnded.send()
        }
        await hasEnded.wait()
    }

    /// Whether the proxy responds, if only that it expects TLS or the address of a server.
    private func isListening() async -> Bool {
        let request = HTTPRequest("GET", Endpoint(scheme: "http", host: "127.0.0.1", port: self.port, target: "/is-listening"))
        return (try? await SocketHTTPTransport(keepAlive: .off).send(request, bodyLimit: 1 << 16)) != nil
    }
}
