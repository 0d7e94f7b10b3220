import PrimusWire
import RealtimeCore
import RealtimeSystem

/// The calls of plugins on a client's connection.
struct PluginCalls: Sendable {
    let driver: SessionDriver<PrimusSession>
    private let plugins: PrimusPluginSet

    init(_ connection: PrimusConnection) { (self.driver, self.plugins) = (connection.driver, connection.standardPlugins) }

    func has(_ plugins: PrimusPluginSet) -> Bool { self.plugins.isSuperset(of: plugins) }

    /// Throws if one of the plugins is off.
    func check(_ plugins: PrimusPluginSet) throws(PrimusError) {
        guard !self.has(plugins) else { return }
        let missing = plugins.subtracting(self.plugins).names
        let list = missing.map { ".\($0)" }.joined(separator: ", ")
        throw PrimusError(
            .pluginOff, "The plugin \(missing.joined(separator: ", ")) is off. Add it to the configuration: plugins = [\(list)].")
    }

    // MARK: Calls that are answered

    /// Sends an event and waits for its acknowledgement.
    ///
    /// If the client is opening or reconnects, the call waits until it is open.
    func acknowledgement<each Argument: Encodable>(
        of event: String, in scope: PrimusPluginState.Scope, _ arguments: repeat each Argument, within limit: Duration?
    ) async throws(PrimusError) -> PrimusArguments {
        try await self.acknowledgement(of: event, in: scope, within: limit) { coding in
            try PrimusArguments(event, repeat each arguments, in: coding)
        }
    }

    /// Sends an event and waits for its acknowledgement, as ``acknowledgement(of:in:_:within:)``.
    ///
    /// - Parameter arguments: Returns the arguments in an encoding. Its error is one of encoding.
    func acknowledgement(
        of event: String, in scope: PrimusPluginState.Scope, within limit: Duration?, _ arguments: (PrimusCoding) throws -> PrimusArguments
    ) async throws(PrimusError) -> PrimusArguments {
        let result = try await self.result(within: limit) { (session) throws(PrimusError) in
            try session.reserveEvent(scope)
        } encode: { reservation throws(PrimusError) in
            let packet: PrimusPluginPacket
            do {
                packet = .emitter(.event(name: event, try arguments(reservation.coding), id: Int64(reservation.number)))
            } catch {
                throw .encoding(error)
            }
            return (packet, .acknowledgement(reservation.number, scope))
        }
        guard case .plugin(.acknowledgement(let arguments)) = result else { throw .cancelled }
        return arguments
    }

    /// Sends a request and waits for its response, as ``acknowledgement(of:in:_:within:)``.
    func response<Value: Encodable>(to value: Value, within limit: Duration?) async throws(PrimusError) -> PrimusPayload {
        let result = try await self.result(within: limit) { (session) throws(PrimusError) in
            session.reserveRequest()
        } encode: { reservation throws(PrimusError) in
            let packet: PrimusPluginPacket
            do {
                packet = .responder(.request(id: reservation.requestID ?? "", try PrimusPayload(encoding: value, reservation.coding)))
            } catch {
                throw .encoding(error)
            }
            return (packet, .response(reservation.number))
        }
        guard case .plugin(.response(let payload)) = result else { throw .cancelled }
        return payload
    }

    private func result(
        within limit: Duration?, reserve: (inout PrimusSession) throws(PrimusError) -> PrimusSession.PluginReservation?,
        encode: (PrimusSession.PluginReservation) throws(PrimusError) -> (PrimusPluginPacket, PrimusPluginState.Call)
    ) async throws(PrimusError) -> PrimusSession.WaiterResult {
        if Task.isCancelled { throw .cancelled }
        var reserved: PrimusSession.PluginReservation?
        let rest = try await self.driver.sendWhenWritable(limit: limit) { () throws(PrimusError) in
            // Without effects, so that it costs less than a step.
            try self.driver.send { session throws(PrimusError) in
                reserved = try reserve(&session)
                return nil
            }
            return reserved != nil
        } wait: { session, waiter, effects in
            session.awaitCalls(waiter, &effects)
        }
        guard let reservation = reserved else { throw .cancelled }
        let (packet, call) = try encode(reservation)
        let message = try Self.message(packet, reservation.address, reservation.coding)
        let content = try Self.content(message, reservation.coding, isTransformed: reservation.isTransformed)
        return try await self.driver.awaitResult(limit: rest, of: limit) { session, waiter, now, effects in
            session.call(reservation, call, content, waiter, now: now, &effects)
        }
    }

    /// Returns a message as a value if it passes transforms.
    private static func content(
        _ message: TransportMessage, _ coding: PrimusCoding, isTransformed: Bool
    ) throws(PrimusError) -> PrimusContent {
        guard isTransformed else { return .packet(message, coding) }
        do {
            return .value(try coding.value(of: message))
        } catch {
            throw .encoding(error)
        }
    }

    /// Encodes a packet, on a channel if there is one.
    static func message(
        _ packet: PrimusPluginPacket, _ address: MultiplexAddress?, _ coding: PrimusCoding
    ) throws(PrimusError) -> TransportMessage {
        let writer = PrimusPluginWriter(coding)
        do {
            guard let address else { return try writer.message(packet) }
            return try writer.message(.multiplex(.message(address, writer.payload(packet))))
        } catch {
            throw .encoding(error)
        }
    }

    // MARK: Messages

    /// Sends a packet that isn't answered, as a message of the application.
    ///
    /// - Parameters:
    ///   - address: The channel in whose messages the packet is, if it isn't a packet of the connection itself.
    ///   - scope: The channel that must not have ended.
    ///   - packet: Returns the packet in an encoding. Its error is one of encoding.
    func write(
        _ address: MultiplexAddress?, in scope: PrimusPluginState.Scope, _ packet: (PrimusCoding) throws -> PrimusPluginPacket
    ) async throws(PrimusError) {
        if Task.isCancelled { throw .cancelled }
        let (coding, isEnded, isTransformed) = self.driver.read { session in
            var isEnded = false
            if case .channel(let number) = scope { isEnded = !session.hasChannel(number) }
            return (session.coding, isEnded, session.mayTransformOutgoing)
        }
        if isEnded { throw .channelEnded }
        guard let coding, !isTransformed else {
            // The parser isn't known yet, or transforms expect a value.
            let value = try Self.value(packet, address)
            _ = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
                session.transform(value, .queue, waiter, now: now, &effects)
            }
            return
        }
        let message: TransportMessage
        do {
            message = try Self.message(try packet(coding), address, coding)
        } catch let error as PrimusError {
            throw error
        } catch {
            throw .encoding(error)
        }
        // Usually, nothing waits. Another asynchronous call would cost as much as the sending itself.
        let content = PrimusContent.packet(message, coding)
        if try self.driver.sendNow(content, awaitsAnswer: true) { return }
        _ = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
            session.write(content, .queue, waiter, now: now, &effects)
        }
    }

    /// Returns a packet as a value.
    private static func value(
        _ packet: (PrimusCoding) throws -> PrimusPluginPacket, _ address: MultiplexAddress?
    ) throws(PrimusError) -> PrimusValue {
        // An encoding in which packets are trees.
        let coding = PrimusCoding.binary
        do {
            let packet = try packet(coding)
            guard let address else { return PrimusPluginWriter.value(packet) }
            return PrimusPluginWriter.value(.multiplex(.message(address, PrimusPluginWriter(coding).payload(packet))))
        } catch {
            throw .encoding(error)
        }
    }

    // MARK: Consumers

    /// Sends answers, without keeping the client alive.
    var answer: PluginAnswer.Send {
        { [weak driver = self.driver] message, coding, connection in
            guard let driver else { return false }
            let isTransformed = driver.read { $0.mayTransformOutgoing }
            let content = try Self.content(message, coding, isTransformed: isTransformed)
            var isSent = false
            driver.step { session, now, effects in isSent = session.answer(content, to: connection, now: now, &effects) }
            return isSent
        }
    }

    /// Converts an event to one that the application sees.
    ///
    /// - Parameters:
    ///   - name: The name of the events; `nil` for any name.
    ///   - address: The channel of the events, if there is one.
    func event(_ name: String?, _ address: MultiplexAddress?) -> @Sendable (PrimusPluginEvent) -> PrimusEmitterEvent? {
        let (answer, key) = (self.answer, name.map { ByteString($0) })
        return { event in
            guard case .event(let name, let arguments, let id, let connection) = event, key == nil || key == ByteString(name) else {
                return nil
            }
            return PrimusEmitterEvent(name: name, arguments, id: id, id.map { _ in PluginAnswer(on: connection, address, answer) })
        }
    }

    /// A sequence of events.
    func events(
        _ source: PrimusSession.PluginSource, _ name: String?, _ address: MultiplexAddress?
    ) -> EventSequence<PrimusEmitterEvent> {
        self.sequence(source, self.event(name, address)) { $0.size }
    }

    static let message: @Sendable (PrimusPluginEvent) -> PrimusPluginMessage? = { event in
        if case .message(let payload) = event { PrimusPluginMessage(payload: payload) } else { nil }
    }

    /// A sequence of the messages of a channel or a stream.
    func messages(_ source: PrimusSession.PluginSource) -> EventSequence<PrimusPluginMessage> {
        self.sequence(source, Self.message) { $0.payload.size }
    }

    /// Converts a request to one that the application sees.
    var request: @Sendable (PrimusPluginEvent) -> PrimusResponderRequest? {
        let answer = self.answer
        return { event in
            guard case .request(let payload, let id, let connection) = event else { return nil }
            return PrimusResponderRequest(payload, id: id, PluginAnswer(on: connection, nil, answer))
        }
    }

    /// A sequence of elements from a plugin, which pauses reading when the consumer is slower than the server.
    func sequence<Element: Sendable>(
        _ source: PrimusSession.PluginSource, _ element: @escaping @Sendable (PrimusPluginEvent) -> Element?,
        size: @escaping @Sendable (Element) -> Int
    ) -> EventSequence<Element> {
        let buffer = self.driver.read { $0.options.messageBuffer }
        return self.driver.makeSequence(
            .pauseReading(buffer.count), byteLimit: ByteLimit<Element>(buffer.bytes, size: size), lifetime: .client,
            reportsRelease: true, convert: Self.conversion(element)
        ) { session, consumer, effects in
            session.observe(source, consumer, &effects)
        }
    }

    /// Calls a closure with elements from a plugin.
    func observe<Element: Sendable>(
        _ source: PrimusSession.PluginSource, named name: String, on executor: PrimusCallbackExecutor,
        _ element: @escaping @Sendable (PrimusPluginEvent) -> Element?, _ callback: @escaping @Sendable (Element) -> Void
    ) -> PrimusObservation {
        let buffer = self.driver.read { $0.options.messageBuffer }
        return self.driver.observe(
            .pauseReading(buffer.count), lifetime: .client, named: name, on: executor,
            convert: Self.conversion(element), calls: CallbackCalls(callback)
        ) { session, consumer, effects in
            session.observe(source, consumer, &effects)
        }
    }

    private static func conversion<Element>(
        _ element: @escaping @Sendable (PrimusPluginEvent) -> Element?
    ) -> @Sendable (ArraySlice<PrimusEvent>, inout [Element]) -> Void {
        { events, output in
            for case .plugin(let event) in events { if let element = element(event) { output.append(element) } }
        }
    }
}
