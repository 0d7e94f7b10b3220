import PrimusWire
import RealtimeCoding
import RealtimeCore

/// A session of SockJS over HTTP, seen from the server, with the status codes and header fields of sockjs-node.
///
/// Source: `transport.js`, `trans-xhr.js` and `trans-eventsource.js` of sockjs-node 0.3.24, and the protocol description of SockJS 0.3.3.
struct SockJSServedRules: ServedHTTPMessagesRules {
    let orphanTimeout: Duration
    /// The original has no other limit than that for clients that don't ask for messages.
    var closeTimeout: Duration { max(.seconds(5), self.orphanTimeout) }
    var pollTimeout: Duration? { nil }
    let streamLimit: Int?
    private let messageLimit: Int
    var endsWithLostRequest: Bool { true }
    /// How the request that waits for messages is answered.
    private var transport = SockJSTransport.xhr
    /// Receives the frame that ends the session, under its lock.
    private let onClose: @Sendable (SockJSFrame) -> Void

    private let encodings: SessionEncodings

    init(
        _ configuration: PrimusServerConfiguration, _ encodings: SessionEncodings = SessionEncodings(),
        onClose: @escaping @Sendable (SockJSFrame) -> Void
    ) {
        self.encodings = encodings
        self.onClose = onClose
        self.orphanTimeout = max(.milliseconds(1), configuration.sockJSDisconnectDelay)
        self.streamLimit = max(1, configuration.sockJSResponseLimit)
        self.messageLimit = configuration.messageLimit
    }

    // MARK: Requests that wait for messages

    /// The transport of a request: the last component of its path.
    static func transport(of request: HTTPRequestHead) -> SockJSTransport? {
        request.path.split(separator: "/").last.flatMap { SockJSTransport(rawValue: String($0)) }
    }

    mutating func waiting(_ request: HTTPRequestHead) -> HTTPWaitingAnswer {
        self.transport = Self.transport(of: request) ?? .xhr
        switch self.transport {
        case .xhrStreaming: return .stream(Self.head, first: Self.prelude)
        case .eventSource: return .stream(Self.eventHead, first: Self.eventPrelude)
        case .xhr, .xhrSend, .websocket: return .poll
        }
    }

    func waitingTwice(_ request: HTTPRequestHead) -> HTTPSecondRequest {
        .isRefused(Self.answer(to: request, SockJSCloseCode.anotherConnection.frame))
    }

    /// The answer with one frame to a request that would wait for messages.
    static func answer(to request: HTTPRequestHead, _ frame: SockJSFrame) -> HTTPResponse {
        switch Self.transport(of: request) {
        case .eventSource?: HTTPResponse(Self.eventHead, body: Self.eventPrelude + Self.event(frame.bytes))
        case .xhrStreaming?: HTTPResponse(Self.head, body: Self.prelude + frame.bytes + [Self.lineFeed])
        default: HTTPResponse(Self.head, body: frame.bytes + [Self.lineFeed])
        }
    }

    private static let prelude = [UInt8](repeating: UInt8(ascii: "h"), count: 2048) + [Self.lineFeed]
    private static let eventPrelude = Array("\r\n".utf8)

    func encode(_ messages: ArraySlice<TransportMessage>, into body: inout SharedBody) -> Int {
        guard let first = messages.first else { return 0 }
        var frame = first.kind == .ping ? SockJSFrame.heartbeat.bytes : first.bytes
        var count = 1
        // Packets that wait travel in one frame, without a large one, of which this would be a copy.
        if Self.isArray(first), !SharedBody.isLarge(frame) {
            for message in messages.dropFirst() {
                guard Self.isArray(message), !SharedBody.isLarge(message.bytes) else { break }
                frame.removeLast()
                frame.append(UInt8(ascii: ","))
                frame += message.bytes.dropFirst(2)
                count += 1
            }
        }
        if self.transport == .eventSource {
            body.append(Self.eventStart)
            // A frame of several packets is that of one client.
            body.append(message: count == 1 ? self.encodings.escapedFrames.encode(frame, Self.escaped) : Self.escaped(frame))
            body.append(Self.eventEnd)
        } else {
            body.append(message: frame)
            body.append(Self.lineFeed)
        }
        return count
    }

    private static func isArray(_ message: TransportMessage) -> Bool {
        message.kind == .text && message.bytes.first == UInt8(ascii: "a")
    }

    func head(of body: SharedBody) -> HTTPResponseHead { Self.head }

    /// The frame with the code precedes this answer.
    func ending(_ code: CloseCode, reason: String) -> HTTPResponse {
        let frame = SockJSFrame.close(code: Int(code.rawValue), reason: reason)
        self.onClose(frame)
        let bytes = self.transport == .eventSource ? Self.event(frame.bytes) : frame.bytes + [Self.lineFeed]
        return HTTPResponse(Self.head, body: bytes)
    }

    // MARK: Requests that bring messages

    func received(
        _ body: [UInt8], _ request: HTTPRequestHead, into batch: inout MessageBatch
    ) throws(TransportError) -> (answer: HTTPResponse, end: CloseReason?) {
        guard Self.hasPayload(body, request) else { return (Self.noPayload, nil) }
        // No JSON begins so.
        if let first = body.first, first >= 0x80 { return (Self.brokenJSON, nil) }
        // As the original, which reads bytes that aren't text as U+FFFD.
        let body = body.contains { $0 >= 0x80 } ? Self.repaired(body) : body
        if let refusal = Self.refusal(of: body) { return (refusal, nil) }
        // A body contains several messages, each of which has the limit.
        if body.count > self.messageLimit {
            let longest = body.withUnsafeBytes { SockJSMessages.longest($0) }
            guard longest <= self.messageLimit else {
                throw TransportError(.tooLarge, "The client sent a message of \(longest) bytes. The limit is \(self.messageLimit).")
            }
        }
        batch.append(.text, body)
        return (Self.taken, nil)
    }

    private static func repaired(_ body: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(body.count)
        body.withUnsafeBytes { text.append(repairing: $0) }
        return text
    }

    /// The answer to messages.
    static let taken = HTTPResponse(
        status: 204, headers: ["Content-Type": "text/plain; charset=UTF-8"])

    private static let brokenJSON = HTTPResponse(status: 500, text: "Broken JSON encoding.")

    private static let noPayload = HTTPResponse(status: 500, text: "Payload expected.")

    private static func hasPayload(_ body: [UInt8], _ request: HTTPRequestHead) -> Bool {
        let type = (request.headers["Content-Type"] ?? "").prefix { $0 != ";" }
        let types = ["", "T", "text/plain", "application/json", "application/xml", "text/xml"]
        return types.contains(String(type)) && !body.isEmpty
    }

    /// Why the body of a request can't be read; `nil` if it can.
    private static func refusal(of body: [UInt8]) -> HTTPResponse? {
        guard (try? body.withUnsafeBytes { try JSONText.validate($0) }) != nil else {
            return Self.brokenJSON
        }
        // Other bytes up to 0x20 aren't JSON.
        return body.first { $0 > 0x20 } == UInt8(ascii: "[") ? nil : Self.noPayload
    }

    func rejection(_ error: TransportError?) -> HTTPResponse {
        error?.code == .tooLarge ? HTTPResponse(status: 413) : Self.notFound
    }

    // MARK: Responses

    static let notFound = HTTPResponse(
        status: 404, headers: ["Content-Type": "text/plain; charset=UTF-8"], text: "404 Error: Page not found\n")

    private static let lineFeed = UInt8(ascii: "\n")

    /// The last field tells nginx to pass on each frame immediately.
    private static let head = HTTPResponseHead(
        status: 200,
        headers: ["Content-Type": "application/javascript; charset=UTF-8", "X-Accel-Buffering": "no"])
    private static let eventHead = HTTPResponseHead(
        status: 200, headers: ["Content-Type": "text/event-stream", "X-Accel-Buffering": "no"])

    /// A frame as an event of Server-Sent Events.
    private static func event(_ frame: [UInt8]) -> [UInt8] { Self.eventStart + Self.escaped(frame) + Self.eventEnd }

    private static let eventStart = Array("data: ".utf8)
    private static let eventEnd = Array("\r\n\r\n".utf8)

    /// Clients read the data of an event with `decodeURI`. A frame of JSON contains no line ends, but one of a test may.
    ///
    /// Source: `escape_selected` in `utils.js` of sockjs-node 0.3.24.
    private static func escaped(_ frame: [UInt8]) -> [UInt8] {
        var (text, start) = ([UInt8](), 0)
        for (index, byte) in frame.enumerated() {
            guard let escape = self.escape(byte) else { continue }
            if start == 0 { text.reserveCapacity(frame.count + 10) }
            text += frame[start..<index]
            text += escape.utf8
            start = index + 1
        }
        return start == 0 ? frame : text + frame[start...]
    }

    private static func escape(_ byte: UInt8) -> String? {
        switch byte {
        case UInt8(ascii: "%"): "%25"
        case UInt8(ascii: "\r"): "%0D"
        case UInt8(ascii: "\n"): "%0A"
        case 0: "%00"
        default: nil
        }
    }
}
