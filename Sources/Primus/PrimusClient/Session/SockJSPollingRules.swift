import PrimusWire
package import RealtimeCore

/// A session of SockJS over HTTP: one response with many frames, which is asked for again when it has become long, or one response for each
/// frame; and requests with the messages of the client.
///
/// Each frame arrives as the message that a WebSocket would carry, and messages are sent in the same form.
///
/// Source: the protocol description of SockJS 0.3.3.
package struct SockJSPollingRules: HTTPMessageConnectionRules {
    private let receiving: Endpoint
    private let sending: Endpoint
    private let headers: HTTPHeaders
    private let timeout: Duration
    package let isStream: Bool
    private var reader: SockJSFrameReader
    /// Whether the server has ended the session.
    private var isClosed = false
    /// The number of frames that open the session.
    private var openings = 0
    /// Whether the response in progress has a frame that can be read, and the first one that can't.
    private var (hasFrame, unreadable): (Bool, SockJSError?) = (false, nil)

    /// - Parameters:
    ///   - receiving: The address of the session with the transport `xhr` or `xhr_streaming`, and with the credentials.
    ///   - sending: That with the transport `xhr_send`.
    ///   - headers: The header fields of all requests.
    ///   - messageLimit: The maximum size of a frame in bytes.
    ///   - timeout: The time limit for a connection of a request, and for the answer to all but those that wait for frames.
    ///   - isStream: Whether a response has many frames.
    package init(
        _ receiving: Endpoint, sending: Endpoint, _ headers: HTTPHeaders, messageLimit: Int, timeout: Duration, isStream: Bool
    ) {
        (self.receiving, self.sending) = (receiving, sending)
        (self.headers, self.timeout, self.isStream) = (headers, timeout, isStream)
        // A stream begins with 2,048 letters that aren't a frame.
        self.reader = SockJSFrameReader(limit: max(2048, messageLimit))
    }

    /// Each frame has a limit.
    package var bodyLimit: Int? { nil }

    /// Servers forget a client that hasn't asked for 5 seconds, by default.
    ///
    /// A server ends a stream after 128 KiB, by default, but may have another limit or none. Its time begins when it has written the last
    /// part, so that all that it has is read together, unless that is very much.
    package var pausedPolling: HTTPPausedPolling? {
        HTTPPausedPolling(interval: .seconds(2), byteLimit: 16 << 20, share: self.isStream ? 1 << 20 : nil)
    }

    /// The client's limit for silence ends a connection whose server sends no heartbeats.
    package func receivingRequest() -> HTTPRequest {
        HTTPRequest("POST", self.receiving, headers: self.headers, connectTimeout: self.timeout, idleTimeout: .seconds(365 * 86400))
    }

    package func received(_ head: HTTPResponseHead) -> HTTPVerdict { head.status == 200 ? .proceed : .reject }

    package mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError) {
        let start = batch.entries.count
        do throws(SockJSError) {
            try self.reader.read(bytes, into: &batch)
        } catch {
            throw self.unreadable(error)
        }
        for entry in batch.entries[start...] { batch.bytes[entry.range].withUnsafeBytes { self.check($0) } }
    }

    /// Records whether a frame can be read. The content of messages is read when they are received.
    private mutating func check(_ bytes: UnsafeRawBufferPointer) {
        let (type, second, last) = (bytes.first, bytes.dropFirst().first, bytes.last)
        let isReadable: Bool
        switch type {
        case UInt8(ascii: "h"): isReadable = bytes.count == 1
        case UInt8(ascii: "o"):
            isReadable = bytes.count == 1
            self.openings += 1
        case UInt8(ascii: "a"):
            // The elements are strings, of which the session reads the others.
            let first = bytes.dropFirst(2).first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
            isReadable =
                bytes.count > 2 && second == UInt8(ascii: "[") && last == UInt8(ascii: "]")
                && (first == UInt8(ascii: "\"") || first == UInt8(ascii: "]"))
        case UInt8(ascii: "m"): isReadable = bytes.count > 2 && second == UInt8(ascii: "\"") && last == UInt8(ascii: "\"")
        case UInt8(ascii: "c"):
            let frame = try? SockJSFrame(parsing: bytes)
            isReadable = frame != nil
            if isReadable { self.isClosed = true }
        default: isReadable = false
        }
        if isReadable { self.hasFrame = true } else if self.unreadable == nil { self.unreadable = .unreadable(bytes) }
    }

    private func unreadable(_ error: SockJSError) -> TransportError {
        TransportError(.protocolViolation, "The answer of \(self.receiving.origin) can't be read: \(error.description)")
    }

    package func hasMessages(_ batch: borrowing MessageBatch) -> Bool {
        batch.entries.contains { entry in
            switch batch.bytes[entry.range].first {
            // An empty array has three bytes.
            case UInt8(ascii: "a"), UInt8(ascii: "m"): entry.range.count > 3
            case UInt8(ascii: "o"): self.openings == 1
            default: false
            }
        }
    }

    package mutating func bodyEnded(into batch: inout MessageBatch) throws(TransportError) -> HTTPVerdict {
        let partial = self.reader.reset()
        defer { (self.hasFrame, self.unreadable) = (false, nil) }
        // One frame that can't be read is ignored, and so is one that was cut. If there is no other, the answer isn't one of SockJS.
        if !self.hasFrame, let error = self.unreadable ?? partial.map({ $0.withUnsafeBytes { .unreadable($0) } }) {
            throw self.unreadable(error)
        }
        return self.isClosed ? .end(.transport(TransportError(.closed, "The server ended the session."))) : .proceed
    }

    package func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int) {
        var (arrays, size, count) = ([ArraySlice<UInt8>](), 0, 0)
        for message in messages {
            // A later message that is smaller must not overtake this one.
            if count > 0, size + message.bytes.count > Self.bodySize { break }
            // There are no ping frames. The answer to an empty array shows that the server is there.
            if message.kind == .text { arrays.append(message.bytes.dropFirst().dropLast()) }
            size += message.bytes.count
            count += 1
        }
        let body = [UInt8(ascii: "[")] + arrays.joined(separator: [UInt8(ascii: ",")]) + [UInt8(ascii: "]")]
        var headers = self.headers
        headers["Content-Type"] = "text/plain;charset=UTF-8"
        let request = HTTPRequest(
            "POST", self.sending, headers: headers, body: body, connectTimeout: self.timeout, idleTimeout: self.timeout)
        return (request, count)
    }

    /// The number of bytes after which no further message is added to the body of a request.
    private static let bodySize = 1 << 20

    package func sent(_ response: HTTPResponse) -> HTTPVerdict { response.isOfOtherService ? .reject : .proceed }

    /// SockJS has no message for the end. The server notices it when no request follows.
    package func closing(_ code: CloseCode, reason: String) -> HTTPClosing { .cancel }
}
