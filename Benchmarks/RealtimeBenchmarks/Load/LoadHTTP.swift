import RealtimeSockets

/// The HTTP requests that the load generator answers without a WebSocket.
enum LoadHTTP {
    /// The target of a request whose response is a stream of events, which bursts add to.
    static let stream = "/stream"
    /// The target of polls, which are answered immediately with ``messagesPerPoll`` events, each on a line.
    static let poll = "/poll"
    /// The target of other requests, whose response is an empty object.
    static let post = "/post"
    static let messagesPerPoll = 10

    /// The beginning of the response that is a stream.
    static let streamHead = Array(
        """
        HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
        Transfer-Encoding: chunked\r\n\r\n
        """.utf8)

    /// An event of the stream, in a chunk of its own as servers write it.
    static let streamEvent = Self.event(LoadMessage.text(channel: LoadMessage.channel(0)))

    /// Returns a Server-Sent Event in a chunk of its own.
    static func event(_ text: [UInt8]) -> [UInt8] {
        var chunk: [UInt8] = []
        HTTPEncoder.appendChunk(Array("data: ".utf8) + text + Array("\n\n".utf8), to: &chunk)
        return chunk
    }

    /// Returns the response to a request.
    static func answer(to target: String, keepsAlive: Bool) -> [UInt8] {
        if target == self.poll { return self.polled }
        return keepsAlive ? self.kept : self.closed
    }

    private static let kept = Self.response(Array("{}".utf8), type: "application/json")
    private static let closed = Self.response(Array("{}".utf8), type: "application/json", "Connection: close\r\n")
    static let notFound = Self.response([], "Connection: close\r\n", status: "404 Not Found")
    private static let polled: [UInt8] = {
        let line = LoadMessage.text(channel: LoadMessage.channel(0)) + [UInt8(ascii: "\n")]
        return Self.response(Array(repeatElement(line, count: Self.messagesPerPoll).joined()))
    }()

    static func response(_ body: [UInt8], type: String = "text/plain", _ field: String = "", status: String = "200 OK") -> [UInt8] {
        Array(
            """
            HTTP/1.1 \(status)\r\nContent-Type: \(type); charset=utf-8\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\(field)\
            Content-Length: \(body.count)\r\n\r\n
            """.utf8) + body
    }
}
