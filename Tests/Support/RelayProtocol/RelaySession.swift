package import RealtimeCore

/// A protocol for tests that needs what a protocol over one WebSocket doesn't: it negotiates over HTTP, falls back to another kind of
/// connection within an attempt, moves to another connection, asks the application whether to reconnect, and uploads sequences.
///
/// ```
/// POST /relay/negotiate                 → TOKEN KIND...    the kinds are "socket", "stream" and "polling", best first
/// upgrade /relay/socket?token=TOKEN     a WebSocket; each message is one line
/// POST /relay/poll?token=TOKEN          → the lines for the client, as soon as there are any
/// GET  /relay/stream?token=TOKEN        → the lines for the client, each with a line feed, until the end of the connection
/// POST /relay/send?token=TOKEN          the lines of the client that polls or streams
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
    package enum Failure: Error, Hashable { case cancelled, timedOut(WaitLimit), ended(CloseReason) }
    package enum Kind: String, Sendable { case socket, polling, stream }
    /// A connection of any kind.
    package struct Request: Hashable, Sendable {
        package var kind: Kind
        package var token: String

        package init(kind: Kind, token: String) {
            (self.kind, self.token) = (kind, token)
        }
    }

    package enum Event: Hashable, Sendable {
        case attempt(ConnectionID), connected(Kind), moved, lost(CloseReason), waiting(Duration), ended
        case message(String), writing(paused: Bool)
    }

    package typealias WaiterResult = Int
    package typealias WorkProgress = String

    /// Work asks the application whether to reconnect after a number of failures, among other things.
    package enum Work: Sendable { case negotiate, ask(failures: Int), upload([String]) }

    package enum WorkResult: Sendable {
        case negotiated(Result<(token: String, kinds: [Kind]), TransportError>), decided(ReconnectDecision), uploaded
    }

    package enum Purpose: Sendable { case negotiation(ConnectionID), decision(ConnectionID), upload(WaiterID) }

    package var connection: ConnectionStateMachine
    package private(set) var route = EventRoutes.none
    package private(set) var works = PendingWork<Purpose>()
    /// The result of the negotiation, of which the first kind is in use.
    private var token = ""
    private var kinds: [Kind] = []
    private var move = ConnectionMove()
    private let heartbeat: HeartbeatPolicy
    /// The callers of uploads that the server hasn't confirmed, and the connection that the end of each was sent on.
    private var uploads: [WaiterID: ConnectionID?] = [:]

    /// The heartbeat of a client by default.
    package static let heartbeat = HeartbeatPolicy(probeAfterSilence: .seconds(60), deadAfterSilence: .seconds(90))

    package init(policy: ConnectionPolicy = ConnectionPolicy(), heartbeat: HeartbeatPolicy = Self.heartbeat, seed: UInt64 = 1) {
        self.heartbeat = heartbeat
        self.connection = ConnectionStateMachine(policy: policy, generator: SplitMix64(seed: seed))
    }

    package func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    package func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> Failure { .timedOut(limit) }
    package var isConnected: Bool { self.connection.connected != nil }
    package var waiterCount: Int { self.uploads.count }
    package var request: Request { Request(kind: self.kinds[0], token: self.token) }
    package func ping(now: Instant) -> TransportMessage { .text(".") }

    // MARK: Connecting

    package mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        (self.token, self.kinds) = ("", [])
        effects.deliver(.attempt(id), on: self.route)
    }

    package mutating func begin(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if self.kinds.isEmpty { return _ = self.works.start(.negotiate, for: .negotiation(id), &effects) }
        effects.commands.append(.open(id, self.request))
    }

    package mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        if id == self.move.candidate { return effects.commands.append(.send(id, .text("move"))) }
        _ = self.connection.opened(id, now: now)
    }

    package mutating func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision {
        if [.openTimeout, .heartbeatTimeout, .requested].contains(reason) { return .never }
        guard self.connection.connected == nil, self.kinds.count > 1 else { return .ask }
        self.kinds.removeFirst()
        return .reopen
    }

    package mutating func lost(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        self.works.cancelAll(&effects)
        self.move.abandon(&effects)
        self.failUploads(reason, &effects) { _ in true }
        effects.deliver(.lost(reason), on: self.route)
        if case .undecided(let id) = next { self.works.start(.ask(failures: self.connection.failures), for: .decision(id), &effects) }
        self.resolved(reason, then: next, now: now, &effects)
    }

    package mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        if case .later(let until) = next { effects.deliver(.waiting(now.duration(to: until)), on: self.route) }
        if case .never = next { effects.deliver(.ended, on: self.route) }
    }

    package mutating func additionalClosed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        if self.move.closed(id) == .replaced { self.failUploads(reason, &effects) { $0 == id } }
    }

    private mutating func failUploads(_ reason: CloseReason, _ effects: inout Effects<Self>, where isLost: (ConnectionID?) -> Bool) {
        for waiter in self.uploads.filter({ isLost($0.value) }).keys.sorted() {
            self.uploads[waiter] = nil
            effects.resume(waiter, .failure(.ended(reason)))
        }
    }

    package mutating func writing(_ id: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>) {
        if id == self.connection.connected { effects.deliver(.writing(paused: paused), on: self.route) }
    }

    // MARK: Messages and uploads

    package mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        for message in batch.messages {
            let words = String(decoding: message.bytes, as: UTF8.self).split(separator: " ", maxSplits: 2).map(String.init)
            guard self.move.contains(id) || self.connection.received(id, now: now) else { return }
            switch (words[0], words.count) {
            case ("moved", 1) where id == self.move.candidate:
                guard let old = self.move.complete(&self.connection, now: now) else { continue }
                self.kinds = [.socket]
                effects.commands.append(.close(old, .normal, reason: ""))
                effects.deliver(.moved, on: self.route)
            // Until the replaced connection ends, it may bring the answer to what was sent on it.
            case ("=", 3):
                guard let waiter = UInt64(words[1]).map(WaiterID.init), let count = Int(words[2]) else { continue }
                if self.uploads.removeValue(forKey: waiter) != nil { effects.resume(waiter, .success(count)) }
            // An event on the replaced connection would be out of order.
            case _ where id != self.connection.current: continue
            case ("hello", 1):
                guard self.connection.ready(id, self.heartbeat, now: now) == .announceConnected else { continue }
                effects.deliver(.connected(self.kinds[0]), on: self.route)
            case ("upgrade", 1) where self.kinds[0] == .polling:
                guard let new = self.move.begin(&self.connection) else { continue }
                effects.commands.append(.open(new, Request(kind: .socket, token: self.token)))
            case ("+", 2): effects.deliver(.message(words[1]), on: self.route)
            default: effects.counters.messagesIgnored += 1
            }
        }
    }

    package mutating func workProgressed(_ id: WorkID, _ item: String, now: Instant, _ effects: inout Effects<Self>) {
        guard case .upload(let waiter)? = self.works[id], let connection = self.connection.connected else { return }
        effects.commands.append(.send(connection, .text("item \(waiter.rawValue) \(item)")))
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
        case (.upload(let waiter)?, .uploaded):
            guard let connection = self.connection.connected else { break }
            self.uploads[waiter] = connection
            effects.commands.append(.send(connection, .text("end \(waiter.rawValue)")))
        default: break
        }
    }

    package mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        self.uploads.removeValue(forKey: waiter)
        self.works.cancelAll(where: { if case .upload(waiter) = $0 { true } else { false } }, &effects)
    }

    package mutating func observe(_ id: ConsumerID, _ effects: inout Effects<Self>) { effects.routes.add(id, to: &self.route) }

    /// Uploads items, and returns the number that the server has received.
    package mutating func upload(_ items: [String], _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        guard self.isConnected else { return effects.resume(waiter, .failure(.ended(.requested))) }
        self.uploads[waiter] = .some(nil)
        self.works.start(.upload(items), for: .upload(waiter), &effects)
    }
}
