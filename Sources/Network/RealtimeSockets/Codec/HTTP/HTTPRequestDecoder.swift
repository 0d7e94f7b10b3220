package import RealtimeCore

/// An incremental decoder for the requests of a client's connection.
///
/// After ``Event/end``, call ``next(_:)`` again when the response to the request has been sent. Pipelined requests stay in the caller's
/// input until then. Each error contains the status code of the response.
package struct HTTPRequestDecoder: Sendable {
    /// The next part of a request.
    package enum Event {
        case head(Request)
        /// Bytes of the body: a part of the input, valid as long as the input.
        case body(UnsafeRawBufferPointer)
        /// The end of the request.
        case end
        /// The request is not complete, and all of the input has been consumed.
        case needsMore
    }

    /// A request whose body has not been decoded.
    package struct Request: Sendable {
        package var head: HTTPRequestHead
        /// Whether the client waits for `100 Continue` before it sends the body.
        package var expectsContinue: Bool
        /// Whether the client keeps the connection open for more requests. Otherwise, the response must contain `Connection: close`.
        package var keepsAlive: Bool
        /// Whether the client supports HTTP/1.1. Otherwise, a response without a length ends when the connection is closed.
        package var isHTTP11: Bool
        package var hasBody: Bool
    }

    private enum Stage: Sendable {
        case head, body
        case failed(TransportError)
    }

    private let limits: HTTPLimits
    private let bodyLimit: Int
    private var stage = Stage.head
    private var parser: HTTPHeadParser
    private var body: HTTPBodyDecoder

    package init(limits: HTTPLimits = .server, bodyLimit: Int) {
        self.limits = limits
        self.bodyLimit = bodyLimit
        self.parser = HTTPHeadParser(.request, limits: limits)
        self.body = HTTPBodyDecoder(.none, limits: limits)
    }

    /// Whether the connection is between two requests, so that closing it loses nothing.
    package var isIdle: Bool {
        guard case .head = self.stage else { return false }
        return !self.parser.hasStarted
    }

    /// Decodes the next event and removes the consumed bytes from `input`.
    ///
    /// - Parameter input: The bytes that were received and not yet consumed.
    /// - Returns: The next event.
    /// - Throws: `TransportError` if the request is malformed or exceeds the limits. Further calls throw the same error.
    package mutating func next(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Event {
        do throws(TransportError) {
            switch self.stage {
            case .head:
                guard let head = try self.parser.next(&input), case .request(let method, let target, let minorVersion) = head.start else {
                    return .needsMore
                }
                return .head(try self.begin(HTTPRequestHead(method: method, target: target, headers: head.headers), minorVersion))
            case .body:
                switch try self.body.next(&input) {
                case .needsMore: return .needsMore
                case .bytes(let bytes): return .body(bytes)
                case .end:
                    self.stage = .head
                    return .end
                }
            case .failed(let error):
                throw error
            }
        } catch {
            self.stage = .failed(error)
            throw error
        }
    }

    /// Limits the size of the body that follows the head which was decoded last, in addition to the decoder's own limit.
    ///
    /// - Throws: `TransportError` with the status 413 if the client has announced a larger body. Further calls throw the same error.
    package mutating func limitBody(to limit: Int) throws(TransportError) {
        do throws(TransportError) {
            try self.body.limitRequest(to: limit)
        } catch {
            self.stage = .failed(error)
            throw error
        }
    }

    /// Handles the end of the client's side of the connection.
    ///
    /// - Throws: `TransportError` with the code `closed` if a request is incomplete.
    package func endOfStream() throws(TransportError) {
        switch self.stage {
        case .head where !self.parser.hasStarted: return
        case .head: throw TransportError(.closed, "The client closed the connection within the head of a request.")
        case .body: throw TransportError(.closed, "The client closed the connection within the body of a request.")
        case .failed(let error): throw error
        }
    }

    private mutating func begin(_ head: HTTPRequestHead, _ minorVersion: Int) throws(TransportError) -> Request {
        // RFC 9112 section 3.2: exactly one Host field is required, and none is allowed with HTTP/1.0.
        let hosts = head.headers.values("Host")
        guard hosts.count == 1 || hosts.isEmpty && minorVersion == 0 else {
            throw .malformed("The client sent \(hosts.isEmpty ? "no Host field" : "more than one Host field").")
        }
        guard hosts.map({ Array($0.utf8) }).allSatisfy({ HTTPCharacters.isAuthority($0) || HTTPCharacters.isBareAddress($0) }) else {
            throw .malformed("The client sent an invalid Host field.")
        }
        let framing = try HTTPBodyFraming.ofRequest(head.headers, minorVersion: minorVersion)
        self.body = HTTPBodyDecoder(framing, limits: self.limits, requestLimit: self.bodyLimit)
        try self.body.limitRequest(to: self.bodyLimit)
        let expectations = head.headers.values("Expect")
        let isContinue = head.headers.contains("Expect", token: "100-continue")
        // RFC 9110 section 10.1.1: no other expectation is defined, and expectations are ignored with HTTP/1.0.
        guard expectations.isEmpty || minorVersion == 0 || isContinue && expectations.count == 1 else {
            throw .malformed("The client sent an unsupported Expect field; only 100-continue is supported.", status: 417)
        }
        self.stage = .body
        return Request(
            head: head,
            expectsContinue: isContinue && minorVersion >= 1 && framing != .none,
            keepsAlive: minorVersion >= 1
                ? !head.headers.contains("Connection", token: "close") : head.headers.contains("Connection", token: "keep-alive"),
            isHTTP11: minorVersion >= 1,
            hasBody: framing != .none)
    }
}
