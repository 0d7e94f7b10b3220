import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// The server of the load generator. It runs in a separate process, so that its work is not part of the measurements.
final class LoadServer: Sendable {
    private struct Client: Sendable {
        var connection: LoadConnection
        var stream: SocketStream
    }

    private struct State: Sendable {
        var lastNumber = 0
        var clients: [Int: Client] = [:]
        /// The newest connection, which receives the next burst.
        var newest: Int?
        var patterns: [Int: [UInt8]] = [:]
    }

    let replyFrame = LoadMessage.frame(channel: LoadMessage.privateChannel)
    private let loop: EventLoop
    private let state = Lock(State())

    init() throws(TransportError) {
        self.loop = try EventLoop("load")
    }

    /// Listens on a free port, and returns its number.
    func start(_ tls: TLSServerConfiguration?) throws(TransportError) -> Int {
        var options = TCPListener.Options()
        options.backlog = 4096
        if let tls {
            let context = try TLSContext.server(tls)
            options.security = { descriptor throws(TransportError) in try TLSSession(server: context, descriptor: descriptor) }
        }
        let listener = try TCPListener(options, loops: [self.loop]) { _ in
            LoadConnection(
                self.state.withLock { state in
                    state.lastNumber += 1
                    return state.lastNumber
                }, self)
        }
        return listener.address.port
    }

    func add(_ number: Int, _ connection: LoadConnection, _ stream: SocketStream) {
        self.state.withLock { state in
            state.clients[number] = Client(connection: connection, stream: stream)
            state.newest = number
        }
    }

    func remove(_ number: Int) {
        self.state.withLock { state in
            state.clients[number] = nil
            if state.newest == number { state.newest = state.clients.keys.max() }
        }
    }

    /// Sends events on the newest connection.
    ///
    /// - Parameters:
    ///   - messages: The number of events.
    ///   - channels: The number of channels, which receive one event each, round-robin.
    func burst(_ messages: Int, channels: Int) {
        let (client, pattern) = self.state.withLock { state -> (Client?, [UInt8]) in
            let pattern = state.patterns[channels] ?? Self.pattern(channels: channels)
            state.patterns[channels] = pattern
            return (state.newest.flatMap { state.clients[$0] }, pattern)
        }
        guard let client else { return }
        let frame = self.replyFrame.count
        self.loop.execute { client.connection.send(pattern, bytes: messages * frame, client.stream) }
    }

    private static func pattern(channels: Int) -> [UInt8] {
        var pattern: [UInt8] = []
        for channel in 0..<channels { pattern += LoadMessage.frame(channel: LoadMessage.channel(channel)) }
        let round = pattern
        while pattern.count < 1 << 20 { pattern += round }
        return pattern
    }
}
