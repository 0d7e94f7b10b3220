internal import RealtimeSystem
internal import RealtimeCore

/// One request and its response, on their own connection.
///
/// The loop's thread decodes the response into a buffer, and one task reads it from there.
final class HTTPClientExchange: StreamEvents, TimerClient {
    private struct State: Sendable {
        var response: ResponseBuffer
        var isOpen = false
        var stream: SocketStream?
        var timer = CoalescedTimer()
        /// The number of bytes of the request that were unsent when the timer last fired.
        var unsent = 0
    }

    /// The number of unread bytes above which reading from the socket pauses.
    private static let bodyBacklog = 256 << 10

    private let request: HTTPRequest
    private let loop: EventLoop
    private let idleTimeout: Int64
    private let state: Lock<State>
    // `nonisolated(unsafe)`: see `LoopBound`.
    nonisolated(unsafe) private var decoder: LoopBound<HTTPResponseDecoder>

    init(_ request: HTTPRequest, loop: EventLoop) {
        self.request = request
        self.loop = loop
        self.idleTimeout = request.idleTimeout.nanoseconds
        self.decoder = LoopBound(HTTPResponseDecoder(method: request.method))
        self.state = Lock(State(response: ResponseBuffer(from: request.endpoint, limit: Self.bodyBacklog)))
    }

    // MARK: The reading task

    /// Connects, sends the request, and waits for the head of the response.
    func head(through connector: SocketConnector) async throws(TransportError) -> HTTPResponseHead {
        guard !Task.isCancelled else { throw self.cancelled }
        try self.start(connector)
        while true {
            if let head = try self.state.withLock({ state throws(TransportError) in try state.response.readHead() }) { return head }
            await self.wait()
        }
    }

    private func start(_ connector: SocketConnector) throws(TransportError) {
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
        let options = try connector.options(for: endpoint, timeout: self.request.connectTimeout)
        let stream = SocketStream(loop: self.loop, events: self)
        stream.enqueue { output in
            output.append(contentsOf: bytes)
            output.append(contentsOf: self.request.body)
        }
        self.state.withLock { $0.stream = stream }
        stream.connect(to: endpoint.host, port: endpoint.port, options)
    }

    /// The next piece of the body: everything that has arrived since the previous one.
    func next() async throws(TransportError) -> [UInt8]? {
        while true {
            let (piece, resumed) = try self.state.withLock { state throws(TransportError) -> (ResponseBuffer.Piece, SocketStream?) in
                let piece = try state.response.readBody()
                guard state.response.takeResume() else { return (piece, nil) }
                self.restartIdleTimeout(&state)
                return (piece, state.stream)
            }
            resumed?.resumeReading()
            switch piece {
            case .bytes(let bytes): return bytes
            case .end: return nil
            case .pending: await self.wait()
            }
        }
    }

    /// Closes the connection and discards what was not read.
    func abandon() { self.cancel()?.resume() }

    private func wait() async {
        await suspend { wakeUp in
            self.state.withLock { $0.response.suspend(wakeUp) }
        } onCancel: {
            self.cancel()
        }
    }

    private func cancel() -> WakeUp? {
        let error = self.cancelled
        return self.close { $0.cancel(error) }
    }

    private func end(_ failure: TransportError?) {
        self.close { $0.end(failure) }?.resume()
    }

    /// Ends the response and closes the connection.
    ///
    /// - Returns: The reading task, to be resumed outside all locks.
    private func close(_ end: (inout ResponseBuffer) -> Void) -> WakeUp? {
        let (stream, reader) = self.state.withLock { state -> (SocketStream?, WakeUp?) in
            end(&state.response)
            if state.timer.isSet {
                _ = state.timer.setDeadline(nil)
                self.loop.schedule(self, at: nil)
            }
            return (state.stream.take(), state.response.takeReadyReader())
        }
        stream?.close()
        return reader
    }

    // MARK: Events of the stream, on the loop's thread

    func opened(_ stream: SocketStream) {
        self.decoder.bind()
        self.state.withLock { state in
            state.isOpen = true
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
        let reader = self.state.withLock { state -> WakeUp? in
            if let head { _ = state.response.receiveHead(head) }
            switch state.response.receive(body) {
            case .pause:
                _ = state.timer.setDeadline(nil)
                stream.pauseReading()
            case .proceed, .cancel:
                self.restartIdleTimeout(&state)
            }
            return state.response.takeReadyReader()
        }
        reader?.resume()
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
        guard !state.response.hasEnded, !state.response.isPaused else { return }
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
        let (hasHead, timeout) = (self.state.withLock { $0.response.head != nil }, self.request.idleTimeout)
        let cause = hasHead ? "the response stalled for \(timeout)" : "no response within \(timeout)"
        self.end(TransportError(.timedOut, "\(self.request.endpoint) timed out: \(cause). Check the server, or increase idleTimeout."))
    }

    // MARK: Errors

    private var cancelled: TransportError {
        TransportError(.cancelled, "The request to \(self.request.endpoint) was cancelled.")
    }

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
