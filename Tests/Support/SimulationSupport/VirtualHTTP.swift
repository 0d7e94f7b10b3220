import RealtimeSystem
import RealtimeCore

/// Sends requests over a virtual network. ``open(_:)`` must be called in a task of the simulation.
struct VirtualHTTP: HTTPExchangeTransport {
    let network: VirtualNetwork

    func makeExchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange {
        let exchange = VirtualExchange(self.network, request, id, events)
        self.network.add(exchange)
        return exchange
    }
}

/// One HTTP request and its response: the client's end, and the network.
///
/// The request arrives at the server once, or twice if an intermediary repeats it, each time with a ``VirtualResponder``. The client
/// receives the response to one of them.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class VirtualExchange: TimedExchange, TimerClient, @unchecked Sendable {
    private enum Phase { case new, open, ended }

    enum Piece {
        case head(HTTPResponseHead)
        case body([UInt8])
        case end(TransportError?)
    }

    /// The methods of requests that an intermediary may repeat.
    private static let repeatable: Set<String> = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]

    let network: VirtualNetwork
    private let request: HTTPRequest
    private let id: ExchangeID
    private var phase = Phase.new
    private var events: (any HTTPExchangeEvents)?
    private var responders: [VirtualResponder] = []
    /// The pieces that arrived while the client doesn't read.
    private var unread: [Piece] = []
    private var isPaused = false, isStalled = false
    private var idleLimit = PatientLimit.none
    /// Half-open: everything is lost, and neither side is notified.
    private var isSilent = false
    private var isReset = false
    /// When the last request and the last piece of the response arrive. Both keep their order.
    private var lastRequest = Instant(nanoseconds: 0), lastArrival = Instant(nanoseconds: 0)

    private var simulation: Simulation { self.network.simulation }
    private var conditions: NetworkConditions { self.network.conditions }
    private var isReading: Bool { !self.isPaused && !self.isStalled }

    init(_ network: VirtualNetwork, _ request: HTTPRequest, _ id: ExchangeID, _ events: any HTTPExchangeEvents) {
        self.network = network
        self.request = request
        self.id = id
        self.events = events
    }

    var time: (any TimeSource)? { self.simulation }

    func name() -> String { "\(self.request.method) \(self.request.endpoint.target)" }

    // MARK: Client

    func start() {
        guard self.phase == .new else { return }
        self.phase = .open
        self.network.totals.requests += 1
        self.simulation.note("  \(self.name())")
        self.restartIdleTimeout()
        if self.simulation.chance(self.conditions.unansweredRequests) { return self.silence() }
        guard let server = self.network.server(at: self.request.endpoint), !self.simulation.chance(self.conditions.failedRequests) else {
            self.disturb()
            return self.simulation.schedule(in: self.conditions.refusalDelay) { [self] in
                self.finish(TransportError(.refused, "The virtual network refused the request."))
            }
        }
        guard Self.repeatable.contains(self.request.method), self.simulation.chance(self.conditions.repeatedRequests) else {
            return self.send(to: server, isAnswered: true)
        }
        self.disturb()
        self.network.totals.repeatedRequests += 1
        let isFirstAnswered = self.simulation.chance(50)
        self.send(to: server, isAnswered: isFirstAnswered)
        self.send(to: server, isAnswered: !isFirstAnswered)
    }

    private func send(to server: any SimulatedServer, isAnswered: Bool) {
        self.lastRequest = max(self.lastRequest, self.simulation.now + self.simulation.random(in: self.conditions.delay) * 1_000_000)
        self.simulation.schedule(at: self.lastRequest) { [self] in
            guard !self.isSilent, !self.isReset else { return }
            let responder = VirtualResponder(self, isAnswered: isAnswered)
            self.responders.append(responder)
            let head = HTTPRequestHead(method: self.request.method, target: self.request.endpoint.target, headers: self.request.headers)
            self.simulation.step(.arrival, "server: \(head.method) \(head.target)") {
                server.respond(to: head, body: self.request.body, responder)
            }
            // A client that has ended the exchange, or an intermediary that doesn't need this response.
            if self.phase == .ended {
                self.notifyEnd(responder, in: self.conditions.delay)
            } else if !isAnswered {
                self.notifyEnd(responder, in: self.conditions.lateness)
            }
        }
    }

    func pauseReading() {
        self.isPaused = true
        self.network.totals.pauses += 1
        self.simulation.note("  \(self.name()) pauses reading")
    }

    func resumeReading() {
        self.isPaused = false
        self.restartIdleTimeout()
        self.simulation.schedule(in: 0...0) { [self] in self.deliver() }
    }

    func cancel() {
        guard self.phase != .ended else { return }
        self.simulation.note("  \(self.name()) is cancelled")
        // Released at the end, because it may own this exchange.
        let events = self.end()
        for responder in self.responders { self.notifyEnd(responder, in: self.conditions.delay) }
        _ = events
    }

    private func end() -> (any HTTPExchangeEvents)? {
        self.phase = .ended
        self.unread = []
        self.simulation.schedule(self, at: nil)
        return self.events.take()
    }

    /// Reports the end to the client, and an end with an error to the server.
    private func finish(_ error: TransportError?) {
        guard self.phase == .open else { return }
        let events = self.end()
        if error != nil { for responder in self.responders { self.notifyEnd(responder, in: self.conditions.delay) } }
        self.simulation.step(.arrival, "response to \(self.name()): \(error.map { "\($0.code)" } ?? "end")") {
            events?.ended(self.id, error)
        }
    }

    private func notifyEnd(_ responder: VirtualResponder, in delay: ClosedRange<Int64>) {
        self.simulation.schedule(in: delay) { [self] in if !self.isSilent { responder.disconnect() } }
    }

    // MARK: Time

    /// The idle timeout doesn't apply while reading is paused: then the server waits for the client.
    private func restartIdleTimeout() {
        guard self.phase == .open else { return }
        self.idleLimit = PatientLimit(self.request.idleTimeout, now: self.simulation.now)
        self.simulation.schedule(self, at: self.idleLimit.deadline)
    }

    func timerFired() {
        guard !self.isPaused else { return }
        guard self.idleLimit.hasPassed(now: self.simulation.now) else { return self.simulation.schedule(self, at: self.idleLimit.deadline) }
        self.finish(TransportError(.timedOut, "The virtual network did not respond in time."))
    }

    // MARK: Response

    /// Sends pieces of the response, which arrive together or one after the other.
    func transmit(_ pieces: [Piece]) {
        guard self.simulation.chance(self.conditions.splitReads) else { return self.schedule(pieces) }
        for piece in pieces {
            if case .body(let bytes) = piece, bytes.count > 1 {
                let first = Int(self.simulation.random(in: 1...Int64(bytes.count - 1)))
                self.schedule([.body(Array(bytes[..<first]))])
                self.schedule([.body(Array(bytes[first...]))])
            } else {
                self.schedule([piece])
            }
        }
    }

    private func schedule(_ pieces: [Piece]) {
        self.lastArrival = max(self.lastArrival, self.simulation.now + self.simulation.random(in: self.conditions.delay) * 1_000_000)
        self.simulation.schedule(at: self.lastArrival) { [self] in
            guard self.phase == .open, !self.isSilent else { return }
            for piece in pieces {
                // What arrived while the client doesn't read is one read.
                if case .body(let before)? = self.unread.last, case .body(let bytes) = piece {
                    self.unread[self.unread.count - 1] = .body(before + bytes)
                } else {
                    self.unread.append(piece)
                }
            }
            self.deliver()
        }
    }

    private func deliver() {
        while self.phase == .open, self.isReading, !self.unread.isEmpty {
            self.restartIdleTimeout()
            switch self.unread.removeFirst() {
            case .head(let head):
                self.simulation.step(.arrival, "response to \(self.name()): \(head.status)") { self.events?.received(head, of: self.id) }
            case .body(let bytes):
                for responder in self.responders where responder.isAnswered { responder.delivered(bytes.count) }
                self.simulation.step(.arrival, "response to \(self.name()): \(String(decoding: bytes.prefix(120), as: UTF8.self))") {
                    self.events?.received(bytes, of: self.id)
                }
            case .end(let error): return self.finish(error)
            }
            self.injectFault()
        }
    }

    // MARK: Faults

    private func disturb() {
        self.network.totals.faults += 1
        self.network.totals.exchangeFaults += 1
    }

    /// May disturb the exchange, after something has arrived.
    private func injectFault() {
        guard self.phase == .open else { return }
        if self.simulation.chance(self.conditions.silences) { self.silence() }
        if self.simulation.chance(self.conditions.resets) { self.reset() }
        if self.simulation.chance(self.conditions.closes) {
            self.reset(TransportError(.closed, "The virtual network ended the response before it was complete."))
        }
        if self.simulation.chance(self.conditions.stalls) { self.stall() }
    }

    private func silence() {
        self.simulation.note("  network: \(self.name()) is half-open")
        self.isSilent = true
        self.unread = []
        self.disturb()
    }

    /// The network ends the exchange for both sides. A request that is on its way doesn't arrive.
    func reset(_ error: TransportError = TransportError(.reset, "The virtual network reset the connection.")) {
        guard self.phase == .open, !self.isReset, !self.isSilent else { return }
        self.simulation.note("  network: \(self.name()) is reset")
        self.isReset = true
        self.disturb()
        for responder in self.responders { self.notifyEnd(responder, in: 0...0) }
        self.schedule([.end(error)])
    }

    private func stall() {
        guard !self.isStalled else { return }
        self.simulation.note("  network: the client of \(self.name()) stalls")
        self.disturb()
        self.isStalled = true
        self.simulation.schedule(in: self.conditions.stallTime) { [self] in
            self.isStalled = false
            self.deliver()
        }
    }

    func release() {
        for responder in self.responders { responder.release() }
        (self.responders, self.events) = ([], nil)
    }
}

/// The server's end of an exchange.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class VirtualResponder: HTTPResponder, @unchecked Sendable {
    private enum Phase { case new, begun, complete }

    /// Whether the client receives this response. An intermediary that has repeated the request drops the other one.
    let isAnswered: Bool
    private let exchange: VirtualExchange
    private var phase = Phase.new
    private var hasDisconnected = false
    /// The bytes that were written and the client hasn't read.
    private var bytesOnTheWay = 0
    private var isWritingPaused = false
    /// How many times writing was paused or resumed.
    private var writingChanges = 0
    private var disconnectAction: (@Sendable () -> Void)?
    private var writingChange: (@Sendable (_ paused: Bool) -> Void)?
    /// The tasks that wait until the client has read what was written.
    private var senders: [Waiter<Void>] = []

    private var simulation: Simulation { self.exchange.network.simulation }

    init(_ exchange: VirtualExchange, isAnswered: Bool) {
        self.exchange = exchange
        self.isAnswered = isAnswered
    }

    func respond(_ response: HTTPResponse) {
        guard self.phase == .new else { return }
        self.complete()
        self.transmit([.head(response.head)] + (response.body.isEmpty ? [] : [.body(response.body)]) + [.end(nil)])
    }

    func begin(_ head: HTTPResponseHead) {
        guard self.phase == .new else { return }
        self.phase = .begun
        self.transmit([.head(head)])
    }

    func write(_ bytes: [UInt8]) {
        guard self.phase == .begun, !bytes.isEmpty, !self.hasDisconnected else { return }
        if self.isAnswered { self.bytesOnTheWay += bytes.count }
        self.transmit([.body(bytes)])
        self.updateWriting()
    }

    func send(_ bytes: [UInt8]) async throws(TransportError) {
        while true {
            if Task.isCancelled { throw TransportError(.cancelled, "The task that sends this response was cancelled.") }
            switch self.phase {
            case .new: throw TransportError(.unsupported, "The response has no head yet: call begin(_:) before send(_:).")
            case .complete: throw TransportError(.closed, "The response has ended; nothing more can be sent.")
            case .begun: break
            }
            if self.hasDisconnected { throw TransportError(.closed, "The client disconnected before the end of the response.") }
            guard self.isWritingPaused else { return self.write(bytes) }
            let waiter = Waiter<Void>()
            self.senders.append(waiter)
            await waiter.value(onCancel: { waiter.fulfill(())?.resume() })
        }
    }

    func end() {
        guard self.phase == .begun else { return }
        self.complete()
        self.transmit([.end(nil)])
    }

    func onDisconnect(_ action: @escaping @Sendable () -> Void) {
        if self.hasDisconnected { return action() }
        if self.phase != .complete { self.disconnectAction = action }
    }

    func onWriting(_ change: @escaping @Sendable (_ paused: Bool) -> Void) {
        if self.phase != .complete { self.writingChange = change }
    }

    private func transmit(_ pieces: [VirtualExchange.Piece]) {
        if self.isAnswered, !self.hasDisconnected { self.exchange.transmit(pieces) }
    }

    private func complete() {
        self.phase = .complete
        self.release()
    }

    // MARK: The network

    /// The client has read a part of the body.
    func delivered(_ count: Int) {
        self.bytesOnTheWay = max(0, self.bytesOnTheWay - count)
        self.updateWriting()
    }

    /// The end of the exchange has arrived at the server.
    func disconnect() {
        guard self.phase != .complete, !self.hasDisconnected else { return }
        self.hasDisconnected = true
        let action = self.disconnectAction
        self.release()
        self.simulation.step(.arrival, "server: the client of \(self.exchange.name()) has disconnected") { action?() }
    }

    private func updateWriting() {
        let window = self.exchange.network.conditions.window
        let isPaused = self.bytesOnTheWay > (self.isWritingPaused ? window / 2 : window)
        guard isPaused != self.isWritingPaused else { return }
        self.isWritingPaused = isPaused
        self.writingChanges += 1
        if isPaused { self.disconnectIfStalled() }
        if !isPaused { self.wakeSenders() }
        self.simulation.schedule(in: 0...0) { [self] in
            guard let change = self.writingChange else { return }
            self.simulation.step(.arrival, "server: the response to \(self.exchange.name()) \(isPaused ? "pauses" : "resumes")") {
                change(isPaused)
            }
        }
    }

    /// A listener disconnects a client that reads nothing for its stall time.
    private func disconnectIfStalled() {
        let changes = self.writingChanges
        self.simulation.schedule(in: 30_000...30_000) { [self] in
            if self.writingChanges == changes, self.phase != .complete { self.disconnect() }
        }
    }

    private func wakeSenders() {
        let senders = self.senders
        self.senders = []
        for sender in senders { sender.fulfill(())?.resume() }
    }

    /// Releases what the closures of the server retain.
    func release() {
        self.wakeSenders()
        (self.disconnectAction, self.writingChange) = (nil, nil)
    }
}
