internal import CommandLineSupport
internal import RealtimeSystem
internal import RealtimeCore
internal import RealtimeSockets

/// The other side of a benchmark, in a process of its own so that its work counts for nobody.
final class LoadServer: Sendable {
    private struct Member: Sendable {
        var connection: LoadConnection
        var stream: SocketStream
    }

    private struct State: Sendable {
        var lastNumber = 0
        var members: [Int: Member] = [:]
        /// Who gets the next burst: the last one that came and is still there.
        var latest: Int?
        var patterns: [Int: [UInt8]] = [:]
    }

    let answerFrame = LoadMessage.frame(channel: LoadMessage.privateChannel)
    private let loop: EventLoop
    private let state = Lock(State())

    init() throws(TransportError) {
        self.loop = try EventLoop("load")
    }

    /// Listens on a free port, and returns it.
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

    func greeted(_ number: Int, _ connection: LoadConnection, _ stream: SocketStream) {
        self.state.withLock { state in
            state.members[number] = Member(connection: connection, stream: stream)
            state.latest = number
        }
    }

    func lost(_ number: Int) {
        self.state.withLock { state in
            state.members[number] = nil
            if state.latest == number { state.latest = state.members.keys.max() }
        }
    }

    /// Sends so many events to the latest connection, in turn over so many channels.
    func burst(_ messages: Int, channels: Int) {
        let (member, pattern) = self.state.withLock { state -> (Member?, [UInt8]) in
            let pattern = state.patterns[channels] ?? Self.pattern(channels: channels)
            state.patterns[channels] = pattern
            return (state.latest.flatMap { state.members[$0] }, pattern)
        }
        guard let member else { return }
        let frame = self.answerFrame.count
        self.loop.execute { member.connection.send(pattern, bytes: messages * frame, member.stream) }
    }

    private static func pattern(channels: Int) -> [UInt8] {
        var pattern: [UInt8] = []
        for channel in 0..<channels { pattern += LoadMessage.frame(channel: LoadMessage.channel(channel)) }
        let round = pattern
        while pattern.count < 1 << 20 { pattern += round }
        return pattern
    }
}
