package import RealtimeCore

/// Reads one answer from a connection: head, body, end. Make another for the next request.
package struct HTTPResponseDecoder: Sendable {
    /// What comes next of an answer.
    package enum Event {
        /// The answer that counts. Those with 1xx before it were skipped.
        case head(HTTPResponseHead)
        /// A part of the input: valid as long as that is.
        case body(UnsafeRawBufferPointer)
        /// What is left of the input does not belong to this answer.
        case end
        /// The connection speaks another protocol from here on, and what is left of the input belongs to that:
        /// `101`, or a tunnel. Who did not ask for it takes it for an error.
        case switchedProtocol(HTTPResponseHead)
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

    /// Whether anything of an answer has come. While it has not, a request on a connection that was kept open may be sent again.
    package private(set) var hasStarted = false

    /// Whether another request may go over the same connection, once the answer has ended and nothing was left over.
    package private(set) var mayReuseConnection = false

    /// - Parameter method: of the request, since it decides whether an answer has a body.
    package init(method: String, limits: HTTPLimits = .client) {
        self.method = method
        self.limits = limits
        self.parser = HTTPHeadParser(.response, limits: limits)
        self.body = HTTPBodyDecoder(.none, limits: limits)
    }

    /// Call it until it says `needsMore` or the answer has ended. What it used is taken off `input`.
    /// After an error it throws the same one again.
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

    private mutating func begin(_ head: HTTPHeadParser.Head) throws(TransportError) -> Event? {
        guard case .response(let status, let reason, let minorVersion) = head.start else { return nil }
        let response = HTTPResponseHead(status: status, reason: reason, headers: head.headers)
        if status == 101 || (self.method == "CONNECT" && (200..<300).contains(status)) {
            self.stage = .ended
            return .switchedProtocol(response)
        }
        guard status >= 200 else {
            self.informational += 1
            guard self.informational <= self.limits.informational else {
                throw .malformed("The server sent more than \(self.limits.informational) answers with 1xx.")
            }
            return nil
        }
        let framing = try HTTPBodyFraming.ofResponse(status, head.headers, method: self.method)
        let isPersistent =
            minorVersion >= 1
            ? !head.headers.contains("Connection", token: "close") : head.headers.contains("Connection", token: "keep-alive")
        // RFC 9112 section 6.3: a coding together with a length, or with HTTP/1.0, may be somebody's trick.
        let isClear = head.headers["Transfer-Encoding"] == nil || (head.headers["Content-Length"] == nil && minorVersion >= 1)
        self.mayReuseConnection = isPersistent && isClear && framing != .untilClose
        self.body = HTTPBodyDecoder(framing, limits: self.limits)
        self.stage = .body
        return .head(response)
    }

    /// The server has ended the connection. It returns when the answer is whole; for a body without a length this is its end.
    package mutating func endOfStream() throws(TransportError) {
        self.mayReuseConnection = false
        do throws(TransportError) {
            switch self.stage {
            case .ended: return
            case .body: try self.body.endOfStream()
            case .head: throw TransportError(.closed, "The server ended the connection \(self.placeInHead).")
            case .failed(let error): throw error
            }
        } catch {
            throw self.fail(error)
        }
        self.stage = .ended
    }

    private var placeInHead: String {
        if self.parser.hasStartLine { return "within the fields of its answer" }
        if self.parser.hasStarted { return "within the first line of its answer" }
        return self.informational > 0 ? "after an answer with 1xx, before the one that counts" : "without an answer"
    }

    private mutating func fail(_ error: TransportError) -> TransportError {
        // The status is meant for servers. On this side it would look like the server's own.
        let error = TransportError(error.code, error.message)
        self.stage = .failed(error)
        self.mayReuseConnection = false
        return error
    }
}
