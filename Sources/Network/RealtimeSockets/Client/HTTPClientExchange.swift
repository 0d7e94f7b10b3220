internal import RealtimeSystem
internal import RealtimeCore

/// One request and its response, on their own connection.
///
/// ```
///   new ──start──▶ running ──end of the response, error──▶ ended
///    └───────────────┴───────────── cancel ────────────────▲
/// ```
final class HTTPClientExchange: HTTPExchange, StreamEvents, TimerClient {
    private enum Phase: Sendable {
        case new
        /// There is no stream before the request was checked.
        case running(SocketStream?)
        case ended
    }

    private struct State: Sendable {
        var phase = Phase.new
        /// Until the end of the exchange.
        var events: (any HTTPExchangeEvents)?
        var isOpen = false
        var hasHead = false
        var isPaused = false
        var timer = CoalescedTimer()
        /// The number of bytes of the request that were unsent when the timer last fired.
        var unsent = 0

        var stream: SocketStream? {
            if case .running(let stream) = self.phase { stream } else { nil }
        }
    }

    private let request: HTTPRequest
    private let connector: SocketConnector
    private let id: ExchangeID
    private let idleTimeout: Int64
    private let state: Lock<State>
    // `nonisolated(unsafe)`: see `LoopBound`.
    nonisolated(unsafe) private var decoder: LoopBound<HTTPResponseDecoder>

    private var loop: EventLoop { self.connector.loop }

    init(_ request: HTTPRequest, over connector: SocketConnector, _ id: ExchangeID, _ events: any HTTPExchangeEvents) {
        self.request = request
        self.connector = connector
        self.id = id
        self.idleTimeout = request.idleTimeout.nanoseconds
        self.decoder = LoopBound(HTTPResponseDecoder(method: request.method))
        self.state = Lock(State(events: events))
    }

    // MARK: The owner's side

    func start() {
        let isNew = self.state.withLock { state in
            guard case .new = state.phase else { return false }
            state.phase = .running(nil)
            return true
        }
        guard isNew else { return }
        do throws(TransportError) {
            try self.connect()
        } catch {
            self.end(error)
        }
    }

    private func connect() throws(TransportError) {
        let endpoint = self.request.endpoint
        guard endpoint.scheme == "http" || endpoint.scheme == "https" else {
            throw TransportError(
                .unsupported, "Invalid URL for an HTTP request: \(endpoint.origin). Use a URL that starts with http:// or https://.")
        }
        guard self.request.method != "CONNECT" else {
            throw TransportError(
                .unsupported, "The method CONNECT is not supported. To connect through a proxy, set the proxy of the transport.")
        }
        var bytes: [UInt8] = []
        try HTTPEncoder.append(self.request, to: &bytes)
        let options = try self.connector.options(for: endpoint, timeout: self.request.connectTimeout)
        let stream = SocketStream(loop: self.loop, events: self)
        stream.enqueue { output in
            output.append(contentsOf: bytes)
            output.append(contentsOf: self.request.body)
        }
        let isCancelled = self.state.withLock { state in
            guard case .running = state.phase else { return true }
            state.phase = .running(stream)
            return false
        }
        if !isCancelled { stream.connect(to: endpoint.host, port: endpoint.port, options) }
    }

    func pauseReading() {
        self.state.withLock { state in
            state.isPaused = true
            _ = state.timer.setDeadline(nil)
            state.stream?.pauseReading()
        }
    }

    func resumeReading() {
        let stream = self.state.withLock { state -> SocketStream? in
            guard state.isPaused else { return nil }
            state.isPaused = false
            if state.isOpen { self.restartIdleTimeout(&state) }
            return state.stream
        }
        stream?.resumeReading()
    }

    func cancel() { _ = self.close() }

    private func end(_ failure: TransportError?) { self.close()?.ended(self.id, failure) }

    /// Closes the connection.
    ///
    /// - Returns: The events, if the exchange was in progress.
    private func close() -> (any HTTPExchangeEvents)? {
        let (stream, events) = self.state.withLock { state -> (SocketStream?, (any HTTPExchangeEvents)?) in
            if state.timer.isSet {
                _ = state.timer.setDeadline(nil)
                self.loop.schedule(self, at: nil)
            }
            defer { state.phase = .ended }
            return (state.stream, state.events.take())
        }
        stream?.close()
        return events
    }

    // MARK: Events of the stream, on the loop's thread

    func opened(_ stream: SocketStream) {
        self.decoder.bind()
        self.state.withLock { state in
            state.isOpen = true
            if state.isPaused { stream.pauseReading() }
            // A small request is sent immediately. If that counted as progress, a silent server would have twice the idle timeout.
            let unsent = stream.bufferedBytes
            state.unsent = unsent > SocketStream.highWater ? unsent : 0
            self.restartIdleTimeout(&state)
        }
        stream.flush()
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        var head: HTTPResponseHead?
        var body: [UInt8] = []
        let end = self.decode(bytes, &head, &body)
        let events = self.state.withLock { state -> (any HTTPExchangeEvents)? in
            if head != nil { state.hasHead = true }
            self.restartIdleTimeout(&state)
            return state.events
        }
        guard let events else { return }
        if let head { events.received(head, of: self.id) }
        // The owner may have cancelled the exchange when it received the head.
        if !body.isEmpty, self.state.withLock({ $0.events != nil }) { events.received(body, of: self.id) }
        switch end {
        case .success(true): self.end(nil)
        case .success(false): break
        case .failure(let error): self.end(error)
        }
    }

    /// - Returns: Whether the response is complete.
    private func decode(
        _ bytes: UnsafeRawBufferPointer, _ head: inout HTTPResponseHead?, _ body: inout [UInt8]
    ) -> Result<Bool, TransportError> {
        var input = bytes
        do throws(TransportError) {
            while true {
                switch try self.decoder.value.next(&input) {
                case .head(let received): head = received
                case .body(let bytes): body.append(contentsOf: bytes)
                case .end: return .success(true)
                case .needsMore: return .success(false)
                case .switchedProtocol:
                    throw TransportError(.protocolViolation, "The server switched to a protocol that was not requested.")
                }
            }
        } catch {
            return .failure(self.located(error))
        }
    }

    func drained(_ stream: SocketStream) {
        self.state.withLock { state in
            state.unsent = 0
            self.restartIdleTimeout(&state)
        }
    }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        if let error {
            let wasOpen = self.state.withLock { $0.isOpen }
            return self.end(wasOpen ? self.located(error) : error)
        }
        do throws(TransportError) {
            try self.decoder.value.endOfStream()
            self.end(nil)
        } catch {
            self.end(self.located(error))
        }
    }

    // MARK: Time

    /// The idle timeout does not apply while reading is paused: then the server waits for this side.
    private func restartIdleTimeout(_ state: inout State) {
        guard state.events != nil, !state.isPaused else { return }
        if let instant = state.timer.setDeadline(self.loop.now + self.idleTimeout) { self.loop.schedule(self, at: instant) }
    }

    func timerFired() {
        let hasTimedOut = self.state.withLock { state -> Bool in
            switch state.timer.fired(now: self.loop.now) {
            case .idle: return false
            case .early(let instant):
                self.loop.schedule(self, at: instant)
                return false
            case .due:
                // A server that is still receiving the request makes progress too.
                let unsent = state.stream?.bufferedBytes ?? 0
                guard unsent < state.unsent else { return true }
                state.unsent = unsent
                self.restartIdleTimeout(&state)
                return false
            }
        }
        guard hasTimedOut else { return }
        let (hasHead, timeout) = (self.state.withLock { $0.hasHead }, self.request.idleTimeout)
        let cause = hasHead ? "the response stalled for \(timeout)" : "no response within \(timeout)"
        self.end(TransportError(.timedOut, "\(self.request.endpoint) timed out: \(cause). Check the server, or increase idleTimeout."))
    }

    // MARK: Errors

    private var schemeHint: String {
        self.request.endpoint.isSecure ? "" : " If the server expects TLS on this port, use https://."
    }

    /// Adds the origin of the response, and advice.
    private func located(_ error: TransportError) -> TransportError {
        let advice: String =
            switch error.code {
            case .closed, .reset: " Check the server's log and any proxies; the server may have processed the request.\(self.schemeHint)"
            case .protocolViolation: " Check that the URL is that of an HTTP/1.1 server.\(self.schemeHint)"
            default: ""
            }
        return TransportError(error.code, "\(self.request.endpoint.origin): \(error.message)\(advice)")
    }
}
