internal import RealtimeSystem
internal import RealtimeCore

/// How a response is framed: the header fields that the server sets itself, and how the client finds the end of the body.
struct ResponseFraming: Sendable {
    enum Body: Sendable, Hashable {
        /// No body is sent; bytes that are written are discarded.
        case none
        case plain
        case chunked
    }

    /// The properties of a request that its response depends on.
    struct Request: Sendable {
        var isHEAD: Bool
        var isHTTP11: Bool
        var keepsAlive: Bool
    }

    var head: HTTPResponseHead
    var body: Body
    var keepsAlive: Bool

    /// - Parameters:
    ///   - head: The head as the handler provides it.
    ///   - length: The length of the body, or `nil` if the body is streamed.
    ///   - request: The request to respond to.
    init(_ head: HTTPResponseHead, length: Int?, to request: Request) {
        var headers = HTTPHeaders()
        for field in head.headers where !Self.isReserved(field.name) { headers.add(field.name, field.value) }
        var keepsAlive = request.keepsAlive && !head.headers.contains("Connection", token: "close")
        let isBodiless = head.status == 204 || head.status == 304
        let body: Body
        if let length {
            body = isBodiless || request.isHEAD ? .none : .plain
            // RFC 9110 section 8.6: in a response without a body, Content-Length is the length that a GET would have returned.
            if !isBodiless, !request.isHEAD || length > 0 { headers.add("Content-Length", "\(length)") }
        } else if isBodiless {
            body = .none
        } else if request.isHTTP11 {
            body = request.isHEAD ? .none : .chunked
            headers.add("Transfer-Encoding", "chunked")
        } else {
            // RFC 9112 section 6.3: for HTTP/1.0 the body ends with the connection.
            body = request.isHEAD ? .none : .plain
            keepsAlive = false
        }
        if !keepsAlive {
            headers.add("Connection", "close")
        } else if !request.isHTTP11 {
            headers.add("Connection", "keep-alive")
        }
        if headers["Date"] == nil { headers.add("Date", HTTPDate.now) }
        self.head = HTTPResponseHead(status: head.status, reason: head.reason, headers: headers)
        self.body = body
        self.keepsAlive = keepsAlive
    }

    private static func isReserved(_ name: String) -> Bool {
        ["connection", "content-length", "keep-alive", "transfer-encoding"].contains(name.lowercased())
    }
}

extension HTTPResponse {
    /// Creates a response with one line of text.
    static func line(_ status: Int, _ text: String) -> HTTPResponse {
        HTTPResponse(status: status, headers: ["Content-Type": "text/plain; charset=utf-8"], text: text + "\n")
    }
}

extension HTTPDate {
    private static let latest = Lock((second: time_t(0), text: ""))

    /// The current time. The text is created once per second.
    static var now: String {
        let second = time(nil)
        return self.latest.withLock { latest in
            if latest.second != second { latest = (second, Self.text(Int(second))) }
            return latest.text
        }
    }
}
