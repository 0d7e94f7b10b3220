internal import RealtimeSystem
internal import RealtimeCore

/// How an answer goes over the wire: which fields are the server's own, and how a client knows where the body ends.
struct ResponseFraming: Sendable {
    enum Body: Sendable, Hashable {
        /// Whatever is written, none of it is sent.
        case none
        case plain
        case chunked
    }

    /// What of a request matters to its answer.
    struct Request: Sendable {
        var isHEAD: Bool
        var isHTTP11: Bool
        var keepsAlive: Bool
    }

    var head: HTTPResponseHead
    var body: Body
    var keepsAlive: Bool

    /// - Parameter length: of the body; `nil` when it follows in pieces.
    init(_ head: HTTPResponseHead, length: Int?, to request: Request) {
        var headers = HTTPHeaders()
        for field in head.headers where !Self.isOwn(field.name) { headers.add(field.name, field.value) }
        var keepsAlive = request.keepsAlive && !head.headers.contains("Connection", token: "close")
        let isBodiless = head.status == 204 || head.status == 304
        let body: Body
        if let length {
            body = isBodiless || request.isHEAD ? .none : .plain
            // Of an answer without a body it would be the length of the one that was not asked for.
            if !isBodiless, !request.isHEAD || length > 0 { headers.add("Content-Length", "\(length)") }
        } else if isBodiless {
            body = .none
        } else if request.isHTTP11 {
            body = request.isHEAD ? .none : .chunked
            headers.add("Transfer-Encoding", "chunked")
        } else {
            // RFC 9112 section 6.3: to HTTP/1.0 the end of the connection is the end of the body.
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

    private static func isOwn(_ name: String) -> Bool {
        ["connection", "content-length", "keep-alive", "transfer-encoding"].contains(name.lowercased())
    }
}

extension HTTPResponse {
    /// One line of text.
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
