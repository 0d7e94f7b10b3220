import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// The messages that the load generator sends, as the words of its command.
enum LoadContent: Hashable, Sendable {
    /// Events on a number of channels, round-robin.
    case events(channels: Int)
    /// Encrypted events on a number of channels, round-robin, with data of a size in bytes.
    case encrypted(channels: Int, size: Int)
    /// Members of a presence channel with a number of members leave and join again. The second number says how many of them, round-robin.
    case members(Int, changing: Int)
    /// Events of a stream over HTTP.
    case stream

    /// Parses the words of a command.
    init?(_ words: some Sequence<Substring>) {
        let words = Array(words)
        let numbers = words.dropFirst().compactMap { Int($0) }
        switch (words.first, numbers.count) {
        case ("events", 1): self = .events(channels: numbers[0])
        case ("encrypted", 2): self = .encrypted(channels: numbers[0], size: numbers[1])
        case ("members", 2): self = .members(numbers[0], changing: numbers[1])
        case ("stream", 0): self = .stream
        default: return nil
        }
    }

    var words: String {
        switch self {
        case .events(let channels): "events \(channels)"
        case .encrypted(let channels, let size): "encrypted \(channels) \(size)"
        case .members(let count, let changing): "members \(count) \(changing)"
        case .stream: "stream"
        }
    }
}

/// The server of the load generator. It runs in a separate process, so that its work is not part of the measurements.
final class LoadServer: Sendable {
    private struct Client: Sendable {
        var connection: LoadConnection
        var stream: SocketStream
    }

    /// The frames of a burst, which are sent repeatedly.
    private struct Pattern: Sendable {
        let bytes: [UInt8]
        /// The size of the frames that are sent together, in bytes.
        let unit: Int
        let messagesPerUnit: Int

        init(_ content: LoadContent) {
            var units: [[UInt8]]
            switch content {
            case .events(let channels): units = (0..<channels).map { LoadMessage.frame(channel: LoadMessage.channel($0)) }
            case .encrypted(let channels, let size):
                units = (0..<channels).map { LoadMessage.encryptedFrame(channel: LoadMessage.encryptedChannel($0), size: size) }
            case .members(let count, let changing):
                let channel = LoadMessage.presenceChannel(members: count)
                units = (0..<changing).map { LoadMessage.memberFrames(channel: channel, $0) }
            case .stream: units = [LoadHTTP.streamEvent]
            }
            self.bytes = LoadServer.repeated(Array(units.joined()))
            self.unit = units[0].count
            if case .members = content { self.messagesPerUnit = 2 } else { self.messagesPerUnit = 1 }
        }
    }

    private struct State: Sendable {
        var lastNumber = 0
        var clients: [Int: Client] = [:]
        /// The newest connection, which receives the next burst.
        var newest: Int?
        var patterns: [LoadContent: Pattern] = [:]
    }

    let replyFrame = LoadMessage.frame(channel: LoadMessage.privateChannel)
    let hubRequests: LoadHubRequests
    let primusRequests: LoadPrimusRequests
    private let loop: EventLoop
    private let state = Lock(State())

    init() throws(TransportError) {
        self.loop = try EventLoop("load")
        self.hubRequests = LoadHubRequests(self.loop)
        self.primusRequests = LoadPrimusRequests(self.loop)
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

    /// Sends messages on the newest connection.
    ///
    /// - Parameters:
    ///   - messages: The number of messages.
    ///   - content: What the messages are.
    func burst(_ messages: Int, _ content: LoadContent) {
        let (client, pattern) = self.state.withLock { state -> (Client?, Pattern) in
            let pattern = state.patterns[content] ?? Pattern(content)
            state.patterns[content] = pattern
            return (state.newest.flatMap { state.clients[$0] }, pattern)
        }
        guard let client else { return }
        let bytes = messages / pattern.messagesPerUnit * pattern.unit
        self.loop.execute { client.connection.send(.init(pattern: pattern.bytes, remaining: bytes), client.stream) }
    }

    /// Returns a pattern of at least one mebibyte, or of fewer bytes if no more are sent.
    static func repeated(_ round: [UInt8], upTo bytes: Int = 1 << 20) -> [UInt8] {
        var pattern = round
        while pattern.count < min(bytes, 1 << 20) { pattern += round }
        return pattern
    }
}
