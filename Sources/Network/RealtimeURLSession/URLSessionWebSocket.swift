internal import RealtimeSystem
internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// A WebSocket connection on URLSession.
///
/// ```
///   new ──open──▶ connecting ──opened──▶ open ──close──▶ closing ──▶ ended
///                     └───── completed, abandon, in any state ────────▲
/// ```
final class URLSessionWebSocket: MessageConnection {
    private enum Phase: Sendable {
        case new, connecting, open
        /// The close frame is sent once all messages are.
        case closing(CloseCode, String)
        case ended
    }

    private struct State: Sendable {
        var phase = Phase.new
        var events: (any MessageEvents)?
        var task: URLSessionWebSocketTask?
        var outgoing: [TransportMessage] = []
        /// One thread sends at a time, to keep the order of the messages.
        var isSending = false
        /// The number of messages that the system has not sent yet.
        var unconfirmed = 0
        /// The bytes that wait here and in the system.
        var output = OutputGauge()
        var isOverLimit = false
        /// The session's queue is about to notify the owner whether to pause writing.
        var isReportPending = false
        var isPaused = false
        var isReceiving = false
        var peerClose: (CloseCode, String)?
        var failure: (any Error)?
        var hasSentClose = false

        /// Enqueues a message, unless more bytes than the limit wait. The next flush ends the connection then.
        mutating func accept(_ message: TransportMessage) {
            guard self.output.accept(message.bytes.count) else { return self.isOverLimit = true }
            self.outgoing.append(message)
        }

        /// Whether the owner must be notified on the session's queue. The caller enqueues that.
        mutating func mustReport() -> Bool {
            switch self.phase {
            case .open, .closing: break
            case .new, .connecting, .ended: return false
            }
            guard !self.isReportPending, self.output.hasChange || self.isOverLimit else { return false }
            self.isReportPending = true
            return true
        }

        /// The system has sent a message.
        mutating func confirm(_ count: Int) {
            self.unconfirmed -= 1
            self.output.remove(count)
        }

        /// Takes the messages to send now. The caller sends them and then clears `isSending`.
        mutating func takeOutgoing() -> (URLSessionWebSocketTask, [TransportMessage])? {
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

    /// The time that the peer has to respond to a close frame, in seconds.
    private static let closeTimeout: TimeInterval = 5

    private let host: SharedURLSession
    private let request: WebSocketRequest
    private let id: ConnectionID
    private let state: Lock<State>

    init(_ host: SharedURLSession, _ request: WebSocketRequest, _ id: ConnectionID, _ events: any MessageEvents) {
        self.host = host
        self.request = request
        self.id = id
        self.state = Lock(State(events: events))
    }

    // MARK: Calls of the owner

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
        let isConnecting = self.state.withLock { state in
            guard case .connecting = state.phase else { return false }
            state.task = task
            return true
        }
        // The owner may have closed the connection since. A task that was never resumed completes only when it is cancelled.
        if isConnecting { task.resume() } else { task.cancel() }
    }

    func enqueue(_ message: TransportMessage) {
        self.state.withLock { state in
            switch state.phase {
            case .new, .connecting, .open: state.accept(message)
            case .closing, .ended: break
            }
        }
    }

    func flush() {
        while let (task, messages) = self.state.withLock({ $0.takeOutgoing() }) {
            for message in messages { self.send(message, task) }
            self.state.withLock { $0.isSending = false }
        }
        self.reportBacklog()
        self.sendCloseIfFlushed()
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
            DispatchQueue.global().asyncAfter(deadline: .now() + Self.closeTimeout) { [weak self] in self?.closeTimedOut() }
        case false?:
            let task = self.state.withLock { $0.task }
            self.host.perform { self.end(.requested) }
            task?.cancel()
        case nil: break
        }
    }

    func abandon() {
        let (task, events) = self.state.withLock { state -> (URLSessionWebSocketTask?, (any MessageEvents)?) in
            state.phase = .ended
            state.outgoing = []
            return (state.task.take(), state.events.take())
        }
        task?.cancel()
        // Its last reference may be released here, outside the lock.
        _ = events
    }

    // MARK: Sending

    private func send(_ message: TransportMessage, _ task: URLSessionWebSocketTask) {
        let count = message.bytes.count
        switch message.kind {
        case .text: task.send(.string(String(decoding: message.bytes, as: UTF8.self))) { _ in self.sent(count) }
        case .binary: task.send(.data(Data(message.bytes))) { _ in self.sent(count) }
        case .ping:
            self.state.withLock { $0.confirm(count) }
            task.sendPing { error in
                guard error == nil else { return }
                self.host.perform { self.deliver(TransportMessage(.pong, [])) }
            }
        case .pong:
            // The system responds to pings itself and has no API to send a pong.
            self.state.withLock { $0.confirm(count) }
        }
    }

    /// A message was sent or failed. The task completes with the error.
    private func sent(_ count: Int) {
        self.state.withLock { $0.confirm(count) }
        self.reportBacklog()
        self.sendCloseIfFlushed()
    }

    /// Notifies the owner on the session's queue if writing is to pause or to resume, and ends the connection at its limit.
    private func reportBacklog() {
        guard self.state.withLock({ $0.mustReport() }) else { return }
        self.host.perform {
            let (events, change, error) = self.state.withLock { state -> ((any MessageEvents)?, Bool?, TransportError?) in
                state.isReportPending = false
                return (state.events, state.output.takeChange(), state.isOverLimit ? state.output.error : nil)
            }
            if let error {
                let task = self.state.withLock { $0.task }
                self.end(.transport(error))
                task?.cancel()
            } else if let change {
                events?.writing(self.id, paused: change)
                // The opposite change may have been ignored while this one was pending.
                self.reportBacklog()
            }
        }
    }

    /// Sends the close frame after all messages: the system would otherwise send it before the queued messages.
    private func sendCloseIfFlushed() {
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

    private func closeTimedOut() {
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

    private func deliver(_ message: TransportMessage) {
        let events = self.state.withLock { $0.events }
        events?.received(self.id, MessageBatch(CollectionOfOne(message)))
    }

    /// Cancels the task. The connection ends when the task completes, because the peer's close code may still be reported before that.
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
        let events = self.state.withLock { state -> (any MessageEvents)? in
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
        request.timeoutInterval = SharedURLSession.noTimeout
        return request
    }
}

// MARK: Events of the session

extension URLSessionWebSocket: TaskHandler {
    func opened(_ head: HTTPResponseHead) {
        let events = self.state.withLock { state -> (any MessageEvents)? in
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

    func received(_ head: HTTPResponseHead) {}

    func received(_ data: Data) {}

    func completed(_ response: HTTPURLResponse?, _ error: (any Error)?) {
        self.end(self.reason(response, error))
    }

    private func reason(_ response: HTTPURLResponse?, _ error: (any Error)?) -> CloseReason {
        let endpoint = self.request.endpoint
        return self.state.withLock { state in
            if case .closing = state.phase { return .requested }
            if let (code, reason) = state.peerClose { return .peer(code, reason) }
            if let task = state.task, task.closeCode.rawValue != URLSessionWebSocketTask.CloseCode.invalid.rawValue {
                return .peer(CloseCode(task.closeCode), task.closeReason.map { String(decoding: $0, as: UTF8.self) } ?? "")
            }
            if case .connecting = state.phase, let response, response.statusCode != 101 {
                // The system doesn't provide the body of the response.
                let response = HTTPResponse(HTTPResponseHead(response))
                return .transport(
                    TransportError(
                        .upgradeRejected, "\(endpoint.origin): The server rejected the WebSocket with \(response.summary)",
                        response: response))
            }
            var hint = ""
            if case .connecting = state.phase, !endpoint.isSecure { hint = " If the server expects TLS on this port, use wss://." }
            guard let error = state.failure ?? error else {
                return .transport(TransportError(.closed, "\(endpoint.origin) closed the connection without a close frame.\(hint)"))
            }
            let failure = TransportError(error, endpoint)
            return .transport(failure.code == .reset ? failure.withMessage(failure.message + hint) : failure)
        }
    }
}
