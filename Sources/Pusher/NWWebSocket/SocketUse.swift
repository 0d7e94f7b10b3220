package import RealtimeCore

#if canImport(Network)
import Network
#endif

/// An engine's connection that uses the transport of a socket directly. It receives the events instead of the delegate.
package protocol DirectUse: MessageEvents {
    /// The application has disconnected the socket.
    func socketDisconnected(_ code: CloseCode)
}

/// The use of a socket by one connection of an engine, of which a socket has many, one after the other.
///
/// An engine uses the transport of a socket directly if nothing can tell the difference; see ``direct(_:for:)``. Otherwise, it calls the
/// socket, whose delegate passes the events on to the engine.
///
/// Calls have no effect after ``disconnect(with:)`` and ``abandon()``, and after another use has begun. A socket with methods of its own, such
/// as a mock, receives the calls through its public methods. Then another thread may begin a use between the decision and the call.
package struct SocketUse: Sendable {
    /// The socket.
    package let socket: NWWebSocket
    private let number: UInt64
    /// The connection, if the transport is used directly.
    private let connection: (any MessageConnection)?

    /// Begins a use of a socket, and ends the one before.
    package init(_ socket: NWWebSocket) {
        self.init(socket: socket, number: socket.beginUse(), connection: nil)
    }

    private init(socket: NWWebSocket, number: UInt64, connection: (any MessageConnection)?) {
        self.socket = socket
        self.number = number
        self.connection = connection
    }

    /// Begins a direct use of the socket's transport, and ends the use before.
    ///
    /// - Parameters:
    ///   - socket: A socket for which ``NWWebSocket/NWWebSocket/isUsableDirectly(by:)`` is true.
    ///   - events: The object that receives the events, with IDs of the socket.
    /// - Returns: The use, and the connection before, which the caller closes.
    /// - Throws: A ``TransportError`` if the URL of the socket is invalid.
    package static func direct(
        _ socket: NWWebSocket, for events: any DirectUse
    ) throws(TransportError) -> (use: SocketUse, replaced: (any MessageConnection)?) {
        let (connection, number, replaced) = try socket.makeConnection(for: events)
        return (SocketUse(socket: socket, number: number, connection: connection), replaced)
    }

    /// Whether the transport is used directly.
    package var isDirect: Bool { self.connection != nil }

    private var isOverridden: Bool { type(of: self.socket) != NWWebSocket.self }

    /// Connects. A connection of an earlier use is closed.
    package func connect() {
        if let connection { return connection.open() }
        guard self.isOverridden else { return self.socket.connect(for: self.number) }
        guard self.socket.state(of: self.number) == .current else { return }
        self.socket.connect()
        // A use that ended meanwhile may have disconnected a socket that wasn't connecting yet.
        if self.socket.state(of: self.number) == .over { self.socket.disconnect(closeCode: .protocolCode(.goingAway)) }
    }

    /// Sends a text message, at the latest with ``flush()``.
    package func send(_ message: TransportMessage) {
        if let connection { return connection.enqueue(message) }
        guard self.isOverridden else { return self.socket.send(message, for: self.number) }
        if self.socket.state(of: self.number) == .current { self.socket.send(string: String(decoding: message.bytes, as: UTF8.self)) }
    }

    /// Sends the messages that wait.
    package func flush() { self.connection?.flush() }

    /// Stops reading from the network, if the transport is used directly.
    package func pauseReading() { self.connection?.pauseReading() }
    /// Resumes reading with the next ``flush()``.
    package func resumeReading() { self.connection?.resumeReading() }

    /// Disconnects, which is reported.
    ///
    /// - Returns: Whether the socket had a connection of this use.
    package func disconnect(with code: CloseCode) -> Bool {
        if let connection {
            connection.close(code, reason: "")
            return true
        }
        guard self.isOverridden else { return self.socket.disconnect(code, for: self.number) }
        guard self.socket.endUse(self.number) else { return false }
        self.socket.disconnect(closeCode: .init(code))
        return true
    }

    /// Ends the connection without a close frame and without a report. A socket with methods of its own is disconnected.
    package func abandon() {
        if let connection {
            connection.abandon()
            return self.socket.endUse(self.number, with: nil)
        }
        guard self.isOverridden else { return self.socket.abandon(for: self.number) }
        if self.socket.endUse(self.number) { self.socket.disconnect(closeCode: .protocolCode(.goingAway)) }
    }

    /// Ends the use if it is a direct one, because its connection has ended.
    package func ended(_ reason: CloseReason) { if self.isDirect { self.socket.endUse(self.number, with: reason) } }
}
