package import RealtimeCore

/// Writes heads and chunks.
///
/// What could end a line early, and so smuggle in a field or a request, is an error: nothing is dropped or replaced silently.
/// After an error nothing was added.
package enum HTTPEncoder {
    package static func append(_ head: HTTPRequestHead, to output: inout [UInt8]) throws(TransportError) {
        guard HTTPCharacters.isToken(head.method.utf8) else {
            throw TransportError(.unsupported, "The method of a request is no word of letters; use GET, POST and the like.")
        }
        guard HTTPCharacters.isTarget(head.target.utf8) else {
            throw TransportError(
                .invalidURL, "The path of a request has a space, a control character or a letter outside ASCII; percent-encode it.")
        }
        try Self.check(head.headers)
        output.append(contentsOf: "\(head.method) \(head.target) HTTP/1.1\r\n".utf8)
        Self.append(head.headers, to: &output)
    }

    package static func append(_ head: HTTPResponseHead, to output: inout [UInt8]) throws(TransportError) {
        guard (100...999).contains(head.status) else {
            throw TransportError(.unsupported, "\(head.status) is no status; they have three digits.")
        }
        guard HTTPCharacters.isFieldValue(head.reason.utf8) else {
            throw TransportError(.unsupported, "The words after the status \(head.status) have a line break or another control character.")
        }
        try Self.check(head.headers)
        let reason = head.reason.isEmpty ? Self.reason(head.status) : head.reason
        output.append(contentsOf: "HTTP/1.1 \(head.status) \(reason)\r\n".utf8)
        Self.append(head.headers, to: &output)
    }

    /// The head of a client's request, with the fields that are the transport's own: they replace the user's.
    package static func append(_ request: HTTPRequest, keepAlive: Bool, to output: inout [UInt8]) throws(TransportError) {
        guard request.headers["Transfer-Encoding"] == nil else {
            throw TransportError(.unsupported, "A request cannot have a Transfer-Encoding field: its body is sent with Content-Length.")
        }
        var headers = HTTPHeaders()
        headers.add("Host", request.endpoint.authority)
        for field in request.headers where !Self.isOwn(field.name) { headers.add(field.name, field.value) }
        if !request.body.isEmpty || !["GET", "HEAD", "OPTIONS", "DELETE", "TRACE", "CONNECT"].contains(request.method) {
            headers.add("Content-Length", "\(request.body.count)")
        }
        headers.add("Connection", keepAlive ? "keep-alive" : "close")
        try Self.append(HTTPRequestHead(method: request.method, target: request.endpoint.target, headers: headers), to: &output)
    }

    /// One chunk. None for no bytes, since an empty chunk ends the body.
    package static func appendChunk(_ bytes: [UInt8], to output: inout [UInt8]) {
        guard !bytes.isEmpty else { return }
        output.append(contentsOf: String(bytes.count, radix: 16).utf8)
        output.append(contentsOf: "\r\n".utf8)
        output.append(contentsOf: bytes)
        output.append(contentsOf: "\r\n".utf8)
    }

    package static func appendLastChunk(to output: inout [UInt8]) {
        output.append(contentsOf: "0\r\n\r\n".utf8)
    }

    private static func isOwn(_ name: String) -> Bool {
        ["host", "content-length", "connection"].contains(name.lowercased())
    }

    private static func check(_ headers: HTTPHeaders) throws(TransportError) {
        for field in headers {
            guard HTTPCharacters.isToken(field.name.utf8) else {
                throw TransportError(.unsupported, "The name of a header field is empty or has a character that is not allowed there.")
            }
            guard HTTPCharacters.isFieldValue(field.value.utf8) else {
                throw TransportError(
                    .unsupported, "The value of the header field \(field.name) has a line break or another control character.")
            }
        }
    }

    private static func append(_ headers: HTTPHeaders, to output: inout [UInt8]) {
        for field in headers {
            output.append(contentsOf: field.name.utf8)
            output.append(contentsOf: ": ".utf8)
            output.append(contentsOf: field.value.utf8)
            output.append(contentsOf: "\r\n".utf8)
        }
        output.append(contentsOf: "\r\n".utf8)
    }

    private static func reason(_ status: Int) -> String { Self.reasons[status] ?? "" }

    /// The words for the statuses that this library and its users send. No words are fine too.
    private static let reasons = [
        100: "Continue", 101: "Switching Protocols", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content",
        301: "Moved Permanently", 302: "Found", 304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect",
        400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout",
        409: "Conflict", 413: "Content Too Large", 414: "URI Too Long", 417: "Expectation Failed", 426: "Upgrade Required",
        429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error", 501: "Not Implemented",
        502: "Bad Gateway", 503: "Service Unavailable", 505: "HTTP Version Not Supported",
    ]
}
