package import RealtimeCore

/// A protocol for tests that needs what a protocol over one WebSocket doesn't: it negotiates over HTTP before it connects, falls back to
/// another kind of connection within an attempt, moves from one connection to another, asks the application whether to reconnect, uploads
/// sequences, and gives up after a timeout.
///
/// ```
/// POST /relay/negotiate                 → TOKEN KIND...    the kinds are "socket" and "polling", best first
/// upgrade /relay/socket?token=TOKEN     a WebSocket; each message is one line
/// POST /relay/poll?token=TOKEN          → the lines for the client, as soon as there are any
/// POST /relay/send?token=TOKEN          the lines of the client
///
/// server:  hello            completes the handshake
///          + TEXT           an event
///          = UPLOAD COUNT   an upload is complete
///          upgrade          the client may move to a WebSocket
///          moved            the client has moved to the connection on which this arrives
/// client:  .                a ping
///          item UPLOAD TEXT
///          end UPLOAD
///          move             on the new connection, before it replaces the old one
/// ```
package struct RelaySession: ReconnectingSession {
    package enum Failure: Error, Hashable { case cancelled, timedOut(Duration), ended(CloseReason) }

    package enum Kind: String, Sendable { case socket, polling }

    /// A connection of either kind.
    package struct Request: Hashable, Sendable {
        package var kind: Kind
        package var token: String
    }

    package enum Event: Hashable, Sendable {
        case attempt(ConnectionID)
        case connected(Kind)
        case moved
        case lost(CloseReason)
        case waiting(Duration)
        case ended
        case message(String)
        case writing(paused: Bool)
    }

    package enum Work: Sendable {
        case negotiate
        /// Ask the application whether to reconnect, after this number of failures.
        case ask(failures: Int)
        case upload([String])
    }

    package typealias WorkProgress = String

    package enum WorkResult: Sendable {
        case negotiated(Result<(token: String, kinds: [Kind]), TransportError>)
        case decided(ReconnectDecision)
        case uploaded
    }

    package typealias WaiterResult = Int

    /// What the work in progress is for.
    private enum Purpose: Sendable {
        case negotiation(ConnectionID)
        case decision(ConnectionID)
        case upload(name: UInt64, WaiterID)
    }

    package var connection: ConnectionStateMachine
    package private(set) var route = EventRoutes.none
    private var works: [WorkID: Purpose] = [:]
    private var lastWork: UInt64 = 0
    /// The result of the negotiation, and the kind in use.
    private var token = ""
    private var kinds: [Kind] = []
    private var kindIndex = 0
    /// The connection that is to replace the current one.
    private var candidate: ConnectionID?
    /// The connection that was replaced and hasn't ended.
    private var replaced: ConnectionID?
    /// The callers of uploads that the server hasn't confirmed, and the connection that the end of each was sent on.
    private var uploads: [UInt64: (waiter: WaiterID, sent: ConnectionID?)] = [:]

    package init(seed: UInt64 = 1) {
        self.connection = ConnectionStateMachine(generator: SplitMix64(seed: seed))
    }

    package func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    package func timedOut(_ waiter: WaiterID, after limit: Duration) -> Failure { .timedOut(limit) }
    package var nextDeadline: Instant? { self.connection.nextDeadline }
    package var isConnected: Bool { self.connection.connected != nil }
    package var waiterCount: Int { self.uploads.count }
    package var workCount: Int { self.works.count }
    package var request: Request { Request(kind: self.kinds[self.kindIndex], token: self.token) }

    package func ping(now: Instant) -> WebSocketMessage { .text(".") }
    package mutating func pinged(_ message: WebSocketMessage, now: Instant, _ effects: inout Effects<Self>) {}

    // MARK: Connecting

    package mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        (self.token, self.kinds, self.kindIndex) = ("", [], 0)
        effects.deliver(.attempt(id), on: self.route)
    }

    package mutating func begin(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if self.kinds.isEmpty {
            self.start(.negotiate, for: .negotiation(id), &effects)
        } else {
            effects.commands.append(.open(id, self.request))
        }
    }

    package mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        if id == self.candidate {
            effects.commands.append(.send(id, .text("move")))
        } else {
            _ = self.connection.opened(id)
        }
    }

    package mutating func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision {
        switch reason {
        case .openTimeout, .heartbeatTimeout: return .never
        case .requested: return .never
        default: break
        }
        if self.connection.connected == nil, self.kindIndex + 1 < self.kinds.count {
            self.kindIndex += 1
            return .reopen
        }
        return .ask
    }

    package mutating func lost(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        for id in self.works.keys.sorted(by: { $0.rawValue < $1.rawValue }) { effects.commands.append(.cancel(id)) }
        self.works = [:]
        for other in [self.candidate.take(), self.replaced.take()] {
            if let other { effects.commands.append(.abandon(other)) }
        }
        self.failUploads(reason, &effects) { _ in true }
        effects.deliver(.lost(reason), on: self.route)
        if case .undecided(let id) = next { self.start(.ask(failures: self.connection.failures), for: .decision(id), &effects) }
        self.report(next, now: now, &effects)
    }

    package mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        self.report(next, now: now, &effects)
    }

    private func report(_ next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        switch next {
        case .later(let until): effects.deliver(.waiting(now.duration(to: until)), on: self.route)
        case .never: effects.deliver(.ended, on: self.route)
        case .reconnect, .undecided: break
        }
    }

    package mutating func additionalClosed(
        _ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>
    ) {
        if id == self.candidate { self.candidate = nil }
        guard id == self.replaced else { return }
        self.replaced = nil
        self.failUploads(reason, &effects) { $0 == id }
    }

    private mutating func failUploads(_ reason: CloseReason, _ effects: inout Effects<Self>, where isLost: (ConnectionID?) -> Bool) {
        for (upload, (waiter, sent)) in self.uploads.sorted(by: { $0.key < $1.key }) where isLost(sent) {
            self.uploads[upload] = nil
            effects.commands.append(.resume(waiter, .failure(.ended(reason))))
        }
    }

    package mutating func timeout(now: Instant, _ effects: inout Effects<Self>) { self.connectionTimeout(now: now, &effects) }

    package mutating func writing(_ id: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>) {
        if id == self.connection.connected { effects.deliver(.writing(paused: paused), on: self.route) }
    }

    // MARK: Messages

    package mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        for message in batch.messages {
            let words = String(decoding: message.bytes, as: UTF8.self).split(separator: " ", maxSplits: 2).map(String.init)
            if id == self.candidate {
                if words == ["moved"] { self.move(to: id, &effects) }
                continue
            }
            // Until the replaced connection ends, it may bring the answer to what was sent on it. An event on it would be out of order.
            if id == self.replaced, words.first != "=" { continue }
            guard id == self.replaced || self.connection.received(id, now: now) else { return }
            switch (words.first, words.count) {
            case ("hello", 1):
                let heartbeat = HeartbeatPolicy(probeAfterSilence: .seconds(60), deadAfterSilence: .seconds(90))
                guard self.connection.ready(id, heartbeat, now: now) == .announceConnected else { continue }
                effects.deliver(.connected(self.request.kind), on: self.route)
            case ("upgrade", 1): self.beginMove(&effects)
            case ("+", 2): effects.deliver(.message(words[1]), on: self.route)
            case ("=", 3):
                guard let upload = UInt64(words[1]), let count = Int(words[2]), let waiter = self.uploads.take(upload)?.waiter else {
                    continue
                }
                effects.commands.append(.resume(waiter, .success(count)))
            default: effects.counters.messagesIgnored += 1
            }
        }
    }

    private mutating func beginMove(_ effects: inout Effects<Self>) {
        guard self.connection.connected != nil, self.candidate == nil, self.request.kind == .polling else { return }
        let id = self.connection.additionalConnection()
        self.candidate = id
        effects.commands.append(.open(id, Request(kind: .socket, token: self.token)))
    }

    private mutating func move(to new: ConnectionID, _ effects: inout Effects<Self>) {
        guard let old = self.connection.connected, self.connection.replace(old, by: new) else { return }
        (self.candidate, self.replaced) = (nil, old)
        (self.kinds, self.kindIndex) = ([.socket], 0)
        effects.commands.append(.close(old, .normal, reason: ""))
        effects.deliver(.moved, on: self.route)
    }

    // MARK: Work

    private mutating func start(_ work: Work, for purpose: Purpose, _ effects: inout Effects<Self>) {
        self.lastWork += 1
        let id = WorkID(rawValue: self.lastWork)
        self.works[id] = purpose
        effects.commands.append(.work(id, work))
    }

    package mutating func workProgressed(_ id: WorkID, _ item: String, now: Instant, _ effects: inout Effects<Self>) {
        guard case .upload(let name, _)? = self.works[id], let connection = self.connection.connected else { return }
        effects.commands.append(.send(connection, .text("item \(name) \(item)")))
    }

    package mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        switch (self.works.take(id), result) {
        case (.negotiation(let connection)?, .negotiated(.success(let result))):
            (self.token, self.kinds) = result
            self.begin(connection, now: now, &effects)
        case (.negotiation(let connection)?, .negotiated(.failure(let error))):
            self.closed(connection, .transport(error), now: now, &effects)
        case (.decision(let connection)?, .decided(let decision)):
            self.decided(connection, decision, now: now, &effects)
        case (.upload(let name, _)?, .uploaded):
            guard let connection = self.connection.connected else { break }
            self.uploads[name]?.sent = connection
            effects.commands.append(.send(connection, .text("end \(name)")))
        default: break
        }
    }

    package mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        self.uploads = self.uploads.filter { $0.value.waiter != waiter }
        for (id, purpose) in self.works {
            guard case .upload(_, waiter) = purpose else { continue }
            self.works[id] = nil
            effects.commands.append(.cancel(id))
        }
    }

    // MARK: Callers

    package mutating func observe(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.route)
    }

    /// Uploads items, and returns the number that the server has received.
    package mutating func upload(_ items: [String], _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        guard self.connection.connected != nil else {
            return effects.commands.append(.resume(waiter, .failure(.ended(.requested))))
        }
        let name = self.lastWork + 1
        self.uploads[name] = (waiter, nil)
        self.start(.upload(items), for: .upload(name: name, waiter), &effects)
    }
}
