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

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        SocketConnection(self.link, request, id, events)
    }
}

/// One connection of the engine, over a socket: directly over its transport, or over its methods and its delegate.
///
/// With the library's own socket, messages go from the transport to the engine on the transport's thread. The delegate of a socket of the
/// application, such as a mock, passes them on where the application calls it.
final class SocketConnection: MessageConnection {
    private enum Phase: Sendable {
        case idle
        /// The socket has been asked to connect. Texts that arrive before it reports its success wait for it.
        case opening(SocketUse, early: [String])
        case open(SocketUse)
        /// The socket is disconnected with the code after the output was sent. Without a code, it has been.
        case closing(SocketUse, CloseCode?)
        case ended

        var use: SocketUse? {
            switch self {
            case .opening(let use, _), .open(let use), .closing(let use, _): use
            case .idle, .ended: nil
            }
        }
    }

    private enum Step: Sendable {
        case send(SocketUse, TransportMessage)
        case disconnect(SocketUse, CloseCode)
    }

    private struct State: Sendable {
        var phase = Phase.idle
        var output = FIFO<TransportMessage>()
        /// Whether a thread is calling the socket. Others leave their messages to it, so that these keep their order.
        var isSending = false

        /// - Parameter continues: Whether the calling thread has performed the step before.
        mutating func nextStep(continues: Bool) -> Step? {
            guard continues || !self.isSending else { return nil }
            let step = self.takeStep()
            self.isSending = step != nil
            return step
        }

        private mutating func takeStep() -> Step? {
            switch self.phase {
            case .open(let use): return self.output.popFirst().map { .send(use, $0) }
            case .closing(let use, let code?):
                if let message = self.output.popFirst() { return .send(use, message) }
                self.phase = .closing(use, nil)
                return .disconnect(use, code)
            case .idle, .opening, .closing(_, nil), .ended: return nil
            }
        }
    }

    private let link: ConnectionLink
    private let request: WebSocketRequest
    private let id: ConnectionID
    private let events: any MessageEvents
    private let state = Lock(State())

    init(_ link: ConnectionLink, _ request: WebSocketRequest, _ id: ConnectionID, _ events: any MessageEvents) {
        (self.link, self.request, self.id, self.events) = (link, request, id, events)
    }

    // MARK: Called by the engine

    func open() {
        guard let connection = self.link.value else { return self.closed(.transport(TransportError(.closed, "The client was released."))) }
        guard let socket = connection.attach(self, to: self.request.endpoint) else {
            return self.closed(.transport(TransportError(.unsupported, "The connection has no socket.")))
        }
        // The delegate hears of the attempt before the socket does, and may end it.
        connection.drainIfOnQueue()
        let isDirect = socket.isUsableDirectly(by: connection)
        var replaced: (any MessageConnection)?
        do throws(TransportError) {
            let use = try self.state.withLock { state throws(TransportError) -> SocketUse? in
                guard case .idle = state.phase else { return nil }
                let use: SocketUse
                if isDirect { (use, replaced) = try SocketUse.direct(socket, for: self) } else { use = SocketUse(socket) }
                state.phase = .opening(use, early: [])
                return use
            }
            replaced?.close(.goingAway, reason: "")
            guard let use else {
                connection.detach(self)
                return
            }
            connection.callSocket { use.connect() }
        } catch {
            self.lost(.transport(error))
        }
    }

    func enqueue(_ message: TransportMessage) {
        guard message.kind == .text else { return }
        self.state.withLock { state in
            switch state.phase {
            case .idle, .opening, .open: state.output.append(message)
            case .closing, .ended: break
            }
        }
    }

    func flush() {
        var last: SocketUse?
        while let step = self.state.withLock({ $0.nextStep(continues: last != nil) }) {
            switch step {
            case .send(let use, let message):
                last = use
                guard let connection = self.link.value else { continue }
                connection.log(Self.log(of: message))
                connection.callSocket { use.send(message) }
            case .disconnect(let use, let code):
                last = use
                var isReported = false
                self.callSocket { isReported = use.disconnect(with: code) }
                if !isReported { self.closed(.requested) }
            }
        }
        // Also without a message, because reading resumes with it.
        (last ?? self.directUse)?.flush()
    }

    /// Sends a text that isn't the engine's.
    ///
    /// - Returns: Whether the socket is connected.
    func send(_ text: String) -> Bool {
        let isOpen = self.state.withLock { state in
            guard case .open = state.phase else { return false }
            state.output.append(.text(text))
            return true
        }
        if isOpen { self.flush() }
        return isOpen
    }

    // Another socket than the library's own reads on its own queue, and pauses when that falls behind.
    func pauseReading() { self.directUse?.pauseReading() }
    func resumeReading() { self.directUse?.resumeReading() }

    func close(_ code: CloseCode, reason: String) {
        let wasIdle = self.state.withLock { state in
            switch state.phase {
            case .idle: return true
            case .opening(let use, _): (state.phase, state.output) = (.closing(use, code), FIFO())
            case .open(let use): state.phase = .closing(use, code)
            case .closing, .ended: break
            }
            return false
        }
        if wasIdle { self.closed(.requested) } else { self.flush() }
    }

    func abandon() {
        let old = self.end()
        self.link.value?.detach(self)
        if let use = old.use { self.callSocket { use.abandon() } }
    }

    /// Whether the connection has neither begun nor ended.
    var isIdle: Bool { self.state.withLock { if case .idle = $0.phase { true } else { false } } }

    private var use: SocketUse? { self.state.withLock { $0.phase.use } }
    private var directUse: SocketUse? { self.use.flatMap { $0.isDirect ? $0 : nil } }

    /// - Returns: The phase before, which is released without the lock, as it may contain the last reference to the socket.
    private func end() -> Phase {
        self.state.withLock { state in
            defer { (state.phase, state.output) = (.ended, FIFO()) }
            return state.phase
        }
    }

    private func callSocket(_ body: () -> Void) {
        if let connection = self.link.value { connection.callSocket(body) } else { body() }
    }

    // MARK: Called by the delegate of the socket

    /// Whether the events of a socket belong to this connection.
    func isConnected(over socket: any WebSocketConnection) -> Bool { self.use.map { $0.socket === (socket as AnyObject) } ?? false }

    /// Whether messages arrive without the delegate.
    var isDirect: Bool { self.directUse != nil }

    func opened(head: HTTPResponseHead = HTTPResponseHead(status: 101, reason: "", headers: [:])) {
        let opened = self.state.withLock { state -> (use: SocketUse, early: [String])? in
            guard case .opening(let use, let early) = state.phase else { return nil }
            state.phase = .open(use)
            return (use, early)
        }
        guard let opened else { return }
        self.link.value?.queue.append(.opened(self, isDirect: opened.use.isDirect))
        self.events.opened(self.id, head: head)
        for text in opened.early { self.pass(TransportMessage.text(text)) }
        self.flush()
    }

    func received(_ text: String) {
        let isOpen = self.state.withLock { state in
            switch state.phase {
            case .opening(let use, let early):
                state.phase = .opening(use, early: early + [text])
                return false
            case .open: return true
            case .idle, .closing, .ended: return false
            }
        }
        if isOpen { self.pass(.text(text)) }
    }

    func receivedPong() { self.pass(TransportMessage(.pong, [])) }

    func closed(_ reason: CloseReason) {
        let old = self.end()
        if case .ended = old { return }
        old.use?.ended(reason)
        self.link.value?.ended(self, reason)
        self.events.closed(self.id, reason)
    }

    private func pass(_ message: TransportMessage) { self.events.received(self.id, MessageBatch([message])) }

    private static func log(of message: TransportMessage) -> LogText {
        let text = String(decoding: message.bytes, as: UTF8.self)
        // The engine's own texts have no spaces, and begin with the name of the event.
        if text.hasPrefix(#"{"event":"pusher:ping""#) { return .pingSent }
        return text.hasPrefix(#"{"event":"client-"#) ? .sentClientEvent(text) : .sentEvent(text)
    }
}

/// The events of a socket whose transport is used directly. The engine ignores late ones.
extension SocketConnection: DirectUse {
    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.opened(head: head) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        if batch.entries.contains(where: { $0.kind == .pong }) { self.link.value?.log(.pongReceived) }
        self.events.received(self.id, batch)
    }

    func writing(_ id: ConnectionID, paused: Bool) { self.events.writing(self.id, paused: paused) }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.lost(reason) }

    func socketDisconnected(_ code: CloseCode) {
        guard let use = self.use else { return }
        self.closed(.peer(code, ""))
        _ = use.disconnect(with: code)
    }

    private func lost(_ reason: CloseReason) {
        if case .ended = self.state.withLock({ $0.phase }) { return }
        switch reason {
        case .transport, .openTimeout, .heartbeatTimeout: self.link.value?.log(.transportError("Error: \(reason)"))
        case .peer, .requested: break
        }
        self.closed(reason)
    }
}
