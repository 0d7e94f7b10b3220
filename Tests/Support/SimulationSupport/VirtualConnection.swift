package import RealtimeCore

/// One end of a connection on a ``VirtualNetwork``.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
package final class VirtualConnection: SimulatedConnection, @unchecked Sendable {
    package enum Role: Sendable { case client, server }

    package enum Phase: Sendable {
        case created, opening, open
        /// This end sent a close frame.
        case closing
        case abandoned
        /// The end was reported.
        case ended
    }

    package let id: ConnectionID
    package let role: Role
    package private(set) var phase: Phase
    /// The counts of this end.
    package private(set) var messagesSent = 0, bytesSent = 0, messagesReceived = 0, bytesReceived = 0
    /// Whether the network or the server disturbed the connection. A client has no other reason to abandon it.
    package var isDisturbed: Bool { self.link.isDisturbed }

    /// Called before the end is reported.
    var onEnd: () -> Void = {}
    let link: VirtualLink
    /// When the last message to this end arrives. Messages keep their order.
    var lastArrival = Instant(nanoseconds: 0)
    private var events: (any MessageEvents)?
    private var outgoing: [TransportMessage] = []
    /// The messages that arrived while this end doesn't read.
    private var unread: [TransportMessage] = []
    private var isPaused = false, isStalled = false
    /// The bytes that this end has sent and the other one hasn't read.
    private var bytesOnTheWay = 0
    private var isWritingPaused = false

    private var network: VirtualNetwork { self.link.network }
    private var simulation: Simulation { self.link.network.simulation }
    private var peer: VirtualConnection? { self.role == .client ? self.link.server : self.link.client }
    private var isReading: Bool { !self.isPaused && !self.isStalled }

    init(_ id: ConnectionID, _ role: Role, _ link: VirtualLink, _ events: (any MessageEvents)?) {
        self.id = id
        self.role = role
        self.link = link
        self.events = events
        self.phase = role == .client ? .created : .open
    }

    /// Both ends of a connection have the same number.
    private func name() -> String { "\(self.role) \(self.link.number)" }

    // MARK: Calls of the user of this end

    package func open() {
        guard self.phase == .created else { return }
        self.phase = .opening
        self.link.connect(self)
    }

    package func enqueue(_ message: TransportMessage) {
        guard self.phase == .created || self.phase == .opening || self.phase == .open else { return }
        self.outgoing.append(message)
        self.messagesSent += 1
        self.bytesSent += message.bytes.count
    }

    package func flush() {
        self.readUnread()
        guard self.phase == .open, !self.outgoing.isEmpty else { return }
        var messages = self.outgoing
        self.outgoing = []
        self.network.totals.sent += messages.count
        self.network.totals.inTransit += messages.count
        if self.simulation.isTracing { for message in messages { self.simulation.note("  \(self.name()) sends \(Self.text(message))") } }
        if messages.count > 1, self.simulation.chance(self.network.conditions.splitReads) {
            let rest = messages.count / 2
            self.transmit(Array(messages[..<rest]))
            messages.removeFirst(rest)
        }
        self.transmit(messages)
    }

    package func pauseReading() {
        self.isPaused = true
        self.network.totals.pauses += 1
        self.simulation.note("  \(self.name()) pauses reading")
    }

    package func resumeReading() { self.isPaused = false }

    package func close(_ code: CloseCode, reason: String) {
        switch self.phase {
        case .abandoned, .ended, .closing: return
        case .created, .opening:
            self.phase = .closing
            return self.simulation.schedule(in: 0...0) { [self] in self.end(.requested) }
        case .open: break
        }
        self.flush()
        self.phase = .closing
        self.simulation.note("  \(self.name()) closes with \(code) \(reason)")
        if self.role == .server { self.link.disturb() }
        if self.role == .client, self.simulation.chance(self.network.conditions.unansweredCloses) { self.link.silence() }
        // A transport doesn't wait for the answer forever.
        self.simulation.schedule(in: self.network.conditions.closeTimeout) { [self] in self.end(.requested) }
        self.peer?.schedule { peer in
            guard !self.link.isSilent else { return }
            peer.arrive(end: .peer(code, reason))
            self.schedule { if !self.link.isSilent { $0.end(.requested) } }
        }
    }

    package func abandon() {
        guard self.phase != .abandoned, self.phase != .ended else { return }
        let wasOpen = self.phase == .open || self.phase == .closing
        self.phase = .abandoned
        self.simulation.note("  \(self.name()) is abandoned")
        let reason = CloseReason.transport(TransportError(.reset, "The peer abandoned the connection."))
        switch self.role {
        case .client:
            self.simulation.schedule(in: self.network.conditions.lateness) { [self] in self.arrive(end: reason) }
            if wasOpen { self.link.server?.schedule { if !self.link.isSilent { $0.end(reason) } } }
        case .server:
            self.events = nil
            self.link.disturb()
            self.link.client?.schedule { if !self.link.isSilent || $0.phase == .abandoned { $0.arrive(end: reason) } }
        }
    }

    // MARK: The network

    /// Schedules something that arrives at this end, after everything that is on the way to it.
    func schedule(_ action: @escaping @Sendable (VirtualConnection) -> Void) {
        let delay = self.simulation.random(in: self.network.conditions.delay) * 1_000_000
        self.lastArrival = max(self.lastArrival, self.simulation.now + delay)
        self.simulation.schedule(at: self.lastArrival) { [self] in action(self) }
    }

    private func transmit(_ messages: [TransportMessage]) {
        self.bytesOnTheWay += messages.reduce(0) { $0 + $1.bytes.count }
        self.updateWriting()
        guard let peer = self.peer else { return self.network.lost(messages) }
        peer.schedule { $0.arrive(messages) }
    }

    /// Reports when the bytes on the way cross the mark.
    private func updateWriting() {
        let window = self.network.conditions.window
        let isPaused = self.isWritingPaused ? self.bytesOnTheWay > window / 2 : self.bytesOnTheWay > window
        guard isPaused != self.isWritingPaused else { return }
        self.isWritingPaused = isPaused
        self.simulation.schedule(in: 0...0) { [self] in
            guard self.phase == .open else { return }
            self.simulation.step(.arrival, "\(self.name()) \(isPaused ? "pauses" : "resumes") writing") {
                self.events?.writing(self.id, paused: isPaused)
            }
        }
    }

    /// The upgrade was accepted; on the server's end.
    func accept(_ events: any MessageEvents) {
        self.events = events
        self.simulation.step(.arrival, "\(self.name()) opened") { events.opened(self.id, head: HTTPResponseHead(status: 101)) }
        self.flush()
    }

    /// The server accepted the upgrade; on the client's end.
    func opened(_ response: HTTPResponseHead) {
        switch self.phase {
        case .opening:
            self.phase = .open
            self.simulation.step(.arrival, "\(self.name()) opened") { self.events?.opened(self.id, head: response) }
            self.flush()
        case .abandoned: self.deliverLate("opened") { $0.opened(self.id, head: response) }
        case .created, .open, .closing, .ended: break
        }
    }

    /// Messages arrive at this end.
    func arrive(_ messages: [TransportMessage]) {
        self.network.totals.inTransit -= messages.count
        switch self.phase {
        case .open where !self.link.isSilent, .closing where !self.link.isSilent && self.role == .client:
            if self.isReading, self.unread.isEmpty { return self.deliver(messages) }
            // Also if this end reads again, but hasn't yet read what arrived before.
            self.unread += messages
            self.network.totals.inTransit += messages.count
            self.readUnread()
        case .abandoned where self.role == .client:
            self.network.totals.delivered += messages.count
            self.count(messages)
            self.deliverLate("received \(messages.count)") { $0.received(self.id, MessageBatch(messages)) }
        case .created, .opening, .open, .closing, .abandoned, .ended:
            self.network.totals.lost += messages.count
        }
    }

    private func count(_ messages: [TransportMessage]) {
        guard self.events != nil else { return }
        self.messagesReceived += messages.count
        self.bytesReceived += messages.reduce(0) { $0 + $1.bytes.count }
    }

    private func deliver(_ messages: [TransportMessage]) {
        self.network.totals.delivered += messages.count
        self.count(messages)
        if let peer {
            peer.bytesOnTheWay -= messages.reduce(0) { $0 + $1.bytes.count }
            peer.updateWriting()
        }
        self.simulation.step(.arrival, "\(self.name()) received \(messages.map(Self.text).joined(separator: " "))") {
            self.events?.received(self.id, MessageBatch(messages))
        }
        if self.role == .server { self.link.injectFault() }
        // As every transport does; the listener answers those of clients. The user of this end doesn't count them.
        let pongs = messages.filter { $0.kind == .ping }.map { TransportMessage(.pong, $0.bytes) }
        guard !pongs.isEmpty, self.role == .client, self.phase == .open else { return }
        self.outgoing += pongs
        self.flush()
    }

    /// Delivers what arrived while this end didn't read, as one read.
    private func readUnread() {
        guard !self.unread.isEmpty, self.isReading else { return }
        self.simulation.schedule(in: 0...0) { [self] in
            guard !self.unread.isEmpty, self.isReading, self.phase == .open || self.phase == .closing else { return }
            self.deliver(self.takeUnread())
        }
    }

    private func takeUnread() -> [TransportMessage] {
        defer { self.unread = [] }
        self.network.totals.inTransit -= self.unread.count
        return self.unread
    }

    /// The end of the connection arrives at this end.
    func arrive(end reason: CloseReason) {
        if self.phase == .abandoned {
            self.deliverLate("closed: \(reason)") { $0.closed(self.id, reason) }
            self.events = nil
        } else if !self.link.isSilent || self.phase == .opening {
            self.end(reason)
        }
    }

    /// Reports the end to the user of this end, after everything that arrived before.
    func end(_ reason: CloseReason) {
        guard self.phase == .opening || self.phase == .open || self.phase == .closing else { return }
        if !self.unread.isEmpty, !self.isStalled { self.deliver(self.takeUnread()) }
        guard self.phase == .opening || self.phase == .open || self.phase == .closing else { return }
        self.phase = .ended
        self.network.totals.lost += self.unread.count
        _ = self.takeUnread()
        let events = self.events
        self.events = nil
        self.onEnd()
        self.simulation.step(.arrival, "\(self.name()) closed: \(reason)") { events?.closed(self.id, reason) }
    }

    private func deliverLate(_ what: @autoclosure () -> String, _ body: (any MessageEvents) -> Void) {
        guard let events = self.events else { return }
        self.network.totals.lateEvents += 1
        self.simulation.step(.lateEvent, "\(self.name()) \(what())") { body(events) }
    }

    /// Doesn't read for a while.
    func stall() {
        guard !self.isStalled else { return }
        self.link.disturb()
        self.simulation.note("  network: \(self.name()) stalls")
        self.isStalled = true
        self.simulation.schedule(in: self.network.conditions.stallTime) { [self] in
            self.isStalled = false
            self.readUnread()
        }
    }

    /// Replaces the receiver of the events, before the connection is opened.
    func replaceEvents(_ events: any MessageEvents) { self.events = events }

    func release() {
        self.events = nil
        self.outgoing = []
    }

    private static func text(_ message: TransportMessage) -> String { String(decoding: message.bytes.prefix(120), as: UTF8.self) }
}

extension VirtualNetwork {
    func lost(_ messages: [TransportMessage]) {
        self.totals.inTransit -= messages.count
        self.totals.lost += messages.count
    }
}
