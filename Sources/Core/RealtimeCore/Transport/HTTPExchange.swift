/// An identifier of an exchange, chosen by its owner.
///
/// An owner that sends several requests numbers them, so that it can recognize and ignore late events of an exchange that it has given up.
public struct ExchangeID: Hashable, Sendable, CustomStringConvertible {
    /// The number of the exchange.
    public var rawValue: UInt64

    /// Creates an identifier from a number.
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// The number with a number sign, for example `#3`.
    public var description: String { "#\(self.rawValue)" }
}

/// An HTTP request and its response. All methods can be called on any thread, and none of them blocks.
///
/// ``pauseReading()`` may be called under a lock. It must not perform I/O or call ``HTTPExchangeEvents``. The other methods are called
/// without a lock, since a transport may report events before they return.
public protocol HTTPExchange: AnyObject, Sendable {
    /// Sends the request. Has no effect after the first call, or after ``cancel()``.
    func start()
    /// Stops reading the response soon. What was read already is still delivered. The request's `idleTimeout` doesn't apply while reading is
    /// paused.
    func pauseReading()
    /// Resumes reading the response.
    func resumeReading()
    /// Ends the exchange and closes its connection. No events follow, except for those that another thread is delivering.
    func cancel()
}

/// An exchange that knows the clock of its transport.
package protocol TimedExchange: HTTPExchange {
    /// The clock; `nil` if the transport below has none that is known.
    var time: (any TimeSource)? { get }
}

/// A type that receives the events of exchanges.
///
/// The methods are called on a thread of the transport, one at a time for each exchange, and should return quickly. The transport holds no
/// lock, so they may call the exchange.
public protocol HTTPExchangeEvents: AnyObject, Sendable {
    /// The head of the response has arrived. Called once, before the body.
    func received(_ head: HTTPResponseHead, of id: ExchangeID)
    /// A part of the body has arrived. It isn't empty.
    func received(_ body: [UInt8], of id: ExchangeID)
    /// The exchange has ended. Called once, last, and not after ``HTTPExchange/cancel()``.
    ///
    /// - Parameters:
    ///   - id: The ID of the exchange.
    ///   - error: The reason why the response is missing or incomplete, or `nil` if it is complete.
    func ended(_ id: ExchangeID, _ error: TransportError?)
}

/// A receiver of the events of exchanges that copies the parts of a body that it keeps. A transport calls either method for a part.
package protocol HTTPExchangeBytesEvents: HTTPExchangeEvents {
    /// A part of the body has arrived. It isn't empty, and is valid during the call only.
    func received(_ body: UnsafeRawBufferPointer, of id: ExchangeID)
}

extension HTTPExchangeBytesEvents {
    package func received(_ body: [UInt8], of id: ExchangeID) { body.withUnsafeBytes { self.received($0, of: id) } }
}

/// A transport that reports the response to a request as it arrives, without a task.
///
/// The package's own transports are of this type. A transport of an application may be one, and has the implementation of
/// ``HTTPTransport/open(_:)`` then. Otherwise, the package starts a task for each request whose response is needed as it arrives.
public protocol HTTPExchangeTransport: HTTPTransport {
    /// Creates an exchange without performing I/O. May be called under a lock.
    ///
    /// An exchange whose request can't be sent, for example because a header field contains a line break, ends with an error when it is
    /// started.
    ///
    /// - Parameters:
    ///   - request: The request to send.
    ///   - id: The ID of the exchange in calls to `events`.
    ///   - events: The object that receives the events. The exchange retains it until the exchange has ended or was cancelled.
    /// - Returns: An exchange that sends the request when ``HTTPExchange/start()`` is called.
    func makeExchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange
}

extension HTTPExchangeTransport {
    /// Sends a request and returns as soon as the head of the response has arrived.
    ///
    /// The body is read ahead, up to 256 KiB. The request's `idleTimeout` doesn't apply while the transport has stopped reading because the
    /// body is read too slowly.
    ///
    /// - Parameter request: The request to send.
    /// - Returns: The head of the response, and the body, which is read as it arrives. Releasing the body closes the connection.
    /// - Throws: A ``TransportError`` with the code ``TransportError/Code/cancelled`` if the task is cancelled, which closes the connection;
    ///   otherwise, the error that prevented the response.
    public func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        let reader = ResponseReader(request.endpoint)
        let body = ResponseBody(reader)
        let exchange = self.makeExchange(request, id: ExchangeID(rawValue: 0), events: reader)
        let head = try await reader.head(
            of: exchange, limit: request.limitsHead ? (request.idleTimeout + request.connectTimeout, request.body.count) : nil)
        return HTTPStreamedResponse(head, body: body)
    }
}

extension HTTPTransport {
    /// Creates an exchange over any transport, with a task for transports that need one.
    package func exchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange {
        if let transport = self as? any HTTPExchangeTransport { return transport.makeExchange(request, id: id, events: events) }
        return TaskExchange(request, over: self, id, events)
    }
}
