package import RealtimeCore

/// Reads one request after the other from a client's connection.
///
/// After `end` it waits: call ``next(_:)`` again when the request was answered. Requests that came early stay in the caller's input.
/// Each error has the status to answer with.
package struct HTTPRequestDecoder: Sendable {
    /// What comes next of a request.
    package enum Event {
        case head(Request)
        /// A part of the input: valid as long as that is.
        case body(UnsafeRawBufferPointer)
        case end
        case needsMore
    }

    /// A request whose body is still to come.
    package struct Request: Sendable {
        package var head: HTTPRequestHead
        /// Whether the client will wait for `100 Continue` before it sends the body.
        package var expectsContinue: Bool
        /// Whether more requests may follow. When not, the answer says `Connection: close`.
        package var keepsAlive: Bool
        /// Whether the client knows HTTP/1.1: if not, an answer without a length ends with the connection.
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
    private var received = 0

    package init(limits: HTTPLimits = .server, bodyLimit: Int) {
        self.limits = limits
        self.bodyLimit = bodyLimit
        self.parser = HTTPHeadParser(.request, limits: limits)
        self.body = HTTPBodyDecoder(.none, limits: limits)
    }

    /// Whether the connection is between two requests, where it may be closed without loss.
    package var isIdle: Bool {
        guard case .head = self.stage else { return false }
        return !self.parser.hasStarted
    }

    /// The next event. What it used is taken off `input`. After an error it throws the same one again.
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
                case .bytes(let bytes):
                    guard bytes.count <= self.bodyLimit - self.received else { throw self.bodyTooLarge }
                    self.received += bytes.count
                    return .body(bytes)
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

    /// The client has ended its side of the connection. It returns when that cut nothing off.
    package func endOfStream() throws(TransportError) {
        switch self.stage {
        case .head where !self.parser.hasStarted: return
        case .head: throw TransportError(.closed, "The client ended the connection within the head of a request.")
        case .body: throw TransportError(.closed, "The client ended the connection within the body of a request.")
        case .failed(let error): throw error
        }
    }

    private mutating func begin(_ head: HTTPRequestHead, _ minorVersion: Int) throws(TransportError) -> Request {
        // RFC 9112 section 3.2: exactly one, and HTTP/1.0 may do without.
        let hosts = head.headers.values("Host").count
        guard hosts == 1 || hosts == 0 && minorVersion == 0 else {
            throw .malformed("The client sent \(hosts == 0 ? "no Host field" : "more than one Host field").")
        }
        let framing = try HTTPBodyFraming.ofRequest(head.headers, minorVersion: minorVersion)
        if case .length(let length) = framing, length > self.bodyLimit { throw self.bodyTooLarge }
        let expectations = head.headers.values("Expect")
        let isContinue = head.headers.contains("Expect", token: "100-continue")
        // RFC 9110 section 10.1.1: there is no other expectation, and one from HTTP/1.0 is to be ignored.
        guard expectations.isEmpty || minorVersion == 0 || isContinue && expectations.count == 1 else {
            throw .malformed("The client expects something that is not known here.", status: 417)
        }
        self.body = HTTPBodyDecoder(framing, limits: self.limits)
        self.received = 0
        self.stage = .body
        return Request(
            head: head,
            expectsContinue: isContinue && minorVersion >= 1 && framing != .none,
            keepsAlive: minorVersion >= 1
                ? !head.headers.contains("Connection", token: "close") : head.headers.contains("Connection", token: "keep-alive"),
            isHTTP11: minorVersion >= 1,
            hasBody: framing != .none)
    }

    private var bodyTooLarge: TransportError {
        TransportError(.tooLarge, "The client sent a body of more than \(self.bodyLimit) bytes.", status: 413)
    }
}
