/// Sends requests over HTTP.
public protocol HTTPTransport: Sendable {
    /// Sends the request and returns when the head of the answer is there; the body follows as it comes.
    ///
    /// Redirects are not followed: a `3xx` is an answer like any other. Cancelling the task ends the wait and the
    /// connection at once, with ``TransportError/Code/cancelled``.
    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse
}

/// An answer whose body is still coming.
public struct HTTPStreamedResponse: Sendable {
    /// Status and fields.
    public var head: HTTPResponseHead
    /// The body. Drop it to end the connection.
    public var body: any HTTPBody

    /// An answer, for a transport of your own.
    public init(_ head: HTTPResponseHead, body: any HTTPBody) {
        self.head = head
        self.body = body
    }
}

/// A body, piece by piece. The transport stops reading from the socket while nobody asks for the next piece.
public protocol HTTPBody: AnyObject, Sendable {
    /// The next piece, never empty; `nil` at the body's end. Throws when the connection ended before it, and when
    /// the task was cancelled. One task at a time may ask.
    func next() async throws(TransportError) -> [UInt8]?
}

extension HTTPTransport {
    /// Sends the request and waits for the whole answer.
    ///
    /// - Parameters:
    ///   - request: what to ask for.
    ///   - bodyLimit: the most bytes the body may have; more is ``TransportError/Code/tooLarge``.
    public func send(_ request: HTTPRequest, bodyLimit: Int = 4 << 20) async throws(TransportError) -> HTTPResponse {
        let response = try await self.open(request)
        var body: [UInt8] = []
        while let piece = try await response.body.next() {
            guard piece.count <= bodyLimit - body.count else {
                throw TransportError(
                    .tooLarge, "The answer of \(request.endpoint) has more than \(bodyLimit) bytes; raise the limit or ask for less.")
            }
            body += piece
        }
        return HTTPResponse(response.head, body: body)
    }
}
