public import Foundation
public import NWWebSocket
import PusherChannels
import struct RealtimeCore.CloseCode
import enum RealtimeCore.CloseReason
import struct RealtimeCore.TransportError
#if canImport(Network)
public import Network
#endif

/// The reports of a socket of the application, such as a mock, which calls these methods. Late reports of a socket that was replaced have no
/// effect. The library's own socket passes its messages on to the client without them.
extension PusherConnection: WebSocketConnectionDelegate {
    /// The socket is connected.
    ///
    /// - Parameter connection: The socket.
    public func webSocketDidConnect(connection: any WebSocketConnection) {
        if let current = self.current(connection) { self.report(.opened, of: current) }
    }

    /// The connection was closed.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - closeCode: The close code.
    ///   - reason: The explanation of the server, if any.
    public func webSocketDidDisconnect(
        connection: any WebSocketConnection, closeCode: NWProtocolWebSocket.CloseCode, reason: Data?
    ) {
        guard let current = self.current(connection) else { return }
        self.report(.closed(.peer(closeCode.number, reason.map { String(decoding: $0, as: UTF8.self) } ?? "")), of: current)
    }

    /// The network path became usable or unusable, which is logged.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - isViable: Whether the path is usable.
    public func webSocketViabilityDidChange(connection: any WebSocketConnection, isViable: Bool) {
        self.log(.viable(isViable))
        if isViable { self.engine.checkConnection() }
        self.drainIfOnQueue()
    }

    /// The socket attempted to use a better network path. A failure is logged. After a success, the connection is checked.
    ///
    /// - Parameter result: The socket, or the reason of the failure.
    public func webSocketDidAttemptBetterPathMigration(result: Result<any WebSocketConnection, NWError>) {
        switch result {
        case .success: self.engine.checkConnection()
        case .failure(let error): self.log(.transportError("Path migration error: \(error.debugDescription)"))
        }
        self.drainIfOnQueue()
    }

    /// The connection was lost or couldn't be established.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - error: The reason.
    public func webSocketDidReceiveError(connection: any WebSocketConnection, error: NWError) {
        let failure = (connection as? NWWebSocket)?.lastError
        self.log(.transportError("Error: \(failure?.message ?? error.debugDescription)"))
        guard let current = self.current(connection) else { return }
        let reason = failure ?? TransportError(.closed, "The connection was lost: \(error.debugDescription)")
        self.report(.closed(.transport(reason)), of: current)
    }

    /// The server answered a ping.
    ///
    /// - Parameter connection: The socket.
    public func webSocketDidReceivePong(connection: any WebSocketConnection) {
        self.log(.pongReceived)
        if let current = self.current(connection) { self.report(.pong, of: current) }
    }

    /// A text message arrived. It is handled before this method returns if it is called on the queue of the client, unless an event is being
    /// handled, or the library is calling the socket.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - string: The text.
    public func webSocketDidReceiveMessage(connection: any WebSocketConnection, string: String) {
        let current = self.current(connection)
        // Messages of a connection without the delegate are logged when they are handled.
        if current?.isDirect != true { self.log(.received(string)) }
        if current != nil || self.state.read({ $0.current }) == nil { self.report(.text(string), of: current) }
    }

    /// A binary message arrived, which is ignored.
    ///
    /// - Parameters:
    ///   - connection: The socket.
    ///   - data: The bytes.
    public func webSocketDidReceiveMessage(connection: any WebSocketConnection, data: Data) {}

    private func current(_ socket: any WebSocketConnection) -> SocketConnection? {
        guard let current = self.state.read({ $0.current }), current.isConnected(over: socket) else { return nil }
        return current
    }
}
