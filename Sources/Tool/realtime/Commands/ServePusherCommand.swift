internal import CommandLineSupport
internal import PusherServer
internal import RealtimeCore
internal import RealtimeSockets

extension ServePusherCommand: Command {
    func run(_ console: Console) async throws(ToolFailure) {
        let random = PusherApp.random()
        let app = PusherApp(id: self.appID ?? random.id, key: self.key ?? random.key, secret: self.secret ?? random.secret)
        let server = PusherServer(app: app)
        let events = server.events
        let address: ListenerAddress
        do throws(TransportError) {
            address = try await server.start(on: SocketListener(host: self.host, port: self.port))
        } catch {
            throw ToolFailure(error)
        }
        let url = Endpoint(scheme: "ws", host: address.host, port: address.port).origin
        console.say(Self.ready(url: url, port: address.port, app: app.id, key: app.key, secret: app.secret))
        for await event in events {
            if let words = event.words { console.remark(.init(words, .faint)) }
        }
        await server.stop()
    }
}

extension PusherServerEvent {
    /// For a person who looks on; `nil` for what is told by another event already.
    var words: String? {
        switch self {
        case .connected(let socketID): "\(socketID) connected"
        case .disconnected(let socketID, let reason): "\(socketID) is gone: \(reason)"
        case .received: nil
        case .subscribed(let socketID, let channel, let userID): "\(socketID) subscribed to \(channel)\(userID.map { " as \($0)" } ?? "")"
        case .subscriptionRejected(let socketID, let channel, let why): "\(socketID) was refused on \(channel): \(why)"
        case .unsubscribed(let socketID, let channel): "\(socketID) left \(channel)"
        case .clientEvent(let socketID, let channel, let name, _): "\(socketID) sent \(name) to \(channel)"
        case .published(let channel, let name, let subscribers): "\(name) published to \(channel), \(subscribers) subscribers"
        }
    }
}
