package import RealtimeCore
import RealtimeSystem

/// A protocol over HTTP for tests, which carries everything that a WebSocket does: each message is its kind, its length in four bytes, and
/// its bytes. The requests that wait for messages are streams or polls.
package enum FramedHTTP {
    static let pieceLimit = 1 << 20

    static func append(_ kind: UInt8, _ payload: [UInt8], to bytes: inout [UInt8]) {
        bytes.append(kind)
        for shift in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: payload.count >> shift)) }
        bytes += payload
    }

    static func append(_ messages: ArraySlice<TransportMessage>, to bytes: inout [UInt8]) -> Int {
        var count = 0
        for message in messages {
            if count > 0, bytes.count + message.bytes.count > Self.pieceLimit { break }
            Self.append(message.kind.frame, message.bytes, to: &bytes)
            count += 1
        }
        return count
    }

    static func end(_ code: CloseCode, _ reason: String) -> [UInt8] {
        var bytes: [UInt8] = []
        let number = [UInt8(code.rawValue >> 8), UInt8(truncatingIfNeeded: code.rawValue)]
        Self.append(UInt8(ascii: "c"), number + Array(reason.utf8), to: &bytes)
        return bytes
    }

    /// Decodes messages from bytes that are cut anywhere.
    struct Decoder: Sendable {
        var limit = 32 << 20
        private var rest: [UInt8] = []
        /// The reason of a frame that ends the connection.
        private(set) var end: CloseReason?

        mutating func decode(_ bytes: some Sequence<UInt8>, into batch: inout MessageBatch) throws(TransportError) {
            self.rest += bytes
            var start = 0
            while self.rest.count - start >= 5, self.end == nil {
                let count = self.rest[start + 1..<start + 5].reduce(0) { $0 << 8 | Int($1) }
                guard count <= self.limit else { throw TransportError(.tooLarge, "A message of \(count) bytes exceeds the limit.") }
                guard self.rest.count - start >= 5 + count else { break }
                let payload = self.rest[start + 5..<start + 5 + count]
                switch self.rest[start] {
                case UInt8(ascii: "t"): batch.append(.text, payload)
                case UInt8(ascii: "b"): batch.append(.binary, payload)
                case UInt8(ascii: "c") where count >= 2:
                    let code = payload.prefix(2).reduce(0) { $0 << 8 | UInt16($1) }
                    self.end = .peer(CloseCode(rawValue: code), String(decoding: payload.dropFirst(2), as: UTF8.self))
                default: throw TransportError(.protocolViolation, "The kind \(self.rest[start]) of a message is unknown.")
                }
                start += 5 + count
            }
            self.rest.removeFirst(start)
        }
    }
}

extension TransportMessage.Kind {
    fileprivate var frame: UInt8 { self == .text ? UInt8(ascii: "t") : UInt8(ascii: "b") }
}

/// The client's rules.
package struct FramedHTTPRules: HTTPMessageConnectionRules {
    private let request: WebSocketRequest
    package let isStream: Bool
    private let token: String
    private var decoder = FramedHTTP.Decoder()
    /// The decoder keeps one message at a time, and limits its size.
    package var bodyLimit: Int? { nil }

    package init(_ request: WebSocketRequest, isStream: Bool) {
        (self.request, self.isStream) = (request, isStream)
        self.token = "\(UInt64.random(in: .min ... .max))"
        self.decoder.limit = request.messageLimit
    }

    private func request(_ method: String, body: [UInt8] = []) -> HTTPRequest {
        var endpoint = self.request.endpoint.http
        endpoint.addQuery("token", self.token)
        endpoint.addQuery("stream", "\(self.isStream)")
        return HTTPRequest(
            method, endpoint, headers: self.request.headers, body: body, connectTimeout: .seconds(600), idleTimeout: .seconds(600))
    }

    package func receivingRequest() -> HTTPRequest { self.request("GET") }

    package func received(_ head: HTTPResponseHead) -> HTTPVerdict { head.status == 200 ? .proceed : .reject }

    package mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError) {
        try self.decoder.decode(bytes, into: &batch)
    }

    package func bodyEnded(into batch: inout MessageBatch) -> HTTPVerdict {
        if let end = self.decoder.end { return .end(end) }
        return self.isStream ? .end(.transport(TransportError(.closed, "The stream ended without a frame that says so."))) : .proceed
    }

    package func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int) {
        var body: [UInt8] = []
        let count = FramedHTTP.append(messages, to: &body)
        return (self.request("POST", body: body), count)
    }

    package func sent(_ response: HTTPResponse) -> HTTPVerdict { .proceed }

    package func closing(_ code: CloseCode, reason: String) -> HTTPClosing {
        .request(self.request("POST", body: FramedHTTP.end(code, reason)))
    }
}

/// The server's rules.
package struct FramedHTTPServedRules: ServedHTTPMessagesRules {
    private let isStream: Bool
    private var hasWaited = false
    private var decoder = FramedHTTP.Decoder()
    package var orphanTimeout: Duration { self.isStream ? .zero : .seconds(10) }
    package var pollTimeout: Duration? { .seconds(90) }
    package var streamLimit: Int? { nil }

    package init(isStream: Bool) {
        self.isStream = isStream
    }

    package mutating func waiting(_ request: HTTPRequestHead) -> HTTPWaitingAnswer {
        if self.isStream { return .stream(HTTPResponseHead(status: 200), first: []) }
        // The first answer opens the client's connection.
        defer { self.hasWaited = true }
        return self.hasWaited ? .poll : .respond(HTTPResponse(status: 200))
    }

    package func waitingTwice(_ request: HTTPRequestHead) -> HTTPSecondRequest { .replaces }

    package func encode(_ messages: ArraySlice<TransportMessage>, into body: inout SharedBody) -> Int {
        var bytes: [UInt8] = []
        defer { body.append(bytes) }
        return FramedHTTP.append(messages, to: &bytes)
    }

    package func head(of body: SharedBody) -> HTTPResponseHead { HTTPResponseHead(status: 200) }

    package func ending(_ code: CloseCode, reason: String) -> HTTPResponse {
        HTTPResponse(HTTPResponseHead(status: 200), body: FramedHTTP.end(code, reason))
    }

    package mutating func received(
        _ body: [UInt8], _ request: HTTPRequestHead, into batch: inout MessageBatch
    ) throws(TransportError) -> (answer: HTTPResponse, end: CloseReason?) {
        try self.decoder.decode(body, into: &batch)
        return (HTTPResponse(status: 200), self.decoder.end)
    }

    package func rejection(_ error: TransportError?) -> HTTPResponse { HTTPResponse(status: error == nil ? 404 : 400) }
}

/// A client's transport whose connections are HTTP requests.
package struct FramedHTTPTransport: WebSocketTransport {
    private let transports: Transports
    private let isStream: Bool

    package init(_ transports: Transports, isStream: Bool) {
        (self.transports, self.isStream) = (transports, isStream)
    }

    package func makeConnection(
        _ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents
    ) -> any MessageConnection {
        HTTPMessageConnection(
            FramedHTTPRules(request, isStream: self.isStream), in: .init(self.transports, cookies: RedirectingHTTP.Cookies()), id: id,
            events: events)
    }
}

/// Passes connections over HTTP requests to a handler of WebSockets.
package final class FramedHTTPHandler: ListenerHandler {
    package typealias Connection = ServedHTTPMessages<FramedHTTPServedRules>

    private let handler: any ListenerHandler
    private let time: any TimeSource
    private let connections = Lock<[String: Connection]>([:])
    private let accepted = Lock<Set<String>>([])

    package init(_ handler: any ListenerHandler, time: any TimeSource) {
        (self.handler, self.time) = (handler, time)
    }

    package var connectionCount: Int { self.connections.withLock { $0.count } }

    package func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        let token = request.query.split(separator: "&").first { $0.hasPrefix("token=") }.map(String.init) ?? ""
        let connection = self.connections.withLock { $0[token] }
        switch (request.method, connection) {
        case ("GET", let connection?): connection.wait(request, responder)
        case ("POST", let connection?): connection.receive(request, body: body, responder)
        // A client whose connection has ended must begin a new one.
        case ("GET", nil) where self.accepted.withLock({ $0.contains(token) }): responder.respond(HTTPResponse(status: 404))
        case ("GET", nil):
            switch self.handler.upgrade(request) {
            case .accept(_, _, let acceptor): self.accept(request, token, acceptor, responder)
            case .reject(let response): responder.respond(response)
            case .later: responder.respond(HTTPResponse(status: 501))
            }
        default: responder.respond(HTTPResponse(status: 404))
        }
    }

    private func accept(_ request: HTTPRequestHead, _ token: String, _ acceptor: any UpgradeAcceptor, _ responder: any HTTPResponder) {
        let rules = FramedHTTPServedRules(isStream: request.query.hasSuffix("stream=true"))
        let connection = Connection(rules, time: self.time, backlogBytes: 64 << 20) { [weak self] _ in
            self?.connections.withLock { $0[token] = nil }
        }
        self.connections.withLock { $0[token] = connection }
        self.accepted.withLock { _ = $0.insert(token) }
        connection.start(acceptor.connected(connection, id: connection.id))
        connection.wait(request, responder)
    }
}
