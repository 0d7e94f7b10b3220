import PrimusWire
import RealtimeCore
import RealtimeSystem

/// The packets of plugins, and the callers and consumers of plugins.
extension PrimusSession {
    // MARK: The connection

    /// Handles a packet if it belongs to a plugin.
    ///
    /// - Returns: Whether it does; otherwise, it is a message.
    mutating func receivedByPlugin(
        _ bytes: UnsafeRawBufferPointer, _ kind: TransportMessage.Kind, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) -> Bool {
        guard let coding = self.coding else { return false }
        // The code of the application isn't called under a lock. Its packets arrive as values.
        if case .custom = coding { return false }
        return self.handle(PrimusPluginReader(self.plugins.set, coding).read(bytes, kind), on: id, now: now, &effects)
    }

    /// Handles a message that has passed the transforms, if it belongs to a plugin.
    ///
    /// - Returns: Whether it does; otherwise, it is a message.
    mutating func receivedByPlugin(_ value: PrimusValue, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) -> Bool {
        // It may have waited in a transform for longer than its connection lasted.
        guard let coding = self.coding else { return false }
        return self.handle(PrimusPluginReader(self.plugins.set, coding).read(value), on: id, now: now, &effects)
    }

    /// Joins the channels on a new connection, before anything else is sent on it.
    mutating func pluginsOpened(isReconnect: Bool, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        for packet in self.plugins.joined.joining { self.send(.multiplex(packet), on: id, now: now, &effects) }
    }

    /// Fails the calls of plugins whose connection has ended.
    ///
    /// - Parameter isFinal: Whether the client doesn't reconnect.
    mutating func pluginsLost(_ error: PrimusError, isFinal: Bool, _ effects: inout Effects<Self>) {
        for waiter in self.plugins.endAll() {
            // The message of the call may be in the transforms. It isn't sent on another connection.
            self.transformCallers.remove(waiter)
            effects.resume(waiter, .failure(error))
        }
    }

    private mutating func handle(
        _ output: PrimusPluginReader.Output, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) -> Bool {
        do throws(PrimusPluginError) {
            switch output {
            case .none: return false
            case .invalid(let error): throw error
            case .packet(.emitter(let packet)): try self.received(packet, in: .connection, on: id, &effects)
            case .packet(.emit(let packet)):
                self.deliver(packet.name, packet.arguments, nil, on: self.plugins.emits, id, &effects)
            case .packet(.multiplex(let packet)): try self.received(packet, on: id, now: now, &effects)
            case .packet(.substream(let packet)): return self.received(packet, &effects)
            case .packet(.responder(.request(let request, let payload))):
                guard !effects.routes.isEmpty(self.plugins.requests) else {
                    self.ignored("There is no handler for the requests of the server, which get no response.", .warning, &effects)
                    return true
                }
                effects.deliver(.plugin(.request(payload, id: request, connection: id)), on: self.plugins.requests)
            case .packet(.responder(.response(let request, let payload))):
                guard let waiter = try self.plugins.responses?.responded(request) else {
                    throw .unknown(plugin: "responder", "no caller waits for a response")
                }
                self.plugins.callers[waiter.rawValue] = nil
                effects.resume(waiter, .success(.plugin(.response(payload))))
            }
        } catch {
            self.ignored(error, &effects)
        }
        return true
    }

    private mutating func received(
        _ packet: EmitterPacket, in scope: PrimusPluginState.Scope, on id: ConnectionID, _ effects: inout Effects<Self>
    ) throws(PrimusPluginError) {
        switch packet {
        case .event(let name, let arguments, let acknowledgement):
            guard let emitter = self.plugins[scope] else { return }
            self.deliver(name, arguments, acknowledgement, on: emitter.route, id, &effects)
        case .acknowledgement(let number, let arguments):
            let waiter: WaiterID
            switch scope {
            case .connection: waiter = try self.plugins.emitter.calls.acknowledged(number)
            case .channel(let channel):
                guard let known = try self.plugins.channels[channel]?.emitter.calls.acknowledged(number) else { return }
                waiter = known
            }
            self.plugins.callers[waiter.rawValue] = nil
            effects.resume(waiter, .success(.plugin(.acknowledgement(arguments))))
        }
    }

    private mutating func deliver(
        _ name: String, _ arguments: PrimusArguments, _ acknowledgement: Int64?, on route: EventRoute, _ id: ConnectionID,
        _ effects: inout Effects<Self>
    ) {
        // As in the original: a server can't send the events of the client itself.
        if PrimusEventName.isReserved(name, on: .client, hasChannels: false) {
            return self.ignored("The server sent an event with the reserved name \(Excerpt.of(name, limit: 100)).", .debug, &effects)
        }
        guard !effects.routes.isEmpty(route) else {
            return self.ignored("There is no consumer of the event \(Excerpt.of(name, limit: 100)).", .debug, &effects)
        }
        effects.deliver(.plugin(.event(name: name, arguments, id: acknowledgement, connection: id)), on: route)
    }

    private mutating func received(
        _ packet: MultiplexPacket, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) throws(PrimusPluginError) {
        switch packet {
        case .message(let address, let payload):
            let number = try self.plugins.joined.channel(of: address)
            if self.plugins.set.contains(.emitter), let coding = self.coding {
                switch PrimusPluginReader(.emitter, coding).read(payload) {
                case .packet(.emitter(let packet)): return try self.received(packet, in: .channel(number), on: id, &effects)
                case .invalid(let error): throw error
                default: break
                }
            }
            guard let channel = self.plugins.channels[number] else { return }
            effects.deliver(.plugin(.message(payload)), on: channel.messages)
        case .unsubscribe(let address):
            let number = try self.plugins.joined.ended(address)
            let message = "The server ended the channel \(Excerpt.of(address.channel, limit: 100))."
            self.endChannel(number, PrimusError(.ended, message), &effects)
        // Only a client subscribes.
        case .subscribe(let address):
            throw .unknown(plugin: "multiplex", "the server can't join \(Excerpt.of(address.channel, limit: 100))")
        }
    }

    /// - Returns: Whether the stream is open. Otherwise, the packet is a message, as in the original.
    private mutating func received(_ packet: SubstreamPacket, _ effects: inout Effects<Self>) -> Bool {
        switch self.plugins.names.received(packet) {
        case .notOpen: return false
        case .message(let number, let payload):
            if let stream = self.plugins.streams[number] { effects.deliver(.plugin(.message(payload)), on: stream.messages) }
        case .ended(let number): self.endStream(number, &effects)
        }
        return true
    }

    private mutating func ignored(_ error: PrimusPluginError, _ effects: inout Effects<Self>) {
        switch error {
        case .invalidPacket:
            effects.counters.messagesIgnored += 1
            self.report(PrimusError(.invalidMessage, error.description), &effects)
        default: self.ignored(error.description, .debug, &effects)
        }
    }

    private mutating func ignored(_ message: String, _ level: LogSink.Level, _ effects: inout Effects<Self>) {
        effects.counters.messagesIgnored += 1
        effects.log(level, message)
    }

    private mutating func send(_ packet: PrimusPluginPacket, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let coding = self.coding else { return }
        do {
            self.send(try PrimusPluginWriter(coding).message(packet), coding, on: id, now: now, &effects)
        } catch {
            self.report(.encoding(error), &effects)
        }
    }

    /// Sends a packet that doesn't wait in the queue.
    private mutating func send(
        _ message: TransportMessage, _ coding: PrimusCoding, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        do throws(PrimusError) {
            try self.send(.packet(message, coding), on: id, now: now, &effects)
        } catch {
            self.report(error, &effects)
        }
    }

    /// The connection of a client that is open.
    // Mutating, as for `trace`: otherwise, each use would copy the session.
    var openConnection: ConnectionID? {
        mutating get { if case .open = self.state { self.connection.connected } else { nil } }
    }

    /// Whether the client is open, with the session that this connection belongs to: its own one, or that from which it has moved.
    mutating func isCurrent(_ id: ConnectionID) -> Bool {
        self.openConnection.map { $0 == id || self.movedConnection == id } ?? false
    }

    // MARK: Calls

    /// The encoding of the connection and a number, for a call that isn't encoded yet.
    struct PluginReservation: Sendable {
        var connection: ConnectionID
        var coding: PrimusCoding
        var number: UInt64
        /// The channel, if the call belongs to one.
        var address: MultiplexAddress?
        /// The ID of a request.
        var requestID: String?
        /// Whether the message passes transforms.
        var isTransformed: Bool
    }

    /// Determines the number of an event with an acknowledgement.
    ///
    /// - Returns: `nil` if the client isn't open, or much output waits.
    mutating func reserveEvent(_ scope: PrimusPluginState.Scope) throws(PrimusError) -> PluginReservation? {
        var address: MultiplexAddress?
        if case .channel(let number) = scope {
            guard let channel = self.plugins.channels[number] else { throw .channelEnded }
            address = channel.address
        }
        guard let connection = self.openConnection, let coding = self.coding, !self.isWritingHeld else { return nil }
        let number =
            switch scope {
            case .connection: self.plugins.emitter.calls.nextID()
            case .channel(let channel): self.plugins.channels[channel]?.emitter.calls.nextID() ?? 0
            }
        return PluginReservation(
            connection: connection, coding: coding, number: number, address: address, isTransformed: self.mayTransformOutgoing)
    }

    /// Determines the number of a request.
    ///
    /// - Returns: `nil` if the client isn't open, or much output waits.
    mutating func reserveRequest() -> PluginReservation? {
        guard let connection = self.openConnection, let coding = self.coding, !self.isWritingHeld else { return nil }
        var responses = self.plugins.responses ?? ResponderCalls(&self.plugins.generator)
        self.plugins.responses = nil
        let number = responses.nextNumber()
        self.plugins.responses = responses
        return PluginReservation(
            connection: connection, coding: coding, number: number, requestID: responses.id(number),
            isTransformed: self.mayTransformOutgoing)
    }

    /// Waits until a call can be sent: until the client is open and the server has read what was sent before.
    mutating func awaitCalls(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        switch self.state {
        case .closed where self.refusesCallers: effects.resume(waiter, .failure(self.notOpen))
        case .closed, .opening, .reconnecting: self.openCallers.insert(waiter)
        case .open:
            if self.isWritingHeld { self.writingCallers.insert(waiter) } else { effects.resume(waiter, .success(.none)) }
        }
    }

    /// Sends an event or a request, and waits for its acknowledgement or its response.
    ///
    /// - Parameter content: The message; a value if it passes the transforms.
    mutating func call(
        _ reservation: PluginReservation, _ call: PrimusPluginState.Call, _ content: PrimusContent, _ waiter: WaiterID, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        if case .acknowledgement(_, .channel(let number)) = call, !self.hasChannel(number) {
            return effects.resume(waiter, .failure(.channelEnded))
        }
        guard let id = self.openConnection, self.isCurrent(reservation.connection) else {
            let message = "The connection was lost before the message was sent."
            return effects.resume(waiter, .failure(PrimusError(.connectionLost, message)))
        }
        switch call {
        case .acknowledgement(let id, .connection): self.plugins.emitter.calls.begin(id, waiter)
        case .acknowledgement(let id, .channel(let number)): self.plugins.channels[number]?.emitter.calls.begin(id, waiter)
        case .response(let number): self.plugins.responses?.begin(number, waiter)
        }
        self.plugins.callers[waiter.rawValue] = call
        if case .value(let value) = content, self.transformsOutgoing(effects) {
            if self.transform(value, .failIfNotOpen, waiter, now: now, &effects) != nil { self.plugins.end(waiter) }
            return
        }
        do throws(PrimusError) {
            try self.send(content, on: id, now: now, &effects)
        } catch {
            self.failCall(of: waiter, error, &effects)
        }
    }

    /// Fails a call whose message isn't sent.
    mutating func failCall(of waiter: WaiterID, _ error: PrimusError, _ effects: inout Effects<Self>) {
        self.plugins.end(waiter)
        effects.resume(waiter, .failure(error))
    }

    /// Answers an event or a request of the server.
    ///
    /// - Parameters:
    ///   - content: The message; a value if it passes the transforms.
    ///   - origin: The connection on which the event or request arrived.
    /// - Returns: `false` if that connection has ended.
    mutating func answer(_ content: PrimusContent, to origin: ConnectionID, now: Instant, _ effects: inout Effects<Self>) -> Bool {
        guard let id = self.openConnection, self.isCurrent(origin) else { return false }
        switch content {
        case .value(let value):
            if let error = self.transform(value, .failIfNotOpen, nil, now: now, &effects) { self.report(error, &effects) }
        case .packet(let message, let coding): self.send(message, coding, on: id, now: now, &effects)
        }
        return true
    }

    // MARK: Channels

    /// Joins a channel.
    mutating func joinChannel(_ name: String, now: Instant, _ effects: inout Effects<Self>) -> (UInt64, MultiplexAddress) {
        let number = self.plugins.nextNumber()
        let packet = self.plugins.joined.join(name, number, &self.plugins.generator)
        guard case .subscribe(let address) = packet else { return (number, MultiplexAddress(id: "", channel: name)) }
        self.plugins.channels[number] = PrimusPluginState.Channel(address: address)
        if let id = self.openConnection { self.send(.multiplex(packet), on: id, now: now, &effects) }
        return (number, address)
    }

    mutating func leaveChannel(_ number: UInt64, now: Instant, _ effects: inout Effects<Self>) {
        guard let address = self.plugins.channels[number]?.address, let packet = self.plugins.joined.leave(address) else { return }
        if let id = self.openConnection { self.send(.multiplex(packet), on: id, now: now, &effects) }
        self.endChannel(number, PrimusError(.ended, "The channel \(Excerpt.of(address.channel, limit: 100)) was left."), &effects)
    }

    private mutating func endChannel(_ number: UInt64, _ error: PrimusError, _ effects: inout Effects<Self>) {
        guard var channel = self.plugins.channels.removeValue(forKey: number) else { return }
        for waiter in channel.emitter.calls.endAll() {
            self.plugins.callers[waiter.rawValue] = nil
            effects.resume(waiter, .failure(error))
        }
        for route in [channel.messages, channel.emitter.route] { Self.end(route, &effects) }
    }

    func hasChannel(_ number: UInt64) -> Bool { self.plugins.channels[number] != nil }

    // MARK: Streams

    func hasStream(_ number: UInt64) -> Bool { self.plugins.streams[number] != nil }

    /// Opens a stream, or returns the one with this name.
    mutating func openStream(_ name: String) -> UInt64 {
        if let number = self.plugins.names[name] { return number }
        let number = self.plugins.nextNumber()
        self.plugins.names.open(name, number)
        self.plugins.streams[number] = PrimusPluginState.Stream(name: name)
        return number
    }

    mutating func closeStream(_ number: UInt64, now: Instant, _ effects: inout Effects<Self>) {
        guard let name = self.plugins.streams[number]?.name, let packet = self.plugins.names.end(name) else { return }
        if let id = self.openConnection { self.send(.substream(packet), on: id, now: now, &effects) }
        self.endStream(number, &effects)
    }

    private mutating func endStream(_ number: UInt64, _ effects: inout Effects<Self>) {
        guard let stream = self.plugins.streams.removeValue(forKey: number) else { return }
        Self.end(stream.messages, &effects)
    }

    // MARK: Consumers

    /// The events that a consumer receives from a plugin.
    enum PluginSource: Hashable, Sendable {
        case events(PrimusPluginState.Scope)
        case emits
        case requests
        case channel(UInt64)
        case stream(UInt64)
    }

    mutating func observe(_ source: PluginSource, _ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        switch source {
        case .events(.connection): effects.routes.add(consumer, to: &self.plugins.emitter.route)
        case .events(.channel(let number)):
            guard var channel = self.plugins.channels[number] else { return Self.end(consumer, &effects) }
            effects.routes.add(consumer, to: &channel.emitter.route)
            self.plugins.channels[number] = channel
        case .emits: effects.routes.add(consumer, to: &self.plugins.emits)
        case .requests: effects.routes.add(consumer, to: &self.plugins.requests)
        case .channel(let number):
            guard var channel = self.plugins.channels[number] else { return Self.end(consumer, &effects) }
            effects.routes.add(consumer, to: &channel.messages)
            self.plugins.channels[number] = channel
        case .stream(let number):
            guard var stream = self.plugins.streams[number] else { return Self.end(consumer, &effects) }
            effects.routes.add(consumer, to: &stream.messages)
            self.plugins.streams[number] = stream
        }
    }

    /// Ends the sequences of a channel or a stream, after the events that were delivered already.
    private static func end(_ route: EventRoute, _ effects: inout Effects<Self>) {
        effects.commands.append(.endConsumers(effects.routes[route], .ended))
        effects.routes.retire(route)
    }

    /// Ends the sequence of a channel or a stream that has ended.
    private static func end(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.commands.append(.endConsumers([consumer], .ended))
    }
}

extension PrimusError {
    static let channelEnded = PrimusError(.ended, "The channel was left, or ended by the server. Join it again with channel(_:).")
    static let streamEnded = PrimusError(.ended, "The stream was ended. Open it again with substream(_:).")
}
