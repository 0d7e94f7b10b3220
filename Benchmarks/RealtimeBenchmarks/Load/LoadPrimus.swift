import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeSystem

/// The server of Primus of the load generator on one connection, for the messages of the benchmarks.
struct LoadPrimus: Sendable {
    /// The names of the events that the server answers.
    enum Event {
        /// Acknowledged with its arguments.
        static let echo = "echo"
    }

    private static let path = "/primus-"
    private static let codings: [PrimusCoding] = [.json, .ejson, .messagePack, .binary]

    /// The handshake of engine.io. The client doesn't expect pings during a benchmark.
    static func handshake(sid: String) -> EngineIOHandshake {
        EngineIOHandshake(
            sid: sid, upgrades: [EngineIOTransport.websocket.rawValue], pingInterval: 600_000, pingTimeout: 600_000, maxPayload: 1_000_000)
    }

    let framing: PrimusFraming
    private let coding: PrimusCoding
    /// The ID of the session that moves to a WebSocket of engine.io; `nil` for a session that begins with it.
    var movedSession: String?

    /// Creates the server for the target of a WebSocket or of a request, or returns `nil` if the target isn't one of Primus.
    init?(target: String) {
        guard let coding = Self.codings.first(where: { target.hasPrefix(Self.path(of: $0)) }) else { return nil }
        self.coding = coding
        if target.containsText("EIO=4") {
            self.framing = .engineIO(.v4, .server)
        } else {
            self.framing = target.hasSuffix("/websocket") || target.containsText("/xhr") ? .sockJS(.server) : .plain
        }
        self.movedSession = Self.item("sid", of: target)
    }

    /// Returns an item of a target's query.
    static func item(_ name: String, of target: String) -> String? {
        let query = target.split(separator: "?", maxSplits: 1).dropFirst().first
        return query?.split(separator: "&").first { $0.hasPrefix("\(name)=") }.map { String($0.dropFirst(name.utf8.count + 1)) }
    }

    /// Returns the path at which the server uses an encoding.
    static func path(of coding: PrimusCoding) -> String { "\(self.path)\(coding.kind)" }

    /// Whether a path is that of the raw WebSocket of SockJS, which is refused, so that clients use frames.
    static func isRawSockJS(_ path: Substring) -> Bool {
        self.codings.contains { path == "\(self.path(of: $0))/websocket" }
    }

    /// Whether a target asks for another version of engine.io than the fourth, which is refused, as the server of engine.io 4 does.
    static func refusesVersion(of target: String) -> Bool {
        target.hasPrefix(self.path) && self.item("EIO", of: target).map { $0 != "4" } ?? false
    }

    static let refusedVersion = Self.refusal(.unsupportedVersion)
    static let unknownSession = Self.refusal(.unknownSession)

    /// Returns the response of the server of engine.io to a request that it refuses.
    private static func refusal(_ refusal: EngineIOError.Refusal) -> [UInt8] {
        let body = Array(#"{"code":\#(refusal.rawValue),"message":"\#(refusal.message)"}"#.utf8)
        return LoadHTTP.response(body, type: "application/json", "Connection: close\r\n", status: "400 Bad Request")
    }

    /// The body of the response for a path of SockJS; `nil` for other paths.
    static func information(_ path: Substring) -> [UInt8]? {
        path.hasPrefix(self.path) && path.hasSuffix("/info") ? SockJSInfo().json.bytes : nil
    }

    /// The message that opens the session, as a frame; empty where none does.
    var opening: [UInt8] {
        guard self.movedSession == nil else { return [] }
        return self.framing.opening(Self.handshake(sid: "bench")).map { LoadHub.frame($0, mask: nil) } ?? []
    }

    // MARK: Messages

    /// The message that asks for messages.
    static func burst(_ messages: Int) -> PrimusValue { ["burst": .int(Int64(messages))] }

    /// The message that asks for the number of requests of the session; see ``requests``.
    static let askForRequests: PrimusValue = ["ask": "requests"]
    /// The member of the answer to ``askForRequests``.
    static let requests = "requests"

    /// Returns a message with the size of an event of Pusher, or, where the encoding has no value of this size, one byte less.
    static func price(_ coding: PrimusCoding) -> TransportMessage? {
        var largest: TransportMessage?
        for count in 0..<LoadMessage.size {
            let value: PrimusValue = [
                "symbol": "ACME", "price": 1234.56, "volume": 98765, "side": "buy", "time": 1_712_345_678_901,
                "venue": .string(String(repeating: "X", count: count)),
            ]
            guard let message = try? coding.message(value), message.bytes.count <= LoadMessage.size else { break }
            largest = message
        }
        return largest
    }

    /// Handles a WebSocket message, and appends the replies as they are sent.
    ///
    /// - Returns: The messages that the client asks for.
    func receive(_ message: TransportMessage, _ output: inout [UInt8]) -> LoadConnection.Burst? {
        let (replies, count) = self.receive(message)
        for reply in replies { output += LoadHub.frame(reply, mask: nil) }
        guard count > 0, let price = self.price else { return nil }
        let frame = LoadHub.frame(price, mask: nil)
        let bytes = count * frame.count
        return LoadConnection.Burst(pattern: LoadServer.repeated(frame, upTo: bytes), remaining: bytes)
    }

    /// A message of a burst, as it is sent.
    var price: TransportMessage? { Self.prices[self.coding.kind].flatMap { self.framing.messages([$0]).first } }

    /// The messages of bursts, by the kinds of the encodings. Only the time of the client is measured, but an idle client needs more of it.
    private static let prices = Dictionary(
        uniqueKeysWithValues: Self.codings.compactMap { coding in Self.price(coding).map { (coding.kind, $0) } })

    /// Handles a message as a WebSocket carries it.
    ///
    /// - Parameters:
    ///   - message: The message.
    ///   - requests: The number of requests of the session.
    /// - Returns: The replies as they are sent, and the number of messages that the client asks for.
    func receive(_ message: TransportMessage, requests: Int = 0) -> (replies: [TransportMessage], burst: Int) {
        // A client is open when the server has answered.
        if message.kind == .ping { return ([TransportMessage(.pong, message.bytes)], 0) }
        guard [.text, .binary].contains(message.kind) else { return ([], 0) }
        var (replies, packets) = ([TransportMessage](), [TransportMessage]())
        message.bytes.withUnsafeBytes { bytes in
            self.framing.read(message.kind, bytes) { event in
                switch event {
                case .packet(let kind, let bytes): packets.append(TransportMessage(kind, Array(bytes)))
                case .ping(let text): if let pong = self.framing.pong(text) { replies.append(pong) }
                default: break
                }
            }
        }
        var burst = 0
        for packet in packets {
            let read = packet.bytes.withUnsafeBytes { PrimusPluginReader(.emitter, self.coding).read($0, packet.kind) }
            if case .packet(.emitter(.event(_, let arguments, id: let id?))) = read {
                replies += self.acknowledgement(id, arguments)
            } else if let value = try? self.coding.value(of: packet) {
                burst += value["burst"]?.int ?? 0
                guard value == Self.askForRequests else { continue }
                let answer: PrimusValue = [Self.requests: .int(Int64(requests))]
                if let packet = try? self.coding.message(answer) { replies += self.framing.messages([packet]) }
            }
        }
        return (replies, burst)
    }

    private func acknowledgement(_ id: Int64, _ arguments: PrimusArguments) -> [TransportMessage] {
        guard let values = try? PrimusArguments(nil, values: arguments.values(), in: self.coding),
            let packet = try? PrimusPluginWriter(self.coding).message(.emitter(.acknowledgement(id: id, values)))
        else { return [] }
        return self.framing.messages([packet])
    }
}
