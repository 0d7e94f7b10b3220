import CommandLineSupport
import Processes
import SignalRHubs

/// The embedded server for SignalR, in a process of its own.
struct EmbeddedHub {
    private let process: ChildProcess
    private let port: Int

    /// Starts the server.
    ///
    /// - Parameter storedByteLimit: How many bytes it stores for a client with stateful reconnect.
    init(storedByteLimit: Int) throws(ToolFailure) {
        (self.process, self.port) = try BenchFixture.startLoad(["--signalr", "\(storedByteLimit)"])
    }

    func end() { self.process.end() }

    /// Returns a client that is connected over a WebSocket, after a negotiation.
    func client(_ stateful: HubStatefulReconnect?) async throws(ToolFailure) -> HubClient {
        try await BenchFixture.hubClient("http://127.0.0.1:\(self.port)\(BenchHub.path)", .json) {
            $0.skipsNegotiation = false
            $0.statefulReconnect = stateful
        }
    }
}
