import PrimusWire
import RealtimeCoding
import RealtimeCore

/// A session of SockJS over HTTP, seen from the server, with the status codes and header fields of sockjs-node.
///
/// Source: `transport.js`, `trans-xhr.js` and `trans-eventsource.js` of sockjs-node 0.3.24, and the protocol description of SockJS 0.3.3.
struct SockJSServedRules: HTTPServedConnectionRules {
    let orphanTimeout: Duration
    var pollTimeout: Duration? { nil }
    let streamLimit: Int?
    /// How the request that waits for messages is answered.
    private var transport = SockJSTransport.xhr

    init(_ configuration: PrimusServerConfiguration) {
        self.orphanTimeout = max(.milliseconds(1), configuration.sockJSDisconnectDelay)
        self.streamLimit = max(1, configuration.sockJSResponseLimit)
    }

    // MARK: Requests that wait for messages

    /// The transport of a request: the last component of its path.
    static func transport(of request: HTTPRequestHead) -> SockJSTransport? {
        request.path.split(separator: "/").last.flatMap { SockJSTransport(rawValue: String($0)) }
    }

    mutating func waiting(_ request: HTTPRequestHead) -> HTTPWaitingAnswer {
        self.transport = Self.transport(of: request) ?? .xhr
        switch self.transport {
        case .xhrStreaming: return .stream(Self.head, first: [UInt8](repeating: UInt8(ascii: "h"), count: 2048) + [Self.lineFeed])
        case .eventSource: return .stream(Self.eventHead, first: Array("\r\n".utf8))
        case .xhr, .xhrSend, .websocket: return .poll
        }
    }

    func waitingTwice(_ request: HTTPRequestHead) -> HTTPSecondRequest {
        let frame = SockJSCloseCode.anotherConnection.frame.bytes
        switch Self.transport(of: request) {
        case .eventSource?: return .isRefused(HTTPResponse(Self.eventHead, body: Self.event(frame)))
        default: return .isRefused(HTTPResponse(Self.head, body: frame + [Self.lineFeed]))
        }
    }

    func encode(_ messages: ArraySlice<WebSocketMessage>, into body: inout [UInt8]) -> Int {
        guard let first = messages.first else { return 0 }
        var frame = first.kind == .ping ? SockJSFrame.heartbeat.bytes : first.bytes
        var count = 1
        // Packets that wait travel in one frame.
        if frame.first == UInt8(ascii: "a") {
            for message in messages.dropFirst() {
                guard message.kind == .text, message.bytes.first == UInt8(ascii: "a") else { break }
                frame.removeLast()
                frame.append(UInt8(ascii: ","))
                frame += message.bytes.dropFirst(2)
                count += 1
            }
        }
        if self.transport == .eventSource { body += Self.event(frame) } else { body += frame + [Self.lineFeed] }
        return count
    }

    func answer(_ body: [UInt8]) -> HTTPResponse { HTTPResponse(Self.head, body: body) }

    /// The frame with the code precedes this answer.
    func ending(_ code: CloseCode, reason: String) -> HTTPResponse {
        var body: [UInt8] = []
        let frame = SockJSFrame.close(code: Int(code.rawValue), reason: reason)
        _ = self.encode([WebSocketMessage(.text, frame.bytes)], into: &body)
        return HTTPResponse(Self.head, body: body)
    }

    // MARK: Requests that bring messages

    func received(
        _ body: [UInt8], _ request: HTTPRequestHead, into batch: inout MessageBatch
    ) throws(TransportError) -> (answer: HTTPResponse, end: CloseReason?) {
        batch.append(.text, body)
        return (HTTPResponse(status: 204, headers: ["Content-Type": "text/plain; charset=UTF-8"]), nil)
    }

    /// Why the body of a request can't be read; `nil` if it can.
    static func refusal(of body: [UInt8], _ request: HTTPRequestHead) -> HTTPResponse? {
        let type = (request.headers["Content-Type"] ?? "").prefix { $0 != ";" }
        let types = ["", "T", "text/plain", "application/json", "application/xml", "text/xml"]
        guard types.contains(String(type)), !body.isEmpty else { return self.text(500, "Payload expected.") }
        guard let json = try? JSONValue(parsing: body) else { return self.text(500, "Broken JSON encoding.") }
        return json.array == nil ? self.text(500, "Payload expected.") : nil
    }

    func rejection(_ error: TransportError?) -> HTTPResponse { Self.text(404, "") }

    // MARK: Responses

    private static let lineFeed = UInt8(ascii: "\n")
    private static let uncached = "no-store, no-cache, no-transform, must-revalidate, max-age=0"

    /// The last field tells nginx to pass on each frame immediately.
    private static let head = HTTPResponseHead(
        status: 200,
        headers: ["Content-Type": "application/javascript; charset=UTF-8", "Cache-Control": Self.uncached, "X-Accel-Buffering": "no"])
    private static let eventHead = HTTPResponseHead(
        status: 200, headers: ["Content-Type": "text/event-stream", "Cache-Control": Self.uncached, "X-Accel-Buffering": "no"])

    /// A frame as an event of Server-Sent Events. A frame of JSON contains no line ends.
    private static func event(_ frame: [UInt8]) -> [UInt8] { Array("data: ".utf8) + frame + Array("\r\n\r\n".utf8) }

    private static func text(_ status: Int, _ text: String) -> HTTPResponse {
        HTTPResponse(status: status, headers: ["Content-Type": "text/plain; charset=UTF-8"], text: text)
    }
}
