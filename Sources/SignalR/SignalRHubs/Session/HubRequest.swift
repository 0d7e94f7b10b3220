import RealtimeCoding
package import RealtimeCore
import RealtimeSystem
package import SignalRWire

/// A connection to open. It contains the token of the connection and the access token.
package enum HubRequest: Sendable {
    case webSocket(WebSocketRequest)
    /// A connection over HTTP.
    ///
    /// - Parameters:
    ///   - headers: The header fields of its requests, until there are others.
    ///   - asksForToken: Whether the application is asked for another access token, once for each request that is answered with the status 401:
    ///     there is a provider of tokens, and the token is its own.
    ///   - sendsAfterRedirect: Whether a request that is redirected to another origin has the header fields there, without credentials.
    case http(any HTTPMessageConnectionRules, headers: HTTPHeaders, asksForToken: Bool, sendsAfterRedirect: Bool)
}

/// The requests that the connections over HTTP of a hub have in common.
///
/// Source: TransportProtocols.md of ASP.NET Core.
package struct HubHTTPRequests: Sendable {
    /// The URL of the connection.
    package let endpoint: Endpoint
    package let format: HubFormat
    package let connectTimeout: Duration
    /// The number of bytes after which no further message is added to the body of a request.
    private static let bodySize = 1 << 20

    /// Creates the requests of a connection.
    ///
    /// - Parameters:
    ///   - endpoint: The URL of the hub with the token of the connection.
    ///   - format: The encoding of messages.
    ///   - connectTimeout: The time limit for establishing a connection for a request, and for its answer.
    package init(_ endpoint: Endpoint, _ format: HubFormat, connectTimeout: Duration) {
        (self.endpoint, self.format, self.connectTimeout) = (endpoint, format, connectTimeout)
    }

    /// The error for bytes that aren't a message.
    func unreadable(_ problem: String) -> TransportError {
        let message = "\(self.endpoint) answered with \"\(problem)\", which isn't a message of SignalR."
        return TransportError(.protocolViolation, "\(message) Check that no proxy answers in place of the server.")
    }

    /// A request that waits for messages.
    func get(_ endpoint: Endpoint, accepting type: String, idleTimeout: Duration) -> HTTPRequest {
        HTTPRequest(
            "GET", endpoint, headers: ["Accept": type, "Cache-Control": "no-cache"], connectTimeout: self.connectTimeout,
            idleTimeout: idleTimeout)
    }

    /// A request with messages.
    ///
    /// - Parameter ping: What takes the place of a ping of WebSockets, which the server could not read; `nil` for nothing: the answer to an empty
    ///   body shows that the server is there.
    func post(_ messages: ArraySlice<TransportMessage>, ping: HubMessage?) -> (request: HTTPRequest, count: Int) {
        var (body, count) = ([UInt8](), 0)
        for message in messages {
            // A later message that is smaller must not overtake this one.
            if count > 0, body.count + message.bytes.count > Self.bodySize { break }
            switch message.kind {
            case .text, .binary: body += message.bytes
            case .ping: if let ping { HubMessageWriter.append(ping, self.format, to: &body) }
            case .pong: break
            }
            count += 1
        }
        let type = self.format == .json ? "text/plain;charset=UTF-8" : "application/octet-stream"
        let request = HTTPRequest(
            "POST", self.endpoint, headers: ["Content-Type": type], body: body, connectTimeout: self.connectTimeout,
            idleTimeout: self.connectTimeout)
        return (request, count)
    }
}

/// A connection over Server-Sent Events: one response with the messages of the server, and requests with those of the client.
package struct HubStreamRules: HTTPMessageConnectionRules {
    private static let contentType = "text/event-stream"
    /// The size of the messages that servers keep for a client that reads slowly, in bytes.
    private static let waitingBytes = 4 << 20

    private let requests: HubHTTPRequests
    private var decoder: ServerSentEventDecoder
    private var check = HubAnswerCheck(.json)

    package init(_ requests: HubHTTPRequests, messageLimit: Int) {
        self.requests = requests
        // An event contains all messages that waited, so it may be larger than one. The reader has a limit for each of them.
        self.decoder = ServerSentEventDecoder(limit: messageLimit > .max / 2 ? .max : 2 * messageLimit + Self.waitingBytes)
    }

    package var isStream: Bool { true }
    package var bodyLimit: Int? { nil }

    /// The server decides how long a stream lasts, and the client's server timeout how long it may be silent.
    package func receivingRequest() -> HTTPRequest {
        self.requests.get(self.requests.endpoint, accepting: Self.contentType, idleTimeout: .seconds(365 * 86400))
    }

    package func received(_ head: HTTPResponseHead) -> HTTPVerdict {
        guard head.status == 200 else { return .reject }
        let type = (head.headers["Content-Type"] ?? "").prefix { $0 != ";" && $0 != " " }
        guard type.lowercased() == Self.contentType else {
            let message =
                "\(self.requests.endpoint) answered with the content type \"\(Excerpt.of(String(type), limit: 100))\" instead of "
                + "\(Self.contentType). Check that the URL is that of a hub, and that no proxy changes the response."
            return .end(.transport(TransportError(.protocolViolation, message)))
        }
        return .proceed
    }

    package mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError) {
        let start = batch.entries.count
        try self.decoder.decode(bytes, into: &batch)
        for index in start..<batch.entries.count {
            let range = batch.entries[index].range
            let (count, problem) = batch.bytes.withUnsafeBytes { self.check.read(UnsafeRawBufferPointer(rebasing: $0[range])) }
            guard let problem else { continue }
            batch.entries[index].range = range.lowerBound..<range.lowerBound + count
            batch.entries.removeSubrange((count > 0 ? index + 1 : index)...)
            throw self.requests.unreadable(problem)
        }
    }

    package func bodyEnded(into batch: inout MessageBatch) -> HTTPVerdict {
        .end(.transport(TransportError(.closed, "The server ended the response.")))
    }

    package func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int) {
        self.requests.post(messages, ping: .ping)
    }

    package func sent(_ response: HTTPResponse) -> HTTPVerdict { response.isOfOtherService ? .reject : .proceed }

    /// The end of the stream tells the server.
    package func closing(_ code: CloseCode, reason: String) -> HTTPClosing { .cancel }
}

/// A connection over long polling: requests that the server answers when it has messages, and requests with those of the client.
package struct HubPollingRules: HTTPMessageConnectionRules {
    private let requests: HubHTTPRequests
    private let pollTimeout: Duration
    private var polls = 0
    private var check: HubAnswerCheck

    /// - Parameter pollTimeout: The time limit for the answer to a poll.
    package init(_ requests: HubHTTPRequests, pollTimeout: Duration) {
        (self.requests, self.pollTimeout) = (requests, pollTimeout)
        self.check = HubAnswerCheck(requests.format)
    }

    package var isStream: Bool { false }

    /// The reader of messages has a limit for each of them, and keeps no more than one.
    package var bodyLimit: Int? { nil }

    /// Servers of ASP.NET Core forget a client that hasn't polled for 15 seconds, by default.
    package var pausedPolling: HTTPPausedPolling? { HTTPPausedPolling(interval: .seconds(5), byteLimit: 16 << 20) }

    package mutating func receivingRequest() -> HTTPRequest {
        self.polls += 1
        var endpoint = self.requests.endpoint
        // No cache on the way has an answer to this URL.
        endpoint.addQuery("_", "\(self.polls)")
        return self.requests.get(endpoint, accepting: "*/*", idleTimeout: self.pollTimeout)
    }

    package func received(_ head: HTTPResponseHead) -> HTTPVerdict {
        switch head.status {
        case 200: .proceed
        case 204: .end(.transport(TransportError(.closed, "The server answered with the status 204: it has ended the connection.")))
        default: .reject
        }
    }

    /// A body is bytes of the connection, whose boundaries mean nothing. Text in it isn't validated yet.
    package mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError) {
        let (count, problem) = self.check.read(bytes)
        if count > 0 { batch.append(.binary, UnsafeRawBufferPointer(rebasing: bytes[..<count])) }
        guard let problem else { return }
        throw self.requests.unreadable(problem)
    }

    package mutating func bodyEnded(into batch: inout MessageBatch) -> HTTPVerdict {
        self.check.bodyEnded()
        return .proceed
    }

    package func hasMessages(_ batch: borrowing MessageBatch) -> Bool { !batch.entries.isEmpty && self.check.hasMessage }

    /// After a ping, ASP.NET Core ends a connection that sends no others within its limit, which no client does over long polling.
    package func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int) {
        self.requests.post(messages, ping: nil)
    }

    package func sent(_ response: HTTPResponse) -> HTTPVerdict { response.isOfOtherService ? .reject : .proceed }

    package func closing(_ code: CloseCode, reason: String) -> HTTPClosing {
        .request(
            HTTPRequest(
                "DELETE", self.requests.endpoint, connectTimeout: self.requests.connectTimeout, idleTimeout: self.requests.connectTimeout))
    }
}

extension HubHTTPRequests: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [("endpoint", self.endpoint), ("format", self.format), ("connectTimeout", self.connectTimeout)]
    }
}
