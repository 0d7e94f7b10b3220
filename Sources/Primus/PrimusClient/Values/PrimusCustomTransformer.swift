public import RealtimeCore

/// A transformer of the application, for a server with the same one: how packets travel in the messages of a WebSocket.
///
/// Its methods are called on the threads of the transport, one at a time for each direction of a connection, and never under a lock of the
/// client. They should return quickly.
public protocol PrimusCustomTransformer: Sendable {
    /// The name, for errors.
    var name: String { get }

    /// Returns the URL of the WebSocket.
    ///
    /// - Parameter endpoint: The URL of the server, with its path and query.
    func webSocket(_ endpoint: Endpoint) -> Endpoint

    /// Returns the packets in a message of the WebSocket, in order.
    ///
    /// - Throws: An error if the message isn't valid. The message is ignored then, and the client reports an error with the code
    ///   ``PrimusError/Code/invalidMessage`` and this error as its cause; the connection remains.
    func packets(in message: TransportMessage) throws -> [TransportMessage]

    /// Returns the message that carries a packet.
    func message(for packet: TransportMessage) -> TransportMessage
}

extension PrimusCustomTransformer {
    /// Keeps the URL.
    public func webSocket(_ endpoint: Endpoint) -> Endpoint { endpoint }
}
