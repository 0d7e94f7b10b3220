import RealtimeSystem

/// A type that sends HTTP requests. A refinement, ``HTTPExchangeTransport``, reports responses without a task.
public protocol HTTPTransport: Sendable {
    /// Sends a request and returns as soon as the head of the response has arrived. The body follows as it arrives.
    ///
    /// Redirects aren't followed: a response with a 3xx status is returned like any other.
    ///
    /// - Parameter request: The request to send.
    /// - Returns: The head of the response and its body, which is still arriving.
    /// - Throws: A ``TransportError`` if no response arrived. When the task is cancelled, the connection is closed and the call throws
    ///   ``TransportError/Code/cancelled`` immediately.
    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse
}

/// A response whose body is still arriving.
public struct HTTPStreamedResponse: Sendable {
    /// The status and the header fields.
    public var head: HTTPResponseHead
    /// The body. Releasing the last reference to it closes the connection.
    public var body: any HTTPBody

    /// Creates a response. Used by custom transports.
    ///
    /// - Parameters:
    ///   - head: The status and the header fields.
    ///   - body: The body.
    public init(_ head: HTTPResponseHead, body: any HTTPBody) {
        self.head = head
        self.body = body
    }

    /// Creates a response whose body has arrived. Used by custom transports.
    public init(_ response: HTTPResponse) {
        self.init(response.head, body: CompleteBody(response.body))
    }
}

/// A body that has arrived.
private final class CompleteBody: HTTPBody {
    private let bytes: Lock<[UInt8]>

    init(_ bytes: [UInt8]) {
        self.bytes = Lock(bytes)
    }

    func next() async throws(TransportError) -> [UInt8]? {
        self.bytes.withLock { bytes in
            defer { bytes = [] }
            return bytes.isEmpty ? nil : bytes
        }
    }
}

/// The body of a response, received in chunks. The transport reads from the network only as chunks are requested.
public protocol HTTPBody: AnyObject, Sendable {
    /// Returns the next chunk. Only one task may wait at a time.
    ///
    /// - Returns: A chunk that isn't empty; `nil` at the end of the body.
    /// - Throws: A ``TransportError`` if the connection ended before the body was complete, and ``TransportError/Code/cancelled`` if the
    ///   task is cancelled.
    func next() async throws(TransportError) -> [UInt8]?
}

extension HTTPTransport {
    /// Sends a request and waits for the complete response.
    ///
    /// The response has to make progress: the time limit for the head is the sum of the request's time limits, and a second more for each KiB of the
    /// request's body; that for the body is the request's `idleTimeout`, and a second more for each KiB that has arrived. A transport of an
    /// application limits the time for the head itself.
    ///
    /// - Parameters:
    ///   - request: The request to send.
    ///   - bodyLimit: The maximum size of the body in bytes.
    /// - Returns: The response with its body.
    /// - Throws: ``TransportError/Code/tooLarge`` if the body exceeds `bodyLimit`, and ``TransportError/Code/timedOut`` if it arrives too
    ///   slowly; otherwise as ``open(_:)`` and ``HTTPBody/next()``.
    public func send(_ request: HTTPRequest, bodyLimit: Int = 4 << 20) async throws(TransportError) -> HTTPResponse {
        var request = request
        request.limitsHead = true
        return try await self.open(request).complete(from: request.endpoint, idleTimeout: request.idleTimeout, bodyLimit: bodyLimit)
    }
}

extension HTTPStreamedResponse {
    /// Waits for the complete body, which has to make progress; see ``AnswerLimit``.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint of the request.
    ///   - idleTimeout: The time limit for silence, within which a transport ends the body with an error.
    ///   - bodyLimit: The maximum size of the body in bytes.
    ///   - now: The clock for the body of a transport that has no clock of its own.
    /// - Throws: ``TransportError/Code/tooLarge`` if the body exceeds `bodyLimit`, and ``TransportError/Code/timedOut`` if it arrives too
    ///   slowly; otherwise as ``HTTPBody/next()``.
    package func complete(
        from endpoint: Endpoint, idleTimeout: Duration, bodyLimit: Int = 4 << 20, now: () -> Instant = { .sinceStart }
    ) async throws(TransportError) -> HTTPResponse {
        let isLimited = (self.body as? ResponseBody)?.limitRest(idleTimeout) ?? (self.body is CompleteBody)
        var (last, body) = (isLimited ? .max : now(), [UInt8]())
        var limit = AnswerLimit(idleTimeout, now: last)
        while let chunk = try await self.body.next() {
            // The body of an application's transport is checked as it arrives. What arrives after a longer silence than the transport allows
            // has waited, while the process stood still.
            if !isLimited {
                let now = now()
                if last.advanced(by: idleTimeout) < now { _ = limit.restartAfterStandstill(now: now) }
                (last, limit.byteCount) = (now, limit.byteCount + chunk.count)
                guard now < limit.deadline else { throw AnswerLimit.error("\(endpoint)") }
            }
            guard chunk.count <= bodyLimit - body.count else {
                throw TransportError(
                    .tooLarge, "The response from \(endpoint) exceeds \(bodyLimit) bytes. Increase bodyLimit or request less data.")
            }
            body += chunk
        }
        return HTTPResponse(self.head, body: body)
    }
}

extension Instant {
    private static let start = ContinuousClock.now

    /// An instant of the system's clock, for durations.
    fileprivate static var sinceStart: Instant { Instant(nanoseconds: self.start.duration(to: .now).nanoseconds) }
}
