/// The messages of a protocol over HTTP requests, in place of a WebSocket: a value without I/O, which ``HTTPMessageConnectionMachine`` asks.
///
/// A connection has two loops. The receiving one sends a request, reads messages from the response, and sends the next request when the
/// response has ended: a stream is one long response, and polling is a sequence of short ones. The sending one has one request at a time,
/// with all messages that wait.
package protocol HTTPMessageConnectionRules: Sendable {
    /// Whether a response in the receiving loop lasts for as long as the server likes, and the protocol limits its silence. Otherwise, it ends when
    /// the server has sent what it has.
    var isStream: Bool { get }

    /// The maximum size of the body of a response in the receiving loop, in bytes. A larger one ends the connection, with an error.
    ///
    /// `nil` for a stream, and if the rules themselves limit what they keep of a body.
    var bodyLimit: Int? { get }

    /// How requests go on while reading is paused; `nil` if they don't.
    var pausedPolling: HTTPPausedPolling? { get }

    /// Returns the next request of the receiving loop. A transport doesn't repeat it, whatever its `isRepeatable` is.
    mutating func receivingRequest() -> HTTPRequest

    /// Decides about the head of a response in the receiving loop. The first one that isn't an end opens the connection.
    mutating func received(_ head: HTTPResponseHead) -> HTTPVerdict

    /// Decodes a part of the body of a response in the receiving loop.
    ///
    /// - Parameters:
    ///   - bytes: The part, which is valid during the call only.
    ///   - batch: The messages that are complete are appended to it.
    /// - Throws: An error that ends the connection.
    mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError)

    /// Returns whether decoded messages contain one of the application. A server that goes on answering immediately with anything else, such as
    /// heartbeats or the page of a proxy, is asked ever more slowly. By default, every message is one.
    func hasMessages(_ batch: borrowing MessageBatch) -> Bool

    /// Handles the end of the body of a response in the receiving loop.
    ///
    /// - Parameter batch: The messages that are complete with the body are appended to it.
    /// - Returns: Whether another request follows.
    /// - Throws: An error that ends the connection.
    mutating func bodyEnded(into batch: inout MessageBatch) throws(TransportError) -> HTTPVerdict

    /// Returns the next request of the sending loop.
    ///
    /// A ping needs a request as well: its answer is reported as a pong.
    ///
    /// - Parameter messages: The messages that wait, oldest first; at least one.
    /// - Returns: The request, and the number of messages in it, at least one.
    mutating func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int)

    /// Decides about a complete response in the sending loop, whose status is 2xx.
    mutating func sent(_ response: HTTPResponse) -> HTTPVerdict

    /// Decides how the connection ends that its owner closes, after everything was sent.
    mutating func closing(_ code: CloseCode, reason: String) -> HTTPClosing
}

extension HTTPMessageConnectionRules {
    package var pausedPolling: HTTPPausedPolling? { nil }
    package func hasMessages(_ batch: borrowing MessageBatch) -> Bool { !batch.entries.isEmpty }
}

extension HTTPResponse {
    /// Whether the body is a page of HTML or an object in JSON: the answer of a proxy or of another service, and not that of a server which has
    /// taken messages. The status says nothing: the page at which a user signs in to a network often has 200.
    package var isOfOtherService: Bool {
        // Also behind a byte order mark, with which files of some editors begin.
        let text = self.body.starts(with: ServerSentEventDecoder.byteOrderMark) ? self.body[3...] : self.body[...]
        let first = text.first {
            $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\t")
        }
        return first == UInt8(ascii: "<") || first == UInt8(ascii: "{")
    }
}

/// The requests of a receiving loop whose owner has paused reading, for a protocol whose server forgets a client that doesn't ask.
///
/// After each interval, the response that waits is read and delivered, and the next request is sent.
package struct HTTPPausedPolling: Sendable {
    package var interval: Duration
    /// The number of bytes that are delivered during a pause. Then the requests end, and the server may forget the client.
    package var byteLimit: Int
    /// The number of bytes of a response that are read after each interval; `nil` to read until its end, which a stream may not have.
    package var share: Int?

    package init(interval: Duration, byteLimit: Int, share: Int? = nil) {
        (self.interval, self.byteLimit, self.share) = (interval, byteLimit, share)
    }
}

/// How a connection over HTTP ends that its owner closes.
package enum HTTPClosing: Sendable {
    /// The request of the receiving loop is cancelled, which tells the server about the end.
    case cancel
    /// A request tells the server about the end. What is received meanwhile is ignored.
    case request(HTTPRequest)
    /// The session goes on over another connection: nothing tells the server about the end, and the response that the receiving loop
    /// waits for is still received, also while the owner has paused reading. If nothing of it arrives within the limit, the connection ends
    /// with an error. The messages that aren't sent yet are passed to ``HTTPMessageEvents/unsent(_:_:)``, if the owner has it.
    case finishReceiving(limit: Duration = HTTPMessageConnectionMachine.closeTimeout)
}

/// Whether a connection over HTTP continues after a response.
package enum HTTPVerdict: Sendable {
    case proceed
    /// The connection continues, and the next request of the receiving loop follows after a pause.
    case pause(Duration)
    case end(CloseReason)
    /// The connection ends with an error that contains the response, when its body has been read.
    case reject
}
