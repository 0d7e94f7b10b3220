import RealtimeCore

/// How much of a head is read before the peer is taken for hostile.
package struct HTTPLimits: Sendable, Hashable {
    /// Of the request line, the status line and each field.
    package var lineBytes: Int
    /// Of the whole head, and of the trailers of a chunked body.
    package var headBytes: Int
    package var fields: Int
    /// Of the line before each chunk: the size and its extensions, which nobody uses.
    package var chunkLineBytes: Int
    /// Of answers with 1xx before the one that counts.
    package var informational: Int

    package init(
        lineBytes: Int = 64 << 10, headBytes: Int = 256 << 10, fields: Int = 2048, chunkLineBytes: Int = 4 << 10, informational: Int = 16
    ) {
        self.lineBytes = lineBytes
        self.headBytes = headBytes
        self.fields = fields
        self.chunkLineBytes = chunkLineBytes
        self.informational = informational
    }

    /// For the answers of a server that was chosen.
    package static let client = HTTPLimits()
    /// For the requests of anybody.
    package static let server = HTTPLimits(lineBytes: 16 << 10, headBytes: 64 << 10, fields: 256)
}

extension TransportError {
    /// What is not HTTP. The status is what a server answers with.
    static func malformed(_ message: String, status: Int = 400) -> TransportError {
        TransportError(.protocolViolation, message, status: status)
    }
}
