package import RealtimeCore

#if canImport(Network)
import Network
#endif

/// The use of a socket by one connection of an engine, of which a socket has many, one after the other.
///
/// Calls have no effect after ``disconnect(with:)`` and ``abandon()``, and after another use has begun. A socket with methods of its own, such
/// as a mock, receives the calls through its public methods. Then another thread may begin a use between the decision and the call.
package struct SocketUse: Sendable {
    /// The socket.
    package let socket: NWWebSocket
    private let number: UInt64

    /// Begins a use of a socket, and ends the one before.
    package init(_ socket: NWWebSocket) {
        self.socket = socket
        self.number = socket.beginUse()
    }

    private var isOverridden: Bool { type(of: self.socket) != NWWebSocket.self }

    /// Connects. A connection of an earlier use is closed.
    package func connect() {
        guard self.isOverridden else { return self.socket.connect(for: self.number) }
        guard self.socket.state(of: self.number) == .current else { return }
        self.socket.connect()
        // A use that ended meanwhile may have disconnected a socket that wasn't connecting yet.
        if self.socket.state(of: self.number) == .over { self.socket.disconnect(closeCode: .protocolCode(.goingAway)) }
    }

    /// Sends a text message.
    package func send(_ text: String) {
        guard self.isOverridden else { return self.socket.send(.text(text), for: self.number) }
        if self.socket.state(of: self.number) == .current { self.socket.send(string: text) }
    }

    /// Disconnects, which the socket reports to its delegate.
    ///
    /// - Returns: Whether the socket had a connection of this use.
    package func disconnect(with code: CloseCode) -> Bool {
        guard self.isOverridden else { return self.socket.disconnect(code, for: self.number) }
        guard self.socket.endUse(self.number) else { return false }
        self.socket.disconnect(closeCode: .init(code))
        return true
    }

    /// Ends the connection without a close frame and without a report to the delegate. A socket with methods of its own is disconnected.
    package func abandon() {
        guard self.isOverridden else { return self.socket.abandon(for: self.number) }
        if self.socket.endUse(self.number) { self.socket.disconnect(closeCode: .protocolCode(.goingAway)) }
    }
}
