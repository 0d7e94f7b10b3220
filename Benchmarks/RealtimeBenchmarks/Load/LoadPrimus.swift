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

    private let framing: PrimusFraming
    private let coding: PrimusCoding

    /// Creates the server for the target of a WebSocket, or returns `nil` if the target isn't one of Primus.
    init?(target: String) {
        guard let coding = Self.codings.first(where: { target.hasPrefix(Self.path(of: $0)) }) else { return nil }
        self.coding = coding
        if target.containsText("EIO=4") {
            self.framing = .engineIO(.v4, .server)
        } else {
            self.framing = target.hasSuffix("/websocket") ? .sockJS(.server) : .plain
        }
    }

    /// Returns the path at which the server uses an encoding.
    static func path(of coding: PrimusCoding) -> String { "\(self.path)\(coding.kind)" }

    /// Whether a path is that of the raw WebSocket of SockJS, which is refused, so that clients use frames.
    static func isRawSockJS(_ path: Substring) -> Bool {
        self.codings.contains { path == "\(self.path(of: $0))/websocket" }
    }

    /// The body of the response for a path of SockJS; `nil` for other paths.
    static func information(_ path: Substring) -> [UInt8]? {
        path.hasPrefix(self.path) && path.hasSuffix("/info") ? SockJSInfo().json.bytes : nil
    }

    /// The message that opens the session, as a frame; empty where none does. The client doesn't expect pings during a benchmark.
    var opening: [UInt8] {
        let handshake = EngineIOHandshake(sid: "bench", pingInterval: 600_000, pingTimeout: 600_000)
        return self.framing.opening(handshake).map { LoadHub.frame($0, mask: nil) } ?? []
    }

    // MARK: Messages

    /// The message that asks for messages.
    static func burst(_ messages: Int) -> PrimusValue { ["burst": .int(Int64(messages))] }

    /// Returns a message with the size of an event of Pusher, or, where the encoding has no value of this size, one byte less.
    static func price(_ coding: PrimusCoding) -> WebSocketMessage? {
        var largest: WebSocketMessage?
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
    func receive(_ message: WebSocketMessage, _ output: inout [UInt8]) -> LoadConnection.Burst? {
        guard [.text, .binary].contains(message.kind) else { return nil }
        var packets: [WebSocketMessage] = []
        message.bytes.withUnsafeBytes { bytes in
            self.framing.read(message.kind, bytes) { event in
                if case .packet(let kind, let bytes) = event { packets.append(WebSocketMessage(kind, Array(bytes))) }
            }
        }
        var burst: LoadConnection.Burst?
        for packet in packets {
            let read = packet.bytes.withUnsafeBytes { PrimusPluginReader(.emitter, self.coding).read($0, packet.kind) }
            if case .packet(.emitter(.event(_, let arguments, id: let id?))) = read {
                output += self.acknowledgement(id, arguments)
            } else if let count = (try? self.coding.value(of: packet))?["burst"]?.int, let price = Self.price(self.coding) {
                let frame = self.frame(price)
                let bytes = count * frame.count
                burst = LoadConnection.Burst(pattern: LoadServer.repeated(frame, upTo: bytes), remaining: bytes)
            }
        }
        return burst
    }

    private func acknowledgement(_ id: Int64, _ arguments: PrimusArguments) -> [UInt8] {
        guard let values = try? PrimusArguments(nil, values: arguments.values(), in: self.coding),
            let packet = try? PrimusPluginWriter(self.coding).message(.emitter(.acknowledgement(id: id, values)))
        else { return [] }
        return self.frame(packet)
    }

    private func frame(_ packet: WebSocketMessage) -> [UInt8] {
        self.framing.messages([packet]).flatMap { LoadHub.frame($0, mask: nil) }
    }
}
