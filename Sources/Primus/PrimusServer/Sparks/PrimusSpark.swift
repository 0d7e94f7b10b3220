public import PrimusWire
public import RealtimeCore
import RealtimeEncoding
import RealtimeSystem

/// A client of a server, as Primus calls it.
///
/// A spark is a value that refers to its server and to the client's connection. After the connection has ended, its methods do nothing, or
/// throw where they are asked for a result.
public struct PrimusSpark: Sendable, Hashable {
    /// The ID of the client.
    public let id: String
    /// The request with which the client connected, with its path, query and header fields.
    public let request: HTTPRequestHead
    let server: PrimusSparkServer

    init(_ info: PrimusSparkInfo, of server: PrimusSparkServer) {
        (self.id, self.request, self.server) = (info.id, info.request, server)
    }

    /// The decoded fields of the client's query, in order.
    public var query: [(name: String, value: String)] { PercentEncoding.fields(self.request.query) ?? [] }

    /// Whether the client is connected.
    public var isOpen: Bool { self.server.driver.read { $0.openConnection(self.id) != nil } }

    /// Sparks are equal if they are the same client of the same server.
    public static func == (lhs: Self, rhs: Self) -> Bool { ByteString(lhs.id) == ByteString(rhs.id) && lhs.server === rhs.server }
    /// Combines the ID.
    public func hash(into hasher: inout Hasher) { hasher.combine(ByteString(self.id)) }

    // MARK: Writing

    /// Writes a message to the client. Messages arrive in the order in which they were written.
    ///
    /// - Parameter value: The message, which is encoded on the calling thread.
    /// - Returns: Whether the client was connected, and no transform has dropped the message.
    /// - Throws: `PrimusParserError` if the parser can't carry the value, `EncodingError`, or the error of the value's own `encode(to:)`.
    @discardableResult
    public func write(_ value: some Encodable) throws -> Bool {
        guard let packet = try self.server.packet(value) else { return false }
        var isSent = false
        self.server.driver.step { isSent = $0.write([packet], to: self.id, &$2) }
        return isSent
    }

    /// Ends the connection. The client doesn't reconnect, unless it is told that it may.
    ///
    /// - Parameter reconnects: Whether the client may reconnect.
    public func end(reconnects: Bool = false) {
        self.server.driver.step { $0.end(self.id, after: nil, reconnects: reconnects, &$2) }
    }

    /// Writes a last message and ends the connection.
    ///
    /// - Parameters:
    ///   - value: The message.
    ///   - reconnects: Whether the client may reconnect.
    /// - Throws: The errors of ``write(_:)-(Encodable)``. The connection isn't ended then.
    public func end(_ value: some Encodable, reconnects: Bool = false) throws {
        let packet = try self.server.packet(value)
        self.server.driver.step { $0.end(self.id, after: packet, reconnects: reconnects, &$2) }
    }

    // MARK: Plugins

    /// Sends an event of primus-emitter.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments.
    /// - Throws: ``PrimusServerError`` if the plugin is switched off or the name is reserved, or the errors of ``write(_:)-(Encodable)``.
    public func send<each Argument: Encodable>(_ event: String, _ arguments: repeat each Argument) throws {
        let arguments = try self.server.arguments(event, repeat each arguments)
        self.server.driver.step { _ = $0.write(.emitter(.event(name: event, arguments, id: nil)), to: self.id, &$2) }
    }

    /// Sends an event of primus-emitter, and waits for the client's acknowledgement.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments.
    ///   - limit: How long to wait. The default is 30 seconds.
    /// - Returns: The arguments of the acknowledgement.
    /// - Throws: ``PrimusServerError`` if the client disconnects or doesn't answer in time, or the task is cancelled, and the errors of
    ///   ``send(_:_:)``.
    public func call<each Argument: Encodable>(
        _ event: String, _ arguments: repeat each Argument, within limit: Duration = .seconds(30)
    ) async throws -> PrimusEventArguments {
        try await self.call(event, try self.server.arguments(event, repeat each arguments), limit)
    }

    func call(_ event: String, _ arguments: PrimusArguments, _ limit: Duration) async throws -> PrimusEventArguments {
        if Task.isCancelled { throw PrimusServerError.cancelled }
        let reply = try await self.server.driver.awaitResult(limit: limit) { machine, waiter, _, effects in
            machine.call(event, arguments, on: self.id, waiter, &effects)
        }
        return PrimusEventArguments(arguments: PrimusArguments(acknowledgement: reply))
    }

    /// Sends an event of primus-emit.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments.
    /// - Throws: ``PrimusServerError`` if the plugin is switched off or the name is reserved, or the errors of ``write(_:)-(Encodable)``.
    public func emit<each Argument: Encodable>(_ event: String, _ arguments: repeat each Argument) throws {
        try self.server.validateEmit(event)
        self.emit(event, try PrimusArguments(event, repeat each arguments, in: self.server.coding))
    }

    func emit(_ event: String, _ arguments: PrimusArguments) {
        self.server.driver.step { _ = $0.write(.emit(EmitPacket(name: event, arguments)), to: self.id, &$2) }
    }

    /// Sends an event whose arguments' number isn't known to the compiler, with primus-emitter or, if the server has that alone, with
    /// primus-emit.
    package func send(_ event: String, values: [PrimusValue]) throws {
        let packet = try self.server.packet(event, values: values)
        self.server.driver.step { _ = $0.write(packet, to: self.id, &$2) }
    }

    /// Sends a message on a stream of substream.
    ///
    /// - Parameters:
    ///   - name: The name of the stream.
    ///   - value: The message.
    /// - Throws: ``PrimusServerError`` if the plugin is switched off, or the errors of ``write(_:)-(Encodable)``.
    public func write(_ value: some Encodable, toSubstream name: String) throws {
        try self.server.require(.substream)
        let payload = try PrimusPayload(encoding: value, self.server.coding)
        self.server.driver.step { _ = $0.write(.substream(.message(name: name, payload)), to: self.id, &$2) }
    }

    /// Ends a stream of substream.
    public func endSubstream(_ name: String) {
        self.server.driver.step { _ = $0.write(.substream(.end(name: name)), to: self.id, &$2) }
    }

    /// Sends a request of primus-responder, and waits for the response.
    ///
    /// - Parameters:
    ///   - value: The request.
    ///   - type: The type of the response.
    ///   - limit: How long to wait. The default is 30 seconds.
    /// - Returns: The response.
    /// - Throws: ``PrimusServerError`` if the client disconnects or doesn't answer in time, the task is cancelled or the plugin is switched off;
    ///   `DecodingError`, or the errors of ``write(_:)-(Encodable)``.
    public func request<Response: Decodable>(
        _ value: some Encodable, as type: Response.Type = Response.self, within limit: Duration = .seconds(30)
    ) async throws -> Response {
        try self.server.require(.responder)
        let payload = try PrimusPayload(encoding: value, self.server.coding)
        if Task.isCancelled { throw PrimusServerError.cancelled }
        let reply = try await self.server.driver.awaitResult(limit: limit) { machine, waiter, _, effects in
            machine.request(payload, on: self.id, waiter, &effects)
        }
        return try reply.decode(type)
    }
}

/// The parts of a server that its sparks use, without the server itself.
final class PrimusSparkServer: Sendable {
    let driver: SessionDriver<PrimusServerMachine>
    let configuration: PrimusServerConfiguration
    let coding: PrimusCoding

    init(_ driver: SessionDriver<PrimusServerMachine>, _ configuration: PrimusServerConfiguration) {
        (self.driver, self.configuration, self.coding) = (driver, configuration, configuration.coding)
    }

    /// Encodes a message; `nil` if a transform drops it.
    func packet(_ value: some Encodable) throws -> TransportMessage? {
        guard let transform = self.configuration.transformOutgoing else {
            if let value = value as? PrimusValue { return try self.coding.message(value, sendsBytes: false) }
            return try self.coding.message(encoding: value, sendsBytes: false)
        }
        guard let value = transform(try PrimusValue(encoding: value)) else { return nil }
        return try self.coding.message(value, sendsBytes: false)
    }

    func require(_ plugin: PrimusServerPlugins) throws(PrimusServerError) {
        guard !self.configuration.plugins.contains(plugin) else { return }
        throw .pluginDisabled(plugin.wire.names.first ?? "")
    }

    /// Throws if an event can't be sent with primus-emitter.
    func validate(_ event: String) throws(PrimusServerError) {
        try self.require(.emitter)
        do throws(PrimusPluginError) {
            try PrimusEventName.validate(event, for: .client)
        } catch {
            throw .invalid(error.description)
        }
    }

    /// Throws if an event can't be sent with primus-emit.
    func validateEmit(_ event: String) throws(PrimusServerError) {
        try self.require(.emit)
        do throws(PrimusPluginError) {
            try PrimusEventName.validateEmit(event)
        } catch {
            throw .invalid(error.description)
        }
    }

    /// Encodes an event with primus-emitter or, if the server has that alone, with primus-emit.
    func packet(_ event: String, values: [PrimusValue]) throws -> PrimusPluginPacket {
        if self.configuration.plugins.contains(.emitter) {
            try self.validate(event)
            return .emitter(.event(name: event, try PrimusArguments(event, values: values, in: self.coding), id: nil))
        }
        try self.validateEmit(event)
        return .emit(EmitPacket(name: event, try PrimusArguments(event, values: values, in: self.coding)))
    }

    /// Encodes the arguments of an event of primus-emitter, whose number isn't known to the compiler.
    func arguments(_ event: String, values: [PrimusValue]) throws -> PrimusArguments {
        try self.validate(event)
        return try PrimusArguments(event, values: values, in: self.coding)
    }

    /// Encodes the arguments of an event of primus-emitter.
    func arguments<each Argument: Encodable>(_ event: String, _ arguments: repeat each Argument) throws -> PrimusArguments {
        try self.validate(event)
        return try PrimusArguments(event, repeat each arguments, in: self.coding)
    }

    /// The spark with an ID; `nil` if it has disconnected.
    func spark(_ id: String) -> PrimusSpark? {
        self.driver.read { machine in
            machine.connection(named: id).flatMap { machine.connections[$0]?.spark }
        }.map { PrimusSpark($0, of: self) }
    }
}

/// The arguments of an event or of an acknowledgement.
public struct PrimusEventArguments: Sendable {
    let arguments: PrimusArguments

    /// Decodes arguments. There may be more of them than types. A missing one is `nil` of an optional type.
    ///
    /// - Parameter types: The types of the arguments.
    /// - Returns: The arguments.
    /// - Throws: An error that names the position and the type of the first argument that is missing or has another type.
    public func decode<each Argument: Decodable>(_ types: repeat (each Argument).Type) throws -> (repeat each Argument) {
        try self.arguments.decode(repeat each types)
    }

    /// The arguments as values.
    ///
    /// - Throws: `PrimusParserError` for arguments that exceed the limits.
    public var values: [PrimusValue] { get throws { try self.arguments.values() } }
}
