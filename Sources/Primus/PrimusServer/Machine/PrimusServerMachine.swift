import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeEncoding
import RealtimeSystem

/// The server's state as a value: its sparks, and the packets that it sends.
///
/// The life of a connection (``Connection/State``):
/// ```
///   opening ──opened──▶ open ──the application, the heartbeat or the protocol ends it──▶ ending
/// ```
/// A connection that closes is removed, in any state. Packets on an ending connection are ignored.
struct PrimusServerMachine: EmbeddedServerMachine {
    typealias Event = PrimusServerOutput
    typealias WaiterResult = PrimusPayload
    typealias Failure = PrimusServerError
    typealias Work = Void
    typealias WorkResult = Void

    struct Connection: Sendable {
        enum State: Sendable {
            case opening, open, ending
        }

        let spark: PrimusSparkInfo
        let framing: PrimusFraming
        /// Whether the connection began with requests over HTTP.
        let isOverHTTP: Bool
        /// Whether the client has asked for text in place of bytes, as Primus' own clients of engine.io do.
        let needsText: Bool
        var state = State.opening
        /// Whether the application knows the connection.
        var isReported = false
        /// The pings of Primus, which the server sends since version 8.
        var pong = PongWait.none
        var suspension: HeartbeatSuspension = []
        var isHeartbeatSuspended: Bool { !self.suspension.isEmpty }
        /// The pings of engine.io since version 4, and of SockJS over a WebSocket.
        var transportPong = PongWait.none
        var calls = EmitterCalls<WaiterID>()
        var requests: ResponderCalls<WaiterID>
        var channels: MultiplexMembers

        var id: String { self.spark.id }
    }

    enum Timer: Hashable, Sendable {
        /// The pings of Primus to all clients.
        case pings
        /// The silence of a client that sends the pings.
        case silence(ConnectionID)
        /// The heartbeat of engine.io or SockJS.
        case transport(ConnectionID)
    }

    /// The number of clients that were accepted, and whose connections aren't open yet.
    private var reservedPlaces = 0
    let configuration: PrimusServerConfiguration
    let coding: PrimusCoding
    private let pluginReader: PrimusPluginReader
    /// The milliseconds since 1970 at the instant zero, for the text of pings.
    private let epoch: Int64
    private(set) var connections = ConnectionTable<Connection>()
    private var sparkIDs: [ByteString: ConnectionID] = [:]
    /// The wait of a caller.
    private struct Waiting: Sendable {
        let connection: ConnectionID
        let isRequest: Bool
        let number: UInt64
        /// The channel of an acknowledgement.
        var channel: MultiplexAddress?
    }

    /// A client's membership of a channel.
    private struct Membership: Hashable, Sendable {
        let connection: ConnectionID
        let id: ByteString
    }

    private var waiters: [WaiterID: Waiting] = [:]
    /// The callers that wait for an acknowledgement on a channel.
    private var channelCalls: [Membership: Set<WaiterID>] = [:]
    private var timers = Deadlines<Timer, PatientLimit>()
    var stopsPings = false
    /// The IDs of the sparks. A client must not be able to predict the IDs of others.
    private var generator: RandomSource
    var eventRoute = EventRoutes.none
    var sparkRoutes = SparkRoutes()

    /// - Parameter seed: The seed of the sparks' IDs; `nil` to take them from the system's random numbers.
    init(_ configuration: PrimusServerConfiguration, epoch: Int64, seed: UInt64?) {
        self.configuration = configuration
        self.coding = configuration.coding
        self.pluginReader = PrimusPluginReader(configuration.plugins.wire, configuration.coding)
        self.epoch = epoch
        self.generator = RandomSource(seed: seed)
    }

    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }

    func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> Failure {
        if case .time(let limit) = limit { .timedOut(after: limit) } else { .cancelled }
    }

    var inactivity: String? {
        self.connections.isEmpty ? "No client is connected to the server. Open one first." : nil
    }

    var nextDeadline: Instant? { self.timers.earliest }

    // MARK: Opening

    func start(now: Instant, _ effects: inout Effects<Self>) {}

    /// Whether the server has as many clients as it accepts.
    var isFull: Bool { self.connections.count + self.reservedPlaces >= self.configuration.sparkLimit }

    /// Reserves a place for a client, which ``accepted(_:_:_:overHTTP:sparkID:)`` takes, or ``releasePlace()`` gives back.
    ///
    /// - Returns: `false` if there is none.
    mutating func reservePlace() -> Bool {
        if self.isFull { return false }
        self.reservedPlaces += 1
        return true
    }

    mutating func releasePlace() {
        assert(self.reservedPlaces > 0, "a place is released that wasn't reserved")
        self.reservedPlaces -= 1
    }

    /// A client that has a place is connected: the listener accepted a WebSocket for this request, or the request opens a session over HTTP.
    mutating func accepted(
        _ id: ConnectionID, _ framing: PrimusFraming, _ request: HTTPRequestHead, overHTTP: Bool = false, sparkID: String? = nil
    ) {
        self.releasePlace()
        let requests = ResponderCalls<WaiterID>(&self.generator)
        let connection = Connection(
            spark: PrimusSparkInfo(id: sparkID ?? self.makeID(), request: request), framing: framing, isOverHTTP: overHTTP,
            needsText: request.field("b64") != nil, requests: requests,
            channels: MultiplexMembers(limit: self.configuration.channelLimit, nameLimit: self.configuration.channelNameLimit))
        self.sparkIDs[ByteString(connection.id)] = id
        self.connections.insert(connection, id)
    }

    mutating func makeID() -> String {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        while true {
            let text = (0..<21).map { _ in letters[Int.random(in: letters.indices, using: &self.generator)] }
            let id = String(decoding: text, as: UTF8.self)
            if self.sparkIDs[ByteString(id)] == nil { return id }
        }
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id], connection.state == .opening else { return }
        self.connections.update(id) { ($0.state, $0.isReported) = (.open, true) }
        let handshake = EngineIOHandshake(
            sid: connection.id,
            upgrades: connection.isOverHTTP && self.configuration.allowsUpgrades ? [EngineIOTransport.websocket.rawValue] : [],
            pingInterval: self.milliseconds(self.configuration.enginePingInterval),
            pingTimeout: self.milliseconds(self.configuration.enginePingTimeout),
            maxPayload: self.configuration.version == .v8 ? self.configuration.messageLimit : nil)
        if let opening = connection.framing.opening(handshake) { effects.commands.append(.send(id, opening)) }
        self.setSilenceTimer(id, now: now)
        if case .engineIO(let version, _) = connection.framing {
            let wait = self.configuration.enginePingInterval + (version == .v3 ? self.configuration.enginePingTimeout : .zero)
            self.set(.transport(id), after: wait, now: now)
        }
        self.setSockJSTimer(id, now: now)
        if self.configuration.version == .v8, let interval = self.configuration.pingInterval, !self.timers.contains(.pings) {
            self.set(.pings, after: interval, now: now)
        }
        self.deliver(.connected(id: connection.id), &effects)
        self.deliver(.connected(connection.spark), &effects)
    }

    private func milliseconds(_ duration: Duration) -> Int { Int(max(1, duration.nanoseconds / 1_000_000)) }

    // MARK: Receiving

    /// The number of messages that are taken in one step, because a request may bring millions of them while other clients wait.
    private static let messagesPerStep = 256

    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        self.receivedInParts(id, batch, now: now, &effects)
    }

    mutating func received(
        _ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int, now: Instant, _ effects: inout Effects<Self>
    ) -> Int {
        let count = batch.entries.count
        let end = start + min(Self.messagesPerStep, count - start)
        for index in start..<end {
            let entry = batch.entries[index]
            guard let connection = self.connections[id], connection.state == .open else { return count }
            switch entry.kind {
            // Primus takes a ping of a client for life, with transformers that pass it on.
            case .ping: if connection.framing.isPlain { self.wasAlive(id, now: now) }
            case .pong:
                guard case .sockJS = connection.framing else { continue }
                self.connections.update(id) { $0.transportPong = .none }
                self.setSockJSTimer(id, now: now)
            case .text, .binary:
                // The events of a message are collected first, because the machine changes meanwhile.
                var events: [FramingEvent] = []
                batch.bytes.withUnsafeBytes { bytes in
                    connection.framing.read(entry.kind, UnsafeRawBufferPointer(rebasing: bytes[entry.range])) { event in
                        events.append(FramingEvent(event))
                    }
                }
                for event in events { self.received(id, event, now: now, &effects) }
            }
        }
        return end
    }

    /// A part of a message that has been copied.
    private enum FramingEvent {
        case packet(TransportMessage)
        case ping(String)
        case pong
        case invalid(String)
        case fatal(UInt16, String)
        case none

        init(_ event: PrimusFraming.Event) {
            switch event {
            case .packet(let kind, let bytes): self = .packet(TransportMessage(kind, Array(bytes)))
            case .ping(let text): self = .ping(text)
            case .pong: self = .pong
            case .invalid(let problem): self = .invalid(problem)
            case .fatal(let code, let reason): self = .fatal(UInt16(truncatingIfNeeded: code), reason)
            case .opened, .closed: self = .none
            }
        }
    }

    private mutating func received(_ id: ConnectionID, _ event: FramingEvent, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id], connection.state == .open else { return }
        switch event {
        case .packet(let packet): self.received(id, packet, now: now, &effects)
        case .ping(let text):
            guard case .engineIO(let version, _) = connection.framing else { return }
            guard version == .v3 else { return self.rejectHeartbeat(id, &effects) }
            self.setTransportTimer(id, now: now)
            if let pong = connection.framing.pong(text) { effects.commands.append(.send(id, pong)) }
        case .pong:
            // engine.io 6 has the pongs of version 4 alone, and earlier servers ignore them.
            if case .engineIO(.v3, _) = connection.framing, self.configuration.version == .v8 { return self.rejectHeartbeat(id, &effects) }
            self.connections.update(id) { $0.transportPong = .none }
            self.setTransportTimer(id, now: now)
        case .invalid(let problem): self.report(problem, of: connection.id, &effects)
        case .fatal(let code, let reason): self.close(id, CloseCode(rawValue: code), reason, problem: reason, &effects)
        case .none: break
        }
    }

    private mutating func rejectHeartbeat(_ id: ConnectionID, _ effects: inout Effects<Self>) {
        let (problem, isOverHTTP) = ("invalid heartbeat direction", self.connections[id]?.isOverHTTP == true)
        self.close(id, isOverHTTP ? .protocolError : .normal, isOverHTTP ? problem : "", problem: problem, &effects)
    }

    private mutating func received(_ id: ConnectionID, _ packet: TransportMessage, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id] else { return }
        self.deliver(.received(id: connection.id, packet), &effects)
        if self.configuration.version == .v6 {
            self.setSilenceTimer(id, now: now)
            // Before engine.io 4, each packet counts as life.
            self.setTransportTimer(id, now: now)
        }
        if let message = packet.bytes.withUnsafeBytes({ PrimusProtocolMessage($0, packet.kind, self.coding) }) {
            return self.received(id, message, now: now, &effects)
        }
        let output = packet.bytes.withUnsafeBytes { self.pluginReader.read($0, packet.kind) }
        switch output {
        case .none: self.deliver(.message(connection.spark, packet), &effects)
        case .invalid(let error): self.report(error.description, of: connection.id, &effects)
        case .packet(let plugin):
            do throws(PrimusPluginError) {
                try self.received(id, plugin, &effects)
            } catch {
                self.report(error.description, of: connection.id, &effects)
            }
        }
    }

    private mutating func received(
        _ id: ConnectionID, _ message: PrimusProtocolMessage, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connections[id] else { return }
        switch (message, self.configuration.version) {
        case (.idRequest, _): self.send(.id(connection.id), to: id, &effects)
        case (.pong, .v8): self.wasAlive(id, now: now)
        case (.ping(let text), .v6): self.send(.pong(text), to: id, &effects)
        // A ping in the other direction is a message of the application for Primus 8. Others may have a meaning in later versions.
        case (.ping, .v8), (.pong, .v6), (.serverClose, _), (.id, _), (.unknown, _): break
        }
    }

    private mutating func wasAlive(_ id: ConnectionID, now: Instant) {
        self.connections.update(id) { $0.pong = .none }
        if self.configuration.version == .v6 { self.setSilenceTimer(id, now: now) }
    }

    func report(_ problem: String, of spark: String, _ effects: inout Effects<Self>) {
        effects.log(.warning, "The server ignored a message of the client \(spark): \(Excerpt.message(problem))")
        self.deliver(.error(id: spark, message: Excerpt.message(problem)), &effects)
    }

    // MARK: Plugins

    private mutating func received(
        _ id: ConnectionID, _ packet: PrimusPluginPacket, _ effects: inout Effects<Self>
    ) throws(PrimusPluginError) {
        guard let connection = self.connections[id] else { return }
        switch packet {
        case .emitter(.event(let name, let arguments, let number)):
            guard !PrimusEventName.isReserved(name, on: .server, hasChannels: self.configuration.plugins.contains(.multiplex)) else {
                throw .reservedEvent(name)
            }
            self.deliver(.event(connection.spark, nil, name, arguments, acknowledgement: number), &effects)
        case .emitter(.acknowledgement(let number, let arguments)):
            let waiter = try self.withConnection(id) { connection throws(PrimusPluginError) in try connection.calls.acknowledged(number) }
            self.answer(waiter, arguments.array, &effects)
        case .emit(let packet) where PrimusEventName.isReserved(packet.name, on: .server, hasChannels: false):
            throw .reservedEvent(packet.name)
        case .emit(let packet): self.deliver(.event(connection.spark, nil, packet.name, packet.arguments, acknowledgement: nil), &effects)
        case .multiplex(.subscribe(let address)):
            let isNew = try self.withConnection(id) { connection throws(PrimusPluginError) in try connection.channels.join(address) }
            if isNew == true { self.deliver(.joined(connection.spark, address), &effects) }
        case .multiplex(.unsubscribe(let address)):
            _ = try self.withConnection(id) { connection throws(PrimusPluginError) in try connection.channels.leave(address) }
            self.endCalls(on: address, of: id, &effects)
            self.deliver(.left(connection.spark, address), &effects)
        case .multiplex(.message(let address, let payload)):
            try connection.channels.check(address)
            // The message on a channel may be a packet of the emitter.
            switch self.pluginReader.read(payload) {
            case .packet(.emitter(.event(let name, let arguments, let number))):
                self.deliver(.event(connection.spark, address, name, arguments, acknowledgement: number), &effects)
            case .packet(.emitter(let acknowledgement)): try self.received(id, .emitter(acknowledgement), &effects)
            default: self.deliver(.channelMessage(connection.spark, address, payload), &effects)
            }
        case .substream(.message(let name, let payload)): self.deliver(.substreamMessage(connection.spark, name, payload), &effects)
        case .substream(.end(let name)): self.deliver(.substreamEnded(connection.spark, name), &effects)
        case .responder(.request(let number, let payload)): self.deliver(.request(connection.spark, number, payload), &effects)
        case .responder(.response(let number, let payload)):
            let waiter = try self.withConnection(id) { connection throws(PrimusPluginError) in try connection.requests.responded(number) }
            self.answer(waiter, payload, &effects)
        }
    }

    private mutating func withConnection<Result>(
        _ id: ConnectionID, _ body: (inout Connection) throws(PrimusPluginError) -> Result
    ) throws(PrimusPluginError) -> Result? {
        try self.connections.update(id, body)
    }

    private mutating func answer(_ waiter: WaiterID?, _ payload: PrimusPayload, _ effects: inout Effects<Self>) {
        guard let waiter, self.takeWaiting(waiter) != nil else { return }
        effects.resume(waiter, .success(payload))
    }

    private mutating func takeWaiting(_ waiter: WaiterID) -> Waiting? {
        guard let waiting = self.waiters.removeValue(forKey: waiter) else { return nil }
        guard let channel = waiting.channel else { return waiting }
        let membership = Membership(connection: waiting.connection, id: ByteString(channel.id))
        self.channelCalls[membership]?.remove(waiter)
        if self.channelCalls[membership]?.isEmpty ?? false { self.channelCalls[membership] = nil }
        return waiting
    }

    /// Sends an event that the client acknowledges, and waits.
    ///
    /// - Parameter channel: The channel of multiplex on which the event is sent; `nil` for none.
    mutating func call(
        _ name: String, _ arguments: PrimusArguments, on spark: String, channel: MultiplexAddress? = nil, _ waiter: WaiterID,
        _ effects: inout Effects<Self>
    ) {
        guard let id = self.openConnection(spark), let connection = self.connections[id] else {
            return effects.resume(waiter, .failure(.disconnected))
        }
        if let channel, !connection.channels.contains(channel) {
            return effects.resume(waiter, .failure(.leftChannel(channel.channel)))
        }
        guard let number = self.connections.update(id, { $0.calls.nextID() }) else { return }
        self.connections.update(id) { $0.calls.begin(number, waiter) }
        self.waiters[waiter] = Waiting(connection: id, isRequest: false, number: number, channel: channel)
        if let channel { self.channelCalls[Membership(connection: id, id: ByteString(channel.id)), default: []].insert(waiter) }
        let event = PrimusPluginPacket.emitter(.event(name: name, arguments, id: Int64(number)))
        guard let channel else { return self.send(event, to: id, &effects) }
        self.send(.multiplex(.message(channel, PrimusPluginWriter(self.coding).payload(event))), to: id, &effects)
    }

    /// Ends the calls on a channel that the client has left.
    private mutating func endCalls(on channel: MultiplexAddress, of id: ConnectionID, _ effects: inout Effects<Self>) {
        let waiters = self.channelCalls.removeValue(forKey: Membership(connection: id, id: ByteString(channel.id))) ?? []
        for waiter in waiters.sorted() {
            guard let waiting = self.waiters.removeValue(forKey: waiter) else { continue }
            self.connections.update(id) { _ = $0.calls.end(waiting.number) }
            effects.resume(waiter, .failure(.leftChannel(channel.channel)))
        }
    }

    /// Sends a request, and waits for the response.
    mutating func request(_ payload: PrimusPayload, on spark: String, _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        guard let id = self.openConnection(spark),
            let (number, text) = self.connections.update(
                id,
                { connection -> (UInt64, String) in
                    let number = connection.requests.nextNumber()
                    connection.requests.begin(number, waiter)
                    return (number, connection.requests.id(number))
                })
        else { return effects.resume(waiter, .failure(.disconnected)) }
        self.waiters[waiter] = Waiting(connection: id, isRequest: true, number: number)
        self.send(.responder(.request(id: text, payload)), to: id, &effects)
    }

    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        guard let waiting = self.takeWaiting(waiter) else { return }
        self.connections.update(waiting.connection) { connection in
            if waiting.isRequest { _ = connection.requests.end(waiting.number) } else { _ = connection.calls.end(waiting.number) }
        }
    }

    // MARK: Heartbeat

    private mutating func set(_ timer: Timer, after duration: Duration, now: Instant) {
        self.timers.set(timer, PatientLimit(max(.milliseconds(1), duration), now: now))
    }

    private mutating func setSilenceTimer(_ id: ConnectionID, now: Instant) {
        guard self.configuration.version == .v6, let timeout = self.configuration.silenceTimeout,
            self.connections[id]?.isHeartbeatSuspended == false
        else { return }
        self.set(.silence(id), after: timeout, now: now)
    }

    /// After life of a client of engine.io: until the server's next ping, or the end of its patience.
    private mutating func setTransportTimer(_ id: ConnectionID, now: Instant) {
        guard let connection = self.connections[id], case .engineIO(let version, _) = connection.framing else { return }
        let (interval, timeout) = (self.configuration.enginePingInterval, self.configuration.enginePingTimeout)
        let wait = version == .v3 ? interval + timeout : connection.transportPong == .none ? interval : timeout
        self.set(.transport(id), after: wait, now: now)
    }

    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        while let due = self.timers.popDue(now) {
            let stoodStill = due.instant.passedDuringStandstill(now: now)
            var limit = due.companion
            switch due.key {
            case .pings: self.sendPings(stoodStill: stoodStill, now: now, &effects)
            case .silence(let id):
                guard self.connections[id]?.isHeartbeatSuspended == false else { continue }
                if self.stopsPings {
                    // The client's silence counts again when the fault has ended.
                    self.setSilenceTimer(id, now: now)
                } else if limit.hasPassed(now: now) {
                    self.close(id, .normal, "", problem: "The client was silent.", &effects)
                } else {
                    self.timers.set(due.key, limit)
                }
            case .transport(let id):
                guard let connection = self.connections[id], connection.state == .open else { continue }
                switch connection.framing {
                case .sockJS: self.sockJSTimer(connection, id, stoodStill: stoodStill, now: now, &effects)
                case .engineIO(.v3, _):
                    if self.stopsPings || connection.isHeartbeatSuspended {
                        self.setTransportTimer(id, now: now)
                    } else if limit.hasPassed(now: now) {
                        self.close(id, .normal, "", problem: Self.silenceProblem, &effects)
                    } else {
                        self.timers.set(due.key, limit)
                    }
                case .engineIO: self.engineIOTimer(connection, id, stoodStill: stoodStill, now: now, &effects)
                default: break
                }
            }
        }
    }

    private static let silenceProblem = "The client didn't answer a ping of engine.io."

    /// Sends a ping to every client that has answered the last one, and disconnects the others, which may reconnect.
    private mutating func sendPings(stoodStill: Bool, now: Instant, _ effects: inout Effects<Self>) {
        guard !self.connections.isEmpty, let interval = self.configuration.pingInterval else { return }
        self.set(.pings, after: interval, now: now)
        guard !self.stopsPings else { return }
        let ping = PrimusProtocolMessage.ping("\(self.epoch + now.nanoseconds / 1_000_000)")
        for id in self.connections.ids {
            guard let connection = self.connections[id], connection.state == .open else { continue }
            // A client whose pongs aren't read needs the ping all the same: it counts the server's silence.
            if connection.isHeartbeatSuspended || self.connections.update(id, { $0.pong.expect(stoodStill: stoodStill) }) == true {
                self.send(ping, to: id, &effects)
            } else {
                self.close(id, .normal, "", problem: "The client didn't answer a ping.", &effects)
            }
        }
    }

    /// The time that a client of SockJS has for the pong of a heartbeat over a WebSocket. Source: `trans-websocket.js` of sockjs-node 0.3.24.
    private static let sockJSPongTimeout = Duration.seconds(10)

    private mutating func setSockJSTimer(_ id: ConnectionID, now: Instant) {
        guard let connection = self.connections[id], case .sockJS = connection.framing else { return }
        let wait = connection.transportPong == .none ? self.configuration.sockJSHeartbeatInterval : Self.sockJSPongTimeout
        self.set(.transport(id), after: wait, now: now)
    }

    private mutating func sockJSTimer(
        _ connection: Connection, _ id: ConnectionID, stoodStill: Bool, now: Instant, _ effects: inout Effects<Self>
    ) {
        if !self.stopsPings {
            let hasPong = !connection.isOverHTTP && !connection.isHeartbeatSuspended
            guard !hasPong || self.connections.update(id, { $0.transportPong.expect(stoodStill: stoodStill) }) == true else {
                let frame = SockJSFrame.close(code: SockJSCloseCode.goAway.rawValue, reason: "No response from heartbeat")
                return self.close(
                    id, .normal, "", closing: TransportMessage(.text, frame.bytes),
                    problem: "The client didn't answer a ping of SockJS.", &effects)
            }
            // A ping frame over a WebSocket, which the client answers, and a frame of SockJS over HTTP.
            effects.commands.append(.send(id, TransportMessage(.ping, [])))
        }
        self.setSockJSTimer(id, now: now)
    }

    private mutating func engineIOTimer(
        _ connection: Connection, _ id: ConnectionID, stoodStill: Bool, now: Instant, _ effects: inout Effects<Self>
    ) {
        if !self.stopsPings {
            guard
                connection.isHeartbeatSuspended || self.connections.update(id, { $0.transportPong.expect(stoodStill: stoodStill) }) == true
            else { return self.close(id, .normal, "", problem: Self.silenceProblem, &effects) }
            if let ping = connection.framing.ping() { effects.commands.append(.send(id, ping)) }
        }
        self.setTransportTimer(id, now: now)
    }

    mutating func setSilent(_ id: ConnectionID, _ isSilent: Bool, now: Instant) { self.setSuspended(id, .silenced, isSilent, now: now) }
    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) { self.setSuspended(id, .unread, paused, now: now) }

    private mutating func setSuspended(_ id: ConnectionID, _ reason: HeartbeatSuspension, _ isPresent: Bool, now: Instant) {
        guard let connection = self.connections[id], connection.suspension.contains(reason) != isPresent else { return }
        self.connections.update(id) { connection in
            connection.suspension.set(reason, isPresent)
            // A pong may not have been read: in the place of an end, another ping follows.
            (connection.pong, connection.transportPong) = (.none, .none)
        }
        if isPresent { return self.timers.remove(.silence(id)) }
        // There may be another reason.
        guard self.connections[id]?.isHeartbeatSuspended == false else { return }
        self.setSilenceTimer(id, now: now)
        // With version 3, the client pings, and has the whole time again. The server's pings keep their times.
        if connection.state == .open, case .engineIO(.v3, _) = connection.framing { self.setTransportTimer(id, now: now) }
    }

    // MARK: Sending

    /// The connection of an open spark.
    func openConnection(_ spark: String) -> ConnectionID? {
        guard let id = self.sparkIDs[ByteString(spark)], self.connections[id]?.state == .open else { return nil }
        return id
    }

    /// Sends packets to a spark.
    ///
    /// - Returns: Whether the spark is open.
    @discardableResult
    func write(_ packets: [TransportMessage], to spark: String, _ effects: inout Effects<Self>) -> Bool {
        guard let id = self.openConnection(spark) else { return false }
        for packet in packets { self.send(packet, to: id, &effects) }
        return true
    }

    /// Sends a packet to all sparks. Those with the same framing share its messages, which wait for clients that don't read.
    func write(_ packet: TransportMessage, _ effects: inout Effects<Self>) {
        var framed: [Framed] = []
        for id in self.connections.ids {
            guard let connection = self.connections[id], connection.state == .open else { continue }
            let kind = FramingKind(connection)
            let messages: [TransportMessage]
            if let known = framed.first(where: { $0.kind == kind }) {
                messages = known.messages
            } else {
                messages = Self.messages(packet, for: connection)
                framed.append(Framed(kind: kind, messages: messages))
            }
            for message in messages { effects.commands.append(.send(id, message)) }
        }
    }

    /// Sends the packet of a plugin to all sparks.
    func write(_ packet: PrimusPluginPacket, _ effects: inout Effects<Self>) {
        do {
            self.write(try PrimusPluginWriter(self.coding).message(packet), &effects)
        } catch {
            effects.log(.error, "The parser can't write a packet of a plugin: \(PrimusCoding.reason(error)).")
        }
    }

    /// The properties of a connection on which the messages of a packet depend.
    private struct FramingKind: Equatable {
        let framing: PrimusFraming
        let needsText: Bool

        init(_ connection: Connection) { (self.framing, self.needsText) = (connection.framing, connection.needsText) }
    }

    private struct Framed {
        let kind: FramingKind
        let messages: [TransportMessage]
    }

    private static func messages(_ packet: TransportMessage, for connection: Connection) -> [TransportMessage] {
        let messages = connection.framing.messages([packet])
        guard connection.needsText, case .engineIO(let version, _) = connection.framing else { return messages }
        return messages.map { EngineIOPayload.text($0, version) }
    }

    private func send(_ packet: TransportMessage, to id: ConnectionID, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id] else { return }
        for message in Self.messages(packet, for: connection) { effects.commands.append(.send(id, message)) }
    }

    private func send(_ message: PrimusProtocolMessage, to id: ConnectionID, _ effects: inout Effects<Self>) {
        do {
            self.send(try message.message(self.coding), to: id, &effects)
        } catch {
            effects.log(.error, "The parser can't write a message of Primus: \(PrimusCoding.reason(error)).")
        }
    }

    func send(_ packet: PrimusPluginPacket, to id: ConnectionID, _ effects: inout Effects<Self>) {
        do {
            self.send(try PrimusPluginWriter(self.coding).message(packet), to: id, &effects)
        } catch {
            effects.log(.error, "The parser can't write a packet of a plugin: \(PrimusCoding.reason(error)).")
        }
    }

    /// Sends the packet of a plugin to a spark.
    ///
    /// - Returns: Whether the spark is open.
    @discardableResult
    func write(_ packet: PrimusPluginPacket, to spark: String, _ effects: inout Effects<Self>) -> Bool {
        guard let id = self.openConnection(spark) else { return false }
        self.send(packet, to: id, &effects)
        return true
    }

    /// Ends a membership of a channel. Does nothing if there is none.
    mutating func endChannel(_ address: MultiplexAddress, of spark: String, _ effects: inout Effects<Self>) {
        guard let id = self.openConnection(spark), let info = self.connections[id]?.spark,
            (try? self.withConnection(id) { connection throws(PrimusPluginError) in try connection.channels.leave(address) }) != nil
        else { return }
        self.send(.multiplex(.unsubscribe(address)), to: id, &effects)
        self.endCalls(on: address, of: id, &effects)
        self.deliver(.left(info, address), &effects)
    }

    // MARK: Closing

    /// Ends a spark, as `spark.end()` of Primus.
    ///
    /// - Parameters:
    ///   - spark: The ID of the spark.
    ///   - last: A packet to send first.
    ///   - reconnects: Whether the client may reconnect.
    mutating func end(_ spark: String, after last: TransportMessage?, reconnects: Bool, _ effects: inout Effects<Self>) {
        guard let id = self.openConnection(spark) else { return }
        if let last { self.send(last, to: id, &effects) }
        self.end(id, reconnects: reconnects, &effects)
    }

    private mutating func end(_ id: ConnectionID, reconnects: Bool, _ effects: inout Effects<Self>) {
        if !reconnects { self.send(.serverClose, to: id, &effects) }
        self.close(id, .normal, "", problem: nil, &effects)
    }

    private mutating func close(
        _ id: ConnectionID, _ code: CloseCode, _ reason: String, closing: TransportMessage? = nil, problem: String?,
        _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connections[id], connection.state != .ending else { return }
        self.connections.update(id) { $0.state = .ending }
        self.timers.remove(.silence(id))
        self.timers.remove(.transport(id))
        if let problem { self.deliver(.error(id: connection.id, message: problem), &effects) }
        // Over HTTP, the answer to the request that waits contains it.
        if connection.state == .open, code == .normal, !connection.isOverHTTP, let closing = closing ?? connection.framing.closing {
            effects.commands.append(.send(id, closing))
        }
        let text = reason.isEmpty && self.configuration.transformer == .sockjs ? SockJSCloseCode.normal.reason : reason
        effects.commands.append(.close(id, code, reason: text))
    }

    /// Ends a session over HTTP whose client has never asked for its messages, because another one needs its place.
    mutating func forgetUnread(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connections[id] != nil else { return }
        effects.commands.append(.abandon(id))
        let message = "The client hasn't asked for its messages since it opened the session, and another client needed its place."
        self.closed(id, .transport(TransportError(.closed, message)), now: now, &effects)
    }

    /// Ends all sparks, whose clients may reconnect.
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.connections.ids { self.end(id, reconnects: true, &effects) }
    }

    mutating func endAll(_ effects: inout Effects<Self>) {
        for id in self.connections.ids where self.connections[id]?.state == .open { self.end(id, reconnects: false, &effects) }
    }

    func workFinished(_ id: WorkID, _ result: Void, now: Instant, _ effects: inout Effects<Self>) {}

    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard var connection = self.connections.remove(id) else { return }
        self.sparkIDs[ByteString(connection.id)] = nil
        self.timers.remove(.silence(id))
        self.timers.remove(.transport(id))
        if self.connections.isEmpty { self.timers.remove(.pings) }
        for waiter in connection.calls.endAll() + connection.requests.endAll() {
            _ = self.takeWaiting(waiter)
            effects.resume(waiter, .failure(.disconnected))
        }
        guard connection.isReported else { return }
        for address in connection.channels.endAll() { self.deliver(.left(connection.spark, address), &effects) }
        self.deliver(.disconnected(id: connection.id, reason), &effects)
        self.deliver(.disconnected(connection.spark, reason), &effects)
    }

    var acceptedConnections: [ConnectionID] { self.connections.ids }

    func connection(named spark: String) -> ConnectionID? { self.sparkIDs[ByteString(spark)] }

    // MARK: Consumers

    /// Delivers an event to the consumers. Without a consumer, the event isn't created.
    func deliver(_ event: @autoclosure () -> PrimusServerEvent, _ effects: inout Effects<Self>) {
        if !effects.routes.isEmpty(self.eventRoute) { effects.deliver(.event(event()), on: self.eventRoute) }
    }

    func deliver(_ event: @autoclosure () -> PrimusSparkEvent, _ effects: inout Effects<Self>) {
        guard self.sparkRoutes.isUsed else { return }
        let event = event()
        effects.deliver(.spark(event), on: self.sparkRoutes.route(of: event))
    }
}

/// An output of the machine.
enum PrimusServerOutput: Sendable {
    case event(PrimusServerEvent)
    case spark(PrimusSparkEvent)
}

/// An event for the application's callbacks, with the spark that it concerns.
///
/// It contains the spark and not its ID, because the client may have disconnected when the callback is called.
enum PrimusSparkEvent: Sendable {
    case connected(PrimusSparkInfo)
    case disconnected(PrimusSparkInfo, CloseReason)
    case message(PrimusSparkInfo, TransportMessage)
    case event(PrimusSparkInfo, MultiplexAddress?, String, PrimusArguments, acknowledgement: Int64?)
    case joined(PrimusSparkInfo, MultiplexAddress)
    case left(PrimusSparkInfo, MultiplexAddress)
    case channelMessage(PrimusSparkInfo, MultiplexAddress, PrimusPayload)
    case substreamMessage(PrimusSparkInfo, String, PrimusPayload)
    case substreamEnded(PrimusSparkInfo, String)
    case request(PrimusSparkInfo, String, PrimusPayload)
}

/// The ID and the request of a spark. A class, because each event has one.
final class PrimusSparkInfo: Sendable {
    let id: String
    let request: HTTPRequestHead

    init(id: String, request: HTTPRequestHead) {
        (self.id, self.request) = (id, request)
    }
}

extension PrimusFraming {
    var isPlain: Bool { if case .plain = self { true } else { false } }
}
