public import RealtimeCore
internal import RealtimeTransports

extension PusherServer {
    /// A server for clients on real sockets: start it on a `SocketListener`.
    public convenience init(app: PusherApp, hooks: PusherServerHooks = PusherServerHooks(), log: LogSink = .standard) {
        self.init(app: app, hooks: hooks, time: Transports.standard.time, log: log)
    }
}
