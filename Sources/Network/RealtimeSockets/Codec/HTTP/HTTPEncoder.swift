package import RealtimeCore

/// Encodes message heads and chunks.
///
/// To prevent injection of header fields and requests, characters that are not allowed are an error, and not removed or replaced. If
/// a function throws, the output is unchanged.
package enum HTTPEncoder {
    /// Appends the head of a request as given.
    ///
    /// - Throws: `TransportError` if the head contains invalid characters.
    package static func append(_ head: HTTPRequestHead, to output: inout [UInt8]) throws(TransportError) {
        try Self.check(head.method, head.target)
        try Self.check(head.headers)
        Self.appendRequestLine(head.method, head.target, to: &output)
        Self.append(head.headers, to: &output)
    }

    /// Appends the head of a response, with a standard reason phrase if it has none.
    ///
    /// - Throws: `TransportError` if the status code is invalid or the head contains invalid characters.
    package static func append(_ head: HTTPResponseHead, to output: inout [UInt8]) throws(TransportError) {
        guard (100...999).contains(head.status) else {
            throw TransportError(.unsupported, "Invalid HTTP status code \(head.status): it must be between 100 and 999.")
        }
        guard HTTPCharacters.isFieldValue(head.reason.utf8) else {
            throw TransportError(.unsupported, "Invalid reason phrase for status \(head.status): it contains a control character.")
        }
        try Self.check(head.headers)
        let reason = head.reason.isEmpty ? Self.reasons[head.status] ?? "" : head.reason
        output.append(contentsOf: "HTTP/1.1 \(head.status) \(reason)\r\n".utf8)
        Self.append(head.headers, to: &output)
    }

    /// Appends the head of a client's request.
    ///
    /// The transport's own fields `Host`, `Content-Length` and `Connection` replace the same fields of the request.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - keepsAlive: Whether the server may keep the connection open after the response. Otherwise it is asked to close it.
    ///   - output: The bytes to append to.
    /// - Throws: `TransportError` if the head contains invalid characters or a `Transfer-Encoding` field.
    package static func append(_ request: HTTPRequest, keepsAlive: Bool, to output: inout [UInt8]) throws(TransportError) {
        guard request.headers["Transfer-Encoding"] == nil else {
            throw TransportError(
                .unsupported, "Transfer-Encoding is not supported in requests. Remove the field; the body has a Content-Length.")
        }
        let (target, host) = (request.endpoint.requestTarget, request.endpoint.authority)
        try Self.check(request.method, target)
        guard HTTPCharacters.isFieldValue(host.utf8) else { throw Self.invalidValue("Host") }
        for field in request.headers where !Self.isTransportField(field.name) { try Self.check(field) }
        Self.appendRequestLine(request.method, target, to: &output)
        Self.append("Host", host, to: &output)
        for field in request.headers where !Self.isTransportField(field.name) { Self.append(field.name, field.value, to: &output) }
        if !request.body.isEmpty || !["GET", "HEAD", "OPTIONS", "DELETE", "TRACE"].contains(request.method) {
            Self.append("Content-Length", "\(request.body.count)", to: &output)
        }
        // Without the field, a connection of HTTP/1.1 is kept open.
        if !keepsAlive { Self.append("Connection", "close", to: &output) }
        output.append(contentsOf: "\r\n".utf8)
    }

    private static func check(_ method: String, _ target: String) throws(TransportError) {
        guard HTTPCharacters.isToken(method.utf8) else {
            throw TransportError(.unsupported, "Invalid HTTP method. Use a method such as GET or POST.")
        }
        guard HTTPCharacters.isTarget(target.utf8) else {
            throw TransportError(
                .invalidURL, "Invalid request target: it is empty or contains invalid characters. Percent-encode the path and query.")
        }
    }

    private static func appendRequestLine(_ method: String, _ target: String, to output: inout [UInt8]) {
        // Usual requests are shorter.
        output.reserveCapacity(output.count + 256)
        output.append(contentsOf: method.utf8)
        output.append(UInt8(ascii: " "))
        output.append(contentsOf: target.utf8)
        output.append(contentsOf: " HTTP/1.1\r\n".utf8)
    }

    /// Appends a chunk, or nothing if `bytes` is empty, because an empty chunk would end the body.
    package static func appendChunk(_ bytes: [UInt8], to output: inout [UInt8]) {
        guard !bytes.isEmpty else { return }
        self.appendChunkHeader(bytes.count, to: &output)
        output.append(contentsOf: bytes)
        self.appendChunkEnd(to: &output)
    }

    /// Appends what precedes the bytes of a chunk.
    package static func appendChunkHeader(_ count: Int, to output: inout [UInt8]) {
        output.append(contentsOf: String(count, radix: 16).utf8)
        output.append(contentsOf: "\r\n".utf8)
    }

    /// Appends what follows the bytes of a chunk.
    package static func appendChunkEnd(to output: inout [UInt8]) { output.append(contentsOf: "\r\n".utf8) }

    /// Appends the last chunk, which ends the body.
    package static func appendLastChunk(to output: inout [UInt8]) {
        output.append(contentsOf: "0\r\n\r\n".utf8)
    }

    private static func isTransportField(_ name: String) -> Bool {
        switch name.utf8.count {
        case "host".utf8.count, "content-length".utf8.count, "connection".utf8.count:
            ["host", "content-length", "connection"].contains(name.lowercased())
        default: false
        }
    }

    private static func check(_ headers: HTTPHeaders) throws(TransportError) {
        for field in headers { try Self.check(field) }
    }

    private static func check(_ field: HTTPHeaders.Field) throws(TransportError) {
        guard HTTPCharacters.isToken(field.name.utf8) else {
            throw TransportError(.unsupported, "Invalid header field name: it is empty or contains invalid characters.")
        }
        guard HTTPCharacters.isFieldValue(field.value.utf8) else { throw Self.invalidValue(field.name) }
    }

    private static func invalidValue(_ name: String) -> TransportError {
        TransportError(.unsupported, "Invalid value of the header field \(name): it contains a control character.")
    }

    private static func append(_ headers: HTTPHeaders, to output: inout [UInt8]) {
        for field in headers { Self.append(field.name, field.value, to: &output) }
        output.append(contentsOf: "\r\n".utf8)
    }

    private static func append(_ name: String, _ value: String, to output: inout [UInt8]) {
        output.append(contentsOf: name.utf8)
        output.append(contentsOf: ": ".utf8)
        output.append(contentsOf: value.utf8)
        output.append(contentsOf: "\r\n".utf8)
    }

    /// The reason phrases of common status codes. A response may have none.
    private static let reasons = [
        100: "Continue", 101: "Switching Protocols", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content",
        301: "Moved Permanently", 302: "Found", 304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect",
        400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout",
        409: "Conflict", 413: "Content Too Large", 414: "URI Too Long", 417: "Expectation Failed", 426: "Upgrade Required",
        429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error", 501: "Not Implemented",
        502: "Bad Gateway", 503: "Service Unavailable", 505: "HTTP Version Not Supported",
    ]
}

/// The format of the `Date` field (RFC 9110 section 5.6.7).
enum HTTPDate {
    /// Formats a time such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    ///
    /// - Parameter second: The seconds since the start of 1970 in UTC, which must not be negative.
    static func text(_ second: Int) -> String {
        func isLeap(_ year: Int) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }
        func padded(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let days = second / 86_400
        var (year, month, day) = (1970, 0, days)
        while day >= (isLeap(year) ? 366 : 365) {
            day -= isLeap(year) ? 366 : 365
            year += 1
        }
        let lengths = [31, isLeap(year) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        while day >= lengths[month] {
            day -= lengths[month]
            month += 1
        }
        // The first day of 1970 was a Thursday.
        let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days % 7]
        let name = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][month]
        let time = "\(padded(second / 3600 % 24)):\(padded(second / 60 % 60)):\(padded(second % 60))"
        return "\(weekday), \(padded(day + 1)) \(name) \(year) \(time) GMT"
    }
}
