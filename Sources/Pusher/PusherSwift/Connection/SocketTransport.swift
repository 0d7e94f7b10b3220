import Foundation
import NWWebSocket
import PusherWire
import RealtimeCore
import RealtimeSystem

/// A reference to a connection that can be made before the connection.
final class ConnectionLink: Sendable {
    private let connection = Guarded<WeakConnection>(WeakConnection())

    private struct WeakConnection { weak var value: PusherConnection? }

    var value: PusherConnection? {
        get { self.connection.value.value }
        set { self.connection.update { $0.value = newValue } }
    }
}

/// The transport of the engine: it connects with the socket of the connection, which the application may have replaced.
struct SocketTransport: WebSocketTransport {
    let link: ConnectionLink

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any RealtimeCore.WebSocketConnection
    {
        SocketConnection(self.link, request, id, events)
    }
}

/// One connection of the engine, over a socket with a delegate.
final class SocketConnection: RealtimeCore.WebSocketConnection {
    private enum Phase: Sendable {
        case idle
        /// The socket has been asked to connect. Texts that arrive before it reports its success wait for it.
        case opening(NWWebSocket, early: [String])
        case open(NWWebSocket)
        case ended
    }

    private struct State: Sendable {
        var phase = Phase.idle
        var output: [String] = []
        /// Whether a thread is passing texts to the socket. Others leave theirs to it, so that texts keep their order.
        var isSending = false
    }

    private let link: ConnectionLink
    private let request: WebSocketRequest
    private let id: ConnectionID
    private let events: any WebSocketEvents
    private let state = Lock(State())

    init(_ link: ConnectionLink, _ request: WebSocketRequest, _ id: ConnectionID, _ events: any WebSocketEvents) {
        (self.link, self.request, self.id, self.events) = (link, request, id, events)
    }

    // MARK: Called by the engine

    func open() {
        guard let connection = self.link.value else { return self.closed(.transport(TransportError(.closed, "The client was released."))) }
        guard let socket = connection.attach(self, to: self.request.endpoint) else {
            return self.closed(.transport(TransportError(.unsupported, "The connection has no socket.")))
        }
        let opens = self.state.withLock { state in
            guard case .idle = state.phase else { return false }
            state.phase = .opening(socket, early: [])
            return true
        }
        guard opens else { return }
        // The delegate hears of the attempt before the socket does.
        connection.delivery.drainIfOnQueue()
        connection.callSocket { socket.connect() }
    }

    func enqueue(_ message: WebSocketMessage) {
        guard message.kind == .text else { return }
        self.state.withLock { $0.output.append(String(decoding: message.bytes, as: UTF8.self)) }
    }

    func flush() {
        while let (socket, texts) = self.takeOutput() {
            for text in texts {
                guard let connection = self.link.value else { continue }
                connection.log(Self.log(of: text))
                connection.callSocket { socket.send(string: text) }
            }
            self.state.withLock { $0.isSending = false }
        }
    }

    private func takeOutput() -> (NWWebSocket, [String])? {
        self.state.withLock { state in
            guard case .open(let socket) = state.phase, !state.isSending, !state.output.isEmpty else { return nil }
            defer { state.output = [] }
            state.isSending = true
            return (socket, state.output)
        }
    }

    /// Sends a text that isn't the engine's.
    ///
    /// - Returns: Whether the socket is connected.
    func send(_ text: String) -> Bool {
        let isOpen = self.state.withLock { state in
            guard case .open = state.phase else { return false }
            state.output.append(text)
            return true
        }
        if isOpen { self.flush() }
        return isOpen
    }

    // The socket reads on its own queue, and pauses when that falls behind.
    func pauseReading() {}
    func resumeReading() {}

    func close(_ code: CloseCode, reason: String) {
        self.flush()
        guard let socket = self.socket else { return }
        if let connection = self.link.value {
            connection.callSocket { socket.disconnect(with: code) }
        } else {
            socket.disconnect(with: code)
        }
    }

    func abandon() {
        let socket = self.socket
        self.state.withLock { $0.phase = .ended }
        self.link.value?.detach(self)
        socket?.abandon()
    }

    private var socket: NWWebSocket? {
        self.state.withLock { state in
            switch state.phase {
            case .opening(let socket, _), .open(let socket): socket
            case .idle, .ended: nil
            }
        }
    }

    // MARK: Called by the delegate of the socket

    /// Whether the events of a socket are those of this connection.
    func isConnected(over socket: AnySocket) -> Bool { self.socket === (socket as AnyObject) }

    func opened() {
        let early = self.state.withLock { state -> [String]? in
            guard case .opening(let socket, let early) = state.phase else { return nil }
            state.phase = .open(socket)
            return early
        }
        guard let early else { return }
        self.events.opened(self.id, head: HTTPResponseHead(status: 101, reason: "", headers: [:]))
        for text in early { self.pass(WebSocketMessage.text(text)) }
        self.flush()
    }

    func received(_ text: String) {
        let isOpen = self.state.withLock { state in
            switch state.phase {
            case .opening(let socket, let early):
                state.phase = .opening(socket, early: early + [text])
                return false
            case .open: return true
            case .idle, .ended: return false
            }
        }
        if isOpen { self.pass(.text(text)) }
    }

    func receivedPong() { self.pass(WebSocketMessage(.pong, [])) }

    func closed(_ reason: CloseReason) {
        let isFirst = self.state.withLock { state in
            defer { state.phase = .ended }
            if case .ended = state.phase { return false }
            return true
        }
        guard isFirst else { return }
        self.link.value?.detach(self)
        self.events.closed(self.id, reason)
    }

    private func pass(_ message: WebSocketMessage) { self.events.received(self.id, MessageBatch([message])) }

    private static func log(of text: String) -> LogText {
        // The engine's own texts have no spaces, and begin with the name of the event.
        if text.hasPrefix(#"{"event":"pusher:ping""#) { return .pingSent }
        return text.hasPrefix(#"{"event":"client-"#) ? .sentClientEvent(text) : .sentEvent(text)
    }
}
