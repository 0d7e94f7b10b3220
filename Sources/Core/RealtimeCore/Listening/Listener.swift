/// A type that accepts the connections of a server: HTTP requests and WebSocket upgrades on one port, or in memory.
public protocol Listener: Sendable {
    /// Starts accepting connections.
    ///
    /// - Parameter handler: The object that receives requests and connections. The listener retains it until ``stop()`` has returned.
    /// - Returns: The address on which the listener accepts connections.
    /// - Throws: A ``TransportError``, for example ``TransportError/Code/addressInUse`` if another listener uses the address.
    func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress

    /// Stops accepting connections, rejects undecided upgrades, closes every WebSocket with code 1001, and gives requests in progress a short time to complete. Returns
    /// when all connections have ended.
    func stop() async
}

/// The address on which a listener accepts connections.
public struct ListenerAddress: Sendable, Hashable {
    /// The host name or IP address.
    public var host: String
    /// The port. If the listener was created with port 0, this is the port that was assigned.
    public var port: Int
    /// Whether clients must connect with TLS.
    public var isSecure: Bool

    /// Creates an address.
    ///
    /// - Parameters:
    ///   - host: The host name or IP address.
    ///   - port: The port.
    ///   - isSecure: Whether clients must connect with TLS.
    public init(host: String, port: Int, isSecure: Bool = false) {
        self.host = host
        self.port = port
        self.isSecure = isSecure
    }
}

/// A type that handles the requests and connections that a listener accepts.
///
/// A handler for HTTP requests only needs ``received(_:body:responder:)``: by default, all WebSocket upgrades are rejected.
///
/// The methods are called on the listener's threads and should return quickly. Calls for the same connection are serial and in order;
/// calls for different connections may be concurrent.
public protocol ListenerHandler: AnyObject, Sendable {
    /// Handles an HTTP request that isn't a WebSocket upgrade.
    ///
    /// - Parameters:
    ///   - request: The head of the request.
    ///   - body: The complete body.
    ///   - responder: An object that sends the response, immediately or later, from any thread.
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder)

    /// Decides whether to accept a WebSocket upgrade.
    ///
    /// By default, rejects the upgrade with the status 404.
    ///
    /// - Parameter request: The head of the upgrade request.
    /// - Returns: The object that takes the connection, the response to send instead, or ``UpgradeDecision/later(_:)`` if the decision takes
    ///   time.
    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision

    /// Returns the maximum size of a request's body that the handler can use, in bytes.
    ///
    /// A listener keeps the parts of a body until it is complete, so a limit that fits the request saves memory: a request that the handler
    /// refuses in any case needs no large body. The listener's own limit applies if it is smaller, or if this one is `nil`, which is the
    /// default. A request with a larger body is answered with the status 413, and the handler doesn't receive it. Called once, before the
    /// body is read, on the listener's thread.
    ///
    /// - Parameter request: The head of the request.
    func bodyLimit(for request: HTTPRequestHead) -> Int?
}

extension ListenerHandler {
    /// Rejects the upgrade with the status 404.
    public func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        .reject(
            HTTPResponse(
                status: 404, headers: ["Content-Type": "text/plain; charset=utf-8"], text: "There is no WebSocket at this address.\n"))
    }

    /// Returns `nil`: the listener's limit applies.
    public func bodyLimit(for request: HTTPRequestHead) -> Int? { nil }
}

/// A type that sends the response to one HTTP request, from any thread.
///
/// A response is sent either as a whole, with ``respond(_:)``, or in chunks, with ``begin(_:)``, ``write(_:)`` or ``send(_:)``, and
/// ``end()``. Only the first response is sent; calls for another one have no effect.
public protocol HTTPResponder: AnyObject, Sendable {
    /// Sends a complete response.
    func respond(_ response: HTTPResponse)
    /// Sends the head of a response whose body follows in chunks.
    func begin(_ head: HTTPResponseHead)
    /// Sends a chunk of the body without waiting. If the client reads slowly, the chunk is buffered in memory. Has no effect after the
    /// client has disconnected.
    func write(_ bytes: [UInt8])
    /// Sends a chunk of the body, and waits until earlier chunks have been sent if too many of them are buffered. This way, a body of any
    /// length needs little memory.
    ///
    /// Chunks sent by one task keep their order. A client that stops reading is disconnected after the listener's time limit, which ends
    /// the wait. An in-memory connection waits while its client has paused reading.
    ///
    /// - Parameter bytes: The chunk. It isn't sent if the call throws.
    /// - Throws: ``TransportError/Code/closed`` if the client has disconnected or the response has ended,
    ///   ``TransportError/Code/unsupported`` if ``begin(_:)`` wasn't called, and ``TransportError/Code/cancelled`` immediately if the task
    ///   is cancelled.
    func send(_ bytes: [UInt8]) async throws(TransportError)
    /// Ends the body.
    func end()
    /// Registers a closure for when too much of the response waits for a client that reads slowly, and for when everything has been sent.
    ///
    /// The server should write nothing while writing is paused, as with ``MessageEvents/writing(_:paused:)``. A response that grows beyond
    /// the listener's limit ends the connection.
    ///
    /// - Parameter change: A closure that is called on a thread of the listener when writing should pause, and when it can continue.
    func onWriting(_ change: @escaping @Sendable (_ paused: Bool) -> Void)
    /// Registers a closure for when the client disconnects before the end of the response.
    ///
    /// - Parameter action: A closure that is called once, on any thread; immediately if the client has disconnected already.
    func onDisconnect(_ action: @escaping @Sendable () -> Void)
}

extension HTTPResponder {
    /// Does nothing. The default for responders without flow control.
    public func onWriting(_ change: @escaping @Sendable (_ paused: Bool) -> Void) {}

    /// Sends a chunk of the body without waiting, like ``write(_:)``. The default for responders without flow control.
    public func send(_ bytes: [UInt8]) async throws(TransportError) { self.write(bytes) }
}

/// A responder that can end the client's connection in place of a response, for tests of clients.
package protocol DroppableResponder: HTTPResponder {
    /// Ends the connection, unless the response is complete.
    func drop()
}

/// The maximum size of a body for requests that bring no messages, or that are refused, in bytes.
package let bodyLimitWithoutMessages = 64 << 10

extension ListenerAddress: CustomStringConvertible {
    /// The host and the port, such as `127.0.0.1:8080`.
    public var description: String { "\(self.host.utf8.contains(UInt8(ascii: ":")) ? "[\(self.host)]" : self.host):\(self.port)" }
}
