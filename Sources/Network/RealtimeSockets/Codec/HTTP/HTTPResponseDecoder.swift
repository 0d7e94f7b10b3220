package import RealtimeCore

/// An incremental decoder for one response: its head, body and end. Create a new decoder for each request.
package struct HTTPResponseDecoder: Sendable {
    /// The next part of a response.
    package enum Event {
        /// The head of the final response. Responses with status 1xx before it have been skipped.
        case head(HTTPResponseHead)
        /// Bytes of the body: a part of the input, valid as long as the input.
        case body(UnsafeRawBufferPointer)
        /// The end of the response. The remaining input does not belong to it.
        case end
        /// The server has switched to another protocol (status 101), to which the remaining input belongs. It is an error if the request
        /// was not an upgrade.
        case switchedProtocol(HTTPResponseHead)
        /// The response is not complete, and all of the input has been consumed.
        case needsMore
    }

    private enum Stage: Sendable {
        case head, body, ended
        case failed(TransportError)
    }

    private let method: String
    private let limits: HTTPLimits
    private var stage = Stage.head
    private var parser: HTTPHeadParser
    private var body: HTTPBodyDecoder
    private var informational = 0

    /// Whether a part of the response has been received. Until then, a request on a reused connection can be repeated on another one.
    package private(set) var hasStarted = false

    /// Whether the connection can be reused for another request, if the response has ended and no input remains.
    package private(set) var mayReuseConnection = false

    /// Creates a decoder.
    ///
    /// - Parameters:
    ///   - method: The method of the request, which determines whether the response has a body.
    ///   - limits: The limits on the size of the head.
    package init(method: String, limits: HTTPLimits = .client) {
        self.method = method
        self.limits = limits
        self.parser = HTTPHeadParser(.response, limits: limits)
        self.body = HTTPBodyDecoder(.none, limits: limits)
    }

    /// Decodes the next event and removes the consumed bytes from `input`.
    ///
    /// Call it repeatedly until it returns ``Event/needsMore`` or the response has ended.
    ///
    /// - Parameter input: The bytes that were received and not yet consumed.
    /// - Returns: The next event.
    /// - Throws: `TransportError` if the response is malformed or exceeds the limits. Further calls throw the same error.
    package mutating func next(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Event {
        if !input.isEmpty { self.hasStarted = true }
        do throws(TransportError) {
            while true {
                switch self.stage {
                case .head:
                    guard let head = try self.parser.next(&input) else { return .needsMore }
                    if let event = try self.begin(head) { return event }
                case .body:
                    switch try self.body.next(&input) {
                    case .bytes(let bytes): return .body(bytes)
                    case .needsMore: return .needsMore
                    case .end: self.stage = .ended
                    }
                case .ended:
                    return .end
                case .failed(let error):
                    throw error
                }
            }
        } catch {
            throw self.fail(error)
        }
    }

    /// The result of decoding a read.
    package enum Progress {
        case incomplete
        /// - Parameter isLast: Whether nothing follows the response.
        case complete(isLast: Bool)
    }

    /// Decodes all of the input.
    ///
    /// - Parameters:
    ///   - bytes: The bytes that were received.
    ///   - head: Set to the head, if it is complete.
    ///   - body: Receives the pieces of the body: parts of the input, valid as long as the input.
    /// - Throws: As ``next(_:)``, and if the server has switched to another protocol.
    @inline(__always)
    package mutating func decode(
        _ bytes: UnsafeRawBufferPointer, _ head: inout HTTPResponseHead?, _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(TransportError) -> Progress {
        var input = bytes
        while true {
            if case .body = self.stage { self.body.takeCompleteChunks(&input, body) }
            switch try self.next(&input) {
            case .head(let received): head = received
            case .body(let piece): body(piece)
            case .end: return .complete(isLast: input.isEmpty)
            case .needsMore: return .incomplete
            case .switchedProtocol:
                throw TransportError(.protocolViolation, "The server switched to a protocol that was not requested.")
            }
        }
    }

    private mutating func begin(_ head: HTTPHeadParser.Head) throws(TransportError) -> Event? {
        guard case .response(let status, let reason, let minorVersion) = head.start else { return nil }
        let response = HTTPResponseHead(status: status, reason: reason, headers: head.headers)
        if status == 101 {
            self.stage = .ended
            return .switchedProtocol(response)
        }
        guard status >= 200 else {
            self.informational += 1
            guard self.informational <= self.limits.informational else {
                throw .malformed("The server sent more than \(self.limits.informational) responses with status 1xx.")
            }
            return nil
        }
        let framing = try HTTPBodyFraming.ofResponse(status, head.headers, method: self.method)
        let isPersistent =
            !head.headers.contains("Connection", token: "close")
            && (minorVersion >= 1 || head.headers.contains("Connection", token: "keep-alive"))
        // RFC 9112 section 6.3: a transfer coding together with a length, or with HTTP/1.0, can be an attempt at response smuggling.
        let isUnambiguous = head.headers["Transfer-Encoding"] == nil || (head.headers["Content-Length"] == nil && minorVersion >= 1)
        self.mayReuseConnection = isPersistent && isUnambiguous && framing != .untilClose
        self.body = HTTPBodyDecoder(framing, limits: self.limits)
        self.stage = .body
        return .head(response)
    }

    /// Handles the end of the connection, which is also the end of a body without a length.
    ///
    /// - Throws: `TransportError` with the code `closed` if the response is incomplete.
    package mutating func endOfStream() throws(TransportError) {
        self.mayReuseConnection = false
        do throws(TransportError) {
            switch self.stage {
            case .ended: return
            case .body: try self.body.endOfStream()
            case .head: throw TransportError(.closed, "The server closed the connection \(self.positionInHead).")
            case .failed(let error): throw error
            }
        } catch {
            throw self.fail(error)
        }
        self.stage = .ended
    }

    private var positionInHead: String {
        if self.parser.hasStartLine { return "within the header fields of its response" }
        if self.parser.hasStarted { return "within the status line of its response" }
        return self.informational > 0 ? "after a response with status 1xx, before the final response" : "without a response"
    }

    private mutating func fail(_ error: TransportError) -> TransportError {
        // The error's status code is for a server's response. On a client, it would look like the status of the response.
        let error = TransportError(error.code, error.message)
        self.stage = .failed(error)
        self.mayReuseConnection = false
        return error
    }
}
