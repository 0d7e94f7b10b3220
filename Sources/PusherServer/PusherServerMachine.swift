import PusherWire
import RealtimeCore

/// The whole server as a value: who is connected, who is on which channel, what is sent to whom.
///
/// A connection's life:
/// ```
///   accepted ──opened──▶ greeted ──subscribe, events, pings──▶ greeted ──closed──▶ gone
///       └── refused ──▶ told why and closed; what it still says is not read
/// ```
struct PusherServerMachine: SessionMachine {
    typealias Event = PusherServerEvent
    typealias Answer = Never

    enum Failure: Error { case cancelled }

    struct Work: Sendable {
        var attempt: SubscriptionAttempt
    }

    typealias WorkResult = SubscriptionVerdict

    struct Connection: Sendable {
        let socketID: String
        var channels: [String] = []
        /// By channel.
        var users: [String: PresenceUser] = [:]
        var pending: [String: WorkID] = [:]
        var lastReceived: Instant
        var pingedAt: Instant?
        var isSilent = false
        var isGreeted = false
        /// Told why, and closed: nothing it says counts any more.
        var isRefused = false
        var clientEvents: (second: Int64, count: Int) = (0, 0)
    }

    struct Channel: Sendable {
        var subscribers: [ConnectionID] = []
        /// Of a presence channel: in the order in which they came, with the number of their connections.
        var users: [(user: PresenceUser, connections: Int)] = []
    }

    struct Attempt: Sendable {
        var connection: ConnectionID
        var channel: String
        var user: PresenceUser?
    }

    struct Delayed: Sendable {
        var connection: ConnectionID
        var message: WebSocketMessage
    }

    let app: PusherApp
    let asksBeforeSubscribing: Bool
    var faults = ServerFaults()
    private(set) var connections: [ConnectionID: Connection] = [:]
    private(set) var channels: [String: Channel] = [:]
    private var bySocketID: [String: ConnectionID] = [:]
    private var heartbeats = Deadlines<ConnectionID, Void>()
    private var attempts: [WorkID: Attempt] = [:]
    private var delayed: [UInt64: Delayed] = [:]
    private var delays = Deadlines<UInt64, Void>()
    private var lastNumber: UInt64 = 0
    private var generator: SplitMix64
    private var listening: [ListenerID] = []

    init(_ app: PusherApp, asksBeforeSubscribing: Bool, seed: UInt64) {
        self.app = app
        self.asksBeforeSubscribing = asksBeforeSubscribing
        self.generator = SplitMix64(seed: seed)
    }

    static var cancelled: Failure { .cancelled }
    static func timedOut(after limit: Duration) -> Failure { .cancelled }

    var nextDeadline: Instant? { .earliest(self.heartbeats.earliest, self.delays.earliest) }

    // MARK: Connections

    func start(now: Instant, _ effects: inout Effects<Self>) {}

    /// Says goodbye to everybody, as a server that is about to come back does.
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        for (id, connection) in self.connections.sorted(by: { $0.key < $1.key }) where !connection.isRefused {
            effects.commands.append(.send(id, PusherFrames.error(4200, "The server is stopping. Please reconnect shortly.")))
            effects.commands.append(.close(id, PusherCloseCode.reconnect, reason: "The server is stopping."))
        }
    }

    /// A connection was accepted for this target.
    mutating func accepted(_ id: ConnectionID, _ request: HTTPRequestHead, now: Instant, _ effects: inout Effects<Self>) {
        var connection = Connection(socketID: self.makeSocketID(), lastReceived: now)
        if let refusal = self.refusal(request) {
            connection.isRefused = true
            self.connections[id] = connection
            effects.commands.append(.send(id, PusherFrames.error(Int(refusal.code.rawValue), refusal.why)))
            effects.commands.append(.close(id, refusal.code, reason: refusal.why))
            return
        }
        self.connections[id] = connection
        self.bySocketID[connection.socketID] = id
    }

    private func refusal(_ request: HTTPRequestHead) -> (code: CloseCode, why: String)? {
        if let code = self.faults.refuseWith { return (code, "The server was told to refuse.") }
        let parts = request.path.split(separator: "/")
        guard parts.count >= 2, parts[parts.count - 2] == "app" else { return (PusherCloseCode.pathNotFound, "Path not found") }
        guard parts[parts.count - 1] == self.app.key else { return (PusherCloseCode.noSuchApplication, "Application does not exist") }
        let version = PercentEncoding.fields(request.query)?.first { $0.name == "protocol" }?.value
        guard let version else { return (PusherCloseCode.noProtocol, "No protocol version was given") }
        guard let number = Int(version), (5...7).contains(number) else {
            return (PusherCloseCode.unsupportedProtocol, "Protocol version \(version.prefix(20)) is not supported; 5 to 7 are")
        }
        guard self.bySocketID.count < self.app.connectionLimit else {
            return (PusherCloseCode.overQuota, "Application is over connection quota")
        }
        return nil
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id], !connection.isRefused else { return }
        let seconds = max(1, Int(self.app.activityTimeout.components.seconds))
        self.connections[id]!.isGreeted = true
        self.send(PusherFrames.connectionEstablished(socketID: connection.socketID, activityTimeout: seconds), to: id, now: now, &effects)
        self.heartbeats.set(id, now.advanced(by: self.app.activityTimeout))
        self.deliver(.connected(socketID: connection.socketID), &effects)
    }

    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections.removeValue(forKey: id), !connection.isRefused else { return }
        self.heartbeats.set(id, nil)
        self.bySocketID[connection.socketID] = nil
        for (_, work) in connection.pending {
            self.attempts[work] = nil
            effects.commands.append(.cancel(work))
        }
        for channel in connection.channels { self.leave(channel, id, connection, now: now, &effects) }
        if connection.isGreeted { self.deliver(.disconnected(socketID: connection.socketID, reason), &effects) }
    }

    func reading(_ id: ConnectionID, paused: Bool, now: Instant) {}

    func withdrawn(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {}

    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        while let due = self.delays.popDue(now) {
            guard let message = self.delayed.removeValue(forKey: due.key), self.connections[message.connection] != nil else { continue }
            effects.commands.append(.send(message.connection, message.message))
        }
        while let due = self.heartbeats.popDue(now) { self.heartbeat(due.key, now: now, &effects) }
    }

    /// Lazy: a message moves no deadline; the deadline, when it comes, looks when the last one was.
    private mutating func heartbeat(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id] else { return }
        if self.isSilent(id) {
            // Whoever is told nothing owes no answer.
            self.connections[id]!.pingedAt = nil
            self.heartbeats.set(id, now.advanced(by: max(.milliseconds(1), self.app.activityTimeout)))
        } else if let pingedAt = connection.pingedAt {
            let dead = pingedAt.advanced(by: self.app.pongTimeout)
            guard dead <= now else { return self.heartbeats.set(id, dead) }
            effects.commands.append(.send(id, PusherFrames.error(4201, "Pong reply not received in time")))
            effects.commands.append(.close(id, PusherCloseCode.pongMissing, reason: "Pong reply not received in time"))
        } else {
            let probe = connection.lastReceived.advanced(by: self.app.activityTimeout)
            guard probe <= now else { return self.heartbeats.set(id, probe) }
            self.connections[id]!.pingedAt = now
            self.send(PusherFrames.ping, to: id, now: now, &effects)
            self.heartbeats.set(id, now.advanced(by: max(.milliseconds(1), self.app.pongTimeout)))
        }
    }

    private func isSilent(_ id: ConnectionID) -> Bool { self.faults.isSilent || self.connections[id]?.isSilent == true }

    private mutating func makeSocketID() -> String {
        while true {
            let id =
                "\(UInt32.random(in: 1...UInt32.max, using: &self.generator)).\(UInt32.random(in: 1...UInt32.max, using: &self.generator))"
            if self.bySocketID[id] == nil { return id }
        }
    }

    // MARK: What clients send

    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id], !connection.isRefused else { return }
        self.connections[id]!.lastReceived = now
        self.connections[id]!.pingedAt = nil
        if self.isSilent(id) { return }
        batch.bytes.withUnsafeBytes { bytes in
            for entry in batch.entries where entry.kind == .text {
                self.received(UnsafeRawBufferPointer(rebasing: bytes[entry.range]), from: id, now: now, &effects)
            }
        }
    }

    private mutating func received(_ text: UnsafeRawBufferPointer, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID = self.connections[id]?.socketID else { return }
        if !self.listening.isEmpty { self.deliver(.received(socketID: socketID, frame: String(decoding: text, as: UTF8.self)), &effects) }
        do throws(PusherFrameError) {
            let frame = try PusherFrame(scanning: text)
            switch frame.eventName {
            case EventName.ping: self.send(PusherFrames.pong, to: id, now: now, &effects)
            case EventName.pong: break
            case EventName.subscribe: try self.subscribe(id, try frame.dataValue(), now: now, &effects)
            case EventName.unsubscribe:
                guard let name = try frame.dataValue()["channel"]?.string else { throw .missing("channel") }
                self.unsubscribe(id, name, now: now, &effects)
            case let name where EventName.isClientEvent(name): self.clientEvent(id, name, frame, now: now, &effects)
            default: self.complain(id, nil, "Event \(frame.eventName.prefix(80)) is not one that clients send", now: now, &effects)
            }
        } catch {
            effects.counters.messagesIgnored += 1
            self.complain(id, 4200, "Invalid message format: \(error)", now: now, &effects)
        }
    }

    private mutating func complain(
        _ id: ConnectionID, _ code: Int?, _ why: String, channel: String? = nil, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.send(PusherFrames.error(code, why, channel: channel), to: id, now: now, &effects)
    }

    // MARK: Channels

    private mutating func subscribe(
        _ id: ConnectionID, _ data: JSONValue, now: Instant, _ effects: inout Effects<Self>
    ) throws(PusherFrameError) {
        guard let connection = self.connections[id] else { return }
        guard let name = data["channel"]?.string else { throw .missing("channel") }
        func refuse(_ code: Int?, _ why: String) {
            self.deliver(.refused(socketID: connection.socketID, channel: name, why: why), &effects)
            self.complain(id, code, why, channel: name, now: now, &effects)
        }
        if let problem = ChannelName.problem(name) { return refuse(nil, problem) }
        if connection.channels.contains(name) || connection.pending[name] != nil {
            return refuse(nil, "Existing subscription to channel \(name)")
        }
        let kind = ChannelName.kind(of: name)
        var user: PresenceUser?
        if kind.needsAuthorization {
            let channelData = data["channel_data"]?.string
            let expected = ChannelSignature.token(
                key: self.app.key, secret: self.app.secret, socketID: connection.socketID, channel: name,
                channelData: kind == .presence ? channelData : nil)
            guard let auth = data["auth"]?.string, ChannelSignature.isEqual(auth, expected) else {
                return refuse(4009, "The connection is not authorised for \(name): the signature is missing or wrong")
            }
            if kind == .presence {
                guard let channelData, let json = try? JSONValue(parsing: channelData), let known = try? PresenceUser(json) else {
                    return refuse(nil, "Presence channels need channel_data with a user_id")
                }
                user = known
            }
        }
        guard self.asksBeforeSubscribing else { return self.admit(Attempt(connection: id, channel: name, user: user), now: now, &effects) }
        self.lastNumber += 1
        let work = WorkID(rawValue: self.lastNumber)
        self.attempts[work] = Attempt(connection: id, channel: name, user: user)
        self.connections[id]!.pending[name] = work
        effects.commands.append(
            .work(work, Work(attempt: SubscriptionAttempt(socketID: connection.socketID, channel: name, userID: user?.id))))
    }

    mutating func workFinished(_ id: WorkID, _ verdict: SubscriptionVerdict, now: Instant, _ effects: inout Effects<Self>) {
        guard let attempt = self.attempts.removeValue(forKey: id), let connection = self.connections[attempt.connection] else { return }
        self.connections[attempt.connection]!.pending[attempt.channel] = nil
        switch verdict {
        case .accept: self.admit(attempt, now: now, &effects)
        case .refuse(let code, let message):
            self.deliver(.refused(socketID: connection.socketID, channel: attempt.channel, why: message), &effects)
            self.complain(attempt.connection, code, message, channel: attempt.channel, now: now, &effects)
        }
    }

    private mutating func admit(_ attempt: Attempt, now: Instant, _ effects: inout Effects<Self>) {
        let (id, name) = (attempt.connection, attempt.channel)
        guard let socketID = self.connections[id]?.socketID else { return }
        var channel = self.channels[name] ?? Channel()
        if let user = attempt.user {
            if let index = channel.users.firstIndex(where: { $0.user.id == user.id }) {
                channel.users[index].connections += 1
            } else {
                guard channel.users.count < self.app.memberLimit else {
                    let why = "The presence channel \(name) is full: it has \(self.app.memberLimit) members"
                    self.deliver(.refused(socketID: socketID, channel: name, why: why), &effects)
                    return self.complain(id, nil, why, channel: name, now: now, &effects)
                }
                channel.users.append((user, 1))
                let announcement = PusherFrames.memberAdded(name, id: user.id, info: user.info)
                for other in channel.subscribers { self.send(announcement, to: other, now: now, &effects) }
            }
            self.connections[id]!.users[name] = user
        }
        channel.subscribers.append(id)
        self.channels[name] = channel
        self.connections[id]!.channels.append(name)
        if attempt.user != nil {
            let members = channel.users.map { (id: $0.user.id, info: $0.user.info) }
            self.send(PusherFrames.subscriptionSucceeded(name, members: members), to: id, now: now, &effects)
        } else {
            self.send(PusherFrames.subscriptionSucceeded(name), to: id, now: now, &effects)
        }
        self.deliver(.subscribed(socketID: socketID, channel: name, userID: attempt.user?.id), &effects)
    }

    private mutating func unsubscribe(_ id: ConnectionID, _ name: String, now: Instant, _ effects: inout Effects<Self>) {
        if let work = self.connections[id]?.pending.removeValue(forKey: name) {
            self.attempts[work] = nil
            effects.commands.append(.cancel(work))
        }
        guard let index = self.connections[id]?.channels.firstIndex(of: name), let connection = self.connections[id] else { return }
        self.connections[id]!.channels.remove(at: index)
        self.connections[id]!.users[name] = nil
        self.leave(name, id, connection, now: now, &effects)
    }

    private mutating func leave(_ name: String, _ id: ConnectionID, _ connection: Connection, now: Instant, _ effects: inout Effects<Self>)
    {
        guard var channel = self.channels[name] else { return }
        channel.subscribers.removeAll { $0 == id }
        if let user = connection.users[name], let index = channel.users.firstIndex(where: { $0.user.id == user.id }) {
            channel.users[index].connections -= 1
            if channel.users[index].connections == 0 {
                channel.users.remove(at: index)
                let announcement = PusherFrames.memberRemoved(name, id: user.id)
                for other in channel.subscribers { self.send(announcement, to: other, now: now, &effects) }
            }
        }
        self.channels[name] = channel.subscribers.isEmpty ? nil : channel
        self.deliver(.unsubscribed(socketID: connection.socketID, channel: name), &effects)
    }

    private mutating func clientEvent(
        _ id: ConnectionID, _ event: String, _ frame: PusherFrame, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connections[id] else { return }
        let code = Int(PusherCloseCode.clientEventRejected.rawValue)
        guard self.app.allowsClientEvents else {
            return self.complain(id, code, "The app does not have client messaging enabled.", now: now, &effects)
        }
        guard let name = frame.channelName else { return self.complain(id, code, "A client event needs a channel", now: now, &effects) }
        func reject(_ why: String) { self.complain(id, code, why, channel: name, now: now, &effects) }
        guard ChannelName.kind(of: name).allowsClientEvents else { return reject("Client events are for private and presence channels") }
        guard connection.channels.contains(name) else {
            return reject("Client event rejected: the connection is not subscribed to \(name)")
        }
        if let problem = EventName.problem(event) { return reject(problem) }
        guard frame.data.length <= 2 * EventName.maximumDataSize, frame.dataBytes.count <= EventName.maximumDataSize else {
            return reject("The data of a client event has at most \(EventName.maximumDataSize) bytes")
        }
        let second = now.nanoseconds / 1_000_000_000
        let count = connection.clientEvents.second == second ? connection.clientEvents.count : 0
        guard count < self.app.clientEventsPerSecond else {
            return reject("The rate limit for sending client events exceeded the quota.")
        }
        self.connections[id]!.clientEvents = (second, count + 1)
        let data = frame.dataText ?? ""
        let message = PusherFrames.event(event, channel: name, data: data, userID: connection.users[name]?.id)
        for other in self.channels[name]?.subscribers ?? [] where other != id { self.send(message, to: other, now: now, &effects) }
        self.deliver(.clientEvent(socketID: connection.socketID, channel: name, name: event, data: data), &effects)
    }

    /// An event for everybody on the channel, apart from one connection.
    mutating func publish(
        _ event: String, to name: String, data: String, except socketID: String? = nil, now: Instant, _ effects: inout Effects<Self>
    ) {
        let subscribers = self.channels[name]?.subscribers ?? []
        if !subscribers.isEmpty {
            let message = PusherFrames.event(event, channel: name, data: data)
            let excluded = socketID.flatMap { self.bySocketID[$0] }
            for subscriber in subscribers where subscriber != excluded { self.send(message, to: subscriber, now: now, &effects) }
        }
        self.deliver(.published(channel: name, name: event, subscribers: subscribers.count), &effects)
    }

    // MARK: Faults and orders

    mutating func order(
        _ socketID: String, now: Instant, _ effects: inout Effects<Self>,
        _ body: (inout Connection, ConnectionID, inout Effects<Self>) -> Void
    ) {
        guard let id = self.bySocketID[socketID] else { return }
        body(&self.connections[id]!, id, &effects)
    }

    /// Everything to clients goes this way, so that faults meet everything.
    private mutating func send(_ message: WebSocketMessage, to id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if self.isSilent(id) { return }
        if self.faults.dropRate > 0, Double.random(in: 0..<1, using: &self.generator) < self.faults.dropRate { return }
        guard self.faults.delay > .zero else { return effects.commands.append(.send(id, message)) }
        self.lastNumber += 1
        self.delayed[self.lastNumber] = Delayed(connection: id, message: message)
        self.delays.set(self.lastNumber, now.advanced(by: self.faults.delay))
    }

    // MARK: Listeners

    mutating func listen(_ id: ListenerID) { self.listening.append(id) }

    func listeners(on route: Route) -> [ListenerID] { self.listening }

    mutating func left(_ listener: ListenerID) { self.listening.removeAll { $0 == listener } }

    private func deliver(_ event: PusherServerEvent, _ effects: inout Effects<Self>) {
        guard !self.listening.isEmpty else { return }
        effects.deliveries.append(event)
        effects.runs = [Effects<Self>.Run(Route(rawValue: 0), end: effects.deliveries.count)]
    }
}
