import RealtimeCore
import SignalRWire

/// The messages of a connection over Server-Sent Events or long polling, with the status codes and header fields of ASP.NET Core.
///
/// Source: TransportProtocols.md of ASP.NET Core, and recordings of its server in Tests/Vectors/signalr.
struct HubHTTPRules: ServedHTTPMessagesRules {
    let orphanTimeout: Duration
    let pollTimeout: Duration?
    /// A stream has no end.
    var streamLimit: Int? { nil }
    private let isStream: Bool
    private let bodyLimit: Int
    private var hasPolled = false

    init(_ transport: HubTransport, _ configuration: SignalRServerConfiguration) {
        self.isStream = transport == .serverSentEvents
        self.orphanTimeout = self.isStream ? .zero : max(.milliseconds(1), configuration.disconnectTimeout)
        self.pollTimeout = max(.milliseconds(1), configuration.pollTimeout)
        self.bodyLimit = configuration.containerLimit
    }

    // MARK: Requests that wait for messages

    mutating func waiting(_ request: HTTPRequestHead) -> HTTPWaitingAnswer {
        if self.isStream { return .stream(Self.streamHead, first: Self.comment) }
        // The first answer tells the client that the connection is open.
        defer { self.hasPolled = true }
        return self.hasPolled ? .poll : .respond(Self.answer(200, "application/octet-stream"))
    }

    func waitingTwice(_ request: HTTPRequestHead) -> HTTPSecondRequest {
        self.isStream ? .isRefused(SignalRServerHandler.response(409, HubRefusal.inUse.text)) : .replaces
    }

    func encode(_ messages: ArraySlice<TransportMessage>, into body: inout SharedBody) -> Int {
        if self.isStream {
            Self.append(event: messages, to: &body)
        } else {
            for message in messages { body.append(message: message.bytes) }
        }
        return messages.count
    }

    /// Appends messages as one event, whose data a client joins with those of other events.
    private static func append(event messages: ArraySlice<TransportMessage>, to body: inout SharedBody) {
        body.append(Self.field)
        for message in messages {
            // JSON contains no line ends. A text of a test can.
            var start = 0
            while let end = message.bytes[start...].firstIndex(where: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
                body.append(Array(message.bytes[start..<end]) + Self.lineEnd + Self.field)
                start = message.bytes[end...].starts(with: Self.lineEnd) ? end + 2 : end + 1
            }
            if start == 0 { body.append(message: message.bytes) } else { body.append(Array(message.bytes[start...])) }
        }
        body.append(Self.lineEnd + Self.lineEnd)
    }

    private static let field = Array("data: ".utf8)
    private static let lineEnd = Array("\r\n".utf8)
    /// The beginning of a stream, which proxies pass on, so that the client learns that the connection is open.
    private static let comment = Array(":\r\n".utf8)

    func head(of body: SharedBody) -> HTTPResponseHead {
        Self.answer(200, body.isEmpty ? "text/plain" : "application/octet-stream").head
    }

    func replaced() -> HTTPResponse { Self.over }

    func ending(_ code: CloseCode, reason: String) -> HTTPResponse { self.isStream ? HTTPResponse(status: 200) : Self.over }

    func ended(_ reason: CloseReason?) -> HTTPResponse {
        if case .peer = reason { Self.over } else { Self.uncached(self.rejection(nil)) }
    }

    /// The answer to a poll after which the client sends no further one.
    private static let over = HubHTTPRules.answer(204, "text/plain")

    // MARK: Requests that bring messages

    func received(
        _ body: [UInt8], _ request: HTTPRequestHead, into batch: inout MessageBatch
    ) throws(TransportError) -> (answer: HTTPResponse, end: CloseReason?) {
        if request.method == "DELETE" { return (Self.accepted, .peer(.normal, "")) }
        guard body.count <= self.bodyLimit else {
            throw TransportError(.tooLarge, "The client sent a request of \(body.count) bytes. The limit is \(self.bodyLimit).")
        }
        if !body.isEmpty { batch.append(.binary, body) }
        return (Self.taken, nil)
    }

    /// The answer to a request whose messages were taken.
    static let taken = HTTPResponse(status: 200, headers: ["Content-Type": "text/plain"])
    private static let accepted = HTTPResponse(status: 202, headers: ["Content-Type": "text/plain"])

    func rejection(_ error: TransportError?) -> HTTPResponse {
        if error?.code == .tooLarge { return SignalRServerHandler.response(413, "The request is too large.") }
        return SignalRServerHandler.response(HubRefusal.unknownToken.status, HubRefusal.unknownToken.text)
    }

    // MARK: Header fields

    /// An answer without a body.
    private static func answer(_ status: Int, _ type: String) -> HTTPResponse {
        self.uncached(HTTPResponse(HTTPResponseHead(status: status, headers: ["Content-Type": type])))
    }

    /// Adds the header fields of every answer to a poll, so that no intermediary answers one in place of the server.
    static func uncached(_ response: HTTPResponse) -> HTTPResponse {
        var response = response
        response.head.headers.add("Cache-Control", "no-cache, no-store")
        response.head.headers.add("Expires", "Thu, 01 Jan 1970 00:00:00 GMT")
        response.head.headers.add("Pragma", "no-cache")
        return response
    }

    /// The encoding prevents a compression, and the last field tells nginx to pass on each event immediately.
    private static let streamHead = HTTPResponseHead(
        status: 200,
        headers: [
            "Content-Type": "text/event-stream", "Cache-Control": "no-cache,no-store", "Content-Encoding": "identity",
            "Pragma": "no-cache", "X-Accel-Buffering": "no",
        ])
}
