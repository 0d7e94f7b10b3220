/// Accepts a server's connections: plain HTTP requests and WebSocket upgrades on one port, or in memory.
public protocol Listener: Sendable {
    /// Begins to accept, and hands everything to `handler`, which is held until ``stop()`` has returned.
    func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress

    /// Stops accepting, closes every WebSocket with 1001, lets requests that are being answered finish for a short
    /// while, and returns when everything has ended.
    func stop() async
}

/// Where a listener can be reached.
public struct ListenerAddress: Sendable, Hashable {
    /// The host, `127.0.0.1` unless told otherwise.
    public var host: String
    /// The port, also when port 0 asked for any free one.
    public var port: Int
    /// Whether it speaks TLS.
    public var isSecure: Bool

    /// An address.
    public init(host: String, port: Int, isSecure: Bool = false) {
        self.host = host
        self.port = port
        self.isSecure = isSecure
    }
}

/// What a server does with what a listener accepts. Called on the listener's own thread; the calls for one
/// connection come one at a time.
public protocol ListenerHandler: AnyObject, Sendable {
    /// A whole plain HTTP request. Answer through `responder` now or later, from any thread.
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder)

    /// Somebody asks for a WebSocket.
    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision

    /// A WebSocket that was accepted is open. What it brings goes to the events that this returns.
    ///
    /// - Parameters:
    ///   - connection: the WebSocket, to send on.
    ///   - id: unique in this process.
    ///   - request: the request that asked for it.
    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents
}

/// How to answer somebody who asks for a WebSocket.
public enum UpgradeDecision: Sendable {
    /// Accept, and pick this one of the subprotocols that were offered.
    case accept(subprotocol: String?)
    /// Answer with this instead.
    case refuse(HTTPResponse)
}

/// Answers one plain request. Everything but the first answer is ignored.
public protocol HTTPResponder: AnyObject, Sendable {
    /// Answers with a whole body.
    func respond(_ response: HTTPResponse)
    /// Sends the head; the body follows in pieces of any number.
    func begin(_ head: HTTPResponseHead)
    /// Sends a piece of the body without waiting: for a client that reads slowly it is kept in memory. After the client
    /// has gone it does nothing.
    func write(_ bytes: [UInt8])
    /// Sends a piece of the body, and waits before that while too much of what was sent earlier has not left yet, so that
    /// an answer of any length needs little memory.
    ///
    /// It throws, and the piece is not sent, with `closed` when the client has gone or the answer has ended, with
    /// `unsupported` before ``begin(_:)``, and with `cancelled` at once when the task is cancelled. A client that reads
    /// nothing is cut off by the listener's limit, which ends the wait. Pieces of one task keep their order. In memory
    /// nothing has to wait.
    func send(_ bytes: [UInt8]) async throws(TransportError)
    /// Ends the body.
    func end()
    /// Calls `action` once when the client has gone before the end of the answer. At once if it already has.
    func onDisconnect(_ action: @escaping @Sendable () -> Void)
}

extension HTTPResponder {
    /// For a responder that has nobody to wait for: the same as ``write(_:)``.
    public func send(_ bytes: [UInt8]) async throws(TransportError) { self.write(bytes) }
}
