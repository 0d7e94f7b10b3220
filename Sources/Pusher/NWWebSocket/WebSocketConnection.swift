public import Foundation
#if canImport(Network)
public import Network
#endif

/// A WebSocket with a delegate.
public protocol WebSocketConnection {
    /// Connects. Has no effect while the socket is connecting or connected.
    func connect()
    /// Sends a text message.
    ///
    /// - Parameter string: The text.
    func send(string: String)
    /// Sends a binary message.
    ///
    /// - Parameter data: The bytes.
    func send(data: Data)
    /// Receives messages. A socket of this package always does; the method exists for compatibility.
    func listen()
    /// Sends pings at intervals, until the connection ends.
    ///
    /// - Parameter interval: The time between two pings in seconds.
    func ping(interval: TimeInterval)
    /// Sends a ping.
    func ping()
    /// Disconnects.
    ///
    /// - Parameter closeCode: The close code that the server receives.
    func disconnect(closeCode: NWProtocolWebSocket.CloseCode)
    /// The object that receives the events of the socket.
    var delegate: (any WebSocketConnectionDelegate)? { get set }
}

/// An object that receives the events of a WebSocket.
///
/// The methods are called on the queue of the socket, in the order of the events.
public protocol WebSocketConnectionDelegate: AnyObject {
    /// The socket is connected.
    ///
    /// - Parameter connection: The socket.
    func webSocketDidConnect(connection: any WebSocketConnection)
    /// The connection was closed, by the server or by `disconnect(closeCode:)`.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - closeCode: The close code.
    ///   - reason: The explanation of the server, if any.
    func webSocketDidDisconnect(connection: any WebSocketConnection, closeCode: NWProtocolWebSocket.CloseCode, reason: Data?)
    /// The network path became usable or unusable.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - isViable: Whether the path is usable.
    func webSocketViabilityDidChange(connection: any WebSocketConnection, isViable: Bool)
    /// The socket attempted to use a better network path. The sockets of this package don't.
    ///
    /// - Parameter result: The socket, or the reason of the failure.
    func webSocketDidAttemptBetterPathMigration(result: Result<any WebSocketConnection, NWError>)
    /// The connection was lost without a close frame, or couldn't be established.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - error: The reason.
    func webSocketDidReceiveError(connection: any WebSocketConnection, error: NWError)
    /// The server answered a ping.
    ///
    /// - Parameter connection: The socket.
    func webSocketDidReceivePong(connection: any WebSocketConnection)
    /// A text message arrived.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - string: The text.
    func webSocketDidReceiveMessage(connection: any WebSocketConnection, string: String)
    /// A binary message arrived.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - data: The bytes.
    func webSocketDidReceiveMessage(connection: any WebSocketConnection, data: Data)
}
