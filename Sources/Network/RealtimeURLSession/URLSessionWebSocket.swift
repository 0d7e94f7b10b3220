internal import RealtimeSystem
internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// One WebSocket of URLSession.
///
/// ```
///   new ──open──▶ connecting ──opened──▶ open ──close──▶ closing ──▶ ended
///                     └───── completed, abandon, in any state ────────▲
/// ```
final class URLSessionWebSocket: WebSocketConnection {
    private enum Phase: Sendable {
        case new, connecting, open
        /// The close frame is on its way as soon as nothing is unsent.
        case closing(CloseCode, String)
        case ended
    }

    private struct State: Sendable {
        var phase = Phase.new
        var events: (any WebSocketEvents)?
        var task: URLSessionWebSocketTask?
        var outgoing: [WebSocketMessage] = []
        /// One thread hands messages over at a time, or they could overtake each other.
        var isSending = false
        var unconfirmed = 0
        var isPaused = false
        var isReceiving = false
        var peerClose: (CloseCode, String)?
        var failure: (any Error)?
        var hasSentClose = false

        /// What is to be handed over now; whoever gets it sends it and then clears `isSending`.
        mutating func nextToSend() -> (URLSessionWebSocketTask, [WebSocketMessage])? {
            switch self.phase {
            case .open, .closing: break
            case .new, .connecting, .ended: return nil
            }
            guard !self.isSending, !self.outgoing.isEmpty, let task = self.task else { return nil }
            self.isSending = true
            defer { self.outgoing = [] }
            self.unconfirmed += self.outgoing.count
            return (task, self.outgoing)
        }
    }

    /// How long the peer has to answer a close frame.
    private static let closeLimit: TimeInterval = 5

    private let host: SharedURLSession
    private let request: WebSocketRequest
    private let id: ConnectionID
    private let state: Lock<State>

    init(_ host: SharedURLSession, _ request: WebSocketRequest, _ id: ConnectionID, _ events: any WebSocketEvents) {
        self.host = host
        self.request = request
        self.id = id
        self.state = Lock(State(events: events))
    }

    // MARK: From its owner

    func open() {
        let isNew = self.state.withLock { state in
            guard case .new = state.phase else { return false }
            state.phase = .connecting
            return true
        }
        guard isNew else { return }
        let request: URLRequest
        do throws(TransportError) {
            request = try self.upgradeRequest()
        } catch {
            self.host.perform { self.end(.transport(error)) }
            return
        }
        let task = self.host.session.webSocketTask(with: request)
        task.maximumMessageSize = self.request.messageLimit
        self.host.route(task, to: self)
        let isWanted = self.state.withLock { state in
            guard case .connecting = state.phase else { return false }
            state.task = task
            return true
        }
        // A task that was never resumed completes only when it is cancelled.
        if isWanted { task.resume() } else { task.cancel() }
    }

    func enqueue(_ message: WebSocketMessage) {
        self.state.withLock { state in
            switch state.phase {
            case .new, .connecting, .open: state.outgoing.append(message)
            case .closing, .ended: break
            }
        }
    }

    func flush() {
        while let (task, messages) = self.state.withLock({ $0.nextToSend() }) {
            for message in messages { self.send(message, task) }
            self.state.withLock { $0.isSending = false }
        }
        self.closeIfSent()
        self.receiveNext()
    }

    func pauseReading() { self.state.withLock { $0.isPaused = true } }

    func resumeReading() {
        self.state.withLock { $0.isPaused = false }
        self.host.perform { self.receiveNext() }
    }

    func close(_ code: CloseCode, reason: String) {
        let wasOpen = self.state.withLock { state -> Bool? in
            switch state.phase {
            case .new, .connecting: return false
            case .open:
                state.phase = .closing(code, reason)
                return true
            case .closing, .ended: return nil
            }
        }
        switch wasOpen {
        case true?:
            self.flush()
            DispatchQueue.global().asyncAfter(deadline: .now() + Self.closeLimit) { [weak self] in self?.giveUp() }
        case false?:
            let task = self.state.withLock { $0.task }
            self.host.perform { self.end(.requested) }
            task?.cancel()
        case nil: break
        }
    }

    func abandon() {
        let (task, events) = self.state.withLock { state -> (URLSessionWebSocketTask?, (any WebSocketEvents)?) in
            state.phase = .ended
            state.outgoing = []
            return (state.task.take(), state.events.take())
        }
        task?.cancel()
        // Its last reference may go here, outside the lock.
        _ = events
    }

    // MARK: Sending

    private func send(_ message: WebSocketMessage, _ task: URLSessionWebSocketTask) {
        switch message.kind {
        case .text: task.send(.string(String(decoding: message.bytes, as: UTF8.self))) { self.sent($0) }
        case .binary: task.send(.data(Data(message.bytes))) { self.sent($0) }
        case .ping:
            self.state.withLock { $0.unconfirmed -= 1 }
            task.sendPing { error in
                guard error == nil else { return }
                self.host.perform { self.deliver(WebSocketMessage(.pong, [])) }
            }
        case .pong:
            // The system answers pings by itself and sends no pong of ours.
            self.state.withLock { $0.unconfirmed -= 1 }
        }
    }

    /// A failure to send shows as the task's end.
    private func sent(_ error: (any Error)?) {
        self.state.withLock { $0.unconfirmed -= 1 }
        self.closeIfSent()
    }

    /// The system's close overtakes messages that it has not sent yet, so it waits for them.
    private func closeIfSent() {
        let close = self.state.withLock { state -> (URLSessionWebSocketTask, CloseCode, String)? in
            guard case .closing(let code, let reason) = state.phase, state.outgoing.isEmpty, !state.isSending, state.unconfirmed == 0,
                !state.hasSentClose, let task = state.task
            else { return nil }
            state.hasSentClose = true
            return (task, code, reason)
        }
        guard let (task, code, reason) = close else { return }
        let systemCode = URLSessionWebSocketTask.CloseCode(rawValue: Int(code.rawValue)) ?? .normalClosure
        task.cancel(with: systemCode, reason: reason.isEmpty ? nil : Data(reason.utf8))
    }

    private func giveUp() {
        self.state.withLock { $0.task }?.cancel()
        self.host.perform { self.end(.requested) }
    }

    // MARK: Receiving

    private func receiveNext() {
        let task = self.state.withLock { state -> URLSessionWebSocketTask? in
            guard case .open = state.phase, !state.isPaused, !state.isReceiving, let task = state.task else { return nil }
            state.isReceiving = true
            return task
        }
        task?.receive { result in
            self.host.perform {
                self.state.withLock { $0.isReceiving = false }
                switch result {
                case .success(.string(let text)): self.deliver(.text(text))
                case .success(.data(let data)): self.deliver(.binary([UInt8](data)))
                case .success: break
                case .failure(let error): return self.failed(error)
                }
                self.receiveNext()
            }
        }
    }

    private func deliver(_ message: WebSocketMessage) {
        let events = self.state.withLock { $0.events }
        events?.received(self.id, MessageBatch(CollectionOfOne(message)))
    }

    /// What the close frame said may still be under way, so this only makes sure that the task completes.
    private func failed(_ error: any Error) {
        let task = self.state.withLock { state in
            state.failure = state.failure ?? error
            return state.task
        }
        if TransportError(error, self.request.endpoint).code == .tooLarge {
            task?.cancel(with: .messageTooBig, reason: nil)
        } else {
            task?.cancel()
        }
    }

    private func end(_ reason: CloseReason) {
        let events = self.state.withLock { state -> (any WebSocketEvents)? in
            state.phase = .ended
            state.outgoing = []
            state.task = nil
            return state.events.take()
        }
        events?.closed(self.id, reason)
    }

    private func upgradeRequest() throws(TransportError) -> URLRequest {
        var headers = self.request.headers
        if !self.request.subprotocols.isEmpty { headers["Sec-WebSocket-Protocol"] = self.request.subprotocols.joined(separator: ", ") }
        var request = try URLRequest(self.request.endpoint, headers)
        request.timeoutInterval = SharedURLSession.noLimit
        return request
    }
}

// MARK: From the session

extension URLSessionWebSocket: TaskHandler {
    func opened(_ head: HTTPResponseHead) {
        let events = self.state.withLock { state -> (any WebSocketEvents)? in
            guard case .connecting = state.phase else { return nil }
            state.phase = .open
            return state.events
        }
        guard let events else { return }
        events.opened(self.id, head: head)
        self.flush()
    }

    func closed(_ code: CloseCode, _ reason: String) {
        self.state.withLock { $0.peerClose = $0.peerClose ?? (code, reason) }
        self.end(self.reason(nil, nil))
    }

    func answered(_ head: HTTPResponseHead) {}

    func received(_ data: Data) {}

    func completed(_ answer: HTTPURLResponse?, _ error: (any Error)?) {
        self.end(self.reason(answer, error))
    }

    private func reason(_ answer: HTTPURLResponse?, _ error: (any Error)?) -> CloseReason {
        let endpoint = self.request.endpoint
        return self.state.withLock { state in
            if case .closing = state.phase { return .requested }
            if let (code, words) = state.peerClose { return .peer(code, words) }
            if let task = state.task, task.closeCode.rawValue != URLSessionWebSocketTask.CloseCode.invalid.rawValue {
                return .peer(CloseCode(task.closeCode), task.closeReason.map { String(decoding: $0, as: UTF8.self) } ?? "")
            }
            if case .connecting = state.phase, let status = answer?.statusCode, status != 101 {
                return .transport(
                    TransportError(.upgradeRefused, "\(endpoint.origin) refused the WebSocket with status \(status).", status: status))
            }
            guard let error = state.failure ?? error else {
                return .transport(TransportError(.closed, "\(endpoint.origin) ended the connection without a close frame."))
            }
            return .transport(TransportError(error, endpoint))
        }
    }
}
