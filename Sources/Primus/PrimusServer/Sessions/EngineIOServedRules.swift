import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeEncoding

/// A session of engine.io over polling, seen from the server, with the status codes and header fields of engine.io 6.
///
/// Source: `polling.js` of engine.io 6.6, and the protocol descriptions of versions 3 and 4.
struct EngineIOServedRules: ServedHTTPMessagesRules {
    /// A client that doesn't poll doesn't answer pings, which ends the session.
    let orphanTimeout: Duration
    /// `closeTimeout` in `polling.js`.
    var closeTimeout: Duration { .seconds(30) }
    /// The server's pings answer polls.
    var pollTimeout: Duration? { nil }
    var streamLimit: Int? { nil }
    var endsWithLostRequest: Bool { true }

    private let version: EngineIOVersion
    private let messageLimit: Int
    /// Whether the server resembles the engine.io 2 of Primus 6.
    private let isEngineIO2: Bool
    /// The cookie with the ID of the session, in the answer to the first request.
    private var cookie: String?

    private let encodings: SessionEncodings

    init(
        _ version: EngineIOVersion, cookie: String?, _ configuration: PrimusServerConfiguration,
        _ encodings: SessionEncodings = SessionEncodings()
    ) {
        self.encodings = encodings
        self.version = version
        self.cookie = cookie
        self.orphanTimeout = max(.milliseconds(1), configuration.enginePingInterval + configuration.enginePingTimeout)
        self.messageLimit = configuration.messageLimit
        self.isEngineIO2 = configuration.version == .v6
    }

    // MARK: Requests that wait for packets

    func waiting(_ request: HTTPRequestHead) -> HTTPWaitingAnswer { .poll }

    func waitingTwice(_ request: HTTPRequestHead) -> HTTPSecondRequest {
        .ends(
            HTTPResponse(status: self.isEngineIO2 ? 500 : 400),
            TransportError(.protocolViolation, "The client polled twice at the same time."))
    }

    func encode(_ messages: ArraySlice<TransportMessage>, into body: inout SharedBody) -> Int {
        // A client of version 3 that doesn't accept bytes has none among its messages. Source: `encodePayload` of engine.io-parser 2.2.
        let isBinary = messages.contains { $0.kind == .binary }
        if isBinary, self.version == .v3 { return EngineIOPayload.encode(messages, .bytes, into: &body) }
        let packets = isBinary ? messages.map { self.encodings.text($0) }[...] : messages
        return EngineIOPayload.encode(packets, EngineIOPayloadFormat(self.version), into: &body)
    }

    mutating func head(of body: SharedBody) -> HTTPResponseHead {
        var head = Self.head
        if let first = body.first, EngineIOPayload.isBytes(CollectionOfOne(first)) {
            head.headers["Content-Type"] = EngineIOPayloadFormat.octets
        }
        if let cookie = self.cookie.take() { head.headers["Set-Cookie"] = cookie }
        return head
    }

    func ending(_ code: CloseCode, reason: String) -> HTTPResponse { Self.answer(.noop, .close, version: self.version) }

    /// Polls of a client that moves to a WebSocket, or that has ended the session itself, have an answer that means nothing.
    func ended(_ reason: CloseReason?) -> HTTPResponse {
        if case .transport? = reason { Self.answer(.close, version: self.version) } else { Self.answer(.noop, version: self.version) }
    }

    /// The answer to a poll with packets that have no content.
    static func answer(_ kinds: EngineIOPacket.Kind..., version: EngineIOVersion) -> HTTPResponse {
        let packets = kinds.map { EngineIOPacket($0).transportMessage(version) }
        return HTTPResponse(Self.head, body: EngineIOPayload.encode(packets[...], EngineIOPayloadFormat(version)).body)
    }

    private static let head = HTTPResponseHead(
        status: 200, headers: ["Content-Type": "text/plain; charset=UTF-8"])

    // MARK: Requests that bring packets

    mutating func received(
        _ body: [UInt8], _ request: HTTPRequestHead, into batch: inout MessageBatch
    ) throws(TransportError) -> (answer: HTTPResponse, end: CloseReason?) {
        if body.count > self.messageLimit {
            // As the original, which reads nothing of it.
            guard self.isEngineIO2 else { return (HTTPResponse(status: 413), nil) }
            throw TransportError(.tooLarge, "The client sent a body of \(body.count) bytes. The limit is \(self.messageLimit).")
        }
        if self.version == .v4, request.headers["Content-Type"] == EngineIOPayloadFormat.octets {
            throw TransportError(.unsupported, "The client sent bytes that aren't text.")
        }
        guard !body.isEmpty else { throw TransportError(.protocolViolation, "The client sent an empty body.") }
        // The packets are read by ``EngineIOPayloadDivider``. Whatever follows from them, the answer is the same, as that of the original.
        batch.append(.binary, body)
        return (Self.taken, nil)
    }

    private static let taken = HTTPResponse(
        status: 200, headers: ["Content-Type": "text/html"], text: "ok")

    /// The response of a server of engine.io that refuses a request.
    static func refusal(_ refusal: EngineIOError.Refusal) -> HTTPResponse {
        HTTPResponse(
            HTTPResponseHead(
                status: refusal.status, headers: ["Content-Type": "application/json"]),
            body: refusal.json.bytes)
    }

    func rejection(_ error: TransportError?) -> HTTPResponse {
        switch error?.code {
        case .tooLarge?: HTTPResponse(status: 413)
        case .unsupported?: HTTPResponse(status: 400)
        // As the original, for a request without a packet.
        case .protocolViolation?: Self.taken
        default: Self.refusal(.unknownSession)
        }
    }
}

/// Reads the packets in the bodies of a client over polling.
struct EngineIOPayloadDivider: MessageDivider {
    private let version: EngineIOVersion
    private var reader: EngineIOPayloadReader

    /// - Parameter limit: The maximum size of a packet in bytes.
    init(_ version: EngineIOVersion, limit: Int) {
        self.version = version
        self.reader = EngineIOPayloadReader(version, limit: limit)
    }

    func divides(_ kind: TransportMessage.Kind, byteCount: Int) -> Bool { true }

    mutating func appendPart(
        of kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, from position: inout Int, to batch: inout MessageBatch
    ) -> CloseReason? {
        var problem: EngineIOError?
        do throws(EngineIOError) {
            position += try self.reader.read(
                UnsafeRawBufferPointer(rebasing: bytes[position...]), into: &batch, limit: Self.messagesPerTurn)
            if position == bytes.count { try self.reader.finish(into: &batch) }
        } catch {
            problem = error
        }
        if let last = batch.entries.firstIndex(where: { self.isLast($0, batch) }) {
            let isClose = batch.bytes[batch.entries[last].range].first == UInt8(ascii: "1")
            // What follows isn't read.
            batch.entries.removeSubrange(last...)
            if isClose { return .peer(.normal, "") }
            return .transport(TransportError(.protocolViolation, "The client sent a packet that engine.io doesn't have."))
        }
        return problem.map { .transport(TransportError(.protocolViolation, $0.description)) }
    }

    /// Whether a packet ends the session: that of the end, or one that isn't a packet.
    private func isLast(_ entry: MessageBatch.Entry, _ batch: borrowing MessageBatch) -> Bool {
        guard entry.kind == .text else { return false }
        switch batch.bytes[entry.range].first {
        // What follows the type of a packet for the end is ignored. Invalid Base64 has no effect on other packets.
        case UInt8(ascii: "0")?, UInt8(ascii: "2")?, UInt8(ascii: "3")?, UInt8(ascii: "4")?, UInt8(ascii: "5")?, UInt8(ascii: "6")?,
            EngineIOPayload.base64?:
            return false
        case nil: return self.version == .v4
        default: return true
        }
    }
}
