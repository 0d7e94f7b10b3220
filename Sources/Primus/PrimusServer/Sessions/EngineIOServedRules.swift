import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeEncoding

/// A session of engine.io over polling, seen from the server, with the status codes and header fields of engine.io 6.
///
/// Source: `polling.js` of engine.io 6.6, and the protocol descriptions of versions 3 and 4.
struct EngineIOServedRules: HTTPServedConnectionRules {
    /// A client that doesn't poll doesn't answer pings, which ends the session.
    let orphanTimeout: Duration
    /// The server's pings answer polls.
    var pollTimeout: Duration? { nil }
    var streamLimit: Int? { nil }
    var endsWithLostRequest: Bool { true }

    private let version: EngineIOVersion
    private let messageLimit: Int
    private var reader: EngineIOPayloadReader
    /// The cookie with the ID of the session, in the answer to the first request.
    private var cookie: String?

    init(_ version: EngineIOVersion, cookie: String?, _ configuration: PrimusServerConfiguration) {
        self.version = version
        self.cookie = cookie
        self.orphanTimeout = max(.milliseconds(1), configuration.enginePingInterval + configuration.enginePingTimeout)
        self.messageLimit = configuration.messageLimit
        self.reader = EngineIOPayloadReader(version, limit: configuration.messageLimit)
    }

    // MARK: Requests that wait for packets

    func waiting(_ request: HTTPRequestHead) -> HTTPWaitingAnswer { .poll }

    func waitingTwice(_ request: HTTPRequestHead) -> HTTPSecondRequest {
        .ends(HTTPResponse(status: 400), TransportError(.protocolViolation, "The client polled twice at the same time."))
    }

    func encode(_ messages: ArraySlice<WebSocketMessage>, into body: inout [UInt8]) -> Int {
        let encoded = EngineIOPayload.encode(messages, self.version)
        body = encoded.body
        return encoded.count
    }

    mutating func answer(_ body: [UInt8]) -> HTTPResponse {
        var response = HTTPResponse(Self.head, body: body)
        if let cookie = self.cookie.take() { response.head.headers["Set-Cookie"] = cookie }
        return response
    }

    func ending(_ code: CloseCode, reason: String) -> HTTPResponse { Self.answer(.close, self.version) }

    /// Polls of a client that moves to a WebSocket, or that has ended the session itself, have an answer that means nothing.
    func ended(_ reason: CloseReason?) -> HTTPResponse { Self.answer(.noop, self.version) }

    /// The answer to a poll with a packet that has no content.
    static func answer(_ kind: EngineIOPacket.Kind, _ version: EngineIOVersion) -> HTTPResponse {
        let body = EngineIOPayload.encode([EngineIOPacket(kind).webSocketMessage(version)], version).body
        return HTTPResponse(Self.head, body: body)
    }

    private static let head = HTTPResponseHead(status: 200, headers: ["Content-Type": "text/plain; charset=UTF-8"])

    // MARK: Requests that bring packets

    mutating func received(
        _ body: [UInt8], _ request: HTTPRequestHead, into batch: inout MessageBatch
    ) throws(TransportError) -> (answer: HTTPResponse, end: CloseReason?) {
        guard body.count <= self.messageLimit else {
            throw TransportError(.tooLarge, "The client sent a body of \(body.count) bytes. The limit is \(self.messageLimit).")
        }
        do throws(EngineIOError) {
            try body.withUnsafeBufferPointer { bytes throws(EngineIOError) in
                try self.reader.read(UnsafeRawBufferPointer(bytes), into: &batch)
            }
            try self.reader.finish(into: &batch)
        } catch {
            throw TransportError(.protocolViolation, error.description)
        }
        let isClosed = batch.entries.contains { $0.kind == .text && batch.bytes[$0.range].elementsEqual([UInt8(ascii: "1")]) }
        let answer = HTTPResponse(status: 200, headers: ["Content-Type": "text/html"], text: "ok")
        return (answer, isClosed ? .peer(.normal, "") : nil)
    }

    /// The response of a server of engine.io that refuses a request.
    static func refusal(_ refusal: EngineIOError.Refusal) -> HTTPResponse {
        HTTPResponse(HTTPResponseHead(status: refusal.status, headers: ["Content-Type": "application/json"]), body: refusal.json.bytes)
    }

    func rejection(_ error: TransportError?) -> HTTPResponse {
        switch error?.code {
        case .tooLarge?: HTTPResponse(status: 413)
        // As the original, which has taken the packets before the invalid one.
        case .protocolViolation?: HTTPResponse(status: 200, headers: ["Content-Type": "text/html"], text: "ok")
        default: Self.refusal(.unknownSession)
        }
    }
}
