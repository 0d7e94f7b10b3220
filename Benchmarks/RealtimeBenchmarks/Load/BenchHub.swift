import SignalRServer

/// The hub of the embedded server that `realtime bench-load --signalr` runs.
enum BenchHub {
    /// Also the path of a hub of the server of ASP.NET Core.
    static let path = "/test"
    /// Calls a method of all clients with an argument, also on ASP.NET Core.
    static let broadcast = "Broadcast"
    /// Ends the caller's WebSocket without a close frame, and returns.
    static let cut = "Cut"

    /// Returns a server with the hub, which also has some methods of ``LoadHub``.
    ///
    /// - Parameter storedByteLimit: How many bytes it stores for a client with stateful reconnect.
    static func server(storedByteLimit: Int) -> SignalRServer {
        var configuration = SignalRServerConfiguration()
        configuration.allowsStatefulReconnects = true
        configuration.statefulReconnectBufferBytes = storedByteLimit
        let server = SignalRServer(configuration: configuration, log: .none)
        let hub = server.hub(self.path)
        hub.on(self.broadcast) { (caller, method: String, text: String) in try await caller.clients.all.send(method, text) }
        hub.on(self.cut) { [weak server] caller in server?.drop(caller.connectionID) }
        hub.on(LoadHub.Method.echo) { (_, text: String) in text }
        hub.on(LoadHub.Method.hold) { (_, _: String) in }
        hub.on(LoadHub.Method.burst) { (caller, count: Int, _: Int) in
            for _ in 0..<count {
                try await caller.clients.caller.send(
                    LoadHub.Method.price, "ACME", 1234.56, 98765, true, 1_712_345_678_901, LoadHub.note)
            }
        }
        return server
    }
}
