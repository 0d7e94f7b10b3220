import RealtimeCore

/// Limits on the size of a message head. A peer that exceeds them is assumed to be hostile.
package struct HTTPLimits: Sendable, Hashable {
    /// The maximum number of bytes in a request line, status line or field line.
    package var lineBytes: Int
    /// The maximum number of bytes in a head, or in the trailers of a chunked body.
    package var headBytes: Int
    /// The maximum number of fields in a head, or in the trailers of a chunked body.
    package var fields: Int
    /// The maximum number of bytes in the line before a chunk, which contains its size and extensions.
    package var chunkLineBytes: Int
    /// The maximum number of 1xx responses before the final response.
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

    /// The limits for the responses of a server.
    package static let client = HTTPLimits()
    /// The limits for the requests of clients, which are not trusted.
    package static let server = HTTPLimits(lineBytes: 16 << 10, headBytes: 64 << 10, fields: 256)
}

extension TransportError {
    /// An error for a message that violates the protocol.
    ///
    /// - Parameters:
    ///   - message: The description of the error.
    ///   - status: The status code of a server's response to such a message.
    static func malformed(_ message: String, status: Int = 400) -> TransportError {
        TransportError(.protocolViolation, message, status: status)
    }
}
