import SignalRClient
import SignalRTesting

extension InMemorySignalR {
    /// A builder for connections to a hub on the in-memory network, which log only errors.
    func connectionBuilder(_ path: String) -> HubConnectionBuilder {
        HubConnectionBuilder().withUrl(url: self.url(path)).withTransports(self.network.transports()).withLogLevel(logLevel: .error)
    }
}
