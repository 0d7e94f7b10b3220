internal import RealtimeSystem
internal import RealtimeCore

/// One client's connection: alternating requests and responses, until it closes or becomes a WebSocket.
///
/// ```
///                                     ┌──────▶ deciding ──accepted──┐
///                                     │           │ rejected         ▼
///   handshaking ──opened──▶ reading ──request──▶ responding ──101──▶ upgraded
///                              ▲  ▲                │  │                 │
///                              │  └───response─────┘  │ much is unsent  │
///                              └──drained── draining ◀┘                 │
///   reading, responding, draining                                       │
///      └──last response, error, end of input──▶ lingering ──▶ closed ◀──┘
/// ```
/// It keeps reading while a request is being responded to, because that is how it detects that the client has disconnected. Pipelined
/// requests that arrive meanwhile are buffered up to a limit.
final class HTTPServerConnection: StreamEvents, TimerClient {
    enum Phase {
        /// The TLS handshake is in progress.
        case handshaking
        case reading(Part)
        /// After the last response the connection closes.
        case responding(HTTPServerExchange, isLast: Bool)
        /// The handler decides later about an upgrade.
        case deciding(PendingUpgrade)
        /// The next request waits until the responses to earlier ones have been sent.
        case draining
        case upgraded(SocketWebSocket)
        /// The last response is being sent, and then the client closes its side.
        case lingering
        case closed
    }

    /// The part of a request that arrives next.
    enum Part {
        /// The head of the first request, whose timeout includes the TLS handshake.
        case firstHead
        /// A later head, none of which has arrived yet.
        case keepAlive
        case head
        case body(HTTPRequestDecoder.Request)
    }

    /// An upgrade about which the handler has not decided.
    struct PendingUpgrade {
        var offer: ServerHandshake.Offer
        var exchange: HTTPServerExchange
        var responder: UpgradeResponder
    }

    enum Input { case open, paused, ended }

    struct State {
        var phase = Phase.handshaking
        var input = Input.open
        var decoder: HTTPRequestDecoder
        var body: [UInt8] = []
        /// The bytes that arrived after the request that is being responded to.
        var pipelined: [UInt8] = []
        /// A caller further up the stack is decoding requests, and will also deliver the next one.
        var isDecoding = false
        var timer = CoalescedTimer()
        /// The time limit of the phase.
        var limit = PatientLimit.none
        var stall = StallDetector()
    }

    /// The number of pipelined bytes above which reading pauses.
    private static let pipelineLimit = 64 << 10
    /// The number of pipelined requests that are handled in one turn of the loop, so that other connections get their turns.
    static let requestsPerTurn = 64
    /// How long a client may take to close its side after the last response was sent. If the socket were closed with unread input, the
    /// RST that follows could discard the response at the client.
    private static let lingerTimeout = Duration.seconds(1)
    /// How long a response may take for a client that has closed its side. Such a client has most likely disconnected.
    private static let halfClosedTimeout = Duration.seconds(5)

    let stream: SocketStream
    let handler: any ListenerHandler
    let limits: ListenerLimits
    // `nonisolated(unsafe)`: see `LoopBound`.
    nonisolated(unsafe) private var bound: LoopBound<State>

    var state: State {
        @inline(__always) get { self.bound.value }
        @inline(__always) _modify { yield &self.bound.value }
    }

    /// Creates the connection on the loop of its stream.
    init(_ stream: SocketStream, _ handler: any ListenerHandler, _ limits: ListenerLimits) {
        self.stream = stream
        self.handler = handler
        self.limits = limits
        self.bound = LoopBound(State(decoder: HTTPRequestDecoder(limits: limits.codecLimits, bodyLimit: limits.bodyBytes)))
        self.bound.bind()
        stream.setMark(limits.responseOutput.mark)
    }

    /// Starts the first timeout, before the first event of the stream.
    func begin() { self.setTimeout(self.limits.headTimeout) }

    // MARK: Events of the stream

    func opened(_ stream: SocketStream) { self.state.phase = .reading(.firstHead) }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        var input = bytes
        switch self.state.phase {
        case .upgraded(let webSocket): return webSocket.received(stream, bytes)
        case .lingering, .closed, .handshaking: return
        case .reading where self.state.pipelined.isEmpty: self.read(&input)
        case .reading, .responding, .deciding, .draining: break
        }
        self.keep(input)
    }

    func backlogged(_ stream: SocketStream) {
        switch self.state.phase {
        case .upgraded(let webSocket): webSocket.backlogged(stream)
        case .responding(let exchange, _): exchange.backlogged()
        case .handshaking, .reading, .deciding, .draining, .lingering, .closed: break
        }
    }

    func drained(_ stream: SocketStream) {
        switch self.state.phase {
        case .upgraded(let webSocket): webSocket.drained(stream)
        case .responding(let exchange, _): exchange.drained()
        case .draining:
            self.awaitRequest()
            self.nextRequest()
        case .handshaking, .reading, .deciding, .lingering, .closed: break
        }
    }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        if case .upgraded(let webSocket) = self.state.phase { return webSocket.ended(stream, error) }
        guard error == nil else { return self.drop() }
        self.state.input = .ended
        switch self.state.phase {
        // The next turn continues with the pipelined requests.
        case .reading where !self.state.pipelined.isEmpty: break
        case .reading: self.inputEnded()
        case .responding(_, isLast: true): self.drop()
        case .responding(let exchange, isLast: false):
            self.setTimeout(min(self.limits.keepAliveTimeout, Self.halfClosedTimeout))
            exchange.clientDisconnected()
        // A client that sends no more cannot use a WebSocket.
        case .deciding: self.drop()
        // RFC 9112 section 9.3.2: a client retries pipelined requests that received no response.
        case .draining: self.finish()
        case .handshaking, .upgraded, .lingering, .closed: break
        }
    }

    // MARK: Requests

    private func awaitRequest() {
        self.state.phase = .reading(.keepAlive)
        self.setTimeout(self.limits.keepAliveTimeout)
    }

    /// Continues with the pipelined requests.
    private func nextRequest() {
        var pipelined: [UInt8] = []
        swap(&pipelined, &self.state.pipelined)
        pipelined.withUnsafeBytes { bytes in
            var input = bytes
            self.read(&input)
            self.keep(input)
        }
        guard case .reading = self.state.phase, self.state.pipelined.isEmpty else { return }
        if self.state.input == .ended { return self.inputEnded() }
        self.resumeReading()
    }

    /// Decodes and handles requests. If there are more of them than the budget of a turn, the next turn continues.
    private func read(_ input: inout UnsafeRawBufferPointer) {
        self.state.isDecoding = true
        defer { self.state.isDecoding = false }
        var budget = Self.requestsPerTurn
        while case .reading(let part) = self.state.phase {
            if budget == 0, !input.isEmpty {
                self.stream.loop.execute { if case .reading = self.state.phase { self.nextRequest() } }
                return
            }
            do throws(TransportError) {
                switch try self.state.decoder.next(&input) {
                case .head(let request): try self.received(request)
                case .body(let bytes): self.state.body.append(contentsOf: bytes)
                case .end:
                    guard case .body(let request) = part else { preconditionFailure("a body follows a head") }
                    budget -= 1
                    self.respond(to: request, &input)
                case .needsMore:
                    // The keep-alive timeout ends with the first byte of the head.
                    guard case .keepAlive = part, !self.state.decoder.isIdle else { return }
                    self.state.phase = .reading(.head)
                    return self.setTimeout(self.limits.headTimeout)
                }
            } catch {
                self.reject(error.status ?? 400, error.message)
            }
        }
    }

    private func keep(_ input: UnsafeRawBufferPointer) {
        switch self.state.phase {
        case .reading, .responding, .deciding, .draining: break
        case .handshaking, .upgraded, .lingering, .closed: return
        }
        guard !input.isEmpty else { return }
        self.state.pipelined.append(contentsOf: input)
        guard self.state.pipelined.count > Self.pipelineLimit, self.state.input == .open else { return }
        self.state.input = .paused
        self.stream.pauseReading()
    }

    func resumeReading() {
        guard self.state.input == .paused else { return }
        self.state.input = .open
        self.stream.resumeReading()
    }

    private func received(_ request: HTTPRequestDecoder.Request) throws(TransportError) {
        var request = request
        request.head = try request.head.withOriginTarget()
        self.state.phase = .reading(.body(request))
        guard request.hasBody else { return }
        if let limit = self.handler.bodyLimit(for: request.head) { try self.state.decoder.limitBody(to: limit) }
        self.setTimeout(self.limits.bodyTimeout)
        if request.expectsContinue {
            self.stream.enqueue { $0.append(contentsOf: "HTTP/1.1 100 Continue\r\n\r\n".utf8) }
            self.stream.flush()
        }
    }

    private func respond(to request: HTTPRequestDecoder.Request, _ input: inout UnsafeRawBufferPointer) {
        let head = request.head
        var body: [UInt8] = []
        swap(&body, &self.state.body)
        let framing = ResponseFraming.Request(
            isHEAD: head.method == "HEAD", isHTTP11: request.isHTTP11, keepsAlive: request.keepsAlive)
        let exchange = HTTPServerExchange(self, framing, limits: self.limits.responseOutput)
        self.state.phase = .responding(exchange, isLast: false)
        self.setTimeout(nil)
        switch ServerHandshake.check(head, isHTTP11: request.isHTTP11) {
        case .notAnUpgrade:
            self.handler.received(head, body: body, responder: exchange)
            exchange.handlerReturned()
        case .rejected(let response):
            exchange.respond(response)
        case .valid where request.hasBody:
            exchange.respond(.line(400, "A WebSocket upgrade request must not have a body."))
        case .valid(let offer):
            switch self.handler.upgrade(head) {
            case .reject(let response): exchange.respond(response)
            case .accept(let subprotocol, let headers, let acceptor):
                guard self.upgrade(offer, subprotocol, headers, acceptor, exchange, input) else { return }
                input = UnsafeRawBufferPointer(rebasing: input.suffix(0))
            case .later(let begin): self.decideLater(offer, exchange, begin)
            }
        }
    }

    /// Responds to a request that is malformed or late, and closes the connection.
    private func reject(_ status: Int, _ text: String) {
        var isHEAD = false
        if case .reading(.body(let request)) = self.state.phase { isHEAD = request.head.method == "HEAD" }
        let response = HTTPResponse.line(status, text)
        let framing = ResponseFraming(
            response.head, length: response.body.count, to: ResponseFraming.Request(isHEAD: isHEAD, isHTTP11: true, keepsAlive: false))
        self.stream.enqueue { output in
            do throws(TransportError) {
                try HTTPEncoder.append(framing.head, to: &output)
                if framing.body == .plain { output.append(contentsOf: response.body) }
            } catch {
                assertionFailure("invalid built-in response: \(error)")
            }
        }
        self.finish()
    }

    // MARK: Responses

    /// Continues with the next request: the response is on the stream. Called from any thread.
    func responseEnded(_ exchange: HTTPServerExchange, keepsAlive: Bool) {
        if self.stream.loop.isOnLoop, self.state.isDecoding { return self.finishResponse(exchange, keepsAlive) }
        // Asynchronously: otherwise the handler would be called for the next request while it responds to this one.
        self.stream.loop.execute {
            self.finishResponse(exchange, keepsAlive)
            if case .reading = self.state.phase { self.nextRequest() }
        }
    }

    private func finishResponse(_ exchange: HTTPServerExchange, _ keepsAlive: Bool) {
        guard case .responding(let current, let isLast) = self.state.phase, current === exchange else { return }
        guard keepsAlive, !isLast else { return self.finish() }
        self.state.stall = StallDetector()
        // Otherwise, a client that pipelines requests and reads nothing would exhaust memory with responses.
        guard self.stream.bufferedBytes > SocketStream.highWater else { return self.awaitRequest() }
        self.state.phase = .draining
        self.setTimeout(self.limits.stallTimeout)
    }

    /// Starts the stall timeout of a response with a large unsent part. Called from any thread.
    func monitorStall(of exchange: HTTPServerExchange) {
        self.stream.loop.execute {
            guard case .responding(let current, _) = self.state.phase, current === exchange, self.state.input != .ended else { return }
            self.state.stall = StallDetector()
            self.setTimeout(self.limits.stallTimeout)
        }
    }

    /// Closes the connection, because more of a response waits for the client than the limit. Called from any thread.
    func drop(_ exchange: HTTPServerExchange) {
        // Asynchronously: otherwise the handler would learn about the end while it writes.
        self.stream.loop.execute {
            guard case .responding(let current, _) = self.state.phase, current === exchange else { return }
            self.drop()
        }
    }

    // MARK: Closing

    private func inputEnded() {
        do throws(TransportError) {
            try self.state.decoder.endOfStream()
            self.finish()
        } catch {
            self.reject(error.status ?? 400, error.message)
        }
    }

    /// Sends the unsent bytes, and then the end of the stream.
    private func finish() {
        self.state.phase = .lingering
        self.state.pipelined = []
        self.state.body = []
        self.state.stall = StallDetector()
        self.resumeReading()
        self.stream.finishWriting()
        self.setTimeout(Self.lingerTimeout)
    }

    /// Closes the connection and drops the unsent bytes.
    func drop() {
        let phase = self.state.phase
        self.state.phase = .closed
        self.setTimeout(nil)
        self.stream.close()
        switch phase {
        case .responding(let exchange, _): exchange.connectionClosed()
        case .deciding(let pending):
            pending.exchange.connectionClosed()
            pending.responder.cancel()
        case .upgraded(let webSocket):
            webSocket.ended(self.stream, TransportError(.closed, "The server stopped before the WebSocket was closed."))
        case .handshaking, .reading, .draining, .lingering, .closed: break
        }
    }

    /// Closes the connection once the current response has ended, because the listener stops.
    func stop() {
        switch self.state.phase {
        case .handshaking: self.drop()
        // Without a request in progress, a reset can't discard a response.
        case .reading(.firstHead), .reading(.keepAlive):
            let isIdle = self.state.decoder.isIdle && self.state.pipelined.isEmpty && self.stream.bufferedBytes == 0
            if isIdle { self.drop() } else { self.finish() }
        case .reading, .draining: self.finish()
        case .responding where self.state.input == .ended: self.drop()
        case .responding(let exchange, _):
            self.state.phase = .responding(exchange, isLast: true)
            exchange.disableKeepAlive()
        case .deciding(let pending): self.rejectUndecided(pending, isLast: true, "The server is shutting down.")
        case .upgraded(let webSocket): webSocket.close(.goingAway, reason: "The server is shutting down.")
        case .lingering, .closed: break
        }
    }

    // MARK: Time

    func setTimeout(_ duration: Duration?) {
        self.state.limit = duration.map { PatientLimit($0, now: self.stream.loop.now) } ?? .none
        self.scheduleTimer()
    }

    private func scheduleTimer() {
        if let instant = self.state.timer.setDeadline(self.state.limit.deadline) { self.stream.loop.schedule(self, at: instant) }
    }

    /// Cancels the timer, so that the loop no longer wakes up for it. Called on the loop's thread.
    func cancelTimer() {
        self.state.timer = CoalescedTimer()
        self.stream.loop.schedule(self, at: nil)
    }

    func timerFired() {
        let now = self.stream.loop.now
        switch self.state.timer.fired(now: now) {
        case .idle: break
        case .early(let instant): self.stream.loop.schedule(self, at: instant)
        // After a standstill, bytes of the client may wait to be read, and it may have been ready for more.
        case .due:
            if self.state.limit.hasPassed(now: now) { self.timedOut() } else { self.scheduleTimer() }
        }
    }

    private func timedOut() {
        switch self.state.phase {
        case .handshaking: self.drop()
        case .reading(.firstHead) where self.state.decoder.isIdle: self.finish()
        case .reading(.firstHead), .reading(.head):
            self.reject(408, "The request head did not arrive within \(self.limits.headTimeout).")
        case .reading(.body):
            self.reject(408, "The request body did not arrive within \(self.limits.bodyTimeout).")
        case .reading(.keepAlive):
            if self.stream.bufferedBytes > 0 { self.dropIfStalled() } else { self.finish() }
        case .responding where self.state.input == .ended: self.drop()
        case .responding(let exchange, _):
            if let progress = exchange.monitoredProgress() { self.dropIfStalled(at: progress) }
        case .deciding(let pending):
            let reason = "The server did not decide about the WebSocket within \(self.limits.upgradeTimeout)."
            self.rejectUndecided(pending, isLast: false, reason)
        case .draining: self.dropIfStalled()
        case .lingering:
            if self.stream.bufferedBytes > 0 { return self.dropIfStalled() }
            // Bytes sent since the previous timeout get the full linger timeout as well.
            if self.state.stall.hasStalled(at: 0) { self.drop() } else { self.setTimeout(Self.lingerTimeout) }
        case .upgraded, .closed: break
        }
    }

    private func dropIfStalled() { self.dropIfStalled(at: -self.stream.bufferedBytes) }

    private func dropIfStalled(at progress: Int) {
        if self.state.stall.hasStalled(at: progress) { self.drop() } else { self.setTimeout(self.limits.stallTimeout) }
    }
}

/// Detects a client that reads nothing, as opposed to one that reads slowly.
struct StallDetector: Sendable {
    private var lastProgress: Int?

    /// Whether nothing was read since the previous call.
    ///
    /// - Parameter progress: A number that grows while the client reads.
    mutating func hasStalled(at progress: Int) -> Bool {
        defer { self.lastProgress = progress }
        return self.lastProgress == progress
    }
}
