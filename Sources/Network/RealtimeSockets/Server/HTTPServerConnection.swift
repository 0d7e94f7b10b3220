internal import RealtimeSystem
internal import RealtimeCore

/// One client's connection: requests and their answers in turn, until it ends or becomes a WebSocket.
///
/// It reads on while a request is being answered, since that is how it learns that the client has gone; what comes is
/// kept for later, and reading pauses when that is more than a little.
final class HTTPServerConnection: StreamEvents, TimerClient {
    private enum Phase {
        /// Until the TLS handshake is through.
        case opening
        case reading
        case answering(HTTPServerExchange)
        /// The answers before have to leave first.
        case heldBack
        case upgraded(SocketWebSocket)
        /// The last answer goes out, and the client ends its side.
        case closing
        case over
    }

    /// What of a request is waited for.
    private enum Part {
        case firstHead, nothing, head, body
    }

    /// What may come early, while a request is being answered, before reading pauses.
    private static let earlyBytes = 64 << 10
    /// How long a client may take to end its side after the last answer has gone. If the socket were closed before,
    /// with bytes of the client in it, the reset that follows could take the answer away from the client.
    private static let lingerTime = Duration.seconds(1)

    /// A client that has ended its side has gone, most likely. If it has not, it still gets an answer that comes so soon.
    private static let farewellTime = Duration.seconds(5)

    let stream: SocketStream
    private let handler: any ListenerHandler
    private let limits: ListenerLimits

    // `nonisolated(unsafe)`: these belong to the loop's thread.
    nonisolated(unsafe) private var phase = Phase.opening
    nonisolated(unsafe) private var part = Part.firstHead
    nonisolated(unsafe) private var decoder: HTTPRequestDecoder
    nonisolated(unsafe) private var request: HTTPRequestDecoder.Request?
    nonisolated(unsafe) private var body: [UInt8] = []
    nonisolated(unsafe) private var early: [UInt8] = []
    nonisolated(unsafe) private var isPaused = false
    nonisolated(unsafe) private var isInputEnded = false
    nonisolated(unsafe) private var isStopping = false
    /// Requests are being taken out of the input: who asks for more of that meanwhile gets it there.
    nonisolated(unsafe) private var isReading = false
    nonisolated(unsafe) private var deadline = CoalescedTimer()
    nonisolated(unsafe) private var progress = WriteProgress()

    /// Made on the stream's loop.
    init(_ stream: SocketStream, _ handler: any ListenerHandler, _ limits: ListenerLimits) {
        self.stream = stream
        self.handler = handler
        self.limits = limits
        self.decoder = HTTPRequestDecoder(limits: limits.ofHead, bodyLimit: limits.bodyBytes)
    }

    /// Once, before anything happens on the stream.
    func begin() { self.setLimit(self.limits.headTime) }

    // MARK: What happens on the stream

    func opened(_ stream: SocketStream) { self.phase = .reading }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        var input = bytes
        switch self.phase {
        case .upgraded(let endpoint): return endpoint.received(stream, bytes)
        case .closing, .over, .opening: return
        case .reading where self.early.isEmpty: self.read(&input)
        case .reading, .answering, .heldBack: break
        }
        self.keep(input)
    }

    func drained(_ stream: SocketStream) {
        switch self.phase {
        case .upgraded(let endpoint): endpoint.drained(stream)
        case .answering(let exchange): exchange.drained()
        case .heldBack:
            self.phase = .reading
            self.setLimit(self.limits.idleTime)
            self.nextRequest()
        default: break
        }
    }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        if case .upgraded(let endpoint) = self.phase { return endpoint.ended(stream, error) }
        guard error == nil else { return self.drop() }
        self.isInputEnded = true
        switch self.phase {
        case .reading: self.inputHasEnded()
        case .answering where self.isStopping: self.drop()
        case .answering(let exchange):
            self.setLimit(min(self.limits.idleTime, Self.farewellTime))
            exchange.clientHasGone()
        // Who sends no more may be left without answers that it could ask for again.
        case .heldBack: self.finish()
        case .opening, .upgraded, .closing, .over: break
        }
    }

    // MARK: Requests

    /// The next request, from what came early and from what comes.
    private func nextRequest() {
        let early = self.early
        self.early = []
        early.withUnsafeBytes { bytes in
            var input = bytes
            self.read(&input)
            self.keep(input)
        }
        guard case .reading = self.phase else { return }
        if self.isInputEnded { return self.inputHasEnded() }
        self.resume()
    }

    private func read(_ input: inout UnsafeRawBufferPointer) {
        self.isReading = true
        defer { self.isReading = false }
        while case .reading = self.phase {
            do throws(TransportError) {
                switch try self.decoder.next(&input) {
                case .head(let request): try self.start(request)
                case .body(let bytes): self.body.append(contentsOf: bytes)
                case .end: self.handOver(&input)
                case .needsMore: return self.limitPart()
                }
            } catch {
                self.reject(error.status ?? 400, error.message)
            }
        }
    }

    private func keep(_ input: UnsafeRawBufferPointer) {
        switch self.phase {
        case .reading, .answering, .heldBack: break
        case .opening, .upgraded, .closing, .over: return
        }
        guard !input.isEmpty else { return }
        self.early.append(contentsOf: input)
        guard self.early.count > Self.earlyBytes, !self.isPaused else { return }
        self.isPaused = true
        self.stream.pauseReading()
    }

    private func resume() {
        guard self.isPaused else { return }
        self.isPaused = false
        self.stream.resumeReading()
    }

    private func start(_ request: HTTPRequestDecoder.Request) throws(TransportError) {
        var request = request
        request.head.target = try RequestTarget.local(request.head)
        self.request = request
        self.body = []
        guard request.hasBody else { return }
        self.part = .body
        self.setLimit(self.limits.bodyTime)
        if request.expectsContinue {
            self.stream.enqueue { $0.append(contentsOf: "HTTP/1.1 100 Continue\r\n\r\n".utf8) }
            self.stream.flush()
        }
    }

    private func handOver(_ input: inout UnsafeRawBufferPointer) {
        guard let request = self.request else { return }
        let (head, body) = (request.head, self.body)
        self.request = nil
        self.body = []
        let form = ResponseFraming.Request(
            isHEAD: head.method == "HEAD", isHTTP11: request.isHTTP11, keepsAlive: request.keepsAlive && !self.isStopping)
        let exchange = HTTPServerExchange(self, form, unsentBytes: self.limits.unsentBytes)
        self.phase = .answering(exchange)
        self.setLimit(nil)
        switch ServerHandshake.check(head, isHTTP11: request.isHTTP11) {
        case .notAnUpgrade:
            self.handler.received(head, body: body, responder: exchange)
        case .refused(let answer):
            exchange.respond(answer)
        case .valid where request.hasBody:
            exchange.respond(.line(400, "A request for a WebSocket has no body."))
        case .valid where self.isStopping:
            exchange.respond(.line(503, "The server stops."))
        case .valid(let offer):
            switch self.handler.upgrade(head) {
            case .refuse(let answer): exchange.respond(answer)
            case .accept(let subprotocol): self.upgrade(head, offer, subprotocol, exchange, &input)
            }
        }
    }

    /// The connection is the WebSocket's from here on; what the client sent after its request are frames.
    private func upgrade(
        _ head: HTTPRequestHead, _ offer: ServerHandshake.Offer, _ subprotocol: String?, _ exchange: HTTPServerExchange,
        _ input: inout UnsafeRawBufferPointer
    ) {
        var answer: [UInt8] = []
        do throws(TransportError) {
            try HTTPEncoder.append(try ServerHandshake.accept(offer, subprotocol: subprotocol), to: &answer)
        } catch {
            return exchange.respond(.line(500, "The server chose a subprotocol that was not offered."))
        }
        self.stream.enqueue { $0.append(contentsOf: answer) }
        let id = ConnectionID.nextAccepted()
        let endpoint = SocketWebSocket(
            accepted: self.stream, id: id, messageLimit: self.limits.messageBytes, backlogLimit: self.limits.backlogBytes)
        self.phase = .upgraded(endpoint)
        self.forgetLimits()
        let frames = input
        input = UnsafeRawBufferPointer(rebasing: input.suffix(0))
        self.resume()
        let events = self.handler.accepted(endpoint, id: id, request: head)
        endpoint.start(events, leftover: frames)
        self.stream.flush()
        if self.isInputEnded { endpoint.ended(self.stream, nil) }
    }

    /// Answers what cannot be understood or waited for, and ends the connection.
    private func reject(_ status: Int, _ text: String) {
        let form = ResponseFraming.Request(isHEAD: self.request?.head.method == "HEAD", isHTTP11: true, keepsAlive: false)
        let answer = HTTPResponse.line(status, text)
        let written = ResponseFraming(answer.head, length: answer.body.count, to: form)
        self.stream.enqueue { output in
            do throws(TransportError) {
                try HTTPEncoder.append(written.head, to: &output)
                if written.body == .plain { output.append(contentsOf: answer.body) }
            } catch {
                assertionFailure("an answer of the server's own: \(error)")
            }
        }
        self.finish()
    }

    // MARK: Answers

    /// From any thread: the answer is on the stream.
    func answered(_ exchange: HTTPServerExchange, keepsAlive: Bool) {
        if self.stream.loop.isOnLoop, self.isReading { return self.answerIsOver(exchange, keepsAlive) }
        // Not from within: the handler would be called again while it answers.
        self.stream.loop.execute {
            self.answerIsOver(exchange, keepsAlive)
            if case .reading = self.phase { self.nextRequest() }
        }
    }

    private func answerIsOver(_ exchange: HTTPServerExchange, _ keepsAlive: Bool) {
        guard case .answering(let current) = self.phase, current === exchange else { return }
        guard keepsAlive, !self.isStopping else { return self.finish() }
        self.part = .nothing
        self.phase = .reading
        self.setLimit(self.limits.idleTime)
        self.holdBack()
    }

    /// A client that asks and does not read would fill the memory with answers.
    private func holdBack() {
        self.progress = WriteProgress()
        guard self.stream.bufferedBytes > SocketStream.highWater else { return }
        self.phase = .heldBack
        self.setLimit(self.limits.stallTime)
    }

    /// From any thread: more than the limit waits for the client.
    func watch(_ exchange: HTTPServerExchange) {
        self.stream.loop.execute {
            guard case .answering(let current) = self.phase, current === exchange, !self.isInputEnded else { return }
            self.progress = WriteProgress()
            self.setLimit(self.limits.stallTime)
        }
    }

    // MARK: Ends

    private func inputHasEnded() {
        do throws(TransportError) {
            try self.decoder.endOfStream()
            self.finish()
        } catch {
            self.reject(error.status ?? 400, error.message)
        }
    }

    /// Sends what there is to send, and then the end.
    private func finish() {
        self.phase = .closing
        self.early = []
        self.request = nil
        self.body = []
        self.progress = WriteProgress()
        self.resume()
        self.stream.finishWriting()
        self.setLimit(Self.lingerTime)
    }

    /// Ends the connection here and now.
    func drop() {
        let phase = self.phase
        self.phase = .over
        self.setLimit(nil)
        self.stream.close()
        switch phase {
        case .answering(let exchange): exchange.connectionIsOver()
        case .upgraded(let endpoint):
            endpoint.ended(self.stream, TransportError(.closed, "The server stopped before the WebSocket had ended."))
        default: break
        }
    }

    /// The listener stops: what is being answered is answered, and what is idle ends.
    func stop() {
        self.isStopping = true
        switch self.phase {
        case .opening: self.drop()
        case .reading, .heldBack: self.finish()
        case .answering where self.isInputEnded: self.drop()
        case .answering(let exchange): exchange.isLast()
        case .upgraded(let endpoint): endpoint.close(.goingAway, reason: "The server stops.")
        case .closing, .over: break
        }
    }

    // MARK: Time

    /// Begins the limit of the part that is now waited for, unless it has begun.
    private func limitPart() {
        switch self.part {
        case .nothing where !self.decoder.isIdle:
            self.part = .head
            self.setLimit(self.limits.headTime)
        case .firstHead, .nothing, .head, .body: break
        }
    }

    private func setLimit(_ duration: Duration?) {
        let loop = self.stream.loop
        if let wish = self.deadline.setDeadline(duration.map { loop.now.advanced(by: $0) }) { loop.schedule(self, at: wish) }
    }

    /// On the stream's loop: there will be no limit any more, so the clock need not wait for one.
    func forgetLimits() {
        self.deadline = CoalescedTimer()
        self.stream.loop.schedule(self, at: nil)
    }

    func timerFired() {
        switch self.deadline.fired(now: self.stream.loop.now) {
        case .idle: return
        case .early(let instant): return self.stream.loop.schedule(self, at: instant)
        case .due: break
        }
        switch self.phase {
        case .opening: self.drop()
        case .reading: self.readingTookTooLong()
        case .answering(let exchange):
            if self.isInputEnded { return self.drop() }
            guard let sent = exchange.watched() else { return }
            if self.progress.hasStalled(at: sent) { self.drop() } else { self.setLimit(self.limits.stallTime) }
        case .heldBack: self.dropIfStalled()
        case .closing:
            if self.stream.bufferedBytes > 0 { return self.dropIfStalled() }
            // What went out with the last look has its time too.
            if self.progress.hasStalled(at: 0) { self.drop() } else { self.setLimit(Self.lingerTime) }
        case .upgraded, .over: break
        }
    }

    private func readingTookTooLong() {
        switch self.part {
        case .firstHead where self.decoder.isIdle: self.finish()
        case .firstHead, .head: self.reject(408, "The head of the request did not come within \(self.limits.headTime).")
        case .body: self.reject(408, "The body of the request did not come within \(self.limits.bodyTime).")
        case .nothing:
            if self.stream.bufferedBytes > 0 { self.dropIfStalled() } else { self.finish() }
        }
    }

    /// Whether the client reads shows in how much is left.
    private func dropIfStalled() {
        if self.progress.hasStalled(at: -self.stream.bufferedBytes) { self.drop() } else { self.setLimit(self.limits.stallTime) }
    }
}
