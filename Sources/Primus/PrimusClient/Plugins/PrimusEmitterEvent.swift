public import PrimusWire
import RealtimeCore
import RealtimeSystem

/// An event of the server, from primus-emitter or primus-emit.
///
/// ```swift
/// for await event in primus.emitter.on("question") {
///     let text = try event.decode(String.self)
///     try event.acknowledge(answer(to: text))
/// }
/// ```
/// The arguments aren't decoded until you ask for them. Decoding takes place in your task, each time you ask.
public struct PrimusEmitterEvent: Sendable {
    /// The name of the event.
    public let name: String
    let arguments: PrimusArguments
    private let answer: PluginAnswer?
    private let id: Int64?

    init(name: String, _ arguments: PrimusArguments, id: Int64?, _ answer: PluginAnswer?) {
        (self.name, self.arguments, self.id, self.answer) = (name, arguments, id, answer)
    }

    /// The number of bytes that the event holds.
    var size: Int { self.arguments.size }

    /// Whether the server waits for an acknowledgement.
    public var expectsAcknowledgement: Bool { self.answer != nil }

    /// Decodes the arguments. There may be more of them than types. A missing one is `nil` of an optional type.
    ///
    /// - Parameter types: The types of the arguments, in order.
    /// - Throws: ``PrimusError/Code/decodingFailed`` if an argument has another type, or is missing and its type isn't optional.
    public func decode<each Value: Decodable>(_ types: repeat (each Value).Type) throws(PrimusError) -> (repeat each Value) {
        do {
            return try self.arguments.decode(repeat each types)
        } catch {
            throw .arguments(error, of: self.name)
        }
    }

    /// The arguments, of any kind that the parser can carry.
    ///
    /// - Throws: ``PrimusError/Code/decodingFailed`` if an argument isn't valid for the parser.
    public var values: [PrimusValue] {
        get throws(PrimusError) {
            do {
                return try self.arguments.values()
            } catch {
                throw .decoding(error, "a value")
            }
        }
    }

    /// Answers the event with an acknowledgement, without waiting.
    ///
    /// - Parameter values: The arguments of the acknowledgement.
    /// - Returns: Whether the acknowledgement was sent: `false` if the server doesn't wait for one, if the event was acknowledged before, or if
    ///   the connection on which it arrived has ended.
    /// - Throws: ``PrimusError/Code/encodingFailed``. The event can be acknowledged with other values then.
    @discardableResult
    public func acknowledge<each Value: Encodable>(_ values: repeat each Value) throws(PrimusError) -> Bool {
        guard let answer = self.answer, let id = self.id else { return false }
        let coding = self.arguments.coding
        do {
            return try answer.send(coding) {
                .emitter(.acknowledgement(id: id, try PrimusArguments(nil, repeat each values, in: coding)))
            }
        } catch {
            throw .encoding(error)
        }
    }

    /// Answers the event with values whose number isn't known to the compiler; see ``acknowledge(_:)``.
    @discardableResult
    package func acknowledge(values: [PrimusValue]) throws(PrimusError) -> Bool {
        guard let answer = self.answer, let id = self.id else { return false }
        let coding = self.arguments.coding
        do {
            return try answer.send(coding) { .emitter(.acknowledgement(id: id, try PrimusArguments(nil, values: values, in: coding))) }
        } catch {
            throw .encoding(error)
        }
    }
}

/// A request of the server, from primus-responder.
///
/// Its value isn't decoded until you ask for it. Decoding takes place in your task, each time you ask.
public struct PrimusResponderRequest: Sendable {
    let payload: PrimusPayload
    private let id: String
    private let answer: PluginAnswer

    init(_ payload: PrimusPayload, id: String, _ answer: PluginAnswer) {
        (self.payload, self.id, self.answer) = (payload, id, answer)
    }

    /// The number of bytes that the request holds.
    var size: Int { self.payload.size }

    /// The value, of any kind that the parser can carry.
    ///
    /// - Throws: ``PrimusError/Code/decodingFailed`` if it isn't valid for the parser.
    public var value: PrimusValue {
        get throws(PrimusError) {
            do {
                return try self.payload.value()
            } catch {
                throw .decoding(error, "a value")
            }
        }
    }

    /// Decodes the value as a type of yours.
    ///
    /// - Parameter type: The type.
    /// - Returns: The decoded value.
    /// - Throws: ``PrimusError/Code/decodingFailed``, whose ``PrimusError/cause`` is the error of the decoder.
    public func decode<Value: Decodable>(as type: Value.Type = Value.self) throws(PrimusError) -> Value {
        do {
            return try self.payload.decode(type)
        } catch {
            throw .decoding(error, "\(type)")
        }
    }

    /// Sends the response, without waiting.
    ///
    /// - Parameter value: The response.
    /// - Returns: Whether the response was sent: `false` if the request was answered before, or if the connection on which it arrived has ended.
    /// - Throws: ``PrimusError/Code/encodingFailed``. The request can be answered with another value then.
    @discardableResult
    public func respond<Value: Encodable>(_ value: Value) throws(PrimusError) -> Bool {
        let coding = self.payload.coding
        do {
            return try self.answer.send(coding) {
                .responder(.response(id: self.id, try PrimusPayload(encoding: value, coding)))
            }
        } catch {
            throw .encoding(error)
        }
    }
}

/// The answer to an event or a request, which is sent once.
final class PluginAnswer: Sendable {
    /// Sends an answer on the connection on which the event arrived, unless it has ended.
    typealias Send = @Sendable (TransportMessage, PrimusCoding, ConnectionID) throws -> Bool

    private let isSent = Lock(false)
    private let connection: ConnectionID
    private let address: MultiplexAddress?
    private let send: Send

    init(on connection: ConnectionID, _ address: MultiplexAddress?, _ send: @escaping Send) {
        (self.connection, self.address, self.send) = (connection, address, send)
    }

    func send(_ coding: PrimusCoding, _ packet: () throws -> PrimusPluginPacket) throws -> Bool {
        if self.isSent.withLock({ $0 }) { return false }
        let writer = PrimusPluginWriter(coding)
        var packet = try packet()
        if let address = self.address { packet = .multiplex(.message(address, writer.payload(packet))) }
        let message = try writer.message(packet)
        let isFirst = self.isSent.withLock { isSent in
            defer { isSent = true }
            return !isSent
        }
        return try isFirst && self.send(message, coding, self.connection)
    }
}

extension PrimusError {
    static func arguments(_ error: PrimusArgumentError, of event: String) -> PrimusError {
        let message = "The arguments of \(Excerpt.of(event, limit: 200)) can't be decoded. \(error)"
        return PrimusError(.decodingFailed, message, cause: error.underlying)
    }

    /// The error of a name that Primus reserves.
    static func name(_ error: PrimusPluginError) -> PrimusError { PrimusError(.reservedEvent, error.description) }
}
