/// The messages of a protocol over HTTP requests, seen from the server: a value without I/O, which ``ServedHTTPMessagesMachine`` asks.
///
/// A client has one request at a time that waits for messages: a stream, which is answered in pieces, or a poll, which is answered as a
/// whole. Its other requests bring messages.
package protocol ServedHTTPMessagesRules: Sendable {
    /// The time in which a client must send another request that waits for messages, after the end of the previous one. Zero ends the
    /// connection with its first stream.
    var orphanTimeout: Duration { get }

    /// Whether the connection ends when the client gives up a request that waits for messages. By default, only if ``orphanTimeout`` is zero.
    var endsWithLostRequest: Bool { get }

    /// The time after which a poll without messages is answered; `nil` for none.
    var pollTimeout: Duration? { get }

    /// The time in which a client takes the last messages of a connection that the owner has closed, and the end. By default, 5 seconds.
    var closeTimeout: Duration { get }

    /// The number of bytes of a stream, without its first piece, after which it ends, and the client is expected to open another one; `nil` for no
    /// limit.
    var streamLimit: Int? { get }

    /// Decides about a request that waits for messages.
    mutating func waiting(_ request: HTTPRequestHead) -> HTTPWaitingAnswer

    /// Decides about a request that waits for messages while another one does.
    mutating func waitingTwice(_ request: HTTPRequestHead) -> HTTPSecondRequest

    /// Encodes messages into the body of a poll, or into a part of a stream.
    ///
    /// - Parameters:
    ///   - messages: The messages that wait, oldest first; at least one.
    ///   - body: The encoded messages are appended to it.
    /// - Returns: The number of messages that were encoded, at least one.
    mutating func encode(_ messages: ArraySlice<TransportMessage>, into body: inout SharedBody) -> Int

    /// Returns the head of the answer to a poll.
    ///
    /// - Parameter body: The encoded messages; empty if the time limit of the poll is up.
    mutating func head(of body: SharedBody) -> HTTPResponseHead

    /// Returns the answer to a poll that another request replaces. By default, an answer without messages.
    mutating func replaced() -> HTTPResponse

    /// Returns the answer to a poll whose connection ends otherwise than with ``ending(_:reason:)``. By default, a rejection.
    ///
    /// - Parameter reason: `nil` if the owner has abandoned the connection.
    mutating func ended(_ reason: CloseReason?) -> HTTPResponse

    /// Returns the answer that ends a connection: to a poll as a whole, or the last part of a stream as its body.
    mutating func ending(_ code: CloseCode, reason: String) -> HTTPResponse

    /// Decodes the body of a request that brings messages.
    ///
    /// - Parameters:
    ///   - body: The body.
    ///   - request: The head of the request.
    ///   - batch: The messages are appended to it.
    /// - Returns: The answer, and whether the client has ended the connection.
    /// - Throws: An error that ends the connection.
    mutating func received(
        _ body: [UInt8], _ request: HTTPRequestHead, into batch: inout MessageBatch
    ) throws(TransportError) -> (answer: HTTPResponse, end: CloseReason?)

    /// Returns the answer to a request whose connection has ended, or which ends it because of an error.
    mutating func rejection(_ error: TransportError?) -> HTTPResponse
}

extension ServedHTTPMessagesRules {
    package var endsWithLostRequest: Bool { self.orphanTimeout <= .zero }
    package var closeTimeout: Duration { .seconds(5) }
    package mutating func replaced() -> HTTPResponse { self.answer() }
    /// Returns the answer to a poll without messages.
    package mutating func answer() -> HTTPResponse { HTTPResponse(self.head(of: SharedBody())) }
    package mutating func ended(_ reason: CloseReason?) -> HTTPResponse { self.rejection(nil) }
}

/// How a server answers a request that waits for messages.
package enum HTTPWaitingAnswer: Sendable {
    /// The request is answered as soon as there are messages.
    case poll
    /// The request is answered immediately, for example because it opens the connection.
    case respond(HTTPResponse)
    /// The request is answered in pieces, of which the first one may be empty.
    case stream(HTTPResponseHead, first: [UInt8])
}

/// The answer to a request that waits for messages while another one does.
package enum HTTPSecondRequest: Sendable {
    /// The earlier poll has the answer of ``ServedHTTPMessagesRules/replaced()``, or the earlier stream ends, and the new request takes its
    /// place.
    case replaces
    /// The new request has this answer, and the earlier one goes on waiting.
    case isRefused(HTTPResponse)
    /// The new request has this answer, and the connection ends.
    case ends(HTTPResponse, TransportError)
}
